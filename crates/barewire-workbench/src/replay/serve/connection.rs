//! A connection of a client -> one request, and its response: a body, or events as they come.

use std::time::Duration;

use barewire_proto::http::Access;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::time::timeout;

use crate::http::decoder::{BodyLength, HttpDecoder, HttpPart};

/// A request of HTTP.
pub(super) struct Request {
    pub(super) method: String,
    /// Names in lower case.
    headers: Vec<(String, String)>,
    pub(super) body: Vec<u8>,
}

impl Request {
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

/// Something that happened on the connection with this number.
pub(super) enum ConnectionEvent {
    /// A request came; its response goes to `reply`.
    Request { number: u64, request: Request, reply: UnboundedSender<Reply> },
    /// The client closed it.
    Closed { number: u64 },
}

/// A response, or a part of one.
pub(super) enum Reply {
    /// A status and nothing else, or a sentence.
    Status(&'static str, String),
    /// The answer alone, and the session that begins with it.
    Answer(Vec<u8>, Option<String>),
    /// An error that says of no request that it is about it.
    Refusal(Vec<u8>),
    /// Events follow.
    Events(Option<String>),
    /// A message.
    Event(Vec<u8>),
    End,
}

/// Reads one request and writes its response. Clients open another connection for the next.
pub(super) async fn serve(
    mut client: TcpStream,
    number: u64,
    max_body: usize,
    events: UnboundedSender<ConnectionEvent>,
) {
    let _ = client.set_nodelay(true);
    match timeout(REQUEST_TIMEOUT, request(&mut client, max_body)).await {
        Ok(Ok(Some(request))) => {
            let (reply, mut replies) = unbounded_channel();
            if events.send(ConnectionEvent::Request { number, request, reply }).is_err() {
                return;
            }
            let mut byte = [0];
            loop {
                let reply = tokio::select! {
                    reply = replies.recv() => reply,
                    // The request was read whole: only the end can follow.
                    _ = client.read(&mut byte) => {
                        let _ = events.send(ConnectionEvent::Closed { number });
                        return;
                    }
                };
                let (bytes, is_last) = reply.map_or((Vec::new(), true), written);
                if client.write_all(&bytes).await.is_err() {
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
            let (bytes, _) = written(Reply::Status(status, why));
            let _ = client.write_all(&bytes).await;
        }
    }
    linger(client).await;
}

/// The bytes of a reply, and whether it is the last.
fn written(reply: Reply) -> (Vec<u8>, bool) {
    let head = |status: &str, kind: &str, length: Option<usize>, session: Option<String>| {
        let kind = if kind.is_empty() { String::new() } else { format!("content-type: {kind}\r\n") };
        let length = length.map_or(String::new(), |length| format!("content-length: {length}\r\n"));
        let session = session.map_or(String::new(), |session| format!("mcp-session-id: {session}\r\n"));
        format!("HTTP/1.1 {status}\r\n{kind}{length}{session}connection: close\r\n\r\n").into_bytes()
    };
    match reply {
        Reply::Status(status, text) => {
            let kind = if text.is_empty() { "" } else { "text/plain; charset=utf-8" };
            ([head(status, kind, Some(text.len()), None), text.into_bytes()].concat(), true)
        }
        Reply::Answer(body, session) => {
            ([head("200 OK", "application/json", Some(body.len()), session), body].concat(), true)
        }
        Reply::Refusal(body) => {
            ([head("400 Bad Request", "application/json", Some(body.len()), None), body].concat(), true)
        }
        Reply::Events(session) => {
            let head = head("200 OK", "text/event-stream", None, session);
            (head, false)
        }
        // In JSON a line break can only stand where a space means the same.
        Reply::Event(mut body) => {
            for byte in body.iter_mut().filter(|byte| matches!(byte, b'\n' | b'\r')) {
                *byte = b' ';
            }
            ([&b"event: message\ndata: "[..], &body, b"\n\n"].concat(), false)
        }
        Reply::End => (Vec::new(), true),
    }
}

/// Reads a request; `None` if there is none, or the status and the reason why it is refused.
async fn request(client: &mut TcpStream, max_body: usize) -> Result<Option<Request>, (&'static str, String)> {
    let bad = |why: &str| ("400 Bad Request", format!("{why}\n"));
    let mut messages = HttpDecoder::new();
    let mut buffer = vec![0; READ_BUFFER];
    let mut request: Option<Request> = None;
    loop {
        let Ok(count @ 1..) = client.read(&mut buffer).await else { return Ok(None) };
        let mut input = &buffer[..count];
        while let Some(part) = messages.next(&mut input).map_err(|broken| bad(broken.why()))? {
            match part {
                HttpPart::Head(bytes) => {
                    let (head, follows) = head(&bytes)?;
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
                    request.body.extend_from_slice(bytes);
                }
                HttpPart::Framing(_) => {}
                HttpPart::End => return Ok(request),
            }
        }
    }
}

/// Takes a whole head. A page that had its name rebound to this machine calls us by that name, and is refused.
fn head(bytes: &[u8]) -> Result<(Request, BodyLength), (&'static str, String)> {
    let bad = |why: &str| ("400 Bad Request", format!("{why}\n"));
    let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut parsed = httparse::Request::new(&mut headers);
    if !parsed.parse(bytes).is_ok_and(|status| status.is_complete()) {
        return Err(bad("this is no request of HTTP/1.1"));
    }
    let pairs: Vec<(&str, &[u8])> = parsed.headers.iter().map(|it| (it.name, it.value)).collect();
    Access::loopback()
        .check(None, &pairs[..])
        .map_err(|rejection| ("403 Forbidden", format!("{}\n", rejection.error.message)))?;
    let path = parsed.path.unwrap_or_default();
    if path.split('?').next() != Some(HTTP_PATH) {
        return Err(("404 Not Found", format!("There is nothing at this path: the endpoint is {HTTP_PATH}\n")));
    }
    let method = parsed.method.unwrap_or_default().to_owned();
    let headers: Vec<(String, String)> = pairs
        .iter()
        .map(|(name, value)| (name.to_ascii_lowercase(), String::from_utf8_lossy(value).trim().to_owned()))
        .collect();
    let request = Request { method, headers, body: Vec::new() };
    let follows = match (request.header("transfer-encoding"), request.header("content-length")) {
        (Some(coding), None) if coding.eq_ignore_ascii_case("chunked") => BodyLength::Chunked,
        (None, Some(length)) => {
            let is_number = length.bytes().all(|byte| byte.is_ascii_digit());
            let length = length.parse().ok().filter(|_| is_number);
            BodyLength::Known(length.ok_or_else(|| bad("Content-Length is no number"))?)
        }
        (None, None) => BodyLength::None,
        _ => return Err(bad("it cannot be told where the body ends")),
    };
    Ok((request, follows))
}

/// Closes a connection so that what was written last arrives: closing with unread bytes would reset the connection.
async fn linger(mut client: TcpStream) {
    if client.shutdown().await.is_err() {
        return;
    }
    let mut rest = vec![0; 4096];
    let drained = async { while matches!(client.read(&mut rest).await, Ok(1..)) {} };
    let _ = timeout(LINGER_TIMEOUT, drained).await;
}

/// The path of the endpoint at which [`serve_http`](super::serve_http) answers.
pub const HTTP_PATH: &str = "/mcp";

const READ_BUFFER: usize = 32 * 1024;
const MAX_HEADERS: usize = 100;

/// The time for a whole request to arrive.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
/// The wait for the client to close its side.
const LINGER_TIMEOUT: Duration = Duration::from_secs(1);
