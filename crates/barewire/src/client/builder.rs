//! What a client is made with: who it is, what it can be asked, how long it waits.

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

/// A client that is about to be connected.
///
/// What a server may ask of it is what it is given closures for, no more and no less: that is declared to the server, as
/// the revision has it, and the same closures answer in every era.
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
///         // Show form.message and the fields of form.requested_schema to somebody.
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

/// What does not change while a client lasts.
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

    /// Says more about the client than its name and version.
    pub fn info(mut self, info: Implementation) -> Self {
        self.settings.info = info;
        self
    }

    /// Lets servers ask the user with a form. What the closure accepts gets the form's defaults for what it leaves out; if
    /// it fails, a modern server is told that the user went away.
    pub fn on_elicit<F>(mut self, handle: impl Fn(ElicitForm) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<ElicitResult, Failure>> + Send + 'static,
    {
        self.handlers.form = Some(handler(handle));
        self
    }

    /// Lets servers ask the user to open a page. Show the user where it leads, and ask before it is opened.
    pub fn on_elicit_url<F>(mut self, handle: impl Fn(ElicitUrl) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<ElicitResult, Failure>> + Send + 'static,
    {
        self.handlers.url = Some(handler(handle));
        self
    }

    /// Lets servers ask the model.
    pub fn on_sample<F>(mut self, handle: impl Fn(CreateMessageParams) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<CreateMessageResult, Failure>> + Send + 'static,
    {
        self.handlers.sample = Some(handler(handle));
        self
    }

    /// Lets servers give the model tools, if they may ask it at all.
    pub fn sample_with_tools(mut self) -> Self {
        self.handlers.sample_tools = true;
        self
    }

    /// Tells servers the folders that the client works in.
    pub fn roots(self, roots: impl IntoIterator<Item = Root>) -> Self {
        let roots: Vec<Root> = roots.into_iter().collect();
        self.on_roots(move || std::future::ready(Ok(roots.clone())))
    }

    /// The same, for folders that change. [`Client::roots_changed`] says that they have.
    pub fn on_roots<F>(mut self, list: impl Fn() -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<Vec<Root>, Failure>> + Send + 'static,
    {
        self.handlers.roots = Some(handler(move |()| list()));
        self
    }

    /// Declares an extension of the protocol, with its settings: anything that is written as an object.
    pub fn extension(mut self, name: impl Into<String>, settings: impl Serialize) -> Self {
        self.handlers.extensions.insert(name.into(), object_or_empty(settings));
        self
    }

    /// Declares something that is not in the protocol.
    pub fn experimental(mut self, name: impl Into<String>, settings: impl Serialize) -> Self {
        self.handlers.experimental.insert(name.into(), object_or_empty(settings));
        self
    }

    /// Speaks this revision and no other. Without, the server is asked what it speaks.
    pub fn revision(mut self, revision: Revision) -> Self {
        self.settings.preference = RevisionPreference::Exactly(revision);
        self
    }

    /// The server was of this era last time ([`Client::era`]), so it need not be asked. If it no longer is, it is found out.
    pub fn era(mut self, era: Era) -> Self {
        self.settings.preference = RevisionPreference::LastKnownEra(era);
        self
    }

    /// Waits this long for the answer to the question which era a server is of, instead of 2 seconds. Legacy servers need
    /// not answer it. One at a URL handlers everything, and has as long as for any call.
    pub fn probe_timeout(mut self, timeout: Duration) -> Self {
        self.settings.probe_timeout = timeout;
        self
    }

    /// Waits this long for the answer to a call, instead of 60 seconds. Each call can have its own.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.settings.timeout = Some(timeout);
        self
    }

    /// Waits for ever, unless a call has a timeout of its own.
    pub fn no_timeout(mut self) -> Self {
        self.settings.timeout = None;
        self
    }

    /// Holds itself to these limits.
    pub fn limits(mut self, limits: ConnectionLimits) -> Self {
        self.settings.limits = limits;
        self
    }

    /// RestartCount the server again when it has ended. Only for one that [`Self::spawn`] has started; one at a URL is connected to
    /// again in any case, and this says when and how often.
    ///
    /// Calls that are in flight fail, because nobody knows what came of them; what is called after that is sent to the new
    /// one. Log level, subscriptions and listens are taken up again.
    pub fn restart(mut self, restart: Restart) -> Self {
        self.settings.restart = Some(restart);
        self
    }

    /// Sends also what the server has not declared and what its revision does not have: to see what it says.
    pub fn lenient(mut self) -> Self {
        self.settings.lenient = true;
        self
    }

    /// RestartCount a server and connects to it: a [`Child`], or the name of a program.
    pub async fn spawn(self, server: impl Into<Child>) -> Result<Client, ClientError> {
        let source = ConnectionSource::Program(server.into());
        self.connect(source).await
    }

    /// Connects to a server over this.
    pub async fn over(self, transport: impl Transport) -> Result<Client, ClientError> {
        self.connect(ConnectionSource::once(transport)).await
    }

    /// Connects to a server at a URL: the URL, or an [`Endpoint`] that says more. Which era and which transport it is of is
    /// found out.
    ///
    /// When a session is over, another is opened, and what was asked in vain is asked again, once.
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

/// Long enough for a server that starts with the machine busy, short enough for a person who waits for an old one.
const PROBE_TIMEOUT: Duration = Duration::from_secs(2);

/// As long as the official SDKs wait.
const CALL_TIMEOUT: Duration = Duration::from_secs(60);
