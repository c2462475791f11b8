//! Builds the HTTP request with which a client of either era sends a message, including the headers that repeat parts
//! of the message.

use std::borrow::Cow;
use std::collections::HashMap;

use barewire::client::http::Dialer;
use barewire_proto::http::mirror::encode;
use barewire_proto::http::{HeaderParams, mcp_name_source};
use barewire_proto::json::{Json, Text};
use barewire_proto::mcp::{Era, RequestParams, Revision};
use barewire_proto::rpc::{self, Message, Parsed};

use super::RequestKind;

#[derive(Clone)]
pub(crate) struct HttpRequest {
    /// The HTTP method.
    pub(crate) verb: &'static str,
    /// The headers: names in lower case, and values.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Option<Vec<u8>>,
    /// The era of the message in the body; `None` without a message.
    era: Option<Era>,
}

impl HttpRequest {
    fn post(body: &[u8], era: Era) -> Self {
        Self { verb: "POST", headers: Vec::new(), body: Some(body.to_vec()), era: Some(era) }
            .with("content-type", Some("application/json"))
            .with("accept", Some("application/json, text/event-stream"))
    }

    pub(crate) fn legacy(body: &[u8], revision: Revision, session: Option<&str>) -> Self {
        let post = Self::post(body, Era::Legacy);
        if parts(body).0.as_deref() == Some("initialize") {
            return post;
        }
        let has_header = revision >= Revision::V2025_06_18;
        post.with("mcp-session-id", session).with("mcp-protocol-version", has_header.then_some(revision.as_str()))
    }

    /// Makes a request that opens the stream of a session (GET) or ends the session (DELETE).
    pub(crate) fn of_session(verb: &'static str, session: Option<&str>, revision: Option<Revision>) -> Self {
        let version = revision.filter(|revision| *revision >= Revision::V2025_06_18);
        Self { verb, headers: Vec::new(), body: None, era: None }
            .with("accept", (verb == "GET").then_some("text/event-stream"))
            .with("mcp-session-id", session)
            .with("mcp-protocol-version", version.map(Revision::as_str))
    }

    pub(crate) fn modern(body: &[u8], tools: &ToolHeaders) -> Self {
        let (method, params) = parts(body);
        let text = |json: Option<Json<'_>>| json.and_then(Text::from_json).map(|it| it.to_name().into_owned());
        let version = text(params.meta.protocol_version);
        let name =
            method.as_deref().and_then(|method| mcp_name_source(method, &params)).and_then(|(_, name)| text(name));
        // A version that cannot be a header value is not used.
        let version = version.filter(|it| !it.is_empty() && it.bytes().all(|byte| byte.is_ascii_graphic()));
        let mut post = Self::post(body, Era::Modern)
            .with("mcp-protocol-version", Some(version.as_deref().unwrap_or(Revision::LATEST.as_str())))
            .with("mcp-method", method.as_deref().map(encode).as_deref())
            .with("mcp-name", name.as_deref().map(encode).as_deref());
        if let (Some("tools/call"), Some(name)) = (method.as_deref(), name) {
            for (header, value) in tools.headers(&name, params.arguments) {
                post = post.with(&header.to_ascii_lowercase(), Some(&value));
            }
        }
        post
    }

    /// Returns the lines of the request's head for this server, without the headers that the user has set.
    pub(crate) fn head(&self, dial: &Dialer, agent: &str) -> Vec<String> {
        let mut lines = vec![format!("{} {} HTTP/1.1", self.verb, dial.path_and_query())];
        if !self.headers.iter().any(|(name, _)| name == "host") {
            lines.push(format!("host: {}", dial.host()));
        }
        lines.extend(self.headers.iter().map(|(name, value)| format!("{name}: {value}")));
        lines.push(format!("user-agent: {agent}/{}", env!("CARGO_PKG_VERSION")));
        lines.push("connection: close".to_owned());
        if let Some(body) = &self.body {
            lines.push(format!("content-length: {}", body.len()));
        }
        lines
    }

    /// Returns the bytes of the request, with this head followed by the headers in `along`, which the user has set.
    pub(crate) fn bytes(&self, mut head: Vec<String>, along: &[(String, String)], dial: &Dialer) -> Vec<u8> {
        head.extend(along.iter().map(|(name, value)| format!("{name}: {value}")));
        if dial.to_proxy() {
            head[0] = format!("{} {}{} HTTP/1.1", self.verb, dial.origin(), dial.path_and_query());
            if let Some(value) = dial.proxy_authorization() {
                head.push(format!("proxy-authorization: {}", value.to_str().unwrap_or_default()));
            }
        }
        let mut bytes = head.join("\r\n").into_bytes();
        bytes.extend_from_slice(b"\r\n\r\n");
        bytes.extend_from_slice(self.body.as_deref().unwrap_or_default());
        bytes
    }

    /// Returns the kind of request, which decides how its response is read.
    pub(crate) fn kind(&self) -> RequestKind {
        if self.verb == "POST" { RequestKind::Message } else { RequestKind::Other }
    }

    /// Whether this is an `initialize` request, whose response begins a session.
    pub(super) fn is_initialize(&self) -> bool {
        let Some(body) = self.body.as_deref().filter(|_| self.era == Some(Era::Legacy)) else { return false };
        let first = match rpc::parse(body, usize::MAX) {
            Parsed::Batch(batch) => batch.texts().next().unwrap_or_default(),
            _ => body,
        };
        parts(first).0.as_deref() == Some("initialize")
    }

    /// Sets a header, or removes it if there is no value.
    pub(crate) fn with(mut self, name: &str, value: Option<&str>) -> Self {
        self.headers.retain(|(known, _)| !known.eq_ignore_ascii_case(name));
        if let Some(value) = value {
            self.headers.push((name.to_owned(), value.to_owned()));
        }
        self
    }
}

/// Maps the name of each tool to its arguments that are repeated in headers.
#[derive(Default)]
pub(crate) struct ToolHeaders(HashMap<String, HeaderParams>);

impl ToolHeaders {
    /// Reads from a response to `tools/list` which arguments of each tool are repeated in headers.
    pub(crate) fn learn(&mut self, bytes: &[u8]) {
        // Most servers have no tools with such headers.
        if memchr::memmem::find(bytes, b"x-mcp-header").is_none() {
            return;
        }
        let tools = Json::parse(bytes).ok().and_then(|message| message.at(&["result", "tools"]));
        for tool in tools.into_iter().flat_map(Json::elements).take(MAX_TOOLS) {
            let wanted = tool.member("inputSchema").and_then(|schema| HeaderParams::of(schema).ok());
            if let (Some(name), Some(wanted)) = (tool.member("name").and_then(Json::string), wanted) {
                self.0.insert(name.into_owned(), wanted);
            }
        }
    }

    fn headers(&self, tool: &str, arguments: Option<Json<'_>>) -> Vec<(String, String)> {
        self.0.get(tool).and_then(|wanted| wanted.headers(arguments).ok()).unwrap_or_default()
    }
}

/// The maximum number of tools that are read from a list, as in barewire's client.
const MAX_TOOLS: usize = 16_384;

pub(crate) fn is_modern(body: &[u8]) -> bool {
    parts(body).1.meta.protocol_version.is_some()
}

fn parts(body: &[u8]) -> (Option<Cow<'_, str>>, RequestParams<'_>) {
    let (method, params) = match rpc::parse(body, usize::MAX) {
        Parsed::Message(Message::Request(request)) => (Some(request.method), request.params),
        Parsed::Message(Message::Notification(notification)) => (Some(notification.method), notification.params),
        Parsed::Invalid(invalid) => return (invalid.method.map(Text::to_name), RequestParams::default()),
        _ => return (None, RequestParams::default()),
    };
    (method.map(Text::to_name), RequestParams::read(params))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A version in a capture becomes a header only if it is a valid header value.
    #[test]
    fn a_message_adds_no_headers_of_its_own() {
        let body = |version: &str| {
            format!(
                r#"{{"jsonrpc":"2.0","id":1,"method":"ping","params":{{"_meta":{{"io.modelcontextprotocol/protocolVersion":"{version}"}}}}}}"#
            )
        };
        let version = |request: &HttpRequest| {
            request.headers.iter().find(|(name, _)| name == "mcp-protocol-version").map(|(_, value)| value.clone())
        };
        let sent = |text: &str| version(&HttpRequest::modern(body(text).as_bytes(), &ToolHeaders::default()));
        assert_eq!(sent("2030-01-01").as_deref(), Some("2030-01-01"));
        for text in [r"2026-07-28\r\nX-Evil: 1", r"a\nb", "", "ä"] {
            assert_eq!(sent(text).as_deref(), Some(Revision::LATEST.as_str()), "{text}");
        }
    }
}
