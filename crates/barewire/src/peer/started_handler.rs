//! A handler at work: a future of any type behind one that the engine can poll, and its outcome on the way out.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use barewire_proto::rpc::Reply;
use pin_project_lite::pin_project;
use serde::Serialize;

use super::Raw;
use crate::Failure;

/// A handler that has been started. First it is polled until it is ready, then its outcome is taken, once: in two steps,
/// so that what it has sent while it ran can be put on the wire before its answer.
pub(crate) trait StartedHandler: Send {
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()>;

    /// Appends the answer with its result, or says why there is none.
    fn answer(self: Pin<&mut Self>, reply: Reply<'_>, out: &mut Vec<u8>) -> Result<(), Failure>;

    /// Whether it failed, for when nobody wants the result.
    fn failure(self: Pin<&mut Self>) -> Option<Failure>;

    /// How it went, for those who want no answer written.
    fn outcome(self: Pin<&mut Self>) -> Result<Raw, Failure>;
}

pub(crate) type BoxedHandler = Pin<Box<dyn StartedHandler>>;

pin_project! {
    /// A future of a handler, and what came of it.
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
        let result = self.project().outcome.take().expect("polled until it was ready")?;
        reply.serialize(out, &result).map_err(|(_, error)| Failure::unserializable(&error))
    }

    fn failure(self: Pin<&mut Self>) -> Option<Failure> {
        self.project().outcome.take().expect("polled until it was ready").err()
    }

    fn outcome(self: Pin<&mut Self>) -> Result<Raw, Failure> {
        let result = self.project().outcome.take().expect("polled until it was ready")?;
        Raw::of(&result).map_err(|error| Failure::unserializable(&error))
    }
}

/// Polls code that may panic.
pub(super) fn poll(work: &mut BoxedHandler, context: &mut Context<'_>) -> Poll<Result<(), Failure>> {
    match Failure::catch(|| work.as_mut().poll(context)) {
        Ok(Poll::Pending) => Poll::Pending,
        Ok(Poll::Ready(())) => Poll::Ready(Ok(())),
        Err(panic) => Poll::Ready(Err(panic)),
    }
}

/// Appends the answer of a handler that is done, whatever came of it. Gives the failure, for the log.
pub(super) fn answer(
    done: Result<BoxedHandler, Failure>,
    reply: Reply<'_>,
    method: &str,
    out: &mut Vec<u8>,
) -> Option<Failure> {
    let start = out.len();
    let outcome = done.and_then(|mut work| {
        let write = || {
            let written = work.as_mut().answer(reply.borrow(), out);
            // Here, because what the handler holds may panic when it is dropped.
            drop(work);
            written
        };
        Failure::catch(write).and_then(|written| written)
    });
    let failure = outcome.err()?;
    // A panic while the result was written may have left half of it.
    out.truncate(start);
    reply.error(out, &failure.error(method));
    Some(failure)
}

/// Lets go of a handler that is done and whose result nobody wants.
pub(super) fn finish(done: Result<BoxedHandler, Failure>) -> Option<Failure> {
    let look = |mut work: BoxedHandler| work.as_mut().failure();
    done.and_then(|work| Failure::catch(|| look(work))).unwrap_or_else(Some)
}

/// Runs a handler to its end.
pub(super) async fn run(mut work: BoxedHandler) -> Result<BoxedHandler, Failure> {
    let done = std::future::poll_fn(|context| poll(&mut work, context)).await;
    keep(done, work)
}

/// A handler that is done, for its outcome; or how it failed.
pub(super) fn keep(done: Result<(), Failure>, work: BoxedHandler) -> Result<BoxedHandler, Failure> {
    let Err(panic) = done else { return Ok(work) };
    // What a panic has left of it may panic once more.
    let _ = Failure::catch(|| drop(work));
    Err(panic)
}
