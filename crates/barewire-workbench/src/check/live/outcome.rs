//! A received frame -> the outcome of a request: a result, an error, or neither.

use serde_json::Value;

use super::recording::LocatedFrame;
use crate::check::finding::Location;

pub(super) enum RequestOutcome {
    Result(LocatedFrame, Value),
    Error(ErrorResponse),
    /// No response arrived in time.
    NoResponse,
    /// The process has exited or closed its stdout.
    Disconnected,
    /// An HTTP response without a message for the request.
    Refused(HttpRefusal),
}

/// An HTTP response without a message for the request.
#[derive(Clone)]
pub(super) struct HttpRefusal {
    /// The HTTP status; `None` if there was no response.
    pub(super) status: Option<u16>,
    pub(super) why: String,
    pub(super) location: Location,
}

#[derive(Clone)]
pub(super) struct ErrorResponse {
    pub(super) frame: LocatedFrame,
    pub(super) code: i64,
    pub(super) error: Value,
}

/// Whether a message is the response to a request. An altered id is also accepted, such as 1.0 or "1" for 1: the
/// passive checks report the altered id, so the probes need not report a missing response.
pub(super) fn is_response_to(message: &Value, id: &str) -> bool {
    let wanted: Value = serde_json::from_str(id).unwrap_or_default();
    let is_same = |got: &Value| {
        *got == wanted
            || matches!((got.as_f64(), wanted.as_i64()), (Some(got), Some(_)) if got.to_string() == id)
            || got.as_str().is_some_and(|got| wanted.is_number() && got == id)
            || got.as_number().is_some_and(|got| wanted.as_str() == Some(&*got.to_string()))
    };
    message.get("method").is_none() && message.get("id").is_some_and(is_same)
}

/// Reads the outcome in a frame, even if the response is malformed. The passive checks report malformed responses.
pub(super) fn outcome(frame: &LocatedFrame) -> RequestOutcome {
    let value: Value = serde_json::from_slice(&frame.bytes).unwrap_or(Value::Null);
    match (value.get("result"), value.get("error")) {
        (None, Some(error)) => {
            RequestOutcome::Error(ErrorResponse { frame: frame.clone(), code: code(error), error: error.clone() })
        }
        (result, _) => RequestOutcome::Result(frame.clone(), result.cloned().unwrap_or_default()),
    }
}

/// Returns the code of an error, even if the code is written as a string.
pub(super) fn code(error: &Value) -> i64 {
    let code = &error["code"];
    let text = code.as_str().map_or_else(|| code.to_string(), ToOwned::to_owned);
    text.strip_suffix(".0").unwrap_or(&text).parse().unwrap_or_default()
}

impl RequestOutcome {
    /// Describes the outcome in a few words, to be used after the word "got".
    pub(super) fn describe(&self) -> String {
        match self {
            Self::Result(_, value) if !value.is_object() => "a result that is not an object".to_owned(),
            Self::Result(..) => "a result".to_owned(),
            Self::Error(response) => format!("error {}", response.code),
            Self::NoResponse => "no response".to_owned(),
            Self::Disconnected => "no response: the process exited or closed its stdout".to_owned(),
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
            Self::Result(frame, _) => Some(frame),
            Self::Error(response) => Some(&response.frame),
            Self::NoResponse | Self::Disconnected | Self::Refused(_) => None,
        }
    }
}
