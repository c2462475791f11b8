//! A server that is written by hand: it reads lines, and says what the test says.

use barewire::client::Builder;
use barewire::mcp::Revision;
use barewire::transport::{Memory, memory};
use barewire::{Client, ClientError};
use serde_json::{Value, json};
use tokio::time::timeout;

use super::emitted::Emitted;
use super::seconds;

/// The server's end of a connection.
pub(super) struct Script(pub(super) Memory, Emitted);

/// A client in the making, and the server's end.
pub(super) fn apart() -> (Memory, Script) {
    let (here, there) = memory(1 << 20);
    (here, Script(there, Emitted::of("client")))
}

/// A client to be built.
pub(super) fn tester() -> Builder {
    Client::builder("tester", "0.1")
}

/// A client that is connected to a modern server with these capabilities.
pub(super) async fn modern(builder: Builder, capabilities: Value) -> (Client, Script) {
    let (here, mut script) = apart();
    let (client, _) = tokio::join!(builder.over(here), script.modern(capabilities));
    (client.expect("connected"), script)
}

/// A client that is connected to a legacy server.
pub(super) async fn legacy(builder: Builder, revision: Revision, capabilities: Value) -> (Client, Script) {
    let (here, mut script) = apart();
    let (client, _) = tokio::join!(builder.over(here), script.legacy(revision, capabilities));
    (client.expect("connected"), script)
}

impl Script {
    /// The next line as it was written.
    pub(super) async fn text(&mut self) -> String {
        let line = timeout(seconds(1000), self.0.recv_line()).await.expect("a line in time");
        let line = line.expect("memory").expect("not the end");
        self.1.sent("client", &line);
        line
    }

    /// The next message.
    pub(super) async fn line(&mut self) -> Value {
        serde_json::from_str(&self.text().await).expect("JSON")
    }

    /// The next message, which must be of this method.
    pub(super) async fn expect(&mut self, method: &str) -> Value {
        let message = self.line().await;
        assert_eq!(message["method"], method, "{message}");
        message
    }

    /// Nothing comes for a while.
    pub(super) async fn expect_silence(&mut self) {
        let line = timeout(seconds(1), self.0.recv_line()).await;
        assert!(line.is_err(), "{line:?}");
    }

    pub(super) async fn say(&mut self, message: Value) {
        let line = message.to_string();
        self.1.sent("server", &line);
        self.0.send_line(&line).await.expect("memory");
    }

    pub(super) async fn tell(&mut self, method: &str, params: Value) {
        self.say(json!({"jsonrpc": "2.0", "method": method, "params": params})).await;
    }

    pub(super) async fn answer(&mut self, request: &Value, result: Value) {
        self.say(json!({"jsonrpc": "2.0", "id": request["id"], "result": result})).await;
    }

    pub(super) async fn refuse(&mut self, request: &Value, code: i64, data: Value) {
        let error = json!({"code": code, "message": "no", "data": data});
        self.say(json!({"jsonrpc": "2.0", "id": request["id"], "error": error})).await;
    }

    /// Asks the client something, and gives its answer.
    pub(super) async fn ask(&mut self, id: u64, method: &str, params: Value) -> Value {
        self.say(json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})).await;
        let answer = self.line().await;
        assert_eq!(answer["id"], id, "{answer}");
        answer
    }

    /// Answers the probe as a modern server does. Gives what was asked.
    pub(super) async fn modern(&mut self, capabilities: Value) -> Value {
        let asked = self.expect("server/discover").await;
        self.answer(&asked, discovered(capabilities)).await;
        asked
    }

    /// Refuses the probe, and shakes hands. Gives what was asked.
    pub(super) async fn legacy(&mut self, revision: Revision, capabilities: Value) -> Value {
        let probe = self.expect("server/discover").await;
        self.refuse(&probe, -32601, Value::Null).await;
        self.shake_hands(revision.as_str(), capabilities).await
    }

    /// The handshake of the legacy era.
    pub(super) async fn shake_hands(&mut self, version: &str, capabilities: Value) -> Value {
        let asked = self.expect("initialize").await;
        self.answer(&asked, initialized(version, capabilities)).await;
        let ready = self.expect("notifications/initialized").await;
        assert!(ready.get("id").is_none() && ready.get("params").is_none(), "{ready}");
        asked
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

/// What a client says that could not connect.
pub(super) fn refused(client: Result<Client, ClientError>) -> String {
    client.expect_err("not connected").to_string()
}
