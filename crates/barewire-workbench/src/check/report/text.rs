//! A report -> text for people: failures with their fixes first, the verdict last.

use std::fmt::{self, Write};

use super::{Report, SubjectKind, Verdict};
use crate::Advice;
use crate::check::finding::Finding;
use crate::check::ledger::{CheckOutcome, SkipReason, Status};
use crate::text::{Style, Tone, wrap};

pub(super) fn text(report: &Report, style: &dyn Style, verbose: bool) -> String {
    let mut output = Output { text: String::new(), style };
    write(report, &mut output, verbose).expect("a String takes everything");
    output.text
}

/// The text so far, and its style.
struct Output<'a> {
    text: String,
    style: &'a dyn Style,
}

impl Output<'_> {
    fn paint(&self, tone: Tone, text: &str) -> String {
        self.style.paint(tone, text)
    }
}

impl Write for Output<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.text.write_str(text)
    }
}

fn write(report: &Report, output: &mut Output<'_>, verbose: bool) -> fmt::Result {
    let head = output.paint(Tone::Strong, &report.subject.what);
    writeln!(output, "{head}\n{}\n", report.subject.about)?;
    // Consequences of another failure are skipped, so the worst failure can come first.
    let mut worst: Vec<&CheckOutcome> = report.outcomes.iter().collect();
    worst.sort_by_key(|outcome| (std::cmp::Reverse(outcome.check.severity), outcome.check.level));
    for outcome in worst {
        if let Status::Fail { findings, more, .. } = &outcome.status {
            failed(report, output, outcome, findings, *more)?;
        }
    }
    unknown(report, output, verbose)?;
    for stale in &report.stale {
        let label = output.paint(Tone::Bad, "STALE");
        writeln!(output, "{label}  {}: {} is in the baseline, but was not found\n", stale.check, stale.detail)?;
    }
    if verbose {
        for outcome in &report.outcomes {
            passed(output, outcome)?;
        }
        writeln!(output)?;
    }
    skipped(report, output, verbose)?;
    verdict(report, output)
}

fn failed(
    report: &Report,
    output: &mut Output<'_>,
    outcome: &CheckOutcome,
    findings: &[Finding],
    more: u64,
) -> fmt::Result {
    let check = outcome.check;
    let is_known = findings.iter().all(|finding| report.is_known(finding));
    let label = if is_known { output.paint(Tone::Noted, "KNOWN") } else { output.paint(Tone::Bad, "FAIL ") };
    let id = output.paint(Tone::Strong, check.id);
    let (severity, level) = (check.severity.as_str(), check.level.as_str());
    writeln!(output, "{label} {id} ({severity}, {level}): {}", check.sentence)?;
    // New findings come first.
    let (known, new): (Vec<_>, Vec<_>) = findings.iter().partition(|finding| report.is_known(finding));
    for finding in new.into_iter().chain(known).take(SHOWN_FINDINGS) {
        let place = finding.location.text();
        let place = if place.is_empty() { String::new() } else { format!(" [{place}]") };
        lines(output, "      ", &format!("{}: {}{place}", finding.party.as_str(), finding.detail))?;
        if let Some(path) = &finding.path {
            writeln!(output, "      at {path}")?;
        }
        if !finding.evidence.is_empty() {
            let evidence = output.paint(Tone::Faint, &finding.evidence);
            writeln!(output, "      | {evidence}")?;
        }
    }
    let hidden = more + findings.len().saturating_sub(SHOWN_FINDINGS) as u64;
    if hidden > 0 {
        writeln!(output, "      and {hidden} more")?;
    }
    if let Some(measured) = measured(outcome) {
        writeln!(output, "      {measured}")?;
    }
    lines(output, "      fix: ", check.remedy)?;
    writeln!(output)
}

fn passed(output: &mut Output<'_>, outcome: &CheckOutcome) -> fmt::Result {
    let Status::Pass { inspections } = outcome.status else { return Ok(()) };
    let label = output.paint(Tone::Good, "PASS ");
    let measure = match measured(outcome) {
        Some(measured) => format!(" ({measured})"),
        None if inspections > 1 => format!(" ({inspections} times)"),
        None => String::new(),
    };
    writeln!(output, "{label} {}{measure}", outcome.check.id)
}

/// The number of conforming messages, if the check counts them.
fn measured(outcome: &CheckOutcome) -> Option<String> {
    let measure = outcome.measure.as_ref()?;
    let (conform, messages) = (measure["conform"].as_u64()?, measure["messages"].as_u64()?);
    Some(format!("{conform} of {messages} messages of the server conform"))
}

/// Lists the checks that should have run and could not.
fn unknown(report: &Report, output: &mut Output<'_>, verbose: bool) -> fmt::Result {
    let mut reasons = Reasons::default();
    for outcome in &report.outcomes {
        if let Status::Incomplete(why) = &outcome.status {
            reasons.add(why.text(report.advice_text), outcome.check.id);
        }
    }
    reasons.write(output, "UNKNOWN  ", verbose)?;
    let is_nothing = report.verdict() == Verdict::Incomplete && !report.subject.is_seen;
    if is_nothing {
        let why = match report.subject.kind {
            SubjectKind::Capture => "the capture has no frames",
            _ => "no MCP server responds",
        };
        writeln!(output, "UNKNOWN  {why}: there is nothing to check")?;
    }
    if is_nothing || !reasons.is_empty() {
        writeln!(output)?;
    }
    Ok(())
}

/// The reasons why checks did not run, each with the ids.
#[derive(Default)]
struct Reasons<'a>(Vec<(String, Vec<&'a str>)>);

impl<'a> Reasons<'a> {
    fn add(&mut self, reason: String, id: &'a str) {
        match self.0.iter_mut().find(|(known, _)| *known == reason) {
            Some((_, ids)) => ids.push(id),
            None => self.0.push((reason, vec![id])),
        }
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Writes a line for each reason.
    fn write(&self, output: &mut Output<'_>, label: &str, verbose: bool) -> fmt::Result {
        let most = if verbose { usize::MAX } else { 4 };
        for (reason, ids) in &self.0 {
            let more = ids.len().saturating_sub(most);
            let mut names = ids[..ids.len() - more].join(", ");
            if more > 0 {
                names.push_str(&format!(" and {more} more"));
            }
            lines(output, label, &format!("{names}: {reason}"))?;
        }
        Ok(())
    }
}

fn skipped(report: &Report, output: &mut Output<'_>, verbose: bool) -> fmt::Result {
    let mut reasons = Reasons::default();
    let mut idle = 0;
    for outcome in &report.outcomes {
        let Status::Skip(skip) = &outcome.status else { continue };
        if let (SkipReason::Nothing(_), false) = (skip, verbose) {
            idle += 1;
            continue;
        }
        let reason = match measured(outcome) {
            Some(measured) => format!("{}; {measured}", skip.reason(report.advice_text)),
            None => skip.reason(report.advice_text),
        };
        reasons.add(reason, outcome.check.id);
    }
    reasons.write(output, "skip  ", verbose)?;
    if idle > 0 {
        let checks = if idle == 1 { "1 check".to_owned() } else { format!("{idle} checks") };
        let more = (report.advice_text)(&Advice::NameAllChecks);
        writeln!(output, "skip  {checks} with nothing to inspect; {more}")?;
    }
    if idle > 0 || !reasons.is_empty() {
        writeln!(output)?;
    }
    Ok(())
}

fn verdict(report: &Report, output: &mut Output<'_>) -> fmt::Result {
    let count = |is: fn(&Status) -> bool| report.outcomes.iter().filter(|it| is(&it.status)).count();
    let passed = count(|status| matches!(status, Status::Pass { .. }));
    let skipped = count(|status| matches!(status, Status::Skip(_)));
    let incomplete = count(|status| matches!(status, Status::Incomplete(_)));
    let failures = report.failures();
    let failed: usize = failures.iter().map(|(_, count)| count).sum();
    let by_severity: Vec<_> =
        failures.iter().map(|(severity, count)| format!("{count} {}", severity.as_str())).collect();
    let mut parts = vec![format!("{passed} passed")];
    match (failed, report.known_failures()) {
        (0, _) => parts.push("0 failed".to_owned()),
        (failed, 0) => {
            let counts = report.outcomes.iter().any(|outcome| report.counts(outcome));
            let below = format!(", all below {}", report.fail_on.as_str());
            let below = if counts { "" } else { &below };
            parts.push(format!("{failed} failed ({}){below}", by_severity.join(", ")));
        }
        (failed, known) if failed == known => parts.push(format!("{failed} failed, all known")),
        (failed, known) => {
            parts.push(format!("{failed} failed ({}), {known} of them known", by_severity.join(", ")));
        }
    }
    parts.push(format!("{skipped} skipped"));
    match report.stale.len() {
        0 => {}
        1 => parts.push("1 baseline entry was not found".to_owned()),
        stale => parts.push(format!("{stale} baseline entries were not found")),
    }
    if incomplete > 0 {
        parts.push(format!("{incomplete} could not run"));
    }
    let tone = match report.verdict() {
        Verdict::Pass => Tone::Good,
        Verdict::Fail => Tone::Bad,
        Verdict::Incomplete => Tone::Noted,
    };
    let word = output.paint(tone, report.verdict().as_str());
    writeln!(output, "verdict: {word}: {}", parts.join(", "))
}

fn lines(output: &mut Output<'_>, label: &str, text: &str) -> fmt::Result {
    let room = output.style.width().saturating_sub(label.len());
    for (index, line) in wrap(text, room).iter().enumerate() {
        let label = if index == 0 { label.to_owned() } else { " ".repeat(label.len()) };
        writeln!(output, "{label}{line}")?;
    }
    Ok(())
}

/// Enough to recognise the kind of finding.
const SHOWN_FINDINGS: usize = 3;
