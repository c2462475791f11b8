//! What became of the requests of a run -> counts, times, and an example of everything that was wrong.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::histogram::Histogram;
use crate::text::shown;

/// All that is known about the requests to one server.
pub struct Tally {
    pub sent: u64,
    /// No answer within the time for one, or none because the connection was refused or cut.
    pub lost: u64,
    /// Answers to what was lost already.
    pub late: u64,
    /// Second answers.
    pub duplicated: u64,
    pub wrong: BTreeMap<Wrong, Example>,
    /// Due at a fixed rate, and never sent: the server was too slow for it.
    pub unsent: u64,
    /// Of the good answers.
    pub latency: Histogram,
    /// By how much requests were sent late though there was room in flight: our own fault.
    pub lag: Histogram,
    /// While there was something to send or to wait for.
    pub time: Duration,
    /// What this program used meanwhile.
    pub own_cpu: Duration,
}

/// What is wrong with an answer.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Wrong {
    /// Its id is none that was asked.
    Nobody,
    /// Its id is the number that was asked under, written in another way: who compares texts does not know it again.
    Id,
    /// A line that is no message at all.
    NoMessage,
    /// An error, or a result that says isError, where the first answer was neither.
    Error,
    /// A result of another kind than the first.
    Kind,
    /// The first answer repeated what it was given, and this one does not.
    Echo,
    /// HTTP says no.
    Http,
}

/// How often, and the first of them, safe to look at.
pub struct Example {
    pub count: u64,
    pub first: String,
}

impl Wrong {
    /// For programs.
    pub fn name(self) -> &'static str {
        match self {
            Self::Nobody => "unknown_id",
            Self::Id => "id",
            Self::NoMessage => "no_message",
            Self::Error => "error",
            Self::Kind => "kind",
            Self::Echo => "echo",
            Self::Http => "http",
        }
    }

    /// For people.
    pub fn words(self) -> &'static str {
        match self {
            Self::Nobody => "with an id that nobody asked under",
            Self::Id => "with its id written otherwise than it was asked",
            Self::NoMessage => "no message at all",
            Self::Error => "an error where the first answer was none",
            Self::Kind => "a result of another kind than the first",
            Self::Echo => "not what was sent, as the first answer was",
            Self::Http => "refused by HTTP",
        }
    }

    pub const ALL: [Self; 7] =
        [Self::Nobody, Self::Id, Self::NoMessage, Self::Error, Self::Kind, Self::Echo, Self::Http];
}

impl Tally {
    pub fn new() -> Self {
        Self {
            sent: 0,
            lost: 0,
            late: 0,
            duplicated: 0,
            wrong: BTreeMap::new(),
            unsent: 0,
            latency: Histogram::new(),
            lag: Histogram::new(),
            time: Duration::ZERO,
            own_cpu: Duration::ZERO,
        }
    }

    /// A good answer.
    pub fn good(&mut self, due: Instant, received: Instant) {
        self.latency.record(received.saturating_duration_since(due));
    }

    /// A wrong one, and what it says.
    pub fn wrong(&mut self, wrong: Wrong, text: &[u8]) {
        let example =
            self.wrong.entry(wrong).or_insert_with(|| Example { count: 0, first: shown(text, LONGEST) });
        example.count += 1;
    }

    pub fn wrong_answers(&self) -> u64 {
        self.wrong.values().map(|example| example.count).sum()
    }

    pub fn good_answers(&self) -> u64 {
        self.latency.count()
    }

    /// Whether there is anything to complain about.
    pub fn is_clean(&self) -> bool {
        self.lost + self.late + self.duplicated + self.wrong_answers() == 0
    }

    /// Good answers a second.
    pub fn throughput(&self) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "fewer than 2^53")]
        let answers = self.good_answers() as f64;
        if self.time.is_zero() { 0.0 } else { answers / self.time.as_secs_f64() }
    }
}

/// As much of an answer as fits two lines.
const LONGEST: usize = 160;
