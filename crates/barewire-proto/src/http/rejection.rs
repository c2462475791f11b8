//! The rejection of an HTTP request: the rule that it breaks, the status, and the JSON-RPC error in the body.

use std::fmt;

use crate::mcp::code;
use crate::mcp::modern::BadMeta;
use crate::rpc::{self, Code, ErrorObject, Id, Invalid};

/// The rejection of an HTTP request.
#[derive(Debug, Clone)]
#[must_use = "a rejected request must be answered"]
#[non_exhaustive]
pub struct Rejection {
    /// The rule that the request breaks. The rule determines the HTTP status.
    pub rule: RejectionRule,
    /// The JSON-RPC error in the body.
    pub error: ErrorObject,
    /// The id of the request; if `None`, the body of the response has no `id`.
    pub id: Option<Id<'static>>,
    /// The value of the `Allow` header, which a 405 must have.
    pub allow: Option<&'static str>,
}

/// A rule that HTTP requests must follow. Most variants are named after the way in which the rule is broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum RejectionRule {
    /// The host is missing, invalid or not allowed.
    Host,
    /// The origin is invalid or not allowed.
    Origin,
    /// The HTTP method is not allowed.
    Method,
    /// The `Content-Type` is not JSON.
    ContentType,
    /// The `Accept` header does not list the media types of the response.
    Accept,
    /// The client is not authenticated, or its token has expired.
    Unauthorized,
    /// The client is authenticated, but not allowed to send this request.
    Forbidden,
    /// The body has more bytes than the limit.
    TooLong,
    /// The body took too long to arrive.
    TooSlow,
    /// The body ended before it was complete.
    Broken,
    /// The server is busy.
    Busy,
    /// The path does not exist.
    Path,
    /// The stream cannot be resumed: the event in `Last-Event-ID` is unknown, or the events after it were dropped.
    EventGone,
    /// The body is not a message.
    Body(rpc::Rule),
    /// A batch is not allowed in this request.
    Batch,
    /// The body is a response, but the server sends no requests.
    Response,
    /// The message needs a session, and there is no `Mcp-Session-Id`.
    NoSession,
    /// The `Mcp-Session-Id` is invalid.
    BadSession,
    /// The session has ended or never existed.
    SessionGone,
    /// A header occurs more than once, in a legacy request.
    Repeated,
    /// `MCP-Protocol-Version` is not supported, on a server that supports only legacy revisions.
    UnknownVersion,
    /// The revision is not supported, on a server that supports a modern revision.
    UnsupportedVersion,
    /// The `_meta` of a modern request is incomplete or invalid.
    Meta,
    /// A header that a modern request must have is missing.
    MissingHeader,
    /// A header of a modern request is invalid.
    BadHeader,
    /// A header of a modern request differs from its body.
    Mismatch,
}

impl RejectionRule {
    /// Returns the status of a rejection by this rule.
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

    /// Returns the error code of a rejection by this rule. The codes of the modern era are used only if the server
    /// supports a modern revision, because a client concludes from them that the server is modern.
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

    /// Returns the short name of the rule, for use by programs. Names never change.
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
    /// Creates a rejection with the status and code of the rule. `message` says what is wrong and how to correct it.
    pub fn new(rule: RejectionRule, message: impl Into<String>) -> Self {
        Self::with(rule, ErrorObject::new(rule.code(), message))
    }

    fn with(rule: RejectionRule, error: ErrorObject) -> Self {
        Self { rule, error, id: None, allow: None }
    }

    /// Creates a rejection of a body that is not a message.
    pub fn invalid(invalid: &Invalid<'_>) -> Self {
        // Responses and notifications are not answered, so the rejection has no id for them.
        let id = invalid.reply().and_then(|reply| reply.into_owned().id().cloned());
        Self { id, ..Self::with(RejectionRule::Body(invalid.rule), invalid.error()) }
    }

    /// Creates a rejection of a body with more than `limit` bytes.
    pub fn too_long(limit: usize) -> Self {
        Self::new(RejectionRule::TooLong, format!("The body is longer than {limit} bytes"))
    }

    /// Creates a rejection for a session that has ended or never existed. The client then starts a new session.
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

    /// Sets the id of the request that is rejected.
    pub fn answering(mut self, id: &Id<'_>) -> Self {
        self.id = Some(id.clone().into_owned());
        self
    }

    /// Returns the status of the response.
    pub fn status(&self) -> u16 {
        self.rule.status()
    }

    /// Appends the body of the HTTP response, which is `application/json`.
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

/// Quotes text from a client for an error message: on one line, and truncated to a length at which people still
/// recognize the text.
pub(super) fn quoted(text: &[u8]) -> String {
    const MAX_QUOTED_CHARS: usize = 60;
    let text = String::from_utf8_lossy(text);
    let short: String = text.chars().take(MAX_QUOTED_CHARS).collect();
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
        let text = body(&gone);
        assert!(text.starts_with(r#"{"jsonrpc":"2.0","error":{"code":-32600,"message":"No such session"#), "{text}");
        let text = body(&gone.answering(&Id::from("a\"b")));
        assert!(text.starts_with(r#"{"jsonrpc":"2.0","id":"a\"b","error":{"#), "{text}");
    }

    #[test]
    fn an_invalid_body_is_rejected_with_the_id_of_its_request() {
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
    fn quoted_text_is_one_short_line() {
        assert_eq!(quoted(b"a\r\nb\0"), r#""a\r\nb\0""#);
        assert_eq!(quoted(b"\xff"), "\"\u{fffd}\"");
        assert!(quoted(&[b'a'; 1000]).len() < 80);
    }
}
