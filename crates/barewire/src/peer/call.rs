//! An outgoing call: sent when it is awaited, cancelled when it is dropped.

use std::fmt::{self, Write as _};
use std::future::{Future, IntoFuture};
use std::io;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::Duration;

use barewire_proto::rpc::ErrorObject;
use barewire_proto::session::{CallId, CallTimeout};
use barewire_proto::transcript::{EscapeWriter, escape};
use tokio::sync::oneshot;

use super::outlet::Exchange;
use super::queue::{Command, NewCall, OnProgress, Queue};
use super::{ConnectionEnd, FromResult, Raw};

/// A call to the peer. It is sent when it is awaited.
#[must_use = "nothing is sent until the call is awaited"]
pub struct OutgoingCall<R> {
    queue: Arc<Queue>,
    method: String,
    params: io::Result<Option<String>>,
    patience: CallTimeout,
    progress: Option<OnProgress>,
    quiet: bool,
    exchange: Exchange,
    id: Arc<OnceLock<CallId>>,
    result: PhantomData<fn() -> R>,
}

impl<R> OutgoingCall<R> {
    pub(super) fn new(queue: Arc<Queue>, method: String, params: io::Result<Option<String>>) -> Self {
        let patience = CallTimeout::default().timeout(DEFAULT_TIMEOUT);
        Self {
            queue,
            method,
            params,
            patience,
            progress: None,
            quiet: false,
            exchange: Exchange::NONE,
            id: Arc::new(OnceLock::new()),
            result: PhantomData,
        }
    }

    /// Sets the timeout for the answer; the default is 60 seconds. When the timeout expires, a cancellation is sent to
    /// the peer.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.patience.timeout = Some(timeout);
        self
    }

    /// Waits for the answer without a time limit.
    pub fn no_timeout(mut self) -> Self {
        self.patience.timeout = None;
        self
    }

    /// Restarts the timeout with each progress notification, but waits no longer than `at_most` in total.
    pub fn reset_by_progress(mut self, at_most: Duration) -> Self {
        self.patience.reset_by_progress = true;
        self.patience.at_most = Some(at_most);
        // The peer reports progress only for calls with a progress token, and a token is added only if there is a
        // callback.
        self.progress.get_or_insert_with(|| OnProgress(Box::new(drop)));
        self
    }

    /// Asks the peer for progress notifications, and calls `callback` with each. The callback runs on the task that
    /// reads messages, so it must return quickly.
    pub fn on_progress(mut self, callback: impl FnMut(Raw) + Send + 'static) -> Self {
        self.progress = Some(OnProgress(Box::new(callback)));
        self
    }

    /// Sends no cancellation to the peer when the call is dropped or times out. The specification forbids cancelling
    /// some calls.
    pub(crate) fn quiet(mut self) -> Self {
        self.quiet = true;
        self
    }

    /// Makes the call part of `exchange`: it is sent over the same HTTP stream as the answer of that exchange.
    pub(super) fn within_exchange(mut self, exchange: Exchange) -> Self {
        self.exchange = exchange;
        self
    }

    /// Returns the cell for the id of the call. The id is set immediately before the call is written.
    pub(crate) fn id(&self) -> Arc<OnceLock<CallId>> {
        Arc::clone(&self.id)
    }

    /// Splits the call into the command for the queue and the future that waits for the answer.
    pub(super) fn prepare(self) -> Result<(NewCall, PendingAnswer), CallError> {
        let Self { queue, method, params, patience, progress, quiet, exchange, id, .. } = self;
        let params = params.map_err(|error| CallError::Params(error.to_string()))?;
        let params = queue.with_trace_context(&method, params);
        let (answer, outcome) = oneshot::channel();
        let waiting = PendingAnswer { queue, id: Arc::clone(&id), outcome, is_settled: false };
        Ok((NewCall { method, params, patience, progress, quiet, exchange, id, answer }, waiting))
    }
}

impl<R: FromResult> IntoFuture for OutgoingCall<R> {
    type Output = Result<R, CallError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let (call, waiting) = self.prepare()?;
            let queue = Arc::clone(&waiting.queue);
            let permits = queue.reserve(call.len()).await.map_err(CallError::Closed)?;
            queue.push(Command::Call { call, permits }).map_err(|_| CallError::Closed(queue.end()))?;
            read_result(waiting.await?)
        })
    }
}

impl<R> fmt::Debug for OutgoingCall<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OutgoingCall").field("method", &self.method).finish_non_exhaustive()
    }
}

impl NewCall {
    /// The approximate size of the serialized request, in bytes.
    pub(super) fn len(&self) -> usize {
        self.method.len() + self.params.as_ref().map_or(0, String::len) + 48
    }
}

pub(super) fn read_result<R: FromResult>(raw: Raw) -> Result<R, CallError> {
    R::from_result(raw).map_err(|error| CallError::Result(error.to_string()))
}

/// The future that waits for the answer to a call. If it is dropped before the answer arrives, the call is cancelled.
#[derive(Debug)]
pub(super) struct PendingAnswer {
    queue: Arc<Queue>,
    id: Arc<OnceLock<CallId>>,
    outcome: oneshot::Receiver<Result<Raw, CallError>>,
    is_settled: bool,
}

impl Future for PendingAnswer {
    type Output = Result<Raw, CallError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Poll::Ready(outcome) = Pin::new(&mut self.outcome).poll(context) else { return Poll::Pending };
        self.is_settled = true;
        Poll::Ready(outcome.unwrap_or_else(|_| match self.queue.closed() {
            Some(closed) => Err(CallError::Closed(closed.clone())),
            None => Err(CallError::Params("the batch was dropped and never sent".to_owned())),
        }))
    }
}

impl Drop for PendingAnswer {
    fn drop(&mut self) {
        if !self.is_settled {
            // The channel is closed first, so that a batch that is being written at this moment leaves the call out.
            self.outcome.close();
            // If the queue is closed, the call has already failed. If the call was never sent, the driver ignores the
            // command.
            let _ = self.queue.push(Command::Forget(Arc::clone(&self.id)));
        }
    }
}

/// The reason why a call failed.
#[derive(Clone)]
#[non_exhaustive]
pub enum CallError {
    /// The peer answered with an error.
    Refused(ErrorObject),
    /// The peer's answer is not a valid response. The text names the rule that the answer breaks.
    Fault(String),
    /// The result cannot be deserialized into the expected type.
    Result(String),
    /// The call was part of a batch, and the answer to the batch has no response to this call.
    Missing,
    /// There was no answer before the timeout. A cancellation was sent to the peer, if the protocol allows it.
    TimedOut,
    /// The peer cancelled the call and will not answer it.
    Cancelled,
    /// The parameters are invalid or cannot be serialized, so the call was not sent.
    Params(String),
    /// The carrier, such as HTTP, could not deliver this request or its answer. The connection stays open.
    Carrier(Arc<dyn std::error::Error + Send + Sync>),
    /// The connection has ended.
    Closed(ConnectionEnd),
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let f = &mut EscapeWriter::new(f);
        match self {
            Self::Refused(error) => {
                write!(f, "{} ({})", shown(&error.message), error.code)?;
                // The data often holds the exact reason. Long data is left out to keep the message short.
                match error.data.as_ref().map(|data| data.get()) {
                    Some(data) if data.len() <= MAX_DATA_BYTES => write!(f, ": {}", escape(data.as_bytes())),
                    _ => Ok(()),
                }
            }
            Self::Fault(what) => write!(f, "the answer is not a valid response: {}", shown(what)),
            Self::Result(what) => write!(f, "the result does not have the expected type: {}", shown(what)),
            Self::Missing => f.write_str("the answer to the batch has no response to this call"),
            Self::TimedOut => f.write_str("no answer before the timeout"),
            Self::Cancelled => f.write_str("the peer ended the call without an answer"),
            Self::Params(what) => write!(f, "the params cannot be sent: {what}"),
            Self::Carrier(why) => write!(f, "{why}"),
            Self::Closed(closed) => write!(f, "{closed}"),
        }
    }
}

/// Writes the same text as [`fmt::Display`], because an error that `main` returns is printed with `Debug`.
impl fmt::Debug for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for CallError {}

/// Returns the first 500 characters of a peer's text, escaped, to be quoted in an error message.
pub(crate) fn shown(text: &str) -> String {
    match text.char_indices().nth(MAX_EXCERPT_CHARS) {
        Some((end, _)) => format!("{}…", escape(&text.as_bytes()[..end])),
        None => escape(text.as_bytes()).into_owned(),
    }
}

/// The maximum number of characters of a peer's text that an error message quotes. Most error messages are shorter.
const MAX_EXCERPT_CHARS: usize = 500;

/// The maximum number of bytes of error data that are shown: about two lines of a terminal.
const MAX_DATA_BYTES: usize = 200;

/// The default timeout of a call, which is also that of the official SDKs.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(60);
