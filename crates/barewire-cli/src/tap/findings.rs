//! Messages and events -> one log line for each finding of the passive checks.

use barewire_workbench::capture::Redactor;
use barewire_workbench::check::{Finding, Inspector};
use barewire_workbench::frames::WireItem;
use barewire_workbench::operations::{OperationTracker, TrackedMessage};
use barewire_workbench::pipeline::Observer;

/// Runs the passive checks and returns a line for each finding.
pub(super) struct Findings(Inspector);

impl Findings {
    pub(super) fn new() -> Self {
        Self(Inspector::incremental())
    }

    pub(super) fn message(&mut self, message: &TrackedMessage<'_>, redactor: &mut Redactor) -> Vec<String> {
        self.0.message(message);
        self.news(redactor)
    }

    pub(super) fn item(
        &mut self,
        item: &WireItem<'_>,
        operations: &OperationTracker,
        redactor: &mut Redactor,
    ) -> Vec<String> {
        self.0.item(item, operations);
        self.news(redactor)
    }

    /// Returns lines for the findings at the end of the session, and for the number of times that earlier findings were
    /// repeated.
    pub(super) fn end(&mut self, operations: &OperationTracker, redactor: &mut Redactor) -> Vec<String> {
        self.0.end(operations);
        let mut lines = self.news(redactor);
        lines.extend(self.0.omitted().map(|(id, more)| format!("{:>11} * {id}: {more} more", "")));
        lines
    }

    fn news(&mut self, redactor: &mut Redactor) -> Vec<String> {
        self.0.take_findings().iter().map(|finding| line(finding, redactor)).collect()
    }
}

fn line(finding: &Finding, redactor: &mut Redactor) -> String {
    let Finding { check, party, detail, location, path, .. } = finding;
    let (severity, party, place) = (check.severity.as_str(), party.as_str(), location.text());
    let detail = redactor.shown(detail.as_bytes(), 160);
    let path = path.as_ref().map(|path| format!("at {}", redactor.shown(path.as_bytes(), 100)));
    let place = [Some(place), path].into_iter().flatten().filter(|it| !it.is_empty());
    let place = match place.collect::<Vec<_>>().join(", ") {
        place if place.is_empty() => place,
        place => format!(" [{place}]"),
    };
    format!("{:>11} * {severity} {} ({party}): {}: {detail}{place}", "", check.id, check.sentence)
}
