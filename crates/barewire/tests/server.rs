//! Server behaviour that transcripts cannot show: dropped handlers, shared state, exact bytes.

#[path = "server/clones.rs"]
mod clones;
mod emitted;
mod eventually;
#[path = "server/notifications.rs"]
mod notifications;
#[path = "server/questions.rs"]
mod questions;
#[path = "server/tasks.rs"]
mod tasks;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use barewire::Server;
use barewire::mcp;
use barewire::server::{Resource, Structured, Template, Tool};
use barewire::transport::{Memory, memory};
use emitted::Emitted;
use eventually::eventually;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::sync::Notify;

#[derive(Deserialize, JsonSchema)]
struct Name {
    name: String,
}

/// Counts the live values of this type.
struct LiveCounter(Arc<AtomicUsize>);

impl LiveCounter {
    fn new(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Ordering::SeqCst);
        Self(Arc::clone(count))
    }
}

impl Drop for LiveCounter {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// The client's end of a connection to a server.
struct Wire(Memory, Emitted);

impl Wire {
    fn to(server: &Server) -> Self {
        let (here, there) = memory(64 * 1024);
        tokio::spawn(server.serve(there));
        Self(here, Emitted::of("server"))
    }

    async fn send(&mut self, message: Value) {
        let line = message.to_string();
        self.1.sent("client", &line);
        self.0.send_line(&line).await.expect("sent");
    }

    async fn next(&mut self) -> Value {
        let line = tokio::time::timeout(Duration::from_secs(10), self.0.recv_line()).await;
        let line = line.expect("in time").expect("read").expect("a line");
        self.1.sent("server", &line);
        serde_json::from_str(&line).expect("JSON")
    }

    async fn ask(&mut self, message: Value) -> Value {
        self.send(message).await;
        self.next().await
    }

    async fn initialize(&mut self, capabilities: Value) {
        let info = json!({"name": "test", "version": "1"});
        let params = json!({"protocolVersion": "2025-11-25", "capabilities": capabilities, "clientInfo": info});
        let answer = self.ask(json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params})).await;
        assert_eq!(answer["result"]["protocolVersion"], "2025-11-25");
        self.send(json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await;
    }
}

/// A modern tool call.
fn modern(id: u32, tool: &str, more: Value) -> Value {
    let mut params = json!({
        "name": tool,
        "_meta": {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {"elicitation": {}},
        },
    });
    let more = more.as_object().cloned().unwrap_or_default();
    params.as_object_mut().expect("an object").extend(more);
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params})
}

#[tokio::test]
async fn a_cancelled_handler_is_dropped() {
    let alive = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&alive);
    let wait = move || {
        let alive = LiveCounter::new(&count);
        async move {
            let _alive = alive;
            std::future::pending::<()>().await;
        }
    };
    let server = Server::new("test", "1").tool("wait", "Waits", wait);
    let mut wire = Wire::to(&server);
    wire.send(modern(1, "wait", json!({}))).await;
    eventually("it runs", || alive.load(Ordering::SeqCst) == 1).await;
    wire.send(json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}})).await;
    eventually("it is dropped", || alive.load(Ordering::SeqCst) == 0).await;
    // A cancelled request has no response: the next line answers the other request.
    let answer = wire.ask(modern(2, "no such tool", json!({}))).await;
    assert_eq!(answer["id"], 2);
}

#[tokio::test]
async fn a_schema_written_by_hand_is_sent_unchanged() {
    let schema = r#"{"type":"object", "properties":{"z":{"type":"integer"},"a":{}},"x-mine":1.50}"#;
    let mut definition = mcp::Tool::new("raw", serde_json::from_str(schema).expect("JSON"));
    definition.output_schema = Some(serde_json::from_str(r#"{ "type" : "object" }"#).expect("JSON"));
    let handler = |arguments: Box<serde_json::value::RawValue>| async move { arguments.get().to_owned() };
    let server = Server::new("test", "1").with(Tool::unchecked(definition, handler));
    let mut wire = Wire::to(&server);
    wire.initialize(json!({})).await;
    wire.send(json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"})).await;
    let line = wire.0.recv_line().await.expect("read").expect("a line");
    wire.1.sent("server", &line);
    assert!(line.contains(&format!(r#""inputSchema":{schema}"#)), "{line}");
    assert!(line.contains(r#""outputSchema":{ "type" : "object" }"#), "{line}");
    let call = r#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"raw","arguments":{"z": 1.0 }}}"#;
    wire.1.sent("client", call);
    wire.0.send_line(call).await.expect("sent");
    assert_eq!(wire.next().await["result"]["content"][0]["text"], r#"{"z": 1.0 }"#);
}

#[cfg(feature = "jsonschema")]
#[tokio::test]
async fn arguments_are_checked_against_a_schema_written_by_hand() {
    let schema = r#"{"type":"object","properties":{"n":{"type":"integer","minimum":3}},"required":["n"]}"#;
    let definition = mcp::Tool::new("raw", serde_json::from_str(schema).expect("JSON"));
    let handler = |arguments: Box<serde_json::value::RawValue>| async move { arguments.get().to_owned() };
    let tool = Tool::checked(definition, handler).expect("a schema");
    let mut wire = Wire::to(&Server::new("test", "1").with(tool));
    let answer = wire.ask(modern(1, "raw", json!({"arguments": {"n": 30.0}}))).await;
    assert_eq!(answer["result"]["content"][0]["text"], r#"{"n":30.0}"#);
    let answer = wire.ask(modern(2, "raw", json!({"arguments": {"n": 2}}))).await;
    assert_eq!(answer["result"]["isError"], true);
    assert!(answer["result"]["content"][0]["text"].as_str().is_some_and(|it| it.contains("\"n\"")), "{answer}");
    let remote = r#"{"type":"object","$ref":"https://example.com/schema"}"#;
    let definition = mcp::Tool::new("remote", serde_json::from_str(remote).expect("JSON"));
    assert!(Tool::checked(definition, handler).is_err());
}

#[derive(Serialize, JsonSchema)]
struct Weather {
    degrees: f64,
}

#[tokio::test]
async fn structured_content_has_a_schema_and_is_also_sent_as_text() {
    let server = Server::new("test", "1")
        .tool("weather", "The weather", || async { Structured(Weather { degrees: 21.5 }) })
        .tool("list", "A list", || async { Structured(vec![1, 2]) });
    let mut wire = Wire::to(&server);
    wire.initialize(json!({})).await;
    let listed = wire.ask(json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"})).await;
    let tools = &listed["result"]["tools"];
    assert_eq!(tools[0]["outputSchema"]["properties"]["degrees"]["type"], "number");
    // Before 2026-07-28 structured content must be an object.
    assert_eq!(tools[1].get("outputSchema"), None);
    let call =
        |id: u32, name: &str| json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": name}});
    let answer = wire.ask(call(2, "weather")).await;
    assert_eq!(answer["result"]["structuredContent"], json!({"degrees": 21.5}));
    assert_eq!(answer["result"]["content"][0]["text"], r#"{"degrees":21.5}"#);
    let answer = wire.ask(call(3, "list")).await;
    assert_eq!(answer["result"].get("structuredContent"), None);
    assert_eq!(answer["result"]["content"][0]["text"], "[1,2]");
    let answer = wire.ask(modern(4, "list", json!({}))).await;
    assert_eq!(answer["result"]["structuredContent"], json!([1, 2]));
}

fn read(id: u32, uri: &str, more: Value) -> Value {
    let mut request = modern(id, "x", more);
    request["method"] = "resources/read".into();
    request["params"]["uri"] = uri.into();
    request
}

#[tokio::test]
async fn a_resource_may_set_its_own_cache_policy() {
    let contents = || async {
        let mut result = mcp::ReadResourceResult::new(vec![mcp::ResourceContents::text("a://1", "text")]);
        (result.ttl_ms, result.cache_scope) = (Some(5000), Some(mcp::CacheScope::Public));
        result
    };
    let server = Server::new("test", "1").with(Resource::new("a://1", "1", contents));
    let mut wire = Wire::to(&server);
    wire.send(read(1, "a://1", json!({}))).await;
    let line = wire.0.recv_line().await.expect("read").expect("a line");
    assert_eq!(line.matches("ttlMs").count(), 1, "{line}");
    assert!(line.contains(r#""ttlMs":5000,"cacheScope":"public""#), "{line}");
}

#[tokio::test]
async fn a_refusal_does_not_have_the_id_of_a_request_in_flight() {
    let refused = Arc::new(Notify::new());
    let waits = Arc::clone(&refused);
    let wait = move || Arc::clone(&waits).notified_owned();
    let server = Server::new("test", "1").tool("wait", "Waits until all is refused", wait);
    let mut wire = Wire::to(&server);
    wire.send(modern(1, "wait", json!({}))).await;
    for bad in [
        r#"{"jsonrpc":"2.0","id":1,"method":"x","params":null}"#,
        r#"{"id":1.0,"method":"x"}"#,
        r#"[{"jsonrpc":"2.0","id":1,"method":"x"}]"#,
    ] {
        wire.0.send_line(bad).await.expect("sent");
        let answer = wire.next().await;
        assert_eq!((&answer["id"], &answer["error"]["code"]), (&Value::Null, &json!(-32600)), "{bad}");
    }
    refused.notify_one();
    assert!(wire.next().await["result"].is_object());
}

#[tokio::test]
async fn a_uri_that_does_not_match_one_template_may_match_the_next() {
    #[derive(Deserialize)]
    struct Numbered {
        id: u32,
    }
    let server = Server::new("test", "1")
        .with(Template::new("note://{id}", "number", |Numbered { id }| async move { format!("number {id}") }))
        .with(Template::new("note://{name}", "name", |Name { name }| async move { format!("name {name}") }));
    let mut wire = Wire::to(&server);
    assert_eq!(wire.ask(read(1, "note://7", json!({}))).await["result"]["contents"][0]["text"], "number 7");
    assert_eq!(wire.ask(read(2, "note://x", json!({}))).await["result"]["contents"][0]["text"], "name x");
}

#[tokio::test]
async fn a_panic_fails_only_its_own_request() {
    #[expect(clippy::panic, reason = "that is the test")]
    let server = Server::new("test", "1").tool("panic", "Panics", || async {
        if true {
            panic!("with a secret");
        }
    });
    let mut wire = Wire::to(&server);
    let answer = wire.ask(modern(1, "panic", json!({}))).await;
    assert_eq!(answer["error"]["code"], -32603);
    assert!(!answer.to_string().contains("secret"));
    let answer = wire.ask(modern(2, "panic", json!({}))).await;
    assert_eq!(answer["id"], 2);
}

#[test]
#[should_panic(expected = "tool \"list\"")]
fn a_tool_whose_arguments_are_not_an_object_panics_on_creation() {
    let _ = Server::new("test", "1").tool("list", "Takes a list", |_: Vec<u32>| async {});
}
