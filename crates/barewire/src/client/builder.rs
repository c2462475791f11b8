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

/// A client before it connects.
///
/// A server may send exactly the requests that the builder has closures for: the client declares those capabilities, in
/// the form of the negotiated revision, and the same closures answer in both eras.
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

    /// Handles `elicitation/create` requests for a form. An accepted answer gets the form's default for each field it
    /// leaves out. If the closure fails, a modern server receives the action `cancel`.
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

    /// Handles `sampling/createMessage`: requests to the model.
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

    /// Starts with this era, which the server had last time ([`Client::era`]), and skips the `server/discover` request
    /// for a legacy server. If the server's era has changed, the client finds the new one.
    pub fn era(mut self, era: Era) -> Self {
        self.settings.preference = RevisionPreference::LastKnownEra(era);
        self
    }

    /// Sets how long to wait for the response to `server/discover`, instead of 2 seconds. A legacy server may not
    /// respond to it at all. A server at a URL always responds, so there the call timeout applies.
    pub fn probe_timeout(mut self, timeout: Duration) -> Self {
        self.settings.probe_timeout = timeout;
        self
    }

    /// Sets how long a call waits for its response, instead of 60 seconds. Each call can set its own timeout.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.settings.timeout = Some(timeout);
        self
    }

    /// Disables the timeout of calls that do not set their own.
    pub fn no_timeout(mut self) -> Self {
        self.settings.timeout = None;
        self
    }

    /// Sets the limits of each connection.
    pub fn limits(mut self, limits: ConnectionLimits) -> Self {
        self.settings.limits = limits;
        self
    }

    /// Starts the server again after it has ended. Applies to servers started by [`Self::spawn`]. A server at a URL is
    /// reconnected to in any case; there this sets when and how often.
    ///
    /// Calls in flight fail, because their outcome is unknown; later calls go to the new server. The log level,
    /// subscriptions and listens are restored.
    pub fn restart(mut self, restart: Restart) -> Self {
        self.settings.restart = Some(restart);
        self
    }

    /// Also sends requests that the server has not declared or that the revision does not have. For testing a server's
    /// reaction.
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

    /// Connects to a server at a URL. Pass an [`Endpoint`] to set headers, tokens, TLS or a proxy. The client finds out
    /// the server's era and transport.
    ///
    /// When the server ends a session, the client opens a new one and sends the call that failed because of it once
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

/// Long enough for a server that starts on a busy machine, short enough for a user who waits for a legacy server.
const PROBE_TIMEOUT: Duration = Duration::from_secs(2);

/// The default of the official SDKs.
const CALL_TIMEOUT: Duration = Duration::from_secs(60);
