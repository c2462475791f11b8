//! How all checks stand -> a verdict, and its forms: text, JSON, JUnit, SARIF.

mod json;
mod junit;
mod sarif;
mod text;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::path::Path;

use super::baseline::{Baseline, KnownFinding};
use super::catalogue::Severity;
use super::finding::Finding;
use super::ledger::{CheckOutcome, SkipReason, Status};
use super::live::ServerSummary;
use super::selection::Selection;
use crate::Advice;
use crate::secrets::Redactor;
use crate::text::{Plain, Style, shown};

/// What was checked, and what was found.
///
/// Its text is what `barewire check` prints; `{report:#}` names the checks that passed and that were skipped as well.
pub struct Report {
    pub(super) subject: Subject,
    pub(super) outcomes: Vec<CheckOutcome>,
    pub(super) fail_on: Severity,
    /// The words for settings that would have helped.
    pub(super) words: fn(&Advice) -> String,
    /// Fingerprints of the baseline.
    pub(super) known: Vec<KnownFinding>,
    /// Those of them that are not found any more.
    pub(super) stale: Vec<KnownFinding>,
}

/// The server or capture that was checked.
pub(crate) struct Subject {
    pub(super) what: String,
    /// What is known of it, in a line.
    pub(super) about: String,
    pub(super) kind: SubjectKind,
    /// Whether there was anything to look at: an answer of a server, a frame of a capture.
    pub(super) is_seen: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum SubjectKind {
    Capture,
    Stdio,
    Http,
    Memory,
}

impl SubjectKind {
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Capture => "capture",
            Self::Stdio => "stdio",
            Self::Http => "http",
            Self::Memory => "memory",
        }
    }
}

/// How a check of a server or a capture ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "a verdict is yes, no or not known")]
pub enum Verdict {
    /// Nothing that counts was found.
    Pass,
    /// Something that counts was found, or a baseline has entries that are not found any more.
    Fail,
    /// Nothing was found, and something that should have been checked could not be.
    Incomplete,
}

impl Subject {
    pub(super) fn capture(file: &Path, frames: u64) -> Self {
        let what = shown(file.as_os_str().as_encoded_bytes(), LONGEST_NAME);
        let about = format!("a capture of {frames} frames");
        Self { what, about, kind: SubjectKind::Capture, is_seen: frames > 0 }
    }

    pub(super) fn program(words: &[OsString], about: &ServerSummary, redactor: &mut Redactor) -> Self {
        let (line, _) = redactor.argv(words.iter().map(OsString::as_os_str));
        let what = shown(&line, LONGEST_NAME);
        Self::live(what, SubjectKind::Stdio, about, &format!("; started {} times", about.processes))
    }

    pub(super) fn url(url: &str, about: &ServerSummary, redactor: &mut Redactor) -> Self {
        let what = redactor.shown(url.as_bytes(), LONGEST_NAME);
        Self::live(what, SubjectKind::Http, about, &format!("; {} exchanges", about.processes))
    }

    pub(super) fn memory(about: &ServerSummary) -> Self {
        let connections = format!("; {} connections", about.processes);
        Self::live("a server in this process".to_owned(), SubjectKind::Memory, about, &connections)
    }

    fn live(what: String, kind: SubjectKind, about: &ServerSummary, effort: &str) -> Self {
        Self { what, about: about.line(effort), kind, is_seen: about.answers }
    }
}

impl ServerSummary {
    /// All of it in a line.
    fn line(&self, more: &str) -> String {
        let mut speaks: Vec<_> = self.legacy.iter().map(|it| it.as_str()).collect();
        if self.modern {
            speaks.push("2026-07-28");
        }
        let name = self.name.as_deref().unwrap_or("a server without a name");
        let speaks = if speaks.is_empty() { "no revision that is known".to_owned() } else { speaks.join(", ") };
        let cut = if self.is_cut { "; time was up" } else { "" };
        format!("{name}; speaks {speaks}{more}{cut}")
    }
}

impl Report {
    /// A report goes to people and places that a secret should not go to, so what is quoted in it is redacted first.
    pub(super) fn new(
        subject: Subject,
        outcomes: Vec<CheckOutcome>,
        selection: &Selection,
        fail_on: Severity,
        words: fn(&Advice) -> String,
        redactor: &mut Redactor,
    ) -> Self {
        let mut outcomes = selected(outcomes, selection, subject.is_seen);
        for outcome in &mut outcomes {
            outcome.status.redact(redactor);
        }
        let about = redactor.shown(subject.about.as_bytes(), LONGEST_REASON);
        let subject = Subject { about, ..subject };
        Self { subject, outcomes, fail_on, words, known: Vec::new(), stale: Vec::new() }
    }

    /// Takes what is in the baseline for known, so that it does not count; what is in it and is not found any more does.
    pub fn apply_baseline(&mut self, baseline: Baseline) {
        let found: Vec<KnownFinding> = self.findings().map(KnownFinding::of).collect();
        let ran = |known: &KnownFinding| {
            let outcome = self.outcomes.iter().find(|outcome| outcome.check.id == known.check);
            outcome.is_some_and(|it| matches!(it.status, Status::Pass { .. } | Status::Fail { .. }))
        };
        self.stale = baseline.findings.iter().filter(|known| !found.contains(known) && ran(known)).cloned().collect();
        self.known = baseline.findings;
    }

    /// Everything that was found, in the order of the catalogue.
    pub fn findings(&self) -> impl Iterator<Item = &Finding> {
        self.outcomes.iter().flat_map(|outcome| match &outcome.status {
            Status::Fail { findings, .. } => findings.as_slice(),
            _ => &[],
        })
    }

    /// Whether a finding is in the baseline.
    pub fn is_known(&self, finding: &Finding) -> bool {
        self.known.contains(&KnownFinding::of(finding))
    }

    /// Whether something of this check counts.
    pub(super) fn counts(&self, outcome: &CheckOutcome) -> bool {
        match &outcome.status {
            Status::Fail { findings, has_more_kinds, .. } => {
                let is_new = *has_more_kinds || findings.iter().any(|it| !self.is_known(it));
                outcome.check.severity >= self.fail_on && is_new
            }
            _ => false,
        }
    }

    /// Whether nothing that counts was found, and everything that should have been checked was.
    pub fn is_clean(&self) -> bool {
        self.verdict() == Verdict::Pass
    }

    /// How it ended.
    pub fn verdict(&self) -> Verdict {
        if self.outcomes.iter().any(|outcome| self.counts(outcome)) || !self.stale.is_empty() {
            return Verdict::Fail;
        }
        let is_open = |outcome: &CheckOutcome| matches!(outcome.status, Status::Incomplete(_));
        match !self.subject.is_seen || self.outcomes.iter().any(is_open) {
            true => Verdict::Incomplete,
            false => Verdict::Pass,
        }
    }

    /// The report as text, in a style; all checks are named if it is `verbose`.
    pub fn text(&self, style: &dyn Style, verbose: bool) -> String {
        text::text(self, style, verbose)
    }

    /// The report as one JSON object in a line.
    pub fn json(&self) -> String {
        json::json(self)
    }

    /// The report as JUnit XML: a test case for each check.
    pub fn junit(&self) -> String {
        junit::junit(self)
    }

    /// The report as SARIF 2.1.0, with the exit code of the program that made it, if there is one.
    pub fn sarif(&self, exit_code: Option<u8>) -> String {
        sarif::sarif(self, exit_code)
    }

    /// How many checks failed with nothing that is not known.
    pub(super) fn known_failures(&self) -> usize {
        let is_known = |outcome: &&CheckOutcome| match &outcome.status {
            Status::Fail { findings, has_more_kinds, .. } => {
                !has_more_kinds && findings.iter().all(|it| self.is_known(it))
            }
            _ => false,
        };
        self.outcomes.iter().filter(is_known).count()
    }

    /// How many checks failed, by severity; the worst first.
    pub(super) fn failures(&self) -> Vec<(Severity, usize)> {
        let mut count: BTreeMap<Severity, usize> = BTreeMap::new();
        for outcome in &self.outcomes {
            if let Status::Fail { .. } = outcome.status {
                *count.entry(outcome.check.severity).or_default() += 1;
            }
        }
        count.into_iter().rev().collect()
    }
}

/// What is wanted, and what keeps it from being seen.
fn selected(outcomes: Vec<CheckOutcome>, selection: &Selection, is_seen: bool) -> Vec<CheckOutcome> {
    let is_cause = |outcome: &CheckOutcome| {
        let is_needed = outcomes.iter().any(|other| {
            selection.has(other.check)
                && matches!(&other.status, Status::Skip(SkipReason::Needs(cause)) if *cause == outcome.check.id)
        });
        is_needed || !is_seen && matches!(outcome.status, Status::Fail { .. } | Status::Incomplete(_))
    };
    let shown: Vec<bool> = outcomes
        .iter()
        .map(|it| selection.has(it.check) || is_cause(it) && !selection.leaves_out(it.check.id))
        .collect();
    let shown = outcomes.into_iter().zip(shown).filter_map(|(outcome, is_shown)| is_shown.then_some(outcome));
    let open = |mut outcome: CheckOutcome| {
        // Somebody who leaves the cause out still does not know.
        if let Status::Skip(SkipReason::Needs(cause)) = outcome.status
            && selection.leaves_out(cause)
        {
            outcome.status = Status::Incomplete(format!("{cause} failed, and was not selected").into());
        }
        outcome
    };
    shown.map(open).collect()
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text(&Plain, f.alternate()))
    }
}

impl fmt::Debug for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Report").field("subject", &self.subject.what).field("verdict", &self.verdict()).finish()
    }
}

impl Verdict {
    /// The word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Fail => "fail",
            Self::Incomplete => "incomplete",
        }
    }
}

impl Status {
    fn redact(&mut self, redactor: &mut Redactor) {
        match self {
            Self::Fail { findings, .. } => findings.iter_mut().for_each(|finding| finding.redact(redactor)),
            Self::Skip(SkipReason::Permission(why) | SkipReason::Nothing(why)) | Self::Incomplete(why) => {
                why.what = redactor.shown(why.what.as_bytes(), LONGEST_REASON);
            }
            Self::Pass { .. } | Self::Skip(SkipReason::Needs(_) | SkipReason::ReportedUnder(_)) => {}
        }
    }

    pub(super) const fn as_str(&self) -> &'static str {
        match self {
            Self::Pass { .. } => "pass",
            Self::Fail { .. } => "fail",
            Self::Skip(_) => "skip",
            Self::Incomplete(_) => "incomplete",
        }
    }
}

impl SkipReason {
    pub(super) fn reason(&self, words: fn(&Advice) -> String) -> String {
        match self {
            Self::Needs(id) => format!("{id} failed"),
            Self::ReportedUnder(ids) => format!("what counts against it is told under {}", ids.join(", ")),
            Self::Permission(why) | Self::Nothing(why) => why.text(words),
        }
    }

    pub(super) const fn kind(&self) -> &'static str {
        match self {
            Self::Needs(_) => "needs",
            Self::ReportedUnder(_) => "told-under",
            Self::Permission(_) => "permission",
            Self::Nothing(_) => "nothing",
        }
    }
}

/// As much of a command line, a path or a URL as fits two lines.
const LONGEST_NAME: usize = 200;

/// A sentence or two; what is longer is a name that a peer has made up for it.
const LONGEST_REASON: usize = 1000;
