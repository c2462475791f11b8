//! Requests of legacy servers, and the state that legacy servers keep.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use barewire::ClientError;
use barewire::client::{Builder, accept};
use barewire::mcp::{CreateMessageResult, ElicitResult, LoggingLevel, Revision, Root};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::script::{legacy, modern, tester};
use super::seconds;

fn everything() -> Builder {
    tester()
        .on_elicit(|_| async { Ok(accept(json!({"name": "Ada"}))?) })
        .on_elicit_url(|page| async move {
            assert_eq!(page.url, "https://example.com/");
            Ok(ElicitResult::decline())
        })
        .on_sample(|_| async { Ok(CreateMessageResult::new("m", "hi")) })
        .roots([Root::new("file:///work")])
}

fn form() -> Value {
    let properties = json!({"name": {"type": "string"}, "age": {"type": "integer", "default": 30}});
    json!({"message": "Who?", "requestedSchema": {"type": "object", "properties": properties}})
}

#[tokio::test(start_paused = true)]
async fn the_closures_answer_the_servers_requests() {
    let (_client, mut script) = legacy(everything(), Revision::V2025_11_25, json!({})).await;
    assert_eq!(script.request(1, "ping", json!({})).await["result"], json!({}));
    let elicited = script.request(2, "elicitation/create", form()).await;
    assert_eq!(elicited["result"], json!({"action": "accept", "content": {"age": 30, "name": "Ada"}}));
    let page = json!({"mode": "url", "message": "Log in", "url": "https://example.com/", "elicitationId": "e"});
    let visited = script.request(3, "elicitation/create", page).await;
    assert_eq!(visited["result"], json!({"action": "decline"}));
    let sampled = script.request(4, "sampling/createMessage", json!({"messages": [], "maxTokens": 5})).await;
    assert_eq!(sampled["result"]["content"], json!({"type": "text", "text": "hi"}));
    let roots = script.request(5, "roots/list", json!({})).await;
    assert_eq!(roots["result"], json!({"roots": [{"uri": "file:///work"}]}));
}

#[tokio::test(start_paused = true)]
async fn undeclared_requests_are_refused() {
    let (_client, mut script) = legacy(tester(), Revision::V2025_11_25, json!({})).await;
    for (id, method) in [(1, "roots/list"), (2, "sampling/createMessage"), (3, "elicitation/create"), (4, "x/y")] {
        assert_eq!(script.request(id, method, form()).await["error"]["code"], -32601, "{method}");
    }
    let builder = tester()
        .on_elicit(|_| async { Ok(ElicitResult::cancel()) })
        .on_sample(|_| async { Ok(CreateMessageResult::new("m", "hi")) });
    let (_client, mut script) = legacy(builder, Revision::V2025_11_25, json!({})).await;
    let page = json!({"mode": "url", "message": "m", "url": "https://example.com/", "elicitationId": "e"});
    assert_eq!(script.request(1, "elicitation/create", page).await["error"]["code"], -32602);
    let tools = json!({"messages": [], "maxTokens": 5, "tools": []});
    assert_eq!(script.request(2, "sampling/createMessage", tools).await["error"]["code"], -32602);
    assert_eq!(script.request(3, "sampling/createMessage", json!({})).await["error"]["code"], -32602);
}

#[tokio::test(start_paused = true)]
async fn elicitation_is_refused_in_revisions_without_it() {
    let (_client, mut script) = legacy(everything(), Revision::V2025_03_26, json!({})).await;
    assert_eq!(script.request(1, "elicitation/create", form()).await["error"]["code"], -32601);
}

#[tokio::test(start_paused = true)]
async fn batches_are_accepted_only_in_revisions_that_have_them() {
    for revision in Revision::ALL.into_iter().filter(|revision| !revision.is_modern()) {
        let (_client, mut script) = legacy(everything(), revision, json!({})).await;
        let ping = |id: u64| json!({"jsonrpc": "2.0", "id": id, "method": "ping"});
        script.send(json!([ping(1), ping(2)])).await;
        let answer = script.line().await;
        match revision.has_batches() {
            true => assert_eq!(answer.as_array().map(Vec::len), Some(2), "{answer}"),
            false => {
                assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!(1), &json!(-32600)));
                assert_eq!(script.line().await["id"], 2);
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_request_of_the_server_is_dropped() {
    let builder = tester().on_elicit(|_| std::future::pending());
    let (_client, mut script) = legacy(builder, Revision::V2025_11_25, json!({})).await;
    script.send(json!({"jsonrpc": "2.0", "id": 7, "method": "elicitation/create", "params": form()})).await;
    script.notify("notifications/cancelled", json!({"requestId": 7})).await;
    script.expect_silence().await;
    assert_eq!(script.request(8, "ping", json!({})).await["result"], json!({}));
}

#[tokio::test(start_paused = true)]
async fn a_slow_handler_does_not_block_other_messages() {
    let builder = tester().on_elicit(|_| async {
        tokio::time::sleep(seconds(600)).await;
        Ok(ElicitResult::cancel())
    });
    let (client, mut script) = legacy(builder, Revision::V2025_11_25, json!({"tools": {}})).await;
    let call = tokio::spawn(client.call_tool("ask", ()).no_timeout().into_future());
    let request = script.expect("tools/call").await;
    script.send(json!({"jsonrpc": "2.0", "id": 1, "method": "elicitation/create", "params": form()})).await;
    assert_eq!(script.request(2, "ping", json!({})).await["result"], json!({}));
    let answer = script.line().await;
    assert_eq!(answer["result"], json!({"action": "cancel"}));
    script.respond(&request, json!({"content": []})).await;
    call.await.expect("no panic").expect("a result");
}

#[tokio::test(start_paused = true)]
async fn a_legacy_server_is_notified_of_changed_roots() {
    let handled = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&handled);
    let builder = tester().on_roots(move || {
        let n = count.fetch_add(1, Ordering::Relaxed);
        async move { Ok(vec![Root::new(format!("file:///{n}"))]) }
    });
    let (client, mut script) = legacy(builder, Revision::V2025_06_18, json!({})).await;
    client.roots_changed().await.expect("told");
    script.expect("notifications/roots/list_changed").await;
    assert_eq!(script.request(1, "roots/list", json!({})).await["result"]["roots"][0]["uri"], "file:///0");
    assert_eq!(script.request(2, "roots/list", json!({})).await["result"]["roots"][0]["uri"], "file:///1");

    let (client, mut script) = modern(tester().roots([]), json!({})).await;
    client.roots_changed().await.expect("nothing to do");
    script.expect_silence().await;
    let (client, _script) = modern(tester(), json!({})).await;
    assert!(client.roots_changed().await.expect_err("none").to_string().contains(".roots(..)"));
}

#[tokio::test(start_paused = true)]
async fn the_log_level_is_set_once_or_with_each_request() {
    let (client, mut script) = legacy(tester(), Revision::V2025_11_25, json!({"logging": {}})).await;
    let set = tokio::spawn(async move { client.set_log_level(LoggingLevel::Warning).await });
    let request = script.expect("logging/setLevel").await;
    assert_eq!(request["params"], json!({"level": "warning"}));
    script.respond(&request, json!({})).await;
    set.await.expect("no panic").expect("set");

    let (client, mut script) = modern(tester(), json!({"logging": {}, "tools": {}})).await;
    client.set_log_level(LoggingLevel::Debug).await.expect("kept");
    script.expect_silence().await;
    let list = tokio::spawn(client.list_tools().into_future());
    let request = script.expect("tools/list").await;
    assert_eq!(request["params"]["_meta"]["io.modelcontextprotocol/logLevel"], "debug");
    script.respond(&request, json!({"resultType": "complete", "tools": []})).await;
    list.await.expect("no panic").expect("listed");

    let (client, _script) = modern(tester(), json!({})).await;
    assert!(client.set_log_level(LoggingLevel::Debug).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn subscribing_sends_a_request() {
    let (client, mut script) = legacy(tester(), Revision::V2025_11_25, json!({"resources": {"subscribe": true}})).await;
    let server = async {
        for method in ["resources/subscribe", "resources/unsubscribe"] {
            let request = script.expect(method).await;
            assert_eq!(request["params"], json!({"uri": "x:1"}));
            script.respond(&request, json!({})).await;
        }
    };
    let calls = async {
        client.subscribe("x:1").await.expect("subscribed");
        client.unsubscribe("x:1").await.expect("unsubscribed");
    };
    tokio::join!(calls, server);
    let error = client.listen(Default::default()).await.expect_err("later").to_string();
    assert!(error.contains("subscriptions/listen was not sent"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn only_ping_is_answered_before_the_handshake() {
    let (here, mut script) = super::script::unconnected();
    let server = async {
        script.expect("server/discover").await;
        assert_eq!(script.request(1, "ping", json!({})).await["result"], json!({}));
        assert_eq!(script.request(2, "roots/list", json!({})).await["error"]["code"], -32600);
        script.handshake("2025-11-25", json!({})).await;
        assert!(script.request(3, "roots/list", json!({})).await.get("result").is_some());
    };
    let (client, ()) = tokio::join!(everything().over(here), server);
    client.expect("connected");
}

#[tokio::test(start_paused = true)]
async fn the_users_time_does_not_count_towards_the_timeout() {
    let builder = tester().on_elicit(|_| async {
        sleep(seconds(70)).await;
        Ok(accept(json!({"name": "Ada"}))?)
    });
    let (client, mut script) = legacy(builder, Revision::V2025_11_25, json!({"tools": {}})).await;
    let call = tokio::spawn(client.call_tool("ask", ()).timeout(seconds(60)).into_future());
    let request = script.expect("tools/call").await;
    sleep(seconds(50)).await;
    let elicited = script.request(1, "elicitation/create", form()).await;
    assert_eq!(elicited["result"]["action"], "accept");
    sleep(seconds(9)).await;
    script.respond(&request, json!({"content": []})).await;
    call.await.expect("no panic").expect("a result in time");

    // The server's time before and after the elicitation counts.
    let began = Instant::now();
    let call = tokio::spawn(client.call_tool("ask", ()).timeout(seconds(60)).into_future());
    let request = script.expect("tools/call").await;
    sleep(seconds(50)).await;
    script.request(2, "elicitation/create", form()).await;
    assert_eq!(script.expect("notifications/cancelled").await["params"]["requestId"], request["id"]);
    assert_eq!(began.elapsed().as_secs(), 50 + 70 + 10);
    let error = call.await.expect("no panic").expect_err("late");
    assert!(matches!(error, ClientError::TimedOut { .. }), "{error}");
}
