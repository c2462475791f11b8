//! Tasks that a transcript cannot show: dropped handlers, expiry, limits, layers.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use barewire::Server;
use barewire::server::{Call, Elicit, TaskPolicy, Tool, ToolError};
use serde_json::{Value, json};
use tokio::sync::Notify;

use super::eventually::eventually;
use super::{LiveCounter, Name, Wire};

/// A modern request whose client has declared the extension.
fn task_request(id: u32, method: &str, more: Value) -> Value {
    let capabilities = json!({"elicitation": {}, "extensions": {"io.modelcontextprotocol/tasks": {}}});
    let mut params = json!({"_meta": {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": capabilities,
    }});
    params.as_object_mut().expect("an object").extend(more.as_object().cloned().unwrap_or_default());
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
}

fn legacy_request(id: u32, method: &str, params: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
}

impl Wire {
    /// Calls a tool, and returns the id of the task.
    async fn start_task(&mut self, id: u32, tool: &str) -> String {
        let answer = self.ask(task_request(id, "tools/call", json!({"name": tool}))).await;
        assert_eq!(answer["result"]["resultType"], "task", "{answer}");
        answer["result"]["taskId"].as_str().expect("an id").to_owned()
    }

    async fn get_task(&mut self, task: &str) -> Value {
        self.ask(task_request(900, "tasks/get", json!({"taskId": task}))).await
    }

    /// Polls the task until `holds` returns true for its state.
    async fn poll_until(&mut self, task: &str, holds: impl Fn(&Value) -> bool) -> Value {
        loop {
            let answer = self.get_task(task).await;
            if holds(&answer["result"]) {
                return answer["result"].clone();
            }
            assert!(answer["result"]["status"].is_string(), "{answer}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

/// A tool that never ends, and the number of its running handlers.
fn endless() -> (Tool, Arc<AtomicUsize>) {
    let alive = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&alive);
    let wait = move || {
        let alive = LiveCounter::new(&count);
        async move {
            let _alive = alive;
            std::future::pending::<()>().await;
        }
    };
    (Tool::new("wait", "Waits", wait), alive)
}

#[tokio::test]
async fn cancelling_a_task_drops_its_handler() {
    let (wait, alive) = endless();
    for tool in [wait.clone().task(), wait.blocking().task()] {
        let mut wire = Wire::to(&Server::new("test", "1").with(tool));
        let task = wire.start_task(1, "wait").await;
        eventually("it runs", || alive.load(Ordering::SeqCst) == 1).await;
        wire.ask(task_request(2, "tasks/cancel", json!({"taskId": task}))).await;
        eventually("it is dropped", || alive.load(Ordering::SeqCst) == 0).await;
        assert_eq!(wire.get_task(&task).await["result"]["status"], "cancelled");
    }
}

#[tokio::test]
async fn work_outside_a_cancelled_handler_sees_the_cancellation() {
    let told = Arc::new(Notify::new());
    let notify = Arc::clone(&told);
    let delegate = move |call: Call| {
        let (cancellation, notify) = (call.cancellation(), Arc::clone(&notify));
        tokio::spawn(async move {
            cancellation.cancelled().await;
            notify.notify_one();
        });
        std::future::pending::<()>()
    };
    let mut wire = Wire::to(&Server::new("test", "1").with(Tool::new("delegate", "Delegates", delegate).task()));
    let task = wire.start_task(1, "delegate").await;
    // The handler must have started: only then is there work outside it.
    wire.ask(task_request(2, "tasks/get", json!({"taskId": task}))).await;
    wire.ask(task_request(3, "tasks/cancel", json!({"taskId": task}))).await;
    tokio::time::timeout(Duration::from_secs(20), told.notified()).await.expect("it is told");
}

#[tokio::test]
async fn a_task_is_discarded_with_its_handler_when_it_expires() {
    let (wait, alive) = endless();
    let policy = TaskPolicy::default().ttl(Duration::from_millis(300));
    let server = Server::new("test", "1").task_policy(policy);
    let server = server.with(wait.task()).with(Tool::new("quick", "Is quick", || async { "quick" }).task());
    let mut wire = Wire::to(&server);
    let (running, finished) = (wire.start_task(1, "wait").await, wire.start_task(2, "quick").await);
    eventually("the handler is dropped", || alive.load(Ordering::SeqCst) == 0).await;
    for task in [running, finished] {
        loop {
            let answer = wire.get_task(&task).await;
            if answer["error"]["code"] == -32602 {
                break;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

#[tokio::test]
async fn tasks_beyond_the_limit_run_without_a_task_or_are_refused() {
    let (wait, _) = endless();
    let server = Server::new("test", "1")
        .task_policy(TaskPolicy::default().max_tasks(1))
        .with(wait.task())
        .with(Tool::new("quick", "Is quick", || async { "quick" }).task())
        .with(Tool::new("must", "Must be a task", || async { "quick" }).only_as_task());
    let mut wire = Wire::to(&server);
    let task = wire.start_task(1, "wait").await;
    let direct = wire.ask(task_request(2, "tools/call", json!({"name": "quick"}))).await;
    assert_eq!(direct["result"]["content"][0]["text"], "quick", "{direct}");
    let refused = wire.ask(task_request(3, "tools/call", json!({"name": "must"}))).await;
    assert_eq!(refused["error"]["code"], -32603, "{refused}");
    let mut legacy = Wire::to(&server);
    legacy.initialize(json!({})).await;
    let refused = legacy.ask(legacy_request(1, "tools/call", json!({"name": "quick", "task": {}}))).await;
    assert_eq!(refused["error"]["code"], -32603, "{refused}");
    // The task itself is not affected.
    assert_eq!(wire.get_task(&task).await["result"]["status"], "working");
}

#[tokio::test]
async fn a_result_that_does_not_fit_fails_its_task() {
    let server = Server::new("test", "1")
        .task_policy(TaskPolicy::default().max_bytes(2000))
        .with(Tool::new("large", "Is large", || async { "x".repeat(2000) }).task());
    let mut wire = Wire::to(&server);
    let task = wire.start_task(1, "large").await;
    let state = wire.poll_until(&task, |state| state["status"] == "failed").await;
    assert_eq!(state["error"]["code"], -32603);
    assert!(state.get("result").is_none());
}

#[tokio::test]
async fn the_tasks_of_a_legacy_connection_end_with_it() {
    let (wait, alive) = endless();
    let server = Server::new("test", "1").with(wait.task());
    let mut wire = Wire::to(&server);
    wire.initialize(json!({})).await;
    let answer = wire.ask(legacy_request(1, "tools/call", json!({"name": "wait", "task": {}}))).await;
    assert!(answer["result"]["task"]["taskId"].is_string(), "{answer}");
    eventually("it runs", || alive.load(Ordering::SeqCst) == 1).await;
    drop(wire);
    eventually("no client can ask for it any more", || alive.load(Ordering::SeqCst) == 0).await;
}

#[tokio::test]
async fn a_modern_task_survives_its_connection() {
    let release = Arc::new(Notify::new());
    let released = Arc::clone(&release);
    let wait = move || {
        let released = Arc::clone(&released);
        async move {
            released.notified().await;
            "released"
        }
    };
    let server = Server::new("test", "1").with(Tool::new("wait", "Waits", wait).task());
    let mut first = Wire::to(&server);
    let task = first.start_task(1, "wait").await;
    drop(first);
    release.notify_one();
    let mut second = Wire::to(&server);
    let state = second.poll_until(&task, |state| state["status"] == "completed").await;
    assert_eq!(state["result"]["content"][0]["text"], "released");
}

#[tokio::test]
async fn layers_run_around_a_task_and_a_panic_fails_it() {
    let entered = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&entered);
    let server = Server::new("test", "1")
        .layer(move |invocation, next| {
            count.fetch_add(1, Ordering::SeqCst);
            next.run(invocation)
        })
        .with(
            Tool::new("panic", "Panics", || async {
                if true {
                    panic!("on purpose");
                }
            })
            .task(),
        );
    let mut wire = Wire::to(&server);
    let task = wire.start_task(1, "panic").await;
    let state = wire.poll_until(&task, |state| state["status"] == "failed").await;
    assert_eq!(state["error"]["code"], -32603);
    assert!(!state.to_string().contains("on purpose"), "the text of a panic is only logged");
    assert_eq!(entered.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn progress_describes_the_status() {
    let climb = |call: Call| async move {
        assert!(call.wants_progress());
        call.progress(3, 12, "reading").await?;
        std::future::pending::<()>().await;
        Ok::<_, ToolError>(())
    };
    let mut wire = Wire::to(&Server::new("test", "1").with(Tool::new("climb", "Climbs", climb).task()));
    let task = wire.start_task(1, "climb").await;
    let state = wire.poll_until(&task, |state| state["statusMessage"] == "reading (3/12)").await;
    assert_eq!(state["status"], "working");
}

#[tokio::test]
async fn subscriptions_and_status_messages_are_limited() {
    let talk = |call: Call| async move {
        call.progress(1, None, "x".repeat(5000)).await?;
        std::future::pending::<()>().await;
        Ok::<_, ToolError>(())
    };
    let mut wire = Wire::to(&Server::new("test", "1").with(Tool::new("talk", "Talks", talk).task()));
    let task = wire.start_task(1, "talk").await;
    let state = wire.poll_until(&task, |state| state["statusMessage"].is_string()).await;
    assert_eq!(state["statusMessage"].as_str().map(str::len), Some(1000));
    let ids = |count: usize| json!({"notifications": {"taskIds": vec![&task; count]}});
    let refused = wire.ask(task_request(2, "subscriptions/listen", ids(1001))).await;
    assert_eq!(refused["error"]["code"], -32602);
    let acknowledged = wire.ask(task_request(3, "subscriptions/listen", ids(1000))).await;
    assert_eq!(acknowledged["method"], "notifications/subscriptions/acknowledged");
}

#[tokio::test]
async fn a_blocking_handler_asks_in_the_middle_of_a_task() {
    let ask = |call: Call| async move {
        let Name { name } = call.ask("name", Elicit::form("Who?")).await?;
        Ok::<_, ToolError>(name)
    };
    let mut wire = Wire::to(&Server::new("test", "1").with(Tool::new("ask", "Asks", ask).blocking().task()));
    let task = wire.start_task(1, "ask").await;
    wire.poll_until(&task, |state| state["status"] == "input_required").await;
    let answer = json!({"name": {"action": "accept", "content": {"name": "Ada"}}});
    wire.ask(task_request(2, "tasks/update", json!({"taskId": task, "inputResponses": answer}))).await;
    let state = wire.poll_until(&task, |state| state["status"] == "completed").await;
    assert_eq!(state["result"]["content"][0]["text"], "Ada");
}

#[tokio::test]
async fn of_two_requests_for_a_result_one_asks_the_question() {
    let ask = |call: Call| async move {
        let Name { name } = call.ask("name", Elicit::form("Who?")).await?;
        Ok::<_, ToolError>(name)
    };
    let mut wire = Wire::to(&Server::new("test", "1").with(Tool::new("ask", "Asks", ask).task()));
    wire.initialize(json!({"elicitation": {}})).await;
    let answer = wire.ask(legacy_request(1, "tools/call", json!({"name": "ask", "task": {}}))).await;
    let task = answer["result"]["task"]["taskId"].clone();
    for id in [2, 3] {
        wire.send(legacy_request(id, "tasks/result", json!({"taskId": task}))).await;
    }
    let (mut questions, mut results) = (0, 0);
    while results < 2 {
        let message = wire.next().await;
        if message["method"] == "elicitation/create" {
            questions += 1;
            assert_eq!(message["params"]["_meta"]["io.modelcontextprotocol/related-task"]["taskId"], task);
            let answer = json!({"action": "accept", "content": {"name": "Ada"}});
            wire.send(json!({"jsonrpc": "2.0", "id": message["id"], "result": answer})).await;
        } else if message.get("method").is_none() {
            assert_eq!(message["result"]["content"][0]["text"], "Ada", "{message}");
            results += 1;
        }
    }
    assert_eq!(questions, 1);
}

#[tokio::test]
async fn a_question_whose_connection_ends_is_asked_by_the_next_request_for_the_result() {
    let ask = |call: Call| async move {
        let Name { name } = call.ask("name", Elicit::form("Who?")).await?;
        Ok::<_, ToolError>(name)
    };
    let mut wire = Wire::to(&Server::new("test", "1").with(Tool::new("ask", "Asks", ask).task()));
    wire.initialize(json!({"elicitation": {}})).await;
    let answer = wire.ask(legacy_request(1, "tools/call", json!({"name": "ask", "task": {}}))).await;
    let task = answer["result"]["task"]["taskId"].clone();
    for id in [2, 3] {
        wire.send(legacy_request(id, "tasks/result", json!({"taskId": task}))).await;
        let question = loop {
            let message = wire.next().await;
            if message["method"] == "elicitation/create" {
                break message;
            }
        };
        if id == 2 {
            // The client gives this request up, and with it the question.
            wire.send(json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 2}})).await;
        } else {
            let answer = json!({"action": "decline"});
            wire.send(json!({"jsonrpc": "2.0", "id": question["id"], "result": answer})).await;
        }
    }
    let result = loop {
        let message = wire.next().await;
        if message["id"] == 3 {
            break message;
        }
    };
    assert_eq!(result["result"]["isError"], true, "{result}");
}
