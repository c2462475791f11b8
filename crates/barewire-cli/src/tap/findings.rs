//! A finding of the passive checks -> a line of the log.

use barewire_workbench::capture::Redactor;
use barewire_workbench::check::Finding;

pub(super) fn line(finding: &Finding, redactor: &mut Redactor) -> String {
    let Finding { check, party, detail, location, path, .. } = finding;
    let (severity, party, place) = (finding.severity().as_str(), party.as_str(), location.text());
    let detail = redactor.shown(detail.as_bytes(), 160);
    let path = path.as_ref().map(|path| format!("at {}", redactor.shown(path.as_bytes(), 100)));
    let place = [Some(place), path].into_iter().flatten().filter(|it| !it.is_empty());
    let place = match place.collect::<Vec<_>>().join(", ") {
        place if place.is_empty() => place,
        place => format!(" [{place}]"),
    };
    format!("{:>11} * {severity} {} ({party}): {}: {detail}{place}", "", check.id, check.sentence)
}
