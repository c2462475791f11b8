//! Tool arguments that are repeated in headers, and invalid tools.

use barewire::ClientError;
use serde_json::{Value, json};

use super::script::{HttpRequest, ScriptedServer, answer};
use super::{Log, in_time, tester};

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

async fn called(script: &mut ScriptedServer, region: Option<&str>) -> HttpRequest {
    let request = script.post("tools/call").await;
    assert_eq!(request.header("mcp-method"), Some("tools/call"));
    assert_eq!(request.header("mcp-name"), Some("query"));
    assert_eq!(request.header("mcp-param-region"), region);
    request
}

#[tokio::test]
async fn an_unknown_tool_is_looked_up_first() {
    let mut script = ScriptedServer::new().await;
    let client = script.modern_client(tester()).await;
    let server = async {
        let request = script.post("tools/list").await;
        let (message, list) = (request.json(), listed(&[tool("other", json!("Region"))], Some("p2")));
        // A string id, which cannot equal the engine's ids: those are numbers.
        assert!(message["id"].is_string(), "{message}");
        let meta = &message["params"]["_meta"];
        assert_eq!(meta["io.modelcontextprotocol/protocolVersion"], "2026-07-28");
        assert!(meta.get("progressToken").is_none(), "{message}");
        assert_eq!(request.header("mcp-method"), Some("tools/list"));
        request.result(list).await;
        let request = script.post("tools/list").await;
        let message = request.json();
        assert_eq!(message["params"]["cursor"], "p2");
        let mut events = request.events("").await;
        events.send(&answer(&message, listed(&[tool("query", json!("Region"))], None))).await;
        events.end().await;
        let request = called(&mut script, Some("=?base64?w6k=?=")).await;
        assert_eq!(request.header("mcp-param-count"), Some("42"));
        assert_eq!(request.json()["params"]["arguments"], json!({"region": "é", "count": 42}));
        request.result(done()).await;
        // The tool is known from now on.
        let request = called(&mut script, None).await;
        assert_eq!(request.header("mcp-param-count"), None);
        request.result(done()).await;
    };
    let calls = async {
        let call = client.call_tool("query", json!({"region": "é", "count": 42}));
        call.on_progress(drop).await.expect("called");
        client.call_tool("query", json!({"region": null})).await.expect("called");
    };
    in_time(async { tokio::join!(server, calls) }).await;
}

#[tokio::test]
async fn a_listed_tool_is_remembered_and_invalid_tools_are_removed() {
    let log = Log::default();
    let mut script = ScriptedServer::new().await;
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
    in_time(async { tokio::join!(server, calls) }).await;
    let log = log.text();
    for name in ["empty", "number", "space", "twice"] {
        assert!(log.contains(&format!("left out tool {name}: ")), "{log}");
    }
}

#[tokio::test]
async fn a_changed_tool_is_looked_up_and_called_again() {
    let mut script = ScriptedServer::new().await;
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
        // Refused although nothing has changed: the refusal is final.
        called(&mut script, Some("eu")).await.error("400 Bad Request", -32020, Value::Null).await;
        script.post("tools/list").await.result(listed(&[tool("query", json!("Region"))], None)).await;
    };
    let calls = async {
        client.call_tool("query", json!({"region": "eu"})).await.expect("called");
        let error = client.call_tool("query", json!({"region": "eu"})).await.expect_err("refused");
        assert_eq!(error.code().map(|code| code.get()), Some(-32020));
    };
    in_time(async { tokio::join!(server, calls) }).await;
    script.silence().await;
}

#[tokio::test]
async fn an_unlisted_tool_is_called_anyway_and_looked_up_once() {
    let log = Log::default();
    let mut script = ScriptedServer::new().await;
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
    in_time(async { tokio::join!(server, calls) }).await;
    assert!(log.text().contains("could not look up the headers of tool query"), "{}", log.text());
}

#[tokio::test]
async fn an_argument_that_cannot_be_a_header_is_an_error() {
    let mut script = ScriptedServer::new().await;
    let client = script.modern_client(tester()).await;
    let server = async {
        script.post("tools/list").await.result(listed(&[tool("query", json!("Region"))], None)).await;
    };
    let call = client.call_tool("query", json!({"region": ["eu"]})).into_future();
    let (error, ()) = in_time(async { tokio::join!(call, server) }).await;
    assert!(matches!(&error, Err(ClientError::Params(what)) if what.contains("region")), "{error:?}");
    script.silence().await;
}
