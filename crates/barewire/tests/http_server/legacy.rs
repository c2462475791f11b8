//! The legacy era: sessions, their messages, and how they end.

use std::time::{Duration, Instant};

use barewire::server::http::HttpLimits;
use serde_json::json;

use crate::eventually::DEADLINE;
use crate::wire::{Events, call};
use crate::{TestSite, test_server};

#[tokio::test]
async fn a_session_begins_serves_and_ends() {
    let (site, _) = TestSite::new().await;
    for revision in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
        let mut wire = site.connect().await;
        let session = wire.initialize(revision, json!({})).await;
        let id = session.strip_prefix("Mcp-Session-Id: ").expect("the header");
        assert!(id.len() >= 32 && id.bytes().all(|byte| byte.is_ascii_graphic()), "{id}");
        let version = format!("MCP-Protocol-Version: {revision}");
        for headers in [&[session.as_str()][..], &[session.as_str(), version.as_str()]] {
            let answer = wire.ask(headers, &call(1, "echo", json!({"text": "hi"}))).await;
            assert_eq!(answer.json()["result"]["content"][0]["text"], "hi");
        }
        assert_eq!(wire.ask(&[], &call(2, "echo", json!({}))).await.refusal(), (400, -32600));
        let unknown = wire.ask(&[&session, "MCP-Protocol-Version: 1999-01-01"], &call(3, "echo", json!({}))).await;
        assert_eq!(unknown.status(), 400);
        assert_eq!(wire.delete(&session).await.status(), 200);
        let response = wire.ask(&[&session], &call(4, "echo", json!({}))).await;
        assert_eq!((response.refusal(), &response.json()["id"]), ((404, -32600), &json!(4)));
        assert_eq!(wire.delete(&session).await.refusal(), (404, -32600));
        wire.get(&[&session]).await;
        assert_eq!(wire.answer().await.refusal(), (404, -32600));
    }
}

#[tokio::test]
async fn request_ids_are_separate_in_each_session() {
    if crate::NODES > 1 {
        // Each node knows only its own requests.
        return;
    }
    let (site, running_handlers) = TestSite::new().await;
    let (mut one, mut two) = (site.connect().await, site.connect().await);
    let (first, second) =
        (one.initialize("2025-11-25", json!({})).await, two.initialize("2025-11-25", json!({})).await);
    assert_ne!(first, second);
    // The same id is in flight in both sessions.
    one.post(&[&first], &call(1, "hold", json!({"ms": 60_000}))).await;
    two.post(&[&second], &call(1, "hold", json!({"ms": 60_000}))).await;
    running_handlers.until(2).await;
    let mut three = site.connect().await;
    let twice = three.ask(&[&first], &call(1, "echo", json!({"text": "hi"}))).await;
    assert_eq!(twice.refusal(), (400, -32600), "it is in flight in this session");
    assert_eq!(twice.json().get("id"), None, "under it the other one is answered");
    running_handlers.release();
    for wire in [&mut one, &mut two] {
        assert_eq!(wire.answer().await.json()["result"]["content"][0]["text"], "held");
    }
}

#[tokio::test]
async fn questions_arrive_on_the_stream_of_the_call_and_are_answered_by_another_post() {
    let (site, _) = TestSite::new().await;
    for revision in ["2025-06-18", "2025-11-25"] {
        let mut wire = site.connect().await;
        let session = wire.initialize(revision, json!({"elicitation": {}})).await;
        let mut other = site.connect().await;
        wire.post(&[&session], &call(5, "ask", json!({}))).await;
        let mut events = Events::of(wire).await;
        let first = events.next().await.expect("an event");
        let question = if revision == "2025-11-25" {
            assert_eq!(first.data.as_deref(), Some(""), "it is primed");
            let id = first.id.expect("an id");
            // In a cluster, the number of a stream contains that of its node.
            assert!(if crate::NODES == 1 { id == "3-0" } else { id.ends_with("-0") }, "{id}");
            assert!(first.retry.is_some());
            events.message().await
        } else {
            assert_eq!(first.retry, None, "an older client knows no event without data");
            first.json()
        };
        assert_eq!(question["method"], "elicitation/create");
        let answer = json!({"action": "accept", "content": {"name": "Ada"}});
        let answer = other.ask(&[&session], &json!({"jsonrpc": "2.0", "id": question["id"], "result": answer})).await;
        assert_eq!((answer.status(), answer.body.as_str()), (202, ""));
        let rest = events.rest().await;
        assert_eq!(rest.len(), 1);
        assert_eq!(rest[0]["result"]["content"][0]["text"], "Hello, Ada!");
    }
}

#[tokio::test]
async fn unsolicited_messages_arrive_on_the_get_stream() {
    let (server, _) = test_server();
    let handle = server.handle();
    let site = TestSite::of(server.http()).await;
    let mut wire = site.connect().await;
    let session = wire.initialize("2025-11-25", json!({})).await;
    // Sent before there is a stream: the notification waits, while requests are answered.
    handle.remove_tool("echo");
    let ping = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"});
    assert_eq!(wire.ask(&[&session], &ping).await.status(), 200);
    wire.get(&[&session]).await;
    let mut events = Events::of(wire).await;
    let primed = events.next().await.expect("an event");
    assert_eq!(primed.data.as_deref(), Some(""));
    let id = primed.id.expect("an id");
    assert!(if crate::NODES == 1 { id == "0-0" } else { id.ends_with("-0") }, "{id}");
    assert_eq!(events.message().await["method"], "notifications/tools/list_changed");
    handle.remove_tool("hold");
    assert_eq!(events.message().await["method"], "notifications/tools/list_changed");
    // The newest connection has the stream, and each message goes to one connection only.
    let mut wire = site.connect().await;
    wire.get(&[&session]).await;
    let mut second = Events::of(wire).await;
    let first = second.next().await.expect("an event");
    assert_eq!((first.id, first.retry, first.data), (None, Some(1000), None), "an id is of one event");
    assert_eq!(events.next().await, None);
    handle.remove_tool("ask");
    assert_eq!(second.message().await["method"], "notifications/tools/list_changed");
    // The end of the session ends the stream.
    site.connect().await.delete(&session).await;
    assert_eq!(second.next().await, None);
}

#[tokio::test]
async fn a_disconnect_does_not_cancel_and_a_cancellation_does() {
    // Two connections are allowed, so a third one is served only after one of them is closed.
    let (site, running_handlers) = TestSite::with(|limits| limits.connections = 2).await;
    let mut wire = site.connect().await;
    let session = wire.initialize("2025-11-25", json!({})).await;
    let ping = json!({"jsonrpc": "2.0", "id": 9, "method": "ping"});
    for token in [true, false] {
        let mut leaving = site.connect().await;
        let mut message = call(1, "hold", json!({"ms": 60_000}));
        if token {
            message["params"]["_meta"] = json!({"progressToken": 1});
        }
        leaving.post(&[&session], &message).await;
        running_handlers.until(1).await;
        drop(leaving);
        assert_eq!(site.connect().await.ask(&[&session], &ping).await.status(), 200);
        assert_eq!(running_handlers.now(), 1, "it goes on");
        let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}});
        assert_eq!(wire.ask(&[&session], &cancel).await.status(), 202);
        running_handlers.until(0).await;
    }
    // The response of a cancelled request that was still pending ends without an answer.
    let mut waiting = site.connect().await;
    waiting.post(&[&session], &call(2, "hold", json!({"ms": 60_000}))).await;
    running_handlers.until(1).await;
    let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 2}});
    assert_eq!(wire.ask(&[&session], &cancel).await.status(), 202);
    let mut ended = Events::of(waiting).await;
    while let Some(event) = ended.next().await {
        assert_eq!((event.id, event.data), (None, None), "it cannot be resumed either");
    }
    running_handlers.until(0).await;
}

#[tokio::test]
async fn batches_are_answered_where_the_revision_has_them() {
    let (site, _) = TestSite::new().await;
    let mut wire = site.connect().await;
    let batch = json!([
        call(1, "echo", json!({"text": "one"})),
        {"jsonrpc": "2.0", "method": "notifications/unknown"},
        call(2, "hold", json!({"ms": 30})),
        {"jsonrpc": "2.0", "id": 3},
    ]);
    let session = wire.initialize("2025-03-26", json!({})).await;
    let answer = wire.ask(&[&session], &batch).await;
    assert_eq!(answer.status(), 200);
    let array = answer.json();
    let array = array.as_array().expect("an array");
    assert_eq!(array.len(), 3);
    let of = |id: u64| array.iter().find(|it| it["id"] == id).expect("an answer");
    assert_eq!(of(1)["result"]["content"][0]["text"], "one");
    assert_eq!(of(2)["result"]["content"][0]["text"], "held");
    assert_eq!(of(3)["error"]["code"], -32600);
    let response = wire.ask(&[&session], &json!([{"jsonrpc": "2.0", "method": "notifications/unknown"}])).await;
    assert_eq!((response.status(), response.body.as_str()), (202, ""));
    let empty = wire.ask(&[&session], &json!([])).await;
    assert_eq!(empty.refusal(), (400, -32600));
    for revision in ["2025-06-18", "2025-11-25"] {
        let session = wire.initialize(revision, json!({})).await;
        assert_eq!(wire.ask(&[&session], &batch).await.refusal(), (400, -32600), "{revision}");
    }
}

#[tokio::test]
async fn sessions_are_bounded_and_expire() {
    if crate::NODES > 1 {
        // The limit is that of one node.
        return;
    }
    let (server, running_handlers) = test_server();
    let mut limits = HttpLimits::default();
    (limits.sessions, limits.session_idle) = (2, Duration::from_secs(5));
    let site = TestSite::of(server.http().limits(limits)).await;
    let mut wire = site.connect().await;
    let idle = wire.initialize("2025-11-25", json!({})).await;
    let busy = wire.initialize("2025-11-25", json!({})).await;
    let mut caller = site.connect().await;
    caller.post(&[&busy], &call(1, "hold", json!({"ms": 600_000}))).await;
    running_handlers.until(1).await;
    let params =
        json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "a", "version": "1"}});
    let third = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params});
    let full = wire.ask(&[], &third).await;
    assert_eq!((full.refusal(), full.head.get("retry-after")), ((503, -32603), Some("1")));
    let start = Instant::now();
    while wire.ask(&[], &third).await.status() != 200 {
        assert!(start.elapsed() < DEADLINE, "no session has expired");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(wire.ask(&[&idle], &call(1, "echo", json!({}))).await.status(), 404, "it has expired");
    running_handlers.release();
    assert_eq!(caller.answer().await.json()["result"]["content"][0]["text"], "held", "it was in use");
}

#[tokio::test]
async fn ending_a_session_answers_requests_in_flight() {
    let (site, running_handlers) = TestSite::with(|limits| limits.sessions = 1).await;
    for round in 0..20 {
        let mut wire = site.connect().await;
        let session = wire.initialize("2025-11-25", json!({})).await;
        let (mut waiting, mut streaming) = (site.connect().await, site.connect().await);
        waiting.post(&[&session], &call(1, "hold", json!({"ms": 60_000}))).await;
        let mut message = call(2, "hold", json!({"ms": 60_000}));
        message["params"]["_meta"] = json!({"progressToken": 2});
        streaming.post(&[&session], &message).await;
        let mut streaming = Events::of(streaming).await;
        assert_eq!(streaming.message().await["params"]["progress"], 1.0);
        running_handlers.until(2).await;
        assert_eq!(wire.delete(&session).await.status(), 200, "{round}");
        running_handlers.until(0).await;
        let answer = waiting.answer().await;
        assert_eq!((answer.refusal(), &answer.json()["id"]), ((200, -32603), &json!(1)));
        let rest = streaming.rest().await;
        assert_eq!((rest.len(), &rest[0]["id"], &rest[0]["error"]["code"]), (1, &json!(2), &json!(-32603)));
    }
}

/// Many connections of one session, on several threads: no message is lost when threads contend for the session.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_connections_of_one_session_are_all_answered() {
    let (site, _) = TestSite::new().await;
    let session = site.connect().await.initialize("2025-11-25", json!({})).await;
    let mut clients = Vec::new();
    for client in 0..16u64 {
        let (mut wire, session) = (site.connect().await, session.clone());
        clients.push(tokio::spawn(async move {
            for round in 0..100 {
                let id = client * 1000 + round;
                // Every other call waits, and becomes a task.
                let (tool, arguments) = match round % 2 {
                    0 => ("echo", json!({"text": id.to_string()})),
                    _ => ("hold", json!({"ms": 0})),
                };
                let answer = wire.ask(&[&session], &call(id, tool, arguments)).await;
                assert_eq!((answer.status(), &answer.json()["id"]), (200, &json!(id)));
            }
        }));
    }
    for client in clients {
        client.await.expect("all are answered");
    }
}

#[tokio::test]
async fn a_handshake_that_fails_opens_no_session() {
    let (site, _) = TestSite::with(|limits| limits.sessions = 1).await;
    let mut wire = site.connect().await;
    for _ in 0..3 {
        let bad = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": 7}});
        let answer = wire.ask(&[], &bad).await;
        assert_eq!((answer.refusal().1, answer.head.get("mcp-session-id")), (-32602, None));
    }
    wire.initialize("2025-11-25", json!({})).await;
    // A client that requests the modern revision with `initialize` gets the newest legacy one.
    let (site, _) = TestSite::new().await;
    let mut wire = site.connect().await;
    let params =
        json!({"protocolVersion": "2026-07-28", "capabilities": {}, "clientInfo": {"name": "a", "version": "1"}});
    let answer = wire.ask(&[], &json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params})).await;
    assert_eq!(answer.json()["result"]["protocolVersion"], "2025-11-25");
}
