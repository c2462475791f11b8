//! Client errors: the cause, the party at fault, and a hint.

use std::fmt::{self, Write as _};
use std::sync::Arc;
use std::time::Duration;

use barewire_proto::mcp::{Method, Revision};
use barewire_proto::rpc::{Code, ErrorObject};
use barewire_proto::transcript::EscapeWriter;

#[cfg(feature = "http")]
use super::http::{FetchError, HttpFailure};
use crate::peer::{CallError, ConnectionEnd, shown};
use crate::transport::SpawnError;

/// The reason why a client could not connect, or why a call has no result.
///
/// The variants are ordered by cause: first the server, then the connection and timeouts, then the calling code.
#[derive(Clone)]
#[non_exhaustive]
pub enum ClientError {
    /// The server program could not be started.
    Spawn(Arc<SpawnError>),
    /// A server at a URL could not be reached, or did not send a valid response.
    #[cfg(feature = "http")]
    Http {
        /// The method that was called; empty if nothing was sent.
        method: String,
        /// The failure.
        failure: HttpFailure,
    },
    /// The transport was opened, but the handshake failed.
    Handshake {
        /// The reason why the handshake failed.
        why: Box<ClientError>,
        /// How the connection ended, with any output on the server's stdout that is not a message, and with the last
        /// lines of the server's stderr.
        closed: ConnectionEnd,
    },
    /// The client and the server have no revision in common.
    Version {
        /// The revisions that the client accepts.
        ours: Vec<Revision>,
        /// The revisions that the server lists.
        theirs: Vec<String>,
    },
    /// The server sent an error response.
    Refused {
        /// The method that was called.
        method: String,
        /// The error.
        error: ErrorObject,
    },
    /// The server broke the protocol.
    Fault {
        /// The method that was called.
        method: String,
        /// A description of the fault.
        what: String,
    },
    /// No response arrived in time. The call has been cancelled.
    TimedOut {
        /// The method that was called.
        method: String,
        /// The timeout that expired; `None` if the call also had a total limit, because it is unknown which of the two
        /// expired.
        after: Option<Duration>,
    },
    /// The connection has ended. For a server process, the value holds the exit status and the last lines of stderr.
    Closed(ConnectionEnd),
    /// The server ended repeatedly, and the client does not start it again.
    GaveUp {
        /// The number of starts since the server last ran for a minute.
        starts: u32,
        /// The error of the last start.
        last: Box<ClientError>,
    },
    /// The server has not declared the capability that this method needs, so the request was not sent.
    NotOffered {
        /// The method that was called.
        method: String,
        /// The capability, such as `resources.subscribe`.
        capability: &'static str,
    },
    /// The negotiated revision does not define this method, so the request was not sent.
    NotInRevision {
        /// The method that was called.
        method: String,
        /// The negotiated revision.
        revision: Revision,
    },
    /// The task that the call ran as was cancelled.
    TaskCancelled {
        /// The id of the task.
        id: String,
    },
    /// The params of the call cannot be sent. The text is the reason.
    Params(String),
    /// A handler for a request of the server failed, so the call that needed the handler's answer failed too.
    Handler {
        /// The method of the server's request.
        method: String,
        /// The handler's error.
        error: ErrorObject,
    },
}

impl ClientError {
    /// Converts the error of a call to `method`. `after` is the call's timeout.
    pub(super) fn from_call(method: &str, after: Option<Duration>, error: CallError) -> Self {
        let method = method.to_owned();
        #[cfg(feature = "http")]
        if let Some(failure) = HttpFailure::from_call_error(&error) {
            return Self::Http { method, failure: failure.clone() };
        }
        match error {
            CallError::Refused(error) => Self::Refused { method, error },
            CallError::TimedOut => Self::TimedOut { method, after },
            CallError::Params(what) => Self::Params(what),
            CallError::Closed(closed) => Self::Closed(closed),
            CallError::Result(what) => {
                Self::Fault { method, what: format!("its result does not have the expected type: {what}") }
            }
            CallError::Fault(what) => Self::Fault { method, what: format!("its response is not valid: {what}") },
            error => Self::Fault { method, what: error.to_string() },
        }
    }

    pub(super) fn fault(method: &str, what: impl Into<String>) -> Self {
        Self::Fault { method: method.to_owned(), what: what.into() }
    }

    /// Adds the end of the connection to a refusal, a protocol fault or a timeout during the handshake. Other errors
    /// already contain their cause and are returned unchanged.
    pub(super) fn during_handshake(self, closed: ConnectionEnd) -> Self {
        match self {
            why @ (Self::Refused { .. } | Self::Fault { .. } | Self::TimedOut { .. }) => {
                Self::Handshake { why: Box::new(why), closed }
            }
            other => other,
        }
    }

    /// Whether the session had ended before the server handled the request, so that the request can be sent in a new
    /// session.
    pub(super) fn is_session_ended(&self) -> bool {
        #[cfg(feature = "http")]
        if let Self::Http { failure: HttpFailure::SessionGone { .. }, .. } = self {
            return true;
        }
        false
    }

    /// Returns the code of the server's error response, if the server sent an error response.
    pub fn code(&self) -> Option<Code> {
        match self {
            Self::Refused { error, .. } => Some(error.code),
            Self::Handshake { why, .. } | Self::GaveUp { last: why, .. } => why.code(),
            _ => None,
        }
    }

    /// Returns how the connection ended, if this error holds that information.
    pub fn connection_end(&self) -> Option<&ConnectionEnd> {
        match self {
            Self::Closed(closed) | Self::Handshake { closed, .. } => Some(closed),
            Self::GaveUp { last, .. } => last.connection_end(),
            _ => None,
        }
    }
}

impl fmt::Display for ClientError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let f = &mut EscapeWriter::new(f);
        match self {
            Self::Spawn(error) => write!(f, "{error}"),
            #[cfg(feature = "http")]
            Self::Http { method, failure } => match failure {
                HttpFailure::Fetch(error) if !error.may_have_been_sent() => write!(f, "{error}"),
                failure if method.is_empty() => write!(f, "{failure}"),
                failure => write!(f, "{} has no result: {failure}", shown(method)),
            },
            Self::Handshake { why, closed } => {
                write!(f, "the handshake with the server failed: {why}")?;
                if let Some(stray) = closed.stray_output() {
                    let (offset, excerpt) = (stray.offset, &stray.excerpt);
                    write!(f, "; its output at byte {offset} is not a message: {excerpt}")?;
                    f.write_str(" (stdout is for messages only; send other output to stderr)")?;
                }
                match closed.exit() {
                    Some(exit) if !exit.stderr.trim().is_empty() || !exit.by_us => write!(f, "; {exit}"),
                    _ => Ok(()),
                }
            }
            Self::Version { ours, theirs } => {
                f.write_str("no common MCP revision: the server supports ")?;
                list(f, theirs.iter().map(|theirs| shown(theirs)))?;
                f.write_str("; this client supports ")?;
                list(f, ours.iter().map(ToString::to_string))
            }
            Self::Refused { method, error } => {
                write!(f, "{} was refused: {}", shown(method), CallError::Refused(error.clone()))
            }
            Self::Fault { method, what } => {
                write!(f, "the server broke the protocol in response to {}: {}", shown(method), shown(what))
            }
            Self::TimedOut { method, after: Some(after) } => {
                write!(f, "no response to {} within {after:?}; .timeout(..) sets a longer limit", shown(method))
            }
            Self::TimedOut { method, after: None } => write!(f, "no response to {} in time", shown(method)),
            Self::Closed(closed) => write!(f, "{closed}"),
            Self::GaveUp { starts, last } => {
                write!(f, "gave up on the server after {starts} starts: {last}")
            }
            Self::NotOffered { method, capability } => write!(
                f,
                "{} was not sent: the server does not declare {capability}; .lenient() sends it anyway",
                shown(method)
            ),
            Self::NotInRevision { method, revision } => not_in_revision(f, method, *revision),
            Self::TaskCancelled { id } => write!(f, "the task {} was cancelled", shown(id)),
            Self::Params(what) => write!(f, "the params cannot be sent: {what}"),
            Self::Handler { method, error } => {
                let (method, said) = (shown(method), shown(&error.message));
                write!(f, "the handler for the server's {method} request failed: {said} ({})", error.code)
            }
        }
    }
}

/// The same text as [`fmt::Display`], because a `main` that returns an error prints its `Debug` form.
impl fmt::Debug for ClientError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for ClientError {}

#[cfg(feature = "http")]
impl From<FetchError> for ClientError {
    fn from(error: FetchError) -> Self {
        Self::Http { method: String::new(), failure: error.into() }
    }
}

impl From<SpawnError> for ClientError {
    fn from(error: SpawnError) -> Self {
        Self::Spawn(Arc::new(error))
    }
}

fn not_in_revision(f: &mut impl fmt::Write, method: &str, revision: Revision) -> fmt::Result {
    write!(f, "{} was not sent: the negotiated revision {revision} does not define it", shown(method))?;
    let known = Method::find(method);
    match known.map(|known| (known.since(), known.instead)) {
        Some((Some(since), _)) if since > revision => write!(f, " (it was added in {since})"),
        Some((_, Some(instead))) => write!(f, "; instead: {instead}"),
        _ => Ok(()),
    }
}

fn list(f: &mut impl fmt::Write, names: impl Iterator<Item = String>) -> fmt::Result {
    let names: Vec<String> = names.take(MAX_VERSIONS_SHOWN).collect();
    f.write_str(if names.is_empty() { "none" } else { "" })?;
    f.write_str(&names.join(", "))
}

/// The maximum number of versions in an error message: more than there are MCP revisions. The number is limited because
/// a server can list any number of versions.
const MAX_VERSIONS_SHOWN: usize = 12;
