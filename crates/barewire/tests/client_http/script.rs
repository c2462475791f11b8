//! A scripted server: the test reads HTTP requests one by one and writes the responses.

use std::time::Duration;

use barewire::client::Builder;
use barewire::{Client, ClientError};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::in_time;

/// A listening server.
pub(super) struct ScriptedServer {
    pub(super) origin: String,
    requests: mpsc::UnboundedReceiver<HttpRequest>,
}

/// A request that waits for its response.
pub(super) struct HttpRequest {
    pub(super) method: String,
    pub(super) path: String,
    headers: Vec<(String, String)>,
    pub(super) body: String,
    stream: TcpStream,
}

/// A stream of events that is being written.
pub(super) struct EventWriter(TcpStream);

impl ScriptedServer {
    pub(super) async fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let origin = format!("http://{}", listener.local_addr().expect("bound"));
        let (to, requests) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let to = to.clone();
                tokio::spawn(async move {
                    if let Some(request) = HttpRequest::read(stream).await {
                        let _ = to.send(request);
                    }
                });
            }
        });
        Self { origin, requests }
    }

    pub(super) fn url(&self) -> String {
        format!("{}/mcp", self.origin)
    }

    /// Reads the next request.
    pub(super) async fn next(&mut self) -> HttpRequest {
        in_time(self.requests.recv()).await.expect("the listener runs")
    }

    /// Reads the next request without a timeout.
    pub(super) async fn any(&mut self) -> Option<HttpRequest> {
        self.requests.recv().await
    }

    /// Reads the next request, which must be a POST of this JSON-RPC method.
    pub(super) async fn post(&mut self, method: &str) -> HttpRequest {
        let request = self.next().await;
        assert_eq!((&*request.method, &*request.name()), ("POST", method), "{}", request.body);
        request
    }

    /// Reads the next request, which must have this HTTP method and no body.
    pub(super) async fn bare(&mut self, method: &str) -> HttpRequest {
        let request = self.next().await;
        assert_eq!((&*request.method, &*request.body), (method, ""));
        request
    }

    /// Checks that no request arrives for 300 ms.
    pub(super) async fn silence(&mut self) {
        if let Ok(Some(request)) = timeout(Duration::from_millis(300), self.requests.recv()).await {
            panic!("{} {}", request.method, request.body);
        }
    }

    /// Answers the first request as a modern server.
    pub(super) async fn modern(&mut self) {
        self.post("server/discover").await.result(discovered()).await;
    }

    /// Answers the first requests as a legacy server, with this session and without a GET stream.
    pub(super) async fn legacy(&mut self, session: Option<&str>) {
        self.post("server/discover").await.status("400 Bad Request", "").await;
        self.handshake(session).await;
        self.bare("GET").await.status("405 Method Not Allowed", "").await;
    }

    /// Answers `initialize` and `notifications/initialized`.
    pub(super) async fn handshake(&mut self, session: Option<&str>) {
        let request = self.post("initialize").await;
        assert_eq!(request.header("mcp-session-id"), None);
        request.initialized(session).await;
        let notification = self.post("notifications/initialized").await;
        assert_eq!(notification.header("mcp-session-id"), session);
        notification.status("202 Accepted", "").await;
    }

    /// Connects a client to a modern server.
    pub(super) async fn modern_client(&mut self, builder: Builder) -> Client {
        let url = self.url();
        let (client, ()) = tokio::join!(builder.http(url), self.modern());
        client.expect("connected")
    }

    /// Connects a client to a legacy server, in this session.
    pub(super) async fn legacy_client(&mut self, builder: Builder, session: Option<&str>) -> Client {
        let url = self.url();
        let (client, ()) = tokio::join!(builder.http(url), self.legacy(session));
        client.expect("connected")
    }
}

impl HttpRequest {
    async fn read(mut stream: TcpStream) -> Option<Self> {
        let mut bytes = Vec::new();
        let head = loop {
            if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
                break end;
            }
            if stream.read_buf(&mut bytes).await.ok()? == 0 {
                return None;
            }
        };
        let text = String::from_utf8(bytes[..head].to_vec()).expect("ASCII");
        let mut lines = text.split("\r\n");
        let mut first = lines.next()?.split(' ');
        let (method, path) = (first.next()?.to_owned(), first.next()?.to_owned());
        let headers: Vec<(String, String)> = lines
            .filter_map(|line| line.split_once(": "))
            .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
            .collect();
        let length = headers.iter().find(|(name, _)| name == "content-length");
        let length: usize = length.map_or(0, |(_, value)| value.parse().expect("a length"));
        let mut body = bytes.split_off(head + 4);
        while body.len() < length {
            if stream.read_buf(&mut body).await.ok()? == 0 {
                return None;
            }
        }
        Some(Self { method, path, headers, body: String::from_utf8(body).expect("UTF-8"), stream })
    }

    pub(super) fn header(&self, name: &str) -> Option<&str> {
        let mut values = self.headers.iter().filter(|(found, _)| found == name);
        let value = values.next().map(|(_, value)| &**value);
        assert!(values.next().is_none(), "{name} is repeated");
        value
    }

    pub(super) fn json(&self) -> Value {
        serde_json::from_str(&self.body).expect("JSON")
    }

    /// The JSON-RPC method of the message.
    fn name(&self) -> String {
        let message: Value = serde_json::from_str(&self.body).unwrap_or_default();
        message["method"].as_str().unwrap_or("(no method)").to_owned()
    }

    /// Sends exactly these bytes as the response.
    pub(super) async fn raw(mut self, answer: impl AsRef<[u8]>) {
        let _ = self.stream.write_all(answer.as_ref()).await;
        let _ = self.stream.shutdown().await;
        // Wait until the client has closed it, so that a reset does not lose data.
        let _ = timeout(Duration::from_secs(5), self.stream.read_to_end(&mut Vec::new())).await;
    }

    /// Responds with this status, these headers and this body.
    pub(super) async fn answer(self, status: &str, headers: &[&str], body: &str) {
        let mut head = format!("HTTP/1.1 {status}\r\nConnection: close\r\nContent-Length: {}\r\n", body.len());
        for header in headers {
            head.push_str(header);
            head.push_str("\r\n");
        }
        self.raw(format!("{head}\r\n{body}")).await;
    }

    pub(super) async fn status(self, status: &str, body: &str) {
        self.answer(status, &[], body).await;
    }

    /// Responds with a message.
    pub(super) async fn message(self, status: &str, message: Value) {
        self.answer(status, &[JSON], &message.to_string()).await;
    }

    pub(super) async fn result(self, result: Value) {
        let message = json!({"jsonrpc": "2.0", "id": self.json()["id"], "result": result});
        self.message("200 OK", message).await;
    }

    pub(super) async fn error(self, status: &str, code: i64, data: Value) {
        let error = json!({"code": code, "message": "no", "data": data});
        let message = json!({"jsonrpc": "2.0", "id": self.json()["id"], "error": error});
        self.message(status, message).await;
    }

    /// Answers `initialize`.
    pub(super) async fn initialized(self, session: Option<&str>) {
        let request = self.json();
        let result = json!({
            "protocolVersion": request["params"]["protocolVersion"],
            "capabilities": {"tools": {}, "resources": {"subscribe": true}},
            "serverInfo": {"name": "script", "version": "1"},
        });
        let message = json!({"jsonrpc": "2.0", "id": request["id"], "result": result}).to_string();
        let session = session.map(|session| format!("Mcp-Session-Id: {session}"));
        let mut headers = vec![JSON];
        headers.extend(session.as_deref());
        self.answer("200 OK", &headers, &message).await;
    }

    /// Responds with a stream that begins with this text.
    pub(super) async fn events(mut self, begins: &str) -> EventWriter {
        let head = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Type: text/event-stream\r\n\r\n";
        self.stream.write_all(format!("{head}{begins}").as_bytes()).await.expect("written");
        EventWriter(self.stream)
    }

    /// Waits until the client has closed the connection, without a response.
    pub(super) async fn closed(mut self) {
        let read = in_time(self.stream.read_to_end(&mut Vec::new())).await;
        assert!(!matches!(read, Ok(1..)), "{read:?}");
    }
}

impl EventWriter {
    pub(super) async fn send(&mut self, message: &Value) {
        self.text(&format!("data: {message}\n\n")).await;
    }

    pub(super) async fn text(&mut self, text: &str) {
        self.0.write_all(text.as_bytes()).await.expect("written");
    }

    /// Ends the stream.
    pub(super) async fn end(mut self) {
        let _ = self.0.shutdown().await;
        let _ = timeout(Duration::from_secs(5), self.0.read_to_end(&mut Vec::new())).await;
    }

    /// Waits until the client has closed the stream.
    pub(super) async fn closed(mut self) {
        let read = in_time(self.0.read_to_end(&mut Vec::new())).await;
        assert!(!matches!(read, Ok(1..)), "{read:?}");
    }
}

pub(super) fn discovered() -> Value {
    json!({
        "resultType": "complete",
        "supportedVersions": ["2026-07-28"],
        "capabilities": {"tools": {}, "resources": {}, "prompts": {}},
        "ttlMs": 0,
        "cacheScope": "private",
    })
}

pub(super) fn answer(request: &Value, result: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": request["id"], "result": result})
}

/// Connects a client while the server runs this.
pub(super) async fn connecting<T>(
    builder: Builder,
    url: String,
    server: impl Future<Output = T>,
) -> Result<Client, ClientError> {
    let (client, _) = tokio::join!(in_time(builder.http(url)), server);
    client
}

pub(super) const JSON: &str = "Content-Type: application/json";
