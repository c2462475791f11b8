//! The relation of a message to earlier messages -> the words about it in the message's line.

use std::time::Duration;

use crate::operations::{Operation, Relation, ResponseOutcome, TrackedMessage};
use crate::text::{shown, took};

/// An owned copy of a [`Relation`], kept until the message's line is written.
#[derive(Clone)]
#[non_exhaustive]
pub struct MessageRelation {
    /// The role of the message.
    pub role: Role,
    /// The operation that the message is part of.
    pub operation: Option<OperationFacts>,
    /// The time from the request of this round to its response.
    pub latency: Option<Duration>,
}

/// The role of a message in an operation. It corresponds to the variants of [`Relation`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "code that shows messages must handle every role")]
pub enum Role {
    /// The message is related to no earlier message.
    None,
    /// A request.
    Request {
        /// Whether an earlier request with the same id is unanswered.
        id_in_use: bool,
    },
    /// A response.
    Response {
        /// Whether the request was cancelled before.
        late: bool,
        /// Whether the result says that the tool has failed.
        is_error: bool,
        /// Whether the result asks for input.
        input_required: bool,
    },
    /// A progress notification.
    Progress,
    /// A cancellation.
    Cancellation,
    /// An error without an id.
    RefusesUnidentified,
    /// A second response to a request.
    Duplicate,
    /// A response that matches no request.
    Unsolicited,
}

/// The operation that a message is part of.
#[derive(Clone)]
#[non_exhaustive]
pub struct OperationFacts {
    /// The number of the operation.
    pub number: u64,
    /// The number of the frame with the first request.
    pub frame: u64,
    /// The method.
    pub method: String,
    /// The tool, prompt or resource.
    pub name: Option<String>,
    /// The number of rounds so far.
    pub round: usize,
    /// The id of the request, escaped, if the id of the response differs.
    pub(crate) request_id: Option<String>,
    /// The time from the first request to this response.
    pub(crate) total: Option<Duration>,
}

impl MessageRelation {
    /// Copies the relation of a message.
    pub fn of(tracked: &TrackedMessage<'_>) -> Self {
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

    /// Returns the title of the request that the message answers.
    pub fn request_title(&self) -> Option<String> {
        match self.role {
            Role::Response { .. } => self.operation.as_ref().map(OperationFacts::title),
            _ => None,
        }
    }

    /// Returns the words to print after the size, latency first. `has_title` is true if the line already names the
    /// request.
    pub fn words(&self, has_title: bool) -> Vec<String> {
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

    /// Returns the method and the name, escaped.
    pub fn title(&self) -> String {
        title(&self.method, self.name.as_deref())
    }
}

/// Returns a method, and the tool, prompt or resource that the request names, escaped.
pub fn title(method: &str, name: Option<&str>) -> String {
    let method = if method.is_empty() { "(no method)".to_owned() } else { shown(method.as_bytes(), 40) };
    if let Some(name) = name { format!("{method} {}", shown(name.as_bytes(), 40)) } else { method }
}
