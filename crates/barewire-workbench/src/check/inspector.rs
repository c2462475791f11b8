//! Observed traffic -> findings of the passive checks.

use super::finding::Finding;
use super::ledger::Ledger;
use super::origin::MarkCollector;
use super::passive::PassiveChecks;
use crate::frames::WireItem;
use crate::operations::{OperationTracker, TrackedMessage};
use crate::pipeline::Observer;

/// An observer that runs the passive checks on traffic, and collects their findings.
pub struct Inspector {
    pub(super) checks: PassiveChecks,
    pub(super) ledger: Ledger,
    pub(super) marks: MarkCollector,
    pub(super) frames: u64,
}

impl Inspector {
    /// Returns an inspector that checks both the client and the server.
    pub fn new() -> Self {
        Self { checks: PassiveChecks::new(), ledger: Ledger::default(), marks: MarkCollector::default(), frames: 0 }
    }

    /// Returns an inspector that checks both sides, and that collects new findings for [`Self::take_findings`].
    pub fn incremental() -> Self {
        Self { ledger: Ledger::incremental(), ..Self::new() }
    }

    /// Returns an inspector that checks only the server, because the client is `barewire check` itself.
    pub(super) fn of_our_own() -> Self {
        Self { checks: PassiveChecks::of_our_own(), ..Self::new() }
    }

    /// Takes the new findings since the last call. Each check keeps only its first findings; [`Self::omitted`] counts
    /// the others.
    pub fn take_findings(&mut self) -> Vec<Finding> {
        self.ledger.take_findings()
    }

    /// Returns the id of each check that has findings which were only counted, and the number of these findings.
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
        self.marks.message(message);
    }

    fn item(&mut self, item: &WireItem<'_>, operations: &OperationTracker) {
        self.frames += u64::from(matches!(item, WireItem::Frame(_)));
        self.checks.item(item, operations, &mut self.ledger);
    }

    fn end(&mut self, operations: &OperationTracker) {
        self.checks.finish(operations, &mut self.ledger);
    }
}
