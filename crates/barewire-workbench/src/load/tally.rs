//! The fates of requests -> counts, times, and an example of everything that was wrong.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::histogram::Histogram;
use crate::text::shown;

/// The counts and times of the requests to one server.
#[derive(Clone)]
#[non_exhaustive]
pub struct Tally {
    /// Requests that were sent.
    pub sent: u64,
    /// Requests without an answer within the timeout, or because the connection was refused or cut.
    pub lost: u64,
    /// Answers to requests that were lost already.
    pub late: u64,
    /// Second answers.
    pub duplicated: u64,
    /// Wrong answers by kind.
    pub wrong: BTreeMap<WrongAnswer, WrongAnswers>,
    /// Requests that were due at a fixed rate and never sent: the server was too slow for it.
    pub unsent: u64,
    /// The latencies of the good answers.
    pub latency: Histogram,
    /// The delays of requests that were sent late though there was room in flight: the fault of the load generator.
    pub lag: Histogram,
    /// The time in which there was something to send or to wait for.
    pub time: Duration,
    /// The CPU time of the load generator.
    pub own_cpu: Duration,
}

/// The kinds of wrong answers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[non_exhaustive]
pub enum WrongAnswer {
    /// Its id matches no request.
    UnknownId,
    /// Its id is the number of the request written in another way: a client that compares texts does not find it.
    IdSpelling,
    /// A line that is no message.
    NotAMessage,
    /// An error, or a result that says `isError`, where the first answer was neither.
    Error,
    /// A result of another kind than the first.
    Kind,
    /// It does not repeat the text that was sent, as the first answer did.
    Echo,
    /// A refusal by HTTP.
    Http,
}

/// The wrong answers of one kind.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct WrongAnswers {
    /// Their number.
    pub count: u64,
    /// The beginning of the first of them, safe to print.
    pub first: String,
}

impl WrongAnswer {
    /// The name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::UnknownId => "unknown_id",
            Self::IdSpelling => "id",
            Self::NotAMessage => "no_message",
            Self::Error => "error",
            Self::Kind => "kind",
            Self::Echo => "echo",
            Self::Http => "http",
        }
    }

    /// The words for a report, which follow `wrong:`.
    pub fn description(self) -> &'static str {
        match self {
            Self::UnknownId => "with an id that nobody asked under",
            Self::IdSpelling => "with its id written otherwise than it was asked",
            Self::NotAMessage => "no message at all",
            Self::Error => "an error where the first answer was none",
            Self::Kind => "a result of another kind than the first",
            Self::Echo => "not what was sent, as the first answer was",
            Self::Http => "refused by HTTP",
        }
    }

    /// All kinds.
    pub const ALL: [Self; 7] =
        [Self::UnknownId, Self::IdSpelling, Self::NotAMessage, Self::Error, Self::Kind, Self::Echo, Self::Http];
}

impl Tally {
    pub(super) fn new() -> Self {
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

    /// Counts a good answer.
    pub(super) fn good(&mut self, due: Instant, received: Instant) {
        self.latency.record(received.saturating_duration_since(due));
    }

    /// Counts a wrong answer, and keeps the first of its kind.
    pub(super) fn wrong(&mut self, wrong: WrongAnswer, text: &[u8]) {
        let example =
            self.wrong.entry(wrong).or_insert_with(|| WrongAnswers { count: 0, first: shown(text, EXCERPT_LENGTH) });
        example.count += 1;
    }

    /// The number of wrong answers.
    pub fn wrong_answers(&self) -> u64 {
        self.wrong.values().map(|example| example.count).sum()
    }

    /// The number of good answers.
    pub fn good_answers(&self) -> u64 {
        self.latency.count()
    }

    /// Whether no answer was lost, late, duplicated or wrong.
    pub fn is_clean(&self) -> bool {
        self.lost + self.late + self.duplicated + self.wrong_answers() == 0
    }

    /// Good answers a second.
    pub fn throughput(&self) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "fewer than 2^53")]
        let answers = self.good_answers() as f64;
        if self.time.is_zero() { 0.0 } else { answers / self.time.as_secs_f64() }
    }

    /// The CPU time of the load generator for each good answer, where it is known.
    pub fn own_cpu_per_answer(&self) -> Option<Duration> {
        self.per_answer(self.own_cpu).filter(|time| !time.is_zero())
    }

    pub(super) fn per_answer(&self, time: Duration) -> Option<Duration> {
        let answers = self.good_answers();
        #[expect(clippy::cast_precision_loss, reason = "fewer than 2^53")]
        let each = (answers > 0).then(|| time.div_f64(answers as f64));
        each
    }
}

/// The number of characters of an answer that are kept: as many as fit two lines.
const EXCERPT_LENGTH: usize = 160;
