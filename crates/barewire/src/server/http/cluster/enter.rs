//! A request of a session -> the session on this node: known here, or copied from the store.

use std::collections::BTreeSet;
use std::sync::Arc;

use barewire_proto::http::Rejection;
use barewire_proto::mcp::{Implementation, LoggingLevel};
use bytes::Bytes;
use tokio::time::Instant;

use super::copies::home_name;
use super::link::{KnownRecord, SessionLink, record_lifetime};
use super::log::log_name;
use super::message::NodeMessage;
use super::node::{ClusterNode, unavailable};
use super::record::{INITIALIZED, RecordChange, SessionRecord};
use super::store::{Record, StoreError};
use crate::server::http::Principal;
use crate::server::http::endpoint::HttpEndpoint;
use crate::server::http::mailbox::UnsolicitedStart;
use crate::server::http::response::no_room_for_session;
use crate::server::http::sender::Sender;
use crate::server::http::session::{Session, SessionUse};
use crate::server::task::{TaskOwner, connection_ended};

/// Who needs a copy of a session.
enum Requester<'a> {
    Client(Option<&'a Principal>, &'a Arc<Sender>),
    Node,
}

impl Requester<'_> {
    fn may_use(&self, record: &SessionRecord) -> bool {
        match self {
            Self::Client(principal, _) => record.principal.as_deref() == principal.map(Principal::name),
            Self::Node => true,
        }
    }

    /// Returns the time at which the life of the record was extended. Only a client does that.
    fn extended(&self) -> Option<Instant> {
        match self {
            Self::Client(..) => Some(Instant::now()),
            Self::Node => None,
        }
    }

    /// Returns the sender whose copy it is.
    fn sender(&self, endpoint: &HttpEndpoint) -> Arc<Sender> {
        match self {
            Self::Client(_, sender) => Arc::clone(sender),
            Self::Node => endpoint.senders.at(None),
        }
    }
}

impl ClusterNode {
    /// Returns the link of a session that is about to be created on this node.
    pub(in super::super) fn new_link(self: &Arc<Self>, session: &Arc<str>) -> Arc<SessionLink> {
        SessionLink::of_new(self, session)
    }

    /// Returns a session in its latest state, marked as in use. This is the one round trip that a request of a session
    /// costs if there is a copy here. If the store is away, such a session goes on.
    pub(in super::super) async fn enter(
        self: &Arc<Self>,
        endpoint: &Arc<HttpEndpoint>,
        id: &str,
        principal: Option<&Principal>,
        sender: &Arc<Sender>,
    ) -> Result<SessionUse, Rejection> {
        let idle = endpoint.limits.session_idle;
        let here = endpoint.sessions.find(id, principal);
        let lifetime = match &here {
            Some(here) => here.session().link.as_ref().and_then(|link| link.lifetime_due(idle)),
            None => Some(record_lifetime(idle)),
        };
        let record = self.store.read(&record_name(id), lifetime).await;
        match (self.watch(record), here) {
            (Ok(Some(record)), Some(here)) => {
                update(here.session(), &record);
                Ok(here)
            }
            (Ok(Some(record)), None) => {
                let copied = self.copy(endpoint, id, record, Requester::Client(principal, sender)).await?;
                copied.ok_or_else(Rejection::session_gone)
            }
            (Ok(None), here) => {
                if let Some(here) = here {
                    endpoint.sessions.end(here.session());
                }
                Err(Rejection::session_gone())
            }
            (Err(_), Some(here)) => Ok(here),
            (Err(error), None) => Err(unavailable(&error)),
        }
    }

    /// Returns a session that another node asks about, if it exists, marked as in use.
    pub(super) async fn find(self: &Arc<Self>, endpoint: &Arc<HttpEndpoint>, id: &str) -> Option<SessionUse> {
        if let Some(here) = endpoint.sessions.find_for_node(id) {
            return Some(here);
        }
        let record = self.watch(self.store.read(&record_name(id), None).await).ok()??;
        self.copy(endpoint, id, record, Requester::Node).await.ok()?
    }

    /// Makes a copy of a session on this node, as the record has it. Returns `None` if it has ended in the meantime, or
    /// is another principal's.
    async fn copy(
        self: &Arc<Self>,
        endpoint: &Arc<HttpEndpoint>,
        id: &str,
        record: Record,
        requester: Requester<'_>,
    ) -> Result<Option<SessionUse>, Rejection> {
        let name = record_name(id);
        let join = |record: &SessionRecord| {
            let mut record = record.clone();
            record.nodes.insert(self.number);
            record
        };
        if SessionRecord::read(&record.value).is_none_or(|record| !requester.may_use(&record)) {
            return Ok(None);
        }
        let changed = self.change(endpoint, &name, Some(record), join).await.map_err(|error| unavailable(&error))?;
        let Some(known) = changed else { return Ok(None) };
        let is_home = known.record.home == self.number && known.record.is_complete;
        let home = match is_home {
            true => Some(self.read_home(id).await.map_err(|error| unavailable(&error))?),
            false => None,
        };
        let id: Arc<str> = id.into();
        let principal = known.record.principal.as_deref().map(Into::into);
        let link = SessionLink::of_copy(self, &id, known.clone(), requester.extended());
        let seen_changes = home.as_ref().map(|home| home.seen_changes);
        let unsolicited = match home {
            Some(home) => home.unsolicited,
            None => UnsolicitedStart::of_new(self.unsolicited_stream()),
        };
        let sender = requester.sender(endpoint);
        let session = Session::with_id(endpoint, id, principal, &sender, Some(link), unsolicited);
        // The handshake is repeated here, with what was agreed on. Its answer is dropped.
        session.deliver(known.record.initialize());
        apply(&session, &known.record);
        let admitted = self.with_room(endpoint, || endpoint.sessions.admit_copy(&session, &endpoint.log)).await;
        let admitted = admitted.ok_or_else(no_room_for_session)?;
        if Arc::ptr_eq(admitted.session(), &session) {
            if let (Some(seen), Some(client)) = (seen_changes, session.facts.client.get()) {
                endpoint.shared.registry.add_late_watch(&client.watch, seen);
            }
            tokio::spawn(session.run(Arc::downgrade(endpoint)));
        }
        Ok(Some(admitted))
    }

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

    /// Makes this node the one that has the stream for unsolicited messages.
    pub(super) async fn take_home(&self, endpoint: &HttpEndpoint, session: &Session) -> Result<(), StoreError> {
        let Some(link) = &session.link else { return Ok(()) };
        let home = |record: &SessionRecord| SessionRecord { home: self.number, ..record.clone() };
        self.change_known(endpoint, link, home).await?;
        if let Some(known) = link.known() {
            apply(session, &known.record);
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
    async fn change(
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
            let record = change(&before);
            if record == before {
                return Ok(Some(KnownRecord { version, record }));
            }
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

    /// Keeps the record of a session that is in use.
    pub(in super::super) async fn keep(&self, endpoint: &HttpEndpoint, id: &str) {
        let _ =
            self.watch(self.store.read(&record_name(id), Some(record_lifetime(endpoint.limits.session_idle))).await);
    }

    /// Whether a session is in the store. If the store is away, it counts as being there.
    pub(in super::super) async fn exists(&self, id: &str) -> bool {
        self.watch(self.store.read(&record_name(id), None).await).map_or(true, |record| record.is_some())
    }
}

/// Brings a session on this node to the state of its record.
pub(super) fn update(session: &Arc<Session>, record: &Record) {
    let Some(link) = &session.link else { return };
    // Most requests find the record as they left it.
    if link.is_at(record.version) {
        return;
    }
    let Some(known) = SessionRecord::read(&record.value) else { return };
    apply(session, &known);
    link.set_known(KnownRecord { version: record.version, record: known });
}

fn apply(session: &Session, record: &SessionRecord) {
    if record.is_complete && !session.is_handshake_complete() {
        session.deliver(Bytes::from_static(INITIALIZED));
    }
    if let Some(client) = session.facts.client.get() {
        client.set_log_level(record.log_level);
        let is_home = session.link.as_ref().is_none_or(|link| link.node.number == record.home);
        client.watch.set_shared_state(!is_home, record.subscriptions.iter().cloned());
    }
}

/// Returns the owner of the tasks of a session without authentication: all nodes agree about it.
pub(in super::super) fn task_owner(session: &str) -> TaskOwner {
    TaskOwner::connection(session)
}

fn record_name(session: &str) -> String {
    format!("session/{session}")
}
