//! A request that is not served: which rule it broke, the status, and the JSON-RPC error in the body.

use std::fmt;

use crate::mcp::code;
use crate::mcp::modern::BadMeta;
use crate::rpc::{self, Code, ErrorObject, Id, Invalid};

/// An answer that says no.
#[derive(Debug, Clone)]
#[must_use = "a request that is refused is told so"]
#[non_exhaustive]
pub struct Rejection {
    /// The rule that was broken. It decides the status.
    pub rule: RejectionRule,
    /// What the body says.
    pub error: ErrorObject,
    /// What it is said under; the body has no `id` without.
    pub id: Option<Id<'static>>,
    /// The value of `Allow`, which a 405 must have.
    pub allow: Option<&'static str>,
}

/// What a request must hold to, named by how it was broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum RejectionRule {
    /// The host is missing, no host, or not one that is let in.
    Host,
    /// The page is from somewhere that is not let in.
    Origin,
    /// The method of HTTP is none that does something here.
    Method,
    /// The body is said to be something else than JSON.
    ContentType,
    /// The client does not take what may be sent back.
    Accept,
    /// Who sends it is not known, or no longer.
    Unauthorized,
    /// Who sends it may not do this.
    Forbidden,
    /// The body has more bytes than the limit.
    TooLong,
    /// The body took longer to come than it may.
    TooSlow,
    /// The body ended before it was complete.
    Broken,
    /// There is no room for it now.
    Busy,
    /// There is nothing at the path.
    Path,
    /// The event after which a stream is to go on is not known, or what followed it no longer is.
    EventGone,
    /// The body is no message.
    Body(rpc::Rule),
    /// A batch where none is allowed.
    Batch,
    /// A response where nothing was asked.
    Response,
    /// It needs a session and names none.
    NoSession,
    /// What it names as its session cannot be one.
    BadSession,
    /// The session it names is over, or never was.
    SessionGone,
    /// A header stands twice, in the legacy era.
    Repeated,
    /// `MCP-Protocol-Version` is no revision of the legacy era that is served, where no other is.
    UnknownVersion,
    /// The revision is not served.
    UnsupportedVersion,
    /// The `_meta` of a modern request is incomplete, or wrong.
    Meta,
    /// A header that a modern request must have is missing.
    MissingHeader,
    /// A header of a modern request cannot be read.
    BadHeader,
    /// A header of a modern request says something else than its body.
    Mismatch,
}

impl RejectionRule {
    /// The status that a refusal by this rule has.
    pub fn status(self) -> u16 {
        match self {
            Self::Body(rpc::Rule::TooLong { .. }) | Self::TooLong => 413,
            Self::Body(_)
            | Self::Batch
            | Self::Response
            | Self::NoSession
            | Self::BadSession
            | Self::Broken
            | Self::EventGone
            | Self::Repeated
            | Self::UnknownVersion
            | Self::UnsupportedVersion
            | Self::Meta
            | Self::MissingHeader
            | Self::BadHeader
            | Self::Mismatch => 400,
            Self::Unauthorized => 401,
            Self::Host | Self::Origin | Self::Forbidden => 403,
            Self::SessionGone | Self::Path => 404,
            Self::Method => 405,
            Self::Accept => 406,
            Self::TooSlow => 408,
            Self::ContentType => 415,
            Self::Busy => 503,
        }
    }

    /// The code of its error. Those of the modern era are only used where a modern revision is served: to a client that looks
    /// for the era of a server they are the sign of one.
    pub fn code(self) -> Code {
        match self {
            Self::Body(rule) => rule.code(),
            Self::UnsupportedVersion => code::UNSUPPORTED_PROTOCOL_VERSION,
            Self::Meta => Code::INVALID_PARAMS,
            Self::MissingHeader | Self::BadHeader | Self::Mismatch => code::HEADER_MISMATCH,
            Self::Busy => Code::INTERNAL_ERROR,
            Self::Host
            | Self::Origin
            | Self::Method
            | Self::ContentType
            | Self::Accept
            | Self::Unauthorized
            | Self::Forbidden
            | Self::TooLong
            | Self::TooSlow
            | Self::Broken
            | Self::Path
            | Self::EventGone
            | Self::Batch
            | Self::Response
            | Self::NoSession
            | Self::BadSession
            | Self::SessionGone
            | Self::Repeated
            | Self::UnknownVersion => Code::INVALID_REQUEST,
        }
    }

    /// A short name that does not change, for programs.
    pub fn name(self) -> &'static str {
        match self {
            Self::Host => "host",
            Self::Origin => "origin",
            Self::Method => "method",
            Self::ContentType => "content-type",
            Self::Accept => "accept",
            Self::Unauthorized => "unauthorized",
            Self::Forbidden => "forbidden",
            Self::TooLong => "too-long",
            Self::TooSlow => "too-slow",
            Self::Broken => "broken",
            Self::Busy => "busy",
            Self::Path => "path",
            Self::EventGone => "event-gone",
            Self::Body(rule) => rule.name(),
            Self::Batch => "batch",
            Self::Response => "response",
            Self::NoSession => "no-session",
            Self::BadSession => "bad-session",
            Self::SessionGone => "session-gone",
            Self::Repeated => "repeated-header",
            Self::UnknownVersion => "unknown-version",
            Self::UnsupportedVersion => "unsupported-version",
            Self::Meta => "meta",
            Self::MissingHeader => "missing-header",
            Self::BadHeader => "bad-header",
            Self::Mismatch => "header-mismatch",
        }
    }
}

impl Rejection {
    /// A refusal with status and code of the rule. `message` says what is wrong and what to do about it.
    pub fn new(rule: RejectionRule, message: impl Into<String>) -> Self {
        Self::with(rule, ErrorObject::new(rule.code(), message))
    }

    fn with(rule: RejectionRule, error: ErrorObject) -> Self {
        Self { rule, error, id: None, allow: None }
    }

    /// The body is no message.
    pub fn invalid(invalid: &Invalid<'_>) -> Self {
        // Nobody waits under the id of a response, and a notification has none.
        let id = invalid.reply().and_then(|reply| reply.into_owned().id().cloned());
        Self { id, ..Self::with(RejectionRule::Body(invalid.rule), invalid.error()) }
    }

    /// The body has more than `limit` bytes.
    pub fn too_long(limit: usize) -> Self {
        Self::new(RejectionRule::TooLong, format!("The body is longer than {limit} bytes"))
    }

    /// The session is over, or never was: MCP has its client begin another.
    pub fn session_gone() -> Self {
        Self::new(
            RejectionRule::SessionGone,
            "No such session: send initialize without Mcp-Session-Id to begin another",
        )
    }

    pub(super) fn meta(bad: &BadMeta) -> Self {
        let rule = match bad {
            BadMeta::Unsupported { .. } => RejectionRule::UnsupportedVersion,
            BadMeta::Missing(_) | BadMeta::Wrong(..) => RejectionRule::Meta,
        };
        Self::with(rule, bad.error())
    }

    /// The same, as the answer to a request.
    pub fn answering(mut self, id: &Id<'_>) -> Self {
        self.id = Some(id.clone().into_owned());
        self
    }

    /// The status of the answer.
    pub fn status(&self) -> u16 {
        self.rule.status()
    }

    /// Appends the body of the answer, which is `application/json`.
    pub fn body(&self, out: &mut Vec<u8>) {
        rpc::write::error(out, self.id.as_ref(), &self.error);
    }
}

impl fmt::Display for Rejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.status(), self.error)
    }
}

impl std::error::Error for Rejection {}

/// What a client has sent, for a sentence about it: on one line, and not longer than it takes to find it again.
pub(super) fn quoted(text: &[u8]) -> String {
    const LONGEST: usize = 60;
    let text = String::from_utf8_lossy(text);
    let short: String = text.chars().take(LONGEST).collect();
    let more = if short.len() < text.len() { "…" } else { "" };
    format!("{short:?}{more}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rpc::{DEFAULT_DEPTH, Parsed, parse};

    fn body(rejection: &Rejection) -> String {
        let mut out = Vec::new();
        rejection.body(&mut out);
        String::from_utf8(out).expect("UTF-8")
    }

    #[test]
    fn a_body_has_an_id_or_no_such_member() {
        let gone = Rejection::session_gone();
        let said = body(&gone);
        assert!(said.starts_with(r#"{"jsonrpc":"2.0","error":{"code":-32600,"message":"No such session"#), "{said}");
        let said = body(&gone.answering(&Id::from("a\"b")));
        assert!(said.starts_with(r#"{"jsonrpc":"2.0","id":"a\"b","error":{"#), "{said}");
    }

    #[test]
    fn what_is_no_message_is_refused_under_the_id_that_somebody_waits_under() {
        for (frame, status, begins) in [
            ("{", 400, r#"{"jsonrpc":"2.0","error":{"code":-32700,"#),
            (r#"{"jsonrpc":"2.0","id":7,"method":1}"#, 400, r#"{"jsonrpc":"2.0","id":7,"error":{"code":-32600,"#),
            (r#"{"jsonrpc":"2.0","id":null,"method":"a"}"#, 400, r#"{"jsonrpc":"2.0","error":{"code":-32600,"#),
            (r#"{"jsonrpc":"2.0","id":7,"result":1,"error":2}"#, 400, r#"{"jsonrpc":"2.0","error":{"code":-32600,"#),
        ] {
            let Parsed::Invalid(invalid) = parse(frame.as_bytes(), DEFAULT_DEPTH) else { panic!("{frame}") };
            let rejection = Rejection::invalid(&invalid);
            assert_eq!(rejection.status(), status);
            assert!(body(&rejection).starts_with(begins), "{}", body(&rejection));
        }
    }

    #[test]
    fn what_is_quoted_is_one_short_line() {
        assert_eq!(quoted(b"a\r\nb\0"), r#""a\r\nb\0""#);
        assert_eq!(quoted(b"\xff"), "\"\u{fffd}\"");
        assert!(quoted(&[b'a'; 1000]).len() < 80);
    }
}
