//! Copies of what was forwarded -> the observer, without making anybody wait who forwards.
//!
//! Whoever forwards appends to one buffer. The observer is woken for the first bytes in it, waits a few milliseconds for more, and
//! takes all of them at once: so it costs a question and its answer next to nothing that somebody looks on. If it does not keep
//! up, what does not fit into the buffer is counted, and is a gap.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use barewire_proto::transcript::{Note, Stream};

use crate::frames::ended_stream;

/// What waits for the observer.
#[derive(Default)]
pub(super) struct ObservationQueue {
    inner: Mutex<Inner>,
    changed: Condvar,
    /// How much of it the observer is done with.
    seen: AtomicU64,
}

#[derive(Default)]
struct Inner {
    batch: Batch,
    /// What did not fit, by stream.
    missed: HashMap<(Exchange, Stream), u64>,
    waiting: Waiting,
    ended: bool,
}

/// Which connection, where there are several: over HTTP the number of the exchange, otherwise [`ONLY`].
pub(super) type Exchange = u64;

/// The connection where there is one.
pub(super) const ONLY: Exchange = 0;

/// What was forwarded, in order.
#[derive(Default)]
pub(super) struct Batch {
    bytes: Vec<u8>,
    marks: Vec<(Duration, Exchange, Mark)>,
}

/// One thing that happened.
enum Mark {
    /// So many of the bytes.
    Bytes(Stream, usize),
    /// So many bytes did not fit.
    Missed(Stream, u64),
    Note(Note),
}

/// One thing that happened, with its bytes.
pub(super) enum Moment<'a> {
    Bytes(Stream, &'a [u8]),
    Missed(Stream, u64),
    Note(&'a Note),
}

/// What the observer waits for.
#[derive(Default, Clone, Copy, PartialEq)]
enum Waiting {
    /// Nothing: it is at work.
    #[default]
    No,
    Anything,
    /// There is something already; it would rather have more at once.
    Much,
}

impl ObservationQueue {
    /// Bytes that were forwarded, and when they were read.
    pub(super) fn bytes(&self, exchange: Exchange, stream: Stream, bytes: &[u8], time: Duration) {
        let mut inner = self.lock();
        // One piece may reach beyond it: a fault makes pieces that would never fit.
        if inner.batch.bytes.len() >= MOST_BYTES || inner.batch.marks.len() >= MOST_MARKS {
            // Exchanges come and go over HTTP; of so many at once the rest is not told apart.
            if inner.missed.len() < MOST_MISSED || inner.missed.contains_key(&(exchange, stream)) {
                *inner.missed.entry((exchange, stream)).or_default() += bytes.len() as u64;
            }
            return;
        }
        inner.fill_gap(exchange, stream, time);
        inner.batch.bytes.extend_from_slice(bytes);
        inner.batch.marks.push((time, exchange, Mark::Bytes(stream, bytes.len())));
        self.wake(&inner);
    }

    /// Something that happened. There are few of them, so there is always room.
    pub(super) fn note(&self, exchange: Exchange, note: Note, time: Duration) {
        let mut inner = self.lock();
        if let Some(stream) = ended_stream(&note) {
            inner.fill_gap(exchange, stream, time);
        }
        if inner.batch.marks.len() < 2 * MOST_MARKS {
            inner.batch.marks.push((time, exchange, Mark::Note(note)));
        }
        self.wake(&inner);
    }

    /// Nothing more will come.
    pub(super) fn end(&self) {
        self.lock().ended = true;
        self.changed.notify_one();
    }

    /// Waits for what comes next, and takes all of it in exchange for an empty batch; `false` if nothing more will come.
    pub(super) fn take(&self, batch: &mut Batch) -> bool {
        batch.bytes.clear();
        batch.bytes.shrink_to(MOST_KEPT);
        batch.marks.clear();
        let mut inner = self.lock();
        while inner.batch.marks.is_empty() && !inner.ended {
            inner.waiting = Waiting::Anything;
            inner = self.changed.wait(inner).unwrap_or_else(PoisonError::into_inner);
        }
        let until = Instant::now() + PATIENCE;
        while inner.batch.bytes.len() < MUCH && !inner.ended {
            let Some(left) = until.checked_duration_since(Instant::now()) else { break };
            inner.waiting = Waiting::Much;
            inner = self.changed.wait_timeout(inner, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        inner.waiting = Waiting::No;
        std::mem::swap(&mut inner.batch, batch);
        if inner.ended {
            // Nobody forwards any more: what did not fit is known for good.
            let time = batch.marks.last().map_or(Duration::ZERO, |(time, ..)| *time);
            let mut missed: Vec<_> = inner.missed.keys().copied().collect();
            missed.sort_by_key(|(exchange, stream)| (*exchange, *stream as u8));
            for (exchange, stream) in missed {
                inner.fill_gap(exchange, stream, time);
            }
            batch.marks.append(&mut inner.batch.marks);
        }
        !batch.marks.is_empty()
    }

    /// The observer is done with one thing more.
    pub(super) fn see(&self) {
        self.seen.fetch_add(1, Ordering::Relaxed);
    }

    /// How many things it is done with: as long as that grows, it gets on.
    pub(super) fn seen(&self) -> u64 {
        self.seen.load(Ordering::Relaxed)
    }

    fn wake(&self, inner: &Inner) {
        let wake = match inner.waiting {
            Waiting::No => false,
            Waiting::Anything => true,
            Waiting::Much => inner.batch.bytes.len() >= MUCH,
        };
        if wake {
            self.changed.notify_one();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn fill_gap(&mut self, exchange: Exchange, stream: Stream, time: Duration) {
        if !self.missed.is_empty()
            && let Some(missed) = self.missed.remove(&(exchange, stream))
        {
            self.batch.marks.push((time, exchange, Mark::Missed(stream, missed)));
        }
    }
}

impl Batch {
    /// All of it, in order.
    pub(super) fn moments(&self) -> impl Iterator<Item = (Duration, Exchange, Moment<'_>)> {
        let mut at = 0;
        self.marks.iter().map(move |(time, exchange, mark)| {
            let moment = match mark {
                Mark::Note(note) => Moment::Note(note),
                Mark::Missed(stream, bytes) => Moment::Missed(*stream, *bytes),
                Mark::Bytes(stream, length) => {
                    let bytes = &self.bytes[at..at + length];
                    at += length;
                    Moment::Bytes(*stream, bytes)
                }
            };
            (*time, *exchange, moment)
        })
    }
}

/// As long as nobody looks at a screen.
const PATIENCE: Duration = Duration::from_millis(10);

/// As much as is worth being woken for at once.
const MUCH: usize = 256 * 1024;

/// Some milliseconds of the fastest peer. There are two such buffers.
const MOST_BYTES: usize = 16 * 1024 * 1024;
const MOST_MARKS: usize = 256 * 1024;
const MOST_MISSED: usize = 64 * 1024;

/// What is kept of the memory after a burst.
const MOST_KEPT: usize = 1024 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    fn all(queue: &ObservationQueue) -> Vec<String> {
        let (mut batch, mut all) = (Batch::default(), Vec::new());
        while queue.take(&mut batch) {
            all.extend(batch.moments().map(|(_, _, moment)| match moment {
                Moment::Bytes(stream, bytes) => format!("{}{}", stream.sigil(), bytes.len()),
                Moment::Missed(stream, bytes) => format!("missed {}{bytes}", stream.sigil()),
                Moment::Note(note) => format!("{note:?}"),
            }));
        }
        all
    }

    #[test]
    fn what_does_not_fit_is_a_gap() {
        let queue = ObservationQueue::default();
        let half = vec![0; MOST_BYTES / 2];
        for stream in [Stream::ToServer, Stream::ToServer, Stream::ToClient, Stream::ToServer] {
            queue.bytes(ONLY, stream, &half, Duration::ZERO);
        }
        let mut batch = Batch::default();
        assert!(queue.take(&mut batch));
        queue.bytes(ONLY, Stream::ToServer, b"more", Duration::ZERO);
        queue.end();
        let missed = |sigil: char| format!("missed {sigil}{}", MOST_BYTES / 2);
        assert_eq!(all(&queue), [&missed('>'), ">4", &missed('<')]);
    }

    #[test]
    fn the_observer_takes_everything_in_order() {
        let queue = ObservationQueue::default();
        queue.bytes(ONLY, Stream::ToServer, b"12", Duration::ZERO);
        queue.note(ONLY, Note::Eof(Stream::ToServer), Duration::ZERO);
        queue.bytes(ONLY, Stream::ToClient, b"3", Duration::ZERO);
        queue.end();
        assert_eq!(all(&queue), [">2", "Eof(ToServer)", "<1"]);
    }
}
