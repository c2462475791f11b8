//! A client on a raw socket, with one persistent connection.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::requests;

/// A connection.
pub(super) struct Wire {
    pub(super) stream: TcpStream,
    buffer: Vec<u8>,
    /// Bytes of a stream of events that are not yet a whole event.
    events: Vec<u8>,
    is_chunked: bool,
}

/// The head of a response.
#[derive(Debug)]
pub(super) struct Head {
    pub(super) status: u16,
    headers: Vec<(String, String)>,
}

/// An event that carries a message.
#[derive(Debug)]
pub(super) struct Event {
    pub(super) id: Option<String>,
    pub(super) message: Value,
}

impl Head {
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        let named = self.headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        named.map(|(_, value)| value.as_str())
    }
}

impl Wire {
    pub(super) async fn connect(addr: SocketAddr) -> Self {
        let stream = TcpStream::connect(addr).await.expect("it listens");
        stream.set_nodelay(true).expect("a socket");
        Self::new(stream)
    }

    pub(super) fn new(stream: TcpStream) -> Self {
        Self { stream, buffer: Vec::new(), events: Vec::new(), is_chunked: false }
    }

    /// Opens a session on this connection, and returns its id.
    pub(super) async fn initialize(&mut self) -> String {
        let (head, _) = self.ask(&requests::initialize()).await;
        assert_eq!(head.status, 200);
        let session = head.header("Mcp-Session-Id").expect("a session").to_owned();
        let (head, _) = self.ask(&requests::initialized(&session)).await;
        assert_eq!(head.status, 202);
        session
    }

    /// Sends a modern call on a connection of its own, and returns the text of its result.
    pub(super) async fn call(addr: SocketAddr, id: u64, tool: &str, arguments: &str) -> String {
        let mut wire = Self::connect(addr).await;
        wire.send(&requests::call(id, tool, arguments)).await.expect("sent");
        text(&wire.answer().await, id)
    }

    pub(super) async fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes).await
    }

    /// Sends a request, and reads a response that is not a stream.
    pub(super) async fn ask(&mut self, request: &[u8]) -> (Head, Vec<u8>) {
        self.send(request).await.expect("sent");
        let head = self.head().await.expect("a response");
        let body = self.body(&head).await.expect("a body");
        (head, body)
    }

    /// Reads the response to the last request, as one body or as a stream. A stream must end after it.
    pub(super) async fn answer(&mut self) -> Value {
        let head = self.head().await.expect("a response");
        assert_eq!(head.status, 200, "{head:?}");
        if !self.is_chunked {
            let body = self.body(&head).await.expect("a body");
            return serde_json::from_slice(&body).expect("JSON");
        }
        let mut answer = None;
        while let Some(event) = self.event().await.expect("events") {
            assert!(answer.is_none(), "something follows on the answer: {event:?}");
            answer = Some(event.message).filter(|message| message.get("id").is_some());
        }
        answer.expect("a stream ends with the answer")
    }

    pub(super) async fn head(&mut self) -> io::Result<Head> {
        let end = loop {
            if let Some(at) = find(&self.buffer, b"\r\n\r\n") {
                break at;
            }
            self.more().await?;
        };
        let text = String::from_utf8_lossy(&self.buffer[..end]).into_owned();
        self.buffer.drain(..end + 4);
        let mut lines = text.split("\r\n");
        let status = lines.next().and_then(|line| line.strip_prefix("HTTP/1.1 ")?.get(..3)?.parse().ok());
        let status = status.unwrap_or_else(|| panic!("no response: {text}"));
        let headers = lines.filter_map(|line| line.split_once(':'));
        let headers = headers.map(|(name, value)| (name.to_owned(), value.trim().to_owned())).collect();
        let head = Head { status, headers };
        self.is_chunked = head.header("Transfer-Encoding") == Some("chunked");
        self.events.clear();
        Ok(head)
    }

    /// Reads a body of a known length.
    pub(super) async fn body(&mut self, head: &Head) -> io::Result<Vec<u8>> {
        let length: usize = head.header("Content-Length").and_then(|length| length.parse().ok()).unwrap_or(0);
        while self.buffer.len() < length {
            self.more().await?;
        }
        Ok(self.buffer.drain(..length).collect())
    }

    /// Reads the next event that carries a message; `None` at the end of the stream.
    pub(super) async fn event(&mut self) -> io::Result<Option<Event>> {
        loop {
            while let Some(end) = find(&self.events, b"\n\n") {
                let event: Vec<u8> = self.events.drain(..end + 2).collect();
                if let Some(event) = parse(&event) {
                    return Ok(Some(event));
                }
            }
            match self.chunk().await? {
                Some(chunk) => self.events.extend_from_slice(&chunk),
                None => return Ok(None),
            }
        }
    }

    async fn chunk(&mut self) -> io::Result<Option<Vec<u8>>> {
        let end = loop {
            if let Some(at) = find(&self.buffer, b"\r\n") {
                break at;
            }
            self.more().await?;
        };
        let length = std::str::from_utf8(&self.buffer[..end]).ok();
        let length = length.and_then(|length| usize::from_str_radix(length, 16).ok());
        let length = length.unwrap_or_else(|| panic!("no chunk: {}", self.buffer.escape_ascii()));
        while self.buffer.len() < end + 2 + length + 2 {
            self.more().await?;
        }
        let mut chunk: Vec<u8> = self.buffer.drain(..end + 2 + length + 2).collect();
        chunk.drain(..end + 2);
        chunk.truncate(length);
        Ok((length > 0).then_some(chunk))
    }

    async fn more(&mut self) -> io::Result<()> {
        let count = self.stream.read_buf(&mut self.buffer).await?;
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(())
    }

    /// Reads until the connection is closed or broken.
    pub(super) async fn rest(mut self) -> Vec<u8> {
        while self.more().await.is_ok() {}
        self.buffer
    }

    /// Reads until the connection is closed, or until nothing has followed a response for this long.
    pub(super) async fn response_and_extra_bytes(mut self, silence: Duration) -> Vec<u8> {
        while find(&self.buffer, b"\r\n\r\n").is_none() {
            if self.more().await.is_err() {
                return self.buffer;
            }
        }
        while let Ok(Ok(())) = tokio::time::timeout(silence, self.more()).await {}
        self.buffer
    }

    /// Whether the server has sent nothing that was not read.
    pub(super) fn is_quiet(&self) -> bool {
        let mut byte = [0];
        self.buffer.is_empty() && self.stream.try_read(&mut byte).is_err()
    }
}

/// Returns the text in the response to this request.
pub(super) fn text(answer: &Value, id: u64) -> String {
    assert_eq!(answer["id"], id, "{answer}");
    let text = answer["result"]["content"][0]["text"].as_str();
    text.unwrap_or_else(|| panic!("no text: {answer}")).to_owned()
}

fn parse(event: &[u8]) -> Option<Event> {
    let event = std::str::from_utf8(event).expect("UTF-8");
    let field = |name: &str| event.lines().find_map(|line| line.strip_prefix(name)).map(str::trim_start);
    let data = field("data:").filter(|data| !data.is_empty())?;
    Some(Event {
        id: field("id:").map(str::to_owned),
        message: serde_json::from_str(data).unwrap_or_else(|error| panic!("{error}: {data}")),
    })
}

pub(super) fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    haystack.windows(needle.len()).position(|window| window == needle)
}
