//! An operation: a request with its rounds, its response, its progress and its cancellation.

use std::time::Duration;

use barewire_proto::json::Text;
use barewire_proto::mcp::Side;
use barewire_proto::rpc::{Id, Response};

/// A request with all that belongs to it. If a modern server asks for input, the next request is its next round.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Operation {
    /// Its number, from 1, in the order in which they began.
    pub number: u64,
    /// The name of its conversation.
    pub conversation: String,
    /// The channel of the transcript that its last request came in.
    pub channel: String,
    /// The side that sent the request.
    pub asker: Side,
    /// The method, with escapes resolved. Empty if the request has none that can be read.
    pub method: String,
    /// The tool, prompt or resource that it is about.
    pub name: Option<String>,
    /// Its requests and their responses: at least one round, more if the server asked for input.
    pub rounds: Vec<Round>,
    /// The number of progress notifications.
    pub progress: u64,
    /// The place where the requester cancelled it.
    pub cancelled: Option<MessagePosition>,
    pub(super) token: Option<Id<'static>>,
    /// The `requestState` of a server that asks for input, as written.
    pub(super) state: Option<Box<str>>,
}

/// A request and its response.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Round {
    /// The id of the request.
    pub id: Id<'static>,
    /// The place of the request.
    pub asked: MessagePosition,
    /// The response, if there is one.
    pub answered: Option<OperationResponse>,
}

/// A place on the wire.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct MessagePosition {
    /// The number of its frame.
    pub frame: u64,
    /// The time since the start of the capture.
    pub time: Option<Duration>,
    /// The bytes of the message.
    pub length: u64,
}

/// The response to a request.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct OperationResponse {
    /// The id in the response.
    pub id: Id<'static>,
    /// Its place.
    pub at: MessagePosition,
    /// Its outcome.
    pub outcome: ResponseOutcome,
}

/// The outcome of a request.
#[derive(Debug, Clone, PartialEq)]
#[expect(clippy::exhaustive_enums, reason = "a response has no other outcomes")]
pub enum ResponseOutcome {
    /// A result.
    Result,
    /// A result with `isError`: the tool ran, and failed.
    ToolFailed,
    /// A result that asks for input; another round follows.
    InputRequired,
    /// An error.
    Error {
        /// Its code.
        code: i64,
        /// Its message, at most 200 characters of it.
        message: String,
    },
    /// A response under the right id that cannot be read.
    Unreadable,
}

impl Operation {
    /// Whether it is a `subscriptions/listen`, which stays unanswered as long as the client listens.
    pub fn is_listen(&self) -> bool {
        self.method == "subscriptions/listen"
    }

    /// Its progress token.
    pub fn token(&self) -> Option<&Id<'static>> {
        self.token.as_ref()
    }

    /// The response of its last round.
    pub fn answer(&self) -> Option<&OperationResponse> {
        self.rounds.last().and_then(|round| round.answered.as_ref())
    }

    /// The place of its first request.
    pub fn asked(&self) -> MessagePosition {
        self.rounds[0].asked
    }

    /// The time from its first request to its last response.
    pub fn latency(&self) -> Option<Duration> {
        Some(self.answer()?.at.time?.saturating_sub(self.asked().time?))
    }

    /// Whether it was neither answered nor cancelled, and should have been.
    pub fn is_unanswered(&self) -> bool {
        self.answer().is_none() && self.cancelled.is_none() && !self.is_listen()
    }

    /// The method, and the tool, prompt or resource.
    pub fn title(&self) -> String {
        if let Some(name) = &self.name { format!("{} {name}", self.method) } else { self.method.clone() }
    }
}

impl Round {
    /// The id of the response if it differs from that of the request: in its type, or in the spelling of an integer.
    pub fn other_id(&self) -> Option<&Id<'static>> {
        let (asked, answered) = (&self.id, &self.answered.as_ref()?.id);
        let is_integer = |id: &Id<'_>| id.as_str().bytes().all(|b| b.is_ascii_digit() || b == b'-');
        let is_rewritten = is_integer(asked) && asked.as_str() != answered.as_str();
        (asked != answered || is_rewritten).then_some(answered)
    }

    /// The time from the request to its response.
    pub fn latency(&self) -> Option<Duration> {
        Some(self.answered.as_ref()?.at.time?.saturating_sub(self.asked.time?))
    }
}

impl ResponseOutcome {
    /// Reads the outcome of a response.
    pub fn of(response: &Response<'_>) -> Self {
        let result = match response.outcome {
            Ok(result) => result,
            Err(error) => {
                // Messages are sentences; a longer one is data in the wrong place.
                let message = error.message.to_name().chars().take(200).collect();
                return Self::Error { code: error.code.get(), message };
            }
        };
        for member in result.members() {
            if member.name == "isError" && member.value.as_str() == "true" {
                return Self::ToolFailed;
            }
            let is = |kind| Text::from_json(member.value).is_some_and(|text| text == kind);
            if member.name == "resultType" && is("input_required") {
                return Self::InputRequired;
            }
        }
        Self::Result
    }

    /// Whether it is a result of any kind.
    pub fn is_result(&self) -> bool {
        matches!(self, Self::Result | Self::ToolFailed | Self::InputRequired)
    }

    /// Whether the request failed.
    pub fn is_failure(&self) -> bool {
        matches!(self, Self::ToolFailed | Self::Error { .. } | Self::Unreadable)
    }
}
