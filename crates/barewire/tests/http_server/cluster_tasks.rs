//! Tasks in a cluster: any node answers about any task, and what happens to a task when its node dies or the store is
//! away.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use barewire::Server;
use barewire::server::http::cluster::{ClusterStore, MemoryCluster};
use barewire::server::{AskError, Call, Elicit, TaskPolicy, Tool};
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::eventually::{DEADLINE, eventually};
use crate::wire::{Events, Wire, modern};
use crate::{Name, TestSite};

/// The handlers of all nodes.
#[derive(Clone, Default)]
struct Handlers {
    /// How many have begun.
    begun: Arc<AtomicUsize>,
    /// How many have not ended.
    running: Arc<AtomicUsize>,
    /// Lets the first handler of `hold` go on.
    gate: Arc<Notify>,
}

struct Running(Arc<AtomicUsize>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Handlers {
    fn begin(&self) -> (usize, Running) {
        self.running.fetch_add(1, Ordering::SeqCst);
        (self.begun.fetch_add(1, Ordering::SeqCst), Running(Arc::clone(&self.running)))
    }

    async fn until_running(&self, count: usize) {
        let what = format!("{count} handlers are running");
        eventually(&what, || self.running.load(Ordering::SeqCst) == count).await;
    }

    /// `hold` waits for the gate in its first run, and is done at once in a later one.
    fn hold(&self) -> Tool {
        let handlers = self.clone();
        Tool::new("hold", "Waits", move || {
            let handlers = handlers.clone();
            async move {
                let (number, _running) = handlers.begin();
                if number == 0 {
                    handlers.gate.notified().await;
                }
                format!("run {number}")
            }
        })
        .task()
    }

    /// `ask` asks for a name, and waits for the gate then if it is its first run.
    fn ask(&self) -> Tool {
        let handlers = self.clone();
        Tool::new("ask", "Asks", move |call: Call| {
            let handlers = handlers.clone();
            async move {
                let (number, _running) = handlers.begin();
                let Name { name } = call.ask("who", Elicit::form("Who are you?")).await?;
                call.progress(1, 2, format!("run {number}")).await.map_err(AskError::from)?;
                if number == 0 && name == "patient" {
                    handlers.gate.notified().await;
                }
                Ok::<_, AskError>(format!("Hello, {name}, in run {number}!"))
            }
        })
        .task()
    }
}

/// Nodes with the same server, of which each can be cut off from the store.
struct Cluster {
    memory: MemoryCluster,
    sites: Vec<TestSite>,
    numbers: Vec<u32>,
}

impl Cluster {
    async fn of(server: impl Fn() -> Server) -> Self {
        Self::of_nodes(3, |_| server()).await
    }

    async fn of_nodes(count: usize, server: impl Fn(usize) -> Server) -> Self {
        let memory = MemoryCluster::default();
        let (mut sites, mut numbers) = (Vec::new(), Vec::new());
        for at in 0..count {
            let node = memory.join();
            numbers.push(node.node());
            sites.push(TestSite::listening(server(at).http().metrics("/metrics").cluster(node)).await);
        }
        Self { memory, sites, numbers }
    }

    async fn connect(&self, node: usize) -> Wire {
        Wire::to(self.sites[node].addr).await
    }

    /// Sends a modern request of a client that has declared the extension.
    async fn ask(&self, node: usize, method: &str, params: Value) -> Value {
        let (headers, message) = request(method, params);
        let headers: Vec<&str> = headers.iter().map(String::as_str).collect();
        self.connect(node).await.ask(&headers, &message).await.json()
    }

    /// Starts a task at a node, and returns its id.
    async fn start(&self, node: usize, tool: &str) -> String {
        let created = self.ask(node, "tools/call", json!({"name": tool})).await;
        assert_eq!(created["result"]["resultType"], "task", "{created}");
        created["result"]["taskId"].as_str().expect("an id").to_owned()
    }

    async fn state(&self, node: usize, task: &str) -> Value {
        self.ask(node, "tasks/get", json!({"taskId": task})).await["result"].take()
    }

    /// Waits until a task has this status at a node.
    async fn until(&self, node: usize, task: &str, status: &str) -> Value {
        let start = Instant::now();
        loop {
            let state = self.state(node, task).await;
            if state["status"] == status {
                return state;
            }
            assert!(start.elapsed() < DEADLINE, "not {status} in time: {state}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Listens to a task at a node.
    async fn listen(&self, node: usize, task: &str) -> Events {
        let (headers, message) = request("subscriptions/listen", json!({"notifications": {"taskIds": [task]}}));
        let headers: Vec<&str> = headers.iter().map(String::as_str).collect();
        let mut wire = self.connect(node).await;
        wire.post(&headers, &message).await;
        let mut events = Events::of(wire).await;
        let acknowledged = events.message().await;
        assert_eq!(acknowledged["params"]["notifications"]["taskIds"], json!([task]), "{acknowledged}");
        events
    }

    fn cut_off(&self, node: usize, is_cut_off: bool) {
        self.memory.cut_off(self.numbers[node], is_cut_off);
    }

    async fn round_trips(&self, node: usize) -> u64 {
        let mut wire = self.connect(node).await;
        wire.request("GET /metrics", &["Host: localhost"], "").await;
        let metrics = wire.answer().await.body;
        let name = "barewire_store_round_trips_total{outcome=\"succeeded\"} ";
        let line = metrics.lines().find_map(|line| line.strip_prefix(name)).expect("the metric");
        line.parse().expect("a number")
    }
}

fn request(method: &str, mut params: Value) -> (Vec<String>, Value) {
    let capabilities = json!({"extensions": {"io.modelcontextprotocol/tasks": {}}, "elicitation": {"form": {}}});
    params["_meta"] = json!({"io.modelcontextprotocol/clientCapabilities": capabilities});
    let task = params.get("taskId").and_then(Value::as_str).map(|task| format!("Mcp-Name: {task}"));
    let (mut headers, message) = modern(1, method, params);
    headers.extend(task);
    (headers, message)
}

fn answer(task: &str, name: &str) -> Value {
    json!({"taskId": task, "inputResponses": {"who": {"action": "accept", "content": {"name": name}}}})
}

/// Reads the next state of a task with this status.
async fn next_state(events: &mut Events, status: &str) -> Value {
    loop {
        let message = events.message().await;
        assert_eq!(message["method"], "notifications/tasks", "{message}");
        if message["params"]["status"] == status {
            return message["params"].clone();
        }
    }
}

#[tokio::test]
async fn every_node_answers_about_a_task_and_tells_of_it() {
    let handlers = Handlers::default();
    let cluster = Cluster::of(|| Server::new("test", "1").with(handlers.ask())).await;
    let task = cluster.start(0, "ask").await;
    let mut listens = Vec::new();
    for node in 0..3 {
        let question = cluster.until(node, &task, "input_required").await;
        assert_eq!(question["inputRequests"]["who"]["method"], "elicitation/create", "{question}");
        listens.push(cluster.listen(node, &task).await);
    }
    let updated = cluster.ask(1, "tasks/update", answer(&task, "Ada")).await;
    assert_eq!(updated["result"]["resultType"], "complete", "{updated}");
    for events in &mut listens {
        let told = next_state(events, "completed").await;
        assert_eq!(told["result"]["content"][0]["text"], "Hello, Ada, in run 0!", "{told}");
    }
    for node in 0..3 {
        let state = cluster.state(node, &task).await;
        assert_eq!(state["result"]["content"][0]["text"], "Hello, Ada, in run 0!", "{state}");
    }
}

#[tokio::test]
async fn a_task_is_cancelled_at_another_node() {
    let handlers = Handlers::default();
    let cluster = Cluster::of(|| Server::new("test", "1").with(handlers.hold())).await;
    let task = cluster.start(0, "hold").await;
    handlers.until_running(1).await;
    assert!(cluster.ask(2, "tasks/cancel", json!({"taskId": task})).await.get("result").is_some());
    assert_eq!(cluster.state(1, &task).await["status"], "cancelled");
    handlers.until_running(0).await;
}

#[tokio::test]
async fn a_legacy_task_is_listed_asked_about_and_awaited_at_other_nodes() {
    let handlers = Handlers::default();
    let cluster = Cluster::of(|| Server::new("test", "1").with(handlers.ask())).await;
    let session = cluster.connect(0).await.initialize("2025-11-25", json!({"elicitation": {}})).await;
    let mut tasks = Vec::new();
    for id in 1..=3 {
        let start = json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": "ask", "task": {}}});
        let created = cluster.connect(0).await.ask(&[&session], &start).await.json();
        tasks.push(created["result"]["task"]["taskId"].clone());
    }
    let list = json!({"jsonrpc": "2.0", "id": 4, "method": "tasks/list"});
    let listed = cluster.connect(1).await.ask(&[&session], &list).await.json();
    let ids: Vec<&Value> =
        listed["result"]["tasks"].as_array().expect("a list").iter().map(|task| &task["taskId"]).collect();
    assert_eq!(ids, tasks.iter().collect::<Vec<_>>(), "in the order of their creation");
    let wait = json!({"jsonrpc": "2.0", "id": 5, "method": "tasks/result", "params": {"taskId": tasks[1]}});
    let mut wire = cluster.connect(2).await;
    wire.post(&[&session], &wait).await;
    let mut events = Events::of(wire).await;
    let question = events.message().await;
    assert_eq!(question["method"], "elicitation/create", "{question}");
    let content = json!({"action": "accept", "content": {"name": "Ada"}});
    let answer = json!({"jsonrpc": "2.0", "id": question["id"], "result": content});
    assert_eq!(cluster.connect(1).await.ask(&[&session], &answer).await.status(), 202);
    let rest = events.rest().await;
    let result = rest.last().expect("a result");
    assert_eq!(result["result"]["_meta"]["io.modelcontextprotocol/related-task"]["taskId"], tasks[1], "{result}");
    // The end of the session ends its tasks, on whatever node.
    handlers.until_running(2).await;
    assert_eq!(cluster.connect(2).await.delete(&session).await.status(), 200);
    handlers.until_running(0).await;
}

#[tokio::test]
async fn a_task_expires_at_all_nodes() {
    let handlers = Handlers::default();
    let policy = TaskPolicy::default().ttl(Duration::from_secs(10));
    let cluster = Cluster::of(|| Server::new("test", "1").with(handlers.hold()).task_policy(policy)).await;
    let start = Instant::now();
    let task = cluster.start(0, "hold").await;
    handlers.until_running(1).await;
    assert_eq!(cluster.state(1, &task).await["status"], "working");
    handlers.until_running(0).await;
    assert!(start.elapsed() >= Duration::from_millis(9900), "not before its time: {:?}", start.elapsed());
    for node in 0..3 {
        let unknown = cluster.ask(node, "tasks/get", json!({"taskId": task})).await;
        assert_eq!(unknown["error"]["code"], -32602, "node {node}: {unknown}");
    }
}

#[tokio::test]
async fn a_task_whose_node_dies_fails_and_listens_hear_of_it() {
    let handlers = Handlers::default();
    let wait = Tool::new("wait", "Waits", std::future::pending::<()>).task();
    let cluster = Cluster::of(|| Server::new("test", "1").with(handlers.hold()).with(wait.clone())).await;
    let (task, unseen) = (cluster.start(0, "hold").await, cluster.start(0, "wait").await);
    handlers.until_running(1).await;
    let mut events = cluster.listen(1, &task).await;
    cluster.cut_off(0, true);
    let told = next_state(&mut events, "failed").await;
    assert_eq!(told["error"]["code"], -32603);
    assert!(told["error"]["message"].as_str().expect("text").contains("node that ran this task is gone"), "{told}");
    for task in [&task, &unseen] {
        assert_eq!(cluster.state(2, task).await["status"], "failed");
    }
    // The node comes back, and its handler finishes: too late.
    cluster.cut_off(0, false);
    handlers.gate.notify_one();
    handlers.until_running(0).await;
    for node in 0..3 {
        assert_eq!(cluster.state(node, &task).await["status"], "failed", "node {node}");
    }
}

/// The log that says which tasks a node has begun is gone, and a client waits for one of them.
#[tokio::test]
async fn a_task_that_is_awaited_fails_though_its_node_is_forgotten() {
    let handlers = Handlers::default();
    let cluster = Cluster::of(|| Server::new("test", "1").with(handlers.hold())).await;
    let observer = cluster.memory.join();
    let task = cluster.start(0, "hold").await;
    handlers.until_running(1).await;
    let mut events = cluster.listen(1, &task).await;
    assert_eq!(observer.remove(&format!("tasks/{}", cluster.numbers[0])).await, Ok(true), "there was a log");
    cluster.cut_off(0, true);
    let told = next_state(&mut events, "failed").await;
    assert!(told["error"]["message"].as_str().expect("text").contains("node that ran this task is gone"), "{told}");
}

/// A node that still takes a dead one for the home of a session does not take it from the one that is the home now.
#[tokio::test]
async fn a_session_has_one_home_after_its_node_has_died() {
    let handlers = Handlers::default();
    let cluster = Cluster::of(|| Server::new("test", "1").with(handlers.hold())).await;
    let session = cluster.connect(0).await.initialize("2025-11-25", json!({})).await;
    let start = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "hold", "task": {}}});
    let created = cluster.connect(2).await.ask(&[&session], &start).await.json();
    assert!(created["result"]["task"]["taskId"].is_string(), "{created}");
    handlers.until_running(1).await;
    cluster.cut_off(0, true);
    let mut wire = cluster.connect(1).await;
    wire.get(&[&session]).await;
    let mut events = Events::of(wire).await;
    events.next().await.expect("an event");
    // From then on, the list of the nodes that node 2 has read before is out of date.
    tokio::time::sleep(Duration::from_millis(1100)).await;
    handlers.gate.notify_one();
    let told = events.message().await;
    assert_eq!(
        (&told["method"], &told["params"]["status"]),
        (&json!("notifications/tasks/status"), &json!("completed"))
    );
}

#[tokio::test]
async fn a_task_that_may_run_again_does_so_once_on_another_node() {
    let handlers = Handlers::default();
    let cluster = Cluster::of(|| Server::new("test", "1").with(handlers.hold().restartable())).await;
    let task = cluster.start(0, "hold").await;
    handlers.until_running(1).await;
    let mut events = cluster.listen(1, &task).await;
    cluster.cut_off(0, true);
    let told = next_state(&mut events, "completed").await;
    assert_eq!(told["result"]["content"][0]["text"], "run 1", "{told}");
    assert_eq!(handlers.begun.load(Ordering::SeqCst), 2, "only one of the two other nodes runs it");
    // The node comes back, and its handler finishes: its result is dropped.
    cluster.cut_off(0, false);
    handlers.gate.notify_one();
    handlers.until_running(0).await;
    for node in 0..3 {
        let state = cluster.state(node, &task).await;
        assert_eq!(state["result"]["content"][0]["text"], "run 1", "node {node}: {state}");
    }
    assert_eq!(handlers.begun.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn a_handler_that_runs_again_gets_the_answers_of_before() {
    let handlers = Handlers::default();
    let cluster = Cluster::of(|| Server::new("test", "1").with(handlers.ask().restartable())).await;
    let task = cluster.start(0, "ask").await;
    cluster.until(1, &task, "input_required").await;
    cluster.ask(1, "tasks/update", answer(&task, "patient")).await;
    let start = Instant::now();
    while cluster.state(2, &task).await["statusMessage"] != "run 0 (1/2)" {
        assert!(start.elapsed() < DEADLINE);
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    cluster.cut_off(0, true);
    let state = cluster.until(2, &task, "completed").await;
    assert_eq!(state["result"]["content"][0]["text"], "Hello, patient, in run 1!", "{state}");
}

#[tokio::test]
async fn a_task_that_kills_its_nodes_is_given_up() {
    // The nodes that have run the task.
    let ran: Arc<Mutex<Vec<usize>>> = Arc::default();
    let server = |node| {
        let ran = Arc::clone(&ran);
        let endless = Tool::new("endless", "Never ends", move || {
            ran.lock().expect("no panic").push(node);
            std::future::pending::<()>()
        });
        Server::new("test", "1").with(endless.task().restartable())
    };
    let cluster = Cluster::of_nodes(4, server).await;
    let task = cluster.start(0, "endless").await;
    for run in 1..=3 {
        eventually(&format!("run {run}"), || ran.lock().expect("no panic").len() == run).await;
        let node = ran.lock().expect("no panic")[run - 1];
        cluster.cut_off(node, true);
    }
    let left = (0..4).find(|node| !ran.lock().expect("no panic").contains(node)).expect("one of four");
    let state = cluster.until(left, &task, "failed").await;
    assert!(state["error"]["message"].as_str().expect("text").contains("does not run again"), "{state}");
    assert_eq!(ran.lock().expect("no panic").len(), 3);
}

#[tokio::test]
async fn without_the_store_no_task_starts_and_running_ones_are_stored_when_it_is_back() {
    let handlers = Handlers::default();
    let cluster = Cluster::of(|| Server::new("test", "1").with(handlers.hold())).await;
    let task = cluster.start(0, "hold").await;
    handlers.until_running(1).await;
    assert_eq!(cluster.state(1, &task).await["status"], "working", "the node has served before");
    (0..3).for_each(|node| cluster.cut_off(node, true));
    let start = Instant::now();
    for (method, params) in [("tools/call", json!({"name": "hold"})), ("tasks/get", json!({"taskId": task}))] {
        let refused = cluster.ask(1, method, params).await;
        assert_eq!(refused["error"]["code"], -32603, "{refused}");
        let why = refused["error"]["message"].as_str().expect("text");
        assert!(why.contains("cannot reach the store of its tasks"), "{why}");
    }
    assert!(start.elapsed() < DEADLINE, "nothing hangs");
    assert_eq!(handlers.begun.load(Ordering::SeqCst), 1, "no handler has begun");
    handlers.gate.notify_one();
    handlers.until_running(0).await;
    // All at once: a node that is back alone would take the others for dead.
    (0..3).for_each(|node| cluster.cut_off(node, false));
    let state = cluster.until(2, &task, "completed").await;
    assert_eq!(state["result"]["content"][0]["text"], "run 0", "{state}");
}

#[tokio::test]
async fn the_tasks_of_a_node_are_limited_in_number_and_length() {
    let handlers = Handlers::default();
    let long = Tool::new("long", "Returns much", || async { "x".repeat(5000) }).task();
    let policy = TaskPolicy::default().max_tasks(1).max_bytes(2000);
    let cluster =
        Cluster::of(|| Server::new("test", "1").with(handlers.hold()).with(long.clone()).task_policy(policy)).await;
    cluster.start(0, "hold").await;
    let direct = cluster.ask(0, "tools/call", json!({"name": "hold"})).await;
    assert_eq!(direct["result"]["content"][0]["text"], "run 1", "it runs without a task: {direct}");
    let task = cluster.start(1, "long").await;
    let failed = cluster.until(2, &task, "failed").await;
    assert!(failed["error"]["message"].as_str().expect("text").contains("no room for the result"), "{failed}");
}

#[tokio::test]
async fn a_plain_modern_call_costs_no_round_trip_even_if_there_are_tasks() {
    let handlers = Handlers::default();
    let server = || Server::new("test", "1").with(handlers.hold()).tool("echo", "Says it", || async { "echo" });
    let cluster = Cluster::of(server).await;
    handlers.begin();
    let start = Instant::now();
    let before = cluster.round_trips(0).await;
    let mut wire = cluster.connect(0).await;
    for id in 0..300 {
        // A client without the extension gets the result of a tool that can run as a task.
        let tool = if id % 2 == 0 { "echo" } else { "hold" };
        assert_eq!(wire.ask_modern(id, "tools/call", json!({"name": tool})).await.status(), 200);
    }
    let (after, passes) = (cluster.round_trips(0).await, start.elapsed().as_secs() + 2);
    assert!(after - before <= 2 * passes, "only the keeper asks the store: {} in {passes} passes", after - before);
    let task = cluster.start(0, "hold").await;
    cluster.until(0, &task, "completed").await;
    assert!(cluster.round_trips(0).await > after + 4, "tasks are counted");
}
