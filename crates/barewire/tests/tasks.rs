//! Our client and tasks: with our own server in both eras, over memory, a process and HTTP, and with scripted servers.
#![cfg(feature = "tokio")]

mod eventually;

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use barewire::client::{Builder, StartedTool, ToolTask, accept};
use barewire::mcp::{Revision, Task, TaskStatus};
use barewire::server::{Call, Elicit, TaskPolicy, Tool, ToolError};
use barewire::transport::{Child, Memory, memory};
use barewire::{Client, ClientError, Server, testkit};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::Notify;

use eventually::eventually;

/// The two revisions that have tasks.
const WITH_TASKS: [Revision; 2] = [Revision::V2025_11_25, Revision::V2026_07_28];

#[derive(Deserialize, JsonSchema)]
struct Name {
    name: String,
}

/// A server whose tool `wait` ends when it is released, and the number of its running handlers.
fn server() -> (Server, Arc<Notify>, Arc<AtomicUsize>) {
    let (release, running) = (Arc::new(Notify::new()), Arc::new(AtomicUsize::new(0)));
    let (released, count) = (Arc::clone(&release), Arc::clone(&running));
    let wait = move |call: Call| {
        let (released, count) = (Arc::clone(&released), Arc::clone(&count));
        async move {
            let _running = Running::new(count);
            call.progress(1, 2, "waiting").await?;
            released.notified().await;
            Ok::<_, ToolError>("released")
        }
    };
    let greet = |call: Call| async move {
        let Name { name } = call.ask("name", Elicit::form("Who are you?")).await?;
        let Name { name: friend } = call.ask("name", Elicit::form("And your friend?")).await?;
        Ok::<_, ToolError>(format!("Hello, {name} and {friend}!"))
    };
    let server = Server::new("tasks", "1.0")
        .task_policy(TaskPolicy::default().poll_interval(Duration::from_millis(20)))
        .tool("add", "Is no task", || async { "added" })
        .with(Tool::new("wait", "Waits", wait).task())
        .with(Tool::new("quick", "Is quick", || async { "quick" }).only_as_task())
        .with(Tool::new("fail", "Fails", || async { Err::<(), _>("it failed") }).task())
        .with(Tool::new("greet", "Asks", greet).task());
    (server, release, running)
}

/// Counts running handlers.
struct Running(Arc<AtomicUsize>);

impl Running {
    fn new(count: Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Ordering::SeqCst);
        Self(count)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// A client whose user answers with one name after the other.
fn user() -> Builder {
    let asked = Arc::new(AtomicUsize::new(0));
    Client::builder("tester", "1.0").on_elicit(move |_| {
        let name = ["Ada", "Grace"].get(asked.fetch_add(1, Ordering::SeqCst)).copied().unwrap_or("nobody");
        async move { Ok(accept(json!({"name": name}))?) }
    })
}

fn text(result: &barewire::mcp::CallToolResult) -> &str {
    result.content.first().and_then(|content| content.as_text()).unwrap_or_default()
}

async fn started(client: &Client, tool: &str) -> ToolTask {
    match client.start_tool(tool, ()).await.expect("started") {
        StartedTool::Task(task) => task,
        StartedTool::Result(result) => panic!("{tool} is a task, and not {result:?}"),
    }
}

#[tokio::test]
async fn a_call_waits_for_its_task() {
    for revision in WITH_TASKS {
        let (server, release, running) = server();
        let client = testkit::connect_with(&server, user().revision(revision)).await.expect("connected");
        let states = Arc::new(AtomicUsize::new(0));
        let seen = Arc::clone(&states);
        let count = move |_: &Task| {
            seen.fetch_add(1, Ordering::SeqCst);
        };
        let call = tokio::spawn(client.call_tool("wait", ()).on_task(count).into_future());
        eventually("it runs", || running.load(Ordering::SeqCst) == 1).await;
        release.notify_one();
        assert_eq!(text(&call.await.expect("no panic").expect("a result")), "released", "{revision}");
        // 2025-11-25 gets a task only if the tool requires it.
        assert_eq!(states.load(Ordering::SeqCst) > 0, revision.is_modern(), "{revision}");
        // A tool that runs only as a task, one that fails, and one that is no task.
        assert_eq!(text(&client.call_tool("quick", ()).await.expect("a result")), "quick", "{revision}");
        let failed = client.call_tool("fail", ()).await.expect("a result");
        assert!(failed.is_error && text(&failed) == "it failed", "{revision}");
        assert_eq!(text(&client.call_tool("add", ()).await.expect("a result")), "added", "{revision}");
    }
}

#[tokio::test]
async fn the_questions_of_a_task_are_answered_once() {
    for revision in WITH_TASKS {
        let (server, ..) = server();
        let client = testkit::connect_with(&server, user().revision(revision)).await.expect("connected");
        let task = started(&client, "greet").await;
        let result = task.wait().await.expect("a result");
        assert_eq!(text(&result), "Hello, Ada and Grace!", "{revision}");
    }
}

#[tokio::test]
async fn a_started_task_shows_its_status_and_is_found_by_its_id() {
    for revision in WITH_TASKS {
        let (server, release, _) = server();
        let client = testkit::connect_with(&server, user().revision(revision)).await.expect("connected");
        let task = started(&client, "wait").await;
        let seen: Arc<Mutex<Vec<Task>>> = Arc::default();
        let (waiting, log) = (client.task(task.id()), Arc::clone(&seen));
        let wait = tokio::spawn(async move {
            waiting.wait_with(move |task| log.lock().expect("no panic").push(task.clone())).await
        });
        let is_waiting = |task: &Task| task.status_message.as_deref() == Some("waiting (1/2)");
        eventually("the message is seen", || seen.lock().expect("no panic").iter().any(is_waiting)).await;
        assert_eq!(task.status().await.expect("a state").status, TaskStatus::Working);
        release.notify_one();
        assert_eq!(text(&wait.await.expect("no panic").expect("a result")), "released", "{revision}");
        assert_eq!(task.status().await.expect("a state").status, TaskStatus::Completed);
        // The result is kept.
        assert_eq!(text(&task.wait().await.expect("a result")), "released", "{revision}");
    }
}

#[tokio::test]
async fn cancelling_a_task_ends_the_wait_for_it() {
    for revision in WITH_TASKS {
        let (server, _, running) = server();
        let client = testkit::connect_with(&server, user().revision(revision)).await.expect("connected");
        let task = started(&client, "wait").await;
        let waiting = task.clone();
        let wait = tokio::spawn(async move { waiting.wait().await });
        eventually("it runs", || running.load(Ordering::SeqCst) == 1).await;
        task.cancel().await.expect("cancelled");
        let error = wait.await.expect("no panic").expect_err("there is no result");
        assert!(matches!(&error, ClientError::TaskCancelled { id } if id == task.id()), "{revision}: {error}");
        eventually("it is dropped", || running.load(Ordering::SeqCst) == 0).await;
    }
}

#[tokio::test]
async fn dropping_a_call_cancels_its_task_and_dropping_a_wait_does_not() {
    let (server, release, running) = server();
    let client = testkit::connect(&server).await;
    let call = tokio::spawn(client.call_tool("wait", ()).into_future());
    eventually("it runs", || running.load(Ordering::SeqCst) == 1).await;
    call.abort();
    eventually("it is dropped", || running.load(Ordering::SeqCst) == 0).await;
    let task = started(&client, "wait").await;
    let waiting = task.clone();
    let wait = tokio::spawn(async move { waiting.wait().await });
    eventually("it runs", || running.load(Ordering::SeqCst) == 1).await;
    wait.abort();
    assert!(wait.await.expect_err("aborted").is_cancelled());
    release.notify_one();
    assert_eq!(text(&task.wait().await.expect("a result")), "released");
}

#[tokio::test]
async fn older_revisions_have_no_tasks() {
    let (server, release, _) = server();
    let client = testkit::connect_as(&server, Revision::V2025_06_18).await;
    release.notify_one();
    let result = client.start_tool("wait", ()).await.expect("started");
    assert!(matches!(&result, StartedTool::Result(result) if text(result) == "released"), "{result:?}");
    assert!(client.call_tool("quick", ()).await.is_err());
    assert!(matches!(client.task("any").status().await, Err(ClientError::NotInRevision { .. })));
}

#[tokio::test]
async fn tasks_of_a_server_process() {
    let mut program = std::env::current_exe().expect("this test");
    program.pop();
    program.pop();
    let program: PathBuf = program.join("examples/everything");
    for revision in WITH_TASKS {
        let child = Child::new(&program).arg("--tasks");
        let client = user().revision(revision).spawn(child).await.expect("connected");
        let task = started(&client, "wait").await;
        client.call_tool("finish", ()).await.expect("told");
        assert_eq!(text(&task.wait().await.expect("a result")), "done", "{revision}");
        assert_eq!(text(&client.call_tool("greet", ()).await.expect("a result")), "Hello, Ada!", "{revision}");
        client.shutdown().await.expect("a clean end");
    }
}

#[cfg(feature = "http")]
#[tokio::test]
async fn tasks_over_http() {
    for revision in WITH_TASKS {
        let (server, release, _) = server();
        let listener = server.http().bind("127.0.0.1:0").await.expect("bound");
        let (url, stop) = (listener.url(), listener.stop_handle());
        let running = tokio::spawn(listener.run());
        let client = user().revision(revision).http(url.as_str()).await.expect("connected");
        let task = started(&client, "wait").await;
        release.notify_one();
        assert_eq!(text(&task.wait().await.expect("a result")), "released", "{revision}");
        let greeting = client.call_tool("greet", ()).await.expect("a result");
        assert_eq!(text(&greeting), "Hello, Ada and Grace!", "{revision}");
        if revision.is_modern() {
            // Another client goes on with the id.
            let other = user().revision(revision).http(url.as_str()).await.expect("connected");
            assert_eq!(text(&other.task(task.id()).wait().await.expect("a result")), "released");
            other.shutdown().await.expect("a clean end");
        }
        client.shutdown().await.expect("a clean end");
        stop.stop();
        running.await.expect("no panic");
    }
}

/// A scripted modern server with the extension.
struct Script(Memory);

impl Script {
    async fn connect(extensions: Value) -> (Client, Self) {
        let (here, there) = memory(64 * 1024);
        let mut script = Self(there);
        let connecting = tokio::spawn(user().over(here));
        let discover = script.next().await;
        assert_eq!(discover["method"], "server/discover");
        let capabilities = json!({"tools": {}, "extensions": extensions});
        let result =
            json!({"resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": capabilities});
        script.answer(&discover, result).await;
        (connecting.await.expect("no panic").expect("connected"), script)
    }

    async fn next(&mut self) -> Value {
        let line = self.0.recv_line().await.expect("read").expect("a line");
        serde_json::from_str(&line).expect("JSON")
    }

    async fn expect(&mut self, method: &str) -> Value {
        let request = self.next().await;
        assert_eq!(request["method"], method, "{request}");
        request
    }

    async fn answer(&mut self, request: &Value, result: Value) {
        let answer = json!({"jsonrpc": "2.0", "id": request["id"], "result": result});
        self.0.send_line(&answer.to_string()).await.expect("sent");
    }

    async fn refuse(&mut self, request: &Value, code: i64) {
        let error = json!({"code": code, "message": "no"});
        self.0
            .send_line(&json!({"jsonrpc": "2.0", "id": request["id"], "error": error}).to_string())
            .await
            .expect("sent");
    }
}

fn task(result_type: &str, status: &str, more: Value) -> Value {
    let mut task = json!({
        "resultType": result_type, "taskId": "t-1", "status": status, "createdAt": "2026-07-28T10:00:00Z",
        "lastUpdatedAt": "2026-07-28T10:00:00Z", "ttlMs": null, "pollIntervalMs": 5000,
    });
    task.as_object_mut().expect("an object").extend(more.as_object().cloned().unwrap_or_default());
    task
}

#[tokio::test(start_paused = true)]
async fn without_notifications_the_client_polls_in_the_interval_of_the_server() {
    let (client, mut script) = Script::connect(json!({"io.modelcontextprotocol/tasks": {}})).await;
    let call = tokio::spawn(client.call_tool("slow", ()).into_future());
    let request = script.expect("tools/call").await;
    let declared = &request["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"]["extensions"];
    assert_eq!(*declared, json!({"io.modelcontextprotocol/tasks": {}}));
    script.answer(&request, task("task", "working", json!({}))).await;
    let first = script.expect("tasks/get").await;
    assert_eq!(first["params"]["taskId"], "t-1");
    script.answer(&first, task("complete", "working", json!({}))).await;
    let listen = script.expect("subscriptions/listen").await;
    script.refuse(&listen, -32601).await;
    for _ in 0..3 {
        let before = tokio::time::Instant::now();
        let poll = script.expect("tasks/get").await;
        assert!(before.elapsed() >= Duration::from_millis(4900), "{:?}", before.elapsed());
        script.answer(&poll, task("complete", "working", json!({}))).await;
    }
    let poll = script.expect("tasks/get").await;
    let error = json!({"error": {"code": 7, "message": "it broke"}});
    script.answer(&poll, task("complete", "failed", error)).await;
    let error = call.await.expect("no panic").expect_err("an error");
    assert!(matches!(&error, ClientError::Refused { error, .. } if error.code.get() == 7), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_notification_ends_the_wait_without_a_poll() {
    let (client, mut script) = Script::connect(json!({"io.modelcontextprotocol/tasks": {}})).await;
    let call = tokio::spawn(client.call_tool("slow", ()).into_future());
    let request = script.expect("tools/call").await;
    script.answer(&request, task("task", "working", json!({}))).await;
    let first = script.expect("tasks/get").await;
    script.answer(&first, task("complete", "working", json!({}))).await;
    let listen = script.expect("subscriptions/listen").await;
    assert_eq!(listen["params"]["notifications"], json!({"taskIds": ["t-1"]}));
    let meta = json!({"io.modelcontextprotocol/subscriptionId": listen["id"]});
    let params = json!({"_meta": meta, "notifications": {"taskIds": ["t-1"]}});
    let acknowledged =
        json!({"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged", "params": params});
    script.0.send_line(&acknowledged.to_string()).await.expect("sent");
    let second = script.expect("tasks/get").await;
    script.answer(&second, task("complete", "working", json!({}))).await;
    let mut params = task("", "completed", json!({"result": {"content": [{"type": "text", "text": "told"}]}}));
    params.as_object_mut().expect("an object").remove("resultType");
    params["_meta"] = meta;
    let told = json!({"jsonrpc": "2.0", "method": "notifications/tasks", "params": params});
    script.0.send_line(&told.to_string()).await.expect("sent");
    assert_eq!(text(&call.await.expect("no panic").expect("a result")), "told");
}

#[tokio::test]
async fn a_task_from_a_server_without_the_extension_is_a_fault() {
    let (client, mut script) = Script::connect(json!({})).await;
    let call = tokio::spawn(client.call_tool("slow", ()).into_future());
    let request = script.expect("tools/call").await;
    let declared = &request["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"];
    assert_eq!(declared.get("extensions"), None);
    script.answer(&request, task("task", "working", json!({}))).await;
    let error = call.await.expect("no panic").expect_err("a fault");
    assert!(matches!(error, ClientError::Fault { .. }), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_task_that_never_stops_asking_is_a_fault() {
    let (client, mut script) = Script::connect(json!({"io.modelcontextprotocol/tasks": {}})).await;
    let call = tokio::spawn(client.call_tool("slow", ()).into_future());
    let request = script.expect("tools/call").await;
    script.answer(&request, task("task", "working", json!({}))).await;
    let form = json!({"message": "Who?", "requestedSchema": {"type": "object", "properties": {}}});
    for number in 0.. {
        let request = script.next().await;
        match request["method"].as_str() {
            Some("tasks/get") => {
                let requests = json!({format!("q{number}"): {"method": "elicitation/create", "params": form}});
                script.answer(&request, task("complete", "input_required", json!({"inputRequests": requests}))).await;
            }
            Some("tasks/update") => script.answer(&request, json!({"resultType": "complete"})).await,
            Some("subscriptions/listen") => script.refuse(&request, -32601).await,
            // The client gives the call up.
            Some("tasks/cancel") => break,
            other => panic!("{other:?} is not about a task"),
        }
        if call.is_finished() {
            break;
        }
    }
    let error = call.await.expect("no panic").expect_err("a fault");
    assert!(matches!(error, ClientError::Fault { .. }), "{error}");
}
