//! The state of a legacy client: its name and capabilities from `initialize`, its log level and its subscriptions.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use barewire_proto::mcp::{ClientCapabilities, Implementation, LoggingLevel, SubscriptionFilter};

use super::watch::ChangeWatch;

/// The client of a legacy connection.
#[derive(Debug)]
pub(super) struct LegacyClient {
    /// The client's name and version. `None` if the client is served before `initialize`.
    pub(super) info: Option<Implementation>,
    pub(super) capabilities: ClientCapabilities,
    pub(super) watch: Arc<ChangeWatch>,
    log_level: AtomicU8,
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
        Self { info, capabilities, watch, log_level }
    }

    /// Returns the lowest level of log messages that the client wants. The default is `info`.
    pub(super) fn log_level(&self) -> LoggingLevel {
        let number = usize::from(self.log_level.load(Ordering::Relaxed));
        LoggingLevel::ALL.get(number).copied().unwrap_or(LoggingLevel::Info)
    }

    pub(super) fn set_log_level(&self, level: LoggingLevel) {
        self.log_level.store(number(level), Ordering::Relaxed);
    }
}

fn number(level: LoggingLevel) -> u8 {
    let at = LoggingLevel::ALL.iter().position(|known| *known == level);
    at.and_then(|at| u8::try_from(at).ok()).unwrap_or_default()
}
