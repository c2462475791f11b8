//! A transport, or a program to start -> a connection with its handshake done; and another one when that has ended.

use std::future::Future;
use std::pin::Pin;
#[cfg(feature = "http")]
use std::sync::Weak;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use barewire_proto::mcp::{Capability, Era, Method, Side};
use barewire_proto::session::Conventions;
#[cfg(feature = "http")]
use tokio::sync::watch;
use tokio::time::Instant;

use super::era::{self, Introduction, Opening, Probed, ServerInfo};
#[cfg(feature = "http")]
use super::http::{Carrier, FAREWELL, fetch::Fetch};
use super::restart::Restart;
#[cfg(feature = "http")]
use super::restart::{self, State};
use super::service::{Agreed, Serving};
use super::stopwatch::Stopwatch;
use super::{ClientError, Shared};
use crate::log::Log;
#[cfg(feature = "http")]
use crate::peer::Settings;
use crate::peer::{Connection, ConnectionLimits, EndReason, Peer};
use crate::transport::{Child, Transport};

/// A connection on which everything is agreed.
pub(super) struct Link {
    pub(super) number: u64,
    pub(super) peer: Peer,
    pub(super) server: ServerInfo,
    pub(super) since: Instant,
    /// How long the server has had to answer.
    pub(super) watch: Arc<Stopwatch>,
    /// Says when the session is over that the connection belongs to; nothing once all of it is.
    #[cfg(feature = "http")]
    session: Option<watch::Receiver<bool>>,
}

impl Link {
    /// Whether another connection is needed for what is asked from now on.
    pub(super) fn is_over(&self) -> bool {
        #[cfg(feature = "http")]
        if self.session.as_ref().is_some_and(|gone| *gone.borrow()) {
            return true;
        }
        self.peer.is_closed()
    }

    /// Waits a moment until the server knows that this was all.
    #[cfg(feature = "http")]
    pub(super) async fn farewell(&self) {
        let Some(mut session) = self.session.clone() else { return };
        let _ = tokio::time::timeout(2 * FAREWELL, async { while session.changed().await.is_ok() {} }).await;
    }

    /// Whether the server may be asked this.
    pub(super) fn allows(&self, method: &str) -> Result<(), ClientError> {
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

/// Where connections come from.
pub(super) enum Source {
    /// A program that can be started as often as it is needed.
    Program(Child),
    /// A URL that can be asked as often as it is needed.
    #[cfg(feature = "http")]
    Http(Fetch),
    /// One that was given.
    Once(Mutex<Option<Connect>>),
}

type Connect = Box<dyn FnOnce(Setup) -> Connected + Send>;

/// A connection that somebody has to drive.
pub(super) struct Connected {
    peer: Peer,
    running: Pin<Box<dyn Future<Output = ()> + Send>>,
    #[cfg(feature = "http")]
    carrier: Option<Arc<Carrier>>,
}

/// What every connection of a client is made with.
pub(super) struct Setup {
    serving: Serving,
    limits: ConnectionLimits,
    log: Log,
}

impl Source {
    pub(super) fn once(transport: impl Transport) -> Self {
        let connect: Connect = Box::new(move |setup| setup.connect(transport));
        Self::Once(Mutex::new(Some(connect)))
    }

    fn connect(&self, setup: Setup) -> Result<Connected, ClientError> {
        match self {
            #[cfg(feature = "http")]
            Self::Http(fetch) => Ok(setup.carry(fetch.clone())),
            Self::Program(child) => Ok(setup.connect(child.spawn()?)),
            Self::Once(connect) => {
                let connect = connect.lock().unwrap_or_else(PoisonError::into_inner).take();
                Ok(connect.expect("a transport is used once: only a program is started again")(setup))
            }
        }
    }

    pub(super) fn can_start_again(&self) -> bool {
        match self {
            Self::Program(_) => true,
            #[cfg(feature = "http")]
            Self::Http(_) => true,
            Self::Once(_) => false,
        }
    }

    /// What a connection is opened again by, if nothing else is wanted. A session that is over is no reason to give a server
    /// up, nor is a while in which it cannot be reached.
    pub(super) fn restart(&self) -> Option<Restart> {
        #[cfg(feature = "http")]
        if let Self::Http(_) = self {
            return Some(Restart::FOR_URLS);
        }
        None
    }

    /// Whether silence is no sign of a legacy server.
    fn answers_always(&self) -> bool {
        #[cfg(feature = "http")]
        if let Self::Http(_) = self {
            return true;
        }
        false
    }
}

impl Setup {
    fn connect(self, transport: impl Transport) -> Connected {
        let (peer, running) = Connection::new(transport)
            .service(self.serving)
            .limits(self.limits)
            .conventions(Conventions::MCP)
            // Errors in a server's stdin for the banner it printed would be wrong.
            .answer_unreadable(false)
            .log(self.log)
            .open();
        // How it ended is told to all who wait for something.
        let running = Box::pin(async move { drop(running.await) });
        Connected {
            peer,
            running,
            #[cfg(feature = "http")]
            carrier: None,
        }
    }

    #[cfg(feature = "http")]
    fn carry(self, fetch: Fetch) -> Connected {
        let agreed = Arc::clone(&self.serving.agreed);
        let mut settings = Settings::new(Box::new(self.serving), self.log.clone());
        settings.limits = self.limits;
        settings.conventions = Conventions::MCP;
        settings.answer_unreadable = Some(false);
        let (carrier, running) = Carrier::open(fetch, settings, agreed, self.log);
        Connected { peer: carrier.peer(), running: Box::pin(running), carrier: Some(carrier) }
    }
}

/// A connection before its handshake.
pub(super) struct Raw {
    number: u64,
    pub(super) peer: Peer,
    agreed: Agreed,
    watch: Arc<Stopwatch>,
    #[cfg(feature = "http")]
    carrier: Option<Arc<Carrier>>,
}

impl Shared {
    /// Connects and agrees with the server.
    pub(super) async fn open(self: &Arc<Self>, opening: Opening) -> Result<Arc<Link>, ClientError> {
        let mut raw = self.connect()?;
        let agreed = match self.agree(&raw, opening).await {
            Err(Failed::AtProbe) => {
                // Some servers end at the first thing they do not know. This one is not asked twice.
                raw = self.connect()?;
                self.initialize(&raw, opening).await
            }
            Err(Failed::For(error)) => Err(error),
            Ok(server) => Ok(server),
        };
        match agreed {
            Ok(server) => {
                let Raw { number, peer, watch, .. } = raw;
                Ok(Arc::new(Link {
                    number,
                    peer,
                    server,
                    since: Instant::now(),
                    watch,
                    #[cfg(feature = "http")]
                    session: raw.carrier.map(|carrier| carrier.gone()),
                }))
            }
            Err(error) => Err(error.at_handshake(raw.peer.shut_down().await)),
        }
    }

    fn connect(self: &Arc<Self>) -> Result<Raw, ClientError> {
        let agreed: Agreed = Arc::new(OnceLock::new());
        let watch = Stopwatch::start();
        let serving = Serving {
            agreed: Arc::clone(&agreed),
            answers: Arc::clone(&self.settings.answers),
            hub: Arc::clone(&self.hub),
            watch: Arc::clone(&watch),
        };
        let setup = Setup { serving, limits: self.settings.limits.clone(), log: self.log.clone() };
        let connected = self.source.connect(setup)?;
        let (peer, running) = (connected.peer, connected.running);
        let number = self.connections.fetch_add(1, Ordering::Relaxed);
        // It must not keep the client alive: when nobody holds that any more, the connection ends.
        let shared = Arc::downgrade(self);
        tokio::spawn(async move {
            running.await;
            if let Some(shared) = shared.upgrade() {
                shared.ended(number);
            }
        });
        #[cfg(feature = "http")]
        if let Some(carrier) = &connected.carrier {
            tokio::spawn(reopen_when_gone(Arc::downgrade(self), number, carrier.gone()));
        }
        Ok(Raw {
            number,
            peer,
            agreed,
            watch,
            #[cfg(feature = "http")]
            carrier: connected.carrier,
        })
    }

    pub(super) fn introduction(&self) -> Introduction<'_> {
        let settings = &self.settings;
        Introduction {
            info: &settings.info,
            answers: &settings.answers,
            probe_timeout: match self.source.answers_always() {
                true => settings.timeout,
                false => Some(settings.probe_timeout),
            },
            timeout: settings.timeout,
        }
    }

    /// Finds out what the server is, and agrees with it.
    async fn agree(&self, raw: &Raw, opening: Opening) -> Result<ServerInfo, Failed> {
        #[cfg(feature = "http")]
        if let Some(carrier) = &raw.carrier {
            return Ok(self.agree_over_http(raw, carrier, opening).await?);
        }
        match opening {
            Opening::Exactly(revision) if revision.era() == Era::Legacy => {
                return Ok(self.initialize(raw, opening).await?);
            }
            Opening::Known(Era::Legacy) => return self.initialize_or_probe(raw, opening).await,
            Opening::Unknown | Opening::Known(Era::Modern) | Opening::Exactly(_) => {}
        }
        match (era::probe(&raw.peer, opening, &self.introduction()).await?, opening) {
            (Probed::Modern(server), _) => Ok(raw.agree(*server)),
            (Probed::Legacy(_), Opening::Exactly(revision)) => Err(era::not_of(revision).into()),
            (Probed::Legacy(_), _) => self.initialize_or_probe(raw, opening).await,
            (Probed::Gone(closed), Opening::Unknown)
                if self.source.can_start_again() && matches!(closed.reason(), EndReason::Eof | EndReason::Write(_)) =>
            {
                Err(Failed::AtProbe)
            }
            (Probed::Gone(closed), _) => Err(ClientError::Closed(closed).into()),
        }
    }

    /// Initializes a server that seems to be of the legacy era. If it refuses, it is perhaps a modern one: another than last
    /// time, or one that was slow to answer the first probe. This one has all the time that a call has.
    async fn initialize_or_probe(&self, raw: &Raw, opening: Opening) -> Result<ServerInfo, Failed> {
        let refused = match self.initialize(raw, opening).await {
            Err(refused @ ClientError::Refused { .. }) => refused,
            agreed => return Ok(agreed?),
        };
        match era::probe(&raw.peer, Opening::Known(Era::Modern), &self.introduction()).await? {
            Probed::Modern(server) => Ok(raw.agree(*server)),
            Probed::Legacy(_) | Probed::Gone(_) => Err(refused.into()),
        }
    }

    pub(super) async fn initialize(&self, raw: &Raw, opening: Opening) -> Result<ServerInfo, ClientError> {
        let server = era::initialize(&raw.peer, opening, &self.introduction()).await?;
        let server = raw.agree(server);
        era::initialized(&raw.peer).await?;
        Ok(server)
    }
}

impl Raw {
    /// From now on this revision is spoken.
    pub(super) fn agree(&self, server: ServerInfo) -> ServerInfo {
        let _ = self.agreed.set(server.revision);
        server
    }
}

/// Opens a session again that the server has ended, so that what it tells unasked is not missed for long. If that fails, the
/// next call tries it.
#[cfg(feature = "http")]
async fn reopen_when_gone(shared: Weak<Shared>, number: u64, mut gone: watch::Receiver<bool>) {
    if gone.wait_for(|gone| *gone).await.is_err() {
        return;
    }
    let is_in_use = |shared: Arc<Shared>| matches!(&*shared.state.borrow(), State::Up(link) if link.number == number);
    if shared.upgrade().is_some_and(is_in_use) {
        restart::reopen(shared).await;
    }
}

/// Why nothing was agreed.
enum Failed {
    /// The server ended when it was asked what it is.
    AtProbe,
    For(ClientError),
}

impl From<ClientError> for Failed {
    fn from(error: ClientError) -> Self {
        Self::For(error)
    }
}
