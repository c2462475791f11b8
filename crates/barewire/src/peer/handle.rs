//! A handle for the peer: calls, notifications, batches, and the shutdown of the connection.

use std::sync::Arc;

use barewire_proto::rpc::write;
use serde::Serialize;

use super::context::IncomingMessage;
use super::queue::{Command, Queue};
use crate::Error;

use super::{Batch, CallError, ConnectionEnd, OutgoingCall};

/// A handle for the peer of a connection. Cheap to clone. The connection shuts down when the last clone of the handle
/// that [`Connection`](super::Connection) returned is dropped.
#[derive(Debug, Clone)]
pub struct Peer {
    queue: Arc<Queue>,
    _guard: Option<Arc<ShutdownGuard>>,
}

/// Shuts the connection down when it is dropped.
#[derive(Debug)]
struct ShutdownGuard(Arc<Queue>);

impl Drop for ShutdownGuard {
    fn drop(&mut self) {
        // If the queue is closed, the connection has ended already.
        let _ = self.0.push(Command::Shutdown);
    }
}

impl Peer {
    pub(super) fn guarded(queue: Arc<Queue>) -> Self {
        let guard = Some(Arc::new(ShutdownGuard(Arc::clone(&queue))));
        Self { queue, _guard: guard }
    }

    pub(super) fn unguarded(queue: Arc<Queue>) -> Self {
        Self { queue, _guard: None }
    }

    /// Calls a method of the peer. `params` must be an object or an array, or `()` for none.
    ///
    /// Nothing is sent until the call is awaited. Dropping it while it waits sends the peer a cancellation.
    pub fn call<R>(&self, method: impl Into<String>, params: impl Serialize) -> OutgoingCall<R> {
        OutgoingCall::new(Arc::clone(&self.queue), method.into(), crate::params::write(&params))
    }

    /// Sends a notification to the peer. Waits while too many bytes wait to be written.
    pub async fn notify(&self, method: impl AsRef<str>, params: impl Serialize) -> Result<(), CallError> {
        notify(&self.queue, method.as_ref(), params).await
    }

    /// Starts a batch: several calls and notifications in one array.
    pub fn batch(&self) -> Batch {
        Batch::new(Arc::clone(&self.queue))
    }

    /// Shuts the connection down: starts nothing new, waits up to the connection's grace period for requests in flight
    /// in both directions, writes the remaining output, and ends the connection. `Ok` if it ended in order, now or
    /// before.
    ///
    /// A handler that awaits this waits for itself until the grace period is over. Spawn a task instead.
    pub async fn shutdown(&self) -> Result<(), Error> {
        self.shut_down().await.into_result()
    }

    /// Waits for the end of the connection. `Ok` if it ended in order.
    pub async fn closed(&self) -> Result<(), Error> {
        self.ended().await.into_result()
    }

    /// The end of the connection, in order or not; `None` while it is open.
    pub fn end(&self) -> Option<ConnectionEnd> {
        self.queue.closed().cloned()
    }

    /// As [`Self::shutdown`], but returns the end itself.
    pub(crate) async fn shut_down(&self) -> ConnectionEnd {
        let _ = self.queue.push(Command::Shutdown);
        self.queue.ended().await
    }

    /// As [`Self::closed`], but returns the end itself.
    pub(crate) async fn ended(&self) -> ConnectionEnd {
        self.queue.ended().await
    }

    /// Whether the connection has ended.
    pub fn is_closed(&self) -> bool {
        self.queue.closed().is_some()
    }
}

pub(super) async fn notify(queue: &Queue, method: &str, params: impl Serialize) -> Result<(), CallError> {
    let message = notification(queue, method, params)?;
    send(queue, message, None).await
}

/// Writes a notification.
pub(super) fn notification(queue: &Queue, method: &str, params: impl Serialize) -> Result<Vec<u8>, CallError> {
    let params = crate::params::write(&params).map_err(|error| CallError::Params(error.to_string()))?;
    let params = queue.with_trace_context(method, params);
    let mut message = Vec::new();
    crate::params::with(params.as_deref(), |params| write::notification(&mut message, method, params));
    Ok(message)
}

/// Sends a notification that is already written, about the request `about` if there is one.
pub(super) async fn send(
    queue: &Queue,
    message: Vec<u8>,
    about: Option<Arc<IncomingMessage>>,
) -> Result<(), CallError> {
    let permits = queue.reserve(message.len()).await.map_err(CallError::Closed)?;
    queue.push(Command::Notify { message, permits, about }).map_err(|_| CallError::Closed(queue.end()))
}
