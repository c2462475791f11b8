//! The state that all requests to a server over HTTP share.

use std::sync::Arc;
use std::time::Duration;

use barewire_proto::http::Access;
use barewire_proto::mcp::Revision;
use barewire_proto::session::Conventions;

use super::capacity::Capacity;
use super::cluster::ClusterNode;
use super::metadata::Metadata;
use super::monitoring::Monitoring;
use super::readiness::{NotReady, Readiness};
use super::sender::Senders;
use super::sessions::Sessions;
use super::shutdown::ShutdownSignal;
use super::standalone::SpareDispatchers;
use super::{Authenticate, EventStore, HttpLimits};
use crate::log::Log;
use crate::peer::{ConnectionSettings, Trace};
use crate::server::ServerShared;
use crate::server::connection::ConnectionService;
use crate::server::legacy_client::HandshakeFacts;

/// A server that is reached over HTTP.
pub(super) struct HttpEndpoint {
    pub(super) shared: Arc<ServerShared>,
    pub(super) access: Access,
    pub(super) authenticate: Option<Arc<dyn Authenticate>>,
    pub(super) metadata: Option<Metadata>,
    /// The scheme that clients use: `http`, or `https` behind TLS.
    pub(super) scheme: &'static str,
    pub(super) limits: HttpLimits,
    pub(super) events: Arc<dyn EventStore>,
    /// This node of a cluster, if the server is in one.
    pub(super) cluster: Option<Arc<ClusterNode>>,
    pub(super) sessions: Sessions,
    /// Limits the number of sessions, and of requests that are being served and streams that are open, together.
    pub(super) senders: Arc<Senders>,
    /// Limits the total number of bytes in long request bodies that are being read or served.
    pub(super) bodies: Arc<Capacity>,
    pub(super) spare: SpareDispatchers,
    pub(super) shutdown: ShutdownSignal,
    pub(super) readiness: Readiness,
    pub(super) monitoring: Monitoring,
    pub(super) log: Log,
    pub(super) trace: Option<Arc<dyn Trace>>,
}

impl HttpEndpoint {
    /// Returns the revisions that are served.
    pub(super) fn supported(&self) -> &[Revision] {
        &self.shared.settings.revisions
    }

    /// Returns the connection settings for a modern request, which is served without a session.
    pub(super) fn standalone_settings(&self) -> ConnectionSettings {
        self.settings(ConnectionService::new(Arc::clone(&self.shared)))
    }

    /// Returns the connection settings for a legacy session.
    pub(super) fn session_settings(&self, facts: Arc<HandshakeFacts>) -> ConnectionSettings {
        self.settings(ConnectionService::new(Arc::clone(&self.shared)).with_facts(facts))
    }

    fn settings(&self, service: ConnectionService) -> ConnectionSettings {
        let mut settings = ConnectionSettings::new(Box::new(service), self.log.clone());
        settings.limits = self.limits.engine.clone();
        settings.conventions = Conventions::MCP;
        settings.answer_unreadable = Some(true);
        settings.trace.clone_from(&self.trace);
        settings
    }

    /// Starts the shutdown: no new requests are accepted, and running requests may finish.
    pub(super) fn close(&self) {
        self.readiness.set(NotReady::ShuttingDown, true);
        self.shutdown.begin();
        for session in self.sessions.all() {
            session.begin_shutdown();
        }
    }

    /// Waits until the requests whose clients read the response at another node of the cluster are answered.
    pub(super) async fn finish_for_others(&self) {
        if self.cluster.is_none() {
            return;
        }
        while self.sessions.all().iter().any(|session| session.running.used() > 0) {
            tokio::time::sleep(FINISH_CHECK_TIME).await;
        }
    }

    /// Ends all sessions immediately, without waiting for running requests.
    pub(super) fn abandon(&self) {
        for session in self.sessions.all() {
            session.end();
        }
    }
}

/// The time between two looks at the requests that are still running.
const FINISH_CHECK_TIME: Duration = Duration::from_millis(20);
