//! A report -> text for people: failures with their fixes first, the verdict last.

use std::cmp::Reverse;
use std::fmt::Display;

use super::{Report, SubjectKind, Verdict};
use crate::Advice;
use crate::check::catalogue::Severity;
use crate::check::evidence::EvidenceLine;
use crate::check::finding::Finding;
use crate::check::ledger::{CheckOutcome, SkipReason, Status};
use crate::text::{Style, Tone, wrap};

pub(super) fn text(report: &Report, style: &dyn Style, verbose: bool) -> String {
    let mut writer = TextWriter { report, style, verbose, text: String::new() };
    writer.write();
    writer.text
}

struct TextWriter<'a> {
    report: &'a Report,
    style: &'a dyn Style,
    verbose: bool,
    text: String,
}

impl TextWriter<'_> {
    fn write(&mut self) {
        let report = self.report;
        let head = self.style.paint(Tone::Strong, &report.subject.what);
        self.line(format_args!("{head}\n{}\n", report.subject.about));
        // Checks that depend on a failed check are skipped, so the remaining failures can be sorted by severity.
        let mut worst: Vec<&CheckOutcome> = report.outcomes.iter().collect();
        worst.sort_by_key(|outcome| (Reverse(outcome.severity()), outcome.level()));
        for outcome in &worst {
            if let Status::Fail { findings, more, .. } = &outcome.status {
                let of_author: Vec<&Finding> = findings.iter().filter(|it| !it.origin.is_sdk()).collect();
                if !outcome.is_of_sdk() {
                    self.failed(outcome, &of_author, *more);
                }
            }
        }
        self.of_sdk(&worst);
        self.incomplete();
        for stale in &report.stale {
            let label = self.style.paint(Tone::Bad, "STALE");
            let (check, detail) = (&stale.check, &stale.detail);
            self.line(format_args!("{label}  {check}: {detail} is in the baseline, but was not found\n"));
        }
        if self.verbose {
            report.outcomes.iter().for_each(|outcome| self.passed(outcome));
            self.line("");
        }
        self.skipped();
        self.verdict();
    }

    fn line(&mut self, line: impl Display) {
        self.text.push_str(&format!("{line}\n"));
    }

    /// Writes a label and a wrapped text. The second and later lines are indented by the width of the label.
    fn wrapped(&mut self, label: &str, text: &str) {
        let room = self.style.width().saturating_sub(label.len());
        for (index, line) in wrap(text, room).iter().enumerate() {
            let label = if index == 0 { label.to_owned() } else { " ".repeat(label.len()) };
            self.line(format_args!("{label}{line}"));
        }
    }

    /// Writes the findings of the SDK: a line for each check or, if the report is verbose, all of them.
    fn of_sdk(&mut self, outcomes: &[&CheckOutcome]) {
        let report = self.report;
        let is_of_sdk = |finding: &&Finding| finding.origin.is_sdk();
        let found: Vec<(&CheckOutcome, Vec<&Finding>)> = outcomes
            .iter()
            .map(|outcome| (*outcome, outcome.findings().iter().filter(is_of_sdk).collect::<Vec<_>>()))
            .filter(|(_, findings)| !findings.is_empty())
            .collect();
        let Some(sdk) = report.sdk().filter(|_| !found.is_empty()) else { return };
        let label = self.style.paint(Tone::Noted, "SDK  ");
        let is_counted = report.threshold.counts_sdk;
        let counted = if is_counted { "They count" } else { "They do not count" };
        let shown = match self.verbose || is_counted {
            true => String::new(),
            false => format!("; {}", (report.advice_text)(&Advice::ShowSdkFindings)),
        };
        let text = format!(
            "The server looks like one on the {sdk}, and any server on it has these findings. {counted}{shown}."
        );
        let room = self.style.width().saturating_sub(LABEL_WIDTH);
        for (index, line) in wrap(&text, room).iter().enumerate() {
            let label = if index == 0 { label.clone() } else { " ".repeat(LABEL_WIDTH - 1) };
            self.line(format_args!("{label} {line}"));
        }
        if self.verbose {
            self.line("");
            found.iter().for_each(|(outcome, findings)| self.failed(outcome, findings, 0));
            return;
        }
        for (outcome, findings) in &found {
            let severity = findings.iter().map(|it| it.severity()).max().unwrap_or(outcome.check.severity).as_str();
            let count = if findings.len() > 1 { format!(" ({} times)", findings.len()) } else { String::new() };
            let mut fixed = findings.iter().filter_map(|it| it.origin.fixed_in());
            let fixed = fixed.next().map(|version| format!("; gone in {version} of the SDK")).unwrap_or_default();
            let line = format!("{} ({severity}): {}{count}{fixed}", outcome.check.id, outcome.check.sentence);
            self.wrapped("      - ", &line);
        }
        self.line("");
    }

    fn failed(&mut self, outcome: &CheckOutcome, findings: &[&Finding], more: u64) {
        let (report, check) = (self.report, outcome.check);
        // Findings that are not in the baseline come first.
        let (known, new): (Vec<&Finding>, Vec<&Finding>) =
            findings.iter().partition(|finding| report.is_known(finding));
        let is_of_sdk = findings.iter().any(|finding| finding.origin.is_sdk());
        let (tone, label) = match new.is_empty() {
            true => (Tone::Noted, "KNOWN"),
            false if is_of_sdk && !report.threshold.counts_sdk => (Tone::Noted, "SDK  "),
            false => (Tone::Bad, "FAIL "),
        };
        let (label, id) = (self.style.paint(tone, label), self.style.paint(Tone::Strong, check.id));
        let severity = findings.iter().map(|it| it.severity()).max().unwrap_or(outcome.check.severity).as_str();
        let level = findings.iter().map(|it| it.level()).min().unwrap_or(outcome.check.level).as_str();
        self.line(format_args!("{label} {id} ({severity}, {level}): {}", check.sentence));
        let shown: Vec<&Finding> = new.into_iter().chain(known).take(SHOWN_FINDINGS).collect();
        for finding in &shown {
            let place = finding.location.text();
            let place = if place.is_empty() { String::new() } else { format!(" [{place}]") };
            self.wrapped("      ", &format!("{}: {}{place}", finding.party.as_str(), finding.detail));
            if let Some(path) = &finding.path {
                self.line(format_args!("      at {path}"));
            }
            for EvidenceLine { label, text, tone } in finding.evidence_lines(self.style.line_width() - INDENT.len()) {
                let text = self.style.paint(tone, &text);
                self.line(format_args!("{INDENT}{label}{text}"));
            }
        }
        let hidden = more + findings.len().saturating_sub(SHOWN_FINDINGS) as u64;
        if hidden > 0 {
            self.line(format_args!("      and {hidden} more"));
        }
        if let Some(measured) = measured(outcome) {
            self.line(format_args!("      {measured}"));
        }
        // The same words on the pages of two revisions are one rule.
        let words =
            |it: &mut &Finding| (it.level(), it.sentence().map(|it| it.words), it.rule().map(|it| it.binds.as_str()));
        let mut cited = shown;
        cited.dedup_by_key(words);
        cited.iter().for_each(|finding| self.wrapped("      rule: ", &finding.rule_text()));
        self.wrapped("      fix: ", check.remedy);
        if let Some(version) = findings.iter().find_map(|it| it.origin.fixed_in()) {
            self.line(format_args!("      gone in {version} of the SDK"));
        }
        self.line("");
    }

    fn passed(&mut self, outcome: &CheckOutcome) {
        let Status::Pass { inspections } = outcome.status else { return };
        let label = self.style.paint(Tone::Good, "PASS ");
        let measure = match measured(outcome) {
            Some(measured) => format!(" ({measured})"),
            None if inspections > 1 => format!(" ({inspections} times)"),
            None => String::new(),
        };
        self.line(format_args!("{label} {}{measure}", outcome.check.id));
    }

    /// Lists the checks that should have run, but could not.
    fn incomplete(&mut self) {
        let report = self.report;
        let mut reasons = Reasons::new();
        for outcome in &report.outcomes {
            if let Status::Incomplete(why) = &outcome.status {
                add_reason(&mut reasons, why.text(report.advice_text), outcome.check.id);
            }
        }
        self.reasons(&reasons, "UNKNOWN  ");
        // A server at a URL that wants a token has said so, and its authorization was checked.
        let is_said = report.subject.kind == SubjectKind::Http && !reasons.is_empty();
        let is_nothing = report.verdict() == Verdict::Incomplete && !report.subject.is_seen && !is_said;
        if is_nothing {
            let why = match report.subject.kind {
                SubjectKind::Capture => "the capture has no frames",
                SubjectKind::Host => "no host has talked to the probe",
                _ => "no MCP server responds",
            };
            self.line(format_args!("UNKNOWN  {why}: there is nothing to check"));
        }
        if is_nothing || !reasons.is_empty() {
            self.line("");
        }
    }

    fn skipped(&mut self) {
        let report = self.report;
        let mut reasons = Reasons::new();
        let mut idle = 0;
        for outcome in &report.outcomes {
            let Status::Skip(skip) = &outcome.status else { continue };
            if let (SkipReason::Nothing(_), false) = (skip, self.verbose) {
                idle += 1;
                continue;
            }
            let reason = skip.reason(report.advice_text);
            let measured = measured(outcome).map(|measured| format!("; {measured}")).unwrap_or_default();
            add_reason(&mut reasons, format!("{reason}{measured}"), outcome.check.id);
        }
        self.reasons(&reasons, "skip  ");
        if idle > 0 {
            let checks = if idle == 1 { "check" } else { "checks" };
            let more = (report.advice_text)(&Advice::NameAllChecks);
            self.line(format_args!("skip  {idle} {checks} with nothing to inspect; {more}"));
        }
        if idle > 0 || !reasons.is_empty() {
            self.line("");
        }
    }

    fn reasons(&mut self, reasons: &Reasons, label: &str) {
        let shown = if self.verbose { usize::MAX } else { SHOWN_IDS };
        for (reason, ids) in reasons {
            let more = ids.len().saturating_sub(shown);
            let mut names = ids[..ids.len() - more].join(", ");
            if more > 0 {
                names.push_str(&format!(" and {more} more"));
            }
            self.wrapped(label, &format!("{names}: {reason}"));
        }
    }

    fn verdict(&mut self) {
        let report = self.report;
        let count = |is: fn(&Status) -> bool| report.outcomes.iter().filter(|it| is(&it.status)).count();
        let passed = count(|status| matches!(status, Status::Pass { .. }));
        let skipped = count(|status| matches!(status, Status::Skip(_)));
        let incomplete = count(|status| matches!(status, Status::Incomplete(_)));
        let (yours, theirs) = report.failures();
        let failures: Vec<Severity> = yours.iter().chain(&theirs).map(|outcome| outcome.severity()).collect();
        let of = |severity: Severity| failures.iter().filter(|it| **it == severity).count();
        let counts = Severity::ALL.into_iter().filter(|severity| of(*severity) > 0);
        let counts: Vec<_> = counts.map(|severity| format!("{} {}", of(severity), severity.as_str())).collect();
        let (failed, by_severity) = (failures.len(), counts.join(", "));
        let failed = match (failed, report.known_failures()) {
            (0, _) => "0 failed".to_owned(),
            (failed, 0) if report.outcomes.iter().any(|outcome| report.counts(outcome)) => {
                format!("{failed} failed ({by_severity})")
            }
            (failed, 0) if yours.is_empty() => format!("{failed} failed ({by_severity})"),
            (failed, 0) if theirs.is_empty() => {
                format!("{failed} failed ({by_severity}), all below {}", report.threshold.fail_on.as_str())
            }
            (failed, 0) => {
                format!("{failed} failed ({by_severity}), yours all below {}", report.threshold.fail_on.as_str())
            }
            (failed, known) if failed == known => format!("{failed} failed, all known"),
            (failed, known) => format!("{failed} failed ({by_severity}), {known} of them known"),
        };
        let failed = match report.sdk().filter(|_| !theirs.is_empty()) {
            Some(sdk) => format!("{failed}: {} of yours, {} of the SDK (looks like {sdk})", yours.len(), theirs.len()),
            None => failed,
        };
        let mut parts = vec![format!("{passed} passed"), failed, format!("{skipped} skipped")];
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
        let word = self.style.paint(tone, report.verdict().as_str());
        self.line(format_args!("verdict: {word}: {}", parts.join(", ")));
    }
}

/// Returns the number of conforming messages as text, if the check counts them.
fn measured(outcome: &CheckOutcome) -> Option<String> {
    let measure = outcome.measure.as_ref()?;
    let (conform, messages) = (measure["conform"].as_u64()?, measure["messages"].as_u64()?);
    Some(format!("{conform} of {messages} messages of the server conform"))
}

/// The reasons why checks did not run, each with the ids of those checks.
type Reasons = Vec<(String, Vec<&'static str>)>;

fn add_reason(reasons: &mut Reasons, reason: String, id: &'static str) {
    match reasons.iter_mut().find(|(known, _)| *known == reason) {
        Some((_, ids)) => ids.push(id),
        None => reasons.push((reason, vec![id])),
    }
}

/// The indentation of the lines of a finding.
const INDENT: &str = "      ";
/// The width of the label at the start of a finding, with the space after it.
const LABEL_WIDTH: usize = 6;
/// The maximum number of findings that are shown for each check.
const SHOWN_FINDINGS: usize = 3;
/// The maximum number of check ids that are shown for each reason.
const SHOWN_IDS: usize = 4;
