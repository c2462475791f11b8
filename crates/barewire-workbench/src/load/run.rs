//! The parts of a load that all servers share: settings, time, the request to stop, and the progress callback.

use tokio::sync::watch;

use super::settings::LoadSettings;
use super::tally::Tally;
use crate::platform::PreciseTimer;

pub(super) struct LoadRun<'a> {
    pub(super) settings: &'a LoadSettings,
    pub(super) timer: PreciseTimer,
    pub(super) stop: watch::Receiver<bool>,
    pub(super) on_progress: &'a mut (dyn FnMut(Progress<'_>) + Send),
    /// The name of the server whose turn it is.
    pub(super) server: String,
    pub(super) is_warm_up: bool,
}

/// The progress of a load.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub struct Progress<'a> {
    /// The name of the server whose turn it is.
    pub server: &'a str,
    /// Whether this is the warm-up, which is not counted.
    pub is_warm_up: bool,
    /// The counts of this server so far.
    pub tally: &'a Tally,
}

/// A handle that ends a load early, from any task or thread. All clones of a handle end the same load.
#[derive(Clone, Debug, Default)]
pub struct StopHandle(watch::Sender<bool>);

impl StopHandle {
    /// Creates a handle for a load.
    pub fn new() -> Self {
        Self::default()
    }

    /// Ends the load. Open requests are neither waited for nor counted.
    pub fn stop(&self) {
        self.0.send_replace(true);
    }

    /// Whether [`stop`](Self::stop) was called.
    pub fn is_requested(&self) -> bool {
        *self.0.borrow()
    }

    pub(super) fn subscribe(&self) -> watch::Receiver<bool> {
        self.0.subscribe()
    }
}

impl LoadRun<'_> {
    pub(super) fn report(&mut self, tally: &Tally) {
        (self.on_progress)(Progress { server: &self.server, is_warm_up: self.is_warm_up, tally });
    }

    pub(super) fn is_stop_requested(&self) -> bool {
        *self.stop.borrow()
    }
}

pub(super) async fn stop_requested(stop: &mut watch::Receiver<bool>) {
    if stop.wait_for(|is_requested| *is_requested).await.is_err() {
        // Every handle was dropped, so no stop can be requested.
        std::future::pending().await
    }
}
