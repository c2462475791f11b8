//! The signal that tells all tasks of a server to shut down.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::sync::watch;

/// The sender of the shutdown signal.
#[derive(Debug)]
pub(super) struct ShutdownSignal(watch::Sender<bool>);

/// A receiver of the shutdown signal. It returns ready once, and is pending after that.
pub(super) struct ShutdownWait(Option<Pin<Box<dyn Future<Output = ()> + Send>>>);

impl ShutdownSignal {
    pub(super) fn new() -> Self {
        Self(watch::Sender::new(false))
    }

    pub(super) fn begin(&self) {
        self.0.send_replace(true);
    }

    pub(super) fn has_begun(&self) -> bool {
        *self.0.borrow()
    }

    /// Waits for the shutdown to begin.
    pub(super) async fn wait(&self) {
        let mut receiver = self.0.subscribe();
        let _ = receiver.wait_for(|begun| *begun).await;
    }

    pub(super) fn subscribe(&self) -> ShutdownWait {
        let mut receiver = self.0.subscribe();
        ShutdownWait(Some(Box::pin(async move {
            // An error means that the sender was dropped, which is treated like the signal.
            let _ = receiver.wait_for(|begun| *begun).await;
        })))
    }
}

impl ShutdownWait {
    pub(super) fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let Some(wait) = &mut self.0 else { return Poll::Pending };
        std::task::ready!(wait.as_mut().poll(context));
        self.0 = None;
        Poll::Ready(())
    }
}
