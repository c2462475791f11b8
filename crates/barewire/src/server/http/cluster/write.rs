//! A session on this node -> its record in the store: created, changed, kept and removed.

use std::collections::BTreeSet;
use std::time::Duration;

use barewire_proto::http::Rejection;
use barewire_proto::mcp::{Implementation, LoggingLevel};

use super::copies::home_name;
use super::enter::apply;
use super::link::{KnownRecord, SessionLink, record_lifetime};
use super::log::log_name;
use super::message::NodeMessage;
use super::node::{ClusterNode, unavailable};
use super::record::{RecordChange, SessionRecord};
use super::store::{Record, StoreError};
use crate::server::http::endpoint::HttpEndpoint;
use crate::server::http::session::Session;
use crate::server::task::{TaskOwner, connection_ended};

impl ClusterNode {
    /// Writes a new session to the store.
    pub(in super::super) async fn create(&self, endpoint: &HttpEndpoint, session: &Session) -> Result<(), Rejection> {
        let (Some(link), Some(revision)) = (&session.link, session.revision()) else { return Ok(()) };
        let client = session.facts.client.get();
        let info = client.and_then(|client| client.info.clone());
        let record = SessionRecord {
            principal: session.principal.as_deref().map(str::to_owned),
            revision,
            client: info.unwrap_or_else(|| Implementation::new("", "")),
            capabilities: client.map(|client| client.capabilities.clone()).unwrap_or_default(),
            is_complete: false,
            log_level: client.map_or(LoggingLevel::Info, |client| client.log_level()),
            subscriptions: BTreeSet::new(),
            home: self.number,
            nodes: [self.number].into(),
            changes: 1,
        };
        let lifetime = endpoint.limits.session_silent.min(endpoint.limits.session_idle);
        let created = self.store.create(&record_name(&session.id), record.write(), lifetime).await;
        match self.watch(created) {
            Ok(Some(version)) => {
                link.set_known(KnownRecord { version, record });
                Ok(())
            }
            Ok(None) => Err(Rejection::session_gone()),
            Err(error) => Err(unavailable(&error)),
        }
    }

    /// Writes changes that a client has made here to the store, so that every node has them with its next request.
    pub(in super::super) async fn save(
        &self,
        endpoint: &HttpEndpoint,
        session: &Session,
        changes: &[RecordChange],
    ) -> Result<(), Rejection> {
        let Some(link) = session.link.as_ref().filter(|_| !changes.is_empty()) else { return Ok(()) };
        let unavailable = |error: StoreError| unavailable(&error);
        self.change_known(endpoint, link, |record| record.with(changes)).await.map_err(unavailable)?;
        let Some(KnownRecord { version, record }) = link.known().filter(|known| known.record.home != self.number)
        else {
            return Ok(());
        };
        // The node that tells the client unasked must know at once what the client wants to be told.
        let message = NodeMessage::Changed { session: session.id.to_string(), version };
        let sent = self.store.send(record.home, message.write(&record.write())).await;
        self.watch(sent).map_err(unavailable)
    }

    /// Makes this node the one that has the stream for unsolicited messages, in place of a dead one, unless another one
    /// has done so. Then the link says which node that is.
    pub(super) async fn take_home(
        &self,
        endpoint: &HttpEndpoint,
        session: &Session,
        dead: u32,
    ) -> Result<(), StoreError> {
        let Some(link) = &session.link else { return Ok(()) };
        let home = |record: &SessionRecord| {
            let home = if record.home == dead { self.number } else { record.home };
            SessionRecord { home, ..record.clone() }
        };
        self.change_known(endpoint, link, home).await?;
        let Some(KnownRecord { version, record }) = link.known() else { return Ok(()) };
        apply(session, &record);
        if link.is_home() {
            // If that node is not dead after all, it hears that the client is not told by it any more.
            let message = NodeMessage::Changed { session: session.id.to_string(), version };
            self.outbox.send(dead, message.write(&record.write()));
        }
        Ok(())
    }

    async fn change_known(
        &self,
        endpoint: &HttpEndpoint,
        link: &SessionLink,
        change: impl Fn(&SessionRecord) -> SessionRecord,
    ) -> Result<(), StoreError> {
        let known = link.known().map(|known| Record { version: known.version, value: known.record.write() });
        if let Some(known) = self.change(endpoint, &record_name(&link.session), known, change).await? {
            link.set_known(known);
        }
        Ok(())
    }

    /// Changes a record that was read before. If another node has changed it since, it is read and changed again.
    /// Returns `None` if the session has ended.
    pub(super) async fn change(
        &self,
        endpoint: &HttpEndpoint,
        name: &str,
        mut read: Option<Record>,
        change: impl Fn(&SessionRecord) -> SessionRecord,
    ) -> Result<Option<KnownRecord>, StoreError> {
        let lifetime = record_lifetime(endpoint.limits.session_idle);
        loop {
            let Some(Record { version, value }) = read else { return Ok(None) };
            let Some(before) = SessionRecord::read(&value) else { return Ok(None) };
            let mut record = change(&before);
            if record == before {
                return Ok(Some(KnownRecord { version, record }));
            }
            record.changes = before.changes + 1;
            if let Some(version) = self.watch(self.store.replace(name, version, record.write(), lifetime).await)? {
                return Ok(Some(KnownRecord { version, record }));
            }
            read = self.watch(self.store.read(name, Some(lifetime)).await)?;
        }
    }

    /// Ends a session on all nodes.
    pub(in super::super) async fn end(&self, endpoint: &HttpEndpoint, session: &Session) -> Result<(), Rejection> {
        let removed = self.store.remove(&record_name(&session.id)).await;
        self.watch(removed).map_err(|error| unavailable(&error))?;
        let nodes = session.link.as_ref().and_then(|link| link.known()).map(|known| known.record.nodes);
        let message = NodeMessage::End { session: session.id.to_string() }.write(b"");
        for node in nodes.into_iter().flatten().filter(|node| *node != self.number) {
            self.outbox.send(node, message.clone());
        }
        endpoint.sessions.end(session);
        connection_ended(&endpoint.shared.settings.tasks, &task_owner(&session.id));
        // If this fails, the logs expire.
        let _ = self.store.remove(&log_name(&session.id)).await;
        let _ = self.store.remove(&home_name(&session.id)).await;
        Ok(())
    }

    /// Keeps the record of a session that is in use. Returns whether it exists, as [`Self::exists`] does.
    pub(in super::super) async fn keep(&self, endpoint: &HttpEndpoint, id: &str) -> bool {
        self.is_stored(id, Some(record_lifetime(endpoint.limits.session_idle))).await
    }

    /// Whether a session is in the store. If the store is away, it counts as being there.
    pub(in super::super) async fn exists(&self, id: &str) -> bool {
        self.is_stored(id, None).await
    }

    async fn is_stored(&self, id: &str, lifetime: Option<Duration>) -> bool {
        self.watch(self.store.read(&record_name(id), lifetime).await).map_or(true, |record| record.is_some())
    }
}

/// Returns the owner of the tasks of a session without authentication: all nodes agree about it.
pub(in super::super) fn task_owner(session: &str) -> TaskOwner {
    TaskOwner::connection(session)
}

pub(super) fn record_name(session: &str) -> String {
    format!("session/{session}")
}
