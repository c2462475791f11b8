//! Results of modern servers that ask for input: answered by the closures, and the call sent again.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use barewire::client::{Builder, accept};
use barewire::mcp::{CreateMessageResult, ElicitResult, Root};
use barewire::{ClientError, Failure};
use serde_json::{Value, json};
use tokio::sync::Barrier;
use tokio::time::Instant;

use super::script::{modern, tester};
use super::{Log, seconds};

const TOOLS: fn() -> Value = || json!({"tools": {}, "prompts": {}, "resources": {}});

fn form(message: &str) -> Value {
    let schema = json!({"type": "object", "properties": {"name": {"type": "string", "default": "John"}}});
    json!({"method": "elicitation/create", "params": {"message": message, "requestedSchema": schema}})
}

fn required(requests: Value) -> Value {
    json!({"resultType": "input_required", "inputRequests": requests})
}

fn done() -> Value {
    json!({"resultType": "complete", "content": [{"type": "text", "text": "done"}]})
}

/// A client whose user is called Ada.
fn ada() -> Builder {
    tester().on_elicit(|form| async move {
        assert_eq!(form.message, "Who?");
        Ok(accept(json!({"name": "Ada"}))?)
    })
}

#[tokio::test(start_paused = true)]
async fn a_question_is_answered_and_the_call_sent_again_with_the_state_as_it_was_written() {
    let (client, mut script) = modern(ada(), TOOLS()).await;
    let call = tokio::spawn(client.call_tool("greet", json!({"n": 1})).meta(json!({"k": 1})).into_future());
    let first = script.expect("tools/call").await;
    let declared = &first["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"];
    assert_eq!(*declared, json!({"elicitation": {"form": {}}}));
    // Escapes that no reader needs, half of a pair, a slash: all of it comes back.
    let state = r#""a\u0062\/ \ud800 é \"x\" \u0000""#;
    let asks = form("Who?");
    script
        .0
        .send_line(&format!(
            r#"{{"jsonrpc":"2.0","id":{},"result":{{"resultType":"input_required","inputRequests":{{"user":{asks}}},"requestState":{state}}}}}"#,
            first["id"]
        ))
        .await
        .expect("memory");
    let text = script.text().await;
    assert!(text.contains(&format!(r#""requestState":{state}"#)), "{text}");
    // No reader of this test's can read that state either.
    let second: Value = serde_json::from_str(&text.replace(r"\ud800", "")).expect("JSON");
    assert_ne!(second["id"], first["id"]);
    assert_eq!(second["method"], "tools/call");
    let mut params = second["params"].clone();
    let params = params.as_object_mut().expect("an object");
    assert_eq!(
        params.remove("inputResponses"),
        Some(json!({"user": {"action": "accept", "content": {"name": "Ada"}}}))
    );
    assert!(params.remove("requestState").is_some());
    assert_eq!(Value::Object(params.clone()), first["params"], "all else is the same");
    script.answer(&second, done()).await;
    assert_eq!(call.await.expect("no panic").expect("a result").content[0].as_text(), Some("done"));
}

#[tokio::test(start_paused = true)]
async fn without_a_state_none_is_sent_and_nothing_leaks_into_other_calls() {
    let (client, mut script) = modern(ada(), TOOLS()).await;
    let call = tokio::spawn(client.get_prompt("p", ()).into_future());
    let first = script.expect("prompts/get").await;
    let mut asks = required(json!({"a": form("Who?")}));
    asks["requestState"] = json!("one");
    script.answer(&first, asks).await;
    let second = script.expect("prompts/get").await;
    assert_eq!(second["params"]["requestState"], "one");
    // Asked once more, and now without a state: the old one is not sent.
    script.answer(&second, required(json!({"b": form("Who?")}))).await;
    let third = script.expect("prompts/get").await;
    assert!(third["params"].get("requestState").is_none(), "{third}");
    let responses = third["params"]["inputResponses"].as_object().expect("an object");
    assert_eq!(responses.keys().collect::<Vec<_>>(), ["b"], "only what was asked last");
    let other = tokio::spawn(client.call_tool("other", ()).into_future());
    let asked = script.expect("tools/call").await;
    assert!(asked["params"].get("inputResponses").is_none(), "{asked}");
    script.answer(&third, json!({"messages": []})).await;
    call.await.expect("no panic").expect("a result without a type is complete");
    script.answer(&asked, done()).await;
    other.await.expect("no panic").expect("a result");
}

#[tokio::test(start_paused = true)]
async fn what_a_caller_sends_with_a_round_of_its_own_is_for_that_one() {
    let (client, mut script) = modern(ada(), TOOLS()).await;
    let own = json!({"name": "a", "inputResponses": {"x": {"action": "decline"}}, "requestState": "old"});
    let call = tokio::spawn(client.request("tools/call", own).into_future());
    let first = script.expect("tools/call").await;
    assert_eq!(first["params"]["requestState"], "old");
    script.answer(&first, required(json!({"b": form("Who?")}))).await;
    let second = script.expect("tools/call").await;
    assert!(second["params"].get("requestState").is_none(), "{second}");
    assert!(second["params"]["inputResponses"].get("x").is_none(), "{second}");
    script.answer(&second, done()).await;
    call.await.expect("no panic").expect("a result");
}

#[tokio::test(start_paused = true)]
async fn questions_of_one_round_are_answered_at_the_same_time() {
    // Each waits for the other.
    let both = Arc::new(Barrier::new(2));
    let other = Arc::clone(&both);
    let builder = tester()
        .on_elicit(move |_| {
            let both = Arc::clone(&both);
            async move {
                both.wait().await;
                Ok(accept(json!({}))?)
            }
        })
        .on_sample(move |params| {
            let both = Arc::clone(&other);
            async move {
                both.wait().await;
                assert_eq!(params.max_tokens, 5);
                Ok(CreateMessageResult::new("m", "Paris"))
            }
        })
        .roots([Root::new("file:///work")]);
    let (client, mut script) = modern(builder, TOOLS()).await;
    let call = tokio::spawn(client.read_resource("x:1").into_future());
    let first = script.expect("resources/read").await;
    let declared = &first["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"];
    assert_eq!(*declared, json!({"elicitation": {"form": {}}, "roots": {}, "sampling": {}}));
    let sample = json!({"method": "sampling/createMessage", "params": {"messages": [], "maxTokens": 5}});
    let roots = json!({"method": "roots/list"});
    script.answer(&first, required(json!({"who": form("Who?"), "what": sample, "where": roots}))).await;
    let second = script.expect("resources/read").await;
    assert_eq!(
        second["params"]["inputResponses"],
        json!({
            // The default of the form is filled in.
            "who": {"action": "accept", "content": {"name": "John"}},
            "what": {"role": "assistant", "model": "m", "content": {"type": "text", "text": "Paris"}},
            "where": {"roots": [{"uri": "file:///work"}]},
        })
    );
    script.answer(&second, json!({"contents": []})).await;
    call.await.expect("no panic").expect("a result");
}

#[tokio::test(start_paused = true)]
async fn rounds_are_bounded() {
    let (client, mut script) = modern(ada(), TOOLS()).await;
    let call = tokio::spawn(client.call_tool("circle", ()).into_future());
    let mut ids = std::collections::HashSet::new();
    for _ in 0..32 {
        let asked = script.expect("tools/call").await;
        assert!(ids.insert(asked["id"].to_string()), "each has an id of its own");
        script.answer(&asked, required(json!({"a": form("Who?")}))).await;
    }
    let error = call.await.expect("no panic").expect_err("no end").to_string();
    assert!(error.contains("asked for more input 32 times"), "{error}");
    script.expect_silence().await;
}

#[tokio::test(start_paused = true)]
async fn a_server_that_only_wants_to_be_asked_again_is_not_flooded() {
    let (client, mut script) = modern(tester(), TOOLS()).await;
    let began = Instant::now();
    let call = tokio::spawn(client.call_tool("wait", ()).into_future());
    for n in 0..10 {
        let asked = script.expect("tools/call").await;
        assert_eq!(asked["params"].get("inputResponses"), None);
        if n > 0 {
            assert_eq!(asked["params"]["requestState"], json!((n - 1).to_string()));
        }
        script.answer(&asked, json!({"resultType": "input_required", "requestState": n.to_string()})).await;
        if n == 0 {
            assert!(began.elapsed() < Duration::from_millis(50));
        }
    }
    let asked = script.expect("tools/call").await;
    script.answer(&asked, done()).await;
    call.await.expect("no panic").expect("a result");
    assert!(began.elapsed() > seconds(5), "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_server_that_asks_for_nothing_in_so_many_words_is_not_flooded_either() {
    let (client, mut script) = modern(tester(), TOOLS()).await;
    let began = Instant::now();
    let call = tokio::spawn(client.call_tool("wait", ()).into_future());
    for _ in 0..10 {
        let asked = script.expect("tools/call").await;
        script.answer(&asked, required(json!({}))).await;
    }
    let asked = script.expect("tools/call").await;
    assert_eq!(asked["params"]["inputResponses"], json!({}));
    script.answer(&asked, done()).await;
    call.await.expect("no panic").expect("a result");
    assert!(began.elapsed() > seconds(5), "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn questions_of_one_round_are_bounded() {
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    let builder = tester().on_elicit(move |_| {
        count.fetch_add(1, Ordering::Relaxed);
        async { Ok(ElicitResult::decline()) }
    });
    let questions = |count: usize| {
        let questions = (0..count).map(|n| (n.to_string(), form("Who?")));
        required(Value::Object(questions.collect()))
    };
    let (client, mut script) = modern(builder, TOOLS()).await;
    let call = tokio::spawn(client.call_tool("quiz", ()).into_future());
    let first = script.expect("tools/call").await;
    script.answer(&first, questions(64)).await;
    let second = script.expect("tools/call").await;
    assert_eq!(second["params"]["inputResponses"].as_object().map(|them| them.len()), Some(64));
    script.answer(&second, questions(65)).await;
    let error = call.await.expect("no panic").expect_err("too many");
    assert!(matches!(error, ClientError::Fault { .. }), "{error}");
    assert!(error.to_string().contains("it asks 65 things at once"), "{error}");
    assert_eq!(asked.load(Ordering::Relaxed), 64, "nobody was asked any of the others");
    script.expect_silence().await;
}

#[tokio::test(start_paused = true)]
async fn what_breaks_the_rules_is_the_servers_fault() {
    let odd = [
        (json!({"resultType": "task"}), "of a type that is not known here: \"task\""),
        (json!({"resultType": 5}), "cannot be read"),
        (json!({"resultType": "input_required"}), "does not say for which"),
        (required(json!({"a": form("Who?")})), "elicitation was not declared"),
        (required(json!({"a": {"method": "roots/list"}})), "roots was not declared"),
        (required(json!({"a": {"method": "ping"}})), "was not declared"),
        (required(json!({"a": 5})), "cannot be read"),
    ];
    let (client, mut script) = modern(tester(), TOOLS()).await;
    for (result, expected) in odd {
        let call = tokio::spawn(client.call_tool("odd", ()).into_future());
        let asked = script.expect("tools/call").await;
        script.answer(&asked, result).await;
        let error = call.await.expect("no panic").expect_err("a fault");
        assert!(matches!(error, ClientError::Fault { .. }), "{error}");
        assert!(error.to_string().contains(expected), "{error}");
    }
    let list = tokio::spawn(client.list_tools().into_future());
    let asked = script.expect("tools/list").await;
    script.answer(&asked, required(json!({"a": form("Who?")}))).await;
    let error = list.await.expect("no panic").expect_err("a fault").to_string();
    assert!(error.contains("which it may not do here"), "{error}");
    script.expect_silence().await;
}

#[tokio::test(start_paused = true)]
async fn a_closure_that_fails_is_a_user_who_went_away_or_the_end_of_the_call() {
    let log = Log::default();
    let builder = tester()
        .on_elicit(|form| async move {
            assert_ne!(form.message, "panic", "a panic");
            Err(Failure::internal("Terminal", "the screen is gone"))
        })
        .on_sample(|_| async { Err(Failure::invalid_params("no model for that")) });
    let (client, mut script) = modern(builder, TOOLS()).await;
    for message in ["Who?", "panic"] {
        let call = tokio::spawn(client.call_tool("ask", ()).into_future());
        let asked = script.expect("tools/call").await;
        script.answer(&asked, required(json!({"a": form(message)}))).await;
        let again = script.expect("tools/call").await;
        assert_eq!(again["params"]["inputResponses"], json!({"a": {"action": "cancel"}}));
        script.answer(&again, done()).await;
        call.await.expect("no panic").expect("a result");
    }
    assert!(log.text().contains("the screen is gone") && log.text().contains("a panic"), "{}", log.text());

    let call = tokio::spawn(client.call_tool("ask", ()).into_future());
    let asked = script.expect("tools/call").await;
    let sample = json!({"method": "sampling/createMessage", "params": {"messages": [], "maxTokens": 5}});
    script.answer(&asked, required(json!({"a": sample}))).await;
    let error = call.await.expect("no panic").expect_err("no answer, no result");
    assert!(matches!(&error, ClientError::Handler { .. }), "{error}");
    assert!(error.to_string().contains("no model for that"), "{error}");
    script.expect_silence().await;
}

#[tokio::test(start_paused = true)]
async fn a_user_may_decline() {
    let builder = tester().on_elicit(|_| async { Ok(ElicitResult::decline()) });
    let (client, mut script) = modern(builder, TOOLS()).await;
    let call = tokio::spawn(client.call_tool("ask", ()).into_future());
    let asked = script.expect("tools/call").await;
    script.answer(&asked, required(json!({"a": form("Who?")}))).await;
    let again = script.expect("tools/call").await;
    assert_eq!(again["params"]["inputResponses"], json!({"a": {"action": "decline"}}));
    script.answer(&again, done()).await;
    call.await.expect("no panic").expect("a result");
}

#[tokio::test(start_paused = true)]
async fn dropping_a_call_ends_the_closures_that_answer_for_it() {
    struct Gone(Arc<tokio::sync::Notify>);
    impl Drop for Gone {
        fn drop(&mut self) {
            self.0.notify_one();
        }
    }
    let gone = Arc::new(tokio::sync::Notify::new());
    let told = Arc::clone(&gone);
    let builder = tester().on_elicit(move |_| {
        let guard = Gone(Arc::clone(&told));
        async move {
            let _guard = guard;
            std::future::pending().await
        }
    });
    let (client, mut script) = modern(builder, TOOLS()).await;
    let call = tokio::spawn(client.call_tool("ask", ()).into_future());
    let asked = script.expect("tools/call").await;
    script.answer(&asked, required(json!({"a": form("Who?")}))).await;
    // However long the user takes, the call does not time out.
    tokio::time::sleep(seconds(3600)).await;
    assert!(!call.is_finished());
    call.abort();
    gone.notified().await;
    // The first round was answered, so there is nothing to cancel.
    script.expect_silence().await;
}

#[tokio::test(start_paused = true)]
async fn who_wants_a_result_as_it_comes_gets_it() {
    let (client, mut script) = modern(tester(), TOOLS()).await;
    let call = tokio::spawn(client.request("tools/call", json!({"name": "a"})).raw_result().into_future());
    let asked = script.expect("tools/call").await;
    script.answer(&asked, json!({"resultType": "input_required", "requestState": "s"})).await;
    let raw = call.await.expect("no panic").expect("a result");
    assert!(raw.as_str().is_some_and(|text| text.contains("input_required")), "{raw}");
}
