//! What comes for a request -> a result, an error, or what inbox instead.

use serde_json::Value;

use super::recording::LocatedFrame;
use crate::check::finding::Location;

/// What inbox for a request.
pub(super) enum RequestOutcome {
    Result(LocatedFrame, Value),
    Error(ErrorResponse),
    /// Nothing in time.
    NoResponse,
    /// The program has ended, or closed its stdout.
    Disconnected,
    /// Over HTTP: a response without an answer in it.
    Refused(HttpRefusal),
}

/// A response over HTTP that holds no answer.
#[derive(Clone)]
pub(super) struct HttpRefusal {
    /// `None` if there was no response.
    pub(super) status: Option<u16>,
    pub(super) why: String,
    pub(super) location: Location,
}

/// An error, and where it stands.
#[derive(Clone)]
pub(super) struct ErrorResponse {
    pub(super) line: LocatedFrame,
    pub(super) code: i64,
    pub(super) error: Value,
}

/// Whether a message answers what was asked under this id. It is also an answer if the id comes back in another form, as 1.0 or
/// "1" in place of 1: that this is wrong is told by the passive checks, once, and not as a silence at every turn.
pub(super) fn is_answer(message: &Value, id: &str) -> bool {
    let wanted: Value = serde_json::from_str(id).unwrap_or_default();
    let is_same = |got: &Value| {
        *got == wanted
            || matches!((got.as_f64(), wanted.as_i64()), (Some(got), Some(_)) if got.to_string() == id)
            || got.as_str().is_some_and(|got| wanted.is_number() && got == id)
            || got.as_number().is_some_and(|got| wanted.as_str() == Some(&*got.to_string()))
    };
    message.get("method").is_none() && message.get("id").is_some_and(is_same)
}

/// The answer in a line, as far as it can be read; whether it is well formed is for others to say.
pub(super) fn answer(line: &LocatedFrame) -> RequestOutcome {
    let value: Value = serde_json::from_slice(&line.bytes).unwrap_or(Value::Null);
    match (value.get("result"), value.get("error")) {
        (Some(result), _) => RequestOutcome::Result(line.clone(), result.clone()),
        (None, Some(error)) => {
            RequestOutcome::Error(ErrorResponse { line: line.clone(), code: code(error), error: error.clone() })
        }
        (None, None) => RequestOutcome::Result(line.clone(), Value::Null),
    }
}

/// The code of an error, also if it is written as a string.
pub(super) fn code(error: &Value) -> i64 {
    let code = &error["code"];
    let text = code.as_str().map_or_else(|| code.to_string(), ToOwned::to_owned);
    text.strip_suffix(".0").unwrap_or(&text).parse().unwrap_or_default()
}

impl RequestOutcome {
    /// What was seen, in a few words.
    pub(super) fn describe(&self) -> String {
        match self {
            Self::Result(..) => "a result".to_owned(),
            Self::Error(response) => format!("the error {}", response.code),
            Self::NoResponse => "nothing".to_owned(),
            Self::Disconnected => "nothing: the program has ended".to_owned(),
            Self::Refused(HttpRefusal { status: Some(status), .. }) => {
                format!("the status {status} and no message")
            }
            Self::Refused(HttpRefusal { why, .. }) => format!("nothing: {why}"),
        }
    }

    /// Whether the server has said no, in one way or another.
    pub(super) fn is_refused(&self) -> bool {
        match self {
            Self::Error(_) => true,
            Self::Refused(refusal) => refusal.status.is_some_and(|status| status >= 400),
            _ => false,
        }
    }

    pub(super) fn line(&self) -> Option<&LocatedFrame> {
        match self {
            Self::Result(line, _) => Some(line),
            Self::Error(response) => Some(&response.line),
            Self::NoResponse | Self::Disconnected | Self::Refused(_) => None,
        }
    }
}
