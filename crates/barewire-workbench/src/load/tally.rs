//! Counts answers and failures, records times, and keeps the first example of each kind of wrong answer.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::histogram::Histogram;
use crate::text::shown;

/// The counts and times of the requests to one server.
#[derive(Clone, Default)]
#[non_exhaustive]
pub struct Tally {
    /// The number of requests that were sent.
    pub sent: u64,
    /// The number of requests without an answer within the timeout, or whose connection was refused or broken.
    pub lost: u64,
    /// The number of answers to requests that already counted as lost.
    pub late: u64,
    /// The number of duplicate answers.
    pub duplicated: u64,
    /// Maps each kind of wrong answer to its count and first example.
    pub wrong: BTreeMap<WrongAnswer, WrongAnswers>,
    /// The number of requests that were due at a fixed rate and never sent, because the server was too slow.
    pub unsent: u64,
    /// The latencies of the good answers.
    pub latency: Histogram,
    /// The delays of requests that were sent late although fewer than the maximum were open: the load generator was too
    /// slow.
    pub lag: Histogram,
    /// The time during which there were requests to send or answers to wait for.
    pub time: Duration,
    /// The CPU time of the load generator.
    pub own_cpu: Duration,
}

/// The kinds of wrong answers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[non_exhaustive]
pub enum WrongAnswer {
    /// The id matches no request.
    UnknownId,
    /// The id is the number of the request in another spelling, which a client that compares ids as text does not
    /// recognize.
    IdSpelling,
    /// The line is not a JSON-RPC message.
    NotAMessage,
    /// An error, or a result with `isError`, although the first answer was neither.
    Error,
    /// A result of another kind than the first answer.
    Kind,
    /// The answer does not repeat the text that was sent, although the first answer did.
    Echo,
    /// An HTTP error.
    Http,
}

/// The wrong answers of one kind.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct WrongAnswers {
    /// The number of wrong answers.
    pub count: u64,
    /// The beginning of the first wrong answer, safe to print.
    pub first: String,
}

impl WrongAnswer {
    /// Returns the name of this kind in JSON.
    pub fn name(self) -> &'static str {
        self.words().0
    }

    /// Returns the description of this kind for a report.
    pub fn description(self) -> &'static str {
        self.words().1
    }

    fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::UnknownId => ("unknown_id", "the id matches no request"),
            Self::IdSpelling => ("id", "the id is spelled differently than in the request"),
            Self::NotAMessage => ("no_message", "not a message"),
            Self::Error => ("error", "an error, unlike the first answer"),
            Self::Kind => ("kind", "a result of another kind than the first"),
            Self::Echo => ("echo", "does not repeat the text that was sent, although the first answer did"),
            Self::Http => ("http", "an HTTP error"),
        }
    }

    /// All kinds of wrong answers.
    pub const ALL: [Self; 7] =
        [Self::UnknownId, Self::IdSpelling, Self::NotAMessage, Self::Error, Self::Kind, Self::Echo, Self::Http];
}

impl Tally {
    pub(super) fn good(&mut self, due: Instant, received: Instant) {
        self.latency.record(received.saturating_duration_since(due));
    }

    /// Counts a wrong answer, and keeps the text of the first one of its kind.
    pub(super) fn wrong(&mut self, wrong: WrongAnswer, text: &[u8]) {
        let example =
            self.wrong.entry(wrong).or_insert_with(|| WrongAnswers { count: 0, first: shown(text, EXCERPT_LENGTH) });
        example.count += 1;
    }

    /// Returns the total number of wrong answers.
    pub fn wrong_answers(&self) -> u64 {
        self.wrong.values().map(|example| example.count).sum()
    }

    /// Returns the number of good answers.
    pub fn good_answers(&self) -> u64 {
        self.latency.count()
    }

    /// Whether no answer was lost, late, duplicated or wrong.
    pub fn is_clean(&self) -> bool {
        self.lost + self.late + self.duplicated + self.wrong_answers() == 0
    }

    /// Returns the number of good answers per second.
    pub fn throughput(&self) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "there are fewer than 2^53 answers")]
        let answers = self.good_answers() as f64;
        if self.time.is_zero() { 0.0 } else { answers / self.time.as_secs_f64() }
    }

    /// Returns the CPU time of the load generator per good answer, if it is known.
    pub fn own_cpu_per_answer(&self) -> Option<Duration> {
        self.per_answer(self.own_cpu).filter(|time| !time.is_zero())
    }

    pub(super) fn per_answer(&self, time: Duration) -> Option<Duration> {
        let answers = self.good_answers();
        #[expect(clippy::cast_precision_loss, reason = "there are fewer than 2^53 answers")]
        let each = (answers > 0).then(|| time.div_f64(answers as f64));
        each
    }
}

/// The maximum number of characters of an answer that are kept: about two lines.
const EXCERPT_LENGTH: usize = 160;
