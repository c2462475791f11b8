//! Passes copies of relayed bytes to the observation thread, without delaying the relaying threads.
//!
//! The relaying threads append to one buffer. The observation thread takes all of it at once. While bytes flow, it looks
//! for them every few milliseconds by itself, because to wake a thread costs more than to copy a message; only after a
//! pause is it woken by the first bytes. So observation adds almost no time to a request. If the observation thread is
//! too slow, the bytes that do not fit into the buffer are counted as a gap.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use barewire_proto::transcript::{Note, Stream};

use crate::frames::ended_stream;

pub(super) struct ObservationQueue {
    state: Mutex<QueueState>,
    changed: Condvar,
    /// The number of items that were processed.
    seen: AtomicU64,
    limits: QueueLimits,
}

/// The number of bytes and of items above which further bytes are only counted.
#[derive(Clone, Copy)]
pub(super) struct QueueLimits {
    pub(super) bytes: usize,
    pub(super) marks: usize,
}

#[derive(Clone, Default)]
struct QueueState {
    batch: ObservationBatch,
    /// Maps each stream to the number of its bytes that did not fit into the buffer.
    missed: HashMap<(ExchangeNumber, Stream), u64>,
    /// The number of queued bytes at which the observation thread is woken; `None` while it is busy.
    wake_at: Option<usize>,
    /// How often the observation thread still looks for bytes by itself before it waits to be woken.
    looks: u32,
    ended: bool,
}

/// The number of an HTTP exchange; over stdio, [`SINGLE_CONNECTION`].
pub(crate) type ExchangeNumber = u64;

/// The exchange number if there is only one connection.
pub(crate) const SINGLE_CONNECTION: ExchangeNumber = 0;

/// Relayed bytes and events, in order.
#[derive(Clone, Default)]
pub(super) struct ObservationBatch {
    bytes: Vec<u8>,
    marks: Vec<(Duration, ExchangeNumber, BatchMark)>,
}

#[derive(Clone)]
enum BatchMark {
    /// This many of the next bytes in the buffer.
    Bytes(Stream, usize),
    /// A gap: this many bytes did not fit.
    Missed(Stream, u64),
    Note(Note),
}

/// One item of a batch, with its bytes.
pub(super) enum ObservedItem<'a> {
    Bytes(Stream, &'a [u8]),
    Missed(Stream, u64),
    Note(&'a Note),
}

impl Default for ObservationQueue {
    fn default() -> Self {
        Self::new(QueueLimits { bytes: MAX_QUEUED_BYTES, marks: MAX_QUEUED_MARKS })
    }
}

impl ObservationQueue {
    pub(super) fn new(limits: QueueLimits) -> Self {
        Self { state: Mutex::default(), changed: Condvar::new(), seen: AtomicU64::new(0), limits }
    }

    /// Creates a queue that begins with the items of this one.
    pub(super) fn copy(&self, limits: QueueLimits) -> Self {
        Self { state: Mutex::new(self.lock().clone()), ..Self::new(limits) }
    }

    /// Queues bytes that were relayed, with the time when they were read.
    pub(super) fn bytes(&self, exchange: ExchangeNumber, stream: Stream, bytes: &[u8], time: Duration) {
        let mut state = self.lock();
        // The last bytes may exceed the maximum, because a fault may write a piece that alone is larger.
        if state.batch.bytes.len() >= self.limits.bytes || state.batch.marks.len() >= self.limits.marks {
            return state.count_missed(exchange, stream, bytes.len() as u64);
        }
        state.fill_gap(exchange, stream, time);
        state.batch.reserve(bytes.len(), self.limits.bytes);
        state.batch.bytes.extend_from_slice(bytes);
        state.batch.marks.push((time, exchange, BatchMark::Bytes(stream, bytes.len())));
        self.wake(&state);
    }

    /// Counts bytes of a stream that are missing before the next ones.
    pub(super) fn missed(&self, exchange: ExchangeNumber, stream: Stream, bytes: u64) {
        self.lock().count_missed(exchange, stream, bytes);
    }

    /// Returns the number of queued bytes.
    pub(super) fn length(&self) -> usize {
        self.lock().batch.bytes.len()
    }

    /// Queues an event. There are few events, so they are accepted up to twice the maximum number of items.
    pub(super) fn note(&self, exchange: ExchangeNumber, note: Note, time: Duration) {
        let mut state = self.lock();
        if let Some(stream) = ended_stream(&note) {
            state.fill_gap(exchange, stream, time);
        }
        if state.batch.marks.len() < 2 * self.limits.marks {
            state.batch.marks.push((time, exchange, BatchMark::Note(note)));
        }
        self.wake(&state);
    }

    pub(super) fn end(&self) {
        self.lock().ended = true;
        self.changed.notify_one();
    }

    /// Waits for items, and takes all of them in exchange for an empty batch. Returns `false` at the end of the queue.
    pub(super) fn take(&self, batch: &mut ObservationBatch) -> bool {
        batch.bytes.clear();
        batch.bytes.shrink_to(MAX_IDLE_CAPACITY);
        batch.marks.clear();
        let mut state = self.lock();
        loop {
            while state.batch.marks.is_empty() && !state.ended && state.looks == 0 {
                state.wake_at = Some(0);
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
            let until = Instant::now() + BATCH_WAIT;
            while state.batch.bytes.len() < BATCH_BYTES && !state.ended {
                let Some(left) = until.checked_duration_since(Instant::now()) else { break };
                state.wake_at = Some(BATCH_BYTES);
                state = self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
            }
            if !state.batch.marks.is_empty() || state.ended {
                break;
            }
            state.looks = state.looks.saturating_sub(1);
        }
        state.looks = LOOKS;
        state.wake_at = None;
        std::mem::swap(&mut state.batch, batch);
        if state.ended {
            // No more bytes will come, so the gaps are final.
            let time = batch.marks.last().map_or(Duration::ZERO, |(time, ..)| *time);
            let mut missed: Vec<_> = state.missed.keys().copied().collect();
            missed.sort_by_key(|(exchange, stream)| (*exchange, *stream as u8));
            for (exchange, stream) in missed {
                state.fill_gap(exchange, stream, time);
            }
            batch.marks.append(&mut state.batch.marks);
        }
        !batch.marks.is_empty()
    }

    pub(super) fn count_seen(&self) {
        self.seen.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the number of items that were processed. If it grows, the observation thread is making progress.
    pub(super) fn seen(&self) -> u64 {
        self.seen.load(Ordering::Relaxed)
    }

    fn wake(&self, state: &QueueState) {
        if state.wake_at.is_some_and(|bytes| state.batch.bytes.len() >= bytes) {
            self.changed.notify_one();
        }
    }

    fn lock(&self) -> MutexGuard<'_, QueueState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl QueueState {
    fn count_missed(&mut self, exchange: ExchangeNumber, stream: Stream, bytes: u64) {
        // Over HTTP there can be any number of exchanges. Missed bytes are counted for at most this many streams.
        if self.missed.len() < MAX_MISSED_STREAMS || self.missed.contains_key(&(exchange, stream)) {
            *self.missed.entry((exchange, stream)).or_default() += bytes;
        }
    }

    fn fill_gap(&mut self, exchange: ExchangeNumber, stream: Stream, time: Duration) {
        if !self.missed.is_empty()
            && let Some(missed) = self.missed.remove(&(exchange, stream))
        {
            self.batch.marks.push((time, exchange, BatchMark::Missed(stream, missed)));
        }
    }
}

impl ObservationBatch {
    /// Makes room for further bytes. A buffer of more than [`MAX_IDLE_CAPACITY`] grows to the maximum at once: if its
    /// capacity doubled each time, the smaller buffers would stay in the allocator, and take as much memory again.
    fn reserve(&mut self, additional: usize, limit: usize) {
        let length = self.bytes.len() + additional;
        if length > self.bytes.capacity() && length > MAX_IDLE_CAPACITY {
            self.bytes.reserve_exact(limit.max(length) - self.bytes.len());
        }
    }

    pub(super) fn items(&self) -> impl Iterator<Item = (Duration, ExchangeNumber, ObservedItem<'_>)> {
        let mut at = 0;
        self.marks.iter().map(move |(time, exchange, mark)| {
            let item = match mark {
                BatchMark::Note(note) => ObservedItem::Note(note),
                BatchMark::Missed(stream, bytes) => ObservedItem::Missed(*stream, *bytes),
                BatchMark::Bytes(stream, length) => {
                    let bytes = &self.bytes[at..at + length];
                    at += length;
                    ObservedItem::Bytes(*stream, bytes)
                }
            };
            (*time, *exchange, item)
        })
    }
}

/// The time that the observation thread waits for more bytes: too short for a person to notice.
const BATCH_WAIT: Duration = Duration::from_millis(10);

/// How often the observation thread looks for more bytes before it waits to be woken: for a tenth of a second. A host
/// that sends one message after the other wakes it once, and an idle tap runs nothing.
const LOOKS: u32 = 10;

/// The number of queued bytes at which the observation thread no longer waits for more bytes.
const BATCH_BYTES: usize = 256 * 1024;

/// The maximum number of queued bytes: some milliseconds of output from the fastest peer. There are two such buffers:
/// one is filled while the other is processed.
const MAX_QUEUED_BYTES: usize = 16 * 1024 * 1024;
const MAX_QUEUED_MARKS: usize = 256 * 1024;
const MAX_MISSED_STREAMS: usize = 64 * 1024;

/// The maximum capacity of the buffer that is kept after a burst.
const MAX_IDLE_CAPACITY: usize = 1024 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    fn all(queue: &ObservationQueue) -> Vec<String> {
        let (mut batch, mut all) = (ObservationBatch::default(), Vec::new());
        while queue.take(&mut batch) {
            all.extend(batch.items().map(|(_, _, item)| match item {
                ObservedItem::Bytes(stream, bytes) => format!("{}{}", stream.sigil(), bytes.len()),
                ObservedItem::Missed(stream, bytes) => format!("missed {}{bytes}", stream.sigil()),
                ObservedItem::Note(note) => format!("{note:?}"),
            }));
        }
        all
    }

    #[test]
    fn bytes_that_do_not_fit_are_a_gap() {
        let queue = ObservationQueue::default();
        let half = vec![0; MAX_QUEUED_BYTES / 2];
        for stream in [Stream::ToServer, Stream::ToServer, Stream::ToClient, Stream::ToServer] {
            queue.bytes(SINGLE_CONNECTION, stream, &half, Duration::ZERO);
        }
        let mut batch = ObservationBatch::default();
        assert!(queue.take(&mut batch));
        queue.bytes(SINGLE_CONNECTION, Stream::ToServer, b"more", Duration::ZERO);
        queue.end();
        let missed = |sigil: char| format!("missed {sigil}{}", MAX_QUEUED_BYTES / 2);
        assert_eq!(all(&queue), [&missed('>'), ">4", &missed('<')]);
    }

    /// After the first bytes, the thread looks for more by itself, and later ones need not wake it. When no more come, it
    /// stops to look.
    #[test]
    fn bytes_that_follow_wake_nobody() {
        let queue = ObservationQueue::default();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut batch = ObservationBatch::default();
                while queue.take(&mut batch) {}
            });
            let wait_until = |wake_at: usize| {
                // Whether the thread looks by itself can be seen for a while only, so there are more bytes now and then.
                let deadline = Instant::now() + Duration::from_secs(60);
                let mut state = queue.lock();
                while !(state.batch.marks.is_empty() && state.wake_at == Some(wake_at)) && Instant::now() < deadline {
                    let is_idle = state.wake_at == Some(0);
                    drop(state);
                    if is_idle {
                        queue.bytes(SINGLE_CONNECTION, Stream::ToServer, b"1", Duration::ZERO);
                    }
                    std::thread::yield_now();
                    state = queue.lock();
                }
                (state.batch.marks.is_empty(), state.wake_at)
            };
            let idle = wait_until(0);
            let looks = wait_until(BATCH_BYTES);
            let idle_again = wait_until(0);
            queue.end();
            assert_eq!((idle, looks, idle_again), ((true, Some(0)), (true, Some(BATCH_BYTES)), (true, Some(0))));
        });
    }

    #[test]
    fn items_are_taken_in_order() {
        let queue = ObservationQueue::default();
        queue.bytes(SINGLE_CONNECTION, Stream::ToServer, b"12", Duration::ZERO);
        queue.note(SINGLE_CONNECTION, Note::Eof(Stream::ToServer), Duration::ZERO);
        queue.bytes(SINGLE_CONNECTION, Stream::ToClient, b"3", Duration::ZERO);
        queue.end();
        assert_eq!(all(&queue), [">2", "Eof(ToServer)", "<1"]);
    }
}
