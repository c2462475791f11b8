//! A scripted server: the test reads the client's lines and writes the server's.

use barewire::client::Builder;
use barewire::mcp::Revision;
use barewire::transport::{Memory, memory};
use barewire::{Client, ClientError};
use serde_json::{Value, json};
use tokio::time::timeout;

use super::emitted::Emitted;
use super::seconds;

/// The server's end of a connection.
pub(super) struct ScriptedServer(pub(super) Memory, Emitted);

/// The client's end of a connection, and the server.
pub(super) fn unconnected() -> (Memory, ScriptedServer) {
    let (here, there) = memory(1 << 20);
    (here, ScriptedServer(there, Emitted::of("client")))
}

/// A builder for the client.
pub(super) fn tester() -> Builder {
    Client::builder("tester", "0.1")
}

/// Connects a client to a modern server with these capabilities.
pub(super) async fn modern(builder: Builder, capabilities: Value) -> (Client, ScriptedServer) {
    let (here, mut script) = unconnected();
    let (client, _) = tokio::join!(builder.over(here), script.modern(capabilities));
    (client.expect("connected"), script)
}

/// Connects a client to a legacy server.
pub(super) async fn legacy(builder: Builder, revision: Revision, capabilities: Value) -> (Client, ScriptedServer) {
    let (here, mut script) = unconnected();
    let (client, _) = tokio::join!(builder.over(here), script.legacy(revision, capabilities));
    (client.expect("connected"), script)
}

impl ScriptedServer {
    /// Reads the next line.
    pub(super) async fn text(&mut self) -> String {
        let line = timeout(seconds(1000), self.0.recv_line()).await.expect("a line in time");
        let line = line.expect("memory").expect("not the end");
        self.1.sent("client", &line);
        line
    }

    /// Reads the next message.
    pub(super) async fn line(&mut self) -> Value {
        serde_json::from_str(&self.text().await).expect("JSON")
    }

    /// Reads the next message, which must have this method.
    pub(super) async fn expect(&mut self, method: &str) -> Value {
        let message = self.line().await;
        assert_eq!(message["method"], method, "{message}");
        message
    }

    /// Checks that nothing arrives for a second.
    pub(super) async fn expect_silence(&mut self) {
        let line = timeout(seconds(1), self.0.recv_line()).await;
        assert!(line.is_err(), "{line:?}");
    }

    pub(super) async fn send(&mut self, message: Value) {
        let line = message.to_string();
        self.1.sent("server", &line);
        self.0.send_line(&line).await.expect("memory");
    }

    pub(super) async fn notify(&mut self, method: &str, params: Value) {
        self.send(json!({"jsonrpc": "2.0", "method": method, "params": params})).await;
    }

    pub(super) async fn respond(&mut self, request: &Value, result: Value) {
        self.send(json!({"jsonrpc": "2.0", "id": request["id"], "result": result})).await;
    }

    pub(super) async fn refuse(&mut self, request: &Value, code: i64, data: Value) {
        let error = json!({"code": code, "message": "no", "data": data});
        self.send(json!({"jsonrpc": "2.0", "id": request["id"], "error": error})).await;
    }

    /// Sends a request to the client, and returns its response.
    pub(super) async fn request(&mut self, id: u64, method: &str, params: Value) -> Value {
        self.send(json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})).await;
        let answer = self.line().await;
        assert_eq!(answer["id"], id, "{answer}");
        answer
    }

    /// Answers the probe as a modern server. Returns the request.
    pub(super) async fn modern(&mut self, capabilities: Value) -> Value {
        let request = self.expect("server/discover").await;
        self.respond(&request, discovered(capabilities)).await;
        request
    }

    /// Refuses the probe and answers `initialize`. Returns the `initialize` request.
    pub(super) async fn legacy(&mut self, revision: Revision, capabilities: Value) -> Value {
        let probe = self.expect("server/discover").await;
        self.refuse(&probe, -32601, Value::Null).await;
        self.handshake(revision.as_str(), capabilities).await
    }

    /// Answers `initialize` and reads `notifications/initialized`. Returns the `initialize` request.
    pub(super) async fn handshake(&mut self, version: &str, capabilities: Value) -> Value {
        let request = self.expect("initialize").await;
        self.respond(&request, initialized(version, capabilities)).await;
        let ready = self.expect("notifications/initialized").await;
        assert!(ready.get("id").is_none() && ready.get("params").is_none(), "{ready}");
        request
    }
}

pub(super) fn discovered(capabilities: Value) -> Value {
    json!({
        "resultType": "complete",
        "supportedVersions": ["2026-07-28"],
        "capabilities": capabilities,
        "instructions": "be kind",
        "ttlMs": 0,
        "cacheScope": "public",
        "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "scripted", "version": "1"}},
    })
}

pub(super) fn initialized(version: &str, capabilities: Value) -> Value {
    let info = json!({"name": "scripted", "version": "1"});
    json!({"protocolVersion": version, "capabilities": capabilities, "serverInfo": info, "instructions": "be kind"})
}

/// The error text of a client that could not connect.
pub(super) fn refused(client: Result<Client, ClientError>) -> String {
    client.expect_err("not connected").to_string()
}
