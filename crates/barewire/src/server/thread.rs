//! Runs a blocking handler on a separate thread. The handler is dropped if its request is cancelled.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;

use tokio::runtime::Handle;
use tokio::sync::{Semaphore, oneshot};

use super::Call;
use crate::Failure;
use crate::peer::Context;

/// Runs `work` on a separate thread. If the returned future is dropped, `work` is dropped at its next `await`, or never
/// starts. Questions that `work` asks through `call` in one poll are sent together.
pub(super) async fn run<T: Send + 'static>(
    work: impl Future<Output = Result<T, Failure>> + Send + 'static,
    call: Option<Call>,
    context: Context,
) -> Result<T, Failure> {
    if let Some(call) = &call {
        call.rounds().hold_questions();
    }
    let permit = THREAD_PERMITS.acquire().await;
    let (keep_running, cancelled) = oneshot::channel::<()>();
    let runtime = Handle::current();
    let thread = tokio::task::spawn_blocking(move || {
        // The context exists as long as the handler's arguments do, also after the request is cancelled.
        let (_permit, _context) = (permit, context);
        runtime.block_on(async move {
            let (mut work, mut cancelled) = (pin!(work), pin!(cancelled));
            poll_fn(|context| {
                if cancelled.as_mut().poll(context).is_ready() {
                    return Poll::Ready(None);
                }
                let polled = work.as_mut().poll(context).map(Some);
                if let Some(call) = &call {
                    call.rounds().release_questions();
                }
                polled
            })
            .await
        })
    });
    let outcome = thread.await;
    drop(keep_running);
    match outcome {
        Ok(Some(outcome)) => outcome,
        Ok(None) => Err(Failure::internal("cancelled", "the request was cancelled before the handler finished")),
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(_) => Err(Failure::internal("cancelled", "the runtime is shutting down")),
        },
    }
}

/// Limits the number of concurrent handlers to tokio's default number of blocking threads: more handlers would only
/// wait for a thread.
static THREAD_PERMITS: Semaphore = Semaphore::const_new(512);
