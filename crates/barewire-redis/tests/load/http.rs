//! Requests -> responses and their events, over one connection that is kept as long as it works.

use std::io::{self, ErrorKind};

use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

/// A client of one server.
pub(crate) struct HttpClient {
    port: u16,
    /// The connection, if the last response was read to its end.
    idle: Option<BufReader<TcpStream>>,
}

/// A response, of which the body is still to be read.
pub(crate) struct HttpResponse {
    pub(crate) status: u16,
    pub(crate) session: Option<String>,
    is_stream: bool,
    body: Body,
    connection: BufReader<TcpStream>,
    text: String,
}

/// How much of a body is left.
enum Body {
    Length(usize),
    Chunked,
    Ended,
}

/// An event of a stream.
#[derive(Debug, Default)]
pub(crate) struct Event {
    pub(crate) id: Option<String>,
    pub(crate) message: Option<Value>,
}

impl HttpClient {
    pub(crate) fn new(port: u16) -> Self {
        Self { port, idle: None }
    }

    /// Posts a message with these header lines.
    pub(crate) async fn post(&mut self, headers: &str, message: &Value) -> io::Result<HttpResponse> {
        let common = "Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n";
        let body = message.to_string();
        self.send("POST", &format!("{common}{headers}Content-Length: {}\r\n", body.len()), &body).await
    }

    /// Resumes a stream after an event.
    pub(crate) async fn resume(&mut self, headers: &str, last: &str) -> io::Result<HttpResponse> {
        self.send("GET", &format!("Accept: text/event-stream\r\n{headers}Last-Event-ID: {last}\r\n"), "").await
    }

    /// Ends the session of these header lines.
    pub(crate) async fn delete(&mut self, headers: &str) -> io::Result<HttpResponse> {
        self.send("DELETE", headers, "").await
    }

    async fn send(&mut self, method: &str, headers: &str, body: &str) -> io::Result<HttpResponse> {
        let mut connection = match self.idle.take() {
            Some(connection) => connection,
            None => {
                let stream = TcpStream::connect(("127.0.0.1", self.port)).await?;
                stream.set_nodelay(true)?;
                BufReader::new(stream)
            }
        };
        let text = format!("{method} /mcp HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n{body}");
        connection.write_all(text.as_bytes()).await?;
        HttpResponse::begin(connection).await
    }

    /// Keeps the connection of a response that was read to its end.
    pub(crate) fn keep(&mut self, response: HttpResponse) {
        if matches!(response.body, Body::Ended) {
            self.idle = Some(response.connection);
        }
    }
}

impl HttpResponse {
    async fn begin(mut connection: BufReader<TcpStream>) -> io::Result<Self> {
        let status = line(&mut connection).await?;
        let status = status.split(' ').nth(1).and_then(|status| status.parse().ok());
        let status = status.ok_or_else(|| io::Error::new(ErrorKind::InvalidData, "no status"))?;
        let (mut session, mut is_stream, mut body) = (None, false, Body::Ended);
        loop {
            let header = line(&mut connection).await?;
            let Some((name, value)) = header.split_once(':') else { break };
            match (name.to_ascii_lowercase().as_str(), value.trim()) {
                ("mcp-session-id", id) => session = Some(id.to_owned()),
                ("content-type", kind) => is_stream = kind.starts_with("text/event-stream"),
                ("content-length", length) => match length.parse().unwrap_or(0) {
                    0 => {}
                    length => body = Body::Length(length),
                },
                ("transfer-encoding", _) => body = Body::Chunked,
                _ => {}
            }
        }
        Ok(Self { status, session, is_stream, body, connection, text: String::new() })
    }

    pub(crate) fn is_stream(&self) -> bool {
        self.status == 200 && self.is_stream
    }

    /// Reads the body to its end.
    pub(crate) async fn text(&mut self) -> io::Result<String> {
        while self.read_part().await? {}
        Ok(std::mem::take(&mut self.text))
    }

    /// Reads the next event. Returns `None` at the end of the stream.
    pub(crate) async fn event(&mut self) -> io::Result<Option<Event>> {
        loop {
            if let Some(end) = self.text.find("\n\n") {
                let mut event = Event::default();
                for line in self.text[..end].lines() {
                    match line.split_once(": ").unwrap_or((line, "")) {
                        ("id", id) => event.id = Some(id.to_owned()),
                        ("data", data) if !data.is_empty() => {
                            event.message = Some(serde_json::from_str(data).expect("a message is JSON"));
                        }
                        _ => {}
                    }
                }
                self.text.drain(..end + 2);
                return Ok(Some(event));
            }
            if !self.read_part().await? {
                return Ok(None);
            }
        }
    }

    /// Reads a part of the body. Returns whether there was one.
    async fn read_part(&mut self) -> io::Result<bool> {
        let length = match self.body {
            Body::Ended => return Ok(false),
            Body::Length(length) => length,
            Body::Chunked => {
                let size = line(&mut self.connection).await?;
                usize::from_str_radix(&size, 16).map_err(|_| io::Error::new(ErrorKind::InvalidData, "no chunk size"))?
            }
        };
        let mut part = vec![0; length];
        self.connection.read_exact(&mut part).await?;
        if matches!(self.body, Body::Chunked) {
            line(&mut self.connection).await?;
        }
        if length == 0 || matches!(self.body, Body::Length(_)) {
            self.body = Body::Ended;
        }
        self.text.push_str(&String::from_utf8(part).map_err(|_| io::Error::new(ErrorKind::InvalidData, "no UTF-8"))?);
        Ok(length > 0)
    }
}

async fn line(connection: &mut BufReader<TcpStream>) -> io::Result<String> {
    let mut line = String::new();
    if connection.read_line(&mut line).await? == 0 {
        return Err(ErrorKind::UnexpectedEof.into());
    }
    line.truncate(line.trim_end_matches(['\r', '\n']).len());
    Ok(line)
}
