//! The legacy era: sessions, streams that break off and are taken up again, and the stream of what is told unasked.

use std::time::{Duration, Instant};

use barewire::ClientError;
use barewire::client::http::HttpFailure;
use barewire::client::{ServerNotification, accept};
use serde_json::{Value, json};

use super::script::{Script, answer, connecting};
use super::{soon, tester};

fn contents() -> Value {
    json!({"contents": []})
}

#[tokio::test]
async fn everything_after_the_handshake_belongs_to_the_session_and_its_end_is_told() {
    let mut script = Script::new().await;
    let client = script.legacy_client(tester(), Some("a-session")).await;
    let server = async {
        let asked = script.post("resources/read").await;
        assert_eq!(asked.header("mcp-session-id"), Some("a-session"));
        assert_eq!(asked.header("mcp-protocol-version"), Some("2025-11-25"));
        assert_eq!(asked.header("mcp-method"), None);
        assert_eq!(asked.header("mcp-name"), None);
        asked.result(contents()).await;
    };
    soon(async { tokio::join!(server, client.read_resource("a:b").into_future()) }).await.1.expect("read");
    let bye = async {
        let asked = script.bare("DELETE").await;
        assert_eq!(asked.header("mcp-session-id"), Some("a-session"));
        asked.status("405 Method Not Allowed", "").await;
    };
    let (closed, ()) = soon(async { tokio::join!(client.shutdown(), bye) }).await;
    closed.expect("an orderly end");
}

#[tokio::test]
async fn the_end_is_told_when_the_client_is_dropped_and_nobody_waits_for_a_server_that_does_not_answer_it() {
    let mut script = Script::new().await;
    let client = script.legacy_client(tester(), Some("a")).await;
    drop(client);
    script.bare("DELETE").await.status("200 OK", "").await;
    let client = script.legacy_client(tester(), Some("b")).await;
    let began = Instant::now();
    let (_, asked) = soon(async { tokio::join!(client.shutdown(), script.bare("DELETE")) }).await;
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    asked.closed().await;
}

#[tokio::test]
async fn a_session_id_that_cannot_be_sent_back_is_ignored() {
    let mut script = Script::new().await;
    let url = script.url();
    let client = connecting(tester(), url, async {
        script.post("server/discover").await.status("400 Bad Request", "").await;
        script.post("initialize").await.initialized(Some("caf\u{e9}")).await;
        let told = script.post("notifications/initialized").await;
        assert_eq!(told.header("mcp-session-id"), None);
        told.status("202 Accepted", "").await;
        script.bare("GET").await.status("405 Method Not Allowed", "").await;
    });
    client.await.expect("connected");
}

#[tokio::test]
async fn a_session_that_is_over_is_opened_again_and_the_call_is_sent_once_more() {
    let mut script = Script::new().await;
    let client = script.legacy_client(tester(), Some("first")).await;
    let server = async {
        let asked = script.post("resources/read").await;
        assert_eq!(asked.header("mcp-session-id"), Some("first"));
        asked.status("404 Not Found", "").await;
        script.handshake(Some("second")).await;
        // The call and the stream come in any order.
        for _ in 0..2 {
            let asked = script.next().await;
            assert_eq!(asked.header("mcp-session-id"), Some("second"));
            match &*asked.method {
                "GET" => asked.status("405 Method Not Allowed", "").await,
                _ => asked.result(contents()).await,
            }
        }
    };
    soon(async { tokio::join!(server, client.read_resource("a:b").into_future()) }).await.1.expect("read");
    script.silence().await;
}

#[tokio::test]
async fn a_call_is_never_sent_a_third_time() {
    let mut script = Script::new().await;
    let client = script.legacy_client(tester(), Some("first")).await;
    let server = tokio::spawn(async move {
        let mut calls = 0;
        loop {
            let asked = script.next().await;
            match (&*asked.method, asked.body.contains("resources/read")) {
                ("GET", _) => asked.status("405 Method Not Allowed", "").await,
                ("POST", true) => {
                    calls += 1;
                    asked.status("404 Not Found", "").await;
                    if calls == 2 {
                        return (script, calls);
                    }
                }
                _ if asked.body.contains("\"initialize\"") => asked.initialized(Some("next")).await,
                _ => asked.status("202 Accepted", "").await,
            }
        }
    });
    let error = soon(client.read_resource("a:b").into_future()).await.expect_err("over again");
    let ClientError::Http { failure: HttpFailure::SessionGone { .. }, .. } = &error else { panic!("{error}") };
    let (_script, calls) = soon(server).await.expect("no panic");
    assert_eq!(calls, 2);
}

#[tokio::test]
async fn a_stream_that_breaks_off_is_taken_up_where_it_did_after_the_time_that_the_server_said() {
    let mut script = Script::new().await;
    let client = script.legacy_client(tester(), Some("s")).await;
    let server = async {
        let asked = script.post("resources/read").await;
        let message = asked.json();
        asked.events("id: e1\nretry: 500\ndata:\n\n").await.end().await;
        let ended = Instant::now();
        let asked = script.bare("GET").await;
        let waited = ended.elapsed();
        assert!(waited >= Duration::from_millis(450) && waited <= Duration::from_millis(900), "{waited:?}");
        assert_eq!(asked.header("last-event-id"), Some("e1"));
        assert_eq!(asked.header("mcp-session-id"), Some("s"));
        assert_eq!(asked.header("accept"), Some("text/event-stream"));
        // And again, with an id that is given in between.
        let progress =
            json!({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": 1}});
        asked.events(&format!("id: e2\nretry: 20\ndata: {progress}\n\n")).await.end().await;
        let asked = script.bare("GET").await;
        assert_eq!(asked.header("last-event-id"), Some("e2"));
        let mut events = asked.events("").await;
        events.say(&answer(&message, contents())).await;
        events.end().await;
    };
    soon(async { tokio::join!(server, client.read_resource("a:b").into_future()) }).await.1.expect("read");
    script.silence().await;
}

#[tokio::test]
async fn a_stream_that_cannot_be_taken_up_fails_its_call() {
    let mut script = Script::new().await;
    let client = script.legacy_client(tester(), Some("s")).await;
    let server = async {
        // Without an id there is nothing to go on from.
        script.post("resources/read").await.events("retry: 10\ndata: {}\n\n").await.end().await;
        // The server does not have it.
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
    soon(async { tokio::join!(server, calls) }).await;
}

#[tokio::test]
async fn a_call_whose_session_ends_while_it_waits_is_not_sent_again() {
    let mut script = Script::new().await;
    let client = script.legacy_client(tester(), Some("s")).await;
    let server = async {
        script.post("resources/read").await.events("id: 1\nretry: 10\ndata:\n\n").await.end().await;
        script.bare("GET").await.status("404 Not Found", "").await;
        script.handshake(Some("t")).await;
        script.bare("GET").await.status("405 Method Not Allowed", "").await;
    };
    let (error, ()) = soon(async { tokio::join!(client.read_resource("a:b").into_future(), server) }).await;
    let Err(ClientError::Http { failure: HttpFailure::NotAnswered { .. }, .. }) = &error else { panic!("{error:?}") };
    script.silence().await;
}

#[tokio::test]
async fn what_is_told_and_asked_unasked_is_heard_and_answered_and_the_stream_is_opened_again() {
    let mut script = Script::new().await;
    let url = script.url();
    let builder = tester().on_elicit(|_| async { Ok(accept(json!({}))?) });
    let mut asked = None;
    let client = connecting(builder, url, async {
        script.post("server/discover").await.status("400 Bad Request", "").await;
        script.handshake(Some("s")).await;
        asked = Some(script.bare("GET").await);
    });
    let client = client.await.expect("connected");
    let mut told = client.notifications();
    let asked = asked.expect("a stream was asked for");
    assert_eq!(asked.header("last-event-id"), None);
    let mut events = asked.events("id: 0-1\nretry: 30\ndata:\n\n").await;
    events.say(&json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})).await;
    assert!(matches!(soon(told.next()).await, Some(ServerNotification::ToolsListChanged)));
    let form = json!({"message": "?", "requestedSchema": {"type": "object", "properties": {}}});
    events.say(&json!({"jsonrpc": "2.0", "id": "q", "method": "elicitation/create", "params": form})).await;
    let answered = script.next().await;
    assert_eq!((answered.header("mcp-session-id"), &answered.json()["id"]), (Some("s"), &json!("q")));
    assert_eq!(answered.json()["result"]["action"], "accept");
    answered.status("202 Accepted", "").await;
    events.text("id: 0-2\ndata:\n\n").await;
    events.end().await;
    let asked = script.bare("GET").await;
    assert_eq!(asked.header("last-event-id"), Some("0-2"));
    // Down for a moment, and up again.
    asked.status("503 Service Unavailable", "").await;
    let mut events = script.bare("GET").await.events("").await;
    events.say(&json!({"jsonrpc": "2.0", "method": "notifications/prompts/list_changed"})).await;
    assert!(matches!(soon(told.next()).await, Some(ServerNotification::PromptsListChanged)));
    drop(client);
    script.bare("DELETE").await.status("204 No Content", "").await;
    events.closed().await;
}

#[tokio::test]
async fn calls_wait_for_what_was_told_before_them() {
    let mut script = Script::new().await;
    let url = script.url();
    let mut told = None;
    let client = connecting(tester(), url, async {
        script.post("server/discover").await.status("400 Bad Request", "").await;
        script.post("initialize").await.initialized(None).await;
        told = Some(script.post("notifications/initialized").await);
    });
    let client = client.await.expect("connected");
    let call = tokio::spawn(client.read_resource("a:b").into_future());
    script.silence().await;
    told.expect("told").status("202 Accepted", "").await;
    // And for the stream that the server may ask things on in the course of them.
    let stream = script.bare("GET").await;
    script.silence().await;
    let _events = stream.events("").await;
    script.post("resources/read").await.result(contents()).await;
    soon(call).await.expect("no panic").expect("read");
}

#[tokio::test]
async fn cancelling_is_told_and_the_stream_closed() {
    let mut script = Script::new().await;
    let client = script.legacy_client(tester(), Some("s")).await;
    let call = tokio::spawn(client.read_resource("a:b").into_future());
    let asked = script.post("resources/read").await;
    let id = asked.json()["id"].clone();
    call.abort();
    let told = script.post("notifications/cancelled").await;
    assert_eq!((told.header("mcp-session-id"), &told.json()["params"]["requestId"]), (Some("s"), &id));
    told.status("202 Accepted", "").await;
    asked.closed().await;
}

#[tokio::test]
async fn a_server_that_asks_without_end_is_read_no_faster_than_it_takes_answers() {
    let mut script = Script::new().await;
    let client = script.legacy_client(tester(), Some("s")).await;
    let call = tokio::spawn(client.read_resource("a:b").into_future());
    let mut events = script.post("resources/read").await.events("").await;
    let flood = tokio::spawn(async move {
        let mut asked = 0u32;
        loop {
            let text = format!("data: {{\"jsonrpc\":\"2.0\",\"id\":{asked},\"method\":\"ping\"}}\n\n");
            let written = tokio::time::timeout(Duration::from_secs(2), events.text(&text)).await;
            if written.is_err() {
                return asked;
            }
            asked += 1;
        }
    });
    let asked = soon(flood).await.expect("no panic");
    // None of the answers is taken: they wait here.
    let mut answers = Vec::new();
    while let Ok(Some(answer)) = tokio::time::timeout(Duration::from_millis(200), script.any()).await {
        answers.push(answer);
    }
    assert!(answers.len() <= 64, "{} of {asked}", answers.len());
    // When they are, it goes on.
    for answer in answers {
        answer.status("202 Accepted", "").await;
    }
    assert!(soon(script.any()).await.is_some());
    call.abort();
}
