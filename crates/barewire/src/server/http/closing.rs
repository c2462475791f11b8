//! The end of a server, told to all who would go on.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::sync::watch;

/// Tells everybody.
#[derive(Debug)]
pub(super) struct Close(watch::Sender<bool>);

/// Is told. Ready once, and never again.
pub(super) struct Closing(Option<Pin<Box<dyn Future<Output = ()> + Send>>>);

impl Close {
    pub(super) fn new() -> Self {
        Self(watch::Sender::new(false))
    }

    pub(super) fn close(&self) {
        self.0.send_replace(true);
    }

    pub(super) fn is_closed(&self) -> bool {
        *self.0.borrow()
    }

    /// Waits for it.
    pub(super) async fn told(&self) {
        let mut told = self.0.subscribe();
        let _ = told.wait_for(|closed| *closed).await;
    }

    pub(super) fn wait(&self) -> Closing {
        let mut told = self.0.subscribe();
        Closing(Some(Box::pin(async move {
            // If nobody can tell, it is over as well.
            let _ = told.wait_for(|closed| *closed).await;
        })))
    }
}

impl Closing {
    pub(super) fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let Some(told) = &mut self.0 else { return Poll::Pending };
        std::task::ready!(told.as_mut().poll(context));
        self.0 = None;
        Poll::Ready(())
    }
}
