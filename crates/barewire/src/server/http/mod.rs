//! Streamable HTTP: a server that is reached by URL, in both eras at one endpoint.
//!
//! ```no_run
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), barewire::Error> {
//! use barewire::Server;
//!
//! let server = Server::new("clock", "1.0").tool("now", "The time", || async { "late" });
//! server.serve_http("127.0.0.1:8808").await
//! # }
//! ```
//!
//! [`Server::http`] is the same with everything that can be said about it, and gives a [tower service](HttpService) for
//! those who have an HTTP server already.
//!
//! ```text
//! listener ─ service ─ (admit, authenticate, receive, plan) ─┬─ alone ──── one request, its answer or its events   modern
//!                                                            └─ session ── mailbox ── events, kept and resumed     legacy
//! ```
//!
//! What is checked where, and what is safe by default, is in `docs/security.md`.

mod alone;
mod auth;
mod body;
mod closing;
mod counter;
mod endpoint;
mod error;
mod events;
mod limits;
mod listener;
mod mailbox;
mod metadata;
mod patience;
mod receive;
mod response;
mod service;
mod session;
mod sniff;

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use barewire_proto::http::Access;
use tokio::net::ToSocketAddrs;

pub use auth::{AuthError, Authenticate, AuthenticateFuture, BearerTokens, Principal, RequestHead};
#[doc(inline)]
pub use barewire_proto::http::{BadAccess, EventId};
pub use body::Body;
pub use error::HttpError;
pub use events::{EventStore, MemoryEvents, ReplayFuture};
pub use limits::HttpLimits;
pub use listener::{HttpListener, StopHandle};
pub use metadata::ProtectedResource;
pub use service::{HttpService, ResponseFuture};

use super::{Server, Shared};
use crate::Error;
use crate::log::Log;
use crate::peer::Trace;
use alone::Spare;
use closing::Close;
use counter::Counter;
use endpoint::Endpoint;
use metadata::Metadata;
use session::Sessions;

/// A server that is about to be reached over HTTP.
#[must_use = "nothing is served yet"]
pub struct HttpBuilder {
    server: Server,
    path: String,
    access: Access,
    /// It was said which hosts it has.
    hosts: bool,
    bad: Option<BadAccess>,
    authenticate: Option<Arc<dyn Authenticate>>,
    resource: Option<ProtectedResource>,
    https: bool,
    every_framing: bool,
    limits: HttpLimits,
    events: Arc<dyn EventStore>,
    log: Log,
    trace: Option<Arc<dyn Trace>>,
}

impl Server {
    /// Serves this over HTTP at `/mcp`, to this machine only, until the process ends. See [`Self::http`] for more.
    pub async fn serve_http(&self, addr: impl ToSocketAddrs) -> Result<(), Error> {
        self.http().bind(addr).await?.run().await;
        Ok(())
    }

    /// This, over HTTP: to be told how, and then mounted or bound.
    pub fn http(&self) -> HttpBuilder {
        HttpBuilder {
            server: self.same(),
            path: "/mcp".to_owned(),
            access: Access::loopback(),
            hosts: false,
            bad: None,
            authenticate: None,
            resource: None,
            https: false,
            every_framing: false,
            limits: HttpLimits::default(),
            events: Arc::new(MemoryEvents::default()),
            log: Log::default(),
            trace: None,
        }
    }
}

impl HttpBuilder {
    /// Answers at this path instead of `/mcp`. Only a [`HttpListener`] looks at it: a service is mounted somewhere.
    pub fn path(mut self, path: impl Into<String>) -> Self {
        self.path = path.into();
        self
    }

    /// Answers requests to these hosts, `example.com` at any port or `example.com:8080`, besides this machine's own names.
    /// A listener that others can reach needs to be told them.
    pub fn hosts<S: AsRef<str>>(mut self, hosts: impl IntoIterator<Item = S>) -> Self {
        for host in hosts {
            let allowed = self.access.allow_host(host.as_ref());
            self.bad = self.bad.or(allowed.err());
            self.hosts = true;
        }
        self
    }

    /// Answers requests to any host. Only for a server behind something that looks at them itself.
    pub fn any_host(mut self) -> Self {
        self.access.allow_any_host();
        self.hosts = true;
        self
    }

    /// Answers pages from these origins, `https://app.example.com`, besides those of this machine.
    pub fn origins<S: AsRef<str>>(mut self, origins: impl IntoIterator<Item = S>) -> Self {
        for origin in origins {
            let allowed = self.access.allow_origin(origin.as_ref());
            self.bad = self.bad.or(allowed.err());
        }
        self
    }

    /// Answers only those whom this knows.
    pub fn authenticate(mut self, authenticate: impl Authenticate) -> Self {
        self.authenticate = Some(Arc::new(authenticate));
        self
    }

    /// Tells clients where to get a token.
    pub fn protected_resource(mut self, resource: ProtectedResource) -> Self {
        self.resource = Some(resource);
        self
    }

    /// Clients reach it by `https`: something in front of it does TLS.
    pub fn behind_tls(mut self) -> Self {
        self.https = true;
        self
    }

    /// Serves also those who connect and speak without HTTP: one message a line, or with `Content-Length` headers. Which it
    /// is, the first bytes tell. Not for a listener that others can reach, nor one that wants to know who asks: such a
    /// stream says neither a host nor a token.
    pub fn every_framing(mut self) -> Self {
        self.every_framing = true;
        self
    }

    /// Holds itself to these limits.
    pub fn limits(mut self, limits: HttpLimits) -> Self {
        self.limits = limits;
        self
    }

    /// Keeps the events of legacy streams here, instead of in the memory of this process.
    pub fn events(mut self, events: impl EventStore) -> Self {
        self.events = Arc::new(events);
        self
    }

    /// Passes trace context in and out.
    pub fn trace(mut self, trace: impl Trace) -> Self {
        self.trace = Some(Arc::new(trace));
        self
    }

    /// A service, to be mounted. It answers to this machine's own names unless told [which hosts](Self::hosts) it has.
    pub fn service(self) -> Result<HttpService, HttpError> {
        self.endpoint().map(|endpoint| HttpService(Arc::new(endpoint)))
    }

    /// Listens. On an address that other machines can reach, only if it was told [which hosts](Self::hosts) it has.
    pub async fn bind(self, addr: impl ToSocketAddrs) -> Result<HttpListener, HttpError> {
        let addrs: Vec<_> = tokio::net::lookup_host(addr).await.map_err(HttpError::Bind)?.collect();
        let open = addrs.iter().find(|addr| !addr.ip().to_canonical().is_loopback()).copied();
        if let Some(open) = open {
            if !self.hosts {
                return Err(HttpError::NoHosts(open));
            }
            if self.every_framing {
                return Err(HttpError::EveryFraming("on an address that other machines can reach"));
            }
        }
        if self.every_framing && self.authenticate.is_some() {
            return Err(HttpError::EveryFraming("together with authentication"));
        }
        // Whoever is on another address of this machine alone answers to that too.
        let mut this = self;
        for addr in addrs.iter().filter(|addr| addr.ip().to_canonical().is_loopback()) {
            let host = SocketAddr::new(addr.ip(), 0).to_string();
            let host = host.strip_suffix(":0").unwrap_or(&host);
            let allowed = this.access.allow_host(host);
            this.bad = this.bad.or(allowed.err());
        }
        let (path, every_framing, server) = (this.path.clone(), this.every_framing, this.server.same());
        let service = this.service()?;
        HttpListener::bind(&addrs, service, path, every_framing.then_some(server)).await
    }

    fn endpoint(self) -> Result<Endpoint, HttpError> {
        if let Some(bad) = self.bad {
            return Err(HttpError::Access(bad));
        }
        let metadata = match &self.resource {
            Some(resource) => Some(Metadata::new(resource).ok_or(HttpError::Resource)?),
            None => None,
        };
        let Self { server, limits, .. } = self;
        Ok(Endpoint {
            shared: Arc::new(Shared::new(server.settings, server.registry)),
            access: self.access,
            authenticate: self.authenticate,
            metadata,
            scheme: if self.https { "https" } else { "http" },
            events: self.events,
            sessions: Sessions::default(),
            session_count: Counter::new(limits.sessions),
            exchanges: Counter::new(limits.exchanges),
            bodies: Counter::new(limits.bodies),
            limits,
            spare: Spare::default(),
            closing: Close::new(),
            log: self.log,
            trace: self.trace,
        })
    }
}

impl fmt::Debug for HttpBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpBuilder").field("server", &self.server).field("path", &self.path).finish_non_exhaustive()
    }
}
