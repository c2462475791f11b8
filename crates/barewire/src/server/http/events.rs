//! What was sent on the streams of a session, kept for a client that lost its connection and comes back.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use barewire_proto::http::EventId;
use bytes::Bytes;

/// Keeps events, so that a client of the legacy era can take up a stream where it broke off.
///
/// Keeping must be quick and is never waited for: one that writes to another machine does so behind it. What is not there
/// when it is asked for is lost to that client, and no more than that.
pub trait EventStore: Send + Sync + 'static {
    /// Keeps what was sent under this id on a stream of this session. Ids of one stream only go up.
    fn keep(&self, session: &str, id: EventId, message: Bytes);

    /// What was sent on the same stream after this, in its order; `None` if that is no longer, or never was, known.
    fn after<'a>(&'a self, session: &'a str, id: EventId) -> ReplayFuture<'a>;

    /// Nobody will come back for this session.
    fn forget(&self, session: &str);
}

/// Events being fetched.
pub type ReplayFuture<'a> = Pin<Box<dyn Future<Output = Option<Vec<(EventId, Bytes)>>> + Send + 'a>>;

/// Keeps events in memory: the last ones of each session, and the last ones of all.
pub struct MemoryEvents {
    inner: Mutex<Inner>,
    per_session: usize,
    in_all: usize,
}

#[derive(Default)]
struct Inner {
    sessions: HashMap<Arc<str>, Kept>,
    /// Whose event is the next to go if there are too many, oldest first.
    order: VecDeque<Arc<str>>,
    events: usize,
    bytes: usize,
}

#[derive(Default)]
struct Kept {
    events: VecDeque<(EventId, Bytes)>,
    bytes: usize,
}

impl MemoryEvents {
    /// Keeps so many bytes for each session, and so many for all together.
    pub fn new(per_session: usize, in_all: usize) -> Self {
        Self { inner: Mutex::default(), per_session, in_all }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn read(&self, session: &str, id: EventId) -> Option<Vec<(EventId, Bytes)>> {
        let inner = self.lock();
        let kept = inner.sessions.get(session)?;
        let mut of_stream = kept.events.iter().filter(|(known, _)| known.stream == id.stream);
        let after: Vec<(EventId, Bytes)> =
            of_stream.clone().filter(|(known, _)| known.sequence > id.sequence).cloned().collect();
        // The numbers of a stream have no holes: if one is missing, it is gone.
        let is_whole = match after.first() {
            Some((first, _)) => first.sequence == id.sequence + 1,
            None => of_stream.next_back().is_some_and(|(last, _)| last.sequence == id.sequence),
        };
        is_whole.then_some(after)
    }
}

impl Default for MemoryEvents {
    /// A megabyte for each session, and 64 for all.
    fn default() -> Self {
        Self::new(1 << 20, 64 << 20)
    }
}

impl Inner {
    /// Lets go of the oldest event of a session.
    fn evict(&mut self, session: &Arc<str>) {
        let Some(kept) = self.sessions.get_mut(session) else { return };
        let Some((_, message)) = kept.events.pop_front() else { return };
        let size = message.len() + OVERHEAD;
        kept.bytes -= size;
        self.bytes -= size;
        self.events -= 1;
        if kept.events.is_empty() {
            self.sessions.remove(session);
        }
    }
}

impl EventStore for MemoryEvents {
    fn keep(&self, session: &str, id: EventId, message: Bytes) {
        let mut inner = self.lock();
        let name = match inner.sessions.get_key_value(session) {
            Some((name, _)) => Arc::clone(name),
            None => session.into(),
        };
        // What is short may be part of something longer, which would be kept with it.
        let message = if message.len() < SHORT { Bytes::copy_from_slice(&message) } else { message };
        let size = message.len() + OVERHEAD;
        inner.bytes += size;
        inner.events += 1;
        inner.order.push_back(Arc::clone(&name));
        let kept = inner.sessions.entry(Arc::clone(&name)).or_default();
        kept.bytes += size;
        kept.events.push_back((id, message));
        // The newest is kept in any case: it may be the answer somebody waits for.
        while inner.sessions.get(&name).is_some_and(|kept| kept.bytes > self.per_session && kept.events.len() > 1) {
            inner.evict(&name);
        }
        while inner.bytes > self.in_all {
            let Some(oldest) = inner.order.pop_front() else { break };
            inner.evict(&oldest);
        }
        // What has gone by itself is still in there.
        if inner.order.len() > 2 * inner.events + SLACK {
            let mut left: HashMap<Arc<str>, usize> =
                inner.sessions.iter().map(|(name, kept)| (Arc::clone(name), kept.events.len())).collect();
            let mut order: VecDeque<Arc<str>> = VecDeque::new();
            for name in inner.order.drain(..).rev() {
                if let Some(count) = left.get_mut(&name).filter(|count| **count > 0) {
                    *count -= 1;
                    order.push_front(name);
                }
            }
            inner.order = order;
        }
    }

    fn after<'a>(&'a self, session: &'a str, id: EventId) -> ReplayFuture<'a> {
        Box::pin(std::future::ready(self.read(session, id)))
    }

    fn forget(&self, session: &str) {
        let mut inner = self.lock();
        if let Some(kept) = inner.sessions.remove(session) {
            inner.bytes -= kept.bytes;
            inner.events -= kept.events.len();
        }
        if inner.sessions.is_empty() {
            *inner = Inner::default();
        }
    }
}

impl fmt::Debug for MemoryEvents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let inner = self.lock();
        f.debug_struct("MemoryEvents")
            .field("sessions", &inner.sessions.len())
            .field("bytes", &inner.bytes)
            .finish_non_exhaustive()
    }
}

/// What an event takes beside its bytes.
const OVERHEAD: usize = 64;

/// So long a message is that is copied when it is kept.
const SHORT: usize = 1024;

/// So many names of events that are gone may be in the list before it is cleaned.
const SLACK: usize = 1024;

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
        assert_eq!(after(&events, "a", 1, 3), None, "it was never sent");
        assert_eq!(after(&events, "a", 3, 0), None);
        assert_eq!(after(&events, "b", 2, 0), None);
        events.forget("a");
        assert_eq!(after(&events, "a", 1, 0), None);
        assert_eq!(after(&events, "b", 1, 0), Some(vec![]));
    }

    #[test]
    fn what_is_too_much_is_gone_and_known_to_be() {
        let events = MemoryEvents::new(3 * (100 + OVERHEAD), 5 * (100 + OVERHEAD));
        let message = Bytes::from(vec![b'x'; 100]);
        for sequence in 0..5 {
            events.keep("a", id(1, sequence), message.clone());
        }
        assert_eq!(after(&events, "a", 1, 0), None, "1 is gone");
        assert_eq!(after(&events, "a", 1, 1).map(|it| it.len()), Some(3));
        for sequence in 0..4 {
            events.keep("b", id(1, sequence), message.clone());
        }
        assert_eq!(after(&events, "a", 1, 2).map(|it| it.len()), Some(2), "one more had to go for all");
        assert!(events.lock().bytes <= 5 * (100 + OVERHEAD));
        events.keep("a", id(7, 0), Bytes::from(vec![b'x'; 4000]));
        assert_eq!(after(&events, "a", 7, 0), None, "more than all may have is not kept");
        assert!(events.lock().bytes <= 5 * (100 + OVERHEAD));
    }

    #[test]
    fn memory_comes_back() {
        let events = MemoryEvents::new(1000, 10_000);
        for round in 0..2000 {
            let session = format!("s{round}");
            for sequence in 0..20 {
                events.keep(&session, id(1, sequence), Bytes::from_static(b"0123456789"));
            }
            events.forget(&session);
        }
        let inner = events.lock();
        assert_eq!((inner.bytes, inner.sessions.len(), inner.order.len()), (0, 0, 0));
    }
}
