//! What may come back for a POST, and what may not.

use std::sync::Arc;
use std::time::{Duration, Instant};

use barewire::ClientError;
use barewire::client::ServerNotification;
use barewire::client::http::{Endpoint, HttpFailure};
use barewire::mcp::SubscriptionFilter;
use barewire::peer::ConnectionLimits;
use serde_json::json;
use tokio::sync::Notify;

use super::script::{JSON, Script, answer};
use super::{soon, tester};

fn contents() -> serde_json::Value {
    json!({"resultType": "complete", "contents": []})
}

#[tokio::test]
async fn json_and_events_are_both_read() {
    let mut script = Script::new().await;
    let client = script.modern_client(tester()).await;
    let server = async {
        script.post("resources/read").await.result(contents()).await;
        let asked = script.post("resources/read").await;
        let message = asked.json();
        let mut events = asked.events(": hello\r\n\r\nevent: ping\ndata: {}\n\n").await;
        events.text("data: {\"jsonrpc\":\"2.0\",\ndata: \"method\":\"notifications/x\"}\n\n").await;
        events.say(&answer(&message, contents())).await;
        events.end().await;
    };
    let calls = async {
        for _ in 0..2 {
            client.read_resource("a:b").await.expect("read");
        }
    };
    soon(async { tokio::join!(server, calls) }).await;
}

#[tokio::test]
async fn an_error_status_with_an_error_is_an_answer() {
    let mut script = Script::new().await;
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
    soon(async { tokio::join!(server, calls) }).await;
}

#[tokio::test]
async fn what_is_no_answer_fails_the_call_and_nothing_else() {
    let mut script = Script::new().await;
    let client = script.modern_client(tester()).await;
    let wrong_id = json!({"jsonrpc": "2.0", "id": 77, "result": {}}).to_string();
    let other = json!({"jsonrpc": "2.0", "id": 77, "error": {"code": -32601, "message": "no"}}).to_string();
    // Also with all ids that there may be: the revision has no arrays.
    let answers: Vec<_> = (0..20).map(|id| json!({"jsonrpc": "2.0", "id": id, "result": {}})).collect();
    let array = json!(answers).to_string();
    let cases = [
        ("200 OK", JSON, "{ not json", "no answer to it"),
        ("200 OK", JSON, "", "no answer to it"),
        ("200 OK", JSON, &*wrong_id, "no answer to it"),
        ("200 OK", JSON, &*array, "no answer to it"),
        ("200 OK", "Content-Type: text/html", "<html>", "that is not MCP"),
        ("202 Accepted", "X: y", "", "did not answer"),
        ("400 Bad Request", JSON, &*other, "400 Bad Request"),
        ("401 Unauthorized", "X: y", "", "who asks"),
        ("404 Not Found", "X: y", "", "404 Not Found"),
        ("500 Internal Server Error", "X: y", "oops", "\"oops\""),
        ("200 OK", "Content-Type: text/event-stream", "data: {}\n\n", "stream ended before the answer"),
        ("200 OK", "Content-Type: text/event-stream", "id: 1\ndata:\n\n", "stream ended before the answer"),
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
    soon(async { tokio::join!(server, calls) }).await;
}

#[tokio::test]
async fn a_response_that_breaks_the_rules_is_the_callers_to_know() {
    let mut script = Script::new().await;
    let client = script.modern_client(tester()).await;
    let server = async {
        let asked = script.post("resources/read").await;
        let id = asked.json()["id"].clone();
        asked.message("200 OK", json!({"jsonrpc": "1.0", "id": id, "result": {}})).await;
    };
    let (error, ()) = soon(async { tokio::join!(client.read_resource("a:b").into_future(), server) }).await;
    assert!(matches!(error, Err(ClientError::Fault { .. })), "{error:?}");
}

#[tokio::test]
async fn connections_that_break_are_not_taken_for_answers() {
    let mut script = Script::new().await;
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
    soon(async { tokio::join!(server, calls) }).await;
    // None of them was sent again: it might have been done.
    script.silence().await;
}

#[tokio::test]
async fn what_is_longer_than_the_limit_is_not_kept() {
    let mut limits = ConnectionLimits::default();
    limits.frame = 4096;
    let mut script = Script::new().await;
    let client = script.modern_client(tester().limits(limits)).await;
    let long = "x".repeat(10_000);
    let server = async {
        script.post("resources/read").await.result(json!({"contents": [], "long": long})).await;
        let asked = script.post("resources/read").await;
        let message = asked.json();
        let mut events = asked.events("").await;
        events.say(&answer(&message, json!({"contents": [], "long": long}))).await;
        events.closed().await;
        // Without an end: it is not read to find that out.
        let asked = script.post("resources/read").await;
        let endless = format!("HTTP/1.1 200 OK\r\n{JSON}\r\n\r\n{}", " ".repeat(10_000_000));
        asked.raw(endless).await;
    };
    let calls = async {
        for _ in 0..3 {
            let error = client.read_resource("a:b").await.expect_err("too long");
            assert!(error.to_string().contains("longer than 4096 bytes"), "{error}");
        }
    };
    soon(async { tokio::join!(server, calls) }).await;
}

#[tokio::test]
async fn answers_that_come_byte_by_byte_are_read_and_waited_for_no_longer_than_allowed() {
    let mut script = Script::new().await;
    let client = script.modern_client(tester()).await;
    let server = async {
        let asked = script.post("resources/read").await;
        let text = format!("id: 1\nevent: message\ndata: {}\n\n", answer(&asked.json(), contents()));
        let mut events = asked.events("").await;
        for byte in text.as_bytes().chunks(1) {
            events.text(std::str::from_utf8(byte).expect("ASCII")).await;
            tokio::task::yield_now().await;
        }
        events.end().await;
        let asked = script.post("resources/read").await;
        let mut events = asked.events("data: ").await;
        for _ in 0..3 {
            events.text(" ").await;
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        events.closed().await;
    };
    let calls = async {
        client.read_resource("a:b").await.expect("read");
        let began = Instant::now();
        let late = client.read_resource("a:b").timeout(Duration::from_millis(400)).await;
        assert!(matches!(&late, Err(ClientError::TimedOut { .. })), "{late:?}");
        assert!(began.elapsed() < Duration::from_secs(5));
    };
    soon(async { tokio::join!(server, calls) }).await;
}

#[tokio::test]
async fn dropping_a_call_closes_its_stream_and_says_nothing() {
    let mut script = Script::new().await;
    let client = script.modern_client(tester()).await;
    // Before there is a head, and in the middle of a stream.
    let call = tokio::spawn(client.read_resource("a:b").into_future());
    let asked = script.post("resources/read").await;
    call.abort();
    asked.closed().await;
    let progressed = Arc::new(Notify::new());
    let progress = Arc::clone(&progressed);
    let call = client.read_resource("a:b").on_progress(move |_| progress.notify_one());
    let call = tokio::spawn(call.into_future());
    let asked = script.post("resources/read").await;
    let params = json!({"progressToken": asked.json()["params"]["_meta"]["progressToken"], "progress": 1});
    let told = json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params});
    let events = asked.events(&format!("data: {told}\n\n")).await;
    soon(progressed.notified()).await;
    call.abort();
    events.closed().await;
    script.silence().await;
}

#[tokio::test]
async fn everything_ends_with_the_client() {
    let mut script = Script::new().await;
    let client = script.modern_client(tester()).await;
    let call = tokio::spawn(client.read_resource("a:b").into_future());
    let asked = script.post("resources/read").await;
    drop(client);
    call.abort();
    asked.closed().await;
    script.silence().await;
}

#[tokio::test]
async fn a_redirect_is_followed_as_it_was_sent() {
    let mut script = Script::new().await;
    let url = format!("{}/old", script.origin);
    let origin = script.origin.clone();
    let client = super::script::connecting(tester(), url, async {
        let asked = script.post("server/discover").await;
        assert_eq!(asked.path, "/old");
        asked.answer("308 Permanent Redirect", &[&format!("Location: {origin}/new")], "").await;
        let asked = script.post("server/discover").await;
        assert_eq!(asked.path, "/new");
        assert_eq!(asked.header("mcp-method"), Some("server/discover"));
        asked.result(super::script::discovered()).await;
    });
    client.await.expect("connected");
    let error = soon(tester().http(Endpoint::new("http://127.0.0.1:1/").no_proxy())).await.expect_err("nobody");
    assert!(matches!(error, ClientError::Http { .. }));
}

#[tokio::test]
async fn a_listen_whose_stream_breaks_is_opened_again() {
    let mut script = Script::new().await;
    let client = script.modern_client(tester()).await;
    let acknowledged = |asked: &serde_json::Value| {
        let meta = json!({"io.modelcontextprotocol/subscriptionId": asked["id"]});
        let params = json!({"notifications": {"toolsListChanged": true}, "_meta": meta});
        json!({"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged", "params": params})
    };
    let changed = |asked: &serde_json::Value| {
        let meta = json!({"io.modelcontextprotocol/subscriptionId": asked["id"]});
        json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed", "params": {"_meta": meta}})
    };
    let filter = SubscriptionFilter::default().tools_list_changed(true);
    let server = async {
        let asked = script.post("subscriptions/listen").await;
        let message = asked.json();
        let mut events = asked.events("").await;
        events.say(&acknowledged(&message)).await;
        events.say(&changed(&message)).await;
        events
    };
    let (listen, events) = soon(async { tokio::join!(client.listen(filter), server) }).await;
    let mut listen = listen.expect("acknowledged");
    assert!(matches!(soon(listen.next()).await, Some(ServerNotification::ToolsListChanged)));
    events.end().await;
    script.post("subscriptions/listen").await.status("503 Service Unavailable", "").await;
    let asked = script.post("subscriptions/listen").await;
    let message = asked.json();
    let mut events = asked.events("").await;
    events.say(&acknowledged(&message)).await;
    events.say(&changed(&message)).await;
    for _ in 0..2 {
        assert!(matches!(soon(listen.next()).await, Some(ServerNotification::Restarted)));
    }
    assert!(matches!(soon(listen.next()).await, Some(ServerNotification::ToolsListChanged)));
    drop(listen);
    events.closed().await;
}
