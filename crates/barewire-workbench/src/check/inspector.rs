//! Observed traffic -> findings of the passive checks.

use super::finding::Finding;
use super::ledger::Ledger;
use super::passive::PassiveChecks;
use crate::frames::WireItem;
use crate::operations::{OperationTracker, TrackedMessage};
use crate::pipeline::Observer;

/// The passive checks as an observer, and their findings.
pub struct Inspector {
    pub(super) checks: PassiveChecks,
    pub(super) ledger: Ledger,
    pub(super) frames: u64,
}

impl Inspector {
    /// Checks both the client and the server.
    pub fn new() -> Self {
        Self { checks: PassiveChecks::new(), ledger: Ledger::default(), frames: 0 }
    }

    /// Checks both the client and the server, and collects new findings for [`Self::take_findings`].
    pub fn incremental() -> Self {
        Self { ledger: Ledger::incremental(), ..Self::new() }
    }

    /// Checks only the server, because the client is `barewire check` itself.
    pub(super) fn of_our_own() -> Self {
        Self { checks: PassiveChecks::of_our_own(), ..Self::new() }
    }

    /// Takes the findings since the last call. Only the first findings of each check are kept; the rest are only
    /// counted.
    pub fn take_findings(&mut self) -> Vec<Finding> {
        self.ledger.take_findings()
    }

    /// Returns the id of each check with findings that were only counted, and their number.
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
