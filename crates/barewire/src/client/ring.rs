//! What comes -> whoever reads it, each at its own pace. The newest is kept; who falls behind is told how much it missed.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// Where things are put. Dropped, it ends the stream of those who read.
pub(super) struct Ring<T>(Arc<Shared<T>>);

/// One who reads: everything that is put from the moment it was made.
pub(super) struct Reader<T> {
    shared: Arc<Shared<T>>,
    /// The number of what it reads next.
    at: u64,
}

/// What a reader gets.
#[derive(Debug, PartialEq)]
pub(super) enum Read<T> {
    Next(T),
    /// So many were forgotten before they were read.
    Missed(u64),
}

struct Shared<T> {
    inner: Mutex<Inner<T>>,
    told: Notify,
}

struct Inner<T> {
    /// With the bytes that each of them holds.
    kept: VecDeque<(T, usize)>,
    bytes: usize,
    /// The number of what is put next; the oldest that is kept has `next - kept.len()`.
    next: u64,
    readers: usize,
    over: bool,
    most: usize,
    most_bytes: usize,
}

impl<T: Clone> Ring<T> {
    /// Keeps the newest: at most so many, and at most so many bytes of them.
    pub(super) fn new(most: usize, most_bytes: usize) -> Self {
        let inner = Inner { kept: VecDeque::new(), bytes: 0, next: 0, readers: 0, over: false, most, most_bytes };
        Self(Arc::new(Shared { inner: Mutex::new(inner), told: Notify::new() }))
    }

    /// Somebody who reads from now on.
    pub(super) fn reader(&self) -> Reader<T> {
        let mut inner = self.0.lock();
        inner.readers += 1;
        Reader { at: inner.next, shared: Arc::clone(&self.0) }
    }

    /// Puts something that holds about so many bytes.
    pub(super) fn put(&self, what: T, bytes: usize) {
        let mut inner = self.0.lock();
        if inner.over {
            return;
        }
        inner.next += 1;
        if inner.readers > 0 {
            inner.kept.push_back((what, bytes));
            inner.bytes += bytes;
        }
        // The newest is kept in any case: it was read into memory already.
        while inner.kept.len() > inner.most || (inner.bytes > inner.most_bytes && inner.kept.len() > 1) {
            let Some((_, bytes)) = inner.kept.pop_front() else { break };
            inner.bytes -= bytes;
        }
        drop(inner);
        self.0.told.notify_waiters();
    }

    /// Nothing more will come. What is there can still be read.
    pub(super) fn close(&self) {
        self.0.lock().over = true;
        self.0.told.notify_waiters();
    }
}

impl<T: Clone> Reader<T> {
    /// The next one; `None` when there will be no more.
    pub(super) async fn next(&mut self) -> Option<Read<T>> {
        loop {
            let shared = Arc::clone(&self.shared);
            let told = shared.told.notified();
            if let Some(read) = self.read() {
                return read;
            }
            told.await;
        }
    }

    /// `None` while there is nothing to read.
    fn read(&mut self) -> Option<Option<Read<T>>> {
        let inner = self.shared.lock();
        let oldest = inner.next - u64::try_from(inner.kept.len()).unwrap_or_default();
        if self.at < oldest {
            let missed = oldest - self.at;
            self.at = oldest;
            return Some(Some(Read::Missed(missed)));
        }
        let place = usize::try_from(self.at - oldest).unwrap_or(usize::MAX);
        match inner.kept.get(place) {
            Some((what, _)) => {
                self.at += 1;
                Some(Some(Read::Next(what.clone())))
            }
            None if inner.over => Some(None),
            None => None,
        }
    }
}

impl<T> Shared<T> {
    fn lock(&self) -> MutexGuard<'_, Inner<T>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Drop for Ring<T> {
    fn drop(&mut self) {
        self.0.lock().over = true;
        self.0.told.notify_waiters();
    }
}

impl<T> Drop for Reader<T> {
    fn drop(&mut self) {
        let mut inner = self.shared.lock();
        inner.readers -= 1;
        if inner.readers == 0 {
            // Nobody can ask for it any more.
            (inner.kept, inner.bytes) = (VecDeque::new(), 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_reader_that_falls_behind_is_told_by_how_much() {
        let ring = Ring::new(3, 1000);
        ring.put(0, 1);
        let mut reader = ring.reader();
        (1..=5).for_each(|n| ring.put(n, 1));
        assert_eq!(reader.next().await, Some(Read::Missed(2)));
        for n in 3..=5 {
            assert_eq!(reader.next().await, Some(Read::Next(n)));
        }
        drop(ring);
        assert_eq!(reader.next().await, None);
    }

    #[tokio::test]
    async fn large_things_push_out_older_ones_but_never_themselves() {
        let ring = Ring::new(100, 10);
        let mut reader = ring.reader();
        ring.put("small", 1);
        ring.put("huge", 1000);
        assert_eq!(reader.next().await, Some(Read::Missed(1)));
        assert_eq!(reader.next().await, Some(Read::Next("huge")));
    }

    #[tokio::test]
    async fn readers_are_independent_and_woken() {
        let ring = Arc::new(Ring::new(8, 1000));
        let (mut one, mut two) = (ring.reader(), ring.reader());
        let waiting = tokio::spawn(async move { two.next().await });
        tokio::task::yield_now().await;
        ring.put('x', 1);
        assert_eq!(waiting.await.expect("no panic"), Some(Read::Next('x')));
        assert_eq!(one.next().await, Some(Read::Next('x')));
        drop(one);
        assert!(ring.0.lock().kept.is_empty(), "nobody can ask for it");
    }
}
