//! Calls: params, timeouts, progress and errors.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use barewire::mcp::{CompleteParams, CompleteReference, LoggingLevel, Revision};
use barewire::{ClientError, TraceContext};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, timeout};

use super::script::{legacy, modern, tester};
use super::{Log, seconds};

const TOOLS: fn() -> Value = || json!({"tools": {}, "logging": {}});

#[tokio::test(start_paused = true)]
async fn a_tool_is_called_with_an_object_or_nothing() {
    let (client, mut script) = legacy(tester(), Revision::V2025_11_25, TOOLS()).await;
    let call = tokio::spawn(client.call_tool("add", json!({"a": 1, "b": 2})).into_future());
    let request = script.expect("tools/call").await;
    assert_eq!(request["params"], json!({"name": "add", "arguments": {"a": 1, "b": 2}}));
    script.respond(&request, json!({"content": [{"type": "text", "text": "3"}]})).await;
    let result = call.await.expect("no panic").expect("a result");
    assert_eq!(result.content[0].as_text(), Some("3"));

    let call = tokio::spawn(client.call_tool("now", ()).into_future());
    let request = script.expect("tools/call").await;
    assert_eq!(request["params"], json!({"name": "now"}));
    script.respond(&request, json!({"content": [], "isError": true})).await;
    assert!(call.await.expect("no panic").expect("a result").is_error);

    let wrong = client.call_tool("add", 5).await.expect_err("no arguments").to_string();
    assert!(wrong.contains("arguments must be an object, not a number"), "{wrong}");
}

#[tokio::test(start_paused = true)]
async fn each_method_has_its_params_in_both_eras() {
    let capabilities = json!({"resources": {}, "prompts": {}, "completions": {}});
    for is_modern in [false, true] {
        let (client, mut script) = match is_modern {
            true => modern(tester(), capabilities.clone()).await,
            false => legacy(tester(), Revision::V2025_06_18, capabilities.clone()).await,
        };
        let server = tokio::spawn(async move {
            let contents = json!({"contents": [{"uri": "x:1", "text": "hello"}]});
            let completion = json!({"completion": {"values": ["alpha"]}});
            let expected = [
                ("resources/read", json!({"uri": "x:1"}), contents),
                ("prompts/get", json!({"name": "p", "arguments": {"k": "v"}}), json!({"messages": []})),
                (
                    "completion/complete",
                    json!({"ref": {"type": "ref/prompt", "name": "p"}, "argument": {"name": "k", "value": "a"}}),
                    completion,
                ),
                ("x/own", json!({"n": 1}), json!({"as": "it is"})),
            ];
            for (method, params, result) in expected {
                let mut request = script.expect(method).await;
                let meta = request["params"].as_object_mut().expect("an object").remove("_meta");
                assert_eq!(meta.is_some(), is_modern, "{request}");
                assert_eq!(request["params"], params);
                script.respond(&request, result).await;
            }
            script
        });
        let read = client.read_resource("x:1").await.expect("read");
        assert_eq!(read.contents[0].uri(), "x:1");
        client.get_prompt("p", json!({"k": "v"})).await.expect("got");
        let complete = CompleteParams::new(CompleteReference::prompt("p"), "k", "a");
        assert_eq!(client.complete(complete).await.expect("completed").completion.values, ["alpha"]);
        let raw = client.request("x/own", json!({"n": 1})).await.expect("answered");
        assert_eq!(raw.as_str(), Some(r#"{"as":"it is"}"#));
        server.await.expect("no panic");
    }
}

#[tokio::test(start_paused = true)]
async fn meta_is_added_and_the_callers_members_win() {
    let (client, mut script) = modern(tester(), TOOLS()).await;
    let trace = TraceContext::default().traceparent("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01");
    let call = client
        .request("tools/call", json!({"name": "a", "_meta": {"mine": 1}}))
        .meta(json!({"com.example/x": [1]}))
        .trace(trace)
        .log_level(LoggingLevel::Error);
    let call = tokio::spawn(call.into_future());
    let request = script.expect("tools/call").await;
    let meta = request["params"]["_meta"].as_object().expect("an object");
    let names: Vec<&str> = meta.keys().map(String::as_str).collect();
    assert_eq!(
        names,
        [
            "com.example/x",
            "io.modelcontextprotocol/clientCapabilities",
            "io.modelcontextprotocol/clientInfo",
            "io.modelcontextprotocol/logLevel",
            "io.modelcontextprotocol/protocolVersion",
            "mine",
            "traceparent",
        ]
    );
    assert_eq!(meta["io.modelcontextprotocol/logLevel"], "error");
    script.respond(&request, json!({"resultType": "complete", "content": []})).await;
    call.await.expect("no panic").expect("a result");
    assert!(client.request("x", [1]).await.expect_err("an array").to_string().contains("not an array"));
    assert!(client.ping().meta(5).await.expect_err("no object").to_string().contains("_meta must be"));
}

#[tokio::test(start_paused = true)]
async fn calls_are_cancelled_by_timeout_and_by_drop() {
    let (client, mut script) = modern(tester().timeout(seconds(9)), TOOLS()).await;
    let began = Instant::now();
    let call = tokio::spawn(client.call_tool("slow", ()).into_future());
    let request = script.expect("tools/call").await;
    let error = call.await.expect("no panic").expect_err("too late");
    assert!(matches!(&error, ClientError::TimedOut { after: Some(after), .. } if *after == seconds(9)));
    assert_eq!(error.to_string(), "no response to tools/call within 9s; .timeout(..) sets a longer limit");
    assert_eq!(began.elapsed(), seconds(9));
    assert_eq!(script.expect("notifications/cancelled").await["params"], json!({"requestId": request["id"]}));

    let mut call = client.call_tool("slow", ()).no_timeout().into_future();
    assert!(timeout(seconds(1000), &mut call).await.is_err());
    let request = script.expect("tools/call").await;
    drop(call);
    assert_eq!(script.expect("notifications/cancelled").await["params"], json!({"requestId": request["id"]}));
    // The response still arrives, and is ignored.
    script.respond(&request, json!({"resultType": "complete", "content": []})).await;
    script.expect_silence().await;
}

#[tokio::test(start_paused = true)]
async fn progress_is_a_stream_that_ends_with_the_call() {
    let (client, mut script) = legacy(tester(), Revision::V2025_11_25, TOOLS()).await;
    let (call, mut progress) = client.call_tool("slow", ()).with_progress();
    let call = tokio::spawn(call.into_future());
    let request = script.expect("tools/call").await;
    let token = request["params"]["_meta"]["progressToken"].clone();
    assert!(!token.is_null());
    for n in 1..=3 {
        let params = json!({"progressToken": token, "progress": n, "total": 3, "message": format!("step {n}")});
        script.notify("notifications/progress", params).await;
        let step = progress.next().await.expect("a step");
        assert_eq!((step.progress, step.total, step.message), (f64::from(n), Some(3.0), Some(format!("step {n}"))));
    }
    script.respond(&request, json!({"content": []})).await;
    call.await.expect("no panic").expect("a result");
    assert!(progress.next().await.is_none());
    // Progress after the end of the call is dropped; it does not appear in the notifications either.
    script.notify("notifications/progress", json!({"progressToken": token, "progress": 9})).await;
    let mut notifications = client.notifications();
    assert!(timeout(seconds(1), notifications.next()).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn a_slow_progress_reader_gets_the_newest_updates() {
    let (client, mut script) = legacy(tester(), Revision::V2025_11_25, TOOLS()).await;
    let (call, mut progress) = client.call_tool("slow", ()).with_progress();
    let call = tokio::spawn(call.into_future());
    let request = script.expect("tools/call").await;
    for n in 1..=1000 {
        let params = json!({"progressToken": request["params"]["_meta"]["progressToken"], "progress": n});
        script.notify("notifications/progress", params).await;
    }
    script.respond(&request, json!({"content": []})).await;
    call.await.expect("no panic").expect("a result");
    let mut seen = Vec::new();
    while let Some(step) = progress.next().await {
        seen.push(step.progress);
    }
    assert!(seen.len() < 100 && seen.last() == Some(&1000.0), "{seen:?}");
}

#[tokio::test(start_paused = true)]
async fn progress_restarts_the_timeout_up_to_a_maximum() {
    let (client, mut script) = legacy(tester(), Revision::V2025_11_25, TOOLS()).await;
    let seen = Arc::new(Mutex::new(Vec::new()));
    let tell = Arc::clone(&seen);
    let began = Instant::now();
    let call = client
        .call_tool("slow", ())
        .timeout(seconds(5))
        .reset_by_progress(seconds(12))
        .on_progress(move |step| tell.lock().expect("no panic").push(step.progress));
    let call = tokio::spawn(call.into_future());
    let request = script.expect("tools/call").await;
    for n in 1..=3 {
        sleep(seconds(4)).await;
        let params = json!({"progressToken": request["params"]["_meta"]["progressToken"], "progress": n});
        script.notify("notifications/progress", params).await;
    }
    let error = call.await.expect("no panic").expect_err("too late");
    assert_eq!((began.elapsed(), error.to_string().as_str()), (seconds(12), "no response to tools/call in time"));
    assert!(seen.lock().expect("no panic").starts_with(&[1.0, 2.0]));
}

#[tokio::test(start_paused = true)]
async fn errors_distinguish_refusals_from_protocol_faults() {
    let (client, mut script) = modern(tester(), TOOLS()).await;
    let call = tokio::spawn(client.call_tool("a", ()).into_future());
    let request = script.expect("tools/call").await;
    script.refuse(&request, -32602, json!({"reason": "unknown tool"})).await;
    let error = call.await.expect("no panic").expect_err("refused");
    assert_eq!(error.code().map(|code| code.get()), Some(-32602));
    assert_eq!(error.to_string(), r#"tools/call was refused: no (-32602): {"reason":"unknown tool"}"#);
    assert_eq!(format!("{error:?}"), error.to_string());

    let call = tokio::spawn(client.call_tool("a", ()).into_future());
    let request = script.expect("tools/call").await;
    script.respond(&request, json!({"content": 5})).await;
    let error = call.await.expect("no panic").expect_err("no result");
    assert!(
        matches!(&error, ClientError::Fault { what, .. } if what.contains("not have the expected type")),
        "{error}"
    );

    let call = tokio::spawn(client.call_tool("a", ()).into_future());
    script.expect("tools/call").await;
    drop(script);
    let error = call.await.expect("no panic").expect_err("the end");
    assert!(matches!(error, ClientError::Closed(_)), "{error}");
    client.closed().await.expect("the server closed it in order");
    assert!(client.end().is_some());
    assert!(client.call_tool("a", ()).await.is_err());
    assert_eq!(client.revision(), Revision::V2026_07_28, "what was agreed can still be read");
}

#[tokio::test(start_paused = true)]
async fn a_request_of_a_modern_server_is_logged_and_not_answered() {
    let log = Log::default();
    let (_client, mut script) = modern(tester(), TOOLS()).await;
    script.send(json!({"jsonrpc": "2.0", "id": 1, "method": "ping"})).await;
    script.send(json!({"jsonrpc": "2.0", "id": 2, "method": "elicitation/create", "params": {}})).await;
    // Unreadable text, an array and an invalid request are not answered either.
    script.send(json!([{"jsonrpc": "2.0", "id": 3, "method": "ping"}])).await;
    script.send(json!({"jsonrpc": "2.0", "id": 4, "method": 5})).await;
    script.0.send_line("hello?").await.expect("memory");
    script.expect_silence().await;
    let log = log.text();
    assert_eq!(log.lines().count(), 5, "{log}");
    assert!(log.contains("this side accepts no requests") && log.contains("hello?"), "{log}");
}

#[tokio::test(start_paused = true)]
async fn server_text_in_errors_is_escaped_and_shortened() {
    let (client, mut script) = modern(tester(), TOOLS()).await;
    let odd = format!("\u{1b}]0;owned\u{7}\u{202e}{}", "x".repeat(1 << 20));
    let error = json!({"code": -32000, "message": odd, "data": odd});
    let required = |request: Value| json!({"resultType": "input_required", "inputRequests": {"a": request}});
    let answers = [
        json!({"error": error}),
        json!({"result": {"resultType": odd}}),
        json!({"result": required(json!({"method": odd}))}),
        json!({"result": {"content": [{"type": "text", "text": 5, odd.as_str(): 1}]}}),
        json!({"result": {"content": odd}}),
        json!({"result": {"content": [{"type": "resource_link", "name": "n", "uri": "u", "annotations": odd}]}}),
    ];
    for mut answer in answers {
        let call = tokio::spawn(client.call_tool("odd", ()).into_future());
        let request = script.expect("tools/call").await;
        answer["jsonrpc"] = json!("2.0");
        answer["id"] = request["id"].clone();
        script.send(answer).await;
        let error = call.await.expect("no panic").expect_err("no result").to_string();
        assert!(!error.chars().any(|c| c.is_control() || c == '\u{202e}'), "{error:?}");
        assert!(error.len() < 2000, "{} bytes", error.len());
    }
    let list = tokio::spawn(client.list_tools().into_future());
    for _ in 0..2 {
        let request = script.expect("tools/list").await;
        script.respond(&request, json!({"tools": [], "nextCursor": odd})).await;
    }
    let error = list.await.expect("no panic").expect_err("a repeated cursor").to_string();
    assert!(error.contains(r#"it repeats the list cursor "\x1b]0;owned\x07"#), "{error}");
    assert!(error.len() < 2000, "{} bytes", error.len());
}

#[tokio::test(start_paused = true)]
async fn shutdown_ends_everything_and_later_calls_fail() {
    let (client, mut script) = modern(tester(), TOOLS()).await;
    let mut notifications = client.notifications();
    let began = Instant::now();
    client.shutdown().await.expect("an orderly end");
    assert_eq!(began.elapsed(), seconds(0));
    assert!(notifications.next().await.is_none());
    assert_eq!(script.0.recv_line().await.expect("memory"), None);
    let error = client.list_tools().await.expect_err("over");
    assert_eq!(error.to_string(), "the connection was shut down");
}

#[tokio::test(start_paused = true)]
async fn the_connection_ends_with_the_last_client() {
    let (client, mut script) = modern(tester(), TOOLS()).await;
    let other = client.clone();
    drop(client);
    script.expect_silence().await;
    drop(other);
    assert_eq!(script.0.recv_line().await.expect("memory"), None);
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_whose_future_is_dropped_still_ends_everything() {
    let (client, mut script) = modern(tester(), TOOLS()).await;
    let mut notifications = client.notifications();
    let call = tokio::spawn(client.call_tool("slow", ()).into_future());
    script.expect("tools/call").await;
    // The shutdown waits for the call in flight, but its future is dropped here.
    assert!(timeout(Duration::from_millis(1), client.shutdown()).await.is_err());
    timeout(seconds(1000), client.closed()).await.expect("it ends").expect("an orderly end");
    assert!(timeout(seconds(1), notifications.next()).await.expect("it ends").is_none());
    call.await.expect("no panic").expect_err("never answered");
}
