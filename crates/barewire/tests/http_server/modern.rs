//! The modern era: standalone requests.

use std::time::Duration;

use serde_json::{Value, json};

use crate::wire::{Events, modern};
use crate::{TestSite, test_server};

#[tokio::test]
async fn a_response_without_earlier_messages_is_one_json_body() {
    let (site, _) = TestSite::new().await;
    let mut wire = site.connect().await;
    // One after the other on one connection.
    for id in 1..4 {
        let answer = wire.ask_modern(id, "tools/call", json!({"name": "echo", "arguments": {"text": "hi"}})).await;
        assert_eq!((answer.status(), answer.head.get("content-type")), (200, Some("application/json")));
        let json = answer.json();
        assert_eq!((&json["id"], &json["result"]["content"][0]["text"]), (&json!(id), &json!("hi")));
        assert_eq!(json["result"]["resultType"], "complete");
        assert_eq!(answer.head.get("mcp-session-id"), None);
    }
}

#[tokio::test]
async fn a_message_before_the_response_makes_it_a_stream() {
    let (site, _) = TestSite::new().await;
    let mut wire = site.connect().await;
    let params = json!({"name": "hold", "arguments": {"ms": 50}, "_meta": {"progressToken": "p"}});
    wire.post_modern(7, "tools/call", params).await;
    let mut events = Events::of(wire).await;
    let first = events.next().await.expect("an event");
    assert_eq!((first.id.as_deref(), first.retry), (None, None), "there is nothing to come back for");
    assert_eq!(first.json()["params"]["progressToken"], "p");
    let rest = events.rest().await;
    assert_eq!(rest.len(), 2);
    assert_eq!(rest[0]["params"]["progress"], 2.0);
    assert_eq!((&rest[1]["id"], &rest[1]["result"]["content"][0]["text"]), (&json!(7), &json!("held")));
    // Without a progress token, no message precedes the response.
    let mut wire = site.connect().await;
    let answer = wire.ask_modern(8, "tools/call", json!({"name": "hold", "arguments": {"ms": 20}})).await;
    assert_eq!(answer.head.get("content-type"), Some("application/json"));
}

#[tokio::test]
async fn a_slow_response_becomes_a_stream_with_keep_alive_comments() {
    let (site, handlers) = TestSite::with(|limits| limits.keep_alive = Duration::from_millis(50)).await;
    let mut wire = site.connect().await;
    wire.post_modern(1, "tools/call", json!({"name": "hold", "arguments": {"ms": 60_000}})).await;
    let mut events = Events::of(wire).await;
    for _ in 0..2 {
        let comment = events.next().await.expect("an event");
        assert!(comment.comment && comment.data.is_none(), "{comment:?}");
    }
    handlers.release();
    let rest = events.rest().await;
    assert_eq!(rest.len(), 1);
    assert_eq!(rest[0]["result"]["content"][0]["text"], "held");
}

#[tokio::test]
async fn a_client_that_closes_the_stream_cancels_the_handler() {
    let (site, running_handlers) = TestSite::new().await;
    for token in [true, false] {
        // With progress there is a stream already; without, the client disconnects before the response starts.
        let mut wire = site.connect().await;
        let meta = if token { json!({"progressToken": 1}) } else { json!({}) };
        let params = json!({"name": "hold", "arguments": {"ms": 60_000}, "_meta": meta});
        wire.post_modern(1, "tools/call", params).await;
        running_handlers.until(1).await;
        if token {
            let mut events = Events::of(wire).await;
            events.message().await;
            drop(events);
        } else {
            drop(wire);
        }
        running_handlers.until(0).await;
    }
}

#[tokio::test]
async fn each_error_has_its_status() {
    let (site, _) = TestSite::new().await;
    let mut wire = site.connect().await;
    for method in ["initialize", "ping", "logging/setLevel", "resources/subscribe", "unknown/method"] {
        let answer = wire.ask_modern(3, method, json!({})).await;
        assert_eq!((answer.refusal(), &answer.json()["id"]), ((404, -32601), &json!(3)), "{method}");
    }
    let answer = wire.ask_modern(4, "tools/call", json!({"name": "ask"})).await;
    assert_eq!(answer.refusal(), (400, -32021));
    assert_eq!(answer.json()["error"]["data"]["requiredCapabilities"]["elicitation"]["form"], json!({}));
    // All other errors have the status 200.
    let answer = wire.ask_modern(5, "tools/call", json!({"name": "none"})).await;
    assert_eq!(answer.refusal(), (200, -32602));
}

#[tokio::test]
async fn a_question_and_its_answer_are_two_requests() {
    let (site, _) = TestSite::new().await;
    let mut wire = site.connect().await;
    let capable = json!({"io.modelcontextprotocol/clientCapabilities": {"elicitation": {"form": {}}}});
    let params = json!({"name": "ask", "_meta": capable});
    let question = wire.ask_modern(1, "tools/call", params.clone()).await.json();
    assert_eq!(question["result"]["resultType"], "input_required");
    assert_eq!(question["result"]["inputRequests"]["who"]["method"], "elicitation/create");
    let mut retry = params;
    retry["inputResponses"] = json!({"who": {"action": "accept", "content": {"name": "Ada"}}});
    // Over another connection: the server keeps no state.
    let mut wire = site.connect().await;
    let done = wire.ask_modern(2, "tools/call", retry).await.json();
    assert_eq!(done["result"]["content"][0]["text"], "Hello, Ada!");
}

#[tokio::test]
async fn a_listen_gets_its_notifications_until_the_server_stops() {
    let (server, _) = test_server();
    let handle = server.handle();
    let mut limits = barewire::server::http::HttpLimits::default();
    limits.keep_alive = Duration::from_millis(100);
    let site = TestSite::of(server.http().limits(limits)).await;
    let mut wire = site.connect().await;
    let params = json!({"notifications": {"toolsListChanged": true}});
    wire.post_modern(9, "subscriptions/listen", params).await;
    let mut events = Events::of(wire).await;
    let first = events.message().await;
    assert_eq!(first["method"], "notifications/subscriptions/acknowledged");
    let tag = |message: &Value| message["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"].clone();
    assert_eq!(tag(&first), 9);
    assert!(events.next().await.expect("an event").comment, "it is quiet");
    handle.remove_tool("echo");
    let change = events.message().await;
    assert_eq!((change["method"].as_str(), tag(&change)), (Some("notifications/tools/list_changed"), json!(9)));
    site.stop.stop();
    let rest = events.rest().await;
    assert_eq!(rest.len(), 1);
    assert_eq!((&rest[0]["id"], &rest[0]["result"]["resultType"]), (&json!(9), &json!("complete")));
    site.running.await.expect("it ends by itself");
}

#[tokio::test]
async fn headers_must_repeat_the_marked_arguments() {
    let (site, _) = TestSite::new().await;
    let mut wire = site.connect().await;
    let arguments = json!({"region": "Hello, 世界", "size": 42});
    let region = "Mcp-Param-Region: =?base64?SGVsbG8sIOS4lueVjA==?=";
    for (headers, arguments, expected) in [
        (&[region, "mcp-param-SIZE: 42"][..], &arguments, None),
        (&[region, "Mcp-Param-Size: 42.0"], &arguments, None),
        (&[], &json!({"region": null}), None),
        (&["Mcp-Param-Region: "], &json!({"region": ""}), None),
        (&[region], &arguments, Some((400, -32020))),
        (&[region, "Mcp-Param-Size: 43"], &arguments, Some((400, -32020))),
        (&["Mcp-Param-Region: =?base64?SGVsbG8sIOS4lueVjA?=", "Mcp-Param-Size: 42"], &arguments, Some((400, -32020))),
        (&["Mcp-Param-Region: eu"], &json!({"region": "us"}), Some((400, -32020))),
        (&["Mcp-Param-Region: us", "Mcp-Param-Region: us"], &json!({"region": "us"}), Some((400, -32020))),
    ] {
        let (usual, message) = modern(5, "tools/call", json!({"name": "mirrored", "arguments": arguments}));
        let headers: Vec<&str> = usual.iter().map(String::as_str).chain(headers.iter().copied()).collect();
        let answer = wire.ask(&headers, &message).await;
        match expected {
            None => assert_eq!(answer.status(), 200, "{headers:?}: {answer:?}"),
            Some(expected) => {
                assert_eq!((answer.refusal(), &answer.json()["id"]), (expected, &json!(5)), "{headers:?}");
            }
        }
    }
}

#[tokio::test]
async fn a_notification_is_accepted_and_a_response_is_not() {
    let (site, _) = TestSite::new().await;
    let mut wire = site.connect().await;
    let version = "MCP-Protocol-Version: 2026-07-28";
    let cancelled = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}});
    let answer = wire.ask(&[version], &cancelled).await;
    assert_eq!((answer.status(), answer.body.as_str()), (202, ""));
    let answer = wire.ask(&[version], &json!({"jsonrpc": "2.0", "id": 1, "result": {}})).await;
    assert_eq!(answer.refusal(), (400, -32600));
    assert_eq!(answer.json().get("id"), None);
}
