//! The context of a handler: the message that it handles, and the connection over which the message arrived.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use barewire_proto::json::Json;
use barewire_proto::rpc::{Id, write};
use barewire_proto::session::{ProgressConvention, progress_params};
use serde::Serialize;
use tokio::sync::Notify;

use super::dispatch::AnyCaller;
use super::outlet::Exchange;
use super::queue::{Command, Queue};
use super::{CallError, ConnectionEnd, OutgoingCall, Peer};
#[cfg(feature = "http")]
use super::{ConnectionLimits, connection_end::EndReason};

/// The request or notification that is being handled, and the connection over which it arrived.
#[derive(Clone)]
pub struct Context {
    incoming: Arc<IncomingMessage>,
    queue: Arc<Queue>,
}

/// A message that is being handled. When no handler holds this value, the driver reuses it for the next message, so
/// that its strings need no new allocation.
#[derive(Debug)]
pub(super) struct IncomingMessage {
    pub(super) method: String,
    /// The id as the peer wrote it; empty for a notification.
    pub(super) id: String,
    /// The progress token, if the peer wants progress notifications.
    pub(super) token: Option<Id<'static>>,
    pub(super) progress: ProgressConvention,
    /// The HTTP exchange in which the message arrived.
    pub(super) exchange: Exchange,
    caller: Option<AnyCaller>,
    cancelled: AtomicBool,
    /// Whether the request is answered or cancelled. If so, further notifications about it are dropped.
    finished: AtomicBool,
    /// Notified when `cancelled` or `finished` changes.
    changed: Notify,
}

impl IncomingMessage {
    pub(super) fn new(progress: ProgressConvention) -> Self {
        let (method, id) = (String::new(), String::new());
        let (cancelled, finished) = (AtomicBool::new(false), AtomicBool::new(false));
        let (exchange, caller) = (Exchange::NONE, None);
        Self { method, id, token: None, progress, exchange, caller, cancelled, finished, changed: Notify::new() }
    }

    /// Reuses `this` for another message, or creates a new value if a handler still holds `this`.
    pub(super) fn reuse(
        mut this: Arc<Self>,
        method: &str,
        id: Option<&Id<'_>>,
        token: Option<Id<'_>>,
        exchange: Exchange,
        caller: Option<&AnyCaller>,
    ) -> Arc<Self> {
        if Arc::get_mut(&mut this).is_none() {
            this = Arc::new(Self::new(this.progress));
        }
        let reused = Arc::get_mut(&mut this).expect("no handler holds it: this was checked, or it is new");
        *reused.finished.get_mut() = false;
        reused.method.clear();
        reused.method.push_str(method);
        reused.id.clear();
        reused.id.push_str(id.map_or("", Id::as_str));
        reused.token = token.map(Id::into_owned);
        reused.exchange = exchange;
        if reused.caller.is_some() || caller.is_some() {
            reused.caller = caller.cloned();
        }
        this
    }

    /// Drops the information about the sender. Returns `false`, and drops nothing, if a handler still holds `this`.
    pub(super) fn forget_caller(this: &mut Arc<Self>) -> bool {
        if Arc::strong_count(this) > 1 {
            return false;
        }
        // Most messages have no such information, and need no exclusive access here.
        if this.caller.is_some()
            && let Some(this) = Arc::get_mut(this)
        {
            this.caller = None;
        }
        true
    }

    /// Whether the request has been answered or cancelled.
    pub(super) fn is_finished(&self) -> bool {
        self.finished.load(Ordering::Acquire)
    }

    pub(super) fn finish(&self) {
        self.finished.store(true, Ordering::Release);
        self.changed.notify_waiters();
    }

    async fn finished(&self) {
        loop {
            let changed = self.changed.notified();
            if self.is_finished() {
                return;
            }
            changed.await;
        }
    }

    pub(super) fn cancel(&self) {
        self.finish();
        self.cancelled.store(true, Ordering::Release);
        self.changed.notify_waiters();
    }

    async fn cancelled(&self) {
        loop {
            let changed = self.changed.notified();
            if self.cancelled.load(Ordering::Acquire) {
                return;
            }
            changed.await;
        }
    }
}

impl Context {
    pub(super) fn new(incoming: Arc<IncomingMessage>, queue: Arc<Queue>) -> Self {
        Self { incoming, queue }
    }

    /// Creates the context of a request that was answered before, on a connection that has ended: for a handler that
    /// runs again without them.
    #[cfg(feature = "http")]
    pub(crate) fn detached(method: &str, caller: Option<AnyCaller>) -> Self {
        let new = Arc::new(IncomingMessage::new(barewire_proto::session::Conventions::MCP.progress));
        let incoming = IncomingMessage::reuse(new, method, None, None, Exchange::NONE, caller.as_ref());
        incoming.finish();
        let queue = Arc::new(Queue::new(&ConnectionLimits::default(), None));
        queue.close(ConnectionEnd::new(EndReason::Abandoned, None, None));
        Self { incoming, queue }
    }

    /// The method's name.
    pub fn method(&self) -> &str {
        &self.incoming.method
    }

    /// The request's id as JSON text, exactly as the sender wrote it, so a string includes its quotes; `None` for a
    /// notification.
    pub fn id(&self) -> Option<&str> {
        (!self.incoming.id.is_empty()).then_some(&self.incoming.id)
    }

    /// Returns a handle for the peer, which can also be used outside this handler. The handle does not keep the
    /// connection open.
    pub fn peer(&self) -> Peer {
        Peer::unguarded(Arc::clone(&self.queue))
    }

    /// Calls a method of the peer. See [`Peer::call`].
    pub fn call<R>(&self, method: impl Into<String>, params: impl Serialize) -> OutgoingCall<R> {
        self.peer().call(method, params).within_exchange(self.incoming.exchange)
    }

    /// Sends a notification about this request to the peer, before the answer. After the request is answered or
    /// cancelled, notifications about it are dropped.
    pub async fn notify(&self, method: impl AsRef<str>, params: impl Serialize) -> Result<(), CallError> {
        let message = super::handle::notification(&self.queue, method.as_ref(), params)?;
        self.send_about(message).await
    }

    async fn send_about(&self, message: Vec<u8>) -> Result<(), CallError> {
        let about = self.id().map(|_| Arc::clone(&self.incoming));
        super::handle::send(&self.queue, message, about).await
    }

    /// Whether the sender of this request wants progress notifications.
    pub fn wants_progress(&self) -> bool {
        self.incoming.token.is_some()
    }

    /// Sends a progress notification if the sender of this request asked for progress; otherwise does nothing.
    pub async fn progress(&self, value: impl Serialize) -> Result<(), CallError> {
        let IncomingMessage { token: Some(token), progress, .. } = &*self.incoming else { return Ok(()) };
        let value = serde_json::to_string(&value).map_err(|error| CallError::Params(error.to_string()))?;
        let value = Json::parse(value.as_bytes()).expect("serde_json writes JSON");
        let Some(params) = progress_params(progress, token, value) else {
            return Err(CallError::Params(format!("progress must be an object, not {}", value.kind())));
        };
        let mut message = Vec::new();
        crate::params::with(Some(&params), |params| write::notification(&mut message, progress.method, params));
        self.send_about(message).await
    }

    /// Returns a handle that shows whether the sender has cancelled this request. A cancelled handler is dropped at its
    /// next `await`, so only work that continues outside the handler needs this handle: threads, tasks, other programs.
    pub fn cancellation(&self) -> Cancellation {
        Cancellation(Arc::clone(&self.incoming))
    }

    /// Closes the HTTP stream of this request's exchange, if the client can resume it. The client reconnects after
    /// `retry`.
    pub(crate) fn hang_up(&self, retry: Duration) {
        let exchange = self.incoming.exchange;
        // If the queue is closed, the connection has ended, and the stream is already closed.
        let _ = self.queue.push(Command::HangUp { exchange, retry });
    }

    /// Information about the sender of this message, if the carrier, such as HTTP, provides it as a `T`.
    #[cfg(feature = "http")]
    pub(crate) fn caller<T: std::any::Any>(&self) -> Option<&T> {
        self.incoming.caller.as_deref()?.downcast_ref()
    }

    /// Marks the request as cancelled, for a handler that goes on after the request is answered.
    #[cfg(feature = "server")]
    pub(crate) fn cancel(&self) {
        self.incoming.cancel();
    }

    /// Whether the sender has cancelled this request.
    pub fn is_cancelled(&self) -> bool {
        self.incoming.cancelled.load(Ordering::Acquire)
    }

    /// Waits until this request is answered or cancelled.
    pub(crate) async fn finished(&self) {
        self.incoming.finished().await;
    }

    /// Waits until the connection is closing: the peer has closed its half of the stream, or this side shuts down. A
    /// handler that would run forever should return then.
    pub async fn closing(&self) {
        self.queue.closing().await;
    }

    /// Returns how the connection ended; `None` while it is open.
    pub fn end(&self) -> Option<&ConnectionEnd> {
        self.queue.closed()
    }
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context").field("method", &self.method()).field("id", &self.id()).finish_non_exhaustive()
    }
}

/// A handle that shows whether a request has been cancelled. Cheap to clone, and can outlive the handler.
#[derive(Debug, Clone)]
pub struct Cancellation(Arc<IncomingMessage>);

impl Cancellation {
    /// Whether the request has been cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.0.cancelled.load(Ordering::Acquire)
    }

    /// Waits until the request is cancelled.
    pub async fn cancelled(&self) {
        self.0.cancelled().await;
    }
}
