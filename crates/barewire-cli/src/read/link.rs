//! What a message has to do with those before it -> what a line says of it.

use std::time::Duration;

use crate::output::{shown, took};
use barewire_workbench::operations::{Operation, Relation, ResponseOutcome, Round, TrackedMessage};

/// A [`Relation`] that can be kept until its line is written.
pub(super) struct Link {
    pub(super) how: How,
    pub(super) about: Option<About>,
    /// From the request of this round to its answer.
    pub(super) latency: Option<Duration>,
}

#[derive(Clone, Copy, PartialEq)]
pub(super) enum How {
    None,
    Asks { id_in_use: bool },
    Answers { late: bool, answer: Answer },
    Progress,
    Cancels,
    Refuses,
    Again,
    Nobody,
}

/// What cannot be seen from the kind of a message.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Answer {
    Plain,
    /// A result that says `isError`.
    ToolFailed,
    /// A result that asks for input.
    InputRequired,
}

/// The operation that a message is part of.
pub(super) struct About {
    pub(super) number: u64,
    /// Of its first request.
    pub(super) frame: u64,
    pub(super) method: String,
    pub(super) name: Option<String>,
    /// From 1.
    pub(super) round: usize,
    /// The id of the request, if that of the answer is another, safe to look at.
    pub(super) asked_under: Option<String>,
    /// From its first request to this answer.
    pub(super) total: Option<Duration>,
}

impl Link {
    pub(super) fn of(watched: &TrackedMessage<'_>) -> Self {
        let (how, operation, latency) = match watched.relation {
            Relation::None => (How::None, None, None),
            Relation::Request { operation, id_in_use } => (How::Asks { id_in_use }, Some(operation), None),
            Relation::Response { operation, latency, late } => {
                let answer = match operation.answer().map(|answer| &answer.outcome) {
                    Some(ResponseOutcome::ToolFailed) => Answer::ToolFailed,
                    Some(ResponseOutcome::InputRequired) => Answer::InputRequired,
                    _ => Answer::Plain,
                };
                (How::Answers { late, answer }, Some(operation), latency)
            }
            Relation::Progress { operation } => (How::Progress, Some(operation), None),
            Relation::Cancellation { operation } => (How::Cancels, Some(operation), None),
            Relation::RefusesUnidentified => (How::Refuses, None, None),
            Relation::Duplicate => (How::Again, None, None),
            Relation::Unsolicited => (How::Nobody, None, None),
        };
        Self { how, about: operation.map(About::of), latency }
    }

    /// What an answer is to, where its line has room for it.
    pub(super) fn title(&self) -> Option<String> {
        match self.how {
            How::Answers { .. } => self.about.as_ref().map(About::title),
            _ => None,
        }
    }

    /// What stands behind the size: latency first, then words. `named` if the line says already what it answers.
    pub(super) fn words(&self, named: bool) -> Vec<String> {
        let mut words: Vec<String> = self.latency.map(took).into_iter().collect();
        let about = self.about.as_ref();
        if !named {
            words.extend(self.title().map(|title| format!("to {title}")));
        }
        let of = || about.map_or(String::new(), |about| format!("frame {}, {}", about.frame, about.title()));
        match self.how {
            How::None => {}
            How::Asks { id_in_use } => {
                words.extend(id_in_use.then(|| "id in use".to_owned()));
                let retry = about.filter(|about| about.round > 1);
                words.extend(retry.map(|about| format!("round {} of frame {}", about.round, about.frame)));
            }
            How::Answers { late, answer } => {
                words.extend(late.then(|| "late: it was cancelled".to_owned()));
                let asked = about.and_then(|about| about.asked_under.as_deref());
                words.extend(asked.map(|id| format!("asked under the id {id}")));
                match answer {
                    Answer::Plain => {}
                    Answer::ToolFailed => words.push("isError".to_owned()),
                    Answer::InputRequired => words.push("input required".to_owned()),
                }
                if let Some(about) = about.filter(|about| about.round > 1) {
                    let total = about.total.map_or(String::new(), |total| format!(", {} in all", took(total)));
                    words.push(format!("round {} of frame {}{total}", about.round, about.frame));
                }
            }
            How::Progress => words.push(format!("of {}", of())),
            How::Cancels => words.push(format!("cancels {}", of())),
            How::Refuses => words.push("refuses a frame without an id".to_owned()),
            How::Again => words.push("second answer".to_owned()),
            How::Nobody => words.push("to nobody".to_owned()),
        }
        words
    }
}

impl About {
    fn of(operation: &Operation) -> Self {
        let round = operation.rounds.last().filter(|round| round.other_id().is_some());
        Self {
            number: operation.number,
            frame: operation.asked().frame,
            method: operation.method.clone(),
            name: operation.name.clone(),
            round: operation.rounds.len(),
            asked_under: round.map(|round| shown(round.id.as_str().as_bytes(), 20)),
            total: operation.latency(),
        }
    }

    /// The method and whom it is about, safe to look at.
    pub(super) fn title(&self) -> String {
        title(&self.method, self.name.as_deref())
    }
}

/// The method of an operation and whom it is about, safe to look at.
pub(super) fn title(method: &str, name: Option<&str>) -> String {
    let method = if method.is_empty() { "(no method)".to_owned() } else { shown(method.as_bytes(), 40) };
    match name {
        Some(name) => format!("{method} {}", shown(name.as_bytes(), 40)),
        None => method,
    }
}

/// How long the answers of an operation were waited for: not the time in which a client found out what it was asked.
pub(super) fn waited(operation: &Operation) -> Option<Duration> {
    let rounds = operation.rounds.iter().map(Round::latency);
    rounds.flatten().reduce(|a, b| a.saturating_add(b))
}
