//! A handler that computes or blocks -> a thread of its own, which lets go of it when nobody waits any more.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;

use tokio::runtime::Handle;
use tokio::sync::{Semaphore, oneshot};

use super::Call;
use crate::Failure;

/// Runs `work` on a thread. If this is dropped, so is the work, at its next `await`; and if it has not begun, it never does.
/// What it asks through `call` in one poll is asked in one go.
pub(super) async fn run<T: Send + 'static>(
    work: impl Future<Output = Result<T, Failure>> + Send + 'static,
    call: Option<Call>,
) -> Result<T, Failure> {
    if let Some(call) = &call {
        call.rounds().hold();
    }
    let permit = THREADS.acquire().await;
    let (waits, gone) = oneshot::channel::<()>();
    let runtime = Handle::current();
    let thread = tokio::task::spawn_blocking(move || {
        let _permit = permit;
        runtime.block_on(async move {
            let (mut work, mut gone) = (pin!(work), pin!(gone));
            poll_fn(|context| {
                if gone.as_mut().poll(context).is_ready() {
                    return Poll::Ready(None);
                }
                let polled = work.as_mut().poll(context).map(Some);
                if let Some(call) = &call {
                    call.rounds().release();
                }
                polled
            })
            .await
        })
    });
    let outcome = thread.await;
    drop(waits);
    match outcome {
        Ok(Some(outcome)) => outcome,
        Ok(None) => Err(Failure::internal("cancelled", "nobody waits for it any more")),
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(_) => Err(Failure::internal("cancelled", "the runtime is shutting down")),
        },
    }
}

/// As many threads as tokio has for all that blocks, unless it is told otherwise: more would only wait for one.
static THREADS: Semaphore = Semaphore::const_new(512);
