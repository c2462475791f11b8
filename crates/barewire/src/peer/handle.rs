//! The other side, as those see it who want something of it.

use std::sync::Arc;

use barewire_proto::rpc::write;
use serde::Serialize;

use super::context::Incoming;
use super::queue::{Command, Queue};
use crate::Error;

use super::{Batch, CallError, ConnectionEnd, OutgoingCall};

/// The other side of a connection. Cheap to clone; when the last clone of what [`Connection`](super::Connection) gave out
/// is dropped, the connection shuts down.
#[derive(Debug, Clone)]
pub struct Peer {
    queue: Arc<Queue>,
    _guard: Option<Arc<Guard>>,
}

/// Shuts the connection down when nobody is left to use it.
#[derive(Debug)]
struct Guard(Arc<Queue>);

impl Drop for Guard {
    fn drop(&mut self) {
        // If it cannot be told, it is over already.
        let _ = self.0.push(Command::Shutdown);
    }
}

impl Peer {
    pub(super) fn guarded(queue: Arc<Queue>) -> Self {
        let guard = Some(Arc::new(Guard(Arc::clone(&queue))));
        Self { queue, _guard: guard }
    }

    pub(super) fn unguarded(queue: Arc<Queue>) -> Self {
        Self { queue, _guard: None }
    }

    /// Asks the other side. `params` must be an object or an array, or nothing: `()`.
    ///
    /// Nothing is sent until the call is awaited. Dropping it while it waits cancels it and tells the other side so.
    pub fn call<R>(&self, method: impl Into<String>, params: impl Serialize) -> OutgoingCall<R> {
        OutgoingCall::new(Arc::clone(&self.queue), method.into(), crate::params::write(&params))
    }

    /// Tells the other side. Waits while too much waits to be written already.
    pub async fn notify(&self, method: impl AsRef<str>, params: impl Serialize) -> Result<(), CallError> {
        notify(&self.queue, method.as_ref(), params).await
    }

    /// Several calls and notifications in one array.
    pub fn batch(&self) -> Batch {
        Batch::new(Arc::clone(&self.queue))
    }

    /// Begins nothing new, waits for what is in flight in both directions as long as the connection's grace allows, writes
    /// what waits to be written, and ends the connection. `Ok` if it ended in order, now or before.
    ///
    /// A handler that awaits this waits for itself, until the grace is over: let a task do it.
    pub async fn shutdown(&self) -> Result<(), Error> {
        self.shut_down().await.into_result()
    }

    /// Waits for the end of the connection. `Ok` if it ended in order.
    pub async fn closed(&self) -> Result<(), Error> {
        self.ended().await.into_result()
    }

    /// How the connection ended, whether in order or not; `None` while it stands.
    pub fn end(&self) -> Option<ConnectionEnd> {
        self.queue.closed().cloned()
    }

    /// As [`Self::shutdown`], but gives how it ended.
    pub(crate) async fn shut_down(&self) -> ConnectionEnd {
        let _ = self.queue.push(Command::Shutdown);
        self.queue.ended().await
    }

    /// As [`Self::closed`], but gives how it ended.
    pub(crate) async fn ended(&self) -> ConnectionEnd {
        self.queue.ended().await
    }

    /// Whether the connection is over.
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
    let params = queue.traced(method, params);
    let mut message = Vec::new();
    crate::params::with(params.as_deref(), |params| write::notification(&mut message, method, params));
    Ok(message)
}

/// Sends a notification that is written already.
pub(super) async fn send(queue: &Queue, message: Vec<u8>, about: Option<Arc<Incoming>>) -> Result<(), CallError> {
    let permits = queue.reserve(message.len()).await.map_err(CallError::Closed)?;
    queue.push(Command::Notify { message, permits, about }).map_err(|_| CallError::Closed(queue.why()))
}
