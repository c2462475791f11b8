//! Tasks of servers that share a Redis: each node has a runtime of its own, which can end as a process does.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use barewire::Server;
use barewire::server::http::cluster::NODE_LEASE;
use barewire::server::{AskError, Call, Elicit, TaskPolicy, Tool};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::redis_server::{RedisServer, patient};

#[derive(Deserialize, JsonSchema)]
struct Name {
    name: String,
}

/// The handlers of all nodes.
#[derive(Clone, Default)]
struct Handlers {
    begun: Arc<AtomicUsize>,
    is_open: Arc<Mutex<bool>>,
}

impl Handlers {
    fn server(&self) -> Server {
        let (held, again) = (self.clone(), self.clone());
        let ask = |call: Call| async move {
            let Name { name } = call.ask("who", Elicit::form("Who are you?")).await?;
            Ok::<_, AskError>(format!("Hello, {name}!"))
        };
        Server::new("test", "1")
            .with(Tool::new("hold", "Waits", move || held.clone().hold()).task())
            .with(Tool::new("again", "Waits in its first run", move || again.clone().hold()).task().restartable())
            .with(Tool::new("ask", "Asks", ask).task())
            .task_policy(TaskPolicy::default().ttl(Duration::from_secs(120)))
    }

    async fn hold(self) -> String {
        let number = self.begun.fetch_add(1, Ordering::SeqCst);
        while number == 0 && !*self.is_open.lock().expect("no panic") {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        format!("run {number}")
    }

    fn until_begun(&self, count: usize) {
        until("the handlers have begun", || (self.begun.load(Ordering::SeqCst) >= count).then_some(()));
    }
}

struct Node {
    runtime: Option<tokio::runtime::Runtime>,
    addr: SocketAddr,
}

impl Node {
    fn start(redis: &RedisServer, handlers: &Handlers) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.expect("a runtime");
        let addr = runtime.block_on(async {
            let store = patient().connect(&redis.url()).await.expect("the server runs");
            let listener = handlers.server().http().cluster(store).bind("127.0.0.1:0").await.expect("a free port");
            let addr = listener.local_addr().expect("it is bound");
            tokio::spawn(listener.run());
            addr
        });
        Self { runtime: Some(runtime), addr }
    }

    fn kill(&mut self) {
        self.runtime.take().expect("it runs").shutdown_background();
    }

    /// Sends a request of a client that has declared the extension, and returns the stream of the response.
    fn post(&self, method: &str, mut params: Value) -> BufReader<TcpStream> {
        let name = ["taskId", "name"].iter().find_map(|name| params[*name].as_str()).unwrap_or_default().to_owned();
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities":
                {"extensions": {"io.modelcontextprotocol/tasks": {}}, "elicitation": {"form": {}}},
        });
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string();
        let mut stream = TcpStream::connect(self.addr).expect("it serves");
        stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a socket");
        let name = if name.is_empty() { String::new() } else { format!("Mcp-Name: {name}\r\n") };
        let head = format!(
            "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nConnection: close\r\n\
             Accept: application/json, text/event-stream\r\nMCP-Protocol-Version: 2026-07-28\r\n\
             Mcp-Method: {method}\r\n{name}Content-Length: {}\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(head.as_bytes()).expect("it reads");
        BufReader::new(stream)
    }

    fn ask(&self, method: &str, params: Value) -> Value {
        let mut answer = String::new();
        self.post(method, params).read_to_string(&mut answer).expect("an answer in time");
        let (_, body) = answer.split_once("\r\n\r\n").expect("a body");
        serde_json::from_str(body).unwrap_or_else(|_| panic!("no JSON: {answer}"))
    }

    fn start_task(&self, tool: &str) -> String {
        let created = self.ask("tools/call", json!({"name": tool}));
        created["result"]["taskId"].as_str().unwrap_or_else(|| panic!("a task: {created}")).to_owned()
    }

    fn state(&self, task: &str) -> Value {
        self.ask("tasks/get", json!({"taskId": task}))["result"].take()
    }

    fn until(&self, task: &str, status: &str) -> Value {
        until(status, || Some(self.state(task)).filter(|state| state["status"] == status))
    }

    /// Listens to a task, until the acknowledgement has arrived.
    fn listen(&self, task: &str) -> BufReader<TcpStream> {
        let mut events = self.post("subscriptions/listen", json!({"notifications": {"taskIds": [task]}}));
        next_event(&mut events, |event| event["params"]["notifications"]["taskIds"] == json!([task]));
        events
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

fn next_event(events: &mut BufReader<TcpStream>, is_it: impl Fn(&Value) -> bool) -> Value {
    let mut line = String::new();
    while events.read_line(&mut line).expect("an event in time") > 0 {
        let event = line.strip_prefix("data: ").and_then(|data| serde_json::from_str(data).ok());
        if let Some(event) = event.filter(&is_it) {
            return event;
        }
        line.clear();
    }
    panic!("the stream has ended");
}

fn until<T>(what: &str, look: impl Fn() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(start.elapsed() < Duration::from_secs(60), "not in time: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn any_node_answers_about_a_task_and_tells_of_it() {
    let (redis, handlers) = (RedisServer::start(&[]), Handlers::default());
    let nodes: Vec<Node> = (0..3).map(|_| Node::start(&redis, &handlers)).collect();
    let task = nodes[0].start_task("ask");
    nodes[1].until(&task, "input_required");
    let mut listens: Vec<_> = nodes.iter().map(|node| node.listen(&task)).collect();
    let answer = json!({"who": {"action": "accept", "content": {"name": "Ada"}}});
    nodes[2].ask("tasks/update", json!({"taskId": task, "inputResponses": answer}));
    for events in &mut listens {
        let done = next_event(events, |event| event["params"]["status"] == "completed");
        assert_eq!(done["params"]["result"]["content"][0]["text"], "Hello, Ada!", "{done}");
    }
    for node in &nodes {
        assert_eq!(node.state(&task)["status"], "completed");
    }
    let cancelled = nodes[0].start_task("hold");
    handlers.until_begun(1);
    assert_eq!(nodes[1].ask("tasks/cancel", json!({"taskId": cancelled}))["result"]["resultType"], "complete");
    assert_eq!(nodes[2].state(&cancelled)["status"], "cancelled");
}

#[test]
fn the_tasks_of_a_node_that_is_killed_fail_or_run_once_more() {
    let (redis, handlers, again) = (RedisServer::start(&[]), Handlers::default(), Handlers::default());
    let mut nodes: Vec<Node> = (0..3).map(|_| Node::start(&redis, &handlers)).collect();
    let failing = nodes[0].start_task("hold");
    handlers.until_begun(1);
    // This node counts its handlers on its own, so that the others wait in no run of theirs.
    let mut first = Node::start(&redis, &again);
    let restarting = first.start_task("again");
    again.until_begun(1);
    let mut events = nodes[1].listen(&failing);
    nodes[0].kill();
    first.kill();
    let killed = Instant::now();
    let failed = next_event(&mut events, |event| event["params"]["status"] == "failed");
    // Long before its time is over, which is two minutes.
    let took = killed.elapsed();
    assert!(took < NODE_LEASE + Duration::from_secs(40), "{took:?}");
    let why = failed["params"]["error"]["message"].as_str().expect("text");
    assert!(why.contains("node that ran this task is gone"), "{failed}");
    let completed = nodes[2].until(&restarting, "completed");
    assert_eq!(completed["result"]["content"][0]["text"], "run 1", "{completed}");
    assert_eq!(handlers.begun.load(Ordering::SeqCst), 2, "one of the two nodes that are left has run it");
    assert_eq!(nodes[2].state(&failing)["status"], "failed");
}

#[test]
fn a_result_is_stored_when_redis_is_back() {
    let mut redis = RedisServer::start(&["--appendonly", "yes", "--appendfsync", "always"]);
    let handlers = Handlers::default();
    let nodes: Vec<Node> = (0..2).map(|_| Node::start(&redis, &handlers)).collect();
    let task = nodes[0].start_task("hold");
    handlers.until_begun(1);
    assert_eq!(nodes[1].state(&task)["status"], "working");
    redis.kill();
    for (node, method, params) in
        [(0, "tools/call", json!({"name": "hold"})), (1, "tasks/get", json!({"taskId": task}))]
    {
        let asked = Instant::now();
        let refused = nodes[node].ask(method, params);
        let why = refused["error"]["message"].as_str().unwrap_or_else(|| panic!("an error: {refused}"));
        assert!(why.contains("cannot reach the store of its tasks"), "{why}");
        assert!(asked.elapsed() < Duration::from_secs(60), "nothing hangs: {:?}", asked.elapsed());
    }
    *handlers.is_open.lock().unwrap() = true;
    redis.restart();
    let state = until("completed", || {
        let state = nodes[1].ask("tasks/get", json!({"taskId": task}));
        Some(state["result"].clone()).filter(|state| state["status"] == "completed")
    });
    assert_eq!(state["result"]["content"][0]["text"], "run 0", "{state}");
    assert_eq!(handlers.begun.load(Ordering::SeqCst), 1);
}

/// The records of tasks and all that belongs to them expire by themselves.
#[test]
fn nothing_of_a_task_is_left_after_its_time() {
    let (redis, handlers) = (RedisServer::start(&[]), Handlers::default());
    let node = Node::start(&redis, &handlers);
    let task = node.start_task("hold");
    assert!(redis.keys().iter().any(|key| key.contains(&task)), "{:?}", redis.keys());
    for key in redis.keys().iter().filter(|key| key.contains("{task")) {
        let time_left = redis.command(&["PTTL", key]);
        let time_left: i64 = time_left.trim().trim_start_matches(':').parse().expect("a number");
        assert!(time_left > 0, "{key} expires: {time_left}");
    }
}
