//! An MCP client: connects to a server of any revision and sends it requests.
//!
//! ```no_run
//! use barewire::Client;
//! use serde_json::json;
//!
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), barewire::ClientError> {
//! let client = Client::spawn("my-server").await?;
//! for tool in client.list_tools().await? {
//!     tracing::info!("{}", tool.name);
//! }
//! let result = client.call_tool("add", json!({ "a": 19, "b": 23 })).await?;
//! assert_eq!(result.content[0].as_text(), Some("42"));
//! # client.shutdown().await; Ok(()) }
//! ```
//!
//! The client detects the server's era: it first sends `server/discover`, and then `initialize` if the server is not
//! modern. Everything in this module works in both eras, unless its documentation says which era it needs.
//!
//! ```text
//! methods ─ request ─ rounds ─┐                       calls: one request, or several until there is a result
//!            task ── listen ───┤                       calls that the server runs as tasks
//!                             link ── peer ── wire    the connection and its negotiated revision (era); reconnects (restart)
//!     handlers ── service ────┤                       the server's requests: answered by the caller's closures
//!      notifications ─────────┘                       the server's notifications
//! ```

mod builder;
mod defaults;
mod era;
mod error;
mod handlers;
#[cfg(feature = "http")]
pub mod http;
mod link;
mod listen;
mod methods;
mod notifications;
#[cfg(feature = "oauth")]
pub mod oauth;
mod pages;
mod params;
mod progress;
mod request;
mod restart;
mod ring;
mod rounds;
mod service;
mod small;
mod stopwatch;
mod task;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use barewire_proto::mcp::{Era, Implementation, LoggingLevel, Revision, ServerCapabilities};
use tokio::sync::watch;

pub use builder::Builder;
pub use era::ServerInfo;
pub use error::ClientError;
pub use handlers::accept;
pub use listen::{Listen, ListenEnd};
pub use notifications::{Notifications, ServerNotification};
pub use pages::{MAX_LIST_BYTES, MAX_PAGES, Page, Pages};
pub use progress::ProgressUpdates;
pub use request::Request;
pub use restart::Restart;
pub use task::{StartedTool, ToolTask};

use crate::log::Log;
use crate::peer::ConnectionEnd;
use crate::transport::{Child, Transport};
use crate::{Error, Failure};
use builder::ClientSettings;
use link::{ConnectionSource, Link};
use listen::ListenHandle;
use notifications::NotificationHub;
use restart::{LinkState, RestartCount};

/// A connection to a server. Cloning is cheap. Dropping the last clone ends the connection and the server process that
/// was started for it.
#[derive(Clone)]
pub struct Client(Arc<ClientShared>);

/// State shared by all clones of a client and by its running calls.
struct ClientShared {
    settings: ClientSettings,
    source: ConnectionSource,
    hub: Arc<NotificationHub>,
    state: watch::Sender<LinkState>,
    restart_count: Arc<tokio::sync::Mutex<RestartCount>>,
    /// The number of connections opened so far.
    connections: AtomicU64,
    log_level: Mutex<Option<LoggingLevel>>,
    /// Maps each subscribed resource URI to its listen request; `None` in the legacy era, which has no listen requests.
    subscriptions: Mutex<BTreeMap<String, Option<ListenHandle>>>,
    log: Log,
}

impl Client {
    /// Returns a builder for a client with this name and version.
    pub fn builder(name: impl Into<String>, version: impl Into<String>) -> Builder {
        Builder::new(Implementation::new(name, version))
    }

    /// Starts a server process and connects to it. `server` is a [`Child`] or the name of a program.
    pub async fn spawn(server: impl Into<Child>) -> Result<Self, ClientError> {
        Self::default_builder().spawn(server).await
    }

    /// Connects to a server over this transport.
    pub async fn over(transport: impl Transport) -> Result<Self, ClientError> {
        Self::default_builder().over(transport).await
    }

    /// Connects to a server at a URL. Pass an [`Endpoint`](http::Endpoint) to set headers, tokens, TLS or a proxy.
    #[cfg(feature = "http")]
    pub async fn http(endpoint: impl Into<http::Endpoint>) -> Result<Self, ClientError> {
        Self::default_builder().http(endpoint).await
    }

    fn default_builder() -> Builder {
        Self::builder(env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION"))
    }

    async fn connect(settings: ClientSettings, source: ConnectionSource) -> Result<Self, ClientError> {
        let preference = settings.preference;
        let shared = Arc::new(ClientShared {
            log: Log::default(),
            settings,
            source,
            hub: NotificationHub::new(),
            state: watch::Sender::new(LinkState::Opening),
            restart_count: Arc::default(),
            connections: AtomicU64::new(0),
            log_level: Mutex::default(),
            subscriptions: Mutex::default(),
        });
        let link = shared.open(preference).await?;
        shared.install(&link);
        Ok(Self(shared))
    }

    /// Returns the server's description of itself.
    pub fn server_info(&self) -> ServerInfo {
        self.0.latest_link().server.clone()
    }

    /// Returns the negotiated revision.
    pub fn revision(&self) -> Revision {
        self.0.latest_link().server.revision
    }

    /// Returns the server's era. Pass the era to [`Builder::era`] next time, so that the client need not detect it.
    pub fn era(&self) -> Era {
        self.revision().era()
    }

    /// Returns the capabilities that the server has declared.
    pub fn capabilities(&self) -> ServerCapabilities {
        self.server_info().capabilities
    }

    /// Returns the server's instructions for a model that uses the server.
    pub fn instructions(&self) -> Option<String> {
        self.server_info().instructions
    }

    /// Returns a stream of the server's notifications from now on. The first stream of a client also yields the
    /// notifications that arrived before the stream was created.
    ///
    /// A modern server sends only the notifications that were requested with [`Self::listen`], [`Self::subscribe`] or
    /// [`Self::set_log_level`].
    pub fn notifications(&self) -> Notifications {
        self.0.hub.notifications()
    }

    /// Shuts the connection down: starts no new calls, waits briefly for the calls in flight, and ends the connection
    /// and the server process that was started for it. Returns `Ok` if the connection was closed cleanly, now or
    /// earlier.
    pub async fn shutdown(&self) -> Result<(), Error> {
        let link = self.0.latest_link();
        // This state change ends the open listen requests, so the shutdown does not wait for them.
        self.0.state.send_if_modified(|state| match state {
            LinkState::Open(link) => {
                *state = LinkState::Closing(Arc::clone(link));
                true
            }
            _ => false,
        });
        self.0.subscriptions().clear();
        let end = link.peer.shut_down().await;
        #[cfg(feature = "http")]
        link.wait_for_session_end().await;
        self.0.give_up(ClientError::Closed(end.clone()));
        end.into_result()
    }

    /// Waits for the end of the connection, and returns `Ok` if the connection was closed cleanly. A restart of the
    /// server does not count as the end.
    pub async fn closed(&self) -> Result<(), Error> {
        let mut state = self.0.state.subscribe();
        let ended = state.wait_for(|state| matches!(state, LinkState::Ended { .. })).await;
        match ended.as_deref() {
            Ok(LinkState::Ended { error: ClientError::Closed(end), .. }) => end.clone().into_result(),
            Ok(LinkState::Ended { error, .. }) => Err(Error::Client(error.clone())),
            _ => unreachable!("the sender lives as long as the client"),
        }
    }

    /// Returns how the latest connection ended; `None` while that connection is open.
    pub fn end(&self) -> Option<ConnectionEnd> {
        self.0.latest_link().peer.end()
    }
}

impl ClientShared {
    /// Returns the current connection, or the last connection if the client has ended.
    fn latest_link(&self) -> Arc<Link> {
        let state = self.state.borrow();
        Arc::clone(state.link().expect("a client exists only after its first connection"))
    }

    fn log_level(&self) -> Option<LoggingLevel> {
        *self.log_level.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set_log_level(&self, level: LoggingLevel) {
        *self.log_level.lock().unwrap_or_else(PoisonError::into_inner) = Some(level);
    }

    fn subscriptions(&self) -> MutexGuard<'_, BTreeMap<String, Option<ListenHandle>>> {
        self.subscriptions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn log(&self, message: fmt::Arguments<'_>) {
        self.log.report(message);
    }

    fn log_failure(&self, method: &str, failure: &Failure) {
        self.log.failed(method, failure);
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("server", &self.server_info()).finish_non_exhaustive()
    }
}
