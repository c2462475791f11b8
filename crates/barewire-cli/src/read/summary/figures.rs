//! The figures of a wire, in memory that does not grow with it.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::output::as_told;
use crate::watch::Who;

/// All of them.
#[derive(Default)]
pub(super) struct Summary {
    /// When the capture began, as it says.
    pub(super) started: Option<String>,
    /// The first and the last time that is told.
    pub(super) span: Option<(Duration, Duration)>,
    pub(super) frames: u64,
    /// To the server, and to the client.
    pub(super) ways: [Way; 2],
    /// The input says who has sent what.
    pub(super) has_directions: bool,
    pub(super) stderr: Volume,
    pub(super) exits: Vec<String>,
    /// Responses over HTTP by their status.
    pub(super) statuses: BTreeMap<u16, u64>,
    pub(super) conversations: u64,
    pub(super) clients: Vec<Who>,
    pub(super) servers: Vec<Who>,
    /// Revisions with their eras.
    pub(super) versions: Vec<(String, Option<&'static str>)>,
    pub(super) operations: u64,
    pub(super) round_trips: u64,
    /// How many operations took how many rounds.
    pub(super) rounds: BTreeMap<usize, u64>,
    pub(super) progress: u64,
    pub(super) cancelled: u64,
    pub(super) late: u64,
    pub(super) to_nobody: u64,
    pub(super) second_answers: u64,
    pub(super) ids_in_use: u64,
    pub(super) methods: BTreeMap<String, MethodFigures>,
    pub(super) failures: BTreeMap<Failing, FailureFigures>,
    /// The slowest first.
    pub(super) slowest: Vec<Slow>,
    pub(super) unanswered: u64,
    /// The first of them.
    pub(super) unanswered_first: Vec<Unanswered>,
}

#[derive(Default)]
pub(super) struct Volume {
    pub(super) count: u64,
    pub(super) bytes: u64,
}

/// What went one way.
#[derive(Default)]
pub(super) struct Way {
    pub(super) frames: Volume,
    /// Messages by kind; those of a batch each.
    pub(super) kinds: BTreeMap<&'static str, u64>,
}

#[derive(Default)]
pub(super) struct MethodFigures {
    pub(super) asked: u64,
    pub(super) answered: u64,
    pub(super) failed: u64,
    pub(super) latencies: Latencies,
}

/// What failed, and how.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Failing {
    pub(super) method: String,
    pub(super) how: HowFailed,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum HowFailed {
    Code(i64),
    IsError,
    /// A status of HTTP in place of an answer.
    Status(u16),
    /// An answer that is no message.
    Unreadable,
}

pub(super) struct FailureFigures {
    pub(super) count: u64,
    /// The first that failed so, and what was said of it.
    pub(super) frame: u64,
    pub(super) message: Option<String>,
}

pub(super) struct Slow {
    /// What was waited for answers.
    pub(super) waited: Duration,
    /// From the first request to the last answer.
    pub(super) total: Option<Duration>,
    pub(super) frame: u64,
    pub(super) rounds: usize,
    pub(super) method: String,
    pub(super) name: Option<String>,
}

pub(super) struct Unanswered {
    pub(super) frame: u64,
    pub(super) time: Option<Duration>,
    pub(super) method: String,
    pub(super) name: Option<String>,
}

impl Summary {
    pub(super) fn invalid(&self) -> u64 {
        self.ways.iter().filter_map(|way| way.kinds.get("invalid")).sum()
    }

    pub(super) fn method(&mut self, method: &str) -> &mut MethodFigures {
        let known = self.methods.contains_key(method) || self.methods.len() < MOST_METHODS;
        self.methods.entry(if known { method } else { OTHERS }.to_owned()).or_default()
    }

    pub(super) fn fail(&mut self, method: &str, how: HowFailed, frame: u64, message: Option<&str>) {
        self.method(method).failed += 1;
        let key = Failing { method: method.to_owned(), how };
        let known = self.failures.contains_key(&key) || self.failures.len() < MOST_METHODS;
        let key = if known { key } else { Failing { method: OTHERS.to_owned(), how: HowFailed::Unreadable } };
        let message = message.map(str::to_owned);
        self.failures.entry(key).or_insert(FailureFigures { count: 0, frame, message }).count += 1;
    }

    pub(super) fn slow(&mut self, slow: Slow) {
        // Of equals the first stays first.
        let at = self.slowest.partition_point(|other| other.waited >= slow.waited);
        if at < MOST_NAMED {
            self.slowest.insert(at, slow);
            self.slowest.truncate(MOST_NAMED);
        }
    }
}

/// Times, each as it is told. There are not many of those.
#[derive(Default)]
pub(super) struct Latencies {
    counts: BTreeMap<Duration, u64>,
    count: u64,
}

impl Latencies {
    pub(super) fn add(&mut self, time: Duration) {
        *self.counts.entry(as_told(time)).or_default() += 1;
        self.count += 1;
    }

    /// The least time that `percent` of a hundred do not exceed.
    pub(super) fn percentile(&self, percent: u64) -> Option<Duration> {
        let rank = (self.count * percent).div_ceil(100).max(1);
        let mut below = 0;
        let found = self.counts.iter().find(|(_, count)| {
            below += **count;
            below >= rank
        });
        found.map(|(time, _)| *time)
    }

    pub(super) fn max(&self) -> Option<Duration> {
        self.counts.last_key_value().map(|(time, _)| *time)
    }
}

/// How many are named one by one.
pub(super) const MOST_NAMED: usize = 10;
/// MCP has some forty methods; a peer can make up any number.
const MOST_METHODS: usize = 500;
/// What is said of the rest.
pub(super) const OTHERS: &str = "(others)";

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Latencies, Summary};

    #[test]
    fn percentiles_are_exact_in_three_digits() {
        let mut latencies = Latencies::default();
        assert_eq!(latencies.percentile(50), None);
        for micros in 1..=100 {
            latencies.add(Duration::from_micros(micros * 10));
        }
        assert_eq!(latencies.percentile(50), Some(Duration::from_micros(500)));
        assert_eq!(latencies.percentile(95), Some(Duration::from_micros(950)));
        assert_eq!(latencies.max(), Some(Duration::from_millis(1)));
        latencies.add(Duration::from_nanos(1_234_567));
        assert_eq!(latencies.max(), Some(Duration::from_nanos(1_230_000)));
        latencies.add(Duration::from_nanos(999_999_999));
        assert_eq!(latencies.max(), Some(Duration::from_secs(1)));
        latencies.add(Duration::MAX);
        assert!(latencies.counts.len() < 110);
    }

    #[test]
    fn a_peer_cannot_make_up_methods_without_end() {
        let mut summary = Summary::default();
        for number in 0..100_000 {
            summary.method(&format!("m{number}")).asked += 1;
            summary.fail(&format!("m{number}"), super::HowFailed::Code(number), 1, None);
        }
        assert_eq!((summary.methods.len(), summary.failures.len()), (501, 501));
        assert_eq!(summary.methods.values().map(|figures| figures.asked).sum::<u64>(), 100_000);
    }
}
