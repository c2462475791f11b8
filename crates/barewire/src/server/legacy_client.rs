//! The state of a legacy client: its name and capabilities from `initialize`, its log level and its subscriptions.

#[cfg(feature = "http")]
use std::sync::atomic::AtomicBool;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, OnceLock};

#[cfg(feature = "http")]
use barewire_proto::mcp::Revision;
use barewire_proto::mcp::{ClientCapabilities, Implementation, LoggingLevel, SubscriptionFilter};

use super::seal;
use super::task::TaskOwner;
use super::watch::ChangeWatch;
use crate::Failure;

/// The client of a legacy connection.
#[derive(Debug)]
pub(super) struct LegacyClient {
    /// The client's name and version. `None` if the client is served before `initialize`.
    pub(super) info: Option<Implementation>,
    pub(super) capabilities: ClientCapabilities,
    pub(super) watch: Arc<ChangeWatch>,
    log_level: AtomicU8,
    /// The owner of the tasks of this connection, if it has ever had any.
    task_owner: OnceLock<TaskOwner>,
    /// Whether the owner also has other connections, so that its tasks do not end with this one.
    owner_is_shared: bool,
}

/// What others than the connection itself know about its handshake.
#[cfg(feature = "http")]
#[derive(Debug, Default)]
pub(super) struct HandshakeFacts {
    /// The revision that `initialize` negotiated.
    pub(super) revision: OnceLock<Revision>,
    /// The client that `initialize` described.
    pub(super) client: OnceLock<Arc<LegacyClient>>,
    /// Whether the client has confirmed the handshake.
    pub(super) is_complete: AtomicBool,
    /// The owner of the tasks of the client, if it has several connections.
    pub(super) shared_owner: Option<TaskOwner>,
}

impl LegacyClient {
    /// Creates the state from the params of `initialize`. `watch` holds the subscriptions that were made before
    /// `initialize`, if there are any.
    pub(super) fn new(
        info: Option<Implementation>,
        capabilities: ClientCapabilities,
        watch: Option<Arc<ChangeWatch>>,
    ) -> Self {
        // A legacy client gets a notification for every list that changes.
        let wants = SubscriptionFilter::default()
            .tools_list_changed(true)
            .prompts_list_changed(true)
            .resources_list_changed(true);
        let log_level = AtomicU8::new(number(LoggingLevel::Info));
        let watch = watch.unwrap_or_else(|| Arc::new(ChangeWatch::new(wants)));
        Self { info, capabilities, watch, log_level, task_owner: OnceLock::new(), owner_is_shared: false }
    }

    /// Makes the tasks of this connection belong to an owner that also has other connections.
    #[cfg(feature = "http")]
    pub(super) fn with_shared_owner(self, owner: Option<&TaskOwner>) -> Self {
        match owner {
            Some(owner) => Self { task_owner: OnceLock::from(owner.clone()), owner_is_shared: true, ..self },
            None => self,
        }
    }

    /// Returns the lowest level of log messages that the client wants. The default is `info`.
    pub(super) fn log_level(&self) -> LoggingLevel {
        let number = usize::from(self.log_level.load(Ordering::Relaxed));
        LoggingLevel::ALL.get(number).copied().unwrap_or(LoggingLevel::Info)
    }

    /// Returns the owner of the tasks of this connection.
    pub(super) fn task_owner(&self) -> Result<TaskOwner, Failure> {
        if self.task_owner.get().is_none() {
            // If another thread has set the owner in the meantime, that owner is used.
            let _ = self.task_owner.set(TaskOwner::connection(&seal::random_name()?));
        }
        Ok(self.task_owner.get().expect("the owner has just been set").clone())
    }

    /// Returns the owner of the tasks that end with this connection, if it has ever had any.
    pub(super) fn ending_task_owner(&self) -> Option<&TaskOwner> {
        self.task_owner.get().filter(|_| !self.owner_is_shared)
    }

    pub(super) fn set_log_level(&self, level: LoggingLevel) {
        self.log_level.store(number(level), Ordering::Relaxed);
    }
}

fn number(level: LoggingLevel) -> u8 {
    let at = LoggingLevel::ALL.iter().position(|known| *known == level);
    at.and_then(|at| u8::try_from(at).ok()).unwrap_or_default()
}
