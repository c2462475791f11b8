//! Notifications to clients: list changes, subscriptions and their limits, progress, annotations.

use std::time::Instant;

use barewire::Server;
use barewire::server::{Call, Resource, Tool, ToolError};
use serde_json::{Value, json};

use super::eventually::DEADLINE;
use super::{Wire, modern};

#[tokio::test]
async fn a_slow_client_gets_few_notifications_for_many_changes() {
    let server = Server::new("test", "1").with(Resource::text("a://b", "b", "text"));
    let handle = server.handle();
    let mut wire = Wire::to(&server);
    wire.initialize(json!({})).await;
    let subscribe = json!({"jsonrpc": "2.0", "id": 1, "method": "resources/subscribe", "params": {"uri": "a://b"}});
    assert_eq!(wire.ask(subscribe).await["result"], json!({}));
    for round in 0..10_000 {
        handle.updated("a://b");
        handle.updated("a://c");
        handle.add(Tool::new(format!("tool{}", round % 7), "One of many", || async {}));
    }
    wire.send(json!({"jsonrpc": "2.0", "id": 2, "method": "ping"})).await;
    let mut received = Vec::new();
    loop {
        let message = wire.next().await;
        if message["id"] == 2 {
            break;
        }
        received.push(message["method"].as_str().unwrap_or_default().to_owned());
    }
    // Some notifications may be sent while the changes are made, but not one for each change.
    assert!(received.len() < 100, "{}", received.len());
    // The last of them may arrive after the response.
    for method in ["notifications/resources/updated", "notifications/tools/list_changed"] {
        while !received.iter().any(|it| it == method) {
            received.push(wire.next().await["method"].as_str().unwrap_or_default().to_owned());
        }
    }
    assert!(received.len() < 100, "{}", received.len());
}

#[tokio::test]
async fn a_repeated_initialized_does_not_repeat_notifications() {
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

#[tokio::test]
async fn a_subscription_id_is_the_request_id_as_written() {
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

fn listen(id: u32, notifications: Value) -> Value {
    let mut listen = modern(id, "x", json!({"notifications": notifications}));
    listen["method"] = "subscriptions/listen".into();
    listen
}

#[tokio::test]
async fn open_listens_are_limited_so_that_they_can_be_cancelled() {
    let server = Server::new("test", "1").tool("a", "A tool", || async {});
    let mut wire = Wire::to(&server);
    for id in 1..=256 {
        let acknowledged = wire.ask(listen(id, json!({}))).await;
        assert_eq!(acknowledged["method"], "notifications/subscriptions/acknowledged", "{id}");
    }
    assert_eq!(wire.ask(listen(257, json!({}))).await["error"]["code"], -32602);
    wire.send(json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}})).await;
    // The task of the listen drops it, which may take a moment.
    let start = Instant::now();
    for id in 300.. {
        if wire.ask(listen(id, json!({}))).await.get("method").is_some() {
            break;
        }
        assert!(start.elapsed() < DEADLINE, "none was ended");
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn an_array_is_not_accepted_as_an_object() {
    let server = Server::new("test", "1").tool("a", "A tool", || async {});
    let _handle = server.handle();
    let mut wire = Wire::to(&server);
    assert_eq!(wire.ask(listen(1, json!([true, null, null, []]))).await["error"]["code"], -32602);
    let mut complete = modern(2, "x", json!({"ref": ["ref/prompt", "x"], "argument": {"name": "a", "value": ""}}));
    complete["method"] = "completion/complete".into();
    assert_eq!(wire.ask(complete).await["error"]["code"], -32602);
}

#[tokio::test]
async fn subscriptions_are_limited() {
    let server = Server::new("test", "1").with(Resource::text("a://b", "b", "text"));
    let _handle = server.handle();
    let mut wire = Wire::to(&server);
    wire.initialize(json!({})).await;
    let subscribe =
        |uri: String| json!({"jsonrpc": "2.0", "id": 1, "method": "resources/subscribe", "params": {"uri": uri}});
    let long = "x".repeat(600_000);
    assert_eq!(wire.ask(subscribe(format!("a://{long}"))).await["result"], json!({}));
    assert_eq!(wire.ask(subscribe(format!("b://{long}"))).await["error"]["code"], -32602);
    assert_eq!(wire.ask(subscribe(format!("a://{long}"))).await["result"], json!({}));
}

#[tokio::test]
async fn progress_numbers_keep_their_type() {
    async fn work(call: Call) -> Result<(), ToolError> {
        let (name, nothing) = (String::from("c"), None::<&str>);
        call.progress(1, 10, "a").await?;
        call.progress(2_usize, Some(2.5), format!("b{name}")).await?;
        call.progress(2_u8, 10_i64, "no more than before").await?;
        call.progress(2.5_f32, f64::INFINITY, &name).await?;
        call.progress(f64::NAN, 10, "no number").await?;
        call.progress(u64::MAX, None, nothing).await?;
        Ok(())
    }
    let mut wire = Wire::to(&Server::new("test", "1").tool("work", "Works", work));
    wire.initialize(json!({})).await;
    let params = json!({"name": "work", "_meta": {"progressToken": "t"}});
    wire.send(json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})).await;
    for received in [
        json!({"progressToken": "t", "progress": 1, "total": 10, "message": "a"}),
        json!({"progressToken": "t", "progress": 2, "total": 2.5, "message": "bc"}),
        json!({"progressToken": "t", "progress": 2.5, "message": "c"}),
        json!({"progressToken": "t", "progress": u64::MAX}),
    ] {
        assert_eq!(wire.next().await["params"], received);
    }
    assert_eq!(wire.next().await["id"], 1);
}

#[tokio::test]
async fn annotations_are_listed() {
    let tool = Tool::new("a", "A tool", || async {}).read_only().destructive(false).idempotent().open_world(false);
    let mut wire = Wire::to(&Server::new("test", "1").with(tool));
    wire.initialize(json!({})).await;
    let listed = wire.ask(json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"})).await;
    let annotations = json!({
        "readOnlyHint": true, "destructiveHint": false, "idempotentHint": true, "openWorldHint": false,
    });
    assert_eq!(listed["result"]["tools"][0]["annotations"], annotations);
}
