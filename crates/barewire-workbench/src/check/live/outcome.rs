//! A received frame -> the outcome of a request: a result, an error, or neither.

use std::borrow::Cow;

use barewire_proto::json::{Decimal, Json, Kind, Text};

use super::recording::LocatedFrame;
use crate::check::excerpt::Excerpt;
use crate::check::finding::Location;

pub(super) enum RequestOutcome {
    Result(ResultResponse),
    Error(ErrorResponse),
    /// No response to this request arrived in time.
    NoResponse(SentRequest),
    /// The process has exited or closed its stdout, and has not answered this request.
    Disconnected(SentRequest),
    /// An HTTP response without a message for the request.
    Refused(HttpRefusal),
}

/// A request that was sent, as evidence; `None` if it is not known any more.
pub(super) type SentRequest = Option<Box<Excerpt>>;

/// An HTTP response without a message for the request.
#[derive(Clone)]
pub(super) struct HttpRefusal {
    /// The HTTP status; `None` if there was no response.
    pub(super) status: Option<u16>,
    pub(super) why: String,
    pub(super) location: Location,
    pub(super) request: SentRequest,
}

/// A response with a result, or with neither a result nor an error. The result stays text: a tree of its values could
/// take 290 times the memory.
#[derive(Clone)]
pub(super) struct ResultResponse {
    pub(super) frame: LocatedFrame,
}

#[derive(Clone)]
pub(super) struct ErrorResponse {
    pub(super) frame: LocatedFrame,
    pub(super) code: i64,
}

impl ResultResponse {
    /// Returns the part of the result at this path of member names.
    pub(super) fn at(&self, path: &[&str]) -> Option<Json<'_>> {
        self.frame.json()?.member("result")?.at(path)
    }

    /// Returns the string in the result at this path of member names.
    pub(super) fn string(&self, path: &[&str]) -> Option<Cow<'_, str>> {
        self.at(path)?.string()
    }

    pub(super) fn is_object(&self) -> bool {
        self.at(&[]).is_some_and(|result| result.kind() == Kind::Object)
    }
}

impl ErrorResponse {
    /// Returns the part of the error at this path of member names.
    pub(super) fn at(&self, path: &[&str]) -> Option<Json<'_>> {
        self.frame.json()?.member("error")?.at(path)
    }

    pub(super) fn message(&self) -> Cow<'_, str> {
        self.at(&["message"]).and_then(Json::string).unwrap_or_default()
    }
}

/// Whether a message is the response to a request. An altered id is also accepted, such as 1.0 or "1" for 1: the
/// passive checks report the altered id, so the probes need not report a missing response.
pub(super) fn is_response_to(message: Json<'_>, id: &str) -> bool {
    let Some(wanted) = Json::parse(id.as_bytes()).ok() else { return false };
    let is_same = |got: Json<'_>| match (got.kind(), wanted.kind()) {
        (Kind::String, Kind::Number) => Text::from_json(got).is_some_and(|got| got == id),
        (Kind::Number, Kind::String) => Text::from_json(wanted).is_some_and(|wanted| wanted == got.as_str()),
        _ => is_same_value(got, id),
    };
    message.member("method").is_none() && message.member("id").is_some_and(is_same)
}

/// Whether a string or a number has the value of this one, given as JSON text.
pub(super) fn is_same_value(got: Json<'_>, wanted: &str) -> bool {
    let Some(wanted) = Json::parse(wanted.as_bytes()).ok() else { return false };
    match (got.kind(), wanted.kind()) {
        (Kind::Number, Kind::Number) => Decimal::from_json(got) == Decimal::from_json(wanted),
        (Kind::String, Kind::String) => Text::from_json(got) == Text::from_json(wanted),
        _ => false,
    }
}

/// Reads the outcome in a frame, even if the response is malformed. The passive checks report malformed responses.
pub(super) fn outcome(frame: LocatedFrame) -> RequestOutcome {
    let error = frame.json().filter(|it| it.member("result").is_none()).and_then(|it| it.member("error"));
    match error.map(code) {
        Some(code) => RequestOutcome::Error(ErrorResponse { frame, code }),
        None => RequestOutcome::Result(ResultResponse { frame }),
    }
}

/// Returns the code of an error, even if the code is written as a string.
pub(super) fn code(error: Json<'_>) -> i64 {
    let Some(code) = error.member("code") else { return 0 };
    let text = code.string().unwrap_or(Cow::Borrowed(code.as_str()));
    text.strip_suffix(".0").unwrap_or(&text).parse().unwrap_or_default()
}

impl RequestOutcome {
    /// Describes the outcome in a few words, to be used after the word "got".
    pub(super) fn describe(&self) -> String {
        match self {
            Self::Result(response) if !response.is_object() => "a result that is not an object".to_owned(),
            Self::Result(..) => "a result".to_owned(),
            Self::Error(response) => format!("error {}", response.code),
            Self::NoResponse(_) => "no response".to_owned(),
            Self::Disconnected(_) => "no response: the process exited or closed its stdout".to_owned(),
            Self::Refused(HttpRefusal { status: Some(status), .. }) => {
                format!("HTTP status {status} without a message")
            }
            Self::Refused(HttpRefusal { why, .. }) => format!("no response: {why}"),
        }
    }

    /// Whether the outcome is a JSON-RPC error or an HTTP error status.
    pub(super) fn is_refused(&self) -> bool {
        match self {
            Self::Error(_) => true,
            Self::Refused(refusal) => refusal.status.is_some_and(|status| status >= 400),
            _ => false,
        }
    }

    pub(super) fn frame(&self) -> Option<&LocatedFrame> {
        match self {
            Self::Result(response) => Some(&response.frame),
            Self::Error(response) => Some(&response.frame),
            Self::NoResponse(_) | Self::Disconnected(_) | Self::Refused(_) => None,
        }
    }
}
