//! What transcripts cannot show of a server: what it lets go of, what it shares, what it costs.

mod emitted;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use barewire::Failure;
use barewire::Server;
use barewire::proto::mcp;
use barewire::server::{Call, Elicit, Resource, Structured, Template, Tool, ToolError};
use barewire::transport::{Memory, memory};
use emitted::Emitted;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

#[derive(Deserialize, JsonSchema)]
struct Name {
    name: String,
}

/// Counts how many are alive.
struct Alive(Arc<AtomicUsize>);

impl Alive {
    fn new(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Ordering::SeqCst);
        Self(Arc::clone(count))
    }
}

impl Drop for Alive {
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
        let params =
            json!({"protocolVersion": "2025-11-25", "capabilities": capabilities, "clientInfo": info});
        let answer =
            self.ask(json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params})).await;
        assert_eq!(answer["result"]["protocolVersion"], "2025-11-25");
        self.send(json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await;
    }
}

/// A modern call of a tool.
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

async fn until(what: &str, holds: impl Fn() -> bool) {
    for _ in 0..1000 {
        if holds() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("never: {what}");
}

#[tokio::test]
async fn a_thread_lets_go_of_a_handler_whose_round_is_over() {
    let alive = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&alive);
    let ask = move |call: Call| {
        let count = Arc::clone(&count);
        async move {
            let _alive = Alive::new(&count);
            let Name { name } = call.ask("name", Elicit::form("Who?")).await?;
            Ok::<_, ToolError>(name)
        }
    };
    let server = Server::new("test", "1").with(Tool::new("ask", "Asks", ask).blocking());
    let mut wire = Wire::to(&server);
    let answer = wire.ask(modern(1, "ask", json!({}))).await;
    assert_eq!(answer["result"]["resultType"], "input_required");
    until("the handler is dropped", || alive.load(Ordering::SeqCst) == 0).await;
    let responses = json!({"name": {"action": "accept", "content": {"name": "Ada"}}});
    let answer = wire.ask(modern(2, "ask", json!({"inputResponses": responses}))).await;
    assert_eq!(answer["result"]["content"][0]["text"], "Ada");
}

#[tokio::test]
async fn a_question_from_another_task_ends_the_round() {
    let ask = |call: Call| async move {
        let asked = tokio::spawn(async move {
            let answer = call.ask("name", Elicit::<Name>::form("Who?")).await;
            answer.map(|answer| answer.name)
        });
        asked.await.map_err(ToolError::from)?.map_err(ToolError::from)
    };
    let server = Server::new("test", "1").tool("ask", "Asks", ask);
    let mut wire = Wire::to(&server);
    let answer = wire.ask(modern(1, "ask", json!({}))).await;
    assert_eq!(answer["result"]["inputRequests"]["name"]["method"], "elicitation/create");
}

#[tokio::test]
async fn a_cancelled_handler_is_dropped() {
    let alive = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&alive);
    let wait = move || {
        let alive = Alive::new(&count);
        async move {
            let _alive = alive;
            std::future::pending::<()>().await;
        }
    };
    let server = Server::new("test", "1").tool("wait", "Waits", wait);
    let mut wire = Wire::to(&server);
    wire.send(modern(1, "wait", json!({}))).await;
    until("it runs", || alive.load(Ordering::SeqCst) == 1).await;
    wire.send(json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}))
        .await;
    until("it is dropped", || alive.load(Ordering::SeqCst) == 0).await;
    // Nothing was said about it: the next line is the answer to something else.
    let answer = wire.ask(modern(2, "no such tool", json!({}))).await;
    assert_eq!(answer["id"], 2);
}

#[tokio::test]
async fn a_client_may_come_back_over_another_connection_of_the_same_server_only() {
    let ask = |call: Call| async move {
        call.keep("seen", &7)?;
        let Name { name } = call.ask("name", Elicit::form("Who?")).await?;
        Ok::<_, ToolError>(format!("{name} {:?}", call.state::<u32>("seen")?))
    };
    let server = |key: Option<[u8; 32]>| {
        let server = Server::new("test", "1").tool("ask", "Asks", ask);
        match key {
            Some(key) => server.state_key(key),
            None => server,
        }
    };
    let first = server(None);
    let answer = Wire::to(&first).ask(modern(1, "ask", json!({}))).await;
    let state = answer["result"]["requestState"].as_str().expect("state").to_owned();
    let responses = json!({"name": {"action": "accept", "content": {"name": "Ada"}}});
    let again = json!({"inputResponses": responses, "requestState": state});
    let answer = Wire::to(&first).ask(modern(2, "ask", again.clone())).await;
    assert_eq!(answer["result"]["content"][0]["text"], "Ada Some(7)");
    let answer = Wire::to(&server(None)).ask(modern(3, "ask", again)).await;
    assert_eq!(answer["error"]["code"], -32602);
    assert!(answer["error"]["message"].as_str().is_some_and(|it| it.contains("start again")), "{answer}");

    let (one, other) = (server(Some([7; 32])), server(Some([7; 32])));
    let answer = Wire::to(&one).ask(modern(1, "ask", json!({}))).await;
    let state = answer["result"]["requestState"].clone();
    let again = json!({"inputResponses": {"name": {"action": "decline"}}, "requestState": state});
    let answer = Wire::to(&other).ask(modern(2, "ask", again)).await;
    assert_eq!(answer["result"]["isError"], true);
}

#[tokio::test]
async fn trace_context_is_passed_on() {
    let ask = |call: Call| async move {
        let Name { name } = call.ask("name", Elicit::form("Who?")).await?;
        Ok::<_, ToolError>(format!("{name} {}", call.trace_context().tracestate.unwrap_or_default()))
    };
    let server = Server::new("test", "1").tool("ask", "Asks", ask);
    let mut wire = Wire::to(&server);
    wire.initialize(json!({"elicitation": {}})).await;
    let parent = "00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01";
    let meta = json!({"traceparent": parent, "tracestate": "a=b", "other": 1});
    let asked = wire
        .ask(json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "ask", "_meta": meta}}))
        .await;
    assert_eq!(asked["method"], "elicitation/create");
    assert_eq!(asked["params"]["_meta"], json!({"traceparent": parent, "tracestate": "a=b"}));
    let result = json!({"action": "accept", "content": {"name": "Ada"}});
    let answer = wire.ask(json!({"jsonrpc": "2.0", "id": asked["id"], "result": result})).await;
    assert_eq!(answer["result"]["content"][0]["text"], "Ada a=b");
}

#[tokio::test]
async fn a_client_that_does_not_read_is_told_once_of_many_changes() {
    let server = Server::new("test", "1").with(Resource::text("a://b", "b", "text"));
    let handle = server.handle();
    let mut wire = Wire::to(&server);
    wire.initialize(json!({})).await;
    let subscribe =
        json!({"jsonrpc": "2.0", "id": 1, "method": "resources/subscribe", "params": {"uri": "a://b"}});
    assert_eq!(wire.ask(subscribe).await["result"], json!({}));
    for round in 0..10_000 {
        handle.updated("a://b");
        handle.updated("a://c");
        handle.add(Tool::new(format!("tool{}", round % 7), "One of many", || async {}));
    }
    wire.send(json!({"jsonrpc": "2.0", "id": 2, "method": "ping"})).await;
    let mut told = Vec::new();
    loop {
        let message = wire.next().await;
        if message["id"] == 2 {
            break;
        }
        told.push(message["method"].as_str().unwrap_or_default().to_owned());
    }
    // It may be told while the changes are made, but not of each.
    assert!(told.len() < 100, "{}", told.len());
    tokio::time::sleep(Duration::from_millis(50)).await;
    wire.send(json!({"jsonrpc": "2.0", "id": 3, "method": "ping"})).await;
    loop {
        let message = wire.next().await;
        if message["id"] == 3 {
            break;
        }
        told.push(message["method"].as_str().unwrap_or_default().to_owned());
    }
    for method in ["notifications/resources/updated", "notifications/tools/list_changed"] {
        assert!(told.iter().any(|it| it == method), "{told:?}");
    }
}

#[tokio::test]
async fn a_schema_of_ones_own_is_kept_as_it_is_written() {
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
    let call =
        r#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"raw","arguments":{"z": 1.0 }}}"#;
    wire.1.sent("client", call);
    wire.0.send_line(call).await.expect("sent");
    assert_eq!(wire.next().await["result"]["content"][0]["text"], r#"{"z": 1.0 }"#);
}

#[cfg(feature = "jsonschema")]
#[tokio::test]
async fn arguments_are_checked_by_a_schema_of_ones_own() {
    let schema = r#"{"type":"object","properties":{"n":{"type":"integer","minimum":3}},"required":["n"]}"#;
    let definition = mcp::Tool::new("raw", serde_json::from_str(schema).expect("JSON"));
    let handler = |arguments: Box<serde_json::value::RawValue>| async move { arguments.get().to_owned() };
    let tool = Tool::checked(definition, handler).expect("a schema");
    let mut wire = Wire::to(&Server::new("test", "1").with(tool));
    let answer = wire.ask(modern(1, "raw", json!({"arguments": {"n": 30.0}}))).await;
    assert_eq!(answer["result"]["content"][0]["text"], r#"{"n":30.0}"#);
    let answer = wire.ask(modern(2, "raw", json!({"arguments": {"n": 2}}))).await;
    assert_eq!(answer["result"]["isError"], true);
    assert!(
        answer["result"]["content"][0]["text"].as_str().is_some_and(|it| it.contains("\"n\"")),
        "{answer}"
    );
    let remote = r#"{"type":"object","$ref":"https://example.com/schema"}"#;
    let definition = mcp::Tool::new("remote", serde_json::from_str(remote).expect("JSON"));
    assert!(Tool::checked(definition, handler).is_err());
}

#[derive(Serialize, JsonSchema)]
struct Weather {
    degrees: f64,
}

#[tokio::test]
async fn structured_content_has_a_schema_and_is_text_as_well() {
    let server = Server::new("test", "1")
        .tool("weather", "The weather", || async { Structured(Weather { degrees: 21.5 }) })
        .tool("list", "A list", || async { Structured(vec![1, 2]) });
    let mut wire = Wire::to(&server);
    wire.initialize(json!({})).await;
    let listed = wire.ask(json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"})).await;
    let tools = &listed["result"]["tools"];
    assert_eq!(tools[0]["outputSchema"]["properties"]["degrees"]["type"], "number");
    // Before 2026-07-28 structured content is an object.
    assert_eq!(tools[1].get("outputSchema"), None);
    let call = |id: u32, name: &str| json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": name}});
    let answer = wire.ask(call(2, "weather")).await;
    assert_eq!(answer["result"]["structuredContent"], json!({"degrees": 21.5}));
    assert_eq!(answer["result"]["content"][0]["text"], r#"{"degrees":21.5}"#);
    let answer = wire.ask(call(3, "list")).await;
    assert_eq!(answer["result"].get("structuredContent"), None);
    assert_eq!(answer["result"]["content"][0]["text"], "[1,2]");
    let answer = wire.ask(modern(4, "list", json!({}))).await;
    assert_eq!(answer["result"]["structuredContent"], json!([1, 2]));
}

#[tokio::test]
async fn a_client_that_says_twice_that_it_is_ready_is_told_once() {
    let server = Server::new("test", "1").tool("a", "A tool", || async {});
    let handle = server.handle();
    let mut wire = Wire::to(&server);
    wire.send(json!({"jsonrpc": "2.0", "id": 9, "method": "ping"})).await;
    wire.send(json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await;
    assert_eq!(wire.next().await["result"], json!({}));
    wire.initialize(json!({})).await;
    for _ in 0..10 {
        wire.send(json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await;
    }
    assert_eq!(wire.ask(json!({"jsonrpc": "2.0", "id": 1, "method": "ping"})).await["id"], 1);
    handle.add(Tool::new("b", "Another", || async {}));
    assert_eq!(wire.next().await["method"], "notifications/tools/list_changed");
    assert_eq!(wire.ask(json!({"jsonrpc": "2.0", "id": 2, "method": "ping"})).await["id"], 2);
}

#[derive(Deserialize, JsonSchema)]
struct Age {
    age: u32,
}

#[tokio::test]
async fn a_question_that_is_asked_again_is_another_one() {
    let ask = |call: Call| async move {
        loop {
            let Age { age } = call.ask("age", Elicit::form("How old?")).await?;
            if age >= 18 {
                return Ok::<_, ToolError>(age);
            }
        }
    };
    let server = Server::new("test", "1").tool("ask", "Asks", ask);
    let mut wire = Wire::to(&server);
    let responses = json!({"age": {"action": "accept", "content": {"age": 7}}});
    let answer = wire.ask(modern(1, "ask", json!({"inputResponses": responses}))).await;
    assert_eq!(
        answer["result"]["inputRequests"].as_object().map(|it| it.keys().collect::<Vec<_>>()),
        Some(vec![&"age#2".to_owned()])
    );
    let state = answer["result"]["requestState"].clone();
    // What was answered stays as it was, whatever is sent for it now.
    let responses = json!({
        "age": {"action": "accept", "content": {"age": 40}},
        "age#2": {"action": "accept", "content": {"age": 20}},
    });
    let answer =
        wire.ask(modern(2, "ask", json!({"inputResponses": responses, "requestState": state}))).await;
    assert_eq!(answer["result"]["content"][0]["text"], "20");
}

fn read(id: u32, uri: &str, more: Value) -> Value {
    let mut request = modern(id, "x", more);
    request["method"] = "resources/read".into();
    request["params"]["uri"] = uri.into();
    request
}

#[tokio::test]
async fn the_state_of_one_resource_is_none_of_another() {
    let ask = |call: Call| async move {
        call.keep("seen", &true)?;
        let Name { name } = call.ask("name", Elicit::form("Who?")).await?;
        Ok::<_, Failure>(name)
    };
    let server = Server::new("test", "1")
        .with(Resource::new("a://1", "1", ask))
        .with(Resource::new("a://2", "2", ask));
    let mut wire = Wire::to(&server);
    let answer = wire.ask(read(1, "a://1", json!({}))).await;
    let state = answer["result"]["requestState"].clone();
    let responses = json!({"name": {"action": "accept", "content": {"name": "Ada"}}});
    let again = json!({"inputResponses": responses, "requestState": state});
    assert_eq!(wire.ask(read(2, "a://2", again.clone())).await["error"]["code"], -32602);
    assert_eq!(wire.ask(read(3, "a://1", again)).await["result"]["contents"][0]["text"], "Ada");
}

#[tokio::test]
async fn a_resource_may_say_how_long_it_can_be_kept() {
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
async fn a_subscription_is_named_by_the_id_as_it_was_written() {
    let server = Server::new("test", "1").tool("a", "A tool", || async {});
    let mut wire = Wire::to(&server);
    let mut listen = modern(0, "x", json!({"notifications": {}}));
    listen["method"] = "subscriptions/listen".into();
    let listen = listen.to_string().replace(r#""id":0"#, r#""id":18446744073709551616.50"#);
    wire.0.send_line(&listen).await.expect("sent");
    let line = wire.0.recv_line().await.expect("read").expect("a line");
    assert!(line.contains(r#""io.modelcontextprotocol/subscriptionId":18446744073709551616.50"#), "{line}");
    wire.0.close_write();
    let line = wire.0.recv_line().await.expect("read").expect("a line");
    assert!(line.contains(r#""io.modelcontextprotocol/subscriptionId":18446744073709551616.50"#), "{line}");
    assert!(line.contains(r#""resultType":"complete""#), "{line}");
}

#[tokio::test]
async fn what_is_refused_is_not_taken_for_the_answer_to_what_is_in_flight() {
    let server =
        Server::new("test", "1").tool("wait", "Waits", || tokio::time::sleep(Duration::from_millis(300)));
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
    assert!(wire.next().await["result"].is_object());
}

fn listen(id: u32, notifications: Value) -> Value {
    let mut listen = modern(id, "x", json!({"notifications": notifications}));
    listen["method"] = "subscriptions/listen".into();
    listen
}

#[tokio::test]
async fn listens_leave_room_for_what_ends_them() {
    let server = Server::new("test", "1").tool("a", "A tool", || async {});
    let mut wire = Wire::to(&server);
    for id in 1..=256 {
        let acknowledged = wire.ask(listen(id, json!({}))).await;
        assert_eq!(acknowledged["method"], "notifications/subscriptions/acknowledged", "{id}");
    }
    assert_eq!(wire.ask(listen(257, json!({}))).await["error"]["code"], -32602);
    wire.send(json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}}))
        .await;
    // It is dropped by its task, which may take a moment.
    for id in 300..400 {
        if wire.ask(listen(id, json!({}))).await.get("method").is_some() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("none was ended");
}

#[tokio::test]
async fn an_array_is_no_object() {
    let server = Server::new("test", "1").tool("a", "A tool", || async {});
    let _handle = server.handle();
    let mut wire = Wire::to(&server);
    assert_eq!(wire.ask(listen(1, json!([true, null, null, []]))).await["error"]["code"], -32602);
    let mut complete =
        modern(2, "x", json!({"ref": ["ref/prompt", "x"], "argument": {"name": "a", "value": ""}}));
    complete["method"] = "completion/complete".into();
    assert_eq!(wire.ask(complete).await["error"]["code"], -32602);
}

#[tokio::test]
async fn nobody_subscribes_to_more_than_is_kept() {
    let server = Server::new("test", "1").with(Resource::text("a://b", "b", "text"));
    let _handle = server.handle();
    let mut wire = Wire::to(&server);
    wire.initialize(json!({})).await;
    let subscribe = |uri: String| json!({"jsonrpc": "2.0", "id": 1, "method": "resources/subscribe", "params": {"uri": uri}});
    let long = "x".repeat(600_000);
    assert_eq!(wire.ask(subscribe(format!("a://{long}"))).await["result"], json!({}));
    assert_eq!(wire.ask(subscribe(format!("b://{long}"))).await["error"]["code"], -32602);
    assert_eq!(wire.ask(subscribe(format!("a://{long}"))).await["result"], json!({}));
}

#[tokio::test]
async fn a_uri_that_does_not_fit_one_template_may_fit_the_next() {
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
async fn a_task_that_asks_beyond_its_call_is_told() {
    let (told, mut ended) = tokio::sync::mpsc::channel(1);
    let ask = move |call: Call| {
        let told = told.clone();
        async move {
            let asked = tokio::spawn(async move {
                let answer = call.ask("name", Elicit::<Name>::form("Who?")).await;
                let _ = told.send(answer.is_err()).await;
            });
            asked.await.map_err(ToolError::from)
        }
    };
    let server = Server::new("test", "1").tool("ask", "Asks", ask);
    let mut wire = Wire::to(&server);
    let answer = wire.ask(modern(1, "ask", json!({}))).await;
    assert_eq!(answer["result"]["resultType"], "input_required");
    let told = tokio::time::timeout(Duration::from_secs(10), ended.recv()).await;
    assert_eq!(told.expect("in time"), Some(true));
}

#[tokio::test]
async fn one_odd_capability_does_not_hide_the_others() {
    let ask = |call: Call| async move { call.client_capabilities().elicitation.is_some() };
    let server = Server::new("test", "1").tool("ask", "Asks", ask);
    let mut wire = Wire::to(&server);
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {"sampling": true, "elicitation": {}},
    });
    let answer = wire.ask(modern(1, "ask", json!({"_meta": meta}))).await;
    assert_eq!(answer["result"]["content"][0]["text"], "true");
}

#[tokio::test]
async fn a_panic_costs_one_answer() {
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
fn arguments_that_are_no_object_are_refused_when_the_tool_is_made() {
    let _ = Server::new("test", "1").tool("list", "Takes a list", |_: Vec<u32>| async {});
}
