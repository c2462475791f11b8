//! The figures in the summary of a wire. Memory use does not grow with the wire.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::output::displayed_duration;
use barewire_workbench::operations::{Operation, Participant};

#[derive(Default)]
pub(super) struct Summary {
    /// The start time in the header of the capture.
    pub(super) started: Option<String>,
    /// The times of the first and the last item.
    pub(super) span: Option<(Duration, Duration)>,
    pub(super) frames: u64,
    /// The figures of the frames to the server, and of those to the client.
    pub(super) directions: [DirectionFigures; 2],
    /// Whether the input records the direction of frames. If not, directions are guessed.
    pub(super) has_directions: bool,
    pub(super) stderr: Volume,
    pub(super) exits: Vec<String>,
    pub(super) statuses: BTreeMap<u16, u64>,
    pub(super) conversations: u64,
    pub(super) clients: Vec<Participant>,
    pub(super) servers: Vec<Participant>,
    pub(super) versions: Vec<(String, Option<&'static str>)>,
    pub(super) operations: u64,
    pub(super) round_trips: u64,
    /// Maps each number of rounds to the number of operations with so many rounds.
    pub(super) rounds: BTreeMap<usize, u64>,
    pub(super) progress: u64,
    pub(super) cancelled: u64,
    pub(super) late: u64,
    pub(super) unsolicited: u64,
    pub(super) second_answers: u64,
    pub(super) ids_in_use: u64,
    pub(super) methods: BTreeMap<String, MethodFigures>,
    pub(super) failures: BTreeMap<FailureKey, FailureFigures>,
    /// The slowest operations, each with the sum of the latencies of its rounds.
    pub(super) slowest: Vec<(Duration, Operation)>,
    pub(super) unanswered: u64,
    /// The first unanswered requests.
    pub(super) unanswered_first: Vec<Operation>,
}

#[derive(Default)]
pub(super) struct Volume {
    pub(super) count: u64,
    pub(super) bytes: u64,
}

#[derive(Default)]
pub(super) struct DirectionFigures {
    pub(super) frames: Volume,
    /// Maps each kind to its number of messages. Each message of a batch is counted.
    pub(super) kinds: BTreeMap<&'static str, u64>,
}

#[derive(Default)]
pub(super) struct MethodFigures {
    pub(super) asked: u64,
    pub(super) answered: u64,
    pub(super) failed: u64,
    pub(super) latencies: Latencies,
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct FailureKey {
    pub(super) method: String,
    pub(super) kind: FailureKind,
    /// The name of the tool, prompt or resource.
    pub(super) name: Option<String>,
    pub(super) message: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum FailureKind {
    Code(i64),
    IsError,
    /// There was an HTTP error status instead of a response.
    Status(u16),
    Unreadable,
    /// Any kind, for failures that are counted together because there are too many.
    Any,
}

pub(super) struct FailureFigures {
    pub(super) count: u64,
    /// The frame number of the first such failure.
    pub(super) frame: u64,
}

impl Summary {
    pub(super) fn invalid(&self) -> u64 {
        self.of_kind("invalid")
    }

    /// Returns the number of messages of which the input contains only the beginning.
    pub(super) fn cut(&self) -> u64 {
        self.of_kind("cut")
    }

    fn of_kind(&self, kind: &str) -> u64 {
        self.directions.iter().filter_map(|direction| direction.kinds.get(kind)).sum()
    }

    pub(super) fn method(&mut self, method: &str) -> &mut MethodFigures {
        let known = self.methods.contains_key(method) || self.methods.len() < MAX_METHODS;
        self.methods.entry(if known { method } else { OTHERS }.to_owned()).or_default()
    }

    /// Counts a failure. Names and messages can differ every time, so the number of keys is limited. If there is no
    /// room for the failure's own key, it is counted with other failures of the same name, else of the same method,
    /// else with all others.
    pub(super) fn fail(&mut self, failure: FailureKey, frame: u64) {
        self.method(&failure.method).failed += 1;
        let wider = [failure.any_message(), failure.any_name()];
        let mut keys = [failure].into_iter().chain(wider);
        let key = keys.find(|key| self.has_room(key)).unwrap_or_else(FailureKey::any);
        self.failures.entry(key).or_insert(FailureFigures { count: 0, frame }).count += 1;
    }

    fn has_room(&self, key: &FailureKey) -> bool {
        if self.failures.contains_key(key) {
            return true;
        }
        let first = FailureKey { name: None, message: None, ..key.clone() };
        let same_kind = self.failures.range(first..).map(|(other, _)| other);
        let same_kind = same_kind.take_while(|other| other.method == key.method && other.kind == key.kind);
        let (mut names, mut messages) = (0, 0);
        for other in same_kind {
            names += 1;
            messages += usize::from(other.name == key.name);
        }
        let is_any = |text: &Option<String>| text.as_deref() == Some(OTHERS);
        self.failures.len() < MAX_METHODS
            && (is_any(&key.name) || names < MAX_NAMES)
            && (is_any(&key.message) || messages < MAX_MESSAGES)
    }

    pub(super) fn add_slow(&mut self, waited: Duration, operation: &Operation) {
        // Operations with equal times stay in the order of the wire.
        let at = self.slowest.partition_point(|(other, _)| *other >= waited);
        if at < MAX_NAMED {
            self.slowest.insert(at, (waited, operation.clone()));
            self.slowest.truncate(MAX_NAMED);
        }
    }
}

impl FailureKey {
    fn any_message(&self) -> Self {
        Self { message: self.message.as_ref().map(|_| OTHERS.to_owned()), ..self.clone() }
    }

    fn any_name(&self) -> Self {
        Self { name: self.name.as_ref().map(|_| OTHERS.to_owned()), ..self.any_message() }
    }

    fn any() -> Self {
        Self { method: OTHERS.to_owned(), kind: FailureKind::Any, name: None, message: None }
    }
}

/// Counts of latencies. Latencies are rounded as they are displayed, so that there are few different values.
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

    /// Returns the smallest latency that at least `percent` percent of all latencies do not exceed.
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

/// The maximum number of participants, operations and requests that are listed by name.
pub(super) const MAX_NAMED: usize = 10;
/// The maximum number of methods to count. MCP has about forty, but a peer can invent any number.
const MAX_METHODS: usize = 500;
/// The maximum number of keys for failures of one method and kind; and among these, of keys for one name.
const MAX_NAMES: usize = 50;
const MAX_MESSAGES: usize = 5;
/// The name under which everything beyond the limits is counted.
pub(super) const OTHERS: &str = "(others)";

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{FailureKey, FailureKind, Latencies, OTHERS, Summary};

    fn failure(method: &str, name: &str, code: i64, message: &str) -> FailureKey {
        let (name, message) = (Some(name.to_owned()), Some(message.to_owned()));
        FailureKey { method: method.to_owned(), kind: FailureKind::Code(code), name, message }
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
            summary.fail(failure(&format!("m{number}"), "", number, ""), 1);
        }
        assert_eq!((summary.methods.len(), summary.failures.len()), (501, 501));
        assert_eq!(summary.failures[&FailureKey::any()].count, 99_500);
        assert_eq!(summary.methods.values().map(|figures| figures.asked).sum::<u64>(), 100_000);
    }

    #[test]
    fn names_and_messages_without_end_do_not_hide_what_fails() {
        let mut summary = Summary::default();
        for number in 0..1000 {
            summary.fail(failure("tools/call", "search", 1, &format!("no such page {number}")), 1);
            summary.fail(failure("resources/read", &format!("file:///{number}"), 2, "not found"), 1);
            summary.fail(failure("tools/call", "other", 1, "busy"), 1);
        }
        let count = |failure| summary.failures[&failure].count;
        assert_eq!(count(failure("tools/call", "search", 1, "no such page 4")), 1);
        assert_eq!(count(failure("tools/call", "search", 1, OTHERS)), 995);
        assert_eq!(count(failure("resources/read", OTHERS, 2, OTHERS)), 950);
        assert_eq!(count(failure("tools/call", "other", 1, "busy")), 1000);
        assert_eq!(summary.failures.values().map(|figures| figures.count).sum::<u64>(), 3000);
    }
}
