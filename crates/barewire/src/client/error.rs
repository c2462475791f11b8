//! Why something did not come about, by whose fault it is, and what can be done.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use barewire_proto::mcp::{Method, Revision};
use barewire_proto::rpc::{Code, ErrorObject};

#[cfg(feature = "http")]
use super::http::{FetchError, HttpFailure};
use crate::peer::{CallError, ConnectionEnd, shown};
use crate::transport::SpawnError;

/// Why a client could not connect, or a call has no result.
///
/// The first ones are the server's doing, then there are the wire and the clock, and the last ones are ours: reading the
/// code that called shows how to fix them.
#[derive(Clone)]
#[non_exhaustive]
pub enum ClientError {
    /// The program could not be started.
    Spawn(Arc<SpawnError>),
    /// A server at a URL could not be asked, or did not answer.
    #[cfg(feature = "http")]
    Http {
        /// The method that was called; empty if nothing was sent.
        method: String,
        /// What came of it.
        failure: HttpFailure,
    },
    /// There is a server, but no connection came about.
    Handshake {
        /// Why not.
        why: Box<ClientError>,
        /// How it ended: what the server printed instead of messages, and what it complained about on stderr.
        closed: ConnectionEnd,
    },
    /// Both sides speak MCP, but no revision of it that the other one speaks.
    Version {
        /// What this client would have spoken.
        ours: Vec<Revision>,
        /// What the server says it speaks.
        theirs: Vec<String>,
    },
    /// The server understood, and said no.
    Refused {
        /// The method that was called.
        method: String,
        /// What it said.
        error: ErrorObject,
    },
    /// The server broke the protocol.
    Fault {
        /// The method that was called.
        method: String,
        /// How.
        what: String,
    },
    /// There was no answer in time. The server has been told that none is awaited any more.
    TimedOut {
        /// The method that was called.
        method: String,
        /// How long it was waited for; `None` if that was more than one limit.
        after: Option<Duration>,
    },
    /// The connection is over. If the server was a process of ours, it says how it ended and what it wrote to stderr.
    Closed(ConnectionEnd),
    /// The server ended again and again, and is not started any more.
    GaveUp {
        /// How often it was started.
        starts: u32,
        /// How the last of them went.
        last: Box<ClientError>,
    },
    /// The server has not declared what this method needs, so it was not asked.
    NotOffered {
        /// The method that was called.
        method: String,
        /// The capability that it needs, as `resources.subscribe`.
        capability: &'static str,
    },
    /// The revision that is spoken does not have this method, so it was not sent.
    NotInRevision {
        /// The method that was called.
        method: String,
        /// What is spoken.
        revision: Revision,
    },
    /// The parameters cannot be sent.
    Params(String),
    /// A closure that was to answer the server failed, and with it the call that needed the answer.
    Handler {
        /// What the server asked.
        method: String,
        /// What came of it.
        error: ErrorObject,
    },
}

impl ClientError {
    /// What came of a call of `method`.
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
                Self::Fault { method, what: format!("its result is not what was expected: {what}") }
            }
            CallError::Fault(what) => Self::Fault { method, what: format!("its answer is no valid response: {what}") },
            error => Self::Fault { method, what: error.to_string() },
        }
    }

    pub(super) fn fault(method: &str, what: impl Into<String>) -> Self {
        Self::Fault { method: method.to_owned(), what: what.into() }
    }

    /// No connection came about, and this is how it ended. What says enough by itself stays as it is.
    pub(super) fn during_handshake(self, closed: ConnectionEnd) -> Self {
        match self {
            why @ (Self::Refused { .. } | Self::Fault { .. } | Self::TimedOut { .. }) => {
                Self::Handshake { why: Box::new(why), closed }
            }
            other => other,
        }
    }

    /// Whether the session was over before the server looked at what was asked, so that it can be asked in another.
    pub(super) fn is_session_ended(&self) -> bool {
        #[cfg(feature = "http")]
        if let Self::Http { failure: HttpFailure::SessionGone { .. }, .. } = self {
            return true;
        }
        false
    }

    /// The code of the error that the server answered with, if it did.
    pub fn code(&self) -> Option<Code> {
        match self {
            Self::Refused { error, .. } => Some(error.code),
            Self::Handshake { why, .. } | Self::GaveUp { last: why, .. } => why.code(),
            _ => None,
        }
    }

    /// How the connection ended, if that is why there is no result.
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
        match self {
            Self::Spawn(error) => fmt::Display::fmt(error, f),
            #[cfg(feature = "http")]
            Self::Http { method, failure } => match failure {
                HttpFailure::Fetch(error) if !error.may_have_been_sent() => fmt::Display::fmt(error, f),
                failure if method.is_empty() => fmt::Display::fmt(failure, f),
                failure => write!(f, "{} has no result: {failure}", shown(method)),
            },
            Self::Handshake { why, closed } => {
                write!(f, "no connection with the server: {why}")?;
                if let Some(stray) = closed.stray_output() {
                    let (offset, excerpt) = (stray.offset, &stray.excerpt);
                    write!(f, "; it sent something that is no message, at byte {offset}: {excerpt}")?;
                    f.write_str(" (stdout is for messages alone; all else belongs on stderr)")?;
                }
                match closed.exit() {
                    Some(exit) if !exit.stderr.trim().is_empty() || !exit.by_us => write!(f, "; {exit}"),
                    _ => Ok(()),
                }
            }
            Self::Version { ours, theirs } => {
                f.write_str("no revision of MCP in common: the server speaks ")?;
                list(f, theirs.iter().map(|theirs| shown(theirs)))?;
                f.write_str(", this client ")?;
                list(f, ours.iter().map(ToString::to_string))
            }
            Self::Refused { method, error } => {
                write!(f, "{} was refused: {}", shown(method), CallError::Refused(error.clone()))
            }
            Self::Fault { method, what } => {
                write!(f, "the server broke the protocol when asked {}: {}", shown(method), shown(what))
            }
            Self::TimedOut { method, after: Some(after) } => {
                write!(f, "no answer to {} within {after:?}: .timeout(..) waits longer", shown(method))
            }
            Self::TimedOut { method, after: None } => write!(f, "no answer to {} in time", shown(method)),
            Self::Closed(closed) => fmt::Display::fmt(closed, f),
            Self::GaveUp { starts, last } => {
                write!(f, "the server has been started {starts} times and is given up: {last}")
            }
            Self::NotOffered { method, capability } => write!(
                f,
                "{} was not sent: the server does not declare {capability}; .lenient() sends it all the same",
                shown(method)
            ),
            Self::NotInRevision { method, revision } => not_in_revision(f, method, *revision),
            Self::Params(what) => write!(f, "the params cannot be sent: {what}"),
            Self::Handler { method, error } => {
                let (method, said) = (shown(method), shown(&error.message));
                write!(f, "the server asked {method}, and what was to answer it failed: {said} ({})", error.code)
            }
        }
    }
}

/// As [`fmt::Display`] has it: this is what a `main` that returns an error prints.
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

fn not_in_revision(f: &mut fmt::Formatter<'_>, method: &str, revision: Revision) -> fmt::Result {
    write!(f, "{} was not sent: revision {revision}, which is spoken here, does not have it", shown(method))?;
    let known = Method::find(method);
    match known.map(|known| (known.since(), known.instead)) {
        Some((Some(since), _)) if since > revision => write!(f, " (it came with {since})"),
        Some((_, Some(instead))) => write!(f, "; instead: {instead}"),
        _ => Ok(()),
    }
}

fn list(f: &mut fmt::Formatter<'_>, names: impl Iterator<Item = String>) -> fmt::Result {
    let names: Vec<String> = names.take(MAX_VERSIONS_SHOWN).collect();
    f.write_str(if names.is_empty() { "none" } else { "" })?;
    f.write_str(&names.join(", "))
}

/// So many versions are listed: more than there are revisions, but not all that a server might make up.
const MAX_VERSIONS_SHOWN: usize = 12;
