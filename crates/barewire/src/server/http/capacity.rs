//! Counters with a limit, for the requests, sessions or bytes that exist at the same time.

use std::sync::Arc;

use crate::sync::atomic::{AtomicUsize, Ordering};

/// A limit, and the amount that is in use.
#[derive(Debug)]
pub(super) struct Capacity {
    used: AtomicUsize,
    limit: usize,
}

/// A reserved part of a [`Capacity`]. It is released on drop.
#[derive(Debug)]
pub(super) struct CapacityGuard {
    capacity: Arc<Capacity>,
    amount: usize,
}

impl Capacity {
    pub(super) fn new(limit: usize) -> Self {
        Self { used: AtomicUsize::new(0), limit }
    }

    /// Adds an amount to the amount in use. Returns `false`, and adds nothing, if that would exceed the limit.
    #[must_use = "what was taken must be given back"]
    pub(super) fn take(&self, amount: usize) -> bool {
        let add = |used: usize| used.checked_add(amount).filter(|sum| *sum <= self.limit);
        self.used.fetch_update(Ordering::AcqRel, Ordering::Acquire, add).is_ok()
    }

    /// Gives back an amount that was taken.
    pub(super) fn give_back(&self, amount: usize) {
        self.used.fetch_sub(amount, Ordering::AcqRel);
    }

    /// Returns the amount in use.
    pub(super) fn used(&self) -> usize {
        self.used.load(Ordering::Acquire)
    }

    /// Whether an amount could be taken now.
    pub(super) fn has_room(&self, amount: usize) -> bool {
        self.used().checked_add(amount).is_some_and(|sum| sum <= self.limit)
    }

    /// Raises the amount of `guard` to `amount`. Returns `false` if that would exceed the limit.
    pub(super) fn grow_to(self: &Arc<Self>, guard: &mut Option<CapacityGuard>, amount: usize) -> bool {
        let has = guard.as_ref().map_or(0, |guard| guard.amount);
        let more = amount.saturating_sub(has);
        if !self.take(more) {
            return false;
        }
        guard.get_or_insert_with(|| CapacityGuard { capacity: Arc::clone(self), amount: 0 }).amount += more;
        true
    }
}

impl Drop for CapacityGuard {
    fn drop(&mut self) {
        self.capacity.give_back(self.amount);
    }
}
