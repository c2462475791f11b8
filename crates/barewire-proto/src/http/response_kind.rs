//! Classifies an HTTP response for a client, by its status, `Content-Type` and, for errors, its body.

use super::media::Media;
use super::rejection::quoted;
use crate::rpc::{DEFAULT_DEPTH, ErrorObject, Id, Message, Parsed, Response, parse};

/// The meaning of an HTTP response for a client.
#[derive(Debug, Clone)]
#[expect(clippy::exhaustive_enums, reason = "a client must handle every variant")]
pub enum ResponseKind {
    /// The body is one message or a batch.
    Json,
    /// The body is a stream of messages.
    Events,
    /// The server has accepted the message, and there is no body.
    Accepted,
    /// The session has ended. The client must start a new session with a request that has no session id.
    SessionGone,
    /// A JSON-RPC error in a response with an error status.
    Error {
        /// The HTTP status.
        status: u16,
        /// The id of the request, if the error response has one.
        id: Option<Id<'static>>,
        /// The JSON-RPC error.
        error: ErrorObject,
    },
    /// The server requires authorization, as described by `WWW-Authenticate` ([`challenge`](super::challenge)).
    Unauthorized,
    /// The server refuses the request with 403.
    Forbidden {
        /// The JSON-RPC error in the body, if there is one.
        error: Option<ErrorObject>,
    },
    /// A response that MCP does not define.
    NotMcp {
        /// The HTTP status.
        status: u16,
        /// The beginning of the body, on one line, in quotes.
        text: String,
    },
}

impl ResponseKind {
    /// Classifies a response. `in_session` is whether the request had an `Mcp-Session-Id`.
    ///
    /// The body is parsed only if the status is an error. Its `Content-Type` is then ignored, because a JSON-RPC error
    /// can be recognized without it. The caller can pass only the first bytes of a long body.
    pub fn classify(status: u16, content_type: Option<&[u8]>, body: Option<&[u8]>, in_session: bool) -> Self {
        match (status, content_type.and_then(Media::parse)) {
            (202 | 204, _) => return Self::Accepted,
            (200..=299, Some(Media::Json)) => return Self::Json,
            (200..=299, Some(Media::Events)) => return Self::Events,
            (200..=299, None) if content_type.is_none() && body.is_some_and(<[u8]>::is_empty) => {
                return Self::Accepted;
            }
            (401, _) => return Self::Unauthorized,
            // The body is not checked for a modern error, because a request with a session id is never modern.
            (404, _) if in_session => return Self::SessionGone,
            _ => {}
        }
        let body = body.unwrap_or_default();
        let found = if status >= 400 { error(body) } else { None };
        match (status, found) {
            (403, found) => Self::Forbidden { error: found.map(|(_, error)| error) },
            (_, Some((id, error))) => Self::Error { status, id, error },
            (_, None) => Self::NotMcp { status, text: quoted(body.trim_ascii()) },
        }
    }
}

fn error(body: &[u8]) -> Option<(Option<Id<'static>>, ErrorObject)> {
    match parse(body, DEFAULT_DEPTH) {
        Parsed::Message(Message::Response(Response { id, outcome: Err(error) })) => {
            Some((Some(id.into_owned()), error.to_owned()))
        }
        Parsed::Message(Message::OrphanError(error)) => Some((None, error.to_owned())),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the classification as one line of text.
    fn read(status: u16, content_type: &str, body: &str, in_session: bool) -> String {
        let content_type = (!content_type.is_empty()).then_some(content_type.as_bytes());
        match ResponseKind::classify(status, content_type, Some(body.as_bytes()), in_session) {
            ResponseKind::Json => "json".to_owned(),
            ResponseKind::Events => "events".to_owned(),
            ResponseKind::Accepted => "accepted".to_owned(),
            ResponseKind::SessionGone => "gone".to_owned(),
            ResponseKind::Unauthorized => "unauthorized".to_owned(),
            ResponseKind::Forbidden { error } => format!("forbidden {:?}", error.map(|error| error.code.get())),
            ResponseKind::Error { status, id, error } => format!("{status} {id:?} {}", error.code),
            ResponseKind::NotMcp { status, text } => format!("{status} {text}"),
        }
    }

    #[test]
    fn a_response_has_one_meaning() {
        let json = "application/json";
        let error = r#"{"jsonrpc":"2.0","id":7,"error":{"code":-32022,"message":"m"}}"#;
        let orphan = r#"{"jsonrpc":"2.0","error":{"code":-32020,"message":"m"}}"#;
        let null = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"m"}}"#;
        for (status, content_type, body, in_session, expected) in [
            (200, json, "", false, "json"),
            (200, "application/json; charset=utf-8", error, true, "json"),
            (200, "text/event-stream", "", true, "events"),
            (202, "", "", true, "accepted"),
            (202, "text/plain", "Accepted", true, "accepted"),
            (204, "", "", false, "accepted"),
            (200, "", "", false, "accepted"),
            (200, "text/html", "<html>", false, r#"200 "<html>""#),
            (200, "", "hm", false, r#"200 "hm""#),
            (301, "", "", false, r#"301 """#),
            (400, json, error, false, "400 Some(7) -32022"),
            (400, "text/plain", error, true, "400 Some(7) -32022"),
            (400, "", orphan, false, "400 None -32020"),
            (400, json, null, false, "400 None -32000"),
            (400, json, r#"{"error":"bad"}"#, false, r#"400 "{\"error\":\"bad\"}""#),
            (
                400,
                json,
                r#"{"jsonrpc":"2.0","id":7,"result":{}}"#,
                false,
                r#"400 "{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{}}""#,
            ),
            (400, "", "", false, r#"400 """#),
            (401, json, error, true, "unauthorized"),
            (403, json, orphan, true, "forbidden Some(-32020)"),
            (403, "text/plain", "no", true, "forbidden None"),
            (404, json, error, true, "gone"),
            (404, "text/html", "<h1>", true, "gone"),
            (404, json, error, false, "404 Some(7) -32022"),
            (404, "text/html", " Not\nFound ", false, r#"404 "Not\nFound""#),
            (405, "", "", false, r#"405 """#),
            (500, json, error, false, "500 Some(7) -32022"),
            (503, "", "later", false, r#"503 "later""#),
        ] {
            assert_eq!(read(status, content_type, body, in_session), expected, "{status} {content_type} {body}");
        }
    }
}
