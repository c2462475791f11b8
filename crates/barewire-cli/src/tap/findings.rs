//! A finding of the passive checks -> lines of the log.

use barewire_workbench::capture::Redactor;
use barewire_workbench::check::{EvidenceLine, Finding};
use barewire_workbench::text::shown;

/// Returns the finding in one line, and below it the request and the response, if there are both. A message alone is
/// in the line above already.
pub(super) fn lines(mut finding: Finding, redactor: &mut Redactor) -> Vec<String> {
    finding.redact(redactor);
    let mut lines = vec![line(&finding)];
    let has_both = finding.request.is_some() && finding.response.is_some();
    let evidence = finding.evidence_lines(EVIDENCE_WIDTH).into_iter().filter(|_| has_both);
    lines.extend(evidence.map(|EvidenceLine { label, text, .. }| format!("{:>13} {label}{text}", "")));
    lines
}

fn line(finding: &Finding) -> String {
    let Finding { check, party, detail, location, path, .. } = finding;
    let (severity, party, place) = (finding.severity().as_str(), party.as_str(), location.text());
    let detail = shown(detail.as_bytes(), 160);
    let path = path.as_ref().map(|path| format!("at {}", shown(path.as_bytes(), 100)));
    let place = [Some(place), path].into_iter().flatten().filter(|it| !it.is_empty());
    let place = match place.collect::<Vec<_>>().join(", ") {
        place if place.is_empty() => place,
        place => format!(" [{place}]"),
    };
    format!("{:>11} * {severity} {} ({party}): {}: {detail}{place}", "", check.id, check.sentence)
}

/// The width of a line of evidence, in columns, with the column of times before it: the width of other lines of the log.
const EVIDENCE_WIDTH: usize = 140;
