//! How many there may be of something at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Counts what is there.
#[derive(Debug, Clone)]
pub(super) struct Counter {
    now: Arc<AtomicUsize>,
    most: usize,
}

/// Counts until it is dropped.
#[derive(Debug)]
pub(super) struct Counted {
    now: Arc<AtomicUsize>,
    weight: usize,
}

impl Counter {
    pub(super) fn new(most: usize) -> Self {
        Self { now: Arc::default(), most }
    }

    /// One more, if there may be one.
    pub(super) fn enter(&self) -> Option<Counted> {
        self.weigh(1)
    }

    /// So much more, if there may be so much.
    pub(super) fn weigh(&self, weight: usize) -> Option<Counted> {
        let add = |now: usize| now.checked_add(weight).filter(|sum| *sum <= self.most);
        self.now.fetch_update(Ordering::AcqRel, Ordering::Acquire, add).ok()?;
        Some(Counted { now: Arc::clone(&self.now), weight })
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.now.fetch_sub(self.weight, Ordering::AcqRel);
    }
}
