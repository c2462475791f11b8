//! Two things that may come: one that is wanted, and one that ends the waiting for it.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;

/// Does the first until the second is ready. If both are, the second counts.
pub(crate) async fn until<T, S>(work: impl Future<Output = T>, stop: impl Future<Output = S>) -> Option<T> {
    let (mut work, mut stop) = (pin!(work), pin!(stop));
    poll_fn(|context| match stop.as_mut().poll(context) {
        Poll::Ready(_) => Poll::Ready(None),
        Poll::Pending => work.as_mut().poll(context).map(Some),
    })
    .await
}
