//! Results of modern servers that require input: answered by the closures, and the call sent again.

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

/// A client whose user answers with the name Ada.
fn ada() -> Builder {
    tester().on_elicit(|form| async move {
        assert_eq!(form.message, "Who?");
        Ok(accept(json!({"name": "Ada"}))?)
    })
}

#[tokio::test(start_paused = true)]
async fn a_call_is_repeated_with_the_answers_and_the_unchanged_state() {
    let (client, mut script) = modern(ada(), TOOLS()).await;
    let call = tokio::spawn(client.call_tool("greet", json!({"n": 1})).meta(json!({"k": 1})).into_future());
    let first = script.expect("tools/call").await;
    let declared = &first["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"];
    assert_eq!(*declared, json!({"elicitation": {"form": {}}}));
    // Needless escapes, a lone surrogate, a slash: the state comes back byte for byte.
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
    // The JSON parser of this test cannot read the lone surrogate.
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
    script.respond(&second, done()).await;
    assert_eq!(call.await.expect("no panic").expect("a result").content[0].as_text(), Some("done"));
}

#[tokio::test(start_paused = true)]
async fn state_and_answers_do_not_leak_into_other_rounds_or_calls() {
    let (client, mut script) = modern(ada(), TOOLS()).await;
    let call = tokio::spawn(client.get_prompt("p", ()).into_future());
    let first = script.expect("prompts/get").await;
    let mut asks = required(json!({"a": form("Who?")}));
    asks["requestState"] = json!("one");
    script.respond(&first, asks).await;
    let second = script.expect("prompts/get").await;
    assert_eq!(second["params"]["requestState"], "one");
    // This result has no state, so the old one is not sent again.
    script.respond(&second, required(json!({"b": form("Who?")}))).await;
    let third = script.expect("prompts/get").await;
    assert!(third["params"].get("requestState").is_none(), "{third}");
    let responses = third["params"]["inputResponses"].as_object().expect("an object");
    assert_eq!(responses.keys().collect::<Vec<_>>(), ["b"], "only the last requests");
    let other = tokio::spawn(client.call_tool("other", ()).into_future());
    let request = script.expect("tools/call").await;
    assert!(request["params"].get("inputResponses").is_none(), "{request}");
    script.respond(&third, json!({"messages": []})).await;
    call.await.expect("no panic").expect("a result without a type is complete");
    script.respond(&request, done()).await;
    other.await.expect("no panic").expect("a result");
}

#[tokio::test(start_paused = true)]
async fn round_members_of_the_caller_are_sent_in_the_first_round_only() {
    let (client, mut script) = modern(ada(), TOOLS()).await;
    let own = json!({"name": "a", "inputResponses": {"x": {"action": "decline"}}, "requestState": "old"});
    let call = tokio::spawn(client.request("tools/call", own).into_future());
    let first = script.expect("tools/call").await;
    assert_eq!(first["params"]["requestState"], "old");
    script.respond(&first, required(json!({"b": form("Who?")}))).await;
    let second = script.expect("tools/call").await;
    assert!(second["params"].get("requestState").is_none(), "{second}");
    assert!(second["params"]["inputResponses"].get("x").is_none(), "{second}");
    script.respond(&second, done()).await;
    call.await.expect("no panic").expect("a result");
}

#[tokio::test(start_paused = true)]
async fn input_requests_of_one_round_are_answered_concurrently() {
    // Each handler waits for the other.
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
    script.respond(&first, required(json!({"who": form("Who?"), "what": sample, "where": roots}))).await;
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
    script.respond(&second, json!({"contents": []})).await;
    call.await.expect("no panic").expect("a result");
}

#[tokio::test(start_paused = true)]
async fn rounds_are_bounded() {
    let (client, mut script) = modern(ada(), TOOLS()).await;
    let call = tokio::spawn(client.call_tool("circle", ()).into_future());
    let mut ids = std::collections::HashSet::new();
    for _ in 0..32 {
        let request = script.expect("tools/call").await;
        assert!(ids.insert(request["id"].to_string()), "each has an id of its own");
        script.respond(&request, required(json!({"a": form("Who?")}))).await;
    }
    let error = call.await.expect("no panic").expect_err("no end").to_string();
    assert!(error.contains("required input 32 times"), "{error}");
    script.expect_silence().await;
}

#[tokio::test(start_paused = true)]
async fn rounds_without_input_requests_have_pauses() {
    let (client, mut script) = modern(tester(), TOOLS()).await;
    let began = Instant::now();
    let call = tokio::spawn(client.call_tool("wait", ()).into_future());
    for n in 0..10 {
        let request = script.expect("tools/call").await;
        assert_eq!(request["params"].get("inputResponses"), None);
        if n > 0 {
            assert_eq!(request["params"]["requestState"], json!((n - 1).to_string()));
        }
        script.respond(&request, json!({"resultType": "input_required", "requestState": n.to_string()})).await;
        if n == 0 {
            assert!(began.elapsed() < Duration::from_millis(50));
        }
    }
    let request = script.expect("tools/call").await;
    script.respond(&request, done()).await;
    call.await.expect("no panic").expect("a result");
    assert!(began.elapsed() > seconds(5), "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn rounds_with_empty_input_requests_have_pauses() {
    let (client, mut script) = modern(tester(), TOOLS()).await;
    let began = Instant::now();
    let call = tokio::spawn(client.call_tool("wait", ()).into_future());
    for _ in 0..10 {
        let request = script.expect("tools/call").await;
        script.respond(&request, required(json!({}))).await;
    }
    let request = script.expect("tools/call").await;
    assert_eq!(request["params"]["inputResponses"], json!({}));
    script.respond(&request, done()).await;
    call.await.expect("no panic").expect("a result");
    assert!(began.elapsed() > seconds(5), "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn input_requests_of_one_round_are_bounded() {
    let handled = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&handled);
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
    script.respond(&first, questions(64)).await;
    let second = script.expect("tools/call").await;
    assert_eq!(second["params"]["inputResponses"].as_object().map(|them| them.len()), Some(64));
    script.respond(&second, questions(65)).await;
    let error = call.await.expect("no panic").expect_err("too many");
    assert!(matches!(error, ClientError::Fault { .. }), "{error}");
    assert!(error.to_string().contains("it sends 65 input requests at once"), "{error}");
    assert_eq!(handled.load(Ordering::Relaxed), 64, "no handler ran for the others");
    script.expect_silence().await;
}

#[tokio::test(start_paused = true)]
async fn invalid_results_are_protocol_faults() {
    let odd = [
        (json!({"resultType": "task"}), "unknown resultType \"task\""),
        (json!({"resultType": 5}), "cannot be parsed"),
        (json!({"resultType": "input_required"}), "neither inputRequests nor requestState"),
        (required(json!({"a": form("Who?")})), "elicitation was not declared"),
        (required(json!({"a": {"method": "roots/list"}})), "roots was not declared"),
        (required(json!({"a": {"method": "ping"}})), "was not declared"),
        (required(json!({"a": 5})), "cannot be parsed"),
    ];
    let (client, mut script) = modern(tester(), TOOLS()).await;
    for (result, expected) in odd {
        let call = tokio::spawn(client.call_tool("odd", ()).into_future());
        let request = script.expect("tools/call").await;
        script.respond(&request, result).await;
        let error = call.await.expect("no panic").expect_err("a fault");
        assert!(matches!(error, ClientError::Fault { .. }), "{error}");
        assert!(error.to_string().contains(expected), "{error}");
    }
    let list = tokio::spawn(client.list_tools().into_future());
    let request = script.expect("tools/list").await;
    script.respond(&request, required(json!({"a": form("Who?")}))).await;
    let error = list.await.expect("no panic").expect_err("a fault").to_string();
    assert!(error.contains("which this method does not allow"), "{error}");
    script.expect_silence().await;
}

#[tokio::test(start_paused = true)]
async fn a_failing_handler_cancels_the_elicitation_or_fails_the_call() {
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
        let request = script.expect("tools/call").await;
        script.respond(&request, required(json!({"a": form(message)}))).await;
        let again = script.expect("tools/call").await;
        assert_eq!(again["params"]["inputResponses"], json!({"a": {"action": "cancel"}}));
        script.respond(&again, done()).await;
        call.await.expect("no panic").expect("a result");
    }
    assert!(log.text().contains("the screen is gone") && log.text().contains("a panic"), "{}", log.text());

    let call = tokio::spawn(client.call_tool("ask", ()).into_future());
    let request = script.expect("tools/call").await;
    let sample = json!({"method": "sampling/createMessage", "params": {"messages": [], "maxTokens": 5}});
    script.respond(&request, required(json!({"a": sample}))).await;
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
    let request = script.expect("tools/call").await;
    script.respond(&request, required(json!({"a": form("Who?")}))).await;
    let again = script.expect("tools/call").await;
    assert_eq!(again["params"]["inputResponses"], json!({"a": {"action": "decline"}}));
    script.respond(&again, done()).await;
    call.await.expect("no panic").expect("a result");
}

#[tokio::test(start_paused = true)]
async fn dropping_a_call_drops_its_handlers() {
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
    let request = script.expect("tools/call").await;
    script.respond(&request, required(json!({"a": form("Who?")}))).await;
    // The call does not time out while the user answers.
    tokio::time::sleep(seconds(3600)).await;
    assert!(!call.is_finished());
    call.abort();
    gone.notified().await;
    // The first round has its response, so there is nothing to cancel.
    script.expect_silence().await;
}

#[tokio::test(start_paused = true)]
async fn a_raw_result_is_returned_without_rounds() {
    let (client, mut script) = modern(tester(), TOOLS()).await;
    let call = tokio::spawn(client.request("tools/call", json!({"name": "a"})).raw_result().into_future());
    let request = script.expect("tools/call").await;
    script.respond(&request, json!({"resultType": "input_required", "requestState": "s"})).await;
    let raw = call.await.expect("no panic").expect("a result");
    assert!(raw.as_str().is_some_and(|text| text.contains("input_required")), "{raw}");
}
