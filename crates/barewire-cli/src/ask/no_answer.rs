//! The error of a client -> a word for scripts, a sentence, and what to do about it.

use std::borrow::Cow;
use std::fmt;
use std::io;
use std::time::Duration;

use barewire::client::ClientError;
use barewire::client::http::HttpFailure;
use barewire::peer::{ConnectionEnd, EndReason};
use barewire::transport::SpawnError;
use barewire_proto::mcp::Revision;

use crate::Failure;
use crate::output::shown;
use crate::platform::Signals;

/// The options of the command line that matter to the hint when there is no answer.
pub(crate) struct RequestContext {
    pub(crate) revision: Option<Revision>,
    pub(crate) timeout: Duration,
    pub(crate) over_http: bool,
    pub(crate) with_bearer: bool,
}

/// The reason why a request has no answer.
pub(crate) struct NoAnswer {
    pub(crate) reason: Reason,
    pub(crate) what: String,
    pub(crate) hint: Option<Cow<'static, str>>,
}

#[derive(Clone, Copy)]
pub(crate) enum Reason {
    NotStarted,
    NotConnected,
    Unauthorized,
    Http,
    NoHandshake,
    NoRevision,
    Closed,
    ContentLength,
    BadAnswer,
    TimedOut,
    Cancelled,
    NotOffered,
    NotInRevision,
    NoSuchName,
    BadArguments,
}

impl Reason {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::NotStarted => "not-started",
            Self::NotConnected => "not-connected",
            Self::Unauthorized => "unauthorized",
            Self::Http => "http",
            Self::NoHandshake => "no-handshake",
            Self::NoRevision => "no-revision",
            Self::Closed => "closed",
            Self::ContentLength => "content-length",
            Self::BadAnswer => "bad-answer",
            Self::TimedOut => "timed-out",
            Self::Cancelled => "cancelled",
            Self::NotOffered => "not-offered",
            Self::NotInRevision => "not-in-revision",
            Self::NoSuchName => "no-such-name",
            Self::BadArguments => "bad-arguments",
        }
    }
}

impl NoAnswer {
    pub(crate) fn not_started(error: &SpawnError) -> Self {
        let hint = match error {
            SpawnError::NotFound { program } if program.contains(' ') => {
                Some("the program and its arguments are words of their own: do not quote them together")
            }
            SpawnError::NotFound { program } if program.contains('/') => Some("check the path"),
            SpawnError::NotFound { .. } => Some("is it installed? a program of this directory is named ./PROGRAM"),
            SpawnError::NotExecutable { .. } => {
                Some("chmod +x makes a script a program; or name what runs it: -- python3 server.py")
            }
            SpawnError::NoInterpreter { .. } => Some("install it, or name another: -- python3 server.py"),
            _ => None,
        };
        Self { reason: Reason::NotStarted, what: error.to_string(), hint: hint.map(Cow::Borrowed) }
    }

    pub(crate) fn not_connected(address: &impl fmt::Display, error: &io::Error) -> Self {
        let hint = match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => Some("is the server running?"),
            io::ErrorKind::PermissionDenied => Some("ls -l shows who may connect"),
            _ => None,
        };
        let what = format!("cannot connect to {address}: {error}");
        Self { reason: Reason::NotConnected, what, hint: hint.map(Cow::Borrowed) }
    }

    pub(crate) fn cancelled(signal: &str) -> Self {
        Self { reason: Reason::Cancelled, what: format!("cancelled by {signal}"), hint: None }
    }

    /// Makes it of the error of a client of MCP. A refusal is an answer and does not come here.
    pub(crate) fn from_client(error: &ClientError, context: &RequestContext) -> Self {
        let said =
            |reason, what: String, hint: Option<&'static str>| Self { reason, what, hint: hint.map(Cow::Borrowed) };
        let any_revision = context.revision.map(|_| "without --revision, one is found that both sides speak");
        match error {
            ClientError::Spawn(error) => Self::not_started(error),
            ClientError::Http { failure, .. } => Self::http(failure, context),
            ClientError::Closed(closed) => Self::closed(closed),
            ClientError::Handshake { why, closed } => {
                let mut missed = Self::handshake(why, closed, context);
                missed.hint = missed.hint.or(any_revision.map(Cow::Borrowed));
                missed
            }
            ClientError::Version { .. } => said(Reason::NoRevision, error.to_string(), any_revision),
            ClientError::TimedOut { method, .. } => Self::timed_out(method, context),
            ClientError::NotOffered { method, capability } => said(
                Reason::NotOffered,
                format!("{method} was not sent: the server does not declare {capability}"),
                Some("--lenient sends it all the same"),
            ),
            ClientError::NotInRevision { .. } => said(
                Reason::NotInRevision,
                error.to_string(),
                Some("--revision speaks another one, --lenient sends it all the same"),
            ),
            ClientError::Params(_) => said(Reason::BadArguments, error.to_string(), None),
            error => said(Reason::BadAnswer, error.to_string(), None),
        }
    }

    /// Makes it of a failure of HTTP.
    fn http(failure: &HttpFailure, context: &RequestContext) -> Self {
        let (reason, hint) = match failure {
            // It says itself what to look at.
            HttpFailure::Fetch(error) if !error.may_have_been_sent() => (Reason::NotConnected, None),
            HttpFailure::Unauthorized { .. } if context.with_bearer => {
                (Reason::Unauthorized, Some("the token of --bearer-env is not the one it wants"))
            }
            HttpFailure::Unauthorized { .. } => {
                (Reason::Unauthorized, Some("--bearer-env NAME sends the token in $NAME"))
            }
            HttpFailure::Forbidden { .. } => (Reason::Unauthorized, None),
            _ => (Reason::Http, None),
        };
        // How the library would be told is of no use here.
        let what = match failure {
            HttpFailure::Unauthorized { origin, challenge } => {
                let origin = shown(origin.as_bytes(), EXCERPT_LENGTH);
                let challenge = if challenge.is_empty() { String::new() } else { format!(": {challenge}") };
                format!("{origin} wants to know who asks (401 Unauthorized){challenge}")
            }
            failure => failure.to_string(),
        };
        Self { reason, what, hint: hint.map(Cow::Borrowed) }
    }

    pub(crate) fn timed_out(method: &str, context: &RequestContext) -> Self {
        let what = format!("no answer to {} within {:?}", shown(method.as_bytes(), EXCERPT_LENGTH), context.timeout);
        Self { reason: Reason::TimedOut, what, hint: Some(Cow::Borrowed("--timeout waits longer")) }
    }

    /// Makes it of a handshake that a server has answered otherwise than one of MCP does.
    fn handshake(why: &ClientError, closed: &ConnectionEnd, context: &RequestContext) -> Self {
        let mut what = match (why, context.revision) {
            (ClientError::Refused { method, error }, _) => {
                let message = shown(error.message.as_bytes(), EXCERPT_LENGTH);
                format!("the server refuses {method}: {message} ({})", error.code)
            }
            (ClientError::TimedOut { method, .. }, _) => Self::timed_out(method, context).what,
            (ClientError::Fault { method, .. }, Some(revision)) if method == "server/discover" => {
                format!("the server does not answer as one of {revision} does")
            }
            _ => why.to_string(),
        };
        if let Some(stray) = closed.stray_output() {
            let (offset, excerpt) = (stray.offset, &stray.excerpt);
            what = format!("{what}; it sent something that is no message, at byte {offset}: {excerpt}");
        }
        // How a program ended that we have ended says nothing, but for what it had to say before.
        let is_ours = matches!(closed.reason(), EndReason::Shutdown);
        if let Some(exit) = closed.exit().filter(|exit| !is_ours || !exit.stderr.trim().is_empty()) {
            what = format!("{what}; {exit}");
        }
        let hint = Self::closed(closed).hint.or_else(|| match why {
            ClientError::Refused { .. } if context.over_http => {
                Some("is this the path of the MCP endpoint? it often is /mcp".into())
            }
            ClientError::Refused { .. } => Some("if it does not speak MCP: --raw sends plain JSON-RPC".into()),
            ClientError::TimedOut { .. } if context.over_http => Some("--timeout waits longer".into()),
            ClientError::TimedOut { .. } => {
                Some("--timeout waits longer; barewire check -- PROGRAM says what comes in place of it".into())
            }
            _ => None,
        });
        Self { reason: Reason::NoHandshake, what, hint }
    }

    /// Makes it of a result that is not what its method has.
    pub(crate) fn bad_result(method: &str, error: &serde_json::Error) -> Self {
        let method = shown(method.as_bytes(), EXCERPT_LENGTH);
        let what = format!(
            "the result of {method} is not what it should be: {}",
            shown(error.to_string().as_bytes(), EXCERPT_LENGTH)
        );
        Self { reason: Reason::BadAnswer, what, hint: None }
    }

    pub(crate) fn closed(closed: &ConnectionEnd) -> Self {
        let (reason, hint) = match (closed.reason(), closed.stray_output()) {
            (EndReason::ContentLength, _) => (Reason::ContentLength, Some("--framing content-length speaks it")),
            (_, Some(stray)) if stray.excerpt.starts_with("HTTP/") => {
                (Reason::Closed, Some("it speaks HTTP: --url http://… asks it"))
            }
            (_, Some(_)) if closed.exit().is_some() => {
                (Reason::Closed, Some("stdout is for messages alone; all else belongs on stderr"))
            }
            _ => (Reason::Closed, None),
        };
        Self { reason, what: closed.to_string(), hint: hint.map(Cow::Borrowed) }
    }
}

impl From<NoAnswer> for Failure {
    fn from(missed: NoAnswer) -> Self {
        let failure = Self::new(missed.what);
        match missed.hint {
            Some(hint) => failure.with_hint(hint),
            None => failure,
        }
    }
}

/// The number of characters of a peer's text in a sentence.
const EXCERPT_LENGTH: usize = 200;

/// Waits for `work`, or drops it when a signal comes.
pub(crate) async fn unless_signalled<T>(
    signals: &mut Signals,
    work: impl Future<Output = Result<T, NoAnswer>>,
) -> Result<T, NoAnswer> {
    tokio::select! {
        biased;
        done = work => done,
        signal = signals.next() => Err(NoAnswer::cancelled(signal)),
    }
}
