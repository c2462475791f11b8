//! What goes over the wire -> findings, by the checks that only look on.

use super::finding::Finding;
use super::ledger::Ledger;
use super::passive::PassiveChecks;
use crate::frames::WireItem;
use crate::operations::{OperationTracker, TrackedMessage};
use crate::pipeline::Observer;

/// The passive checks as an observer, and what they have found.
pub struct Inspector {
    pub(super) checks: PassiveChecks,
    pub(super) ledger: Ledger,
    /// Frames that were seen.
    pub(super) frames: u64,
}

impl Inspector {
    /// Looks at a client and a server that are both somebody else's.
    pub fn new() -> Self {
        Self { checks: PassiveChecks::new(), ledger: Ledger::default(), frames: 0 }
    }

    /// The same, and keeps what is new until [`Self::take_findings`] takes it.
    pub fn incremental() -> Self {
        Self { ledger: Ledger::incremental(), ..Self::new() }
    }

    /// Looks at a server whose client we are ourselves.
    pub(super) fn of_our_own() -> Self {
        Self { checks: PassiveChecks::of_our_own(), ..Self::new() }
    }

    /// Takes what was found since the last time. Of one check only the first findings are told; then they are counted.
    pub fn take_findings(&mut self) -> Vec<Finding> {
        self.ledger.take_findings()
    }

    /// How many findings were counted and not told, by the id of their check.
    pub fn omitted(&self) -> impl Iterator<Item = (&'static str, u64)> {
        self.ledger.omitted()
    }
}

impl Default for Inspector {
    fn default() -> Self {
        Self::new()
    }
}

impl Observer for Inspector {
    fn message(&mut self, message: &TrackedMessage<'_>) {
        self.checks.message(message, &mut self.ledger);
    }

    fn item(&mut self, item: &WireItem<'_>, operations: &OperationTracker) {
        self.frames += u64::from(matches!(item, WireItem::Frame(_)));
        self.checks.item(item, operations, &mut self.ledger);
    }

    fn end(&mut self, operations: &OperationTracker) {
        self.checks.finish(operations, &mut self.ledger);
    }
}
