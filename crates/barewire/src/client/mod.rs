//! A client of MCP: connects to a server of any revision, and asks it things.
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
//! Which era the server is of is found out: it is asked `server/discover`, and if it does not answer as a modern server
//! does, `initialize` follows. Everything here works in both, and what does not says so.
//!
//! ```text
//! methods ─ request ─ rounds ─┐                       what is asked: one request, or several until there is a result
//!                   listen ───┤
//!                             link ── peer ── wire    the connection and what was agreed on it (era); opened again (restart)
//!      answers ── service ────┤                       what the server asks: the caller's closures
//!      notifications ─────────┘                       what it tells
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
mod pages;
mod params;
mod progress;
mod request;
mod restart;
mod ring;
mod rounds;
mod service;
mod stopwatch;

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

use crate::log::Log;
use crate::peer::ConnectionEnd;
use crate::transport::{Child, Transport};
use crate::{Error, Failure};
use builder::ClientSettings;
use link::{ConnectionSource, Link};
use listen::ListenHandle;
use notifications::NotificationHub;
use restart::{LinkState, RestartCount};

/// A connection to a server. Cheap to clone; when the last clone is dropped, the connection ends, and with it a server that
/// was started for it.
#[derive(Clone)]
pub struct Client(Arc<ClientShared>);

/// What all clones of a client, and all that they have under way, share.
struct ClientShared {
    settings: ClientSettings,
    source: ConnectionSource,
    hub: Arc<NotificationHub>,
    state: watch::Sender<LinkState>,
    restart_count: Arc<tokio::sync::Mutex<RestartCount>>,
    /// How many connections there have been.
    connections: AtomicU64,
    log_level: Mutex<Option<LoggingLevel>>,
    /// What is subscribed to; in the modern era, by which listen.
    subscriptions: Mutex<BTreeMap<String, Option<ListenHandle>>>,
    log: Log,
}

impl Client {
    /// A client with this name and version, to be connected.
    pub fn builder(name: impl Into<String>, version: impl Into<String>) -> Builder {
        Builder::new(Implementation::new(name, version))
    }

    /// RestartCount a server and connects to it: a [`Child`], or the name of a program.
    pub async fn spawn(server: impl Into<Child>) -> Result<Self, ClientError> {
        Self::default_builder().spawn(server).await
    }

    /// Connects to a server over this.
    pub async fn over(transport: impl Transport) -> Result<Self, ClientError> {
        Self::default_builder().over(transport).await
    }

    /// Connects to a server at a URL, or an [`Endpoint`](http::Endpoint) that says more.
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

    /// The server, as it has described itself.
    pub fn server_info(&self) -> ServerInfo {
        self.0.latest_link().server.clone()
    }

    /// What is spoken.
    pub fn revision(&self) -> Revision {
        self.0.latest_link().server.revision
    }

    /// The era of the server. Given to [`Builder::era`] next time, it saves the question.
    pub fn era(&self) -> Era {
        self.revision().era()
    }

    /// What the server can do.
    pub fn capabilities(&self) -> ServerCapabilities {
        self.server_info().capabilities
    }

    /// What a model should know about the server.
    pub fn instructions(&self) -> Option<String> {
        self.server_info().instructions
    }

    /// What the server tells from now on. The first one begins with what came before it.
    ///
    /// In the modern era a server tells only what it was asked for: [`Self::listen`], [`Self::subscribe`],
    /// [`Self::set_log_level`].
    pub fn notifications(&self) -> Notifications {
        self.0.hub.notifications()
    }

    /// Begins nothing new, waits a moment for what is in flight, and ends the connection; a server that was started for it
    /// ends too. `Ok` if the connection ended in order, now or before.
    pub async fn shutdown(&self) -> Result<(), Error> {
        let link = self.0.latest_link();
        // Listens end by this, so that nobody waits for them.
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

    /// Waits for the end of the connection. `Ok` if it ended in order. A server that is started again has not ended.
    pub async fn closed(&self) -> Result<(), Error> {
        let mut state = self.0.state.subscribe();
        let ended = state.wait_for(|state| matches!(state, LinkState::Ended { .. })).await;
        match ended.as_deref() {
            Ok(LinkState::Ended { error: ClientError::Closed(end), .. }) => end.clone().into_result(),
            Ok(LinkState::Ended { error, .. }) => Err(Error::Client(error.clone())),
            _ => unreachable!("a client that is held has a state"),
        }
    }

    /// How the last connection ended, whether in order or not; `None` while it stands.
    pub fn end(&self) -> Option<ConnectionEnd> {
        self.0.latest_link().peer.end()
    }
}

impl ClientShared {
    /// The connection there is, or the last there was.
    fn latest_link(&self) -> Arc<Link> {
        let state = self.state.borrow();
        Arc::clone(state.link().expect("a client is given out when it is connected"))
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

    /// Puts something into the log.
    fn log(&self, message: fmt::Arguments<'_>) {
        self.log.report(message);
    }

    /// Puts a closure's failure into the log.
    fn log_failure(&self, method: &str, failure: &Failure) {
        self.log.failed(method, failure);
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("server", &self.server_info()).finish_non_exhaustive()
    }
}
