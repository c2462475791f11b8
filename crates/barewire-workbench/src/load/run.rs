//! The parts of a load that all servers share: its settings, the time, the wish to stop, and the caller's look at how it goes.

use tokio::sync::watch;

use super::settings::LoadSettings;
use super::tally::Tally;
use crate::platform::PreciseTimer;

/// A load while it is under way.
pub(super) struct LoadRun<'a> {
    pub(super) settings: &'a LoadSettings,
    pub(super) timer: PreciseTimer,
    pub(super) stop: watch::Receiver<bool>,
    pub(super) on_progress: &'a mut (dyn FnMut(Progress<'_>) + Send),
    /// The server that has its turn.
    pub(super) server: String,
    pub(super) is_warm_up: bool,
}

/// The state of a load while it is under way.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub struct Progress<'a> {
    /// The name of the server that has its turn.
    pub server: &'a str,
    /// Whether this does not count yet.
    pub is_warm_up: bool,
    /// The counts of this server so far.
    pub tally: &'a Tally,
}

impl LoadRun<'_> {
    pub(super) fn report(&mut self, tally: &Tally) {
        (self.on_progress)(Progress { server: &self.server, is_warm_up: self.is_warm_up, tally });
    }

    pub(super) fn is_stop_requested(&self) -> bool {
        *self.stop.borrow()
    }
}

/// Waits until a stop is requested.
pub(super) async fn stop_requested(stop: &mut watch::Receiver<bool>) {
    if stop.wait_for(|is_requested| *is_requested).await.is_err() {
        // Every handle is gone, so no request can come.
        std::future::pending().await
    }
}
