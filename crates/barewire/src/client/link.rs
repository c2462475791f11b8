//! A transport, or a program to start -> a connection with its handshake done; and another one when that has ended.

use std::io::{self, Write};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use barewire_proto::mcp::{Capability, Era, Method, Side};
use barewire_proto::session::Conventions;
use tokio::time::Instant;

use super::era::{self, Introduction, Opening, Probed, Server};
use super::service::{Agreed, Serving};
use super::stopwatch::Stopwatch;
use super::{ClientError, Shared};
use crate::peer::{Connection, Limits, Peer, Reason, Running};
#[cfg(unix)]
use crate::transport::Child;
use crate::transport::Transport;

/// A connection on which everything is agreed.
pub(super) struct Link {
    pub(super) number: u64,
    pub(super) peer: Peer,
    pub(super) server: Server,
    pub(super) since: Instant,
    /// How long the server has had to answer.
    pub(super) watch: Arc<Stopwatch>,
}

impl Link {
    /// Whether the server may be asked this.
    pub(super) fn allows(&self, method: &str) -> Result<(), ClientError> {
        let revision = self.server.revision;
        let Some(known) = Method::find(method) else { return Ok(()) };
        if revision.is_modern() && known.extension == Some(Side::Client) {
            return Ok(());
        }
        let method = || method.to_owned();
        let Some(sent) = known.sent(Side::Client, revision) else {
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
    #[cfg(unix)]
    Program(Child),
    /// One that was given.
    Once(Mutex<Option<Connect>>),
}

type Connect = Box<dyn FnOnce(Setup) -> (Peer, Running) + Send>;

/// What every connection of a client is made with.
pub(super) struct Setup {
    serving: Serving,
    limits: Limits,
    log: Sink,
}

impl Source {
    pub(super) fn once(transport: impl Transport) -> Self {
        let connect: Connect = Box::new(move |setup| setup.connect(transport));
        Self::Once(Mutex::new(Some(connect)))
    }

    fn connect(&self, setup: Setup) -> Result<(Peer, Running), ClientError> {
        match self {
            #[cfg(unix)]
            Self::Program(child) => Ok(setup.connect(child.spawn()?)),
            Self::Once(connect) => {
                let connect = connect.lock().unwrap_or_else(PoisonError::into_inner).take();
                Ok(connect.expect("a transport is used once: only a program is started again")(setup))
            }
        }
    }

    pub(super) fn can_start_again(&self) -> bool {
        match self {
            #[cfg(unix)]
            Self::Program(_) => true,
            Self::Once(_) => false,
        }
    }
}

impl Setup {
    fn connect(self, transport: impl Transport) -> (Peer, Running) {
        Connection::new(transport)
            .service(self.serving)
            .limits(self.limits)
            .conventions(Conventions::MCP)
            // Errors in a server's stdin for the banner it printed would be wrong.
            .answer_unreadable(false)
            .log_to(self.log)
            .open()
    }
}

/// A connection before its handshake.
struct Raw {
    number: u64,
    peer: Peer,
    agreed: Agreed,
    watch: Arc<Stopwatch>,
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
                Ok(Arc::new(Link { number, peer, server, since: Instant::now(), watch }))
            }
            Err(error) => Err(error.at_handshake(raw.peer.shutdown().await)),
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
        let setup = Setup { serving, limits: self.settings.limits.clone(), log: self.settings.log.clone() };
        let (peer, running) = self.source.connect(setup)?;
        let number = self.connections.fetch_add(1, Ordering::Relaxed);
        // It must not keep the client alive: when nobody holds that any more, the connection ends.
        let shared = Arc::downgrade(self);
        tokio::spawn(async move {
            // How it ended is told to all who wait for something.
            let _ = running.await;
            if let Some(shared) = shared.upgrade() {
                shared.ended(number);
            }
        });
        Ok(Raw { number, peer, agreed, watch })
    }

    fn introduction(&self) -> Introduction<'_> {
        let settings = &self.settings;
        Introduction {
            info: &settings.info,
            answers: &settings.answers,
            probe_timeout: settings.probe_timeout,
            timeout: settings.timeout,
        }
    }

    /// Finds out what the server is, and agrees with it.
    async fn agree(&self, raw: &Raw, opening: Opening) -> Result<Server, Failed> {
        match opening {
            Opening::Exactly(revision) if revision.era() == Era::Legacy => {
                return Ok(self.initialize(raw, opening).await?);
            }
            Opening::Known(Era::Legacy) => return self.initialize_or_probe(raw, opening).await,
            Opening::Unknown | Opening::Known(Era::Modern) | Opening::Exactly(_) => {}
        }
        match (era::probe(&raw.peer, opening, &self.introduction()).await?, opening) {
            (Probed::Modern(server), _) => Ok(raw.agree(*server)),
            (Probed::Legacy, Opening::Exactly(revision)) => {
                let what = format!(
                    "it does not answer as a server of {revision} does: .era(..) or nothing finds out what it speaks"
                );
                Err(ClientError::fault("server/discover", what).into())
            }
            (Probed::Legacy, _) => self.initialize_or_probe(raw, opening).await,
            (Probed::Gone(closed), Opening::Unknown)
                if self.source.can_start_again()
                    && matches!(closed.reason(), Reason::Eof | Reason::Write(_)) =>
            {
                Err(Failed::AtProbe)
            }
            (Probed::Gone(closed), _) => Err(ClientError::Closed(closed).into()),
        }
    }

    /// Initializes a server that seems to be of the legacy era. If it refuses, it is perhaps a modern one: another than last
    /// time, or one that was slow to answer the first probe. This one has all the time that a call has.
    async fn initialize_or_probe(&self, raw: &Raw, opening: Opening) -> Result<Server, Failed> {
        let refused = match self.initialize(raw, opening).await {
            Err(refused @ ClientError::Refused { .. }) => refused,
            agreed => return Ok(agreed?),
        };
        match era::probe(&raw.peer, Opening::Known(Era::Modern), &self.introduction()).await? {
            Probed::Modern(server) => Ok(raw.agree(*server)),
            Probed::Legacy | Probed::Gone(_) => Err(refused.into()),
        }
    }

    async fn initialize(&self, raw: &Raw, opening: Opening) -> Result<Server, ClientError> {
        let server = era::initialize(&raw.peer, opening, &self.introduction()).await?;
        let server = raw.agree(server);
        era::initialized(&raw.peer).await?;
        Ok(server)
    }
}

impl Raw {
    /// From now on this revision is spoken.
    fn agree(&self, server: Server) -> Server {
        let _ = self.agreed.set(server.revision);
        server
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

/// Where all connections of a client log to.
#[derive(Clone)]
pub(super) struct Sink(Arc<Mutex<dyn Write + Send>>);

impl Sink {
    pub(super) fn new(sink: impl Write + Send + 'static) -> Self {
        Self(Arc::new(Mutex::new(sink)))
    }
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).flush()
    }
}
