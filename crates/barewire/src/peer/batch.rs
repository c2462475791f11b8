//! A batch: several outgoing messages in one array.

use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use serde::Serialize;

use super::call::{PendingAnswer, read_result};
use super::handle::notification;
use super::queue::{BatchEntry, Command, Queue};
use super::{CallError, FromResult, OutgoingCall};

/// Calls and notifications that are sent together, in one JSON array. The answers may arrive in any order.
///
/// Not every peer accepts batches: in MCP, only revisions up to 2025-03-26 have them.
#[derive(Debug)]
#[must_use = "nothing is sent until `send` is awaited"]
pub struct Batch {
    queue: Arc<Queue>,
    entries: Vec<BatchEntry>,
}

impl Batch {
    pub(super) fn new(queue: Arc<Queue>) -> Self {
        Self { queue, entries: Vec::new() }
    }

    /// Adds a call. Await the returned future after [`Self::send`].
    pub fn call<R: FromResult>(
        &mut self,
        method: impl Into<String>,
        params: impl Serialize,
    ) -> Result<BatchedCall<R>, CallError> {
        self.add(OutgoingCall::new(Arc::clone(&self.queue), method.into(), crate::params::write(&params)))
    }

    /// Adds a call that was created with [`Peer::call`](super::Peer::call), with its own timeout and progress callback.
    pub fn add<R: FromResult>(&mut self, call: OutgoingCall<R>) -> Result<BatchedCall<R>, CallError> {
        let (call, waiting) = call.prepare()?;
        self.entries.push(BatchEntry::Call(call));
        Ok(BatchedCall { waiting, result: PhantomData })
    }

    /// Adds a notification.
    pub fn notify(&mut self, method: impl AsRef<str>, params: impl Serialize) -> Result<(), CallError> {
        let message = notification(&self.queue, method.as_ref(), params)?;
        self.entries.push(BatchEntry::Notification(message));
        Ok(())
    }

    /// Sends the array. An empty array is not sent. Returns an error if the array has more elements than this side
    /// itself accepts in a batch.
    pub async fn send(self) -> Result<(), CallError> {
        let Self { queue, entries } = self;
        if entries.is_empty() {
            return Ok(());
        }
        if entries.len() > queue.batch_limit {
            // The peer would refuse the whole array with one error response. The id of that response is null, so it
            // belongs to no call.
            let (count, limit) = (entries.len(), queue.batch_limit);
            return Err(CallError::Params(format!("the batch has {count} elements, and the limit is {limit}")));
        }
        let bytes = entries.iter().map(BatchEntry::len).sum();
        let permits = queue.reserve(bytes).await.map_err(CallError::Closed)?;
        queue.push(Command::Batch { entries, permits }).map_err(|_| CallError::Closed(queue.end()))
    }
}

impl BatchEntry {
    fn len(&self) -> usize {
        match self {
            Self::Call(call) => call.len(),
            Self::Notification(message) => message.len() + 1,
        }
    }
}

/// The future of a call that is part of a batch. Dropping it cancels the call.
#[must_use = "the answer is returned only when this future is awaited"]
pub struct BatchedCall<R> {
    waiting: PendingAnswer,
    result: PhantomData<fn() -> R>,
}

impl<R: FromResult> Future for BatchedCall<R> {
    type Output = Result<R, CallError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.waiting).poll(context).map(|outcome| read_result(outcome?))
    }
}

impl<R> std::fmt::Debug for BatchedCall<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BatchedCall").finish_non_exhaustive()
    }
}
