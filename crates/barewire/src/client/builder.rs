//! The client builder: name and version, handlers for the server's requests, timeouts and limits.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use barewire_proto::mcp::{
    CreateMessageParams, CreateMessageResult, ElicitForm, ElicitResult, ElicitUrl, Era, Implementation, Revision, Root,
};
use serde::Serialize;

use super::era::RevisionPreference;
use super::handlers::{Handlers, handler, object_or_empty};
#[cfg(feature = "http")]
use super::http::{Endpoint, fetch::Fetch};
use super::link::ConnectionSource;
use super::restart::Restart;
use super::{Client, ClientError};
use crate::Failure;
use crate::peer::ConnectionLimits;
use crate::transport::{Child, Transport};

/// Builds a [`Client`]: sets its handlers, timeouts and limits, and connects it.
///
/// A server may only send the requests that the builder has closures for. The client declares the matching capabilities
/// in the form that the negotiated revision defines. The same closures answer legacy and modern servers.
///
/// ```no_run
/// use barewire::Client;
/// use barewire::client::accept;
/// use barewire::mcp::Root;
///
/// # async fn example() -> Result<(), barewire::ClientError> {
/// let client = Client::builder("my-host", "1.0")
///     .roots([Root::new("file:///home/me/project")])
///     .on_elicit(|form| async move {
///         // Show form.message and the fields of form.requested_schema to the user.
///         Ok(accept(serde_json::json!({ "name": "Ada" }))?)
///     })
///     .spawn("my-server")
///     .await?;
/// # drop(client); Ok(()) }
/// ```
#[must_use = "nothing is connected yet"]
pub struct Builder {
    handlers: Handlers,
    settings: ClientSettings,
}

/// The settings that stay the same for the lifetime of a client.
pub(super) struct ClientSettings {
    pub(super) info: Implementation,
    pub(super) handlers: Arc<Handlers>,
    pub(super) preference: RevisionPreference,
    pub(super) limits: ConnectionLimits,
    pub(super) restart: Option<Restart>,
    pub(super) probe_timeout: Duration,
    pub(super) timeout: Option<Duration>,
    pub(super) lenient: bool,
}

impl Builder {
    pub(super) fn new(info: Implementation) -> Self {
        let settings = ClientSettings {
            info,
            handlers: Arc::default(),
            preference: RevisionPreference::Any,
            limits: ConnectionLimits::default(),
            restart: None,
            probe_timeout: PROBE_TIMEOUT,
            timeout: Some(CALL_TIMEOUT),
            lenient: false,
        };
        Self { handlers: Handlers::default(), settings }
    }

    /// Replaces the client's name and version with a full description: title, website, icons.
    pub fn info(mut self, info: Implementation) -> Self {
        self.settings.info = info;
        self
    }

    /// Handles `elicitation/create` requests for a form. Fields that are missing from an accepted answer get the form's
    /// defaults. If the closure fails, a modern server receives the action `cancel`, and a legacy server receives an
    /// error response.
    pub fn on_elicit<F>(mut self, handle: impl Fn(ElicitForm) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<ElicitResult, Failure>> + Send + 'static,
    {
        self.handlers.form = Some(handler(handle));
        self
    }

    /// Handles `elicitation/create` requests to open a URL. Show the URL to the user and ask before opening it.
    pub fn on_elicit_url<F>(mut self, handle: impl Fn(ElicitUrl) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<ElicitResult, Failure>> + Send + 'static,
    {
        self.handlers.url = Some(handler(handle));
        self
    }

    /// Handles `sampling/createMessage` requests, with which the server asks for a message from the client's model.
    pub fn on_sample<F>(mut self, handle: impl Fn(CreateMessageParams) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<CreateMessageResult, Failure>> + Send + 'static,
    {
        self.handlers.sample = Some(handler(handle));
        self
    }

    /// Allows sampling requests to include tools. Has no effect without [`Self::on_sample`].
    pub fn sample_with_tools(mut self) -> Self {
        self.handlers.sample_tools = true;
        self
    }

    /// Answers `roots/list` with these folders.
    pub fn roots(self, roots: impl IntoIterator<Item = Root>) -> Self {
        let roots: Vec<Root> = roots.into_iter().collect();
        self.on_roots(move || std::future::ready(Ok(roots.clone())))
    }

    /// Handles `roots/list` for folders that can change. Call [`Client::roots_changed`] after a change.
    pub fn on_roots<F>(mut self, list: impl Fn() -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<Vec<Root>, Failure>> + Send + 'static,
    {
        self.handlers.roots = Some(handler(move |()| list()));
        self
    }

    /// Declares a protocol extension. `settings` must serialize to an object; anything else is declared as an empty
    /// object.
    pub fn extension(mut self, name: impl Into<String>, settings: impl Serialize) -> Self {
        self.handlers.extensions.insert(name.into(), object_or_empty(settings));
        self
    }

    /// Declares an experimental capability.
    pub fn experimental(mut self, name: impl Into<String>, settings: impl Serialize) -> Self {
        self.handlers.experimental.insert(name.into(), object_or_empty(settings));
        self
    }

    /// Accepts only this revision. Without this setting the client uses the latest revision that the server supports.
    pub fn revision(mut self, revision: Revision) -> Self {
        self.settings.preference = RevisionPreference::Exactly(revision);
        self
    }

    /// Tries this era first. Pass the era that [`Client::era`] returned when this server was last used: for a legacy
    /// server, the client then sends no `server/discover`. If the server's era has changed, the client detects that.
    pub fn era(mut self, era: Era) -> Self {
        self.settings.preference = RevisionPreference::LastKnownEra(era);
        self
    }

    /// Sets how long to wait for the response to `server/discover` before the client tries `initialize`; the default is
    /// 2 seconds. Some legacy servers never respond to `server/discover`. Servers at a URL always respond, so the
    /// client waits for their response as long as for any call: see [`Self::timeout`].
    pub fn probe_timeout(mut self, timeout: Duration) -> Self {
        self.settings.probe_timeout = timeout;
        self
    }

    /// Sets how long a call waits for its response; the default is 60 seconds. Each call can set its own timeout.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.settings.timeout = Some(timeout);
        self
    }

    /// Disables the timeout of calls that do not set their own timeout.
    pub fn no_timeout(mut self) -> Self {
        self.settings.timeout = None;
        self
    }

    /// Sets the limits of each connection.
    pub fn limits(mut self, limits: ConnectionLimits) -> Self {
        self.settings.limits = limits;
        self
    }

    /// Restarts a server process that [`Self::spawn`] started, each time the process ends. To a server at a URL the
    /// client reconnects even without this setting; then `restart` sets when and how often the client reconnects.
    ///
    /// Calls in flight fail, because their outcome is unknown; later calls go to the new server. The client restores
    /// the log level and the subscriptions, and sends open [`Client::listen`] requests again.
    pub fn restart(mut self, restart: Restart) -> Self {
        self.settings.restart = Some(restart);
        self
    }

    /// Also sends requests whose capability the server has not declared, or that the negotiated revision does not
    /// define. Useful for testing how a server reacts.
    pub fn lenient(mut self) -> Self {
        self.settings.lenient = true;
        self
    }

    /// Starts a server process and connects to it. `server` is a [`Child`] or the name of a program.
    pub async fn spawn(self, server: impl Into<Child>) -> Result<Client, ClientError> {
        let source = ConnectionSource::Program(server.into());
        self.connect(source).await
    }

    /// Connects to a server over this transport.
    pub async fn over(self, transport: impl Transport) -> Result<Client, ClientError> {
        self.connect(ConnectionSource::once(transport)).await
    }

    /// Connects to a server at a URL. Pass an [`Endpoint`] to set headers, tokens, TLS or a proxy. The client detects
    /// the server's era and its transport (Streamable HTTP or HTTP+SSE).
    ///
    /// If a call fails because the server has ended the session, the client opens a new session and sends the call once
    /// more.
    #[cfg(feature = "http")]
    pub async fn http(self, endpoint: impl Into<Endpoint>) -> Result<Client, ClientError> {
        let fetch = Fetch::new(&endpoint.into())?;
        self.connect(ConnectionSource::Http(fetch)).await
    }

    async fn connect(self, source: ConnectionSource) -> Result<Client, ClientError> {
        let Self { handlers, mut settings } = self;
        settings.handlers = Arc::new(handlers);
        Client::connect(settings, source).await
    }
}

impl std::fmt::Debug for Builder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Builder")
            .field("info", &self.settings.info)
            .field("handlers", &self.handlers)
            .finish_non_exhaustive()
    }
}

/// The default timeout of `server/discover`: long enough for a server that starts on a busy machine, short enough for a
/// user who waits for a legacy server that never responds to it.
const PROBE_TIMEOUT: Duration = Duration::from_secs(2);

/// The default timeout of a call, the same as in the official SDKs.
const CALL_TIMEOUT: Duration = Duration::from_secs(60);
