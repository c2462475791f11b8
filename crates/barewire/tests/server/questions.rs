//! Questions of handlers, over several rounds and connections.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use barewire::mcp::ElicitForm;
use barewire::server::{Call, Elicit, Resource, Tool, ToolError};
use barewire::{Failure, Server};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::eventually::eventually;
use super::{LiveCounter, Name, Wire, modern, read};

#[tokio::test]
async fn a_blocking_handler_is_dropped_when_its_round_ends() {
    let alive = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&alive);
    let ask = move |call: Call| {
        let count = Arc::clone(&count);
        async move {
            let _alive = LiveCounter::new(&count);
            let Name { name } = call.ask("name", Elicit::form("Who?")).await?;
            Ok::<_, ToolError>(name)
        }
    };
    let server = Server::new("test", "1").with(Tool::new("ask", "Asks", ask).blocking());
    let mut wire = Wire::to(&server);
    let answer = wire.ask(modern(1, "ask", json!({}))).await;
    assert_eq!(answer["result"]["resultType"], "input_required");
    eventually("the handler is dropped", || alive.load(Ordering::SeqCst) == 0).await;
    let responses = json!({"name": {"action": "accept", "content": {"name": "Ada"}}});
    let answer = wire.ask(modern(2, "ask", json!({"inputResponses": responses}))).await;
    assert_eq!(answer["result"]["content"][0]["text"], "Ada");
}

#[tokio::test]
async fn a_form_with_a_schema_written_by_hand_is_passed_through() {
    const SCHEMA: &str =
        r#"{"type":"object","properties":{"size":{"type":"string","oneOf":[{"const":"s","title":"Small"}]}}}"#;
    let ask = |call: Call| async move {
        let schema = RawValue::from_string(SCHEMA.to_owned())?;
        let answer = call.ask("size", ElicitForm::new("Which?", schema)).await;
        Ok::<_, ToolError>(match answer {
            Ok(values) => serde_json::to_string(&values)?,
            Err(error) => error.to_string(),
        })
    };
    let server = Server::new("test", "1").tool("ask", "Asks", ask);
    let mut wire = Wire::to(&server);
    let answer = wire.ask(modern(1, "ask", json!({}))).await;
    let schema: Value = serde_json::from_str(SCHEMA).expect("JSON");
    let question = json!({"mode": "form", "message": "Which?", "requestedSchema": schema});
    assert_eq!(answer["result"]["inputRequests"]["size"]["params"], question);
    for (response, text) in [
        (json!({"action": "accept", "content": {"size": "s", "more": 1}}), r#"{"more":1,"size":"s"}"#),
        (json!({"action": "accept"}), "{}"),
        (json!({"action": "decline"}), "the user declined to answer"),
    ] {
        let answer = wire.ask(modern(2, "ask", json!({"inputResponses": {"size": response}}))).await;
        assert_eq!(answer["result"]["content"][0]["text"], text, "{response}");
    }
    let answer = wire.ask(modern(3, "ask", json!({"inputResponses": {"size": ["accept"]}}))).await;
    assert_eq!(answer["result"]["resultType"], "input_required", "asked again");
}

#[tokio::test]
async fn a_question_from_another_task_ends_the_round() {
    let ask = |call: Call| async move {
        let question = tokio::spawn(async move {
            let answer = call.ask("name", Elicit::<Name>::form("Who?")).await;
            answer.map(|answer| answer.name)
        });
        question.await.map_err(ToolError::from)?.map_err(ToolError::from)
    };
    let server = Server::new("test", "1").tool("ask", "Asks", ask);
    let mut wire = Wire::to(&server);
    let answer = wire.ask(modern(1, "ask", json!({}))).await;
    assert_eq!(answer["result"]["inputRequests"]["name"]["method"], "elicitation/create");
}

#[tokio::test]
async fn state_is_valid_on_other_connections_but_not_under_another_key() {
    let ask = |call: Call| async move {
        call.keep("seen", &7)?;
        let Name { name } = call.ask("name", Elicit::form("Who?")).await?;
        Ok::<_, ToolError>(format!("{name} {:?}", call.state::<u32>("seen")?))
    };
    let server = |key: Option<[u8; 32]>| {
        let server = Server::new("test", "1").tool("ask", "Asks", ask);
        match key {
            Some(key) => server.state_key(key),
            None => server,
        }
    };
    let first = server(None);
    let answer = Wire::to(&first).ask(modern(1, "ask", json!({}))).await;
    let state = answer["result"]["requestState"].as_str().expect("state").to_owned();
    let responses = json!({"name": {"action": "accept", "content": {"name": "Ada"}}});
    let retry = json!({"inputResponses": responses, "requestState": state});
    let answer = Wire::to(&first).ask(modern(2, "ask", retry.clone())).await;
    assert_eq!(answer["result"]["content"][0]["text"], "Ada Some(7)");
    let answer = Wire::to(&server(None)).ask(modern(3, "ask", retry)).await;
    assert_eq!(answer["error"]["code"], -32602);
    assert!(answer["error"]["message"].as_str().is_some_and(|it| it.contains("start again")), "{answer}");

    let (one, other) = (server(Some([7; 32])), server(Some([7; 32])));
    let answer = Wire::to(&one).ask(modern(1, "ask", json!({}))).await;
    let state = answer["result"]["requestState"].clone();
    let retry = json!({"inputResponses": {"name": {"action": "decline"}}, "requestState": state});
    let answer = Wire::to(&other).ask(modern(2, "ask", retry)).await;
    assert_eq!(answer["result"]["isError"], true);
}

#[tokio::test]
async fn trace_context_is_sent_with_a_question() {
    let ask = |call: Call| async move {
        let Name { name } = call.ask("name", Elicit::form("Who?")).await?;
        Ok::<_, ToolError>(format!("{name} {}", call.trace_context().tracestate.unwrap_or_default()))
    };
    let server = Server::new("test", "1").tool("ask", "Asks", ask);
    let mut wire = Wire::to(&server);
    wire.initialize(json!({"elicitation": {}})).await;
    let parent = "00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01";
    let meta = json!({"traceparent": parent, "tracestate": "a=b", "other": 1});
    let question = wire
        .ask(json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "ask", "_meta": meta}}))
        .await;
    assert_eq!(question["method"], "elicitation/create");
    assert_eq!(question["params"]["_meta"], json!({"traceparent": parent, "tracestate": "a=b"}));
    let result = json!({"action": "accept", "content": {"name": "Ada"}});
    let answer = wire.ask(json!({"jsonrpc": "2.0", "id": question["id"], "result": result})).await;
    assert_eq!(answer["result"]["content"][0]["text"], "Ada a=b");
}

#[derive(Deserialize, JsonSchema)]
struct Age {
    age: u32,
}

#[tokio::test]
async fn asking_again_under_the_same_key_is_a_new_question() {
    let ask = |call: Call| async move {
        loop {
            let Age { age } = call.ask("age", Elicit::form("How old?")).await?;
            if age >= 18 {
                return Ok::<_, ToolError>(age);
            }
        }
    };
    let server = Server::new("test", "1").tool("ask", "Asks", ask);
    let mut wire = Wire::to(&server);
    let responses = json!({"age": {"action": "accept", "content": {"age": 7}}});
    let answer = wire.ask(modern(1, "ask", json!({"inputResponses": responses}))).await;
    assert_eq!(
        answer["result"]["inputRequests"].as_object().map(|it| it.keys().collect::<Vec<_>>()),
        Some(vec![&"age#2".to_owned()])
    );
    let state = answer["result"]["requestState"].clone();
    // An earlier answer stays, whatever the client now sends for it.
    let responses = json!({
        "age": {"action": "accept", "content": {"age": 40}},
        "age#2": {"action": "accept", "content": {"age": 20}},
    });
    let answer = wire.ask(modern(2, "ask", json!({"inputResponses": responses, "requestState": state}))).await;
    assert_eq!(answer["result"]["content"][0]["text"], "20");
}

#[tokio::test]
async fn state_is_bound_to_its_resource() {
    let ask = |call: Call| async move {
        call.keep("seen", &true)?;
        let Name { name } = call.ask("name", Elicit::form("Who?")).await?;
        Ok::<_, Failure>(name)
    };
    let server = Server::new("test", "1").with(Resource::new("a://1", "1", ask)).with(Resource::new("a://2", "2", ask));
    let mut wire = Wire::to(&server);
    let answer = wire.ask(read(1, "a://1", json!({}))).await;
    let state = answer["result"]["requestState"].clone();
    let responses = json!({"name": {"action": "accept", "content": {"name": "Ada"}}});
    let retry = json!({"inputResponses": responses, "requestState": state});
    assert_eq!(wire.ask(read(2, "a://2", retry.clone())).await["error"]["code"], -32602);
    assert_eq!(wire.ask(read(3, "a://1", retry)).await["result"]["contents"][0]["text"], "Ada");
}

#[tokio::test]
async fn a_task_that_asks_after_its_call_ended_gets_an_error() {
    let (report, mut ended) = tokio::sync::mpsc::channel(1);
    let ask = move |call: Call| {
        let report = report.clone();
        async move {
            let question = tokio::spawn(async move {
                let answer = call.ask("name", Elicit::<Name>::form("Who?")).await;
                let _ = report.send(answer.is_err()).await;
            });
            question.await.map_err(ToolError::from)
        }
    };
    let server = Server::new("test", "1").tool("ask", "Asks", ask);
    let mut wire = Wire::to(&server);
    let answer = wire.ask(modern(1, "ask", json!({}))).await;
    assert_eq!(answer["result"]["resultType"], "input_required");
    let report = tokio::time::timeout(Duration::from_secs(10), ended.recv()).await;
    assert_eq!(report.expect("in time"), Some(true));
}

#[tokio::test]
async fn a_malformed_capability_does_not_hide_the_others() {
    let ask = |call: Call| async move { call.client_capabilities().elicitation.is_some() };
    let server = Server::new("test", "1").tool("ask", "Asks", ask);
    let mut wire = Wire::to(&server);
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {"sampling": true, "elicitation": {}},
    });
    let answer = wire.ask(modern(1, "ask", json!({"_meta": meta}))).await;
    assert_eq!(answer["result"]["content"][0]["text"], "true");
}
