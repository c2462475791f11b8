//! Reads one HTTP request from a connection, and writes the response.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;

use serde_json::Value;

pub(crate) struct Request {
    pub(crate) verb: String,
    /// The path, with the query.
    pub(crate) path: String,
    headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Request {
    pub(crate) fn read(stream: &mut TcpStream) -> Option<Self> {
        let mut reader = BufReader::new(stream);
        let mut line = String::new();
        reader.read_line(&mut line).ok().filter(|count| *count > 0)?;
        let mut words = line.split(' ');
        let (verb, path) = (words.next()?.to_owned(), words.next()?.to_owned());
        let mut headers = Vec::new();
        loop {
            line.clear();
            reader.read_line(&mut line).ok().filter(|count| *count > 0)?;
            let Some((name, value)) = line.trim_end().split_once(':') else { break };
            headers.push((name.trim().to_ascii_lowercase(), value.trim().to_owned()));
        }
        let mut request = Self { verb, path, headers, body: Vec::new() };
        let length = request.header("content-length").and_then(|it| it.parse().ok()).unwrap_or(0);
        request.body = vec![0; length];
        reader.read_exact(&mut request.body).ok()?;
        Some(request)
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

pub(crate) struct Response {
    status: u16,
    headers: Vec<(String, String)>,
    body: String,
}

impl Response {
    pub(crate) fn new(status: u16) -> Self {
        Self { status, headers: Vec::new(), body: String::new() }
    }

    /// Sets a header. An earlier value is replaced.
    pub(crate) fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.retain(|(known, _)| known != name);
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    pub(crate) fn json(mut self, message: &Value) -> Self {
        self.body = message.to_string();
        self.header("Content-Type", "application/json")
    }

    /// Sets a body of any type.
    pub(crate) fn page(mut self, body: &str, content_type: &str) -> Self {
        self.body = body.to_owned();
        self.header("Content-Type", content_type)
    }

    pub(crate) fn events(mut self, message: &Value) -> Self {
        self.body = format!("event: message\ndata: {message}\n\n");
        self.header("Content-Type", "text/event-stream")
    }

    pub(crate) fn is_error(&self) -> bool {
        self.status >= 400 || self.body.contains("\"error\"")
    }

    /// Writes the response. An error is ignored, because the client may have disconnected.
    pub(crate) fn write(&self, stream: &mut TcpStream) {
        let mut text = format!("HTTP/1.1 {} Said\r\n", self.status);
        for (name, value) in &self.headers {
            text += &format!("{name}: {value}\r\n");
        }
        text += &format!("Content-Length: {}\r\nConnection: close\r\n\r\n{}", self.body.len(), self.body);
        let _ = stream.write_all(text.as_bytes());
    }
}
