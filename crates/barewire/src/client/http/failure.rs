//! Why an exchange over HTTP did not bring what it should, and what can be done about it.

use std::fmt;
use std::sync::Arc;

use barewire_proto::http::ResponseKind;
use barewire_proto::http::challenge::{self, Challenge};
use http::{HeaderMap, StatusCode};

use super::FetchError;
use super::fetch::Response;
use crate::headers::Of;
use crate::peer::{CallError, shown};

/// Why something that was sent over HTTP has no result.
///
/// Servers are named by their origin: paths and queries may hold secrets, and tokens are nowhere in here.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum HttpFailure {
    /// There is no answer, or not all of it.
    Fetch(FetchError),
    /// 401: the server wants to know who asks.
    Unauthorized {
        /// Who said so.
        origin: String,
        /// What it wants, as far as it says: schemes, scopes, where to get a token.
        challenge: String,
    },
    /// 403: the server says no, whoever asks.
    Forbidden {
        /// Who said so.
        origin: String,
        /// Why, as far as it says.
        why: String,
    },
    /// An answer that MCP does not have.
    Status {
        /// Whose.
        origin: String,
        /// Its status.
        status: u16,
        /// How it begins, on one line.
        text: String,
    },
    /// The session is over, and the server has not looked at what was sent in it.
    SessionGone {
        /// Whose.
        origin: String,
    },
    /// The server took the request, and nobody will know what came of it.
    NotAnswered {
        /// Who did.
        origin: String,
        /// How that is known.
        why: String,
    },
    /// The stream that HTTP+SSE begins with does not lead to where messages can be sent.
    Endpoint {
        /// Whose.
        origin: String,
        /// Why not.
        why: String,
    },
}

impl HttpFailure {
    /// Why an answer is none.
    pub(super) fn in_answer(response: &Response, reading: ResponseKind) -> Self {
        match reading {
            ResponseKind::SessionGone => Self::SessionGone { origin: origin(response) },
            ResponseKind::Unauthorized => Self::unauthorized(response),
            ResponseKind::Forbidden { error } => Self::forbidden(response, error.as_ref().map(|error| &*error.message)),
            ResponseKind::Error { error, .. } => Self::status(response, CallError::Refused(error).to_string()),
            ResponseKind::NotMcp { text, .. } => Self::status(response, text),
            ResponseKind::Json | ResponseKind::Events | ResponseKind::Accepted => Self::status(response, String::new()),
        }
    }

    /// What a 401 says.
    fn unauthorized(response: &Response) -> Self {
        Self::Unauthorized { origin: origin(response), challenge: wanted(&response.headers) }
    }

    /// What a 403 says, with `why` if its body says more.
    fn forbidden(response: &Response, why: Option<&str>) -> Self {
        let mut said = why.map(shown).unwrap_or_default();
        let wanted = wanted(&response.headers);
        if !said.is_empty() && !wanted.is_empty() {
            said.push_str("; ");
        }
        said.push_str(&wanted);
        Self::Forbidden { origin: origin(response), why: said }
    }

    fn status(response: &Response, text: String) -> Self {
        Self::Status { origin: origin(response), status: response.status.as_u16(), text }
    }

    pub(super) fn not_answered(response: &Response, why: impl Into<String>) -> Self {
        Self::NotAnswered { origin: origin(response), why: why.into() }
    }

    /// Why a call failed, if this is why.
    pub(in crate::client) fn of(error: &CallError) -> Option<&Self> {
        match error {
            CallError::Carrier(why) => why.downcast_ref(),
            _ => None,
        }
    }

    /// Whether the same may go well a moment later.
    pub(super) fn is_passing(&self) -> bool {
        match self {
            Self::Fetch(error) => !matches!(
                error,
                FetchError::Url(_) | FetchError::Header { .. } | FetchError::Roots(_) | FetchError::TooLong { .. }
            ),
            Self::Status { status, .. } => matches!(status, 408 | 429 | 500..),
            _ => false,
        }
    }

    /// Whether a stream that worked has broken off, or cannot be had for the moment.
    pub(in crate::client) fn is_broken(&self) -> bool {
        self.is_passing() || matches!(self, Self::NotAnswered { .. })
    }

    /// The status that the server answered with, if that is what is wrong.
    pub fn code(&self) -> Option<u16> {
        match self {
            Self::Unauthorized { .. } => Some(401),
            Self::Forbidden { .. } => Some(403),
            Self::Status { status, .. } => Some(*status),
            Self::SessionGone { .. } => Some(404),
            _ => None,
        }
    }
}

pub(super) fn origin(response: &Response) -> String {
    response.url.origin().to_string()
}

/// What the challenges of an answer ask for, in a sentence. What a server says is shown escaped.
fn wanted(headers: &HeaderMap) -> String {
    let said = challenge::parse(&Of(headers)).iter().take(SHOWN).map(sentence).collect::<Vec<_>>();
    said.join(" or ")
}

fn sentence(challenge: &Challenge) -> String {
    let mut said = shown(&challenge.scheme);
    for name in ["error", "error_description", "scope", "resource_metadata"] {
        if let Some(value) = challenge.param(name) {
            said.push_str(&format!(" {name}=\"{}\"", shown(value)));
        }
    }
    said
}

impl fmt::Display for HttpFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fetch(error) => fmt::Display::fmt(error, f),
            Self::Unauthorized { origin, challenge } => {
                write!(f, "{} wants to know who asks (401 Unauthorized)", shown(origin))?;
                if !challenge.is_empty() {
                    write!(f, ": {challenge}")?;
                }
                f.write_str("; Endpoint::bearer(..) sends a token, and Endpoint::on_challenge(..) can get one")
            }
            Self::Forbidden { origin, why } => {
                write!(f, "{} does not allow it (403 Forbidden)", shown(origin))?;
                match why.is_empty() {
                    true => f.write_str("; a token with more rights might be what it wants"),
                    false => write!(f, ": {why}"),
                }
            }
            Self::Status { origin, status, text } => status_line(f, origin, *status, text),
            Self::SessionGone { origin } => write!(f, "the session with {} is over", shown(origin)),
            Self::NotAnswered { origin, why } => {
                write!(f, "{} took it and did not answer: {why}; it may have been done", shown(origin))
            }
            Self::Endpoint { origin, why } => {
                write!(f, "the stream of {} does not say where to send messages: {why}", shown(origin))
            }
        }
    }
}

fn status_line(f: &mut fmt::Formatter<'_>, origin: &str, status: u16, text: &str) -> fmt::Result {
    let reason = StatusCode::from_u16(status).ok().and_then(|status| status.canonical_reason()).unwrap_or("");
    let status_text = format!("{status} {reason}");
    write!(f, "{} answered {}", shown(origin), status_text.trim_end())?;
    if !matches!(text, "" | "\"\"") {
        write!(f, ": {text}")?;
    }
    f.write_str(match status {
        200..=299 => ", and that is not MCP; is this the path of the MCP endpoint?",
        404 | 405 => "; is this the path of the MCP endpoint?",
        429 => "; later it may take it",
        500..=599 => "; it failed, and its own log should say why",
        _ => "",
    })
}

impl std::error::Error for HttpFailure {}

impl From<FetchError> for HttpFailure {
    fn from(error: FetchError) -> Self {
        Self::Fetch(error)
    }
}

impl From<HttpFailure> for CallError {
    fn from(failure: HttpFailure) -> Self {
        Self::Carrier(Arc::new(failure))
    }
}

impl From<FetchError> for CallError {
    fn from(error: FetchError) -> Self {
        HttpFailure::Fetch(error).into()
    }
}

/// So many challenges are shown: a server has one, or two while it moves from one scheme to another.
const SHOWN: usize = 3;
