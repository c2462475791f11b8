//! The relation of a message to earlier messages -> the words about it in the message's line.

use std::time::Duration;

use crate::output::{shown, took};
use barewire_workbench::operations::{Operation, Relation, ResponseOutcome, TrackedMessage};

/// An owned copy of a [`Relation`], kept until the message's line is written.
pub(super) struct Link {
    pub(super) role: Role,
    pub(super) operation: Option<OperationFacts>,
    /// The time from the request of this round to its response.
    pub(super) latency: Option<Duration>,
}

/// The role of a message in an operation. It corresponds to the variants of [`Relation`].
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Role {
    None,
    Request { id_in_use: bool },
    Response { late: bool, is_error: bool, input_required: bool },
    Progress,
    Cancellation,
    RefusesUnidentified,
    Duplicate,
    Unsolicited,
}

/// The operation that a message is part of.
pub(super) struct OperationFacts {
    pub(super) number: u64,
    /// The number of the frame with the first request.
    pub(super) frame: u64,
    pub(super) method: String,
    pub(super) name: Option<String>,
    /// The number of rounds so far.
    pub(super) round: usize,
    /// The id of the request, escaped, if the id of the response differs.
    request_id: Option<String>,
    /// The time from the first request to this response.
    total: Option<Duration>,
}

impl Link {
    pub(super) fn of(tracked: &TrackedMessage<'_>) -> Self {
        let (role, operation, latency) = match tracked.relation {
            Relation::None => (Role::None, None, None),
            Relation::Request { operation, id_in_use } => (Role::Request { id_in_use }, Some(operation), None),
            Relation::Response { operation, latency, late } => {
                let is = |outcome| operation.answer().is_some_and(|answer| answer.outcome == outcome);
                let (is_error, input_required) = (is(ResponseOutcome::ToolFailed), is(ResponseOutcome::InputRequired));
                (Role::Response { late, is_error, input_required }, Some(operation), latency)
            }
            Relation::Progress { operation } => (Role::Progress, Some(operation), None),
            Relation::Cancellation { operation } => (Role::Cancellation, Some(operation), None),
            Relation::RefusesUnidentified => (Role::RefusesUnidentified, None, None),
            Relation::Duplicate => (Role::Duplicate, None, None),
            Relation::Unsolicited => (Role::Unsolicited, None, None),
        };
        Self { role, operation: operation.map(OperationFacts::of), latency }
    }

    pub(super) fn request_title(&self) -> Option<String> {
        match self.role {
            Role::Response { .. } => self.operation.as_ref().map(OperationFacts::title),
            _ => None,
        }
    }

    /// Returns the words to print after the size, latency first. `has_title` is true if the line already names the
    /// request.
    pub(super) fn words(&self, has_title: bool) -> Vec<String> {
        let mut words: Vec<String> = self.latency.map(took).into_iter().collect();
        let operation = self.operation.as_ref();
        if !has_title {
            words.extend(self.request_title().map(|title| format!("to {title}")));
        }
        let later = operation.filter(|operation| operation.round > 1);
        let of = || operation.map_or(String::new(), |it| format!("frame {}, {}", it.frame, it.title()));
        match self.role {
            Role::None => {}
            Role::Request { id_in_use } => {
                words.extend(id_in_use.then(|| "id in use".to_owned()));
                words.extend(later.map(|it| format!("round {} of frame {}", it.round, it.frame)));
            }
            Role::Response { late, is_error, input_required } => {
                words.extend(late.then(|| "late: the request was cancelled".to_owned()));
                let request_id = operation.and_then(|operation| operation.request_id.as_deref());
                words.extend(request_id.map(|id| format!("the request has id {id}")));
                words.extend(is_error.then(|| "isError".to_owned()));
                words.extend(input_required.then(|| "input required".to_owned()));
                words.extend(later.map(|it| {
                    let total = it.total.map_or(String::new(), |total| format!(", {} in all", took(total)));
                    format!("round {} of frame {}{total}", it.round, it.frame)
                }));
            }
            Role::Progress => words.push(format!("of {}", of())),
            Role::Cancellation => words.push(format!("cancels {}", of())),
            Role::RefusesUnidentified => words.push("refuses a frame without an id".to_owned()),
            Role::Duplicate => words.push("second response".to_owned()),
            Role::Unsolicited => words.push("matches no request".to_owned()),
        }
        words
    }
}

impl OperationFacts {
    fn of(operation: &Operation) -> Self {
        let round = operation.rounds.last().filter(|round| round.other_id().is_some());
        Self {
            number: operation.number,
            frame: operation.asked().frame,
            method: operation.method.clone(),
            name: operation.name.clone(),
            round: operation.rounds.len(),
            request_id: round.map(|round| shown(round.id.as_str().as_bytes(), 20)),
            total: operation.latency(),
        }
    }

    pub(super) fn title(&self) -> String {
        title(&self.method, self.name.as_deref())
    }
}

/// Returns a method, and the tool, prompt or resource that the request names, escaped.
pub(super) fn title(method: &str, name: Option<&str>) -> String {
    let method = if method.is_empty() { "(no method)".to_owned() } else { shown(method.as_bytes(), 40) };
    if let Some(name) = name { format!("{method} {}", shown(name.as_bytes(), 40)) } else { method }
}
