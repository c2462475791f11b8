//! Streamable HTTP: a server at a URL, for clients of both eras at one endpoint.
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
//! [`Server::http`] returns a builder with all settings. It can also create a [tower service](HttpService), for
//! programs that already have an HTTP server.
//!
//! ```text
//! listener ─ service ─ identify ─┬─ post ─ (receive, plan) ─┬─ standalone ── one response or its events     modern
//!                                │                          └─ delivered ─ session ─ mailbox ─┐            legacy
//!                                └─ get ──────────────────────────────────── resumable events ─┘
//! ```
//!
//! `docs/security.md` describes the checks, their order, and the defaults.

mod auth;
mod body;
mod caller;
mod capacity;
pub mod cluster;
mod delivered;
mod endpoint;
mod error;
mod events;
mod get;
mod identify;
mod limits;
mod listener;
mod mailbox;
mod mailboxes;
mod metadata;
mod metrics;
#[cfg(all(test, barewire_loom))]
mod model;
mod monitoring;
mod post;
mod principal;
mod readiness;
mod receive;
mod response;
mod scopes;
mod sender;
mod service;
mod service_listener;
mod session;
mod session_events;
mod sessions;
mod shutdown;
mod sniff;
mod standalone;
#[cfg(feature = "oauth")]
mod tokens;
mod write_timeout;

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use barewire_proto::http::Access;
use tokio::net::ToSocketAddrs;

pub use auth::{AuthError, Authenticate, AuthenticateFuture, BearerTokens, RequestHead};
#[doc(inline)]
pub use barewire_proto::auth::server::{DpopRole, ScopeHierarchy};
#[doc(inline)]
pub use barewire_proto::http::{BadAccess, EventId};
pub use body::Body;
pub(crate) use caller::HttpCaller;
pub use error::HttpError;
pub use events::{EventStore, MemoryEvents, ReplayFuture};
pub use limits::HttpLimits;
pub use listener::{HttpListener, StopHandle};
pub use metadata::ProtectedResource;
pub use metrics::StoreMetrics;
pub use principal::Principal;
pub(crate) use principal::StoredPrincipal;
pub use sender::PeerAddress;
pub use service::{HttpService, ResponseFuture};
pub use service_listener::ServiceListener;
#[cfg(feature = "oauth")]
pub use tokens::AccessTokens;

use super::{Server, ServerShared};
use crate::Error;
use crate::log::Log;
use crate::peer::Trace;
use capacity::Capacity;
use cluster::{ClusterEvents, ClusterNode, ClusterStore, ClusterTaskStore, MeasuredStore};
use endpoint::HttpEndpoint;
use metadata::Metadata;
use monitoring::{Monitoring, MonitoringSettings};
use readiness::Readiness;
use sender::Senders;
use sessions::Sessions;
use shutdown::ShutdownSignal;
use standalone::SpareDispatchers;

/// The settings of a server over HTTP. [`Self::bind`] starts a listener with them; [`Self::service`] creates a tower
/// service.
#[must_use = "nothing is served until `bind` or `service` is called"]
pub struct HttpBuilder {
    server: Server,
    path: String,
    access: Access,
    /// Whether [`Self::hosts`] or [`Self::any_host`] was called.
    hosts_given: bool,
    access_error: Option<BadAccess>,
    authenticate: Option<Arc<dyn Authenticate>>,
    resource: Option<ProtectedResource>,
    https: bool,
    every_framing: bool,
    limits: HttpLimits,
    events: Arc<dyn EventStore>,
    cluster: Option<Arc<dyn ClusterStore>>,
    monitoring: MonitoringSettings,
    log: Log,
    trace: Option<Arc<dyn Trace>>,
}

impl Server {
    /// Serves over HTTP at the path `/mcp`, to clients on this machine only, until the process ends. [`Self::http`] has
    /// more settings.
    pub async fn serve_http(&self, addr: impl ToSocketAddrs) -> Result<(), Error> {
        self.http().bind(addr).await?.run().await;
        Ok(())
    }

    /// Returns the settings for serving over HTTP.
    pub fn http(&self) -> HttpBuilder {
        HttpBuilder {
            server: self.share(),
            path: "/mcp".to_owned(),
            access: Access::loopback(),
            hosts_given: false,
            access_error: None,
            authenticate: None,
            resource: None,
            https: false,
            every_framing: false,
            limits: HttpLimits::default(),
            events: Arc::new(MemoryEvents::default()),
            cluster: None,
            monitoring: MonitoringSettings::default(),
            log: Log::default(),
            trace: None,
        }
    }
}

impl HttpBuilder {
    /// Sets the path of the server. The default is `/mcp`. The path is used only by [`Self::bind`]: a service answers
    /// at the path where it is mounted.
    pub fn path(mut self, path: impl Into<String>) -> Self {
        self.path = path.into();
        self
    }

    /// Allows requests whose `Host` header is one of these, in addition to the loopback names of this machine.
    /// `example.com` allows any port, `example.com:8080` only this port. Required if other machines can reach the
    /// listener.
    pub fn hosts<S: AsRef<str>>(mut self, hosts: impl IntoIterator<Item = S>) -> Self {
        for host in hosts {
            let allowed = self.access.allow_host(host.as_ref());
            self.access_error = self.access_error.or(allowed.err());
            self.hosts_given = true;
        }
        self
    }

    /// Allows requests with any `Host`. Use this only behind a proxy that checks the host itself.
    pub fn any_host(mut self) -> Self {
        self.access.allow_any_host();
        self.hosts_given = true;
        self
    }

    /// Allows requests from web pages of these origins, such as `https://app.example.com`, in addition to web pages of
    /// this machine.
    pub fn origins<S: AsRef<str>>(mut self, origins: impl IntoIterator<Item = S>) -> Self {
        for origin in origins {
            let allowed = self.access.allow_origin(origin.as_ref());
            self.access_error = self.access_error.or(allowed.err());
        }
        self
    }

    /// Requires authentication: a request is served only if this check identifies its sender.
    pub fn authenticate(mut self, authenticate: impl Authenticate) -> Self {
        self.authenticate = Some(Arc::new(authenticate));
        self
    }

    /// Serves the metadata document that tells clients where to get a token. Tokens of an issuer bring a document of
    /// their own, which this one replaces.
    pub fn protected_resource(mut self, resource: ProtectedResource) -> Self {
        self.resource = Some(resource);
        self
    }

    /// Declares that clients use `https`, because a proxy in front of this server terminates TLS.
    pub fn behind_tls(mut self) -> Self {
        self.https = true;
        self
    }

    /// Also serves connections without HTTP: one message per line, or messages with `Content-Length` headers. The first
    /// bytes of a connection show which protocol it uses. Not allowed with authentication or on an address that other
    /// machines can reach, because a connection without HTTP has neither a `Host` nor a token.
    pub fn every_framing(mut self) -> Self {
        self.every_framing = true;
        self
    }

    /// Sets the limits for sizes, numbers and times.
    pub fn limits(mut self, limits: HttpLimits) -> Self {
        self.limits = limits;
        self
    }

    /// Sets the store for sent events, from which legacy clients resume broken streams. The default stores them in
    /// memory.
    pub fn events(mut self, events: impl EventStore) -> Self {
        self.events = Arc::new(events);
        self
    }

    /// Makes the server a node of the cluster that shares this store: any node serves any request of a session or about
    /// a task. The events of streams are kept there too, instead of in the store that [`Self::events`] sets.
    pub fn cluster(mut self, store: impl ClusterStore) -> Self {
        self.cluster = Some(Arc::new(store));
        self
    }

    /// Serves two paths for load balancers: `/healthz` answers 200 as long as the process serves, `/readyz` only as long
    /// as it should get new clients, and otherwise 503 with a reason on each line. They are served to anybody, with any
    /// `Host` and without a token. A [service](Self::service) answers them if it is mounted there.
    pub fn health(mut self) -> Self {
        self.monitoring.health = true;
        self
    }

    /// Serves metrics as OpenMetrics text at this path, such as `/metrics`, to clients that pass the checks of hosts,
    /// origins and authentication. Without this setting nothing is measured. A [service](Self::service) answers them if
    /// it is mounted there. `docs/transports.md` lists the metrics.
    pub fn metrics(mut self, path: impl Into<String>) -> Self {
        self.monitoring.metrics_path = Some(path.into());
        self
    }

    /// Adds the round trips to a store outside of the process to the [metrics](Self::metrics).
    pub fn store_metrics(mut self, store: &StoreMetrics) -> Self {
        self.monitoring.store = Some(store.clone());
        self
    }

    /// Sets the hook that connects the trace context of requests with the tracing of this program.
    pub fn trace(mut self, trace: impl Trace) -> Self {
        self.trace = Some(Arc::new(trace));
        self
    }

    /// Creates a service that can be mounted in an HTTP server. It accepts only the loopback names of this machine as
    /// `Host`, unless [`Self::hosts`] adds others.
    pub fn service(self) -> Result<HttpService, HttpError> {
        let endpoint = Arc::new(self.endpoint()?);
        // Without a runtime, the node takes part from its first request on.
        if let Some(node) = &endpoint.cluster
            && tokio::runtime::Handle::try_current().is_ok()
        {
            node.start(&endpoint);
        }
        Ok(HttpService(endpoint))
    }

    /// Starts listening on an address. If other machines can reach the address, [`Self::hosts`] or [`Self::any_host`]
    /// is required.
    pub async fn bind(self, addr: impl ToSocketAddrs) -> Result<HttpListener, HttpError> {
        let addrs: Vec<_> = tokio::net::lookup_host(addr).await.map_err(HttpError::Bind)?.collect();
        let open = addrs.iter().find(|addr| !addr.ip().to_canonical().is_loopback()).copied();
        if let Some(open) = open {
            if !self.hosts_given {
                return Err(HttpError::NoHosts(open));
            }
            if self.every_framing {
                return Err(HttpError::EveryFraming("on an address that other machines can reach"));
            }
        }
        if self.every_framing && self.authenticate.is_some() {
            return Err(HttpError::EveryFraming("together with authentication"));
        }
        // A listener on a loopback address such as 127.0.0.2 also accepts that address as a `Host`.
        let mut this = self;
        for addr in addrs.iter().filter(|addr| addr.ip().to_canonical().is_loopback()) {
            let host = SocketAddr::new(addr.ip(), 0).to_string();
            let host = host.strip_suffix(":0").unwrap_or(&host);
            let allowed = this.access.allow_host(host);
            this.access_error = this.access_error.or(allowed.err());
        }
        let (path, every_framing, server) = (this.path.clone(), this.every_framing, this.server.share());
        let service = this.service()?;
        if service.0.monitoring.at(&path).is_some() {
            return Err(HttpError::MonitoringPath(path));
        }
        HttpListener::bind(&addrs, service, path, every_framing.then_some(server)).await
    }

    fn endpoint(self) -> Result<HttpEndpoint, HttpError> {
        if let Some(bad) = self.access_error {
            return Err(HttpError::Access(bad));
        }
        match &self.authenticate {
            Some(authenticate) => authenticate.check_settings().map_err(HttpError::Authentication)?,
            None if self.server.registry.entries().has_scopes => return Err(HttpError::Scopes),
            None => {}
        }
        let resource = self.resource.or_else(|| self.authenticate.as_ref()?.protected_resource());
        let metadata = match &resource {
            Some(resource) => Some(Metadata::new(resource).ok_or(HttpError::Resource)?),
            None => None,
        };
        let Self { mut server, limits, .. } = self;
        let mut monitoring = self.monitoring;
        let cluster = self.cluster.map(|store| {
            if monitoring.metrics_path.is_none() {
                return ClusterNode::new(store);
            }
            let metrics = monitoring.store.get_or_insert_default().clone();
            ClusterNode::new(Arc::new(MeasuredStore { store, metrics }))
        });
        let mut events = self.events;
        if let Some(node) = &cluster {
            server.registry.keep_history();
            events = Arc::new(ClusterEvents { node: Arc::clone(node), lifetime: limits.session_idle });
            if !server.settings.has_given_key {
                // Other connections of this server may have a random key already.
                server.settings.sealer = Arc::default();
            }
            let tasks = &server.settings.tasks;
            server.settings.tasks = tasks.stored_in(Arc::new(ClusterTaskStore::new(node, tasks.policy)));
        }
        Ok(HttpEndpoint {
            shared: Arc::new(ServerShared::new(server.settings, server.registry)),
            access: self.access,
            authenticate: self.authenticate,
            metadata,
            scheme: if self.https { "https" } else { "http" },
            events,
            cluster,
            sessions: Sessions::default(),
            senders: Senders::new(&limits),
            bodies: Arc::new(Capacity::new(limits.bodies)),
            limits,
            spare: SpareDispatchers::default(),
            shutdown: ShutdownSignal::new(),
            readiness: Readiness::new(),
            monitoring: Monitoring::new(monitoring)?,
            log: self.log,
            trace: self.trace,
        })
    }
}

impl Clone for HttpBuilder {
    /// Returns the same settings for the same server, to serve it at several addresses.
    fn clone(&self) -> Self {
        Self {
            server: self.server.share(),
            path: self.path.clone(),
            access: self.access.clone(),
            hosts_given: self.hosts_given,
            access_error: self.access_error.clone(),
            authenticate: self.authenticate.clone(),
            resource: self.resource.clone(),
            https: self.https,
            every_framing: self.every_framing,
            limits: self.limits.clone(),
            events: Arc::clone(&self.events),
            cluster: self.cluster.clone(),
            monitoring: self.monitoring.clone(),
            log: self.log.clone(),
            trace: self.trace.clone(),
        }
    }
}

impl fmt::Debug for HttpBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpBuilder").field("server", &self.server).field("path", &self.path).finish_non_exhaustive()
    }
}
