//! A request to end a load before its time, from any task or thread.

use tokio::sync::watch;

/// A handle that ends a load before its time. Clones belong to the same load.
#[derive(Clone, Debug, Default)]
pub struct StopHandle(watch::Sender<bool>);

impl StopHandle {
    /// Makes a handle; a load that is given it goes on until [`stop`](Self::stop) is called.
    pub fn new() -> Self {
        Self::default()
    }

    /// Ends the load. Requests that are open are neither waited for nor counted.
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
