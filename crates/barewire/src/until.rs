//! Runs a future until another future is ready.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;

/// Runs `work` until `stop` is ready. Returns `None` if `stop` was ready first, or if both were ready at the same time.
pub(crate) async fn until<T, S>(work: impl Future<Output = T>, stop: impl Future<Output = S>) -> Option<T> {
    let (mut work, mut stop) = (pin!(work), pin!(stop));
    poll_fn(|context| match stop.as_mut().poll(context) {
        Poll::Ready(_) => Poll::Ready(None),
        Poll::Pending => work.as_mut().poll(context).map(Some),
    })
    .await
}
