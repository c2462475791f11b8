//! Storage for the events that were sent on the streams of a session, for a client that lost its connection and resumes
//! a stream.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, PoisonError};

use barewire_proto::http::EventId;
use bytes::Bytes;

use crate::sync::{Mutex, MutexGuard};

/// A store of sent events, from which a legacy client can resume a broken stream.
///
/// [`Self::keep`] must return quickly, because the server calls it before sending each event: a store on another
/// machine should write in the background. If an event is missing when a client resumes, the client is told so.
pub trait EventStore: Send + Sync + 'static {
    /// Stores a message that is sent with this event id in this session. The ids of one stream only increase. Event 0
    /// has no message that is sent: clients resume after it if they got no other event.
    fn keep(&self, session: &str, id: EventId, message: Bytes);

    /// Returns the messages that were sent on the same stream after this id, in order. Returns `None` if some of these
    /// messages are no longer stored, or the id is unknown.
    fn after<'a>(&'a self, session: &'a str, id: EventId) -> ReplayFuture<'a>;

    /// Notes that a stream ends without a response, because its request was cancelled. `id` follows that of the last
    /// event. A store that several processes share tells them, so that none of them waits for the response.
    fn end(&self, session: &str, id: EventId) {
        let _ = (session, id);
    }

    /// Drops the events of a session that has ended.
    fn forget(&self, session: &str);
}

/// The future of [`EventStore::after`].
pub type ReplayFuture<'a> = Pin<Box<dyn Future<Output = Option<Vec<(EventId, Bytes)>>> + Send + 'a>>;

/// An event store in memory. It keeps the latest events, within a limit for each session and a limit for all sessions
/// together.
pub struct MemoryEvents {
    index: Mutex<EventIndex>,
    per_session: usize,
    in_all: usize,
}

#[derive(Default)]
struct EventIndex {
    sessions: HashMap<Arc<str>, SessionEventLog>,
    /// The name of the session of each stored event, oldest event first. When the store is full, events are dropped in
    /// this order.
    order: VecDeque<Arc<str>>,
    events: usize,
    bytes: usize,
}

#[derive(Default)]
struct SessionEventLog {
    events: VecDeque<(EventId, Bytes)>,
    bytes: usize,
}

impl MemoryEvents {
    /// Creates a store with limits in bytes: for each session, and for all sessions together.
    pub fn new(per_session: usize, in_all: usize) -> Self {
        Self { index: Mutex::default(), per_session, in_all }
    }

    fn lock(&self) -> MutexGuard<'_, EventIndex> {
        self.index.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn read(&self, session: &str, id: EventId) -> Option<Vec<(EventId, Bytes)>> {
        let index = self.lock();
        let log = index.sessions.get(session)?;
        let mut of_stream = log.events.iter().filter(|(known, _)| known.stream == id.stream);
        let after: Vec<(EventId, Bytes)> =
            of_stream.clone().filter(|(known, _)| known.sequence > id.sequence).cloned().collect();
        // The sequence numbers of a stream have no gaps: if the number after `id` is missing, that event was dropped
        // from the store.
        let is_whole = match after.first() {
            Some((first, _)) => first.sequence == id.sequence + 1,
            None => of_stream.next_back().is_some_and(|(last, _)| last.sequence == id.sequence),
        };
        is_whole.then_some(after)
    }
}

impl Default for MemoryEvents {
    /// The limits are 1 MiB for each session and 64 MiB for all sessions.
    fn default() -> Self {
        Self::new(1 << 20, 64 << 20)
    }
}

impl EventIndex {
    /// Drops the oldest event of a session.
    fn evict(&mut self, session: &Arc<str>) {
        let Some(log) = self.sessions.get_mut(session) else { return };
        let Some((_, message)) = log.events.pop_front() else { return };
        let size = message.len() + EVENT_OVERHEAD;
        log.bytes -= size;
        self.bytes -= size;
        self.events -= 1;
        if log.events.is_empty() {
            self.sessions.remove(session);
        }
    }
}

impl EventStore for MemoryEvents {
    fn keep(&self, session: &str, id: EventId, message: Bytes) {
        let mut index = self.lock();
        let name = match index.sessions.get_key_value(session) {
            Some((name, _)) => Arc::clone(name),
            None => session.into(),
        };
        // A short message is copied: it might be a slice of a larger buffer, which would otherwise stay allocated.
        let message = if message.len() < MAX_COPIED_MESSAGE { Bytes::copy_from_slice(&message) } else { message };
        let size = message.len() + EVENT_OVERHEAD;
        index.bytes += size;
        index.events += 1;
        index.order.push_back(Arc::clone(&name));
        let log = index.sessions.entry(Arc::clone(&name)).or_default();
        log.bytes += size;
        log.events.push_back((id, message));
        // This loop keeps the newest event, because it might be the response that the client waits for.
        while index.sessions.get(&name).is_some_and(|log| log.bytes > self.per_session && log.events.len() > 1) {
            index.evict(&name);
        }
        while index.bytes > self.in_all {
            let Some(oldest) = index.order.pop_front() else { break };
            index.evict(&oldest);
        }
        // When an event is dropped because of its session's limit, the session's name stays in `order`. Such names are
        // removed here.
        if index.order.len() > 2 * index.events + MAX_STALE_NAMES {
            let mut left: HashMap<Arc<str>, usize> =
                index.sessions.iter().map(|(name, log)| (Arc::clone(name), log.events.len())).collect();
            let mut order: VecDeque<Arc<str>> = VecDeque::new();
            for name in index.order.drain(..).rev() {
                if let Some(count) = left.get_mut(&name).filter(|count| **count > 0) {
                    *count -= 1;
                    order.push_front(name);
                }
            }
            index.order = order;
        }
    }

    fn after<'a>(&'a self, session: &'a str, id: EventId) -> ReplayFuture<'a> {
        Box::pin(std::future::ready(self.read(session, id)))
    }

    fn forget(&self, session: &str) {
        let mut index = self.lock();
        if let Some(log) = index.sessions.remove(session) {
            index.bytes -= log.bytes;
            index.events -= log.events.len();
        }
        if index.sessions.is_empty() {
            *index = EventIndex::default();
        }
    }
}

impl fmt::Debug for MemoryEvents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let index = self.lock();
        f.debug_struct("MemoryEvents")
            .field("sessions", &index.sessions.len())
            .field("bytes", &index.bytes)
            .finish_non_exhaustive()
    }
}

/// The approximate memory of an event besides its message, in bytes.
const EVENT_OVERHEAD: usize = 64;

/// Messages shorter than this number of bytes are copied when they are stored.
const MAX_COPIED_MESSAGE: usize = 1024;

/// Names of dropped events are removed from `order` when there are more of them than stored events plus this number.
const MAX_STALE_NAMES: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    fn id(stream: u64, sequence: u64) -> EventId {
        EventId { stream, sequence }
    }

    fn after(events: &MemoryEvents, session: &str, stream: u64, sequence: u64) -> Option<Vec<String>> {
        let found = events.read(session, id(stream, sequence))?;
        Some(found.into_iter().map(|(id, message)| format!("{}:{}", id.sequence, message.len())).collect())
    }

    #[test]
    fn only_the_same_stream_of_the_same_session_is_replayed() {
        let events = MemoryEvents::default();
        for (session, stream, sequence) in [("a", 1, 0), ("a", 1, 1), ("a", 2, 0), ("b", 1, 0), ("a", 1, 2)] {
            events.keep(session, id(stream, sequence), Bytes::from_static(b"x"));
        }
        assert_eq!(after(&events, "a", 1, 0), Some(vec!["1:1".to_owned(), "2:1".to_owned()]));
        assert_eq!(after(&events, "a", 1, 2), Some(vec![]));
        assert_eq!(after(&events, "a", 1, 3), None, "event 3 was never sent");
        assert_eq!(after(&events, "a", 3, 0), None);
        assert_eq!(after(&events, "b", 2, 0), None);
        events.forget("a");
        assert_eq!(after(&events, "a", 1, 0), None);
        assert_eq!(after(&events, "b", 1, 0), Some(vec![]));
    }

    #[test]
    fn old_events_are_dropped_at_the_limits() {
        let events = MemoryEvents::new(3 * (100 + EVENT_OVERHEAD), 5 * (100 + EVENT_OVERHEAD));
        let message = Bytes::from(vec![b'x'; 100]);
        for sequence in 0..5 {
            events.keep("a", id(1, sequence), message.clone());
        }
        assert_eq!(after(&events, "a", 1, 0), None, "event 1 was dropped");
        assert_eq!(after(&events, "a", 1, 1).map(|it| it.len()), Some(3));
        for sequence in 0..4 {
            events.keep("b", id(1, sequence), message.clone());
        }
        assert_eq!(after(&events, "a", 1, 2).map(|it| it.len()), Some(2), "one more was dropped");
        assert!(events.lock().bytes <= 5 * (100 + EVENT_OVERHEAD));
        events.keep("a", id(7, 0), Bytes::from(vec![b'x'; 4000]));
        assert_eq!(after(&events, "a", 7, 0), None, "an event larger than the limit for all is not kept");
        assert!(events.lock().bytes <= 5 * (100 + EVENT_OVERHEAD));
    }

    #[test]
    fn forgetting_sessions_frees_memory() {
        let events = MemoryEvents::new(1000, 10_000);
        for round in 0..2000 {
            let session = format!("s{round}");
            for sequence in 0..20 {
                events.keep(&session, id(1, sequence), Bytes::from_static(b"0123456789"));
            }
            events.forget(&session);
        }
        let index = events.lock();
        assert_eq!((index.bytes, index.sessions.len(), index.order.len()), (0, 0, 0));
    }
}
