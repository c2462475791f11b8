//! Observations of the checks -> the outcome of each check.

use std::collections::{BTreeMap, HashMap, HashSet};

use barewire_proto::mcp::{Revision, Side};
use serde_json::Value;

use super::catalogue::{Bound, Category, Check, CheckPlace, Level, Severity, all};
use super::finding::{Finding, Party};
use crate::Advice;

#[derive(Default)]
pub(crate) struct Ledger {
    records: BTreeMap<&'static str, CheckRecord>,
    /// The findings since the last call of `take_findings`; `None` if new findings are not collected.
    new_findings: Option<Vec<Finding>>,
    /// Maps each channel to the revision of its last message.
    revisions: HashMap<String, Revision>,
    subject: LedgerSubject,
}

/// The side whose messages are checked.
#[derive(Default, Clone, Copy, PartialEq, Eq)]
enum LedgerSubject {
    #[default]
    Both,
    /// Only the client, because the server is our probe. Holds the sender of the current message; `None` between
    /// messages.
    Client(Option<Side>),
}

#[derive(Default)]
struct CheckRecord {
    /// The number of messages or events that were inspected.
    inspections: u64,
    findings: Vec<Finding>,
    fingerprints: HashSet<String>,
    /// The number of findings that were only counted, and are not in `findings`.
    more: u64,
    /// Whether a finding that was only counted has a fingerprint that is not in `fingerprints`.
    has_more_kinds: bool,
    skips: Vec<SkipReason>,
    incomplete: Option<Reason>,
    /// The reason why the check has not passed although nothing was found.
    doubt: Option<Reason>,
    /// The ids of other checks that have reported violations of this check.
    reported_under: Vec<&'static str>,
    measure: Option<Value>,
}

pub(crate) enum Status {
    Pass {
        inspections: u64,
    },
    Fail {
        findings: Vec<Finding>,
        /// The number of findings that were only counted, and are not in `findings`.
        more: u64,
        /// Whether a finding that was only counted is of a kind that `findings` does not contain.
        has_more_kinds: bool,
    },
    Skip(SkipReason),
    /// The check should have run, but could not.
    Incomplete(Reason),
}

/// The reason why a check did not run, and a setting that would help.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Reason {
    pub(super) what: String,
    pub(super) advice: Option<Advice>,
}

impl Reason {
    pub(super) fn new(what: impl Into<String>, advice: Advice) -> Self {
        Self { what: what.into(), advice: Some(advice) }
    }

    /// Returns the reason, followed by the text that `advice_text` returns for the advice.
    pub(super) fn text(&self, advice_text: fn(&Advice) -> String) -> String {
        match &self.advice {
            Some(advice) => format!("{}: {}", self.what, advice_text(advice)),
            None => self.what.clone(),
        }
    }
}

impl<T: Into<String>> From<T> for Reason {
    fn from(what: T) -> Self {
        Self { what: what.into(), advice: None }
    }
}

#[derive(Clone, PartialEq, Eq)]
pub(crate) enum SkipReason {
    /// The check with this id failed, and the skipped check depends on it.
    Needs(&'static str),
    /// All violations of the check are reported by the checks with these ids.
    ReportedUnder(Vec<&'static str>),
    /// The user's permission is missing.
    Permission(Reason),
    /// There was nothing to inspect.
    Nothing(Reason),
}

pub(crate) struct CheckOutcome {
    pub(crate) check: &'static Check,
    pub(crate) status: Status,
    pub(crate) measure: Option<Value>,
}

impl CheckOutcome {
    /// Returns the findings; none if the check has not failed.
    pub(crate) fn findings(&self) -> &[Finding] {
        match &self.status {
            Status::Fail { findings, .. } => findings,
            _ => &[],
        }
    }

    /// Returns the severity of the worst finding; without findings, the severity of the check.
    pub(crate) fn severity(&self) -> Severity {
        self.findings().iter().map(Finding::severity).max().unwrap_or(self.check.severity)
    }

    /// Whether the check has failed, and the SDK has caused all findings.
    pub(crate) fn is_of_sdk(&self) -> bool {
        let Status::Fail { findings, has_more_kinds, .. } = &self.status else { return false };
        !has_more_kinds && findings.iter().all(|finding| finding.origin.is_sdk())
    }

    /// Returns the strictest level of the findings; without findings, the level of the check.
    pub(crate) fn level(&self) -> Level {
        self.findings().iter().map(Finding::level).min().unwrap_or(self.check.level)
    }
}

impl Ledger {
    /// Returns a ledger that collects new findings for `take_findings`.
    pub(crate) fn incremental() -> Self {
        Self { new_findings: Some(Vec::new()), ..Self::default() }
    }

    /// Takes the new findings since the last call. Each check keeps only its first findings; `omitted` counts the
    /// others.
    pub(crate) fn take_findings(&mut self) -> Vec<Finding> {
        self.new_findings.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Returns the id of each check that has findings which were only counted, and the number of these findings.
    pub(crate) fn omitted(&self) -> impl Iterator<Item = (&'static str, u64)> {
        self.records.iter().filter(|(_, record)| record.more > 0).map(|(id, record)| (*id, record.more))
    }

    /// Returns a ledger of a host: only what the client sends is inspected, and only the client is at fault.
    pub(crate) fn of_host() -> Self {
        Self { subject: LedgerSubject::Client(None), ..Self::default() }
    }

    /// Notes the sender of the message that is inspected next; `None` after the last message.
    pub(crate) fn looks_at(&mut self, sender: Option<Side>) {
        if let LedgerSubject::Client(current) = &mut self.subject {
            *current = sender;
        }
    }

    /// Counts an inspection. On a host, a message of the probe does not count; and a rule for the receiver of a message
    /// is counted by the checks of hosts, which know whether the client has received it.
    pub(crate) fn inspected(&mut self, check: &'static Check) {
        let counts = match self.subject {
            LedgerSubject::Both => true,
            LedgerSubject::Client(sender) => {
                sender == Some(Side::Client) && !check.rules.iter().all(|rule| rule.binds == Bound::Receiver)
            }
        };
        if counts {
            self.count(check);
        }
    }

    /// Counts an inspection, whatever the ledger is about.
    pub(crate) fn count(&mut self, check: &'static Check) {
        self.record(check).inspections += 1;
    }

    /// Notes the revision that a channel speaks, for the findings on this channel.
    pub(crate) fn speaks(&mut self, channel: &str, revision: Revision) {
        if self.revisions.get(channel) == Some(&revision) {
            return;
        }
        if self.revisions.len() >= MAX_CHANNELS {
            self.revisions.clear();
        }
        self.revisions.insert(channel.to_owned(), revision);
    }

    pub(crate) fn fail(&mut self, finding: Finding) {
        let revision = finding.revision.or_else(|| self.revisions.get(&finding.location.channel).copied());
        let finding = finding.in_revision(revision);
        let (check, party) = (finding.check, finding.party);
        if self.subject != LedgerSubject::Both && party == Party::Server {
            return;
        }
        debug_assert!(
            party == Party::Carrier || finding.rule().is_some(),
            "no rule of {} binds the {party:?}",
            check.id
        );
        let record = self.record(finding.check);
        record.inspections += 1;
        // Findings of one kind have the same fingerprint. One of each kind is kept, because a baseline lists every
        // kind.
        let fingerprint = finding.fingerprint();
        let is_new = !record.fingerprints.contains(&fingerprint);
        let is_kept = record.findings.len() < MAX_FINDINGS || is_new && record.fingerprints.len() < MAX_KINDS;
        record.has_more_kinds |= is_new && !is_kept;
        if is_kept {
            record.fingerprints.insert(fingerprint);
            record.findings.push(finding.clone());
            if let Some(new_findings) = &mut self.new_findings {
                new_findings.push(finding);
            }
        } else {
            record.more += 1;
        }
    }

    /// Whether a check has so few findings that the next one is kept, whatever its kind.
    pub(crate) fn has_few(&self, check: &Check) -> bool {
        self.records.get(check.id).is_none_or(|record| record.findings.len() < MAX_FINDINGS)
    }

    pub(crate) fn skip(&mut self, check: &'static Check, why: SkipReason) {
        let record = self.record(check);
        if !record.skips.contains(&why) {
            record.skips.push(why);
        }
    }

    /// Notes that the check should have run, but could not.
    pub(crate) fn incomplete(&mut self, check: &'static Check, why: impl Into<Reason>) {
        self.record(check).incomplete.get_or_insert(why.into());
    }

    /// Notes that something was seen which may be a violation, so that without a finding the check has not passed.
    pub(crate) fn doubt(&mut self, check: &'static Check, why: impl Into<Reason>) {
        self.record(check).doubt.get_or_insert(why.into());
    }

    /// Notes that `other` reports a violation of `check`.
    pub(crate) fn report_under(&mut self, check: &'static Check, other: &'static Check) {
        let record = self.record(check);
        record.inspections += 1;
        if !record.reported_under.contains(&other.id) {
            record.reported_under.push(other.id);
        }
    }

    pub(crate) fn withdraw(&mut self, check: &'static Check) {
        self.records.remove(check.id);
    }

    /// Keeps a measure of the server's messages.
    pub(crate) fn measure(&mut self, check: &'static Check, measure: Value) {
        if self.subject == LedgerSubject::Both {
            self.record(check).measure = Some(measure);
        }
    }

    pub(crate) fn has_failed(&self, check: &Check) -> bool {
        self.records.get(check.id).is_some_and(|record| !record.findings.is_empty())
    }

    /// Whether the check has inspected anything, or is already marked as skipped or incomplete.
    pub(crate) fn has_evidence(&self, check: &Check) -> bool {
        self.records
            .get(check.id)
            .is_some_and(|record| record.inspections > 0 || !record.skips.is_empty() || record.incomplete.is_some())
    }

    /// Puts the name of a capture before the channel of all findings that do not have one there yet.
    pub(crate) fn name_capture(&mut self, name: &str) {
        let findings = self.records.values_mut().flat_map(|record| &mut record.findings);
        // The name of a channel has no dot.
        for finding in findings.filter(|finding| !finding.location.channel.contains('.')) {
            let channel = &mut finding.location.channel;
            *channel = format!("{name} {channel}").trim_end().to_owned();
        }
    }

    fn record(&mut self, check: &'static Check) -> &mut CheckRecord {
        self.records.entry(check.id).or_default()
    }

    /// Returns the outcomes of all checks that run in this place, in the order of the catalogue.
    pub(crate) fn into_outcomes(mut self, place: CheckPlace) -> Vec<CheckOutcome> {
        let mut outcomes: Vec<CheckOutcome> = Vec::new();
        for check in all().filter(|check| check.runs_on(place)) {
            let record = self.records.remove(check.id).unwrap_or_default();
            let cause = check.needs.iter().find_map(|need| {
                let needed = outcomes.iter().find(|outcome| outcome.check.id == *need)?;
                match &needed.status {
                    Status::Fail { .. } => Some(*need),
                    // A check must not be skipped because of its own failure.
                    Status::Skip(SkipReason::Needs(cause)) if *cause != check.id => Some(*cause),
                    _ => None,
                }
            });
            let measure = record.measure.clone();
            let status = match cause {
                Some(cause) => Status::Skip(SkipReason::Needs(cause)),
                None => record.status(check, place),
            };
            outcomes.push(CheckOutcome { check, status, measure });
        }
        outcomes
    }
}

impl CheckRecord {
    fn status(self, check: &Check, place: CheckPlace) -> Status {
        if !self.findings.is_empty() {
            let Self { mut findings, more, has_more_kinds, .. } = self;
            // The connections of a live run work at the same time, so only sorting gives the findings a stable order.
            if matches!(place, CheckPlace::Stdio | CheckPlace::Http) {
                findings.sort_by(|a, b| a.location.connection_order().cmp(&b.location.connection_order()));
            }
            return Status::Fail { findings, more, has_more_kinds };
        }
        if let Some(why) = self.incomplete {
            return Status::Incomplete(why);
        }
        if !self.reported_under.is_empty() {
            return Status::Skip(SkipReason::ReportedUnder(self.reported_under));
        }
        if let Some(why) = self.doubt {
            return Status::Skip(SkipReason::Nothing(why));
        }
        if self.inspections > 0 {
            return Status::Pass { inspections: self.inspections };
        }
        let nothing = || match place {
            CheckPlace::Capture | CheckPlace::Tap => SkipReason::Nothing("the capture has nothing to inspect".into()),
            CheckPlace::Host if check.category != Category::Host => SkipReason::Nothing(NOT_SEEN.into()),
            CheckPlace::Stdio | CheckPlace::Http | CheckPlace::Host => SkipReason::Nothing(check.skip.into()),
        };
        Status::Skip(self.skips.into_iter().next().unwrap_or_else(nothing))
    }
}

/// The reason why a check of captures has nothing to inspect on a host.
const NOT_SEEN: &str = "not seen: the host sent nothing that this check inspects";
/// The maximum number of findings that a check keeps. Further findings of a known kind are only counted.
const MAX_FINDINGS: usize = 20;
/// The maximum number of channels whose revision is known; more than any host has open at a time.
const MAX_CHANNELS: usize = 4096;
/// The maximum number of kinds of findings that a check keeps, so that a malicious server cannot fill the memory.
const MAX_KINDS: usize = 500;
