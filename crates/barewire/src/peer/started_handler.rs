//! A running handler: a trait through which the engine polls a future of any type and writes the answer from its
//! outcome.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use barewire_proto::rpc::Reply;
use pin_project_lite::pin_project;
use serde::Serialize;

use super::Raw;
use crate::Failure;

/// A handler that has been started. It is polled until it is ready; then its outcome is taken once. Polling and taking
/// the outcome are two steps, so that messages that the handler sent can be written before its answer.
pub(crate) trait StartedHandler: Send {
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()>;

    /// Appends a response with the result to `out`; `Err` if the handler failed.
    fn answer(self: Pin<&mut Self>, reply: Reply<'_>, out: &mut Vec<u8>) -> Result<(), Failure>;

    /// Returns the failure, if the handler failed. A result is dropped.
    fn failure(self: Pin<&mut Self>) -> Option<Failure>;

    /// Returns the outcome, with the result as JSON.
    fn outcome(self: Pin<&mut Self>) -> Result<Raw, Failure>;
}

pub(crate) type BoxedHandler = Pin<Box<dyn StartedHandler>>;

pin_project! {
    /// The future of a handler, and its outcome after the future is ready.
    pub(crate) struct HandlerFuture<F, T> {
        #[pin]
        future: F,
        outcome: Option<Result<T, Failure>>,
    }
}

impl<F, T> HandlerFuture<F, T>
where
    F: Future<Output = Result<T, Failure>> + Send + 'static,
    T: Serialize + Send + 'static,
{
    pub(crate) fn boxed(future: F) -> BoxedHandler {
        Box::pin(Self { future, outcome: None })
    }
}

impl<F, T> StartedHandler for HandlerFuture<F, T>
where
    F: Future<Output = Result<T, Failure>> + Send,
    T: Serialize + Send,
{
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let this = self.project();
        this.future.poll(context).map(|outcome| *this.outcome = Some(outcome))
    }

    fn answer(self: Pin<&mut Self>, reply: Reply<'_>, out: &mut Vec<u8>) -> Result<(), Failure> {
        let result = self.project().outcome.take().expect("`poll` has returned ready")?;
        reply.serialize(out, &result).map_err(|(_, error)| Failure::unserializable(&error))
    }

    fn failure(self: Pin<&mut Self>) -> Option<Failure> {
        self.project().outcome.take().expect("`poll` has returned ready").err()
    }

    fn outcome(self: Pin<&mut Self>) -> Result<Raw, Failure> {
        let result = self.project().outcome.take().expect("`poll` has returned ready")?;
        Raw::of(&result).map_err(|error| Failure::unserializable(&error))
    }
}

/// Polls a handler, and catches its panics.
pub(crate) fn poll(work: &mut BoxedHandler, context: &mut Context<'_>) -> Poll<Result<(), Failure>> {
    match Failure::catch(|| work.as_mut().poll(context)) {
        Ok(Poll::Pending) => Poll::Pending,
        Ok(Poll::Ready(())) => Poll::Ready(Ok(())),
        Err(panic) => Poll::Ready(Err(panic)),
    }
}

/// Appends the answer of a finished handler to `out`: its result, or an error. Returns the failure, if any, for the
/// log.
pub(super) fn write_answer(
    done: Result<BoxedHandler, Failure>,
    reply: Reply<'_>,
    method: &str,
    out: &mut Vec<u8>,
) -> Option<Failure> {
    let start = out.len();
    let outcome = done.and_then(|mut work| {
        let write = || {
            let written = work.as_mut().answer(reply.borrow(), out);
            // The handler is dropped here, where panics are caught, because values that it holds may panic in `drop`.
            drop(work);
            written
        };
        Failure::catch(write).and_then(|written| written)
    });
    let failure = outcome.err()?;
    // A panic while the result was being written might have left part of the result in the buffer.
    out.truncate(start);
    reply.error(out, &failure.error(method));
    Some(failure)
}

/// Drops a finished handler together with its result. Returns its failure, if any, for the log.
pub(super) fn take_failure(done: Result<BoxedHandler, Failure>) -> Option<Failure> {
    let look = |mut work: BoxedHandler| work.as_mut().failure();
    done.and_then(|work| Failure::catch(|| look(work))).unwrap_or_else(Some)
}

/// Runs a handler until it has finished.
pub(crate) async fn run(mut work: BoxedHandler) -> Result<BoxedHandler, Failure> {
    let done = std::future::poll_fn(|context| poll(&mut work, context)).await;
    check_panic(done, work)
}

/// Returns the handler if its last poll did not panic; otherwise drops it and returns the failure.
pub(super) fn check_panic(done: Result<(), Failure>, work: BoxedHandler) -> Result<BoxedHandler, Failure> {
    let Err(panic) = done else { return Ok(work) };
    // Dropping a handler that panicked may panic again.
    let _ = Failure::catch(|| drop(work));
    Err(panic)
}
