//! Known findings <-> a file.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::catalogue::find;
use super::finding::{Finding, LAST_REQUEST};
use super::report::Report;
use crate::{Advice, Error};

/// Known findings, which do not make a run fail.
#[derive(Debug, Serialize, Deserialize)]
pub struct Baseline {
    version: u32,
    pub(super) findings: Vec<KnownFinding>,
}

/// The parts of a known finding that are the same in every run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct KnownFinding {
    pub(super) check: String,
    party: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    path: String,
    /// The detail of the finding, with numbers replaced by `#`, except error codes and revisions.
    pub(super) detail: String,
    /// Whether the finding depends on timing, so that a run may not have it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) sometimes: bool,
}

impl Baseline {
    /// Returns a baseline with all findings of a report.
    pub fn of(report: &Report) -> Self {
        let mut findings: Vec<KnownFinding> = report.findings().map(KnownFinding::of).collect();
        findings.sort_by(|one, other| one.identity().cmp(&other.identity()));
        findings.dedup_by(|one, other| one.is(other));
        Self { version: 1, findings }
    }

    /// Reads a baseline from a file.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let cannot = |why: String| Error::new(format!("cannot read the baseline {}: {why}", path.display()));
        let text = std::fs::read(path).map_err(|error| cannot(error.to_string()).with_advice(Advice::WriteBaseline))?;
        let mut read: Self = serde_json::from_slice(&text).map_err(|error| cannot(error.to_string()))?;
        if read.version != 1 {
            return Err(cannot(format!("its version is {}; only version 1 is supported", read.version)));
        }
        if let Some(known) = read.findings.iter().find(|known| find(&known.check).is_none()) {
            return Err(
                cannot(format!("there is no check {:?}", known.check)).with_advice(Advice::ListChecks { near: None })
            );
        }
        // Files of earlier versions have the last request, too.
        for known in &mut read.findings {
            if let Some(end) = known.detail.find(LAST_REQUEST) {
                known.detail.truncate(end);
            }
        }
        Ok(read)
    }

    /// Writes the baseline to a file.
    pub fn write(&self, path: &Path) -> Result<(), Error> {
        let mut text = serde_json::to_string_pretty(self).expect("strings and numbers can always be written as JSON");
        text.push('\n');
        std::fs::write(path, text)
            .map_err(|error| Error::new(format!("cannot write the baseline {}: {error}", path.display())))
    }
}

impl KnownFinding {
    pub(super) fn of(finding: &Finding) -> Self {
        let [check, party, path, detail] = finding.identity();
        Self { check, party, path, detail, sometimes: finding.origin.is_only_sometimes() }
    }

    fn identity(&self) -> [&str; 4] {
        [&self.check, &self.party, &self.path, &self.detail]
    }

    /// Whether both are the same finding.
    pub(super) fn is(&self, other: &Self) -> bool {
        self.identity() == other.identity()
    }
}
