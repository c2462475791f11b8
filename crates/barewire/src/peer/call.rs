//! A call of ours: asked when it is awaited, cancelled when it is dropped.

use std::fmt;
use std::future::{Future, IntoFuture};
use std::io;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::Duration;

use barewire_proto::rpc::ErrorObject;
use barewire_proto::session::{CallId, CallTimeout};
use barewire_proto::transcript::escape;
use tokio::sync::oneshot;

use super::outlet::Exchange;
use super::queue::{Ask, Command, OnProgress, Queue};
use super::{ConnectionEnd, FromResult, Raw};

/// A call to the other side. It is sent when it is awaited.
#[must_use = "nothing is sent until it is awaited"]
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

    /// Waits this long for the answer instead of 60 seconds. The other side is told when it is over.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.patience.timeout = Some(timeout);
        self
    }

    /// Waits for ever.
    pub fn no_timeout(mut self) -> Self {
        self.patience.timeout = None;
        self
    }

    /// Lets the timeout begin anew with each progress that is reported, but waits no longer than `at_most`.
    pub fn reset_by_progress(mut self, at_most: Duration) -> Self {
        self.patience.reset_by_progress = true;
        self.patience.at_most = Some(at_most);
        // To be told of progress one has to ask for it.
        self.progress.get_or_insert_with(|| OnProgress(Box::new(drop)));
        self
    }

    /// Asks to be told of progress, and does this with what comes. It runs where messages are read: it must be quick.
    pub fn on_progress(mut self, tell: impl FnMut(Raw) + Send + 'static) -> Self {
        self.progress = Some(OnProgress(Box::new(tell)));
        self
    }

    /// Does not tell the other side when it is given up: some calls must not be cancelled.
    pub(crate) fn quiet(mut self) -> Self {
        self.quiet = true;
        self
    }

    /// Asked while this is being served, and told to whoever waits for that.
    pub(super) fn in_course_of(mut self, exchange: Exchange) -> Self {
        self.exchange = exchange;
        self
    }

    /// Holds the call's id from the moment it is about to be written.
    pub(crate) fn id(&self) -> Arc<OnceLock<CallId>> {
        Arc::clone(&self.id)
    }

    /// What the queue is told, and what waits for the outcome.
    pub(super) fn prepare(self) -> Result<(Ask, Waiting), CallError> {
        let Self { queue, method, params, patience, progress, quiet, exchange, id, .. } = self;
        let params = params.map_err(|error| CallError::Params(error.to_string()))?;
        let params = queue.traced(&method, params);
        let (answer, outcome) = oneshot::channel();
        let waiting = Waiting { queue, id: Arc::clone(&id), outcome, over: false };
        Ok((Ask { method, params, patience, progress, quiet, exchange, id, answer }, waiting))
    }
}

impl<R: FromResult> IntoFuture for OutgoingCall<R> {
    type Output = Result<R, CallError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let (ask, waiting) = self.prepare()?;
            let queue = Arc::clone(&waiting.queue);
            let permits = queue.reserve(ask.len()).await.map_err(CallError::Closed)?;
            queue.push(Command::Ask { ask, permits }).map_err(|_| CallError::Closed(queue.why()))?;
            read(waiting.await?)
        })
    }
}

impl<R> fmt::Debug for OutgoingCall<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OutgoingCall").field("method", &self.method).finish_non_exhaustive()
    }
}

impl Ask {
    /// About as many bytes as it takes on the wire.
    pub(super) fn len(&self) -> usize {
        self.method.len() + self.params.as_ref().map_or(0, String::len) + 48
    }
}

pub(super) fn read<R: FromResult>(raw: Raw) -> Result<R, CallError> {
    R::from_result(raw).map_err(|error| CallError::Result(error.to_string()))
}

/// Somebody who waits for an answer. If dropped before it comes, the call is forgotten.
#[derive(Debug)]
pub(super) struct Waiting {
    queue: Arc<Queue>,
    id: Arc<OnceLock<CallId>>,
    outcome: oneshot::Receiver<Result<Raw, CallError>>,
    over: bool,
}

impl Future for Waiting {
    type Output = Result<Raw, CallError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Poll::Ready(outcome) = Pin::new(&mut self.outcome).poll(context) else { return Poll::Pending };
        self.over = true;
        Poll::Ready(outcome.unwrap_or_else(|_| match self.queue.closed() {
            Some(closed) => Err(CallError::Closed(closed.clone())),
            None => Err(CallError::Params("the batch was dropped and never sent".to_owned())),
        }))
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if !self.over {
            // First, so that a batch which is sent at this moment leaves it out.
            self.outcome.close();
            // If it cannot be told, it is over already. If it was never asked, the driver knows.
            let _ = self.queue.push(Command::Forget(Arc::clone(&self.id)));
        }
    }
}

/// Why a call has no result.
#[derive(Clone)]
#[non_exhaustive]
pub enum CallError {
    /// The other side understood, and said no.
    Refused(ErrorObject),
    /// The other side answered with something that is no response: which rule it breaks.
    Fault(String),
    /// The answer is none of the type that was asked for.
    Result(String),
    /// It was part of a batch, and the answer to the batch has none for it.
    Missing,
    /// It took too long. The other side has been told.
    TimedOut,
    /// The other side has ended it without an answer.
    Cancelled,
    /// The parameters cannot be sent.
    Params(String),
    /// What carries the messages could not carry this one, or its answer. The connection goes on.
    Carrier(Arc<dyn std::error::Error + Send + Sync>),
    /// The connection is over.
    Closed(ConnectionEnd),
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(error) => {
                write!(f, "{} ({})", shown(&error.message), error.code)?;
                // Why exactly is often in there, and what is long is not for a sentence.
                match error.data.as_ref().map(|data| data.get()) {
                    Some(data) if data.len() <= SHOWN => write!(f, ": {}", escape(data.as_bytes())),
                    _ => Ok(()),
                }
            }
            Self::Fault(what) => write!(f, "the answer is no valid response: {}", shown(what)),
            Self::Result(what) => write!(f, "the result is not what was expected: {}", shown(what)),
            Self::Missing => f.write_str("the answer to the batch has none for this call"),
            Self::TimedOut => f.write_str("no answer in time"),
            Self::Cancelled => f.write_str("the other side ended the call without an answer"),
            Self::Params(what) => write!(f, "the params cannot be sent: {what}"),
            Self::Carrier(why) => fmt::Display::fmt(why, f),
            Self::Closed(closed) => fmt::Display::fmt(closed, f),
        }
    }
}

/// As [`fmt::Display`] has it: this is what a `main` that returns an error prints.
impl fmt::Debug for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for CallError {}

/// What the other side wrote, for a sentence of ours: escaped, and only the beginning of what is long.
pub(crate) fn shown(text: &str) -> String {
    match text.char_indices().nth(SENTENCE) {
        Some((end, _)) => format!("{}…", escape(&text.as_bytes()[..end])),
        None => escape(text.as_bytes()).into_owned(),
    }
}

/// So many characters of what the other side wrote are shown: what is meant to be read is shorter.
const SENTENCE: usize = 500;

/// So much of an error's data is shown: two lines of a terminal.
const SHOWN: usize = 200;

/// As long as the official SDKs wait.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(60);
