//! The findings of a capture as they come: the first of them whole and redacted, the others counted.

use std::collections::HashMap;

use crate::check::{EvidenceLine, Finding};

/// The findings that are kept.
#[derive(Default)]
pub(crate) struct KeptFindings {
    pub(crate) list: Vec<KeptFinding>,
    /// The number of all findings.
    pub(crate) total: u64,
    /// Maps the number of a frame to its findings.
    by_frame: HashMap<u64, Vec<u32>>,
}

/// A finding, and the conversation that it is in.
pub(crate) struct KeptFinding {
    pub(crate) finding: Finding,
    pub(crate) evidence: Vec<EvidenceLine>,
    pub(crate) conversation: String,
}

impl KeptFindings {
    /// Adds a finding, which must be redacted.
    pub(crate) fn add(&mut self, finding: Finding, conversation: String) {
        self.total += 1;
        if self.list.len() >= MAX_FINDINGS {
            return;
        }
        if let Some(frame) = finding.location.frame {
            self.by_frame.entry(frame).or_default().push(u32::try_from(self.list.len()).unwrap_or(u32::MAX));
        }
        let evidence = finding.evidence_lines(EVIDENCE_WIDTH);
        self.list.push(KeptFinding { finding, evidence, conversation });
    }

    /// Returns the findings of a frame.
    pub(crate) fn of_frame(&self, number: u64) -> impl Iterator<Item = &KeptFinding> {
        self.by_frame.get(&number).into_iter().flatten().filter_map(|at| self.list.get(*at as usize))
    }
}

/// The maximum number of findings that are kept. A check keeps at most 520 itself.
const MAX_FINDINGS: usize = 10_000;
/// The width of a line of evidence, in columns.
const EVIDENCE_WIDTH: usize = 140;
