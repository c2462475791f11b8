//! A request of a session -> the session on this node: known here, or copied from the store.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use barewire_proto::http::Rejection;
use bytes::Bytes;
use tokio::time::Instant;

use super::link::{KnownRecord, SessionLink, record_lifetime};
use super::node::{ClusterNode, unavailable};
use super::record::{INITIALIZED, SessionRecord};
use super::store::Record;
use super::write::record_name;
use crate::server::http::Principal;
use crate::server::http::endpoint::HttpEndpoint;
use crate::server::http::mailbox::UnsolicitedStart;
use crate::server::http::response::no_room_for_session;
use crate::server::http::sender::Sender;
use crate::server::http::session::{Session, SessionUse};

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
        let Some(read) = SessionRecord::read(&record.value).filter(|record| requester.may_use(record)) else {
            return Ok(None);
        };
        let dead = self.dead_among(&read.nodes).await;
        let join = |record: &SessionRecord| {
            let mut record = record.clone();
            record.nodes.insert(self.number);
            record.nodes.retain(|node| !dead.contains(node));
            record
        };
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
        if let (Some(seen), Some(client)) = (seen_changes, session.facts.client.get()) {
            // At once, so that nothing is told twice: a change from now on notifies the watch too.
            endpoint.shared.registry.add_late_watch(&client.watch, seen);
        }
        let admitted = self.with_room(endpoint, || endpoint.sessions.admit_copy(&session, &endpoint.log)).await;
        let admitted = admitted.ok_or_else(no_room_for_session)?;
        if Arc::ptr_eq(admitted.session(), &session) {
            tokio::spawn(Arc::clone(&session).run(Arc::downgrade(endpoint)));
            if known.record.home == self.number && !self.read_again(endpoint, &session).await {
                return Ok(None);
            }
        } else if let Some(link) = &admitted.session().link {
            // Another request has made a copy at the same time, perhaps of an earlier record.
            update_known(admitted.session(), link, known);
        }
        Ok(Some(admitted))
    }

    /// Returns those of these nodes that are dead, if there are so many of them that they should be forgotten: a session
    /// can outlive any number of nodes.
    async fn dead_among(&self, nodes: &BTreeSet<u32>) -> BTreeSet<u32> {
        if nodes.len() < MANY_NODES {
            return BTreeSet::new();
        }
        let Ok(alive) = self.read_alive().await else { return BTreeSet::new() };
        nodes.iter().copied().filter(|node| *node != self.number && !alive.contains(node)).collect()
    }

    /// Brings a copy to the state of its record, of which this node was not told while the copy was being made. Returns
    /// `false` if the session has ended in the meantime.
    pub(super) async fn read_again(&self, endpoint: &HttpEndpoint, session: &Arc<Session>) -> bool {
        match self.watch(self.store.read(&record_name(&session.id), None).await) {
            Ok(Some(record)) => update(session, &record),
            Ok(None) => {
                endpoint.sessions.end(session);
                return false;
            }
            // Sessions that are known here go on without the store.
            Err(_) => {}
        }
        true
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
    update_known(session, link, KnownRecord { version: record.version, record: known });
}

/// Brings a session on this node to the state of a record, unless a later one is known here: another request may have
/// read that in the meantime.
fn update_known(session: &Session, link: &SessionLink, known: KnownRecord) {
    let (record, was_home) = (known.record.clone(), link.is_home());
    if link.set_known(known) {
        apply(session, &record);
        if was_home && !link.is_home() {
            // Another node has taken this one for dead. The client finds its stream there.
            session.unsolicited().hang_up(RECONNECT_TIME);
        }
    }
}

pub(super) fn apply(session: &Session, record: &SessionRecord) {
    if record.is_complete && !session.is_handshake_complete() {
        session.deliver(Bytes::from_static(INITIALIZED));
    }
    if let Some(client) = session.facts.client.get() {
        client.set_log_level(record.log_level);
        let is_home = session.link.as_ref().is_none_or(|link| link.node.number == record.home);
        client.watch.set_shared_state(!is_home, record.subscriptions.iter().cloned());
    }
}

/// The time after which a client reconnects whose stream for unsolicited messages another node has now.
const RECONNECT_TIME: Duration = Duration::from_millis(100);

/// The number of nodes of a session from which on the dead ones among them are forgotten.
const MANY_NODES: usize = 32;
