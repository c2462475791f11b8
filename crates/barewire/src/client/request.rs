//! A request to the server: sent when it is awaited, cancelled when it is dropped.

use std::any::TypeId;
use std::borrow::Cow;
use std::fmt;
use std::future::{Future, IntoFuture};
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use barewire_proto::mcp::{LoggingLevel, ProgressParams};
use serde::Serialize;

use super::link::Link;
use super::params::{self, CallParams, Members, modern_meta, to_raw};
use super::progress::{ProgressSink, ProgressUpdates};
use super::stopwatch::TimeLimits;
use super::{Client, ClientError, ClientShared, rounds};
use crate::TraceContext;
use crate::peer::{CallError, FromResult, Raw};

/// A request to the server. It is sent when it is awaited.
///
/// Dropping it while it waits cancels it, and tells the server so. What the server asks back in between is answered by the
/// closures that the client was built with.
#[must_use = "nothing is sent until it is awaited"]
pub struct Request<R> {
    pub(super) client: Client,
    pub(super) method: Cow<'static, str>,
    pub(super) params: Result<CallParams, String>,
    pub(super) options: CallOptions,
    result: PhantomData<fn() -> R>,
}

/// How a call is made.
#[derive(Clone, Default)]
pub(super) struct CallOptions {
    timeout: CallTimeout,
    max_total: Option<Duration>,
    progress: Option<ProgressSink>,
    meta: Members,
    log_level: Option<LoggingLevel>,
    /// What is wrong with all this.
    error: Option<String>,
    raw_result: bool,
}

/// How long an answer is waited for.
#[derive(Debug, Clone, Copy, Default)]
enum CallTimeout {
    /// As the client was built.
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

    /// Waits this long for the server's answer instead of what the client was built with. If the server asks back, each of
    /// its answers may take as long; the time that our own answers take does not count.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.options.set_timeout(timeout);
        self
    }

    /// Waits for ever.
    pub fn no_timeout(mut self) -> Self {
        self.options.timeout = CallTimeout::Never;
        self
    }

    /// Lets the timeout begin anew with each progress that is reported, but waits no longer than `at_most`.
    pub fn reset_by_progress(mut self, at_most: Duration) -> Self {
        self.options.max_total = Some(at_most);
        self
    }

    /// Asks to be told of progress, and does this with what comes. It runs where messages are read: it must be quick.
    pub fn on_progress(mut self, handle: impl FnMut(ProgressParams) + Send + 'static) -> Self {
        self.options.progress = Some(ProgressSink::new(handle));
        self
    }

    /// Asks to be told of progress, and gives a stream of it. To be read while the call is awaited.
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

    /// Adds members to `_meta`: anything that is written as an object.
    pub fn meta(mut self, meta: impl Serialize) -> Self {
        self.options.add_meta(&meta);
        self
    }

    /// Says in `_meta` what caused this call.
    pub fn trace(mut self, context: TraceContext) -> Self {
        self.options.add_meta(&context);
        self
    }

    /// Asks for log messages from this level on, about this call alone. In the legacy era there is one level for all calls,
    /// [`Client::set_log_level`], and this changes nothing.
    pub fn log_level(mut self, level: LoggingLevel) -> Self {
        self.options.log_level = Some(level);
        self
    }
}

impl Request<Raw> {
    /// Gives the result as it comes, without a look at its `resultType`: also if it says that input is required.
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

    pub(super) fn wants_raw_result(&self) -> bool {
        self.raw_result
    }
}

impl<R: FromResult> IntoFuture for Request<R> {
    type Output = Result<R, ClientError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let Self { client, method, params, options, .. } = self;
            let params = params.map_err(ClientError::Params)?;
            if let Some(error) = options.error {
                return Err(ClientError::Params(error));
            }
            let link = client.0.link_for(&method).await?;
            let mut call = ActiveCall { shared: &client.0, link, method: &method, params, options };
            let result = match rounds::run(&call).await {
                // Nothing has come of it, so it can be asked again; but if that session is over too, it is not the session.
                Err(error) if error.is_session_ended() => {
                    call.link = client.0.link_for(&method).await?;
                    rounds::run(&call).await?
                }
                result => result?,
            };
            parse_result(&method, result)
        })
    }
}

/// A result as what it should be.
pub(super) fn parse_result<R: FromResult>(method: &str, result: Raw) -> Result<R, ClientError> {
    // An array of the values of its members would do for serde.
    let is_typed = TypeId::of::<R>() != TypeId::of::<Raw>();
    if is_typed && !result.as_str().is_some_and(|text| text.starts_with('{')) {
        return Err(ClientError::fault(method, "its result must be an object"));
    }
    R::from_result(result)
        .map_err(|error| ClientError::fault(method, format!("its result is not what was expected: {error}")))
}

/// A call that is being made.
pub(super) struct ActiveCall<'a> {
    pub(super) shared: &'a Arc<ClientShared>,
    pub(super) link: Arc<Link>,
    pub(super) method: &'a str,
    params: CallParams,
    pub(super) options: CallOptions,
}

impl ActiveCall<'_> {
    /// Sends the request and waits for the answer; `round` is what belongs to this one of several.
    pub(super) async fn send_round(&self, round: Option<Members>) -> Result<Raw, ClientError> {
        let options = &self.options;
        // What the caller has written there itself was for the first.
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
        // A legacy server may ask back before it answers, and the time until it has our answer is not its own.
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
        // Dropped, it is cancelled.
        let response = stopwatch.within(&limits, call.into_future()).await.unwrap_or(Err(CallError::TimedOut));
        // With two limits nobody can say which it was.
        let after = timeout.filter(|_| options.max_total.is_none());
        response.map_err(|error| ClientError::from_call(self.method, after, error))
    }
}

impl ClientShared {
    /// The connection, if this may be asked over it.
    pub(super) async fn link_for(self: &Arc<Self>, method: &str) -> Result<Arc<Link>, ClientError> {
        let link = self.link().await?;
        if !self.settings.lenient {
            link.check_allowed(method)?;
        }
        Ok(link)
    }

    /// What stands in the `_meta` of a request: what the revision wants there, and what the caller does.
    pub(super) fn meta(&self, link: &Link, level: Option<LoggingLevel>, more: &Members) -> Members {
        let revision = link.server.revision;
        let mut meta = Members::new();
        if revision.is_modern() {
            let settings = &self.settings;
            let capabilities = settings.handlers.capabilities(revision);
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
