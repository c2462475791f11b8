//! Several messages of ours in one array.

use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use serde::Serialize;

use super::call::{Waiting, read};
use super::handle::notification;
use super::queue::{Command, Entry, Queue};
use super::{CallError, FromResult, OutgoingCall};

/// Calls and notifications that go out together, in one array. The answers may come in any order.
///
/// Not every peer takes batches: MCP has them in one revision only.
#[derive(Debug)]
#[must_use = "nothing is sent until `send` is awaited"]
pub struct Batch {
    queue: Arc<Queue>,
    entries: Vec<Entry>,
}

impl Batch {
    pub(super) fn new(queue: Arc<Queue>) -> Self {
        Self { queue, entries: Vec::new() }
    }

    /// Adds a call. What it gives is awaited after [`Self::send`].
    pub fn call<R: FromResult>(
        &mut self,
        method: impl Into<String>,
        params: impl Serialize,
    ) -> Result<BatchedCall<R>, CallError> {
        self.add(OutgoingCall::new(Arc::clone(&self.queue), method.into(), crate::params::write(&params)))
    }

    /// Adds a call with a timeout or progress of its own: one that [`Peer::call`](super::Peer::call) gave.
    pub fn add<R: FromResult>(&mut self, call: OutgoingCall<R>) -> Result<BatchedCall<R>, CallError> {
        let (ask, waiting) = call.prepare()?;
        self.entries.push(Entry::Call(ask));
        Ok(BatchedCall { waiting, result: PhantomData })
    }

    /// Adds a notification.
    pub fn notify(&mut self, method: impl AsRef<str>, params: impl Serialize) -> Result<(), CallError> {
        let message = notification(&self.queue, method.as_ref(), params)?;
        self.entries.push(Entry::Notification(message));
        Ok(())
    }

    /// Sends the array. An empty one is not sent; one of more elements than we would take ourselves is an error.
    pub async fn send(self) -> Result<(), CallError> {
        let Self { queue, entries } = self;
        if entries.is_empty() {
            return Ok(());
        }
        if entries.len() > queue.batch {
            // The other side would refuse it with an id of null, and nobody could say whose answer that is.
            let (there, most) = (entries.len(), queue.batch);
            return Err(CallError::Params(format!("a batch of {there} elements, and at most {most} are taken")));
        }
        let bytes = entries.iter().map(Entry::len).sum();
        let permits = queue.reserve(bytes).await.map_err(CallError::Closed)?;
        queue.push(Command::Batch { entries, permits }).map_err(|_| CallError::Closed(queue.why()))
    }
}

impl Entry {
    fn len(&self) -> usize {
        match self {
            Self::Call(ask) => ask.len(),
            Self::Notification(message) => message.len() + 1,
        }
    }
}

/// A call that is part of a batch. Dropping it cancels it.
#[must_use = "the answer comes when it is awaited"]
pub struct BatchedCall<R> {
    waiting: Waiting,
    result: PhantomData<fn() -> R>,
}

impl<R: FromResult> Future for BatchedCall<R> {
    type Output = Result<R, CallError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.waiting).poll(context).map(|outcome| read(outcome?))
    }
}

impl<R> std::fmt::Debug for BatchedCall<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BatchedCall").finish_non_exhaustive()
    }
}
