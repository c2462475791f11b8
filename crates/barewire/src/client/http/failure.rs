//! Failures of an HTTP exchange, with hints for the user.

use std::fmt::{self, Write as _};
use std::sync::Arc;

use barewire_proto::http::ResponseKind;
use barewire_proto::http::challenge::{self, Challenge};
use barewire_proto::transcript::EscapeWriter;
use http::StatusCode;

use super::FetchError;
use super::fetch::FetchResponse;
use crate::headers::HeaderMapView;
use crate::peer::{CallError, shown};

/// The reason why a message sent over HTTP has no result.
///
/// Errors name a server only by its origin, because paths and queries can contain secrets. Errors contain no tokens.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum HttpFailure {
    /// No response arrived, or only a part of a response.
    Fetch(FetchError),
    /// 401: the server requires a token.
    Unauthorized {
        /// The origin of the server.
        origin: String,
        /// The requirements in the response: schemes, scopes, where to get a token.
        challenge: String,
    },
    /// 403: the server does not allow the request.
    Forbidden {
        /// The origin of the server.
        origin: String,
        /// The reason that the response gives; can be empty.
        why: String,
    },
    /// A response that MCP does not expect, such as an error status or a web page.
    Status {
        /// The origin of the server.
        origin: String,
        /// The HTTP status.
        status: u16,
        /// The beginning of the body, on one line.
        text: String,
    },
    /// The session has ended, and the server has not handled the message.
    SessionGone {
        /// The origin of the server.
        origin: String,
    },
    /// The server accepted the request but did not respond; the outcome is unknown.
    NotAnswered {
        /// The origin of the server.
        origin: String,
        /// A description of the failure.
        why: String,
    },
    /// The HTTP+SSE stream does not name a usable URL for messages.
    Endpoint {
        /// The origin of the server.
        origin: String,
        /// The reason why the URL is not usable.
        why: String,
    },
}

impl HttpFailure {
    /// Returns the failure for an HTTP response that does not hold a message.
    pub(super) fn from_response(response: &FetchResponse, reading: ResponseKind) -> Self {
        match reading {
            ResponseKind::SessionGone => Self::SessionGone { origin: origin(response) },
            ResponseKind::Unauthorized => Self::unauthorized(response),
            ResponseKind::Forbidden { error } => Self::forbidden(response, error.as_ref().map(|error| &*error.message)),
            ResponseKind::Error { error, .. } => Self::bad_status(response, CallError::Refused(error).to_string()),
            ResponseKind::NotMcp { text, .. } => Self::bad_status(response, text),
            ResponseKind::Json | ResponseKind::Events | ResponseKind::Accepted => {
                Self::bad_status(response, String::new())
            }
        }
    }

    /// Returns the failure for a 401 response.
    fn unauthorized(response: &FetchResponse) -> Self {
        Self::Unauthorized { origin: origin(response), challenge: challenges_text(response) }
    }

    /// Returns the failure for a 403 response; `why` is the error message in the body.
    fn forbidden(response: &FetchResponse, why: Option<&str>) -> Self {
        let mut said = why.map(shown).unwrap_or_default();
        let wanted = challenges_text(response);
        if !said.is_empty() && !wanted.is_empty() {
            said.push_str("; ");
        }
        said.push_str(&wanted);
        Self::Forbidden { origin: origin(response), why: said }
    }

    fn bad_status(response: &FetchResponse, text: String) -> Self {
        Self::Status { origin: origin(response), status: response.status.as_u16(), text }
    }

    pub(super) fn not_answered(response: &FetchResponse, why: impl Into<String>) -> Self {
        Self::NotAnswered { origin: origin(response), why: why.into() }
    }

    /// Returns the HTTP failure that caused a call error, if there is one.
    pub(in crate::client) fn from_call_error(error: &CallError) -> Option<&Self> {
        match error {
            CallError::Carrier(why) => why.downcast_ref(),
            _ => None,
        }
    }

    /// Whether the same request might succeed a moment later.
    pub(super) fn is_temporary(&self) -> bool {
        match self {
            Self::Fetch(error) => !matches!(
                error,
                FetchError::Url(_) | FetchError::Header { .. } | FetchError::Roots(_) | FetchError::TooLong { .. }
            ),
            Self::Status { status, .. } => matches!(status, 408 | 429 | 500..),
            _ => false,
        }
    }

    /// Whether a working stream has broken off, or cannot be opened at the moment.
    pub(in crate::client) fn is_stream_loss(&self) -> bool {
        self.is_temporary() || matches!(self, Self::NotAnswered { .. })
    }

    /// Returns the HTTP status of the response that caused the failure; `None` if no response caused it.
    pub fn status(&self) -> Option<u16> {
        match self {
            Self::Unauthorized { .. } => Some(401),
            Self::Forbidden { .. } => Some(403),
            Self::Status { status, .. } => Some(*status),
            Self::SessionGone { .. } => Some(404),
            _ => None,
        }
    }
}

pub(super) fn origin(response: &FetchResponse) -> String {
    response.url.origin().to_string()
}

/// Returns the authentication challenges of a response on one line. Text from the server is escaped.
fn challenges_text(response: &FetchResponse) -> String {
    let said = challenge::parse(&HeaderMapView(&response.headers))
        .iter()
        .take(MAX_CHALLENGES_SHOWN)
        .map(|challenge| challenge_text(challenge, response))
        .collect::<Vec<_>>();
    said.join(" or ")
}

fn challenge_text(challenge: &Challenge, response: &FetchResponse) -> String {
    let mut said = shown(&response.without_secrets(&challenge.scheme));
    for name in ["error", "error_description", "scope", "resource_metadata"] {
        if let Some(value) = challenge.param(name) {
            said.push_str(&format!(" {name}=\"{}\"", shown(&response.without_secrets(value))));
        }
    }
    said
}

impl fmt::Display for HttpFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let f = &mut EscapeWriter::new(f);
        match self {
            Self::Fetch(error) => write!(f, "{error}"),
            Self::Unauthorized { origin, challenge } => {
                write!(f, "{} requires authentication (401 Unauthorized)", shown(origin))?;
                if !challenge.is_empty() {
                    write!(f, ": {challenge}")?;
                }
                f.write_str("; send a token with Endpoint::bearer(..), or get one with Endpoint::on_challenge(..)")
            }
            Self::Forbidden { origin, why } => {
                write!(f, "{} does not allow the request (403 Forbidden)", shown(origin))?;
                match why.is_empty() {
                    true => f.write_str("; it may require a token with more rights"),
                    false => write!(f, ": {why}"),
                }
            }
            Self::Status { origin, status, text } => status_line(f, origin, *status, text),
            Self::SessionGone { origin } => write!(f, "the session with {} has ended", shown(origin)),
            Self::NotAnswered { origin, why } => {
                write!(
                    f,
                    "{} accepted the request but did not respond: {why}; the request may have been carried out",
                    shown(origin)
                )
            }
            Self::Endpoint { origin, why } => {
                write!(f, "the HTTP+SSE stream of {} does not name a usable URL for messages: {why}", shown(origin))
            }
        }
    }
}

fn status_line(f: &mut impl fmt::Write, origin: &str, status: u16, text: &str) -> fmt::Result {
    let reason = StatusCode::from_u16(status).ok().and_then(|status| status.canonical_reason()).unwrap_or("");
    let status_text = format!("{status} {reason}");
    write!(f, "{} answered {}", shown(origin), status_text.trim_end())?;
    if !matches!(text, "" | "\"\"") {
        write!(f, ": {text}")?;
    }
    f.write_str(match status {
        200..=299 => ", but not with MCP; is this the path of the MCP endpoint?",
        404 | 405 => "; is this the path of the MCP endpoint?",
        429 => "; try again later",
        500..=599 => "; the server failed, and its log should say why",
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

/// The maximum number of challenges to show. A server usually sends one challenge, or two while it changes from one
/// scheme to another.
const MAX_CHALLENGES_SHOWN: usize = 3;
