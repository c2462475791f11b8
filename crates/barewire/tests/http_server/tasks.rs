//! Tasks over HTTP: who may use them, their headers, and the stream of their questions.

use barewire::Server;
use barewire::server::http::{BearerTokens, Principal};
use barewire::server::{AskError, Call, Elicit, Tool};
use serde_json::{Value, json};

use crate::wire::{Events, Wire, modern};
use crate::{Name, TestSite};

const ADA: &str = "Authorization: Bearer ada-token";
const BOB: &str = "Authorization: Bearer bob-token";

fn task_server() -> Server {
    let ask = |call: Call| async move {
        let Name { name } = call.ask("who", Elicit::form("Who are you?")).await?;
        Ok::<_, AskError>(format!("Hello, {name}!"))
    };
    Server::new("test", "1")
        .with(Tool::new("wait", "Waits", std::future::pending::<()>).task())
        .with(Tool::new("ask", "Asks", ask).task())
}

fn tokens() -> BearerTokens {
    BearerTokens::new().token("ada-token", Principal::new("ada")).token("bob-token", Principal::new("bob"))
}

/// A modern request whose client has declared the extension, and its headers.
fn with_extension(id: u64, method: &str, mut params: Value, more: &[&str]) -> (Vec<String>, Value) {
    let capabilities = json!({"extensions": {"io.modelcontextprotocol/tasks": {}}});
    params["_meta"] = json!({"io.modelcontextprotocol/clientCapabilities": capabilities});
    let task = params.get("taskId").and_then(Value::as_str).map(|task| format!("Mcp-Name: {task}"));
    let (mut headers, message) = modern(id, method, params);
    headers.extend(task);
    headers.extend(more.iter().map(|header| (*header).to_owned()));
    (headers, message)
}

async fn ask(wire: &mut Wire, (headers, message): (Vec<String>, Value)) -> (u16, Value) {
    let headers: Vec<&str> = headers.iter().map(String::as_str).collect();
    let answer = wire.ask(&headers, &message).await;
    (answer.status(), answer.json())
}

#[tokio::test]
async fn a_task_of_another_principal_is_as_unknown_as_any_other() {
    let site = TestSite::of(task_server().http().authenticate(tokens())).await;
    let mut wire = site.connect().await;
    let (_, created) = ask(&mut wire, with_extension(1, "tools/call", json!({"name": "wait"}), &[ADA])).await;
    let task = created["result"]["taskId"].as_str().expect("a task").to_owned();
    for (method, more) in
        [("tasks/get", json!({})), ("tasks/update", json!({"inputResponses": {}})), ("tasks/cancel", json!({}))]
    {
        let request = |task: &str, token| {
            let mut params = more.clone();
            params["taskId"] = task.into();
            with_extension(2, method, params, &[token])
        };
        let foreign = ask(&mut wire, request(&task, BOB)).await;
        let unknown = ask(&mut wire, request("unknown", BOB)).await;
        assert_eq!(foreign, unknown, "{method}");
        assert_eq!(foreign.1["error"]["code"], -32602, "{method}");
    }
    let listen = json!({"notifications": {"taskIds": [task]}});
    let (headers, message) = with_extension(3, "subscriptions/listen", listen, &[BOB]);
    let headers: Vec<&str> = headers.iter().map(String::as_str).collect();
    let mut other = site.connect().await;
    other.post(&headers, &message).await;
    let acknowledged = Events::of(other).await.message().await;
    assert_eq!(acknowledged["params"]["notifications"], json!({}), "nothing is honoured");
    // The task is still there, over another connection of its owner.
    let mut own = site.connect().await;
    let (_, state) = ask(&mut own, with_extension(4, "tasks/get", json!({"taskId": task}), &[ADA])).await;
    assert_eq!(state["result"]["status"], "working");
}

#[tokio::test]
async fn a_legacy_task_belongs_to_its_session_or_to_its_principal() {
    let site = TestSite::of(task_server().http()).await;
    let (mut one, mut two) = (site.connect().await, site.connect().await);
    let (first, second) =
        (one.initialize("2025-11-25", json!({})).await, two.initialize("2025-11-25", json!({})).await);
    let start = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "wait", "task": {}}});
    let created = one.ask(&[&first], &start).await.json();
    let task = created["result"]["task"]["taskId"].as_str().expect("a task").to_owned();
    let get = json!({"jsonrpc": "2.0", "id": 2, "method": "tasks/get", "params": {"taskId": task}});
    let list = json!({"jsonrpc": "2.0", "id": 3, "method": "tasks/list"});
    assert_eq!(one.ask(&[&first], &get).await.json()["result"]["status"], "working");
    assert_eq!(two.ask(&[&second], &get).await.json()["error"]["code"], -32602);
    assert_eq!(two.ask(&[&second], &list).await.json()["result"]["tasks"], json!([]));
    // A modern client cannot use the task either, though it knows the id.
    let modern = ask(&mut one, with_extension(4, "tasks/get", json!({"taskId": task}), &[])).await;
    assert_eq!(modern.1["error"]["code"], -32602);
}

/// The answer to a request that lacks the scope of a tool.
async fn assert_lacks_scope(wire: &mut Wire, headers: &[&str], message: &Value) {
    let answer = wire.ask(headers, message).await;
    assert_eq!(answer.status(), 403, "{message}: {answer:?}");
    let challenge = answer.head.get("www-authenticate").expect("a challenge");
    assert!(challenge.contains(r#"error="insufficient_scope""#), "{challenge}");
    assert!(challenge.contains(r#"scope="jobs""#), "{challenge}");
    assert_eq!(answer.json()["id"], message["id"], "the error answers the request");
}

/// Ada has a token with the scope of the tools and one without it.
fn scoped_site() -> impl Future<Output = TestSite> {
    let server = Server::new("test", "1")
        .with(Tool::new("wait", "Waits", std::future::pending::<()>).task().scope("jobs"))
        .with(Tool::new("free", "Waits", std::future::pending::<()>).task());
    let tokens = BearerTokens::new()
        .token("ada-token", Principal::new("ada").scopes(["jobs"]))
        .token("weak-token", Principal::new("ada"))
        .token("bob-token", Principal::new("bob"));
    TestSite::of(server.http().authenticate(tokens))
}

const WEAK: &str = "Authorization: Bearer weak-token";

#[tokio::test]
async fn every_modern_request_about_a_task_needs_the_scopes_of_its_tool() {
    let site = scoped_site().await;
    let mut wire = site.connect().await;
    let mut start = async |tool| {
        let (status, created) = ask(&mut wire, with_extension(1, "tools/call", json!({"name": tool}), &[ADA])).await;
        assert_eq!(status, 200, "{created}");
        created["result"]["taskId"].as_str().expect("a task").to_owned()
    };
    let (scoped, free) = (start("wait").await, start("free").await);
    let listen = |tasks: &[&String]| json!({"notifications": {"taskIds": tasks}});
    for (method, params) in [
        ("tasks/get", json!({"taskId": scoped})),
        ("tasks/update", json!({"taskId": scoped, "inputResponses": {}})),
        ("tasks/cancel", json!({"taskId": scoped})),
        ("subscriptions/listen", listen(&[&scoped])),
        ("subscriptions/listen", listen(&[&free, &scoped])),
    ] {
        let (headers, message) = with_extension(2, method, params.clone(), &[WEAK]);
        let headers: Vec<&str> = headers.iter().map(String::as_str).collect();
        assert_lacks_scope(&mut wire, &headers, &message).await;
        // Another principal does not learn that there is such a task.
        if params.get("taskId").is_some() {
            let (status, answer) = ask(&mut wire, with_extension(3, method, params, &[BOB])).await;
            assert_eq!((status, &answer["error"]["code"]), (200, &json!(-32602)), "{method}");
        }
    }
    let get = |task: &str, token| with_extension(4, "tasks/get", json!({"taskId": task}), &[token]);
    assert_eq!(ask(&mut wire, get(&free, WEAK)).await.1["result"]["status"], "working");
    assert_eq!(ask(&mut wire, get("unknown", WEAK)).await.1["error"]["code"], -32602);
    // The refused cancel has changed nothing.
    assert_eq!(ask(&mut wire, get(&scoped, ADA)).await.1["result"]["status"], "working");
    let (headers, message) = with_extension(5, "subscriptions/listen", listen(&[&free]), &[WEAK]);
    wire.post(&headers.iter().map(String::as_str).collect::<Vec<_>>(), &message).await;
    let acknowledged = Events::of(wire).await.message().await;
    assert_eq!(acknowledged["params"]["notifications"]["taskIds"], json!([free]));
}

#[tokio::test]
async fn every_legacy_request_about_a_task_needs_the_scopes_of_its_tool() {
    let site = scoped_site().await;
    let mut wire = site.connect().await;
    let session = wire.initialize_with("2025-11-25", json!({}), &[ADA]).await;
    let start = |id: u64, tool: &str| json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": tool, "task": {}}});
    let scoped = wire.ask(&[&session, ADA], &start(1, "wait")).await.json()["result"]["task"]["taskId"].clone();
    let free = wire.ask(&[&session, WEAK], &start(2, "free")).await.json()["result"]["task"]["taskId"].clone();
    assert!(scoped.is_string() && free.is_string(), "{scoped} {free}");
    let about =
        |method: &str, task: &Value| json!({"jsonrpc": "2.0", "id": 3, "method": method, "params": {"taskId": task}});
    for method in ["tasks/get", "tasks/result", "tasks/cancel"] {
        assert_lacks_scope(&mut wire, &[&session, WEAK], &about(method, &scoped)).await;
    }
    let text = scoped.as_str().expect("checked above");
    let escaped = format!("\\u{:04x}{}", u32::from(text.as_bytes()[0]), &text[1..]);
    let hidden = format!(r#"{{"jsonrpc":"2.0","id":3,"method":"tasks\/get","params":{{"taskId":"{escaped}"}}}}"#);
    let common = ["Host: localhost", "Content-Type: application/json", crate::wire::ACCEPT, &session, WEAK];
    wire.request("POST /mcp", &common, &hidden).await;
    assert_eq!(wire.answer().await.status(), 403, "{hidden}");
    let list = json!({"jsonrpc": "2.0", "id": 4, "method": "tasks/list"});
    for (token, listed) in [(ADA, vec![&scoped, &free]), (WEAK, vec![&free])] {
        let tasks = wire.ask(&[&session, token], &list).await.json()["result"]["tasks"].clone();
        let ids: Vec<&Value> = tasks.as_array().expect("a list").iter().map(|task| &task["taskId"]).collect();
        assert_eq!(ids, listed, "{token}");
    }
    let cancelled = wire.ask(&[&session, WEAK], &about("tasks/cancel", &free)).await.json();
    assert_eq!(cancelled["result"]["status"], "cancelled");
    let state = wire.ask(&[&session, ADA], &about("tasks/get", &scoped)).await.json();
    assert_eq!(state["result"]["status"], "working", "the refused cancel has changed nothing");
}

#[tokio::test]
async fn mcp_name_must_repeat_the_task() {
    let site = TestSite::of(task_server().http()).await;
    let mut wire = site.connect().await;
    let (_, created) = ask(&mut wire, with_extension(1, "tools/call", json!({"name": "wait"}), &[])).await;
    let task = created["result"]["taskId"].as_str().expect("a task").to_owned();
    for method in ["tasks/get", "tasks/update", "tasks/cancel"] {
        let (headers, message) = with_extension(2, method, json!({"taskId": task, "inputResponses": {}}), &[]);
        for name in [None, Some("Mcp-Name: other".to_owned())] {
            let mut headers: Vec<String> = headers.iter().filter(|it| !it.starts_with("Mcp-Name")).cloned().collect();
            headers.extend(name);
            let (status, answer) = ask(&mut wire, (headers, message.clone())).await;
            assert_eq!((status, &answer["error"]["code"]), (400, &json!(-32020)), "{method}");
        }
        assert_eq!(ask(&mut wire, (headers, message)).await.0, 200, "{method}");
    }
}

#[tokio::test]
async fn a_question_arrives_on_the_stream_of_the_result() {
    let site = TestSite::of(task_server().http()).await;
    let mut wire = site.connect().await;
    let session = wire.initialize("2025-11-25", json!({"elicitation": {}})).await;
    let start = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "ask", "task": {}}});
    let created = wire.ask(&[&session], &start).await.json();
    let task = created["result"]["task"]["taskId"].clone();
    let mut other = site.connect().await;
    wire.post(&[&session], &json!({"jsonrpc": "2.0", "id": 2, "method": "tasks/result", "params": {"taskId": task}}))
        .await;
    let mut events = Events::of(wire).await;
    let question = events.message().await;
    assert_eq!(question["method"], "elicitation/create", "{question}");
    assert_eq!(question["params"]["_meta"]["io.modelcontextprotocol/related-task"]["taskId"], task);
    let answer = json!({"action": "accept", "content": {"name": "Ada"}});
    other.ask(&[&session], &json!({"jsonrpc": "2.0", "id": question["id"], "result": answer})).await;
    let rest = events.rest().await;
    let result = rest.last().expect("a result");
    assert_eq!((&result["id"], &result["result"]["content"][0]["text"]), (&json!(2), &json!("Hello, Ada!")));
}
