//! Legacy servers that ask their client, and what they are told.

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
async fn a_server_is_answered_by_the_closures() {
    let (_client, mut script) = legacy(everything(), Revision::V2025_11_25, json!({})).await;
    assert_eq!(script.ask(1, "ping", json!({})).await["result"], json!({}));
    let elicited = script.ask(2, "elicitation/create", form()).await;
    assert_eq!(elicited["result"], json!({"action": "accept", "content": {"age": 30, "name": "Ada"}}));
    let page = json!({"mode": "url", "message": "Log in", "url": "https://example.com/", "elicitationId": "e"});
    let visited = script.ask(3, "elicitation/create", page).await;
    assert_eq!(visited["result"], json!({"action": "decline"}));
    let sampled = script.ask(4, "sampling/createMessage", json!({"messages": [], "maxTokens": 5})).await;
    assert_eq!(sampled["result"]["content"], json!({"type": "text", "text": "hi"}));
    let roots = script.ask(5, "roots/list", json!({})).await;
    assert_eq!(roots["result"], json!({"roots": [{"uri": "file:///work"}]}));
}

#[tokio::test(start_paused = true)]
async fn what_was_not_declared_is_refused() {
    let (_client, mut script) = legacy(tester(), Revision::V2025_11_25, json!({})).await;
    for (id, method) in [(1, "roots/list"), (2, "sampling/createMessage"), (3, "elicitation/create"), (4, "x/y")] {
        assert_eq!(script.ask(id, method, form()).await["error"]["code"], -32601, "{method}");
    }
    let builder = tester()
        .on_elicit(|_| async { Ok(ElicitResult::cancel()) })
        .on_sample(|_| async { Ok(CreateMessageResult::new("m", "hi")) });
    let (_client, mut script) = legacy(builder, Revision::V2025_11_25, json!({})).await;
    let page = json!({"mode": "url", "message": "m", "url": "https://example.com/", "elicitationId": "e"});
    assert_eq!(script.ask(1, "elicitation/create", page).await["error"]["code"], -32602);
    let tools = json!({"messages": [], "maxTokens": 5, "tools": []});
    assert_eq!(script.ask(2, "sampling/createMessage", tools).await["error"]["code"], -32602);
    assert_eq!(script.ask(3, "sampling/createMessage", json!({})).await["error"]["code"], -32602);
}

#[tokio::test(start_paused = true)]
async fn a_revision_without_elicitation_has_none() {
    let (_client, mut script) = legacy(everything(), Revision::V2025_03_26, json!({})).await;
    assert_eq!(script.ask(1, "elicitation/create", form()).await["error"]["code"], -32601);
}

#[tokio::test(start_paused = true)]
async fn arrays_are_taken_only_where_the_revision_has_them() {
    for revision in Revision::ALL.into_iter().filter(|revision| !revision.is_modern()) {
        let (_client, mut script) = legacy(everything(), revision, json!({})).await;
        let ping = |id: u64| json!({"jsonrpc": "2.0", "id": id, "method": "ping"});
        script.say(json!([ping(1), ping(2)])).await;
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
async fn a_question_that_is_cancelled_is_dropped() {
    let builder = tester().on_elicit(|_| std::future::pending());
    let (_client, mut script) = legacy(builder, Revision::V2025_11_25, json!({})).await;
    script.say(json!({"jsonrpc": "2.0", "id": 7, "method": "elicitation/create", "params": form()})).await;
    script.tell("notifications/cancelled", json!({"requestId": 7})).await;
    script.expect_silence().await;
    assert_eq!(script.ask(8, "ping", json!({})).await["result"], json!({}));
}

#[tokio::test(start_paused = true)]
async fn while_a_question_waits_for_its_answer_other_things_go_on() {
    let builder = tester().on_elicit(|_| async {
        tokio::time::sleep(seconds(600)).await;
        Ok(ElicitResult::cancel())
    });
    let (client, mut script) = legacy(builder, Revision::V2025_11_25, json!({"tools": {}})).await;
    let call = tokio::spawn(client.call_tool("ask", ()).no_timeout().into_future());
    let asked = script.expect("tools/call").await;
    script.say(json!({"jsonrpc": "2.0", "id": 1, "method": "elicitation/create", "params": form()})).await;
    assert_eq!(script.ask(2, "ping", json!({})).await["result"], json!({}));
    let answer = script.line().await;
    assert_eq!(answer["result"], json!({"action": "cancel"}));
    script.answer(&asked, json!({"content": []})).await;
    call.await.expect("no panic").expect("a result");
}

#[tokio::test(start_paused = true)]
async fn roots_may_change_and_a_legacy_server_is_told() {
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    let builder = tester().on_roots(move || {
        let n = count.fetch_add(1, Ordering::Relaxed);
        async move { Ok(vec![Root::new(format!("file:///{n}"))]) }
    });
    let (client, mut script) = legacy(builder, Revision::V2025_06_18, json!({})).await;
    client.roots_changed().await.expect("told");
    script.expect("notifications/roots/list_changed").await;
    assert_eq!(script.ask(1, "roots/list", json!({})).await["result"]["roots"][0]["uri"], "file:///0");
    assert_eq!(script.ask(2, "roots/list", json!({})).await["result"]["roots"][0]["uri"], "file:///1");

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
    let asked = script.expect("logging/setLevel").await;
    assert_eq!(asked["params"], json!({"level": "warning"}));
    script.answer(&asked, json!({})).await;
    set.await.expect("no panic").expect("set");

    let (client, mut script) = modern(tester(), json!({"logging": {}, "tools": {}})).await;
    client.set_log_level(LoggingLevel::Debug).await.expect("kept");
    script.expect_silence().await;
    let list = tokio::spawn(client.list_tools().into_future());
    let asked = script.expect("tools/list").await;
    assert_eq!(asked["params"]["_meta"]["io.modelcontextprotocol/logLevel"], "debug");
    script.answer(&asked, json!({"resultType": "complete", "tools": []})).await;
    list.await.expect("no panic").expect("listed");

    let (client, _script) = modern(tester(), json!({})).await;
    assert!(client.set_log_level(LoggingLevel::Debug).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn resources_are_subscribed_to_by_request() {
    let (client, mut script) = legacy(tester(), Revision::V2025_11_25, json!({"resources": {"subscribe": true}})).await;
    let server = async {
        for method in ["resources/subscribe", "resources/unsubscribe"] {
            let asked = script.expect(method).await;
            assert_eq!(asked["params"], json!({"uri": "x:1"}));
            script.answer(&asked, json!({})).await;
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
async fn nothing_but_ping_is_answered_before_the_handshake() {
    let (here, mut script) = super::script::apart();
    let server = async {
        script.expect("server/discover").await;
        assert_eq!(script.ask(1, "ping", json!({})).await["result"], json!({}));
        assert_eq!(script.ask(2, "roots/list", json!({})).await["error"]["code"], -32600);
        script.shake_hands("2025-11-25", json!({})).await;
        assert!(script.ask(3, "roots/list", json!({})).await.get("result").is_some());
    };
    let (client, ()) = tokio::join!(everything().over(here), server);
    client.expect("connected");
}

#[tokio::test(start_paused = true)]
async fn the_time_that_the_user_takes_is_not_the_servers() {
    let builder = tester().on_elicit(|_| async {
        sleep(seconds(70)).await;
        Ok(accept(json!({"name": "Ada"}))?)
    });
    let (client, mut script) = legacy(builder, Revision::V2025_11_25, json!({"tools": {}})).await;
    let call = tokio::spawn(client.call_tool("ask", ()).timeout(seconds(60)).into_future());
    let asked = script.expect("tools/call").await;
    sleep(seconds(50)).await;
    let elicited = script.ask(1, "elicitation/create", form()).await;
    assert_eq!(elicited["result"]["action"], "accept");
    sleep(seconds(9)).await;
    script.answer(&asked, json!({"content": []})).await;
    call.await.expect("no panic").expect("a result in time");

    // What the server takes before and after counts.
    let began = Instant::now();
    let call = tokio::spawn(client.call_tool("ask", ()).timeout(seconds(60)).into_future());
    let asked = script.expect("tools/call").await;
    sleep(seconds(50)).await;
    script.ask(2, "elicitation/create", form()).await;
    assert_eq!(script.expect("notifications/cancelled").await["params"]["requestId"], asked["id"]);
    assert_eq!(began.elapsed().as_secs(), 50 + 70 + 10);
    let error = call.await.expect("no panic").expect_err("late");
    assert!(matches!(error, ClientError::TimedOut { .. }), "{error}");
}
