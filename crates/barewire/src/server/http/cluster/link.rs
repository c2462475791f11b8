//! A session as one node of a cluster knows it: the record, as it was read last, and where unsolicited messages go.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;

use super::message::NodeMessage;
use super::node::ClusterNode;
use super::record::SessionRecord;

/// The connection between a session on this node and its record.
pub(in super::super) struct SessionLink {
    pub(super) node: Arc<ClusterNode>,
    pub(super) session: Arc<str>,
    state: Mutex<Option<KnownRecord>>,
    /// The time at which a request here last extended the life of the record.
    extended: Mutex<Option<Instant>>,
}

/// A record with its version.
#[derive(Debug, Clone)]
pub(super) struct KnownRecord {
    pub(super) version: u64,
    pub(super) record: SessionRecord,
}

impl SessionLink {
    /// Returns the link of a session that is not in the store yet.
    pub(super) fn of_new(node: &Arc<ClusterNode>, session: &Arc<str>) -> Arc<Self> {
        Self::new(node, session, None, None)
    }

    /// Returns the link of a copy. `extended` is the time at which this node has extended the life of the record.
    pub(super) fn of_copy(
        node: &Arc<ClusterNode>,
        session: &Arc<str>,
        known: KnownRecord,
        extended: Option<Instant>,
    ) -> Arc<Self> {
        Self::new(node, session, Some(known), extended)
    }

    fn new(
        node: &Arc<ClusterNode>,
        session: &Arc<str>,
        known: Option<KnownRecord>,
        extended: Option<Instant>,
    ) -> Arc<Self> {
        Arc::new(Self {
            node: Arc::clone(node),
            session: Arc::clone(session),
            state: Mutex::new(known),
            extended: Mutex::new(extended),
        })
    }

    fn lock(&self) -> MutexGuard<'_, Option<KnownRecord>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the record as it was read last; `None` while the session is not in the store yet.
    pub(super) fn known(&self) -> Option<KnownRecord> {
        self.lock().clone()
    }

    /// Whether the record was last read in this version.
    pub(super) fn is_at(&self, version: u64) -> bool {
        self.lock().as_ref().is_some_and(|known| known.version == version)
    }

    /// Sets the record as it was read. Returns `false`, and does nothing, if a later one is known.
    pub(super) fn set_known(&self, known: KnownRecord) -> bool {
        let mut state = self.lock();
        let changes = known.record.changes;
        let is_later = state.as_ref().is_none_or(|before| changes == 0 || changes >= before.record.changes);
        if is_later {
            *state = Some(known);
        }
        is_later
    }

    /// Returns the lifetime that a read of the record must set now: `None` if one was set a moment ago. A store that
    /// keeps its data in a file or on replicas writes a new lifetime there, and a plain read costs it less.
    pub(super) fn lifetime_due(&self, session_idle: Duration) -> Option<Duration> {
        let mut extended = self.extended.lock().unwrap_or_else(PoisonError::into_inner);
        if extended.is_some_and(|at| at.elapsed() < session_idle / EXTENSIONS) {
            return None;
        }
        *extended = Some(Instant::now());
        Some(record_lifetime(session_idle))
    }

    /// Returns the number of a new response of the session.
    pub(in super::super) fn response_stream(&self) -> u64 {
        self.node.numbers.response_stream()
    }

    /// Returns the node that has the stream for unsolicited messages.
    pub(super) fn home(&self) -> u32 {
        self.lock().as_ref().map_or(self.node.number, |known| known.record.home)
    }

    /// Whether this node has the stream for unsolicited messages.
    pub(in super::super) fn is_home(&self) -> bool {
        self.home() == self.node.number
    }

    /// Sends a message that belongs to no request to the node that has the stream for such messages.
    pub(in super::super) fn send_home(link: &Arc<Self>, message: Bytes) {
        let node = &link.node;
        let (session, from, number) = (link.session.to_string(), node.number, node.next_message());
        let message = NodeMessage::Unsolicited { session, from, number, hops: 0 }.write(&message);
        node.outbox.send_home(link, message);
    }
}

/// Returns the lifetime of a record: the requests that do not extend it must not end it early.
pub(super) fn record_lifetime(session_idle: Duration) -> Duration {
    session_idle + session_idle / EXTENSIONS
}

/// The number of times that the life of a record is extended while its session may be idle: once a minute with the
/// default of half an hour.
const EXTENSIONS: u32 = 30;
