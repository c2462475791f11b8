//! What all requests to a server over HTTP share.

use std::sync::{Arc, OnceLock};

use barewire_proto::http::Access;
use barewire_proto::mcp::Revision;
use barewire_proto::session::Conventions;

use super::alone::Spare;
use super::closing::Close;
use super::counter::Counter;
use super::metadata::Metadata;
use super::session::Sessions;
use super::{Authenticate, EventStore, HttpLimits};
use crate::log::Log;
use crate::peer::{ConnectionSettings, Trace};
use crate::server::Shared;
use crate::server::connection::Connected;

/// A server that is reached over HTTP.
pub(super) struct Endpoint {
    pub(super) shared: Arc<Shared>,
    pub(super) access: Access,
    pub(super) authenticate: Option<Arc<dyn Authenticate>>,
    pub(super) metadata: Option<Metadata>,
    /// `https`, if that is how clients see it.
    pub(super) scheme: &'static str,
    pub(super) limits: HttpLimits,
    pub(super) events: Arc<dyn EventStore>,
    pub(super) sessions: Sessions,
    pub(super) session_count: Counter,
    /// Requests under way, and open streams.
    pub(super) exchanges: Counter,
    /// Bytes of bodies that are being read or served.
    pub(super) bodies: Counter,
    pub(super) spare: Spare,
    pub(super) closing: Close,
    pub(super) log: Log,
    pub(super) trace: Option<Arc<dyn Trace>>,
}

impl Endpoint {
    /// The revisions that are served.
    pub(super) fn supported(&self) -> &[Revision] {
        &self.shared.settings.revisions
    }

    /// What a request is served with that stands by itself.
    pub(super) fn alone(&self) -> ConnectionSettings {
        self.settings(Connected::new(Arc::clone(&self.shared)))
    }

    /// What a session is served with.
    pub(super) fn session(&self, agreed: Arc<OnceLock<Revision>>) -> ConnectionSettings {
        self.settings(Connected::new(Arc::clone(&self.shared)).telling(agreed))
    }

    fn settings(&self, connected: Connected) -> ConnectionSettings {
        let mut settings = ConnectionSettings::new(Box::new(connected), self.log.clone());
        settings.limits = self.limits.engine.clone();
        settings.conventions = Conventions::MCP;
        settings.answer_unreadable = Some(true);
        settings.trace.clone_from(&self.trace);
        settings
    }

    /// Nothing new is begun; what is under way is finished.
    pub(super) fn close(&self) {
        self.closing.close();
        for session in self.sessions.all() {
            session.begin_end();
        }
    }

    /// Nothing goes on any more.
    pub(super) fn abandon(&self) {
        for session in self.sessions.all() {
            session.end();
        }
    }
}
