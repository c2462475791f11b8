//! The figures of a wire, in memory that does not grow with it.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::output::displayed_duration;
use barewire_workbench::operations::Participant;

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
    pub(super) clients: Vec<Participant>,
    pub(super) servers: Vec<Participant>,
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
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Failing {
    pub(super) method: String,
    pub(super) how: HowFailed,
    /// The tool, prompt or resource.
    pub(super) name: Option<String>,
    /// What an error says of it.
    pub(super) message: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum HowFailed {
    Code(i64),
    IsError,
    /// A status of HTTP in place of an answer.
    Status(u16),
    /// An answer that is no message.
    Unreadable,
    /// One or the other of these.
    Any,
}

pub(super) struct FailureFigures {
    pub(super) count: u64,
    /// The first that failed so.
    pub(super) frame: u64,
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

    /// Counts it with those that failed just so. Names and messages may be other ones every time: where that is so, what has no
    /// room of its own is counted with others of its tool, then of its method, then with all others.
    pub(super) fn fail(&mut self, failing: Failing, frame: u64) {
        self.method(&failing.method).failed += 1;
        let wider = [failing.any_message(), failing.any_name()];
        let mut keys = [failing].into_iter().chain(wider);
        let key = keys.find(|key| self.has_room(key)).unwrap_or_else(Failing::any);
        self.failures.entry(key).or_insert(FailureFigures { count: 0, frame }).count += 1;
    }

    fn has_room(&self, key: &Failing) -> bool {
        if self.failures.contains_key(key) {
            return true;
        }
        let first = Failing { name: None, message: None, ..key.clone() };
        let same_way = self.failures.range(first..).map(|(other, _)| other);
        let same_way = same_way.take_while(|other| other.method == key.method && other.how == key.how);
        let (mut names, mut messages) = (0, 0);
        for other in same_way {
            names += 1;
            messages += usize::from(other.name == key.name);
        }
        let is_any = |told: &Option<String>| told.as_deref() == Some(OTHERS);
        self.failures.len() < MOST_METHODS
            && (is_any(&key.name) || names < MOST_NAMES)
            && (is_any(&key.message) || messages < MOST_MESSAGES)
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

impl Failing {
    fn any_message(&self) -> Self {
        Self { message: self.message.as_ref().map(|_| OTHERS.to_owned()), ..self.clone() }
    }

    fn any_name(&self) -> Self {
        Self { name: self.name.as_ref().map(|_| OTHERS.to_owned()), ..self.any_message() }
    }

    fn any() -> Self {
        Self { method: OTHERS.to_owned(), how: HowFailed::Any, name: None, message: None }
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
        *self.counts.entry(displayed_duration(time)).or_default() += 1;
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
/// Of the failures of one method: names with their messages, and messages of one name.
const MOST_NAMES: usize = 50;
const MOST_MESSAGES: usize = 5;
/// What is said of the rest.
pub(super) const OTHERS: &str = "(others)";

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Failing, HowFailed, Latencies, OTHERS, Summary};

    fn failing(method: &str, name: &str, code: i64, message: &str) -> Failing {
        let (name, message) = (Some(name.to_owned()), Some(message.to_owned()));
        Failing { method: method.to_owned(), how: HowFailed::Code(code), name, message }
    }

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
            summary.fail(failing(&format!("m{number}"), "", number, ""), 1);
        }
        assert_eq!((summary.methods.len(), summary.failures.len()), (501, 501));
        assert_eq!(summary.failures[&Failing::any()].count, 99_500);
        assert_eq!(summary.methods.values().map(|figures| figures.asked).sum::<u64>(), 100_000);
    }

    #[test]
    fn names_and_messages_without_end_do_not_hide_what_fails() {
        let mut summary = Summary::default();
        for number in 0..1000 {
            summary.fail(failing("tools/call", "search", 1, &format!("no such page {number}")), 1);
            summary.fail(failing("resources/read", &format!("file:///{number}"), 2, "not found"), 1);
            summary.fail(failing("tools/call", "other", 1, "busy"), 1);
        }
        let count = |failing| summary.failures[&failing].count;
        assert_eq!(count(failing("tools/call", "search", 1, "no such page 4")), 1);
        assert_eq!(count(failing("tools/call", "search", 1, OTHERS)), 995);
        assert_eq!(count(failing("resources/read", OTHERS, 2, OTHERS)), 950);
        assert_eq!(count(failing("tools/call", "other", 1, "busy")), 1000);
        assert_eq!(summary.failures.values().map(|figures| figures.count).sum::<u64>(), 3000);
    }
}
