//! What the answer to a POST means: status, `Content-Type` and, of an answer that says no, its body.

use super::media::Media;
use super::rejection::quoted;
use crate::rpc::{DEFAULT_DEPTH, ErrorObject, Id, Message, Parsed, Response, parse};

/// What an HTTP answer turned out to be.
#[derive(Debug, Clone)]
#[expect(clippy::exhaustive_enums, reason = "a client must act on each")]
pub enum ResponseKind {
    /// Its body is one message, or a batch.
    Json,
    /// Its body is a stream of messages.
    Events,
    /// What was sent has been taken, and that is all there is to say.
    Accepted,
    /// The session is over: MCP has a client begin another, without an id.
    SessionGone,
    /// A JSON-RPC error, in an answer whose status is one too.
    Error {
        /// The status.
        status: u16,
        /// Which request it answers, if it says so.
        id: Option<Id<'static>>,
        /// The error.
        error: ErrorObject,
    },
    /// The server wants to know who asks: `WWW-Authenticate` says how ([`challenge`](super::challenge)).
    Unauthorized,
    /// The server knows, and says no.
    Forbidden {
        /// Why, if it says so in JSON-RPC.
        error: Option<ErrorObject>,
    },
    /// Nothing that MCP has.
    NotMcp {
        /// The status.
        status: u16,
        /// The beginning of what it says, on one line, in quotes.
        text: String,
    },
}

impl ResponseKind {
    /// Reads an answer. `in_session` says whether the request had an `Mcp-Session-Id`.
    ///
    /// The body is looked at only if the status is none of success, and then whatever type it is said to have: what is in it is
    /// clear by itself. Of a long one the beginning will do.
    pub fn classify(status: u16, content_type: Option<&[u8]>, body: Option<&[u8]>, in_session: bool) -> Self {
        match (status, content_type.and_then(Media::parse)) {
            (202 | 204, _) => return Self::Accepted,
            (200..=299, Some(Media::Json)) => return Self::Json,
            (200..=299, Some(Media::Events)) => return Self::Events,
            (200..=299, None) if content_type.is_none() && body.is_some_and(<[u8]>::is_empty) => {
                return Self::Accepted;
            }
            (401, _) => return Self::Unauthorized,
            // Whatever the body says: a request that belongs to a session is not modern.
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

    /// What is read, in one line.
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
    fn an_answer_means_one_thing() {
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
