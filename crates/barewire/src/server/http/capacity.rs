//! Counters with a limit, for the requests, sessions or bytes that exist at the same time.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A limit, and the amount that is in use. Clones share the amount.
#[derive(Debug, Clone)]
pub(super) struct Capacity {
    used: Arc<AtomicUsize>,
    limit: usize,
}

/// A reserved part of a [`Capacity`]. It is released on drop.
#[derive(Debug)]
pub(super) struct CapacityGuard {
    used: Arc<AtomicUsize>,
    amount: usize,
}

impl Capacity {
    pub(super) fn new(limit: usize) -> Self {
        Self { used: Arc::default(), limit }
    }

    /// Reserves one unit, or returns `None` at the limit.
    pub(super) fn reserve_one(&self) -> Option<CapacityGuard> {
        self.reserve(1)
    }

    /// Reserves an amount, or returns `None` if it would exceed the limit.
    fn reserve(&self, amount: usize) -> Option<CapacityGuard> {
        let add = |used: usize| used.checked_add(amount).filter(|sum| *sum <= self.limit);
        self.used.fetch_update(Ordering::AcqRel, Ordering::Acquire, add).ok()?;
        Some(CapacityGuard { used: Arc::clone(&self.used), amount })
    }

    /// Whether an amount could be reserved now.
    pub(super) fn has_room(&self, amount: usize) -> bool {
        self.used.load(Ordering::Acquire).checked_add(amount).is_some_and(|sum| sum <= self.limit)
    }

    /// Raises the amount of `guard` to `amount`. Returns `false` if that would exceed the limit.
    pub(super) fn grow_to(&self, guard: &mut Option<CapacityGuard>, amount: usize) -> bool {
        let has = guard.as_ref().map_or(0, |guard| guard.amount);
        let Some(mut more) = self.reserve(amount.saturating_sub(has)) else { return false };
        match guard {
            Some(guard) => guard.amount += std::mem::take(&mut more.amount),
            none => *none = Some(more),
        }
        true
    }
}

impl Drop for CapacityGuard {
    fn drop(&mut self) {
        self.used.fetch_sub(self.amount, Ordering::AcqRel);
    }
}
