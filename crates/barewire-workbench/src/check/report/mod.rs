//! The outcomes of all checks -> a verdict, and a report as text, JSON, JUnit or SARIF.

mod json;
mod junit;
mod sarif;
mod text;

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fmt;
use std::path::Path;

use barewire_proto::transcript::Escaped;

use super::baseline::{Baseline, KnownFinding};
use super::catalogue::Severity;
use super::finding::Finding;
use super::host::HostSummary;
use super::ledger::{CheckOutcome, SkipReason, Status};
use super::live::ServerSummary;
use super::origin::{Marks, RecognisedSdk};
use super::selection::Selection;
use crate::Advice;
use crate::secrets::Redactor;
use crate::text::{Plain, Style, shown};

/// The outcomes of the checks that ran on a server or a capture.
///
/// Its `Display` is the output of `barewire check`; `{report:#}` also lists the checks that passed or were skipped.
pub struct Report {
    pub(super) subject: Subject,
    pub(super) outcomes: Vec<CheckOutcome>,
    pub(super) threshold: Threshold,
    /// The SDK that the server is built on, if it was recognised.
    pub(super) sdk: Option<RecognisedSdk>,
    /// How the server answers, redacted.
    pub(super) marks: Marks,
    pub(super) advice_text: fn(&Advice) -> String,
    /// The findings of the baseline.
    pub(super) known: Vec<KnownFinding>,
    /// The findings of the baseline that were not found in this run.
    pub(super) stale: Vec<KnownFinding>,
}

/// The findings that make the verdict [`Verdict::Fail`].
#[derive(Clone, Copy)]
pub(crate) struct Threshold {
    /// The lowest severity.
    pub(super) fail_on: Severity,
    /// Whether the findings of the SDK count too.
    pub(super) counts_sdk: bool,
}

/// The server or capture that was checked.
pub(crate) struct Subject {
    pub(super) what: String,
    /// A summary in one line.
    pub(super) about: String,
    pub(super) kind: SubjectKind,
    /// Whether there was anything to inspect: the server responded, or the capture contains a frame.
    pub(super) is_seen: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum SubjectKind {
    Capture,
    Stdio,
    Http,
    Memory,
    Host,
}

impl SubjectKind {
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Capture => "capture",
            Self::Stdio => "stdio",
            Self::Http => "http",
            Self::Memory => "memory",
            Self::Host => "host",
        }
    }
}

/// The result of a whole run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "a run passes, fails or is incomplete")]
pub enum Verdict {
    /// No finding makes the run fail: each is in the baseline, less severe than [`fail_on`](super::Checks::fail_on), or
    /// caused by the SDK of the server, which counts only if [`strict`](super::Checks::strict) is set.
    Pass,
    /// A finding that counts is not in the baseline and at least as severe as `fail_on`, or an entry of the baseline was not found.
    Fail,
    /// Nothing makes the run fail, but a check could not run, or there was nothing to inspect.
    Incomplete,
}

impl Subject {
    pub(super) fn capture(file: &Path, frames: u64) -> Self {
        let what = shown(file.as_os_str().as_encoded_bytes(), MAX_NAME);
        let about = format!("a capture of {frames} frames");
        Self { what, about, kind: SubjectKind::Capture, is_seen: frames > 0 }
    }

    pub(super) fn program(argv: &[OsString], summary: &ServerSummary, redactor: &mut Redactor) -> Self {
        let (line, _) = redactor.argv(argv.iter().map(OsString::as_os_str));
        let effort = format!("started {} times", summary.starts);
        Self::live(shown(&line, MAX_NAME), SubjectKind::Stdio, summary, &effort)
    }

    pub(super) fn url(url: &str, summary: &ServerSummary, redactor: &mut Redactor) -> Self {
        let effort = format!("{} exchanges", summary.starts);
        Self::live(redactor.shown(url.as_bytes(), MAX_NAME), SubjectKind::Http, summary, &effort)
    }

    pub(super) fn memory(summary: &ServerSummary) -> Self {
        let effort = format!("{} connections", summary.starts);
        Self::live("a server in this process".to_owned(), SubjectKind::Memory, summary, &effort)
    }

    pub(super) fn host(summary: &HostSummary) -> Self {
        let HostSummary { names, revisions, capabilities, methods, starts, frames } = summary;
        let listed = |set: &BTreeSet<String>, nothing: &str| match set.is_empty() {
            true => nothing.to_owned(),
            false => set.iter().map(String::as_str).collect::<Vec<_>>().join(", "),
        };
        let what = format!("host: {}", listed(names, "no name"));
        let times = if *starts == 1 { "once".to_owned() } else { format!("{starts} times") };
        let about = format!(
            "speaks {}; declares {}; sent {}; started the probe {times}",
            listed(revisions, "no revision"),
            listed(capabilities, "no capability"),
            listed(methods, "no request"),
        );
        Self { what: shown(what.as_bytes(), MAX_NAME), about, kind: SubjectKind::Host, is_seen: *frames > 0 }
    }

    fn live(what: String, kind: SubjectKind, summary: &ServerSummary, effort: &str) -> Self {
        let mut revisions: Vec<_> = summary.legacy.iter().map(|it| it.as_str()).collect();
        if summary.is_modern {
            revisions.push("2026-07-28");
        }
        let name = summary.name.as_deref().unwrap_or("an unnamed server");
        let revisions = if revisions.is_empty() { "no known revision".to_owned() } else { revisions.join(", ") };
        let limit = summary.limit.map_or(String::new(), |limit| format!("; {}", limit.text()));
        let about = format!("{name}; speaks {revisions}; {effort}{limit}");
        Self { what, about, kind, is_seen: summary.answers }
    }
}

impl Report {
    /// Returns a report in which all quoted text is redacted.
    pub(super) fn new(
        subject: Subject,
        outcomes: Vec<CheckOutcome>,
        selection: &Selection,
        threshold: Threshold,
        advice_text: fn(&Advice) -> String,
        redactor: &mut Redactor,
    ) -> Self {
        let mut outcomes = selected(outcomes, selection, subject.is_seen);
        for outcome in &mut outcomes {
            outcome.status.redact(redactor);
        }
        let about = redactor.shown(subject.about.as_bytes(), MAX_REASON);
        let subject = Subject { about, ..subject };
        let (sdk, marks) = (None, Marks::new());
        Self { subject, outcomes, threshold, sdk, marks, advice_text, known: Vec::new(), stale: Vec::new() }
    }

    /// Recognises the SDK of the server by how the server answers, and sets the origin of each finding.
    pub(super) fn with_sdk(mut self, marks: &Marks, redactor: &mut Redactor) -> Self {
        self.sdk = RecognisedSdk::of(marks);
        if let Some(sdk) = &self.sdk {
            sdk.assign(&mut self.outcomes);
        }
        let redacted = marks.iter().map(|(mark, text)| (*mark, redactor.shown(text.as_bytes(), MAX_REASON)));
        self.marks = redacted.collect();
        self
    }

    /// Returns the name of the SDK that the server is built on, if it was recognised by how the server answers.
    pub fn sdk(&self) -> Option<String> {
        self.sdk.as_ref().map(RecognisedSdk::name)
    }

    /// Applies a baseline: a finding in the baseline does not make the run fail, but an entry that was not found does,
    /// unless it depends on timing.
    pub fn apply_baseline(&mut self, baseline: Baseline) {
        let found: Vec<KnownFinding> = self.findings().map(KnownFinding::of).collect();
        let ran = |known: &KnownFinding| {
            let outcome = self.outcomes.iter().find(|outcome| outcome.check.id == known.check);
            outcome.is_some_and(|it| matches!(it.status, Status::Pass { .. } | Status::Fail { .. }))
        };
        let is_found = |known: &KnownFinding| found.iter().any(|it| it.is(known));
        let is_stale = |known: &&KnownFinding| !known.sometimes && !is_found(known) && ran(known);
        self.stale = baseline.findings.iter().filter(is_stale).cloned().collect();
        self.known = baseline.findings;
    }

    /// Returns all findings, in the order of the catalogue.
    pub fn findings(&self) -> impl Iterator<Item = &Finding> {
        self.outcomes.iter().flat_map(CheckOutcome::findings)
    }

    /// Whether a finding is in the baseline.
    pub fn is_known(&self, finding: &Finding) -> bool {
        let finding = KnownFinding::of(finding);
        self.known.iter().any(|known| known.is(&finding))
    }

    /// Returns the origin of a finding in words.
    pub(super) fn origin_text(&self, finding: &Finding) -> String {
        let name = self.sdk().filter(|_| finding.origin.is_sdk());
        let fixed = finding.origin.fixed_in().map(|version| format!(", gone in {version}")).unwrap_or_default();
        name.map_or_else(|| finding.origin.as_str().to_owned(), |name| format!("sdk ({name}{fixed})"))
    }

    pub(super) fn counts(&self, outcome: &CheckOutcome) -> bool {
        let Status::Fail { findings, has_more_kinds, .. } = &outcome.status else { return false };
        let Threshold { fail_on, counts_sdk } = self.threshold;
        let is_relevant = |it: &&Finding| it.severity() >= fail_on && (counts_sdk || !it.origin.is_sdk());
        // The findings that were only counted are taken for the author's, and as severe as the worst of the others.
        *has_more_kinds && outcome.severity() >= fail_on
            || findings.iter().filter(is_relevant).any(|it| !self.is_known(it))
    }

    /// Whether a failed check has a finding that is not in the baseline; `None` if the check has not failed.
    fn has_new_findings(&self, outcome: &CheckOutcome) -> Option<bool> {
        let Status::Fail { findings, has_more_kinds, .. } = &outcome.status else { return None };
        Some(*has_more_kinds || findings.iter().any(|it| !self.is_known(it)))
    }

    /// Whether the verdict is [`Verdict::Pass`].
    pub fn is_clean(&self) -> bool {
        self.verdict() == Verdict::Pass
    }

    /// Returns the number of definitions that were written to the pin file; `None` if it was not written.
    pub fn pinned(&self) -> Option<u64> {
        self.outcomes.iter().find_map(|outcome| outcome.measure.as_ref()?.get("pinned")?.as_u64())
    }

    /// Returns the result of the run.
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

    /// Returns the report as text. With `verbose`, the text also lists the checks that passed or were skipped.
    pub fn text(&self, style: &dyn Style, verbose: bool) -> String {
        text::text(self, style, verbose)
    }

    /// Returns the report as one JSON object on one line.
    pub fn json(&self) -> String {
        json::json(self)
    }

    /// Returns the report as JUnit XML, with a test case for each check.
    pub fn junit(&self) -> String {
        junit::junit(self)
    }

    /// Returns the report as SARIF 2.1.0. `exit_code` is the exit code of the program that writes the report.
    pub fn sarif(&self, exit_code: Option<u8>) -> String {
        sarif::sarif(self, exit_code)
    }

    /// Returns the failed checks: those of the author, then those whose findings are all of the SDK.
    pub(super) fn failures(&self) -> (Vec<&CheckOutcome>, Vec<&CheckOutcome>) {
        let failures = self.outcomes.iter().filter(|outcome| matches!(outcome.status, Status::Fail { .. }));
        failures.partition(|outcome| !outcome.is_of_sdk())
    }

    /// Returns the number of failed checks whose findings are all in the baseline.
    pub(super) fn known_failures(&self) -> usize {
        self.outcomes.iter().filter(|outcome| self.has_new_findings(outcome) == Some(false)).count()
    }
}

/// Returns the outcomes of the selected checks, and of the checks whose failure kept selected checks from running.
fn selected(outcomes: Vec<CheckOutcome>, selection: &Selection, is_seen: bool) -> Vec<CheckOutcome> {
    let is_cause = |outcome: &CheckOutcome| {
        let is_needed = outcomes.iter().any(|other| {
            selection.has(other.check)
                && matches!(&other.status, Status::Skip(SkipReason::Needs(cause)) if *cause == outcome.check.id)
        });
        is_needed || !is_seen && matches!(outcome.status, Status::Fail { .. } | Status::Incomplete(_))
    };
    let shown: Vec<bool> =
        outcomes.iter().map(|it| selection.has(it.check) || is_cause(it) && !selection.omits(it.check.id)).collect();
    let shown = outcomes.into_iter().zip(shown).filter_map(|(outcome, is_shown)| is_shown.then_some(outcome));
    let open = |mut outcome: CheckOutcome| {
        // The user omitted the check that caused the skip, so the result of this check is unknown.
        if let Status::Skip(SkipReason::Needs(cause)) = outcome.status
            && selection.omits(cause)
        {
            outcome.status = Status::Incomplete(format!("it depends on {cause}, which failed and was omitted").into());
        }
        outcome
    };
    shown.map(open).collect()
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Escaped::new(self.text(&Plain, f.alternate())).fmt(f)
    }
}

impl fmt::Debug for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Report").field("subject", &self.subject.what).field("verdict", &self.verdict()).finish()
    }
}

impl Verdict {
    /// Returns the name of this verdict, as reports show it.
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
                why.what = redactor.shown(why.what.as_bytes(), MAX_REASON);
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
    pub(super) fn reason(&self, advice_text: fn(&Advice) -> String) -> String {
        match self {
            Self::Needs(id) => format!("{id} failed"),
            Self::ReportedUnder(ids) => format!("all violations are reported under {}", ids.join(", ")),
            Self::Permission(why) | Self::Nothing(why) => why.text(advice_text),
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

/// The maximum width of a command line, a path or a URL, in columns: more than two lines of a terminal.
const MAX_NAME: usize = 200;

/// The maximum width of a reason, in columns: more than two sentences, so that only a very long quoted name is cut.
const MAX_REASON: usize = 1000;
