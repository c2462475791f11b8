//! A raw HTTP/1.1 client: it sends exact bytes and reads responses piece by piece.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

/// One connection, or one after the other to several nodes.
pub(crate) struct Wire {
    stream: BufReader<TcpStream>,
    nodes: Vec<SocketAddr>,
    requests: usize,
}

/// The head of a response.
#[derive(Debug)]
pub(crate) struct Head {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
}

impl Head {
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn is_stream(&self) -> bool {
        self.get("content-type") == Some("text/event-stream")
    }
}

/// A whole response.
#[derive(Debug)]
pub(crate) struct HttpResponse {
    pub(crate) head: Head,
    pub(crate) body: String,
}

impl HttpResponse {
    pub(crate) fn status(&self) -> u16 {
        self.head.status
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|_| panic!("no JSON: {self:?}"))
    }

    /// Returns the status, and the code of the error.
    pub(crate) fn refusal(&self) -> (u16, i64) {
        (self.status(), self.json()["error"]["code"].as_i64().unwrap_or_default())
    }
}

/// An event of a stream.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Event {
    pub(crate) id: Option<String>,
    pub(crate) retry: Option<u64>,
    pub(crate) data: Option<String>,
    pub(crate) comment: bool,
}

impl Event {
    pub(crate) fn json(&self) -> Value {
        let data = self.data.as_deref().unwrap_or_else(|| panic!("no data: {self:?}"));
        serde_json::from_str(data).unwrap_or_else(|_| panic!("no JSON: {self:?}"))
    }
}

impl Wire {
    pub(crate) async fn to(addr: SocketAddr) -> Self {
        Self::to_each(&[addr]).await
    }

    /// Connects to one node after the other: each request goes to the next one.
    pub(crate) async fn to_each(nodes: &[SocketAddr]) -> Self {
        static CONNECTED: AtomicUsize = AtomicUsize::new(0);
        let requests = CONNECTED.fetch_add(1, Ordering::Relaxed);
        Self { stream: Self::connected(nodes[requests % nodes.len()]).await, nodes: nodes.to_vec(), requests }
    }

    async fn connected(addr: SocketAddr) -> BufReader<TcpStream> {
        let stream = TcpStream::connect(addr).await.expect("connected");
        stream.set_nodelay(true).expect("set");
        BufReader::new(stream)
    }

    pub(crate) async fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream.write_all(bytes.as_ref()).await.expect("sent");
    }

    /// Sends a request with these header lines.
    pub(crate) async fn request(&mut self, first: &str, headers: &[&str], body: &str) {
        self.requests += 1;
        if self.nodes.len() > 1 {
            self.stream = Self::connected(self.nodes[self.requests % self.nodes.len()]).await;
        }
        let mut text = format!("{first} HTTP/1.1\r\n");
        for header in headers {
            text.push_str(header);
            text.push_str("\r\n");
        }
        if !body.is_empty() {
            text.push_str(&format!("Content-Length: {}\r\n", body.len()));
        }
        self.send(format!("{text}\r\n{body}")).await;
    }

    /// Posts a message with the headers of a correct client and these.
    pub(crate) async fn post(&mut self, headers: &[&str], message: &Value) {
        let common = ["Host: localhost", "Content-Type: application/json", ACCEPT];
        let headers: Vec<&str> = common.iter().chain(headers).copied().collect();
        self.request("POST /mcp", &headers, &message.to_string()).await;
    }

    async fn line(&mut self) -> String {
        let mut line = String::new();
        let read = tokio::time::timeout(READ_TIMEOUT, self.stream.read_line(&mut line)).await;
        read.expect("in time").expect("read");
        line.truncate(line.trim_end_matches(['\r', '\n']).len());
        line
    }

    /// Reads the head of the next response.
    pub(crate) async fn head(&mut self) -> Head {
        let first = self.line().await;
        let status = first.split(' ').nth(1).and_then(|status| status.parse().ok());
        let status = status.unwrap_or_else(|| panic!("no status: {first:?}"));
        let mut headers = Vec::new();
        loop {
            let line = self.line().await;
            match line.split_once(": ") {
                Some((name, value)) => headers.push((name.to_lowercase(), value.to_owned())),
                None if line.is_empty() => return Head { status, headers },
                None => panic!("no header: {line:?}"),
            }
        }
    }

    /// Reads the next chunk of a body; `None` at its end.
    pub(crate) async fn chunk(&mut self) -> Option<String> {
        let size = self.line().await;
        let size = usize::from_str_radix(&size, 16).unwrap_or_else(|_| panic!("no size: {size:?}"));
        let mut data = vec![0; size];
        let read = tokio::time::timeout(READ_TIMEOUT, self.stream.read_exact(&mut data)).await;
        read.expect("in time").expect("read");
        assert_eq!(self.line().await, "");
        (size > 0).then(|| String::from_utf8(data).expect("UTF-8"))
    }

    /// Reads the next response. It must not be an endless one.
    pub(crate) async fn answer(&mut self) -> HttpResponse {
        let head = self.head().await;
        let mut body = String::new();
        if head.get("transfer-encoding") == Some("chunked") {
            while let Some(chunk) = self.chunk().await {
                body.push_str(&chunk);
            }
        } else {
            let length = head.get("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
            let mut data = vec![0; length];
            let read = tokio::time::timeout(READ_TIMEOUT, self.stream.read_exact(&mut data)).await;
            read.expect("in time").expect("read");
            body = String::from_utf8(data).expect("UTF-8");
        }
        HttpResponse { head, body }
    }

    pub(crate) async fn ask(&mut self, headers: &[&str], message: &Value) -> HttpResponse {
        self.post(headers, message).await;
        self.answer().await
    }

    /// Whether the server closes the connection.
    #[allow(dead_code, reason = "only the tests of one node use it")]
    pub(crate) async fn is_closed(&mut self) -> bool {
        let mut byte = [0];
        matches!(tokio::time::timeout(READ_TIMEOUT, self.stream.read(&mut byte)).await, Ok(Ok(0) | Err(_)))
    }
}

/// The events of a response.
pub(crate) struct Events {
    pub(crate) wire: Wire,
    rest: String,
}

impl Events {
    /// Reads the head of the response first.
    pub(crate) async fn of(mut wire: Wire) -> Self {
        let head = wire.head().await;
        assert!(head.status == 200 && head.is_stream(), "{head:?}");
        assert_eq!(head.get("x-accel-buffering"), Some("no"));
        Self { wire, rest: String::new() }
    }

    /// Reads the next event or comment; `None` at the end.
    pub(crate) async fn next(&mut self) -> Option<Event> {
        loop {
            if let Some((text, rest)) = self.rest.split_once("\n\n") {
                let mut event = Event::default();
                for line in text.lines() {
                    match line.split_once(": ").unwrap_or((line, "")) {
                        ("id", id) => event.id = Some(id.to_owned()),
                        ("retry", ms) => event.retry = Some(ms.parse().expect("a number")),
                        ("data", data) => event.data = Some(data.to_owned()),
                        ("", _) => event.comment = true,
                        (name, _) => panic!("unknown field {name:?}"),
                    }
                }
                self.rest = rest.to_owned();
                return Some(event);
            }
            let chunk = self.wire.chunk().await?;
            self.rest.push_str(&chunk);
        }
    }

    /// Reads the next message. Comments do not count: a stream of which nothing else comes is at fault.
    pub(crate) async fn message(&mut self) -> Value {
        let message = async {
            loop {
                let event = self.next().await.expect("a message");
                if event.data.as_deref().is_some_and(|data| !data.is_empty()) {
                    return event.json();
                }
            }
        };
        tokio::time::timeout(READ_TIMEOUT, message).await.expect("a message in time")
    }

    /// Reads all messages to the end.
    pub(crate) async fn rest(mut self) -> Vec<Value> {
        let mut messages = Vec::new();
        while let Some(event) = self.next().await {
            if event.data.as_deref().is_some_and(|data| !data.is_empty()) {
                messages.push(event.json());
            }
        }
        messages
    }
}

/// Returns a modern request, and the headers that go with it.
pub(crate) fn modern(id: u64, method: &str, mut params: Value) -> (Vec<String>, Value) {
    let mut headers = vec!["MCP-Protocol-Version: 2026-07-28".to_owned(), format!("Mcp-Method: {method}")];
    if let Some(name) = params.get("name").or(params.get("uri")).and_then(Value::as_str) {
        headers.push(format!("Mcp-Name: {name}"));
    }
    let meta = params.as_object_mut().expect("an object").entry("_meta").or_insert(json!({}));
    let meta = meta.as_object_mut().expect("an object");
    meta.insert("io.modelcontextprotocol/protocolVersion".to_owned(), "2026-07-28".into());
    meta.entry("io.modelcontextprotocol/clientCapabilities").or_insert(json!({}));
    (headers, json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}))
}

impl Wire {
    pub(crate) async fn post_modern(&mut self, id: u64, method: &str, params: Value) {
        let (headers, message) = modern(id, method, params);
        let headers: Vec<&str> = headers.iter().map(String::as_str).collect();
        self.post(&headers, &message).await;
    }

    pub(crate) async fn ask_modern(&mut self, id: u64, method: &str, params: Value) -> HttpResponse {
        self.post_modern(id, method, params).await;
        self.answer().await
    }

    /// Opens a session, and returns its header.
    pub(crate) async fn initialize(&mut self, revision: &str, capabilities: Value) -> String {
        self.initialize_with(revision, capabilities, &[]).await
    }

    /// Begins a session with these headers. Returns the header of the session.
    pub(crate) async fn initialize_with(&mut self, revision: &str, capabilities: Value, headers: &[&str]) -> String {
        let params = json!({
            "protocolVersion": revision,
            "capabilities": capabilities,
            "clientInfo": {"name": "test", "version": "1"},
        });
        let message = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params});
        let answer = self.ask(headers, &message).await;
        assert_eq!(answer.status(), 200);
        assert_eq!(answer.json()["result"]["protocolVersion"], revision);
        let session = format!("Mcp-Session-Id: {}", answer.head.get("mcp-session-id").expect("a session"));
        let headers: Vec<&str> = headers.iter().copied().chain([session.as_str()]).collect();
        let response = self.ask(&headers, &json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await;
        assert_eq!((response.status(), response.body.as_str()), (202, ""));
        session
    }

    pub(crate) async fn get(&mut self, headers: &[&str]) {
        let common = ["Host: localhost", "Accept: text/event-stream"];
        let headers: Vec<&str> = common.iter().chain(headers).copied().collect();
        self.request("GET /mcp", &headers, "").await;
    }

    pub(crate) async fn delete(&mut self, session: &str) -> HttpResponse {
        self.request("DELETE /mcp", &["Host: localhost", session], "").await;
        self.answer().await
    }
}

pub(crate) fn call(id: u64, tool: &str, arguments: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": tool, "arguments": arguments}})
}

pub(crate) const ACCEPT: &str = "Accept: application/json, text/event-stream";

/// Longer than any answer takes, also on a busy machine and after the lease of a node: a test that waits longer hangs.
const READ_TIMEOUT: Duration = Duration::from_secs(60);
