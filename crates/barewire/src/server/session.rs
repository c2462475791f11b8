//! What a legacy client said at the beginning, and has asked for since.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use barewire_proto::mcp::{ClientCapabilities, Implementation, LoggingLevel, SubscriptionFilter};

use super::watch::Watch;

/// A connection of the legacy era, from `initialize` on.
#[derive(Debug)]
pub(super) struct Session {
    /// `None` if it is served although it has not introduced itself.
    pub(super) info: Option<Implementation>,
    pub(super) capabilities: ClientCapabilities,
    pub(super) watch: Arc<Watch>,
    log_level: AtomicU8,
}

impl Session {
    /// A client that says this of itself, and is told what it has asked for before, if it has.
    pub(super) fn new(
        info: Option<Implementation>,
        capabilities: ClientCapabilities,
        watch: Option<Arc<Watch>>,
    ) -> Self {
        // A legacy client is told of every list that it could ask for.
        let wants = SubscriptionFilter::default()
            .tools_list_changed(true)
            .prompts_list_changed(true)
            .resources_list_changed(true);
        let log_level = AtomicU8::new(number(LoggingLevel::Info));
        let watch = watch.unwrap_or_else(|| Arc::new(Watch::new(wants)));
        Self { info, capabilities, watch, log_level }
    }

    /// From which level on it wants log messages. Until it has said so, from `info` on.
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
