//! The operations of two captures -> what differs, by operation.
//!
//! Operations are matched by conversation, by method and name, and by params: those with the same params first, the rest
//! in their order. The messages of a pair are compared as in a replay: by value, place by place, without ids.

mod collect;
mod matching;

use std::time::Duration;

use barewire_proto::json::Json;
use barewire_proto::mcp::Side;

use crate::operations::ResponseOutcome;
use crate::replay::{PathPattern, diff_texts};

pub use collect::OperationTexts;
use matching::pairs;

/// What differs between two captures.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Comparison {
    /// The operations of the first capture, in their order, and then those that are only in the second.
    pub operations: Vec<ComparedOperation>,
}

/// An operation in one capture or in both.
#[derive(Debug)]
#[non_exhaustive]
pub struct ComparedOperation {
    /// The method.
    pub method: String,
    /// The tool, prompt or resource that the request names.
    pub name: Option<String>,
    /// The side that sent the request.
    pub asker: Side,
    /// The operation in the first capture.
    pub first: Option<ComparedSide>,
    /// The operation in the second capture.
    pub second: Option<ComparedSide>,
    /// The places that differ, if the operation is in both captures.
    pub differences: Vec<OperationDifference>,
}

/// An operation in one of the captures.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ComparedSide {
    /// The name of its conversation.
    pub conversation: String,
    /// The number of the frame with the request.
    pub frame: u64,
    /// The number of the frame with the response.
    pub answer_frame: Option<u64>,
    /// The outcome; `None` if there is no response.
    pub outcome: Option<ResponseOutcome>,
    /// The time from the first request to the last response.
    pub latency: Option<Duration>,
}

/// A place at which the messages of an operation differ.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct OperationDifference {
    /// The place as a JSON Pointer: below `/params` in the request, below `/result` or `/error` in the response; empty
    /// for a whole response.
    pub path: String,
    /// The JSON text in the first capture; `None` if it is not there.
    pub first: Option<String>,
    /// The JSON text in the second capture; `None` if it is not there.
    pub second: Option<String>,
}

/// Whether an operation is in both captures, and the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "there are no other cases")]
pub enum ComparedState {
    /// In both captures, without a difference.
    Same,
    /// In both captures, with differences.
    Different,
    /// Only in the first capture.
    OnlyFirst,
    /// Only in the second capture.
    OnlySecond,
}

impl ComparedState {
    /// Returns the name of the state.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Same => "same",
            Self::Different => "different",
            Self::OnlyFirst => "only-a",
            Self::OnlySecond => "only-b",
        }
    }
}

impl Comparison {
    /// Compares two captures. Differences at these paths do not count.
    pub fn of(first: &OperationTexts, second: &OperationTexts, ignored: &[PathPattern]) -> Self {
        let pairs = pairs(&first.operations, &second.operations);
        let operations = pairs.into_iter().map(|(a, b)| {
            let (a, b) = (a.map(|at| &first.operations[at]), b.map(|at| &second.operations[at]));
            let known = a.or(b).expect("one of the captures has it");
            let differences = match (a, b) {
                (Some(a), Some(b)) => differences(a, b, ignored),
                _ => Vec::new(),
            };
            ComparedOperation {
                method: known.method.clone(),
                name: known.name.clone(),
                asker: known.asker,
                first: a.map(|it| it.side.clone()),
                second: b.map(|it| it.side.clone()),
                differences,
            }
        });
        Self { operations: operations.collect() }
    }

    /// Returns the number of operations in this state.
    pub fn count(&self, state: ComparedState) -> usize {
        self.operations.iter().filter(|operation| operation.state() == state).count()
    }
}

impl ComparedOperation {
    /// Returns the state.
    pub fn state(&self) -> ComparedState {
        match (&self.first, &self.second) {
            (Some(_), None) => ComparedState::OnlyFirst,
            (None, _) => ComparedState::OnlySecond,
            (Some(_), Some(_)) if self.differences.is_empty() => ComparedState::Same,
            (Some(_), Some(_)) => ComparedState::Different,
        }
    }

    /// Returns the method, followed by the name of the tool, prompt or resource.
    pub fn title(&self) -> String {
        if let Some(name) = &self.name { format!("{} {name}", self.method) } else { self.method.clone() }
    }
}

fn differences(
    a: &collect::CollectedOperation,
    b: &collect::CollectedOperation,
    ignored: &[PathPattern],
) -> Vec<OperationDifference> {
    let mut is_ignored = |path: &[String], _: Option<Json<'_>>, _: Option<Json<'_>>| {
        is_generated(path) || ignored.iter().any(|pattern| pattern.covers(&a.method, path))
    };
    let mut all = diff_texts(&a.request, &b.request, &mut is_ignored);
    let mut found = Vec::new();
    match (&a.response, &b.response) {
        (Some(a), Some(b)) => all.extend(diff_texts(a, b, &mut is_ignored)),
        (None, None) => {}
        (a, b) => {
            let text = |text: &Option<Vec<u8>>| text.as_ref().map(|text| String::from_utf8_lossy(text).into_owned());
            found.push(OperationDifference { path: String::new(), first: text(a), second: text(b) });
        }
    }
    let places = all.iter().map(|change| OperationDifference {
        path: change.pointer(),
        first: change.recorded().map(str::to_owned),
        second: change.received().map(str::to_owned),
    });
    places.chain(found).collect()
}

/// Whether a place holds a value that a client makes up for each request.
fn is_generated(path: &[String]) -> bool {
    let path: Vec<&str> = path.iter().map(String::as_str).collect();
    matches!(path[..], ["id"] | ["params", "_meta", "progressToken" | "traceparent" | "tracestate"])
}

#[cfg(test)]
mod tests;
