//! Responses of a server -> the SDK that it is built on, and the origin of each finding: the author's code or that SDK.
//!
//! [`marks`] collects the responses to a few requests that `barewire check` sends to every server. [`table`] has these
//! responses for a plain server on each SDK, and the findings of that server. A finding of the plain server is the
//! SDK's: every server on the SDK has it, and its author cannot fix it.

mod marks;
mod table;

pub(super) use marks::{MarkCollector, Marks, NO_SUCH, UNKNOWN_METHOD_NAME};

use super::finding::{Finding, Party};
use super::ledger::{CheckOutcome, Status};
use marks::Mark;
use table::{KnownSdk, table};

/// The origin of a finding: who can fix it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Origin {
    /// The code of the author, as far as is known.
    #[default]
    Author,
    /// The SDK that the server is built on: every server on it has the finding.
    #[non_exhaustive]
    Sdk {
        /// A version of the SDK in which a plain server no longer has the finding, if there is one.
        fixed_in: Option<&'static str>,
        /// Whether the finding depends on timing, so that a run may not have it.
        sometimes: bool,
    },
}

impl Origin {
    /// Returns the name of this origin, as reports show it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Author => "author",
            Self::Sdk { .. } => "sdk",
        }
    }

    /// Whether the SDK has caused the finding.
    pub const fn is_sdk(self) -> bool {
        matches!(self, Self::Sdk { .. })
    }

    /// Returns a version of the SDK in which a plain server no longer has the finding, if there is one.
    pub const fn fixed_in(self) -> Option<&'static str> {
        match self {
            Self::Author => None,
            Self::Sdk { fixed_in, .. } => fixed_in,
        }
    }

    /// Whether the finding is known to depend on timing, so that a run may not have it.
    pub const fn is_only_sometimes(self) -> bool {
        matches!(self, Self::Sdk { sometimes: true, .. })
    }
}

/// The SDK that a server is built on.
pub(super) struct RecognisedSdk {
    /// The entries of the table that fit: several if their marks do not tell them apart.
    fitting: Vec<&'static KnownSdk>,
    over_http: bool,
}

impl RecognisedSdk {
    /// Recognises an SDK by the responses of a server on it; `None` if no SDK in the table, or too little, fits.
    pub(super) fn of(marks: &Marks) -> Option<Self> {
        let fitting = table::fitting(table(), marks);
        let over_http = marks.contains_key(&Mark::Transport);
        (!fitting.is_empty()).then_some(Self { fitting, over_http })
    }

    /// Returns the name of the SDK; if several fit, all of their names.
    pub(super) fn name(&self) -> String {
        let mut names: Vec<_> = self.fitting.iter().map(|sdk| sdk.name.as_str()).collect();
        names.dedup();
        names.join(" or ")
    }

    /// Sets the origin of all findings. A finding is the SDK's if a plain server on every fitting SDK has it.
    pub(super) fn assign(&self, outcomes: &mut [CheckOutcome]) {
        for outcome in outcomes {
            if let Status::Fail { findings, .. } = &mut outcome.status {
                findings.iter_mut().for_each(|finding| finding.origin = self.origin(finding));
            }
        }
    }

    fn origin(&self, finding: &Finding) -> Origin {
        if finding.party != Party::Server {
            return Origin::Author;
        }
        let identity = finding.identity();
        let fitting = table::with_findings(&self.fitting, self.over_http);
        let known: Option<Vec<_>> = fitting.iter().map(|sdk| sdk.finding(&identity, self.over_http)).collect();
        let Some(known) = known else { return Origin::Author };
        // Without a common version there is none that certainly helps.
        let fixed_in = known[0].fixed_in.as_deref();
        let is_common = known.iter().all(|it| it.fixed_in.as_deref() == fixed_in);
        let sometimes = known.iter().any(|it| it.sometimes);
        Origin::Sdk { fixed_in: fixed_in.filter(|_| is_common), sometimes }
    }
}
