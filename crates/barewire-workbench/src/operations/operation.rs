//! An operation: a request with its rounds, its response, its progress and its cancellation.

use std::time::Duration;

use barewire_proto::json::Text;
use barewire_proto::mcp::Side;
use barewire_proto::rpc::{Id, Response};

/// A request with its response, progress and cancellation. Each time a modern server asks for input, the client sends a
/// further request, which begins the next round of the same operation.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Operation {
    /// The number of the operation, from 1, in the order in which operations began.
    pub number: u64,
    /// The name of the operation's conversation.
    pub conversation: String,
    /// The channel of the operation's last request in the transcript.
    pub channel: String,
    /// The side that sent the request.
    pub asker: Side,
    /// The method, with escapes resolved; empty if it cannot be read.
    pub method: String,
    /// The tool, prompt or resource that the request names.
    pub name: Option<String>,
    /// The requests and their responses: one round, or more if the server asked for input.
    pub rounds: Vec<Round>,
    /// The number of progress notifications.
    pub progress: u64,
    /// The position of the message with which the requester cancelled the operation.
    pub cancelled: Option<MessagePosition>,
    pub(super) token: Option<Id<'static>>,
    /// The `requestState` in the server's last request for input, as JSON text.
    pub(super) state: Option<Box<str>>,
}

/// A request and its response.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Round {
    /// The id of the request.
    pub id: Id<'static>,
    /// The position of the request.
    pub asked: MessagePosition,
    /// The response, if there is one.
    pub answered: Option<OperationResponse>,
}

/// The position of a message.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct MessagePosition {
    /// The number of the frame that contains the message.
    pub frame: u64,
    /// The time since the start of the capture.
    pub time: Option<Duration>,
    /// The length of the message in bytes.
    pub length: u64,
}

/// The response to a request.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct OperationResponse {
    /// The id in the response.
    pub id: Id<'static>,
    /// The position of the response.
    pub at: MessagePosition,
    /// The outcome that the response reports.
    pub outcome: ResponseOutcome,
}

/// The outcome of a request.
#[derive(Debug, Clone, PartialEq)]
#[expect(clippy::exhaustive_enums, reason = "a response has no other outcomes")]
pub enum ResponseOutcome {
    /// A result.
    Result,
    /// A result with `isError`: the tool ran and failed.
    ToolFailed,
    /// A result that asks for input. Another round follows.
    InputRequired,
    /// An error.
    Error {
        /// The error code.
        code: i64,
        /// The error message, cut to at most 200 characters.
        message: String,
    },
    /// A response with the right id whose content cannot be read.
    Unreadable,
    /// A response of which the transcript contains only the beginning.
    Cut,
}

impl Operation {
    /// Whether this is a `subscriptions/listen` request, which stays unanswered as long as the client listens.
    pub fn is_listen(&self) -> bool {
        self.method == "subscriptions/listen"
    }

    /// Returns the progress token of the operation.
    pub fn token(&self) -> Option<&Id<'static>> {
        self.token.as_ref()
    }

    /// Returns the response of the last round.
    pub fn answer(&self) -> Option<&OperationResponse> {
        self.rounds.last().and_then(|round| round.answered.as_ref())
    }

    /// Returns the position of the first request.
    pub fn asked(&self) -> MessagePosition {
        self.rounds[0].asked
    }

    /// Returns the time from the first request to the last response.
    pub fn latency(&self) -> Option<Duration> {
        Some(self.answer()?.at.time?.saturating_sub(self.asked().time?))
    }

    /// Whether a response is missing: the operation was neither answered nor cancelled, and is not a subscription.
    pub fn is_unanswered(&self) -> bool {
        self.answer().is_none() && self.cancelled.is_none() && !self.is_listen()
    }

    /// Returns the method, followed by the name of the tool, prompt or resource.
    pub fn title(&self) -> String {
        if let Some(name) = &self.name { format!("{} {name}", self.method) } else { self.method.clone() }
    }
}

impl Round {
    /// Returns the id in the response if its type, or the spelling of an integer, differs from the id in the request.
    pub fn other_id(&self) -> Option<&Id<'static>> {
        let (asked, answered) = (&self.id, &self.answered.as_ref()?.id);
        let is_integer = |id: &Id<'_>| id.as_str().bytes().all(|b| b.is_ascii_digit() || b == b'-');
        let is_rewritten = is_integer(asked) && asked.as_str() != answered.as_str();
        (asked != answered || is_rewritten).then_some(answered)
    }

    /// Returns the time from the request to its response.
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
                // An error message should be one sentence. 200 characters are enough for a sentence.
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

    /// Whether the response is a result of any kind.
    pub fn is_result(&self) -> bool {
        matches!(self, Self::Result | Self::ToolFailed | Self::InputRequired)
    }

    /// Whether the request failed.
    pub fn is_failure(&self) -> bool {
        matches!(self, Self::ToolFailed | Self::Error { .. } | Self::Unreadable)
    }
}
