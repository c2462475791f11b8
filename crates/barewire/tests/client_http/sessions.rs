//! The legacy era: sessions, resumed streams, and the GET stream for unsolicited messages.

use std::time::{Duration, Instant};

use barewire::ClientError;
use barewire::client::http::HttpFailure;
use barewire::client::{ServerNotification, accept};
use serde_json::{Value, json};

use super::script::{ScriptedServer, answer, connecting};
use super::{in_time, tester};

fn contents() -> Value {
    json!({"contents": []})
}

#[tokio::test]
async fn requests_carry_the_session_and_shutdown_deletes_it() {
    let mut script = ScriptedServer::new().await;
    let client = script.legacy_client(tester(), Some("a-session")).await;
    let server = async {
        let request = script.post("resources/read").await;
        assert_eq!(request.header("mcp-session-id"), Some("a-session"));
        assert_eq!(request.header("mcp-protocol-version"), Some("2025-11-25"));
        assert_eq!(request.header("mcp-method"), None);
        assert_eq!(request.header("mcp-name"), None);
        request.result(contents()).await;
    };
    in_time(async { tokio::join!(server, client.read_resource("a:b").into_future()) }).await.1.expect("read");
    let delete = async {
        let request = script.bare("DELETE").await;
        assert_eq!(request.header("mcp-session-id"), Some("a-session"));
        request.status("405 Method Not Allowed", "").await;
    };
    let (closed, ()) = in_time(async { tokio::join!(client.shutdown(), delete) }).await;
    closed.expect("an orderly end");
}

#[tokio::test]
async fn dropping_the_client_deletes_the_session_and_an_unanswered_delete_times_out() {
    let mut script = ScriptedServer::new().await;
    let client = script.legacy_client(tester(), Some("a")).await;
    drop(client);
    script.bare("DELETE").await.status("200 OK", "").await;
    let client = script.legacy_client(tester(), Some("b")).await;
    let (_, request) = in_time(async { tokio::join!(client.shutdown(), script.bare("DELETE")) }).await;
    request.closed().await;
}

#[tokio::test]
async fn an_invalid_session_id_is_ignored() {
    let mut script = ScriptedServer::new().await;
    let url = script.url();
    let client = connecting(tester(), url, async {
        script.post("server/discover").await.status("400 Bad Request", "").await;
        script.post("initialize").await.initialized(Some("caf\u{e9}")).await;
        let notification = script.post("notifications/initialized").await;
        assert_eq!(notification.header("mcp-session-id"), None);
        notification.status("202 Accepted", "").await;
        script.bare("GET").await.status("405 Method Not Allowed", "").await;
    });
    client.await.expect("connected");
}

#[tokio::test]
async fn an_ended_session_is_replaced_and_the_call_is_repeated() {
    let mut script = ScriptedServer::new().await;
    let client = script.legacy_client(tester(), Some("first")).await;
    let server = async {
        let request = script.post("resources/read").await;
        assert_eq!(request.header("mcp-session-id"), Some("first"));
        request.status("404 Not Found", "").await;
        script.handshake(Some("second")).await;
        // The call and the GET request come in any order.
        for _ in 0..2 {
            let request = script.next().await;
            assert_eq!(request.header("mcp-session-id"), Some("second"));
            match &*request.method {
                "GET" => request.status("405 Method Not Allowed", "").await,
                _ => request.result(contents()).await,
            }
        }
    };
    in_time(async { tokio::join!(server, client.read_resource("a:b").into_future()) }).await.1.expect("read");
    script.silence().await;
}

#[tokio::test]
async fn a_call_is_never_sent_a_third_time() {
    let mut script = ScriptedServer::new().await;
    let client = script.legacy_client(tester(), Some("first")).await;
    let server = tokio::spawn(async move {
        let mut calls = 0;
        loop {
            let request = script.next().await;
            match (&*request.method, request.body.contains("resources/read")) {
                ("GET", _) => request.status("405 Method Not Allowed", "").await,
                ("POST", true) => {
                    calls += 1;
                    request.status("404 Not Found", "").await;
                    if calls == 2 {
                        return (script, calls);
                    }
                }
                _ if request.body.contains("\"initialize\"") => request.initialized(Some("next")).await,
                _ => request.status("202 Accepted", "").await,
            }
        }
    });
    let error = in_time(client.read_resource("a:b").into_future()).await.expect_err("over again");
    let ClientError::Http { failure: HttpFailure::SessionGone { .. }, .. } = &error else { panic!("{error}") };
    let (_script, calls) = in_time(server).await.expect("no panic");
    assert_eq!(calls, 2);
}

#[tokio::test]
async fn a_broken_stream_is_resumed_after_the_servers_retry_time() {
    let mut script = ScriptedServer::new().await;
    let client = script.legacy_client(tester(), Some("s")).await;
    let server = async {
        let request = script.post("resources/read").await;
        let message = request.json();
        let events = request.events("id: e1\nretry: 2000\ndata:\n\n").await;
        // The client counts from the end of the stream, which it may see before we go on.
        let ended = Instant::now();
        events.end().await;
        let request = script.bare("GET").await;
        let waited = ended.elapsed();
        // Without a time of the server, the client waits for a second.
        assert!(waited >= Duration::from_millis(1950), "{waited:?}");
        assert_eq!(request.header("last-event-id"), Some("e1"));
        assert_eq!(request.header("mcp-session-id"), Some("s"));
        assert_eq!(request.header("accept"), Some("text/event-stream"));
        // The stream breaks again, with a newer event id.
        let progress =
            json!({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": 1}});
        request.events(&format!("id: e2\nretry: 20\ndata: {progress}\n\n")).await.end().await;
        let request = script.bare("GET").await;
        assert_eq!(request.header("last-event-id"), Some("e2"));
        let mut events = request.events("").await;
        events.send(&answer(&message, contents())).await;
        events.end().await;
    };
    in_time(async { tokio::join!(server, client.read_resource("a:b").into_future()) }).await.1.expect("read");
    script.silence().await;
}

#[tokio::test]
async fn a_stream_that_cannot_be_resumed_fails_its_call() {
    let mut script = ScriptedServer::new().await;
    let client = script.legacy_client(tester(), Some("s")).await;
    let server = async {
        // Without an event id there is nothing to resume from.
        script.post("resources/read").await.events("retry: 10\ndata: {}\n\n").await.end().await;
        // The server does not offer the stream.
        script.post("resources/read").await.events("id: 1\nretry: 10\ndata:\n\n").await.end().await;
        script.bare("GET").await.status("405 Method Not Allowed", "").await;
        script.post("resources/read").await.events("id: 2\nretry: 10\ndata:\n\n").await.end().await;
        script.bare("GET").await.status("400 Bad Request", "").await;
    };
    let calls = async {
        for _ in 0..3 {
            let error = client.read_resource("a:b").await.expect_err("no answer");
            let ClientError::Http { failure: HttpFailure::NotAnswered { .. }, .. } = &error else { panic!("{error}") };
        }
    };
    in_time(async { tokio::join!(server, calls) }).await;
}

#[tokio::test]
async fn a_call_in_flight_is_not_repeated_when_its_session_ends() {
    let mut script = ScriptedServer::new().await;
    let client = script.legacy_client(tester(), Some("s")).await;
    let server = async {
        script.post("resources/read").await.events("id: 1\nretry: 10\ndata:\n\n").await.end().await;
        script.bare("GET").await.status("404 Not Found", "").await;
        script.handshake(Some("t")).await;
        script.bare("GET").await.status("405 Method Not Allowed", "").await;
    };
    let (error, ()) = in_time(async { tokio::join!(client.read_resource("a:b").into_future(), server) }).await;
    let Err(ClientError::Http { failure: HttpFailure::NotAnswered { .. }, .. }) = &error else { panic!("{error:?}") };
    script.silence().await;
}

#[tokio::test]
async fn unsolicited_messages_are_handled_and_the_get_stream_is_reopened() {
    let mut script = ScriptedServer::new().await;
    let url = script.url();
    let builder = tester().on_elicit(|_| async { Ok(accept(json!({}))?) });
    let mut get = None;
    let client = connecting(builder, url, async {
        script.post("server/discover").await.status("400 Bad Request", "").await;
        script.handshake(Some("s")).await;
        get = Some(script.bare("GET").await);
    });
    let client = client.await.expect("connected");
    let mut notifications = client.notifications();
    let request = get.expect("the client sent a GET request");
    assert_eq!(request.header("last-event-id"), None);
    let mut events = request.events("id: 0-1\nretry: 30\ndata:\n\n").await;
    events.send(&json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})).await;
    assert!(matches!(in_time(notifications.next()).await, Some(ServerNotification::ToolsListChanged)));
    let form = json!({"message": "?", "requestedSchema": {"type": "object", "properties": {}}});
    events.send(&json!({"jsonrpc": "2.0", "id": "q", "method": "elicitation/create", "params": form})).await;
    let answered = script.next().await;
    assert_eq!((answered.header("mcp-session-id"), &answered.json()["id"]), (Some("s"), &json!("q")));
    assert_eq!(answered.json()["result"]["action"], "accept");
    answered.status("202 Accepted", "").await;
    events.text("id: 0-2\ndata:\n\n").await;
    events.end().await;
    let request = script.bare("GET").await;
    assert_eq!(request.header("last-event-id"), Some("0-2"));
    // The server is down for a moment.
    request.status("503 Service Unavailable", "").await;
    let mut events = script.bare("GET").await.events("").await;
    events.send(&json!({"jsonrpc": "2.0", "method": "notifications/prompts/list_changed"})).await;
    assert!(matches!(in_time(notifications.next()).await, Some(ServerNotification::PromptsListChanged)));
    drop(client);
    script.bare("DELETE").await.status("204 No Content", "").await;
    events.closed().await;
}

#[tokio::test]
async fn calls_wait_for_earlier_notifications() {
    let mut script = ScriptedServer::new().await;
    let url = script.url();
    let mut initialized = None;
    let client = connecting(tester(), url, async {
        script.post("server/discover").await.status("400 Bad Request", "").await;
        script.post("initialize").await.initialized(None).await;
        initialized = Some(script.post("notifications/initialized").await);
    });
    let client = client.await.expect("connected");
    let call = tokio::spawn(client.read_resource("a:b").into_future());
    script.silence().await;
    initialized.expect("sent").status("202 Accepted", "").await;
    // Calls also wait for the GET stream, on which the server may send requests during the call.
    let stream = script.bare("GET").await;
    script.silence().await;
    let _events = stream.events("").await;
    script.post("resources/read").await.result(contents()).await;
    in_time(call).await.expect("no panic").expect("read");
}

#[tokio::test]
async fn cancelling_sends_a_notification_and_closes_the_stream() {
    let mut script = ScriptedServer::new().await;
    let client = script.legacy_client(tester(), Some("s")).await;
    let call = tokio::spawn(client.read_resource("a:b").into_future());
    let request = script.post("resources/read").await;
    let id = request.json()["id"].clone();
    call.abort();
    let notification = script.post("notifications/cancelled").await;
    assert_eq!((notification.header("mcp-session-id"), &notification.json()["params"]["requestId"]), (Some("s"), &id));
    notification.status("202 Accepted", "").await;
    request.closed().await;
}

#[tokio::test]
async fn a_server_is_read_no_faster_than_it_takes_responses() {
    let mut script = ScriptedServer::new().await;
    let client = script.legacy_client(tester(), Some("s")).await;
    let call = tokio::spawn(client.read_resource("a:b").into_future());
    let mut events = script.post("resources/read").await.events("").await;
    let flood = tokio::spawn(async move {
        let mut count = 0u32;
        loop {
            let text = format!("data: {{\"jsonrpc\":\"2.0\",\"id\":{count},\"method\":\"ping\"}}\n\n");
            let written = tokio::time::timeout(Duration::from_secs(2), events.text(&text)).await;
            if written.is_err() {
                return count;
            }
            count += 1;
        }
    });
    let count = in_time(flood).await.expect("no panic");
    // The responses are not accepted yet; they wait here.
    let mut answers = Vec::new();
    while let Ok(Some(answer)) = tokio::time::timeout(Duration::from_millis(200), script.any()).await {
        answers.push(answer);
    }
    assert!(answers.len() <= 64, "{} of {count}", answers.len());
    // Once they are accepted, reading continues.
    for answer in answers {
        answer.status("202 Accepted", "").await;
    }
    assert!(in_time(script.any()).await.is_some());
    call.abort();
}
