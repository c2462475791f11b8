//! What the checks have seen -> how each of them stands.

use std::collections::{BTreeMap, HashSet};

use serde_json::Value;

use super::catalogue::{Check, CheckPlace, all};
use super::finding::Finding;
use crate::Advice;

/// What is gathered while bytes pass.
#[derive(Default)]
pub(crate) struct Ledger {
    accounts: BTreeMap<&'static str, CheckRecord>,
    /// What was found since somebody asked last; only if somebody asks.
    news: Option<Vec<Finding>>,
}

#[derive(Default)]
struct CheckRecord {
    /// How often there was something to look at.
    looked: u64,
    findings: Vec<Finding>,
    /// The kinds of findings that are among them.
    kinds: HashSet<String>,
    /// Findings beyond those that are kept.
    more: u64,
    /// Kinds beyond those that are kept.
    has_more_kinds: bool,
    skips: Vec<SkipReason>,
    incomplete: Option<Reason>,
    /// Checks under which is told what counts against this one as well.
    reported_under: Vec<&'static str>,
    measure: Option<Value>,
}

/// How a check stands.
pub(crate) enum Status {
    Pass {
        looked: u64,
    },
    Fail {
        findings: Vec<Finding>,
        /// Findings beyond those that are kept.
        more: u64,
        /// Some of them are of kinds that are not kept.
        has_more_kinds: bool,
    },
    Skip(SkipReason),
    /// It should have run and could not.
    Incomplete(Reason),
}

/// Why a check was not made, and the setting that would allow it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Reason {
    pub(super) what: String,
    pub(super) advice: Option<Advice>,
}

impl Reason {
    pub(super) fn new(what: impl Into<String>, advice: Advice) -> Self {
        Self { what: what.into(), advice: Some(advice) }
    }

    /// The whole reason, with these words for the setting.
    pub(super) fn text(&self, words: fn(&Advice) -> String) -> String {
        match &self.advice {
            Some(advice) => format!("{}: {}", self.what, words(advice)),
            None => self.what.clone(),
        }
    }
}

impl<T: Into<String>> From<T> for Reason {
    fn from(what: T) -> Self {
        Self { what: what.into(), advice: None }
    }
}

/// Why a check did not run.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum SkipReason {
    /// A check that it needs failed.
    Needs(&'static str),
    /// All that counts against it is told under another one.
    ReportedUnder(Vec<&'static str>),
    /// It would have to do what is not allowed.
    Permission(Reason),
    /// There was nothing to look at.
    Nothing(Reason),
}

/// A check and how it stands.
pub(crate) struct CheckOutcome {
    pub(crate) check: &'static Check,
    pub(crate) status: Status,
    pub(crate) measure: Option<Value>,
}

impl Ledger {
    /// One that tells what is new.
    pub(crate) fn incremental() -> Self {
        Self { news: Some(Vec::new()), ..Self::default() }
    }

    /// What was found since this was asked last. Of one check only the first are told; then they are counted.
    pub(crate) fn take_findings(&mut self) -> Vec<Finding> {
        self.news.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// How many findings were not told, by check.
    pub(crate) fn omitted(&self) -> impl Iterator<Item = (&'static str, u64)> {
        self.accounts.iter().filter(|(_, account)| account.more > 0).map(|(id, account)| (*id, account.more))
    }

    /// There was something to look at.
    pub(crate) fn inspected(&mut self, check: &'static Check) {
        self.of(check).looked += 1;
    }

    /// Something is wrong with it.
    pub(crate) fn fail(&mut self, finding: Finding) {
        let account = self.of(finding.check);
        account.looked += 1;
        // Of each kind one is kept at least: a baseline knows findings by their kinds.
        let kind = finding.fingerprint();
        let is_new = !account.kinds.contains(&kind);
        let is_kept = account.findings.len() < MOST_FINDINGS || is_new && account.kinds.len() < MOST_KINDS;
        account.has_more_kinds |= is_new && !is_kept;
        if is_kept {
            account.kinds.insert(kind);
            account.findings.push(finding.clone());
            if let Some(news) = &mut self.news {
                news.push(finding);
            }
        } else {
            account.more += 1;
        }
    }

    pub(crate) fn skip(&mut self, check: &'static Check, why: SkipReason) {
        let account = self.of(check);
        if !account.skips.contains(&why) {
            account.skips.push(why);
        }
    }

    /// It should have run and could not.
    pub(crate) fn incomplete(&mut self, check: &'static Check, why: impl Into<Reason>) {
        self.of(check).incomplete.get_or_insert(why.into());
    }

    /// What counts against `check` is told under `other`.
    pub(crate) fn report_under(&mut self, check: &'static Check, other: &'static Check) {
        let account = self.of(check);
        account.looked += 1;
        if !account.reported_under.contains(&other.id) {
            account.reported_under.push(other.id);
        }
    }

    /// What was seen of it means nothing.
    pub(crate) fn withdraw(&mut self, check: &'static Check) {
        self.accounts.remove(check.id);
    }

    pub(crate) fn measure(&mut self, check: &'static Check, measure: Value) {
        self.of(check).measure = Some(measure);
    }

    pub(crate) fn has_failed(&self, check: &Check) -> bool {
        self.accounts.get(check.id).is_some_and(|account| !account.findings.is_empty())
    }

    /// Whether anything was said of it, so that it is not left out by a run that ends early.
    pub(crate) fn is_settled(&self, check: &Check) -> bool {
        self.accounts
            .get(check.id)
            .is_some_and(|account| account.looked > 0 || !account.skips.is_empty() || account.incomplete.is_some())
    }

    fn of(&mut self, check: &'static Check) -> &mut CheckRecord {
        self.accounts.entry(check.id).or_default()
    }

    /// How everything that runs in this place stands, in the order of the catalogue.
    pub(crate) fn settle(mut self, place: CheckPlace) -> Vec<CheckOutcome> {
        let mut outcomes: Vec<CheckOutcome> = Vec::new();
        for check in all().filter(|check| check.runs_on(place)) {
            let account = self.accounts.remove(check.id).unwrap_or_default();
            let cause = check.needs.iter().find_map(|need| {
                let needed = outcomes.iter().find(|outcome| outcome.check.id == *need)?;
                match &needed.status {
                    Status::Fail { .. } => Some(*need),
                    // What is the cause of it is not skipped because of itself.
                    Status::Skip(SkipReason::Needs(cause)) if *cause != check.id => Some(*cause),
                    _ => None,
                }
            });
            let measure = account.measure.clone();
            let status = match cause {
                Some(cause) => Status::Skip(SkipReason::Needs(cause)),
                None => account.status(check, place),
            };
            outcomes.push(CheckOutcome { check, status, measure });
        }
        outcomes
    }
}

impl CheckRecord {
    fn status(self, check: &Check, place: CheckPlace) -> Status {
        if !self.findings.is_empty() {
            let Self { findings, more, has_more_kinds, .. } = self;
            return Status::Fail { findings, more, has_more_kinds };
        }
        if let Some(why) = self.incomplete {
            return Status::Incomplete(why);
        }
        if !self.reported_under.is_empty() {
            return Status::Skip(SkipReason::ReportedUnder(self.reported_under));
        }
        if self.looked > 0 {
            return Status::Pass { looked: self.looked };
        }
        let nothing = || match place {
            CheckPlace::Capture | CheckPlace::Tap => {
                SkipReason::Nothing("nothing of the kind is in the capture".into())
            }
            CheckPlace::Stdio | CheckPlace::Http => SkipReason::Nothing(check.skip.into()),
        };
        Status::Skip(self.skips.into_iter().next().unwrap_or_else(nothing))
    }
}

/// As many as anybody reads of one check; the rest is counted.
const MOST_FINDINGS: usize = 20;
/// More than any server has that is not out to fill memory.
const MOST_KINDS: usize = 500;
