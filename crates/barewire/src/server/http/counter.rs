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
    fn weigh(&self, weight: usize) -> Option<Counted> {
        let add = |now: usize| now.checked_add(weight).filter(|sum| *sum <= self.most);
        self.now.fetch_update(Ordering::AcqRel, Ordering::Acquire, add).ok()?;
        Some(Counted { now: Arc::clone(&self.now), weight })
    }
}

impl Counter {
    /// As much as this in all, if there may be so much more.
    pub(super) fn grow(&self, counted: &mut Option<Counted>, weight: usize) -> bool {
        let has = counted.as_ref().map_or(0, |counted| counted.weight);
        let Some(mut more) = self.weigh(weight.saturating_sub(has)) else { return false };
        match counted {
            Some(counted) => counted.weight += std::mem::take(&mut more.weight),
            none => *none = Some(more),
        }
        true
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.now.fetch_sub(self.weight, Ordering::AcqRel);
    }
}
