//! A request to the server: sent when awaited, cancelled when dropped.

use std::any::TypeId;
use std::borrow::Cow;
use std::fmt;
use std::future::{Future, IntoFuture};
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use barewire_proto::mcp::task_rules::extensions_with_tasks;
use barewire_proto::mcp::{LoggingLevel, ProgressParams, Task};
use serde::Serialize;

use super::link::Link;
use super::params::{self, CallParams, Members, modern_meta, to_raw};
use super::progress::{ProgressSink, ProgressUpdates};
use super::stopwatch::TimeLimits;
use super::task::TaskSink;
use super::{Client, ClientError, ClientShared, rounds};
use crate::TraceContext;
use crate::peer::{CallError, FromResult, Raw};

/// A request to the server. It is sent when it is awaited.
///
/// Dropping the future cancels the request and notifies the server. Requests that the server sends in the meantime are
/// answered by the closures of the [`Builder`](super::Builder).
#[must_use = "nothing is sent until it is awaited"]
pub struct Request<R> {
    pub(super) client: Client,
    pub(super) method: Cow<'static, str>,
    pub(super) params: Result<CallParams, String>,
    pub(super) options: CallOptions,
    result: PhantomData<fn() -> R>,
}

#[derive(Clone, Default)]
pub(super) struct CallOptions {
    timeout: CallTimeout,
    max_total: Option<Duration>,
    progress: Option<ProgressSink>,
    meta: Members,
    log_level: Option<LoggingLevel>,
    /// The error in an invalid option, such as a `_meta` that is not an object. Reported when the call is awaited.
    error: Option<String>,
    raw_result: bool,
    task_sink: Option<TaskSink>,
    /// Whether a task is returned instead of its result.
    starts_task: bool,
}

#[derive(Debug, Clone, Copy, Default)]
enum CallTimeout {
    /// The timeout that is set for the whole client.
    #[default]
    FromClient,
    After(Duration),
    Never,
}

impl<R> Request<R> {
    pub(super) fn new(
        client: &Client,
        method: impl Into<Cow<'static, str>>,
        params: Result<CallParams, String>,
    ) -> Self {
        let options = CallOptions::default();
        Self { client: client.clone(), method: method.into(), params, options, result: PhantomData }
    }

    /// Sets how long to wait for the response, instead of the client's timeout. The time in which the client answers
    /// requests from the server does not count. In the modern era, a call that requires input is sent in several
    /// rounds, and each round has this timeout.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.options.set_timeout(timeout);
        self
    }

    /// Disables the timeout.
    pub fn no_timeout(mut self) -> Self {
        self.options.timeout = CallTimeout::Never;
        self
    }

    /// Restarts the timeout at each progress notification, but limits the total time to `at_most`. In the modern era,
    /// these limits are for each round of the call.
    pub fn reset_by_progress(mut self, at_most: Duration) -> Self {
        self.options.max_total = Some(at_most);
        self
    }

    /// Requests progress notifications, and calls `handle` for each of them. The closure runs on the task that reads
    /// messages, so it must return quickly.
    pub fn on_progress(mut self, handle: impl FnMut(ProgressParams) + Send + 'static) -> Self {
        self.options.progress = Some(ProgressSink::new(handle));
        self
    }

    /// Requests progress notifications and returns a stream of them, to be read while the call is awaited.
    ///
    /// ```no_run
    /// # async fn example(client: barewire::Client) -> Result<(), barewire::ClientError> {
    /// let (call, mut progress) = client.call_tool("index", ()).with_progress();
    /// let show = async {
    ///     while let Some(step) = progress.next().await {
    ///         tracing::info!(done = step.progress, message = step.message);
    ///     }
    /// };
    /// let (result, ()) = tokio::join!(call.into_future(), show);
    /// # result.map(drop) }
    /// ```
    pub fn with_progress(mut self) -> (Self, ProgressUpdates) {
        let (sink, updates) = ProgressSink::channel();
        self.options.progress = Some(sink);
        (self, updates)
    }

    /// Calls `handle` with each state of the task, if the server runs the call as a task.
    pub fn on_task(mut self, handle: impl FnMut(&Task) + Send + 'static) -> Self {
        self.options.task_sink = Some(TaskSink::new(handle));
        self
    }

    /// Adds members to `_meta`. `meta` must serialize to an object.
    pub fn meta(mut self, meta: impl Serialize) -> Self {
        self.options.add_meta(&meta);
        self
    }

    /// Adds a trace context to `_meta`.
    pub fn trace(mut self, context: TraceContext) -> Self {
        self.options.add_meta(&context);
        self
    }

    /// Requests log messages of this level and above for this call. Has no effect in the legacy era, which has one
    /// level for all calls: [`Client::set_log_level`].
    pub fn log_level(mut self, level: LoggingLevel) -> Self {
        self.options.log_level = Some(level);
        self
    }
}

impl Request<Raw> {
    /// Returns the server's first result unchanged, even if its `resultType` says that the server requires input.
    pub fn raw_result(mut self) -> Self {
        self.options.raw_result = true;
        self
    }
}

impl CallOptions {
    pub(super) fn set_timeout(&mut self, timeout: Duration) {
        self.timeout = CallTimeout::After(timeout);
    }

    pub(super) fn add_meta(&mut self, meta: &impl Serialize) {
        match params::caller_meta(meta) {
            Ok(meta) => self.meta.extend(meta),
            Err(error) => self.error = Some(error),
        }
    }

    pub(super) fn start_task(&mut self) {
        self.starts_task = true;
    }

    pub(super) fn task_sink(&self) -> Option<&TaskSink> {
        self.task_sink.as_ref()
    }

    pub(super) fn starts_task(&self) -> bool {
        self.starts_task
    }

    pub(super) fn wants_raw_result(&self) -> bool {
        self.raw_result
    }
}

impl<R: FromResult> IntoFuture for Request<R> {
    type Output = Result<R, ClientError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let method = self.method.clone();
            let result = self.run().await?;
            parse_result(&method, result)
        })
    }
}

impl<R> Request<R> {
    /// Sends the request, and returns its result as JSON.
    pub(super) async fn run(self) -> Result<Raw, ClientError> {
        let Self { client, method, params, options, .. } = self;
        let params = params.map_err(ClientError::Params)?;
        if let Some(error) = options.error {
            return Err(ClientError::Params(error));
        }
        let link = client.0.link_for(&method).await?;
        let mut call = ActiveCall { shared: &client.0, link, method: &method, params, options };
        match rounds::run(&call).await {
            // The session ended before the server handled the request, so the request is sent again in a new session,
            // once. A second such error has another cause.
            Err(error) if error.is_session_ended() => {
                call.link = client.0.link_for(&method).await?;
                rounds::run(&call).await
            }
            result => result,
        }
    }
}

pub(super) fn parse_result<R: FromResult>(method: &str, result: Raw) -> Result<R, ClientError> {
    // Without this check, serde would also accept an array with the values of the members.
    let is_typed = TypeId::of::<R>() != TypeId::of::<Raw>();
    if is_typed && !result.as_str().is_some_and(|text| text.starts_with('{')) {
        return Err(ClientError::fault(method, "its result must be an object"));
    }
    R::from_result(result)
        .map_err(|error| ClientError::fault(method, format!("its result does not have the expected type: {error}")))
}

/// A call in progress.
pub(super) struct ActiveCall<'a> {
    pub(super) shared: &'a Arc<ClientShared>,
    pub(super) link: Arc<Link>,
    pub(super) method: &'a str,
    params: CallParams,
    pub(super) options: CallOptions,
}

impl ActiveCall<'_> {
    /// Sends the request and waits for the response. From the second round on, `round` holds the members to add: the
    /// input responses and the request state.
    pub(super) async fn send_round(&self, round: Option<Members>) -> Result<Raw, ClientError> {
        let options = &self.options;
        // From the second round on, `round` replaces the values that the user has set for these members.
        let params = match &round {
            Some(_) => self.params.without(&rounds::ROUND_MEMBERS),
            None => self.params.clone(),
        };
        let meta = self.shared.meta(&self.link, options.log_level, &options.meta);
        let params = params.with(round.unwrap_or_default(), meta).map_err(ClientError::Params)?;
        let timeout = match options.timeout {
            CallTimeout::FromClient => self.shared.settings.timeout,
            CallTimeout::After(timeout) => Some(timeout),
            CallTimeout::Never => None,
        };
        // A legacy server can send requests before it responds. The time in which the client answers these requests
        // does not count.
        let stopwatch = &self.link.stopwatch;
        let limits = Arc::new(TimeLimits::new(stopwatch, timeout, options.max_total));
        let mut call = self.link.peer.call::<Raw>(self.method, params).no_timeout();
        if options.progress.is_some() || options.max_total.is_some() {
            let (sink, limits) = (options.progress.clone(), Arc::clone(&limits));
            call = call.on_progress(move |progress| {
                limits.reset();
                if let Some(sink) = &sink {
                    sink.report(&progress);
                }
            });
        }
        // If a limit expires, the call is dropped, which cancels it.
        let response = stopwatch.within(&limits, call.into_future()).await.unwrap_or(Err(CallError::TimedOut));
        // If the call has two limits, it is unknown which of them expired.
        let after = timeout.filter(|_| options.max_total.is_none());
        response.map_err(|error| ClientError::from_call(self.method, after, error))
    }
}

impl ClientShared {
    /// Returns the connection, or an error if this method must not be sent over it.
    pub(super) async fn link_for(self: &Arc<Self>, method: &str) -> Result<Arc<Link>, ClientError> {
        let link = self.link().await?;
        if !self.settings.lenient {
            link.check_allowed(method)?;
        }
        Ok(link)
    }

    /// Returns the `_meta` members of a request: the members that the revision requires, and `more`, which the user has
    /// set.
    pub(super) fn meta(&self, link: &Link, level: Option<LoggingLevel>, more: &Members) -> Members {
        let revision = link.server.revision;
        let mut meta = Members::new();
        if revision.is_modern() {
            let settings = &self.settings;
            let mut capabilities = settings.handlers.capabilities(revision);
            // Tasks are declared only to servers that have them: no other server would know the name.
            if link.declares_tasks() {
                capabilities.extensions.get_or_insert_default().extend(extensions_with_tasks());
            }
            meta = modern_meta(revision, &settings.info, &capabilities, level.or(self.log_level()));
        }
        meta.extend(more.iter().map(|(name, value)| (name.clone(), to_raw(value))));
        meta
    }
}

impl<R> fmt::Debug for Request<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Request").field("method", &self.method).finish_non_exhaustive()
    }
}
