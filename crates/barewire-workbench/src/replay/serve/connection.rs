//! Reads one HTTP request from a client's connection, and writes its response: a body or a stream of events.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use barewire_proto::http::Access;
use barewire_proto::transcript::Framing;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::mpsc::{Sender, UnboundedSender, channel};
use tokio::time::timeout;

use crate::http::decoder::{BodyLength, HttpDecoder, HttpPart};
use crate::http::linger;
use crate::replay::framing::framed;

pub(crate) struct ReceivedRequest {
    pub(crate) method: String,
    /// The headers, with names in lower case.
    headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
    /// Counts the body while it is in memory.
    body_size: BodySize,
}

impl ReceivedRequest {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

/// An event on a connection. `number` is the number of the connection.
pub(crate) enum ConnectionEvent {
    /// A request was received. Its response must be sent to `response`.
    Request { number: u64, request: ReceivedRequest, response: Sender<ResponsePart> },
    /// The client closed the connection.
    Closed { number: u64 },
}

pub(crate) enum ResponsePart {
    /// A complete response: a status and a text, which may be empty.
    Status(&'static str, String),
    /// A complete response: the JSON-RPC response, and the id of the session that begins with it, if any.
    Message(Vec<u8>, Option<String>),
    /// A complete response: an error without an id.
    OrphanError(Vec<u8>),
    /// The head of a stream of events, with the id of the session that begins with it, if any.
    EventsHead(Option<String>),
    /// A message in a stream of events.
    Event(Vec<u8>),
    EventsEnd,
}

/// The total length of the bodies that are in memory.
#[derive(Clone, Default)]
pub(crate) struct Bodies(Arc<AtomicUsize>);

/// The length of one body, which counts in the total until this value is dropped.
struct BodySize {
    bodies: Bodies,
    length: usize,
}

impl BodySize {
    /// Adds to the length. Returns `false` if all bodies are too long together.
    fn grow(&mut self, length: usize) -> bool {
        self.length += length;
        self.bodies.0.fetch_add(length, Ordering::Relaxed) + length <= MAX_BODIES
    }
}

impl Drop for BodySize {
    fn drop(&mut self) {
        self.bodies.0.fetch_sub(self.length, Ordering::Relaxed);
    }
}

/// Reads one request and writes its response. The client must open another connection for its next request.
pub(crate) async fn serve(
    mut client: TcpStream,
    number: u64,
    max_body: usize,
    bodies: Bodies,
    events: UnboundedSender<ConnectionEvent>,
) {
    let _ = client.set_nodelay(true);
    match timeout(REQUEST_TIMEOUT, read_request(&mut client, max_body, bodies)).await {
        Ok(Ok(Some(request))) => {
            let (response, mut parts) = channel(MAX_WAITING_PARTS);
            if events.send(ConnectionEvent::Request { number, request, response }).is_err() {
                return;
            }
            let mut byte = [0];
            loop {
                let part = tokio::select! {
                    part = parts.recv() => part,
                    // The request was read completely, so only the end of the connection can follow.
                    _ = client.read(&mut byte) => {
                        let _ = events.send(ConnectionEvent::Closed { number });
                        return;
                    }
                };
                let (bytes, is_last) = part.map_or((Vec::new(), true), ResponsePart::into_bytes);
                if !matches!(timeout(WRITE_TIMEOUT, client.write_all(&bytes)).await, Ok(Ok(()))) {
                    let _ = events.send(ConnectionEvent::Closed { number });
                    return;
                }
                if is_last {
                    break;
                }
            }
        }
        Ok(Ok(None)) | Err(_) => return,
        Ok(Err((status, why))) => {
            let (bytes, _) = ResponsePart::Status(status, why).into_bytes();
            let _ = timeout(WRITE_TIMEOUT, client.write_all(&bytes)).await;
        }
    }
    linger(client).await;
}

impl ResponsePart {
    /// Returns the bytes of the part, and whether it is the last one.
    fn into_bytes(self) -> (Vec<u8>, bool) {
        match self {
            Self::Status(status, text) => {
                let kind = if text.is_empty() { "" } else { "text/plain; charset=utf-8" };
                ([head(status, kind, Some(text.len()), None), text.into_bytes()].concat(), true)
            }
            Self::Message(body, session) => {
                ([head("200 OK", "application/json", Some(body.len()), session), body].concat(), true)
            }
            Self::OrphanError(body) => {
                ([head("400 Bad Request", "application/json", Some(body.len()), None), body].concat(), true)
            }
            Self::EventsHead(session) => (head("200 OK", "text/event-stream", None, session), false),
            Self::Event(body) => {
                let line = framed(Framing::Lines, &body);
                ([&b"event: message\ndata: "[..], &line, b"\n"].concat(), false)
            }
            Self::EventsEnd => (Vec::new(), true),
        }
    }
}

fn head(status: &str, content_type: &str, length: Option<usize>, session: Option<String>) -> Vec<u8> {
    let content_type = Some(content_type).filter(|it| !it.is_empty());
    let content_type = content_type.map_or(String::new(), |it| format!("content-type: {it}\r\n"));
    let length = length.map_or(String::new(), |length| format!("content-length: {length}\r\n"));
    let session = session.map_or(String::new(), |session| format!("mcp-session-id: {session}\r\n"));
    format!("HTTP/1.1 {status}\r\n{content_type}{length}{session}connection: close\r\n\r\n").into_bytes()
}

/// Reads a request. Returns `None` if the client closed the connection, or the status and reason of a refusal.
async fn read_request(
    client: &mut TcpStream,
    max_body: usize,
    bodies: Bodies,
) -> Result<Option<ReceivedRequest>, (&'static str, String)> {
    let bad = |why: &str| ("400 Bad Request", format!("{why}\n"));
    let mut messages = HttpDecoder::new();
    let mut buffer = vec![0; READ_BUFFER];
    let mut request: Option<ReceivedRequest> = None;
    loop {
        let Ok(count @ 1..) = client.read(&mut buffer).await else { return Ok(None) };
        let mut input = &buffer[..count];
        while let Some(part) = messages.next(&mut input).map_err(|broken| bad(broken.why()))? {
            match part {
                HttpPart::Head(bytes) => {
                    let (head, follows) = parse_head(&bytes, bodies.clone())?;
                    messages.set_body(follows);
                    if head.header("expect").is_some_and(|it| it.eq_ignore_ascii_case("100-continue")) {
                        let _ = client.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").await;
                    }
                    request = Some(head);
                }
                HttpPart::Body(bytes) => {
                    let Some(request) = &mut request else { continue };
                    if request.body.len() + bytes.len() > max_body {
                        return Err(("413 Content Too Large", format!("more than {max_body} bytes\n")));
                    }
                    if !request.body_size.grow(bytes.len()) {
                        return Err(("503 Service Unavailable", "too many long bodies at once\n".to_owned()));
                    }
                    request.body.extend_from_slice(bytes);
                }
                HttpPart::Framing(_) => {}
                HttpPart::End => return Ok(request),
            }
        }
    }
}

/// Parses a complete head. Refuses host names that are not loopback names, as a protection against DNS rebinding.
fn parse_head(bytes: &[u8], bodies: Bodies) -> Result<(ReceivedRequest, BodyLength), (&'static str, String)> {
    let bad = |why: &str| ("400 Bad Request", format!("{why}\n"));
    let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut parsed = httparse::Request::new(&mut headers);
    if !parsed.parse(bytes).is_ok_and(|status| status.is_complete()) {
        return Err(bad("not an HTTP/1.1 request"));
    }
    let pairs: Vec<(&str, &[u8])> = parsed.headers.iter().map(|it| (it.name, it.value)).collect();
    Access::loopback()
        .check(None, &pairs[..])
        .map_err(|rejection| ("403 Forbidden", format!("{}\n", rejection.error.message)))?;
    let path = parsed.path.unwrap_or_default();
    if path.split('?').next() != Some(HTTP_PATH) {
        return Err(("404 Not Found", format!("nothing at this path: the endpoint is {HTTP_PATH}\n")));
    }
    let method = parsed.method.unwrap_or_default().to_owned();
    let headers: Vec<(String, String)> = pairs
        .iter()
        .map(|(name, value)| (name.to_ascii_lowercase(), String::from_utf8_lossy(value).trim().to_owned()))
        .collect();
    let body_size = BodySize { bodies, length: 0 };
    let request = ReceivedRequest { method, headers, body: Vec::new(), body_size };
    let follows = match (request.header("transfer-encoding"), request.header("content-length")) {
        (Some(coding), None) if coding.eq_ignore_ascii_case("chunked") => BodyLength::Chunked,
        (None, Some(length)) => {
            let is_number = length.bytes().all(|byte| byte.is_ascii_digit());
            let length = length.parse().ok().filter(|_| is_number);
            BodyLength::Known(length.ok_or_else(|| bad("Content-Length is not a number"))?)
        }
        (None, None) => BodyLength::None,
        _ => return Err(bad("Transfer-Encoding and Content-Length do not say where the body ends")),
    };
    Ok((request, follows))
}

/// The path of the endpoint at which [`serve_http`](super::serve_http) answers.
pub const HTTP_PATH: &str = "/mcp";

const READ_BUFFER: usize = 32 * 1024;
const MAX_HEADERS: usize = 100;

/// The maximum time for a complete request to arrive.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// The maximum time for a client to read a part of its response.
const WRITE_TIMEOUT: Duration = Duration::from_secs(30);

/// The maximum number of parts of a response that wait to be written. Further parts are dropped; only a stream of
/// events that its client does not read can have so many.
const MAX_WAITING_PARTS: usize = 10_000;

/// The maximum length of all bodies in memory: two of the maximum length.
const MAX_BODIES: usize = 128 * 1024 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_are_limited_together() {
        let bodies = Bodies::default();
        let size = || BodySize { bodies: bodies.clone(), length: 0 };
        let (mut first, mut second) = (size(), size());
        assert!(first.grow(64 << 20) && second.grow(64 << 20));
        assert!(!size().grow(1), "one byte more");
        drop(first);
        assert!(size().grow(64 << 20), "as much as is free again");
    }
}
