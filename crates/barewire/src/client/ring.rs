//! A bounded broadcast buffer: each reader gets every item at its own pace. If the buffer is full, the oldest items are
//! dropped, and a reader that is too slow gets the number of items that it has missed.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// The writing side of the buffer. Dropping this value ends the readers' streams.
pub(super) struct Ring<T>(Arc<RingShared<T>>);

/// A reader of every item that is pushed after the reader was created.
pub(super) struct RingReader<T> {
    shared: Arc<RingShared<T>>,
    /// The number of the next item to read.
    at: u64,
}

/// The outcome of a read.
#[derive(Debug, PartialEq)]
pub(super) enum RingRead<T> {
    Next(T),
    /// This many items were dropped before they were read.
    Missed(u64),
}

struct RingShared<T> {
    state: Mutex<RingState<T>>,
    changed: Notify,
}

struct RingState<T> {
    /// The items, each with its approximate size in bytes.
    items: VecDeque<(T, usize)>,
    bytes: usize,
    /// The number of the next item to be pushed. The oldest stored item has the number `next - items.len()`.
    next: u64,
    readers: usize,
    closed: bool,
    max_items: usize,
    max_bytes: usize,
}

impl<T: Clone> Ring<T> {
    /// Returns a buffer that stores the newest items, at most `max_items` items and about `max_bytes` bytes.
    pub(super) fn new(max_items: usize, max_bytes: usize) -> Self {
        let state =
            RingState { items: VecDeque::new(), bytes: 0, next: 0, readers: 0, closed: false, max_items, max_bytes };
        Self(Arc::new(RingShared { state: Mutex::new(state), changed: Notify::new() }))
    }

    /// Returns a reader of all items that are pushed from now on.
    pub(super) fn reader(&self) -> RingReader<T> {
        let mut state = self.0.lock();
        state.readers += 1;
        RingReader { at: state.next, shared: Arc::clone(&self.0) }
    }

    /// Appends an item of about this many bytes, and drops the oldest items if the buffer is full.
    pub(super) fn push(&self, item: T, bytes: usize) {
        let mut state = self.0.lock();
        if state.closed {
            return;
        }
        state.next += 1;
        if state.readers > 0 {
            state.items.push_back((item, bytes));
            state.bytes += bytes;
        }
        // The newest item is stored even if it is larger than `max_bytes`, because it is already in memory.
        while state.items.len() > state.max_items || (state.bytes > state.max_bytes && state.items.len() > 1) {
            let Some((_, bytes)) = state.items.pop_front() else { break };
            state.bytes -= bytes;
        }
        drop(state);
        self.0.changed.notify_waiters();
    }

    /// Ends the stream. Stored items can still be read.
    pub(super) fn close(&self) {
        self.0.lock().closed = true;
        self.0.changed.notify_waiters();
    }
}

impl<T: Clone> RingReader<T> {
    /// Waits for the next item and returns it; `None` at the end of the stream.
    pub(super) async fn next(&mut self) -> Option<RingRead<T>> {
        loop {
            let shared = Arc::clone(&self.shared);
            let changed = shared.changed.notified();
            if let Some(read) = self.read() {
                return read;
            }
            changed.await;
        }
    }

    /// Reads without waiting. Returns `None` if there is nothing to read yet, and `Some(None)` at the end of the
    /// stream.
    fn read(&mut self) -> Option<Option<RingRead<T>>> {
        let state = self.shared.lock();
        let oldest = state.next - u64::try_from(state.items.len()).unwrap_or_default();
        if self.at < oldest {
            let missed = oldest - self.at;
            self.at = oldest;
            return Some(Some(RingRead::Missed(missed)));
        }
        let index = usize::try_from(self.at - oldest).unwrap_or(usize::MAX);
        match state.items.get(index) {
            Some((item, _)) => {
                self.at += 1;
                Some(Some(RingRead::Next(item.clone())))
            }
            None if state.closed => Some(None),
            None => None,
        }
    }
}

impl<T> RingShared<T> {
    fn lock(&self) -> MutexGuard<'_, RingState<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Drop for Ring<T> {
    fn drop(&mut self) {
        self.0.lock().closed = true;
        self.0.changed.notify_waiters();
    }
}

impl<T> Drop for RingReader<T> {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.readers -= 1;
        if state.readers == 0 {
            // New readers only read later items, so the stored items are not needed any more.
            (state.items, state.bytes) = (VecDeque::new(), 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_slow_reader_learns_how_many_items_it_missed() {
        let ring = Ring::new(3, 1000);
        ring.push(0, 1);
        let mut reader = ring.reader();
        (1..=5).for_each(|n| ring.push(n, 1));
        assert_eq!(reader.next().await, Some(RingRead::Missed(2)));
        for n in 3..=5 {
            assert_eq!(reader.next().await, Some(RingRead::Next(n)));
        }
        drop(ring);
        assert_eq!(reader.next().await, None);
    }

    #[tokio::test]
    async fn a_large_item_displaces_older_ones_but_is_stored_itself() {
        let ring = Ring::new(100, 10);
        let mut reader = ring.reader();
        ring.push("small", 1);
        ring.push("huge", 1000);
        assert_eq!(reader.next().await, Some(RingRead::Missed(1)));
        assert_eq!(reader.next().await, Some(RingRead::Next("huge")));
    }

    #[tokio::test]
    async fn readers_are_independent_and_woken() {
        let ring = Arc::new(Ring::new(8, 1000));
        let (mut one, mut two) = (ring.reader(), ring.reader());
        let waiting = tokio::spawn(async move { two.next().await });
        tokio::task::yield_now().await;
        ring.push('x', 1);
        assert_eq!(waiting.await.expect("no panic"), Some(RingRead::Next('x')));
        assert_eq!(one.next().await, Some(RingRead::Next('x')));
        drop(one);
        assert!(ring.0.lock().items.is_empty(), "no reader is left");
    }
}
