//! Collects HTTP exchanges from the recorded heads, and the session of each exchange.

use std::collections::HashMap;

use barewire_proto::transcript::Stream;

/// An HTTP request and its response.
#[derive(Debug, Default, Clone)]
#[non_exhaustive]
pub struct HttpExchange {
    /// The request line, such as `POST /mcp HTTP/1.1`; empty if it was not recorded.
    pub request: String,
    /// The status line, such as `HTTP/1.1 200 OK`; empty until the response begins.
    pub status: String,
    /// The headers of the request, with names in lower case.
    pub request_headers: Vec<(String, String)>,
    /// The headers of the response, with names in lower case.
    pub response_headers: Vec<(String, String)>,
    /// The session id; `None` until it is known. Over HTTP+SSE, the channel of the stream that carries the responses.
    pub session: Option<String>,
    /// Whether the exchange uses HTTP+SSE, the transport of 2024-11-05: it is a stream with an `endpoint` event, or a
    /// POST to the endpoint that such an event names.
    pub is_sse_transport: bool,
    /// The numbers of the operations whose requests are in this exchange.
    pub(super) operations: Vec<u64>,
    /// The target for messages that this HTTP+SSE stream has named.
    endpoint: Option<String>,
}

impl HttpExchange {
    /// Returns the value of a request header.
    pub fn request_header(&self, name: &str) -> Option<&str> {
        find(&self.request_headers, name)
    }

    /// Returns the value of a response header.
    pub fn response_header(&self, name: &str) -> Option<&str> {
        find(&self.response_headers, name)
    }

    /// Returns the HTTP method, such as `POST`.
    pub fn method(&self) -> Option<&str> {
        self.request.split(' ').next().filter(|method| !method.is_empty())
    }

    /// Returns the path and the query of the request.
    pub fn target(&self) -> Option<&str> {
        self.request.split(' ').nth(1).map(without_origin)
    }

    /// Whether this may be a POST over HTTP+SSE. If no `endpoint` event was seen, status 202 is a sign of such a POST,
    /// provided that the request accepts no event stream and has neither a session id nor `Mcp-Method`.
    pub fn may_be_sse_post(&self) -> bool {
        let has = |name: &str| self.request_header(name).is_some();
        let wants_events = self.request_header("accept").is_some_and(|it| it.contains("text/event-stream"));
        let looks_like_it = self.code() == Some(202) && !wants_events && !has("mcp-session-id") && !has("mcp-method");
        self.method() == Some("POST") && (self.is_sse_transport || looks_like_it)
    }

    /// Returns the status code.
    pub fn code(&self) -> Option<u16> {
        self.status.split(' ').nth(1)?.parse().ok()
    }
}

/// Returns the part after `http://host`, or the whole target if it has no such prefix.
fn without_origin(target: &str) -> &str {
    let Some((_, rest)) = target.split_once("://") else { return target };
    rest.find('/').map_or("/", |at| &rest[at..])
}

fn find<'a>(headers: &'a [(String, String)], name: &str) -> Option<&'a str> {
    headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
}

#[derive(Default)]
pub(super) struct OpenExchanges {
    open: HashMap<String, HttpExchange>,
    /// Maps each target that an HTTP+SSE stream named for messages to the channel of that stream.
    endpoints: HashMap<String, String>,
}

impl OpenExchanges {
    pub(super) fn get(&self, channel: &str) -> Option<&HttpExchange> {
        self.open.get(channel)
    }

    /// Handles one line of a request or response head. Returns `true` if the line is the first to name the session.
    pub(super) fn head(&mut self, channel: &str, stream: Stream, line: &[u8]) -> bool {
        if self.open.len() >= MAX_EXCHANGES && !self.open.contains_key(channel) {
            return false;
        }
        let exchange = self.open.entry(channel.to_owned()).or_default();
        let line = String::from_utf8_lossy(line);
        let (first, headers) = match stream {
            Stream::ToServer => (&mut exchange.request, &mut exchange.request_headers),
            _ => (&mut exchange.status, &mut exchange.response_headers),
        };
        if first.is_empty() {
            *first = line.into_owned();
            if let Some(stream) = exchange.target().and_then(|target| self.endpoints.get(target)) {
                exchange.session = Some(stream.clone());
                exchange.is_sse_transport = true;
            }
            return false;
        }
        let Some((name, value)) = line.split_once(':') else { return false };
        let (name, value) = (name.trim().to_ascii_lowercase(), value.trim().to_owned());
        let is_first = name == "mcp-session-id" && exchange.session.is_none();
        if is_first {
            exchange.session = Some(value.clone());
        }
        if headers.len() < MAX_HEADERS {
            headers.push((name, value));
        }
        is_first
    }

    /// Stores the target for messages that an HTTP+SSE stream names in its `endpoint` event.
    pub(super) fn endpoint(&mut self, channel: &str, uri: &str) {
        let Some(exchange) = self.open.get_mut(channel) else { return };
        exchange.is_sse_transport = true;
        let uri = without_origin(uri.trim());
        let target = match uri.starts_with('/') {
            true => uri.to_owned(),
            false => {
                let path = exchange.target().and_then(|target| target.split('?').next()).unwrap_or("/");
                let folder = path.rfind('/').map_or("/", |at| &path[..=at]);
                format!("{folder}{uri}")
            }
        };
        if let Some(earlier) = exchange.endpoint.take() {
            self.endpoints.remove(&earlier);
        }
        if self.endpoints.len() < MAX_EXCHANGES {
            exchange.endpoint = Some(target.clone());
            self.endpoints.insert(target, channel.to_owned());
        }
    }

    /// Adds an operation whose request is in this exchange.
    pub(super) fn begin(&mut self, channel: &str, number: u64) {
        if let Some(exchange) = self.open.get_mut(channel)
            && exchange.operations.len() < MAX_OPERATIONS
        {
            exchange.operations.push(number);
        }
    }

    pub(super) fn close(&mut self, channel: &str) -> Option<HttpExchange> {
        let exchange = self.open.remove(channel)?;
        let endpoint = exchange.endpoint.as_ref();
        if let Some(endpoint) = endpoint.filter(|it| self.endpoints.get(*it).is_some_and(|stream| stream == channel)) {
            self.endpoints.remove(endpoint);
        }
        Some(exchange)
    }
}

/// The maximum number of open exchanges: more than any host has.
const MAX_EXCHANGES: usize = 65_536;
/// The maximum number of operations in an exchange. Only a batch has more than one.
const MAX_OPERATIONS: usize = 65_536;
/// The maximum number of headers: more than any client or server sends.
const MAX_HEADERS: usize = 256;
