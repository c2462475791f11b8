//! Arguments of tools that are repeated in headers, and tools that cannot be called.

use barewire::ClientError;
use serde_json::{Value, json};

use super::script::{Asked, Script, answer};
use super::{Log, soon, tester};

fn tool(name: &str, header: Value) -> Value {
    json!({
        "name": name,
        "inputSchema": {
            "type": "object",
            "properties": {
                "region": {"type": "string", "x-mcp-header": header},
                "count": {"type": "integer", "x-mcp-header": "Count"},
            },
        },
    })
}

fn listed(tools: &[Value], next: Option<&str>) -> Value {
    let mut list = json!({"resultType": "complete", "tools": tools, "ttlMs": 0, "cacheScope": "private"});
    if let Some(next) = next {
        list["nextCursor"] = next.into();
    }
    list
}

fn done() -> Value {
    json!({"resultType": "complete", "content": []})
}

async fn called(script: &mut Script, region: Option<&str>) -> Asked {
    let asked = script.post("tools/call").await;
    assert_eq!(asked.header("mcp-method"), Some("tools/call"));
    assert_eq!(asked.header("mcp-name"), Some("query"));
    assert_eq!(asked.header("mcp-param-region"), region);
    asked
}

#[tokio::test]
async fn a_tool_that_is_not_known_is_looked_up_first() {
    let mut script = Script::new().await;
    let client = script.modern_client(tester()).await;
    let server = async {
        let asked = script.post("tools/list").await;
        let (message, list) = (asked.json(), listed(&[tool("other", json!("Region"))], Some("p2")));
        // The engine's own ids are numbers, and must not be met.
        assert!(message["id"].is_string(), "{message}");
        let meta = &message["params"]["_meta"];
        assert_eq!(meta["io.modelcontextprotocol/protocolVersion"], "2026-07-28");
        assert!(meta.get("progressToken").is_none(), "{message}");
        assert_eq!(asked.header("mcp-method"), Some("tools/list"));
        asked.result(list).await;
        let asked = script.post("tools/list").await;
        let message = asked.json();
        assert_eq!(message["params"]["cursor"], "p2");
        let mut events = asked.events("").await;
        events.say(&answer(&message, listed(&[tool("query", json!("Region"))], None))).await;
        events.end().await;
        let asked = called(&mut script, Some("=?base64?w6k=?=")).await;
        assert_eq!(asked.header("mcp-param-count"), Some("42"));
        assert_eq!(asked.json()["params"]["arguments"], json!({"region": "é", "count": 42}));
        asked.result(done()).await;
        // From now on it is known.
        let asked = called(&mut script, None).await;
        assert_eq!(asked.header("mcp-param-count"), None);
        asked.result(done()).await;
    };
    let calls = async {
        let call = client.call_tool("query", json!({"region": "é", "count": 42}));
        call.on_progress(drop).await.expect("called");
        client.call_tool("query", json!({"region": null})).await.expect("called");
    };
    soon(async { tokio::join!(server, calls) }).await;
}

#[tokio::test]
async fn a_list_that_passes_by_is_learned_from_and_bad_tools_are_taken_out_of_it() {
    let log = Log::default();
    let mut script = Script::new().await;
    let client = script.modern_client(tester()).await;
    let bad = [
        tool("empty", json!("")),
        tool("number", json!(7)),
        tool("space", json!("a b")),
        tool("twice", json!("count")),
    ];
    let server = async {
        let mut tools = bad.to_vec();
        tools.insert(2, tool("query", json!("Region")));
        script.post("tools/list").await.result(listed(&tools, None)).await;
        called(&mut script, Some("eu")).await.result(done()).await;
    };
    let calls = async {
        let tools = client.list_tools().await.expect("listed");
        assert_eq!(tools.iter().map(|tool| &*tool.name).collect::<Vec<_>>(), ["query"]);
        client.call_tool("query", json!({"region": "eu"})).await.expect("called");
    };
    soon(async { tokio::join!(server, calls) }).await;
    let log = log.text();
    for name in ["empty", "number", "space", "twice"] {
        assert!(log.contains(&format!("tool {name} is left out: ")), "{log}");
    }
}

#[tokio::test]
async fn a_tool_that_has_changed_is_looked_up_again_and_called_once_more() {
    let mut script = Script::new().await;
    let client = script.modern_client(tester()).await;
    let server = async {
        script
            .post("tools/list")
            .await
            .result(listed(&[json!({"name": "query", "inputSchema": {"type": "object"}})], None))
            .await;
        called(&mut script, None).await.error("400 Bad Request", -32020, Value::Null).await;
        script.post("tools/list").await.result(listed(&[tool("query", json!("Region"))], None)).await;
        called(&mut script, Some("eu")).await.result(done()).await;
        // Refused although nothing has changed: that is the answer.
        called(&mut script, Some("eu")).await.error("400 Bad Request", -32020, Value::Null).await;
        script.post("tools/list").await.result(listed(&[tool("query", json!("Region"))], None)).await;
    };
    let calls = async {
        client.call_tool("query", json!({"region": "eu"})).await.expect("called");
        let error = client.call_tool("query", json!({"region": "eu"})).await.expect_err("refused");
        assert_eq!(error.code().map(|code| code.get()), Some(-32020));
    };
    soon(async { tokio::join!(server, calls) }).await;
    script.silence().await;
}

#[tokio::test]
async fn a_tool_that_is_not_listed_is_called_all_the_same_and_not_looked_for_twice() {
    let log = Log::default();
    let mut script = Script::new().await;
    let client = script.modern_client(tester()).await;
    let server = async {
        script.post("tools/list").await.error("400 Bad Request", -32603, Value::Null).await;
        for _ in 0..2 {
            called(&mut script, None).await.result(done()).await;
        }
    };
    let calls = async {
        for _ in 0..2 {
            client.call_tool("query", json!({"region": "eu"})).await.expect("called");
        }
    };
    soon(async { tokio::join!(server, calls) }).await;
    assert!(log.text().contains("which headers tool query wants is not known"), "{}", log.text());
}

#[tokio::test]
async fn an_argument_that_no_header_can_repeat_is_not_sent() {
    let mut script = Script::new().await;
    let client = script.modern_client(tester()).await;
    let server = async {
        script.post("tools/list").await.result(listed(&[tool("query", json!("Region"))], None)).await;
    };
    let call = client.call_tool("query", json!({"region": ["eu"]})).into_future();
    let (error, ()) = soon(async { tokio::join!(call, server) }).await;
    assert!(matches!(&error, Err(ClientError::Params(what)) if what.contains("region")), "{error:?}");
    script.silence().await;
}
