//! Checks of the responses of a server to a message, to a GET and to a DELETE.

use barewire_proto::http::{Media, challenge};
use barewire_proto::mcp::Revision;

use super::{FinishedExchange, MessageContext, PostedKind, PostedMessage};
use crate::check::catalogue::http::{
    ERROR_STATUS, GET_STATUS, GET_STREAM, HTTP_CONTENT_TYPE, HTTP_GET_STREAM, HTTP_SESSION, HTTP_STATUS,
    HTTP_UNAUTHORIZED, NOTIFICATION_STATUS, REQUEST_STATUS, SESSION_ID_TEXT, SESSION_OPEN,
};
use crate::check::ledger::Ledger;
use crate::operations::{HttpExchange, Relation};
use crate::text::shown;

/// Checks that a message in the stream of a GET is no response.
pub(super) fn check_get_stream(context: &MessageContext<'_>, exchange: &HttpExchange, ledger: &mut Ledger) {
    // Over HTTP+SSE, which has no such headers, all responses arrive in the stream of the GET.
    let is_streamable =
        ["mcp-session-id", "mcp-protocol-version"].iter().any(|it| exchange.request_header(it).is_some());
    let is_resumed = exchange.request_header("last-event-id").is_some();
    if exchange.method() != Some("GET") || !is_streamable || is_resumed || exchange.is_sse_transport {
        return;
    }
    ledger.inspected(&HTTP_GET_STREAM);
    if let Relation::Response { operation, .. } = context.tracked.relation {
        let detail = format!("the response to {} arrives in the stream of a GET", operation.title());
        context.fail(ledger, &HTTP_GET_STREAM, shown(detail.as_bytes(), 160));
    }
}

impl FinishedExchange<'_> {
    /// Checks the response to a message.
    pub(super) fn server(&mut self, posted: &PostedMessage, is_modern_server: bool) {
        let exchange = self.exchange;
        if let Some(session) = exchange.response_header("mcp-session-id") {
            self.ledger.inspected(&HTTP_SESSION);
            if session.is_empty() || !session.bytes().all(|byte| byte.is_ascii_graphic()) {
                let session = shown(session.as_bytes(), 60);
                let detail = format!("the session id {session:?} is not visible ASCII");
                self.by_server_under(&HTTP_SESSION, &SESSION_ID_TEXT, detail);
            }
            // A header of a legacy revision contradicts the body, and the server may go by the header.
            let version = exchange.request_header("mcp-protocol-version").and_then(Revision::parse);
            let is_modern = posted.version.is_some() && version.is_none_or(Revision::is_modern);
            if is_modern && is_modern_server {
                self.by_server(&HTTP_SESSION, "a modern request starts a session");
            }
        }
        let has_body = self.messages.response.is_some();
        if self.is_ok() && has_body {
            self.ledger.inspected(&HTTP_CONTENT_TYPE);
            let value = exchange.response_header("content-type").unwrap_or_default();
            if !matches!(Media::parse(value.as_bytes()), Some(Media::Json | Media::Events)) {
                let value = shown(value.as_bytes(), 60);
                self.by_server(&HTTP_CONTENT_TYPE, format!("a response has Content-Type {value:?}"));
            }
        }
        self.ledger.inspected(&HTTP_STATUS);
        let (status, error) = (self.status, self.messages.error);
        let (rule, problem) = match posted.kind {
            PostedKind::Notification | PostedKind::Response if self.is_ok() && status != 202 => {
                (&NOTIFICATION_STATUS, format!("expected status 202, got {status}"))
            }
            PostedKind::Request if self.is_ok() && status != 200 => {
                (&REQUEST_STATUS, format!("expected status 200, got {status}"))
            }
            PostedKind::Request if self.messages.has_result && status != 200 => {
                (&REQUEST_STATUS, format!("a result has status {status}, expected 200"))
            }
            PostedKind::Request if status >= 500 && error.is_none() && !self.is_claimed => {
                (&REQUEST_STATUS, format!("expected a JSON-RPC response, got status {status} without one"))
            }
            PostedKind::Request if posted.version.is_some() && is_modern_server => {
                let (code, expected) = match error {
                    Some(code @ -32601) => (code, 404),
                    Some(code @ -32022..=-32020) => (code, 400),
                    _ => return,
                };
                if status == expected {
                    return;
                }
                (&ERROR_STATUS, format!("expected status {expected} for error {code}, got {status}"))
            }
            _ => return,
        };
        self.by_server_under(&HTTP_STATUS, rule, format!("{}: {problem}", posted.shown()));
    }

    pub(super) fn get(&mut self) {
        let has_session = self.exchange.request_header("mcp-session-id").is_some();
        // A GET that `barewire check` sends with a session is valid; a GET of another client may be invalid.
        let is_known = self.state.client_is_ours && has_session;
        match self.status {
            200 => {
                self.ledger.inspected(&HTTP_CONTENT_TYPE);
                let value = self.exchange.response_header("content-type").unwrap_or_default();
                if Media::parse(value.as_bytes()) != Some(Media::Events) {
                    let value = shown(value.as_bytes(), 60);
                    let detail = format!("the stream of a GET has Content-Type {value:?}");
                    self.by_server_under(&HTTP_CONTENT_TYPE, &GET_STREAM, detail);
                }
            }
            405 | 401 | 403 => self.ledger.inspected(&HTTP_STATUS),
            400..=499 if !is_known => {}
            status => {
                let detail = format!("GET: expected a stream or status 405, got {status}");
                self.by_server_under(&HTTP_STATUS, &GET_STATUS, detail);
            }
        }
    }

    /// Checks the response to a DELETE, which ends a session.
    pub(super) fn delete(&mut self) {
        self.ledger.inspected(&HTTP_SESSION);
        if !self.is_ok() && !matches!(self.status, 401 | 403 | 404 | 405) {
            let detail = format!("DELETE: expected status 2xx or 405, got {}", self.status);
            self.by_server_under(&HTTP_SESSION, &SESSION_OPEN, detail);
        }
    }

    pub(super) fn unauthorized(&mut self) {
        self.ledger.inspected(&HTTP_UNAUTHORIZED);
        let headers = &self.exchange.response_headers;
        let headers: Vec<(&str, &[u8])> =
            headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes())).collect();
        if self.exchange.response_header("www-authenticate").is_none() {
            self.by_server(&HTTP_UNAUTHORIZED, "the 401 has no WWW-Authenticate header");
        } else if !challenge::parse(&headers[..]).iter().any(|it| it.is("bearer") || it.is("dpop")) {
            self.by_server(&HTTP_UNAUTHORIZED, "WWW-Authenticate has neither a Bearer nor a DPoP challenge");
        }
    }
}
