//! What a handler is given besides its parameters.

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

/// The request or notification that is being handled, and the connection it came over.
#[derive(Clone)]
pub struct Context {
    incoming: Arc<Incoming>,
    queue: Arc<Queue>,
}

/// What is known of a message while it is handled. The driver uses it again once nobody else holds it, so its strings
/// keep their memory.
#[derive(Debug)]
pub(super) struct Incoming {
    pub(super) method: String,
    /// The id as it was written; empty for a notification.
    pub(super) id: String,
    /// Under which token progress is to be reported, if it is.
    pub(super) token: Option<Id<'static>>,
    pub(super) progress: ProgressConvention,
    /// What it came with, and who sent it, where the carrier knows that.
    pub(super) exchange: Exchange,
    caller: Option<AnyCaller>,
    cancelled: AtomicBool,
    /// It has been answered or cancelled: nothing more is said about it.
    over: AtomicBool,
    told: Notify,
}

impl Incoming {
    pub(super) fn new(progress: ProgressConvention) -> Self {
        let (method, id) = (String::new(), String::new());
        let (cancelled, over) = (AtomicBool::new(false), AtomicBool::new(false));
        let (exchange, caller) = (Exchange::NONE, None);
        Self { method, id, token: None, progress, exchange, caller, cancelled, over, told: Notify::new() }
    }

    /// `this` for another message, or a new one if somebody still holds it.
    pub(super) fn of(
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
        let again = Arc::get_mut(&mut this).expect("nobody else holds it");
        *again.over.get_mut() = false;
        again.method.clear();
        again.method.push_str(method);
        again.id.clear();
        again.id.push_str(id.map_or("", Id::as_str));
        again.token = token.map(Id::into_owned);
        again.exchange = exchange;
        if again.caller.is_some() || caller.is_some() {
            again.caller = caller.cloned();
        }
        this
    }

    /// Whether it has been answered or cancelled.
    pub(super) fn is_over(&self) -> bool {
        self.over.load(Ordering::Acquire)
    }

    pub(super) fn finish(&self) {
        self.over.store(true, Ordering::Release);
        self.told.notify_waiters();
    }

    async fn over(&self) {
        loop {
            let told = self.told.notified();
            if self.is_over() {
                return;
            }
            told.await;
        }
    }

    pub(super) fn cancel(&self) {
        self.finish();
        self.cancelled.store(true, Ordering::Release);
        self.told.notify_waiters();
    }

    async fn cancelled(&self) {
        loop {
            let told = self.told.notified();
            if self.cancelled.load(Ordering::Acquire) {
                return;
            }
            told.await;
        }
    }
}

impl Context {
    pub(super) fn new(incoming: Arc<Incoming>, queue: Arc<Queue>) -> Self {
        Self { incoming, queue }
    }

    /// The method's name.
    pub fn method(&self) -> &str {
        &self.incoming.method
    }

    /// The request's id as its sender wrote it, `"a"` with its quotes; `None` for a notification.
    pub fn id(&self) -> Option<&str> {
        (!self.incoming.id.is_empty()).then_some(&self.incoming.id)
    }

    /// The other side, to be asked from here or from anywhere else. It does not keep the connection open.
    pub fn peer(&self) -> Peer {
        Peer::unguarded(Arc::clone(&self.queue))
    }

    /// Asks the other side something. See [`Peer::call`].
    pub fn call<R>(&self, method: impl Into<String>, params: impl Serialize) -> OutgoingCall<R> {
        self.peer().call(method, params).in_course_of(self.incoming.exchange)
    }

    /// Tells the other side something about this request. It goes out before the answer; once that is written, or the
    /// request is cancelled, nothing goes out any more.
    pub async fn notify(&self, method: impl AsRef<str>, params: impl Serialize) -> Result<(), CallError> {
        let message = super::handle::notification(&self.queue, method.as_ref(), params)?;
        self.say(message).await
    }

    async fn say(&self, message: Vec<u8>) -> Result<(), CallError> {
        let about = self.id().map(|_| Arc::clone(&self.incoming));
        super::handle::send(&self.queue, message, about).await
    }

    /// Whether the sender of this request asked to hear of its progress.
    pub fn wants_progress(&self) -> bool {
        self.incoming.token.is_some()
    }

    /// Reports progress, if the sender asked for it; if not, nothing happens.
    pub async fn progress(&self, value: impl Serialize) -> Result<(), CallError> {
        let Incoming { token: Some(token), progress, .. } = &*self.incoming else { return Ok(()) };
        let value = serde_json::to_string(&value).map_err(|error| CallError::Params(error.to_string()))?;
        let value = Json::parse(value.as_bytes()).expect("serde_json writes JSON");
        let Some(params) = progress_params(progress, token, value) else {
            return Err(CallError::Params(format!("progress must be an object, not {}", value.kind())));
        };
        let mut message = Vec::new();
        crate::params::with(Some(&params), |params| write::notification(&mut message, progress.method, params));
        self.say(message).await
    }

    /// Tells whether the sender still wants the answer. A handler that is cancelled is dropped at its next `await`, so only
    /// what goes on without it needs to look: threads, tasks, other programs.
    pub fn cancellation(&self) -> Cancellation {
        Cancellation(Arc::clone(&self.incoming))
    }

    /// Closes what carries the exchange that this is part of, where it can be taken up again.
    pub(crate) fn hang_up(&self, retry: Duration) {
        let exchange = self.incoming.exchange;
        // If it cannot be told, there is nothing left to close.
        let _ = self.queue.push(Command::HangUp { exchange, retry });
    }

    /// Who sent it, as the carrier knows it.
    #[cfg(feature = "http")]
    pub(crate) fn caller<T: std::any::Any>(&self) -> Option<&T> {
        self.incoming.caller.as_deref()?.downcast_ref()
    }

    /// Whether the sender has cancelled this request.
    pub fn is_cancelled(&self) -> bool {
        self.incoming.cancelled.load(Ordering::Acquire)
    }

    /// Waits until this request is answered or cancelled.
    pub(crate) async fn finished(&self) {
        self.incoming.over().await;
    }

    /// Waits until the connection is about to end: the other side has sent its last byte, or we shut down. A handler that
    /// would go on for ever finishes then.
    pub async fn closing(&self) {
        self.queue.closing().await;
    }

    /// How the connection ended; `None` while it stands.
    pub fn end(&self) -> Option<&ConnectionEnd> {
        self.queue.closed()
    }
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context").field("method", &self.method()).field("id", &self.id()).finish_non_exhaustive()
    }
}

/// Whether a request has been cancelled. Cheap to clone, and can outlive the handler.
#[derive(Debug, Clone)]
pub struct Cancellation(Arc<Incoming>);

impl Cancellation {
    /// Whether it has.
    pub fn is_cancelled(&self) -> bool {
        self.0.cancelled.load(Ordering::Acquire)
    }

    /// Waits until it is.
    pub async fn cancelled(&self) {
        self.0.cancelled().await;
    }
}
