//! Responses to a POST, valid and invalid.

use std::sync::Arc;
use std::time::Duration;

use barewire::ClientError;
use barewire::client::ServerNotification;
use barewire::client::http::{Endpoint, HttpFailure};
use barewire::mcp::SubscriptionFilter;
use barewire::peer::ConnectionLimits;
use serde_json::json;
use tokio::sync::Notify;

use super::script::{JSON, ScriptedServer, answer};
use super::{in_time, tester};

fn contents() -> serde_json::Value {
    json!({"resultType": "complete", "contents": []})
}

#[tokio::test]
async fn json_and_events_are_both_read() {
    let mut script = ScriptedServer::new().await;
    let client = script.modern_client(tester()).await;
    let server = async {
        script.post("resources/read").await.result(contents()).await;
        let request = script.post("resources/read").await;
        let message = request.json();
        let mut events = request.events(": hello\r\n\r\nevent: ping\ndata: {}\n\n").await;
        events.text("data: {\"jsonrpc\":\"2.0\",\ndata: \"method\":\"notifications/x\"}\n\n").await;
        events.send(&answer(&message, contents())).await;
        events.end().await;
    };
    let calls = async {
        for _ in 0..2 {
            client.read_resource("a:b").await.expect("read");
        }
    };
    in_time(async { tokio::join!(server, calls) }).await;
}

#[tokio::test]
async fn an_error_status_with_a_json_rpc_error_is_a_response() {
    let mut script = ScriptedServer::new().await;
    let client = script.modern_client(tester()).await;
    let server = async {
        for (status, message) in [
            ("404 Not Found", json!({"jsonrpc": "2.0", "id": 2, "error": {"code": -32601, "message": "no"}})),
            ("400 Bad Request", json!({"jsonrpc": "2.0", "id": null, "error": {"code": -32602, "message": "no"}})),
            ("500 Internal Server Error", json!({"jsonrpc": "2.0", "error": {"code": -32603, "message": "no"}})),
            ("200 OK", json!({"jsonrpc": "2.0", "id": null, "error": {"code": -32600, "message": "no"}})),
        ] {
            script.post("resources/read").await.message(status, message).await;
        }
    };
    let calls = async {
        for code in [-32601, -32602, -32603, -32600] {
            let error = client.read_resource("a:b").await.expect_err("refused");
            assert_eq!(error.code().map(|code| code.get()), Some(code), "{error}");
        }
    };
    in_time(async { tokio::join!(server, calls) }).await;
}

#[tokio::test]
async fn an_invalid_response_fails_only_its_call() {
    let mut script = ScriptedServer::new().await;
    let client = script.modern_client(tester()).await;
    let wrong_id = json!({"jsonrpc": "2.0", "id": 77, "result": {}}).to_string();
    let other = json!({"jsonrpc": "2.0", "id": 77, "error": {"code": -32601, "message": "no"}}).to_string();
    // An array with every possible id: the revision has no batches.
    let answers: Vec<_> = (0..20).map(|id| json!({"jsonrpc": "2.0", "id": id, "result": {}})).collect();
    let array = json!(answers).to_string();
    let cases = [
        ("200 OK", JSON, "{ not json", "not a response to this request"),
        ("200 OK", JSON, "", "not a response to this request"),
        ("200 OK", JSON, &*wrong_id, "not a response to this request"),
        ("200 OK", JSON, &*array, "not a response to this request"),
        ("200 OK", "Content-Type: text/html", "<html>", "but not with MCP"),
        ("202 Accepted", "X: y", "", "did not respond"),
        ("400 Bad Request", JSON, &*other, "400 Bad Request"),
        ("401 Unauthorized", "X: y", "", "requires authentication"),
        ("404 Not Found", "X: y", "", "404 Not Found"),
        ("500 Internal Server Error", "X: y", "oops", "\"oops\""),
        ("200 OK", "Content-Type: text/event-stream", "data: {}\n\n", "stream ended before the response"),
        ("200 OK", "Content-Type: text/event-stream", "id: 1\ndata:\n\n", "stream ended before the response"),
    ];
    let server = async {
        for (status, header, body, _) in &cases {
            script.post("resources/read").await.answer(status, &[header], body).await;
        }
        script.post("resources/read").await.result(contents()).await;
    };
    let calls = async {
        for (status, _, body, says) in &cases {
            let error = client.read_resource("a:b").await.expect_err(status);
            assert!(matches!(&error, ClientError::Http { .. }), "{status} {body}: {error}");
            assert!(error.to_string().contains(says), "{status} {body}: {error}");
        }
        client.read_resource("a:b").await.expect("the connection goes on");
    };
    in_time(async { tokio::join!(server, calls) }).await;
}

#[tokio::test]
async fn an_invalid_json_rpc_response_is_a_protocol_fault() {
    let mut script = ScriptedServer::new().await;
    let client = script.modern_client(tester()).await;
    let server = async {
        let request = script.post("resources/read").await;
        let id = request.json()["id"].clone();
        request.message("200 OK", json!({"jsonrpc": "1.0", "id": id, "result": {}})).await;
    };
    let (error, ()) = in_time(async { tokio::join!(client.read_resource("a:b").into_future(), server) }).await;
    assert!(matches!(error, Err(ClientError::Fault { .. })), "{error:?}");
}

#[tokio::test]
async fn broken_connections_fail_the_call() {
    let mut script = ScriptedServer::new().await;
    let client = script.modern_client(tester()).await;
    let answers = [
        "",
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{\"jsonrpc\"",
        "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n5\r\ndata:",
        "SSH-2.0-OpenSSH\r\n",
        "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Type: application/json\r\n\r\nxx",
    ];
    let server = async {
        for answer in answers {
            script.post("resources/read").await.raw(answer).await;
        }
    };
    let calls = async {
        for answer in answers {
            let error = client.read_resource("a:b").await.expect_err(answer);
            assert!(matches!(&error, ClientError::Http { failure: HttpFailure::Fetch(_), .. }), "{answer}: {error}");
        }
    };
    in_time(async { tokio::join!(server, calls) }).await;
    // No request was sent again, because the server may have carried it out.
    script.silence().await;
}

#[tokio::test]
async fn responses_longer_than_the_limit_are_errors() {
    let mut limits = ConnectionLimits::default();
    limits.frame = 4096;
    let mut script = ScriptedServer::new().await;
    let client = script.modern_client(tester().limits(limits)).await;
    let long = "x".repeat(10_000);
    let server = async {
        script.post("resources/read").await.result(json!({"contents": [], "long": long})).await;
        let request = script.post("resources/read").await;
        let message = request.json();
        let mut events = request.events("").await;
        events.send(&answer(&message, json!({"contents": [], "long": long}))).await;
        events.closed().await;
        // An endless body: the client does not read all of it.
        let request = script.post("resources/read").await;
        let endless = format!("HTTP/1.1 200 OK\r\n{JSON}\r\n\r\n{}", " ".repeat(10_000_000));
        request.raw(endless).await;
    };
    let calls = async {
        for _ in 0..3 {
            let error = client.read_resource("a:b").await.expect_err("too long");
            assert!(error.to_string().contains("longer than 4096 bytes"), "{error}");
        }
    };
    in_time(async { tokio::join!(server, calls) }).await;
}

#[tokio::test]
async fn slow_responses_are_read_up_to_the_timeout() {
    let mut script = ScriptedServer::new().await;
    let client = script.modern_client(tester()).await;
    let server = async {
        let request = script.post("resources/read").await;
        let text = format!("id: 1\nevent: message\ndata: {}\n\n", answer(&request.json(), contents()));
        let mut events = request.events("").await;
        for byte in text.as_bytes().chunks(1) {
            events.text(std::str::from_utf8(byte).expect("ASCII")).await;
            tokio::task::yield_now().await;
        }
        events.end().await;
        let request = script.post("resources/read").await;
        let mut events = request.events("data: ").await;
        for _ in 0..3 {
            events.text(" ").await;
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        events.closed().await;
    };
    let calls = async {
        client.read_resource("a:b").await.expect("read");
        let timeout = Duration::from_millis(400);
        let late = client.read_resource("a:b").timeout(timeout).await;
        assert!(matches!(&late, Err(ClientError::TimedOut { after, .. }) if *after == Some(timeout)), "{late:?}");
    };
    in_time(async { tokio::join!(server, calls) }).await;
}

#[tokio::test]
async fn dropping_a_call_closes_its_stream_and_sends_nothing() {
    let mut script = ScriptedServer::new().await;
    let client = script.modern_client(tester()).await;
    // Once before the head of the response, and once in the middle of a stream.
    let call = tokio::spawn(client.read_resource("a:b").into_future());
    let request = script.post("resources/read").await;
    call.abort();
    request.closed().await;
    let progressed = Arc::new(Notify::new());
    let progress = Arc::clone(&progressed);
    let call = client.read_resource("a:b").on_progress(move |_| progress.notify_one());
    let call = tokio::spawn(call.into_future());
    let request = script.post("resources/read").await;
    let params = json!({"progressToken": request.json()["params"]["_meta"]["progressToken"], "progress": 1});
    let told = json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params});
    let events = request.events(&format!("data: {told}\n\n")).await;
    in_time(progressed.notified()).await;
    call.abort();
    events.closed().await;
    script.silence().await;
}

#[tokio::test]
async fn requests_end_with_the_client() {
    let mut script = ScriptedServer::new().await;
    let client = script.modern_client(tester()).await;
    let call = tokio::spawn(client.read_resource("a:b").into_future());
    let request = script.post("resources/read").await;
    drop(client);
    call.abort();
    request.closed().await;
    script.silence().await;
}

#[tokio::test]
async fn a_redirect_keeps_method_body_and_headers() {
    let mut script = ScriptedServer::new().await;
    let url = format!("{}/old", script.origin);
    let origin = script.origin.clone();
    let client = super::script::connecting(tester(), url, async {
        let request = script.post("server/discover").await;
        assert_eq!(request.path, "/old");
        request.answer("308 Permanent Redirect", &[&format!("Location: {origin}/new")], "").await;
        let request = script.post("server/discover").await;
        assert_eq!(request.path, "/new");
        assert_eq!(request.header("mcp-method"), Some("server/discover"));
        request.result(super::script::discovered()).await;
    });
    client.await.expect("connected");
    let error = in_time(tester().http(Endpoint::new("http://127.0.0.1:1/").no_proxy())).await.expect_err("no server");
    assert!(matches!(error, ClientError::Http { .. }));
}

#[tokio::test]
async fn a_listen_whose_stream_breaks_is_reopened() {
    let mut script = ScriptedServer::new().await;
    let client = script.modern_client(tester()).await;
    let acknowledged = |request: &serde_json::Value| {
        let meta = json!({"io.modelcontextprotocol/subscriptionId": request["id"]});
        let params = json!({"notifications": {"toolsListChanged": true}, "_meta": meta});
        json!({"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged", "params": params})
    };
    let changed = |request: &serde_json::Value| {
        let meta = json!({"io.modelcontextprotocol/subscriptionId": request["id"]});
        json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed", "params": {"_meta": meta}})
    };
    let filter = SubscriptionFilter::default().tools_list_changed(true);
    let server = async {
        let request = script.post("subscriptions/listen").await;
        let message = request.json();
        let mut events = request.events("").await;
        events.send(&acknowledged(&message)).await;
        events.send(&changed(&message)).await;
        events
    };
    let (listen, events) = in_time(async { tokio::join!(client.listen(filter), server) }).await;
    let mut listen = listen.expect("acknowledged");
    assert!(matches!(in_time(listen.next()).await, Some(ServerNotification::ToolsListChanged)));
    events.end().await;
    script.post("subscriptions/listen").await.status("503 Service Unavailable", "").await;
    let request = script.post("subscriptions/listen").await;
    let message = request.json();
    let mut events = request.events("").await;
    events.send(&acknowledged(&message)).await;
    events.send(&changed(&message)).await;
    for _ in 0..2 {
        assert!(matches!(in_time(listen.next()).await, Some(ServerNotification::Restarted)));
    }
    assert!(matches!(in_time(listen.next()).await, Some(ServerNotification::ToolsListChanged)));
    drop(listen);
    events.closed().await;
}

#[tokio::test]
async fn only_the_beginning_of_an_error_response_is_read() {
    let mut script = ScriptedServer::new().await;
    let client = script.modern_client(tester()).await;
    let error = |length: usize| {
        let data = "x".repeat(length);
        json!({"jsonrpc": "2.0", "id": null, "error": {"code": -32601, "message": "no", "data": data}})
    };
    let server = async {
        for length in [200 * 1024, 300 * 1024] {
            script.post("resources/read").await.message("404 Not Found", error(length)).await;
        }
    };
    let calls = async {
        let whole = client.read_resource("a:b").await.expect_err("refused");
        assert_eq!(whole.code().map(|code| code.get()), Some(-32601), "{whole}");
        // Without its end, it is not JSON.
        let cut = client.read_resource("a:b").await.expect_err("refused");
        assert!(matches!(cut, ClientError::Http { .. }), "{cut}");
    };
    in_time(async { tokio::join!(server, calls) }).await;
}
