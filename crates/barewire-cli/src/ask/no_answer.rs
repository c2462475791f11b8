//! An error of the client -> a reason code for scripts, a message, and a hint.

use std::borrow::Cow;
use std::fmt;
use std::io;
use std::time::Duration;

use barewire::client::ClientError;
use barewire::client::http::{FetchError, HttpFailure};
use barewire::peer::{ConnectionEnd, EndReason};
use barewire::transport::SpawnError;
use barewire_proto::mcp::Revision;

use crate::Failure;
use crate::failure::sign_in_hint;
use crate::output::shown;
use crate::platform::Signals;

/// The command-line options that messages and hints depend on.
pub(crate) struct RequestContext {
    pub(crate) revision: Option<Revision>,
    pub(crate) timeout: Duration,
    pub(crate) over_http: bool,
    pub(crate) with_bearer: bool,
    /// The URL of the server, if it has one.
    pub(crate) url: Option<String>,
}

/// The reason why a request got no answer.
pub(crate) struct NoAnswer {
    pub(crate) reason: Reason,
    pub(crate) what: String,
    pub(crate) hint: Option<Cow<'static, str>>,
}

/// The reason code for scripts, printed as `reason` with `--json`.
#[derive(Clone, Copy, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
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

impl NoAnswer {
    pub(crate) fn new(reason: Reason, what: impl Into<String>, hint: Option<&'static str>) -> Self {
        Self { reason, what: what.into(), hint: hint.map(Cow::Borrowed) }
    }

    pub(crate) fn not_started(error: &SpawnError) -> Self {
        let hint = match error {
            SpawnError::NotFound { program } if program.contains(' ') => {
                Some("do not quote the program and its arguments together: -- program argument")
            }
            SpawnError::NotFound { program } if program.contains('/') => Some("check the path"),
            SpawnError::NotFound { .. } => {
                Some("is it installed? a program in this directory needs ./ before its name")
            }
            SpawnError::NotExecutable { .. } => {
                Some("make it executable with chmod +x, or name its interpreter: -- python3 server.py")
            }
            SpawnError::NoInterpreter { .. } => Some("install it, or name another interpreter: -- python3 server.py"),
            _ => None,
        };
        Self::new(Reason::NotStarted, error.to_string(), hint)
    }

    pub(crate) fn not_connected(address: &impl fmt::Display, error: &io::Error) -> Self {
        let hint = match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => Some("is the server running?"),
            io::ErrorKind::PermissionDenied => Some("ls -l shows who may connect to a socket"),
            _ => None,
        };
        Self::new(Reason::NotConnected, format!("cannot connect to {address}: {error}"), hint)
    }

    pub(crate) fn cancelled(signal: &str) -> Self {
        Self::new(Reason::Cancelled, format!("cancelled by {signal}"), None)
    }

    /// Converts an error of an MCP client. An error response is an answer, so callers never pass one to this function.
    pub(crate) fn from_client(error: &ClientError, context: &RequestContext) -> Self {
        let any_revision =
            context.revision.map(|_| "without --revision, barewire finds a revision that both sides speak");
        match error {
            ClientError::Spawn(error) => Self::not_started(error),
            ClientError::Http { failure, .. } => Self::http(failure, context),
            ClientError::Closed(closed) => Self::closed(closed),
            ClientError::Handshake { why, closed } => {
                let no_answer = Self::handshake(why, closed, context);
                Self { hint: no_answer.hint.or(any_revision.map(Cow::Borrowed)), ..no_answer }
            }
            ClientError::Version { .. } => Self::new(Reason::NoRevision, error.to_string(), any_revision),
            ClientError::TimedOut { method, .. } => Self::timed_out(method, context),
            ClientError::NotOffered { method, capability } => Self::new(
                Reason::NotOffered,
                format!("{method} was not sent: the server does not declare the capability {capability}"),
                Some("--lenient sends it anyway"),
            ),
            ClientError::NotInRevision { .. } => Self::new(
                Reason::NotInRevision,
                error.to_string(),
                Some("--revision selects another revision, --lenient sends the request anyway"),
            ),
            ClientError::Params(_) => Self::new(Reason::BadArguments, error.to_string(), None),
            error => Self::new(Reason::BadAnswer, error.to_string(), None),
        }
    }

    fn http(failure: &HttpFailure, context: &RequestContext) -> Self {
        let what = failure.to_string();
        match failure {
            // The library's message names methods of its API, which a user of the command line cannot call.
            HttpFailure::Unauthorized { origin, challenge } => {
                let origin = shown(origin.as_bytes(), EXCERPT_LENGTH);
                let challenge = if challenge.is_empty() { String::new() } else { format!(": {challenge}") };
                let what = format!("{origin} requires authentication (401 Unauthorized){challenge}");
                let hint = match (context.with_bearer, &context.url) {
                    (true, _) => Cow::Borrowed("the server does not accept the token of --bearer-env"),
                    (false, url) => {
                        let url = shown(url.as_deref().unwrap_or("URL").as_bytes(), EXCERPT_LENGTH);
                        Cow::Owned(format!("run: barewire login {url}; or --bearer-env NAME sends the token in $NAME"))
                    }
                };
                Self { reason: Reason::Unauthorized, what, hint: Some(hint) }
            }
            HttpFailure::Forbidden { .. } => Self::new(Reason::Unauthorized, what, None),
            HttpFailure::Fetch(FetchError::SignIn(error)) => {
                Self { reason: Reason::Unauthorized, what, hint: sign_in_hint(error).map(Cow::Owned) }
            }
            HttpFailure::Fetch(error) if !error.may_have_been_sent() => Self::new(Reason::NotConnected, what, None),
            _ => Self::new(Reason::Http, what, None),
        }
    }

    pub(crate) fn timed_out(method: &str, context: &RequestContext) -> Self {
        let what = format!("no response to {} within {:?}", shown(method.as_bytes(), EXCERPT_LENGTH), context.timeout);
        Self::new(Reason::TimedOut, what, Some("use --timeout to wait longer"))
    }

    /// The failure of a request that takes too long in all, with the requests before it and all its pages.
    pub(crate) fn out_of_time(context: &RequestContext) -> Self {
        let what = format!("no complete answer within {:?}", context.timeout);
        Self::new(Reason::TimedOut, what, Some("use --timeout to wait longer"))
    }

    fn handshake(why: &ClientError, closed: &ConnectionEnd, context: &RequestContext) -> Self {
        let mut what = match (why, context.revision) {
            (ClientError::Refused { method, error }, _) => {
                let message = shown(error.message.as_bytes(), EXCERPT_LENGTH);
                format!("the server refuses {method}: {message} ({})", error.code)
            }
            (ClientError::TimedOut { method, .. }, _) => Self::timed_out(method, context).what,
            (ClientError::Fault { method, .. }, Some(revision)) if method == "server/discover" => {
                format!("the server does not answer server/discover as revision {revision} requires")
            }
            _ => why.to_string(),
        };
        if let Some(stray) = closed.stray_output() {
            let (offset, excerpt) = (stray.offset, &stray.excerpt);
            what = format!("{what}; the server sent bytes that are not a message, at byte {offset}: {excerpt}");
        }
        // If we ended the program, its exit status says nothing about the failure. It is then shown only if the program
        // wrote to stderr.
        let is_ours = matches!(closed.reason(), EndReason::Shutdown);
        if let Some(exit) = closed.exit().filter(|exit| !is_ours || !exit.stderr.trim().is_empty()) {
            what = format!("{what}; {exit}");
        }
        let hint = Self::closed(closed).hint.or_else(|| match why {
            ClientError::Refused { .. } if context.over_http => {
                Some("is this the path of the MCP endpoint? it is often /mcp".into())
            }
            ClientError::Refused { .. } => Some("if the server does not speak MCP, --raw sends plain JSON-RPC".into()),
            ClientError::TimedOut { .. } if context.over_http => Some("use --timeout to wait longer".into()),
            ClientError::TimedOut { .. } => {
                Some("use --timeout to wait longer; barewire check -- PROGRAM shows what the server sends".into())
            }
            _ => None,
        });
        Self { reason: Reason::NoHandshake, what, hint }
    }

    pub(crate) fn bad_result(method: &str, error: &serde_json::Error) -> Self {
        let method = shown(method.as_bytes(), EXCERPT_LENGTH);
        let error = shown(error.to_string().as_bytes(), EXCERPT_LENGTH);
        Self::new(Reason::BadAnswer, format!("the result of {method} does not fit the method: {error}"), None)
    }

    pub(crate) fn closed(closed: &ConnectionEnd) -> Self {
        let (reason, hint) = match (closed.reason(), closed.stray_output()) {
            (EndReason::ContentLength, _) => (Reason::ContentLength, Some("try --framing content-length")),
            (_, Some(stray)) if stray.excerpt.starts_with("HTTP/") => {
                (Reason::Closed, Some("it is an HTTP server: use --url http://…"))
            }
            (_, Some(_)) if closed.exit().is_some() => {
                (Reason::Closed, Some("the program must write only messages to stdout, and logs to stderr"))
            }
            _ => (Reason::Closed, None),
        };
        Self::new(reason, closed.to_string(), hint)
    }
}

impl From<NoAnswer> for Failure {
    fn from(no_answer: NoAnswer) -> Self {
        let failure = Self::new(no_answer.what);
        if let Some(hint) = no_answer.hint { failure.with_hint(hint) } else { failure }
    }
}

/// The maximum number of characters of a peer's text shown in a message.
const EXCERPT_LENGTH: usize = 200;

/// The time that several requests have in all beyond `--timeout`, so that the timeout of a single request expires
/// first: its message names the request.
pub(crate) const REQUEST_FIRST: Duration = Duration::from_millis(500);

/// Waits for `work`; drops `work` if a signal arrives first.
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
