//! A handle for the peer, for calls, notifications, batches, and the shutdown of the connection.

use std::sync::Arc;

use barewire_proto::rpc::write;
use serde::Serialize;

use super::context::IncomingMessage;
use super::queue::{Command, Queue};
use crate::Error;

use super::{Batch, CallError, ConnectionEnd, OutgoingCall};

/// A handle for the peer of a connection. Cheap to clone. The connection shuts down when the handle that
/// [`Connection`](super::Connection) returned and all its clones are dropped.
#[derive(Debug, Clone)]
pub struct Peer {
    queue: Arc<Queue>,
    _guard: Option<Arc<ShutdownGuard>>,
}

/// Shuts the connection down when this value is dropped.
#[derive(Debug)]
struct ShutdownGuard(Arc<Queue>);

impl Drop for ShutdownGuard {
    fn drop(&mut self) {
        // If the queue is closed, the connection has already ended.
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
    /// Nothing is sent until the call is awaited. Dropping the call before its answer arrives sends a cancellation to
    /// the peer.
    pub fn call<R>(&self, method: impl Into<String>, params: impl Serialize) -> OutgoingCall<R> {
        OutgoingCall::new(Arc::clone(&self.queue), method.into(), crate::params::write(&params))
    }

    /// Sends a notification to the peer. Waits while too much output is pending.
    pub async fn notify(&self, method: impl AsRef<str>, params: impl Serialize) -> Result<(), CallError> {
        notify(&self.queue, method.as_ref(), params).await
    }

    /// Creates an empty batch, to send several calls and notifications in one array.
    pub fn batch(&self) -> Batch {
        Batch::new(Arc::clone(&self.queue))
    }

    /// Shuts the connection down: starts no new work, waits up to the connection's grace period for requests in flight
    /// in both directions, writes the remaining output, and ends the connection. Returns `Ok` if the connection was
    /// closed cleanly, by this call or earlier.
    ///
    /// A handler that awaits this method waits for itself until the grace period is over: await it in a new task.
    pub async fn shutdown(&self) -> Result<(), Error> {
        self.shut_down().await.into_result()
    }

    /// Waits until the connection has ended. Returns `Ok` if it was closed cleanly.
    pub async fn closed(&self) -> Result<(), Error> {
        self.ended().await.into_result()
    }

    /// Returns how the connection ended; `None` while it is open.
    pub fn end(&self) -> Option<ConnectionEnd> {
        self.queue.closed().cloned()
    }

    /// Like [`Self::shutdown`], but returns the [`ConnectionEnd`].
    pub(crate) async fn shut_down(&self) -> ConnectionEnd {
        let _ = self.queue.push(Command::Shutdown);
        self.queue.ended().await
    }

    /// Like [`Self::closed`], but returns the [`ConnectionEnd`].
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

/// Serializes a notification.
pub(super) fn notification(queue: &Queue, method: &str, params: impl Serialize) -> Result<Vec<u8>, CallError> {
    let params = crate::params::write(&params).map_err(|error| CallError::Params(error.to_string()))?;
    let params = queue.with_trace_context(method, params);
    let mut message = Vec::new();
    crate::params::with(params.as_deref(), |params| write::notification(&mut message, method, params));
    Ok(message)
}

/// Sends a serialized notification. `about` is the request that the notification is about, if any.
pub(super) async fn send(
    queue: &Queue,
    message: Vec<u8>,
    about: Option<Arc<IncomingMessage>>,
) -> Result<(), CallError> {
    let permits = queue.reserve(message.len()).await.map_err(CallError::Closed)?;
    queue.push(Command::Notify { message, permits, about }).map_err(|_| CallError::Closed(queue.end()))
}
