//! Connects to a server over a transport, by starting a program, or at a URL, and makes the handshake. A program can be
//! started again, and a URL can be connected to again, but a transport is used only once.

use std::future::Future;
use std::pin::Pin;
#[cfg(feature = "http")]
use std::sync::Weak;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use barewire_proto::mcp::task_rules::declares_tasks;
use barewire_proto::mcp::{Capability, Era, Method, Side};
use barewire_proto::session::Conventions;
#[cfg(feature = "http")]
use tokio::sync::watch;
use tokio::time::Instant;

use super::era::{self, HandshakeSettings, ProbeResult, RevisionPreference, ServerInfo};
#[cfg(feature = "http")]
use super::http::{FAREWELL_TIMEOUT, HttpConnection, fetch::Fetch};
use super::restart::Restart;
#[cfg(feature = "http")]
use super::restart::{self, LinkState};
use super::service::{AgreedRevision, ClientService};
use super::stopwatch::Stopwatch;
use super::{ClientError, ClientShared};
use crate::log::Log;
#[cfg(feature = "http")]
use crate::peer::ConnectionSettings;
use crate::peer::{Connection, ConnectionLimits, EndReason, Peer};
use crate::transport::{Child, Transport};

/// A connection whose handshake is complete.
pub(super) struct Link {
    pub(super) number: u64,
    pub(super) peer: Peer,
    pub(super) server: ServerInfo,
    pub(super) since: Instant,
    /// Measures the time that the server needs, without the time in which the client answers the server's requests.
    pub(super) stopwatch: Arc<Stopwatch>,
    /// Becomes true when the HTTP session ends. The channel closes when the connection's tasks have finished.
    #[cfg(feature = "http")]
    session_ended: Option<watch::Receiver<bool>>,
}

impl Link {
    /// Whether this connection has ended, so that new calls need a new connection.
    pub(super) fn is_over(&self) -> bool {
        #[cfg(feature = "http")]
        if self.session_ended.as_ref().is_some_and(|ended| *ended.borrow()) {
            return true;
        }
        self.peer.is_closed()
    }

    /// Waits, with a timeout, until the tasks of the HTTP connection have ended the session and finished.
    #[cfg(feature = "http")]
    pub(super) async fn wait_for_session_end(&self) {
        let Some(mut session_ended) = self.session_ended.clone() else { return };
        let _ =
            tokio::time::timeout(2 * FAREWELL_TIMEOUT, async { while session_ended.changed().await.is_ok() {} }).await;
    }

    /// Whether the server has declared the extension for tasks.
    pub(super) fn declares_tasks(&self) -> bool {
        self.server.revision.is_modern() && declares_tasks(self.server.capabilities.extensions.as_ref())
    }

    /// Returns an error if this method must not be sent to the server, because the revision does not define the method
    /// or the server has not declared the capability that the method needs.
    pub(super) fn check_allowed(&self, method: &str) -> Result<(), ClientError> {
        let revision = self.server.revision;
        let Some(known) = Method::find(method) else { return Ok(()) };
        if revision.is_modern() && known.extension == Some(Side::Client) {
            return Ok(());
        }
        let method = || method.to_owned();
        let Some(sent) = known.availability(Side::Client, revision) else {
            return Err(ClientError::NotInRevision { method: method(), revision });
        };
        match sent.needs_in(revision) {
            Some(Capability::Server(capability)) if !self.server.capabilities.has(capability) => {
                Err(ClientError::NotOffered { method: method(), capability: capability.as_str() })
            }
            _ => Ok(()),
        }
    }
}

/// The source of a client's connections.
pub(super) enum ConnectionSource {
    /// A program that can be started repeatedly.
    Program(Child),
    /// A URL that can be connected to repeatedly.
    #[cfg(feature = "http")]
    Http(Fetch),
    /// A transport that the user has opened, which can be used only once.
    Once(Mutex<Option<OpenTransport>>),
}

type OpenTransport = Box<dyn FnOnce(ConnectionSetup) -> UndrivenConnection + Send>;

/// A connection and the future that drives it.
pub(super) struct UndrivenConnection {
    peer: Peer,
    driver: Pin<Box<dyn Future<Output = ()> + Send>>,
    #[cfg(feature = "http")]
    http: Option<Arc<HttpConnection>>,
}

/// The service, limits and log for a new connection.
pub(super) struct ConnectionSetup {
    service: ClientService,
    limits: ConnectionLimits,
    log: Log,
}

impl ConnectionSource {
    pub(super) fn once(transport: impl Transport) -> Self {
        let connect: OpenTransport = Box::new(move |setup| setup.connect(transport));
        Self::Once(Mutex::new(Some(connect)))
    }

    fn connect(&self, setup: ConnectionSetup) -> Result<UndrivenConnection, ClientError> {
        match self {
            #[cfg(feature = "http")]
            Self::Http(fetch) => Ok(setup.connect_http(fetch.clone())),
            Self::Program(child) => Ok(setup.connect(child.spawn()?)),
            Self::Once(connect) => {
                let connect = connect.lock().unwrap_or_else(PoisonError::into_inner).take();
                Ok(connect.expect("an opened transport is connected only once")(setup))
            }
        }
    }

    pub(super) fn can_reconnect(&self) -> bool {
        match self {
            Self::Program(_) => true,
            #[cfg(feature = "http")]
            Self::Http(_) => true,
            Self::Once(_) => false,
        }
    }

    /// Returns the restart policy for a client without a restart setting. For a server at a URL the client never stops
    /// retrying, because a session can end and a server can be unreachable for a while.
    pub(super) fn default_restart(&self) -> Option<Restart> {
        #[cfg(feature = "http")]
        if let Self::Http(_) = self {
            return Some(Restart::FOR_URLS);
        }
        None
    }

    /// Whether the server always responds, as HTTP servers do. If so, a missing response to `server/discover` does not
    /// mean that the server is legacy.
    fn always_responds(&self) -> bool {
        #[cfg(feature = "http")]
        if let Self::Http(_) = self {
            return true;
        }
        false
    }
}

impl ConnectionSetup {
    fn connect(self, transport: impl Transport) -> UndrivenConnection {
        let (peer, driver) = Connection::new(transport)
            .service(self.service)
            .limits(self.limits)
            .conventions(Conventions::MCP)
            // A server that prints a banner to stdout must not receive an error response to the banner on stdin.
            .answer_unreadable(false)
            .log(self.log)
            .open();
        // The driver's result is not needed, because the peer reports the end of the connection to its callers.
        let driver = Box::pin(async move { drop(driver.await) });
        UndrivenConnection {
            peer,
            driver,
            #[cfg(feature = "http")]
            http: None,
        }
    }

    #[cfg(feature = "http")]
    fn connect_http(self, fetch: Fetch) -> UndrivenConnection {
        let revision = Arc::clone(&self.service.revision);
        let mut settings = ConnectionSettings::new(Box::new(self.service), self.log.clone());
        settings.limits = self.limits;
        settings.conventions = Conventions::MCP;
        settings.answer_unreadable = Some(false);
        let (http, driver) = HttpConnection::open(fetch, settings, revision, self.log);
        UndrivenConnection { peer: http.peer(), driver: Box::pin(driver), http: Some(http) }
    }
}

/// A connection before its handshake.
pub(super) struct PendingConnection {
    number: u64,
    pub(super) peer: Peer,
    revision: AgreedRevision,
    stopwatch: Arc<Stopwatch>,
    #[cfg(feature = "http")]
    http: Option<Arc<HttpConnection>>,
}

impl ClientShared {
    /// Connects to the server and negotiates the revision.
    pub(super) async fn open(self: &Arc<Self>, preference: RevisionPreference) -> Result<Arc<Link>, ClientError> {
        let mut pending = self.connect()?;
        let negotiated = match self.negotiate(&pending, preference).await {
            Err(NegotiationError::ClosedAtProbe) => {
                // Some servers exit at the first request they do not know. Connect again, without `server/discover`.
                pending = self.connect()?;
                self.initialize(&pending, preference).await
            }
            Err(NegotiationError::Client(error)) => Err(error),
            Ok(server) => Ok(server),
        };
        match negotiated {
            Ok(server) => {
                let PendingConnection { number, peer, stopwatch, .. } = pending;
                Ok(Arc::new(Link {
                    number,
                    peer,
                    server,
                    since: Instant::now(),
                    stopwatch,
                    #[cfg(feature = "http")]
                    session_ended: pending.http.map(|http| http.session_ended()),
                }))
            }
            Err(error) => Err(error.during_handshake(pending.peer.shut_down().await)),
        }
    }

    fn connect(self: &Arc<Self>) -> Result<PendingConnection, ClientError> {
        let revision: AgreedRevision = Arc::new(OnceLock::new());
        let stopwatch = Stopwatch::start();
        let service = ClientService {
            revision: Arc::clone(&revision),
            handlers: Arc::clone(&self.settings.handlers),
            hub: Arc::clone(&self.hub),
            stopwatch: Arc::clone(&stopwatch),
        };
        let setup = ConnectionSetup { service, limits: self.settings.limits.clone(), log: self.log.clone() };
        let connected = self.source.connect(setup)?;
        let (peer, driver) = (connected.peer, connected.driver);
        let number = self.connections.fetch_add(1, Ordering::Relaxed);
        // The reference is weak, because the task must not keep the client alive: dropping the last client ends the
        // connection.
        let shared = Arc::downgrade(self);
        tokio::spawn(async move {
            driver.await;
            if let Some(shared) = shared.upgrade() {
                shared.connection_ended(number);
            }
        });
        #[cfg(feature = "http")]
        if let Some(http) = &connected.http {
            tokio::spawn(reopen_ended_session(Arc::downgrade(self), number, http.session_ended()));
        }
        Ok(PendingConnection {
            number,
            peer,
            revision,
            stopwatch,
            #[cfg(feature = "http")]
            http: connected.http,
        })
    }

    pub(super) fn handshake_settings(&self) -> HandshakeSettings<'_> {
        let settings = &self.settings;
        HandshakeSettings {
            info: &settings.info,
            handlers: &settings.handlers,
            probe_timeout: match self.source.always_responds() {
                true => settings.timeout,
                false => Some(settings.probe_timeout),
            },
            timeout: settings.timeout,
        }
    }

    /// Detects the server's era and negotiates the revision.
    async fn negotiate(
        &self,
        pending: &PendingConnection,
        preference: RevisionPreference,
    ) -> Result<ServerInfo, NegotiationError> {
        #[cfg(feature = "http")]
        if let Some(http) = &pending.http {
            return Ok(self.negotiate_http(pending, http, preference).await?);
        }
        match preference {
            RevisionPreference::Exactly(revision) if revision.era() == Era::Legacy => {
                return Ok(self.initialize(pending, preference).await?);
            }
            RevisionPreference::LastKnownEra(Era::Legacy) => {
                return self.initialize_or_probe(pending, preference).await;
            }
            RevisionPreference::Any
            | RevisionPreference::LastKnownEra(Era::Modern)
            | RevisionPreference::Exactly(_) => {}
        }
        match (era::probe(&pending.peer, preference, &self.handshake_settings()).await?, preference) {
            (ProbeResult::Modern(server), _) => Ok(pending.set_revision(*server)),
            (ProbeResult::Legacy(_), RevisionPreference::Exactly(revision)) => {
                Err(era::revision_not_supported(revision).into())
            }
            (ProbeResult::Legacy(_), _) => self.initialize_or_probe(pending, preference).await,
            (ProbeResult::Closed(closed), RevisionPreference::Any)
                if self.source.can_reconnect() && matches!(closed.reason(), EndReason::Eof | EndReason::Write(_)) =>
            {
                Err(NegotiationError::ClosedAtProbe)
            }
            (ProbeResult::Closed(closed), _) => Err(ClientError::Closed(closed).into()),
        }
    }

    /// Sends `initialize` to a server that seems to be legacy. If the server refuses, it might be modern after all: its
    /// era has changed since last time, or it was too slow for the first `server/discover`. In this case the client
    /// sends `server/discover` with the full call timeout.
    async fn initialize_or_probe(
        &self,
        pending: &PendingConnection,
        preference: RevisionPreference,
    ) -> Result<ServerInfo, NegotiationError> {
        let refused = match self.initialize(pending, preference).await {
            Err(refused @ ClientError::Refused { .. }) => refused,
            other => return Ok(other?),
        };
        match era::probe(&pending.peer, RevisionPreference::LastKnownEra(Era::Modern), &self.handshake_settings())
            .await?
        {
            ProbeResult::Modern(server) => Ok(pending.set_revision(*server)),
            ProbeResult::Legacy(_) | ProbeResult::Closed(_) => Err(refused.into()),
        }
    }

    pub(super) async fn initialize(
        &self,
        pending: &PendingConnection,
        preference: RevisionPreference,
    ) -> Result<ServerInfo, ClientError> {
        let server = era::initialize(&pending.peer, preference, &self.handshake_settings()).await?;
        let server = pending.set_revision(server);
        era::send_initialized(&pending.peer).await?;
        Ok(server)
    }
}

impl PendingConnection {
    /// Stores the negotiated revision in the connection, and returns `server` unchanged.
    pub(super) fn set_revision(&self, server: ServerInfo) -> ServerInfo {
        let _ = self.revision.set(server.revision);
        server
    }
}

/// Waits until the server ends the session, and then immediately opens a new session, so that few unsolicited
/// notifications are missed. If the new session cannot be opened, the next call tries again.
#[cfg(feature = "http")]
async fn reopen_ended_session(shared: Weak<ClientShared>, number: u64, mut session_ended: watch::Receiver<bool>) {
    if session_ended.wait_for(|ended| *ended).await.is_err() {
        return;
    }
    let is_in_use =
        |shared: Arc<ClientShared>| matches!(&*shared.state.borrow(), LinkState::Open(link) if link.number == number);
    if shared.upgrade().is_some_and(is_in_use) {
        restart::reopen(shared).await;
    }
}

/// The reason why the negotiation failed.
enum NegotiationError {
    /// The server closed the connection when it received `server/discover`.
    ClosedAtProbe,
    Client(ClientError),
}

impl From<ClientError> for NegotiationError {
    fn from(error: ClientError) -> Self {
        Self::Client(error)
    }
}
