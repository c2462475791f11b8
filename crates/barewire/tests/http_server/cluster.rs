//! What nodes of a cluster do for each other, and what happens when one of them dies or the store is away.

use std::time::{Duration, Instant};

use barewire::Server;
use barewire::mcp::LoggingLevel;
use barewire::server::http::cluster::{ClusterStore, MemoryCluster};
use barewire::server::{Call, Tool};
use serde_json::{Value, json};

use crate::TestSite;
use crate::eventually::DEADLINE;
use crate::site::{RunningHandlers, test_server_of};
use crate::wire::{Events, Wire, call};

/// Three nodes with the same server, of which each can be cut off from the store.
struct Cluster {
    memory: MemoryCluster,
    sites: Vec<TestSite>,
    numbers: Vec<u32>,
    running: RunningHandlers,
    servers: Vec<Server>,
}

impl Cluster {
    async fn new() -> Self {
        let memory = MemoryCluster::default();
        let running = RunningHandlers::default();
        let (sites, numbers, servers) = (Vec::new(), Vec::new(), Vec::new());
        let mut this = Self { memory, sites, numbers, running, servers };
        for _ in 0..3 {
            this.start().await;
        }
        this
    }

    /// Adds a node.
    async fn start(&mut self) {
        // As on different machines, each node has a server of its own.
        let server = test_server_with(&self.running);
        let node = self.memory.join();
        self.numbers.push(node.node());
        self.sites.push(TestSite::listening(server.http().health().metrics("/metrics").cluster(node)).await);
        self.servers.push(server);
    }

    async fn connect(&self, node: usize) -> Wire {
        Wire::to(self.sites[node].addr).await
    }

    /// Makes a node die: its clients lose their connections, and the others do not hear of it again.
    fn kill(&self, node: usize) {
        self.memory.cut_off(self.numbers[node], true);
        self.sites[node].running.abort();
    }

    /// Opens a session at one node.
    async fn initialize(&self, node: usize, capabilities: Value) -> String {
        self.connect(node).await.initialize("2025-11-25", capabilities).await
    }

    /// Reads a path that is not the endpoint.
    async fn read(&self, node: usize, path: &str) -> (u16, String) {
        let mut wire = self.connect(node).await;
        wire.request(&format!("GET {path}"), &["Host: localhost"], "").await;
        let response = wire.answer().await;
        (response.status(), response.body)
    }

    /// Returns the number of round trips of a node to the store that have succeeded.
    async fn round_trips(&self, node: usize) -> u64 {
        let (_, metrics) = self.read(node, "/metrics").await;
        let name = "barewire_store_round_trips_total{outcome=\"succeeded\"} ";
        let line = metrics.lines().find_map(|line| line.strip_prefix(name)).expect("the metric");
        line.parse().expect("a number")
    }

    /// Opens the GET stream of a session, or resumes a stream.
    async fn get(&self, node: usize, session: &str, after: Option<&str>) -> Events {
        let mut wire = self.connect(node).await;
        let after = after.map(|id| format!("Last-Event-ID: {id}"));
        let headers: Vec<&str> = [session].into_iter().chain(after.as_deref()).collect();
        wire.get(&headers).await;
        Events::of(wire).await
    }
}

impl Cluster {
    /// Listens to changes of the tools at a node, as a modern client.
    async fn listen(&self, node: usize) -> Events {
        // A server without a handle never changes its tools, so it tells nobody.
        let _ = self.servers[node].handle();
        let mut wire = self.connect(node).await;
        wire.post_modern(1, "subscriptions/listen", json!({"notifications": {"toolsListChanged": true}})).await;
        let mut events = Events::of(wire).await;
        let acknowledged = events.message().await;
        assert_eq!(acknowledged["params"]["notifications"]["toolsListChanged"], true, "{acknowledged}");
        events
    }
}

fn test_server_with(running: &RunningHandlers) -> Server {
    test_server_of(running).tool("warn", "Logs a warning", |call: Call| async move {
        call.log(LoggingLevel::Warning, "careful").await?;
        Ok::<_, barewire::peer::CallError>("warned")
    })
}

fn held(id: u64, ms: u64) -> Value {
    let mut message = call(id, "hold", json!({"ms": ms}));
    message["params"]["_meta"] = json!({"progressToken": id});
    message
}

#[tokio::test]
async fn a_call_is_cancelled_through_another_node() {
    let cluster = Cluster::new().await;
    let session = cluster.initialize(0, json!({})).await;
    let mut wire = cluster.connect(1).await;
    wire.post(&[&session], &held(1, 60_000)).await;
    cluster.running.until(1).await;
    let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}});
    assert_eq!(cluster.connect(2).await.ask(&[&session], &cancel).await.status(), 202);
    cluster.running.until(0).await;
}

#[tokio::test]
async fn a_session_that_is_deleted_at_one_node_is_gone_at_all() {
    let cluster = Cluster::new().await;
    let session = cluster.initialize(0, json!({})).await;
    let mut wire = cluster.connect(1).await;
    wire.post(&[&session], &held(1, 60_000)).await;
    cluster.running.until(1).await;
    assert_eq!(cluster.connect(2).await.delete(&session).await.status(), 200);
    for node in 0..3 {
        let echo = call(2, "echo", json!({"text": "x"}));
        assert_eq!(cluster.connect(node).await.ask(&[&session], &echo).await.status(), 404, "node {node}");
    }
    cluster.running.until(0).await;
}

#[tokio::test]
async fn a_change_on_any_node_reaches_the_get_stream_at_any_other() {
    let cluster = Cluster::new().await;
    let session = cluster.initialize(0, json!({})).await;
    // Node 0 has served `initialized`; the client reads at node 1, and the change happens at node 2.
    let handle = cluster.servers[2].handle();
    let others = [cluster.servers[0].handle(), cluster.servers[1].handle()];
    let mut events = cluster.get(1, &session, None).await;
    let primed = events.next().await.expect("an event").id.expect("an id");
    handle.remove_tool("echo");
    let change = events.next().await.expect("an event");
    assert_eq!(change.json()["method"], "notifications/tools/list_changed");
    let id = change.id.expect("an id");
    drop(events);
    // The client comes back at another node, after the first event and then after the second.
    let mut events = cluster.get(2, &session, Some(&primed)).await;
    assert_eq!(events.next().await.expect("an event").id.as_deref(), Some(id.as_str()), "it is sent again");
    drop(events);
    let mut events = cluster.get(0, &session, Some(&id)).await;
    handle.remove_tool("ask");
    let second = events.next().await.expect("an event");
    assert_ne!(second.id.as_deref(), Some(id.as_str()), "none is sent twice");
    assert_eq!(second.json()["method"], "notifications/tools/list_changed");
    drop(others);
}

#[tokio::test]
async fn a_stream_is_resumed_at_another_node_while_the_call_runs_and_after() {
    let cluster = Cluster::new().await;
    let session = cluster.initialize(0, json!({})).await;
    let mut wire = cluster.connect(1).await;
    wire.post(&[&session], &held(1, 700)).await;
    let mut events = Events::of(wire).await;
    let primed = events.next().await.expect("an event").id.expect("an id");
    assert_eq!(events.message().await["params"]["progress"], 1.0);
    drop(events);
    for node in [2, 0] {
        let rest = cluster.get(node, &session, Some(&primed)).await.rest().await;
        assert_eq!(rest.len(), 3, "node {node}: {rest:?}");
        assert_eq!(rest[0]["params"]["progress"], 1.0);
        assert_eq!(rest[2]["result"]["content"][0]["text"], "held");
    }
}

#[tokio::test]
async fn a_call_whose_node_dies_ends_in_an_error_that_says_so() {
    let cluster = Cluster::new().await;
    let session = cluster.initialize(0, json!({})).await;
    let mut wire = cluster.connect(1).await;
    wire.post(&[&session], &held(7, 60_000)).await;
    let mut events = Events::of(wire).await;
    let primed = events.next().await.expect("an event").id.expect("an id");
    let first = events.next().await.expect("an event");
    // One client follows the stream at another node while it dies, and one resumes it later.
    let following = cluster.get(2, &session, Some(&primed)).await;
    cluster.kill(1);
    let rest = following.rest().await;
    assert_eq!(rest.len(), 2, "{rest:?}");
    let error = &rest[1];
    assert_eq!((&error["id"], &error["error"]["code"]), (&json!(7), &json!(-32603)));
    assert!(error["error"]["message"].as_str().expect("text").contains("has stopped running this request"), "{error}");
    let later = cluster.get(0, &session, first.id.as_deref()).await.rest().await;
    assert_eq!(later, std::slice::from_ref(error), "the same answer");
    // The session goes on.
    let echo = call(8, "echo", json!({"text": "still here"}));
    let answer = cluster.connect(0).await.ask(&[&session], &echo).await;
    assert_eq!(answer.json()["result"]["content"][0]["text"], "still here");
}

/// A node that was stopped for so long that it seemed dead still waits for the answer to what it has asked.
#[tokio::test]
async fn an_answer_reaches_a_node_that_seemed_dead() {
    let cluster = Cluster::new().await;
    let session = cluster.initialize(0, json!({"elicitation": {}})).await;
    let mut wire = cluster.connect(1).await;
    wire.post(&[&session], &call(1, "ask", json!({}))).await;
    let mut events = Events::of(wire).await;
    let question = events.message().await;
    cluster.memory.cut_off(cluster.numbers[1], true);
    let result = json!({"action": "accept", "content": {"name": "Ann"}});
    let answer = json!({"jsonrpc": "2.0", "id": question["id"], "result": result});
    assert_eq!(cluster.connect(2).await.ask(&[&session], &answer).await.status(), 202);
    cluster.memory.cut_off(cluster.numbers[1], false);
    assert_eq!(events.message().await["result"]["content"][0]["text"], "Hello, Ann!");
}

#[tokio::test]
async fn another_node_takes_over_what_is_told_unasked() {
    let cluster = Cluster::new().await;
    let session = cluster.initialize(0, json!({})).await;
    let handles: Vec<_> = cluster.servers.iter().map(Server::handle).collect();
    let mut events = cluster.get(0, &session, None).await;
    let primed = events.next().await.expect("an event").id.expect("an id");
    handles[2].remove_tool("echo");
    let change = events.next().await.expect("an event");
    cluster.kill(0);
    // A change while no node tells the client of any: the one that takes over does.
    handles[2].remove_tool("ask");
    let mut events = cluster.get(1, &session, change.id.as_deref()).await;
    assert_eq!(events.message().await["method"], "notifications/tools/list_changed");
    drop(events);
    for (node, after) in [(1, Some(primed)), (2, change.id), (2, None)] {
        let mut events = cluster.get(node, &session, after.as_deref()).await;
        // Only a client that has not seen the first change gets it again.
        handles[2].add(Tool::new("again", "Comes and goes", || async { "x" }));
        assert_eq!(events.message().await["method"], "notifications/tools/list_changed", "node {node}");
        handles[2].remove_tool("again");
    }
}

/// A node that was stopped for so long that it seemed dead has clients that read what they are told unasked.
#[tokio::test]
async fn a_client_of_a_node_that_seemed_dead_reconnects() {
    let cluster = Cluster::new().await;
    let session = cluster.initialize(0, json!({})).await;
    let mut events = cluster.get(0, &session, None).await;
    let primed = events.next().await.expect("an event").id.expect("an id");
    cluster.memory.cut_off(cluster.numbers[0], true);
    drop(cluster.get(1, &session, None).await);
    cluster.memory.cut_off(cluster.numbers[0], false);
    tokio::time::timeout(DEADLINE, events.rest()).await.expect("the stream ends");
    let mut events = cluster.get(0, &session, Some(&primed)).await;
    cluster.servers[2].handle().remove_tool("echo");
    assert_eq!(events.message().await["method"], "notifications/tools/list_changed");
}

#[tokio::test]
async fn a_change_that_is_announced_while_the_store_is_away_is_told_when_it_is_back() {
    let cluster = Cluster::new().await;
    let handle = cluster.servers[2].handle();
    let mut events = cluster.listen(1).await;
    cluster.memory.cut_off(cluster.numbers[2], true);
    // From then on, the list of the nodes that this node has read before is out of date.
    tokio::time::sleep(Duration::from_millis(1100)).await;
    handle.remove_tool("echo");
    let start = Instant::now();
    while cluster.read(2, "/readyz").await.0 != 503 {
        assert!(start.elapsed() < DEADLINE, "the node has noticed");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    cluster.memory.cut_off(cluster.numbers[2], false);
    assert_eq!(events.message().await["method"], "notifications/tools/list_changed");
}

#[tokio::test]
async fn a_change_reaches_a_node_that_has_just_joined() {
    let mut cluster = Cluster::new().await;
    let handle = cluster.servers[2].handle();
    let mut events = cluster.listen(1).await;
    handle.remove_tool("echo");
    // Now the node knows which nodes there were.
    assert_eq!(events.message().await["method"], "notifications/tools/list_changed");
    cluster.start().await;
    let mut events = cluster.listen(3).await;
    handle.remove_tool("ask");
    assert_eq!(events.message().await["method"], "notifications/tools/list_changed");
}

#[tokio::test]
async fn a_node_that_stops_leaves_the_cluster() {
    let mut cluster = Cluster::new().await;
    let observer = cluster.memory.join();
    let session = cluster.initialize(0, json!({})).await;
    let mut events = cluster.get(1, &session, None).await;
    let primed = events.next().await.expect("an event").id.expect("an id");
    cluster.sites[0].stop.stop();
    (&mut cluster.sites[0].running).await.expect("no panic");
    let nodes = observer.nodes().await.expect("it is there");
    assert!(!nodes.contains(&cluster.numbers[0]), "it is gone at once: {nodes:?}");
    assert!(nodes.contains(&cluster.numbers[1]), "the others are there: {nodes:?}");
    assert!(events.rest().await.is_empty(), "the stream ends");
    // Another node takes over what the client is told unasked.
    let mut events = cluster.get(1, &session, Some(&primed)).await;
    cluster.servers[2].handle().remove_tool("echo");
    assert_eq!(events.message().await["method"], "notifications/tools/list_changed");
}

#[tokio::test]
async fn without_the_store_known_sessions_go_on_and_new_ones_are_refused() {
    let cluster = Cluster::new().await;
    let session = cluster.initialize(0, json!({})).await;
    let mut running = cluster.connect(0).await;
    running.post(&[&session], &held(1, 300)).await;
    cluster.running.until(1).await;
    cluster.numbers.iter().for_each(|node| cluster.memory.cut_off(*node, true));
    let echo = call(2, "echo", json!({"text": "x"}));
    assert_eq!(cluster.connect(0).await.ask(&[&session], &echo).await.status(), 200, "it is known here");
    let unknown = cluster.connect(1).await.ask(&[&session], &echo).await;
    assert_eq!((unknown.refusal(), unknown.head.get("retry-after")), ((503, -32603), Some("1")));
    let params =
        json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "a", "version": "1"}});
    let initialize = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params});
    let refused = cluster.connect(0).await.ask(&[], &initialize).await;
    assert_eq!((refused.refusal(), refused.head.get("retry-after")), ((503, -32603), Some("1")));
    assert_eq!(cluster.read(0, "/readyz").await, (503, "the store of the cluster is away\n".to_owned()));
    assert_eq!(cluster.read(0, "/healthz").await.0, 200);
    let mut modern = cluster.connect(0).await;
    let modern = modern.ask_modern(3, "tools/call", json!({"name": "echo", "arguments": {"text": "m"}}));
    assert_eq!(modern.await.status(), 200, "a modern call needs no store");
    let rest = Events::of(running).await.rest().await;
    assert_eq!(rest.last().expect("an answer")["result"]["content"][0]["text"], "held", "it was running");
    cluster.numbers.iter().for_each(|node| cluster.memory.cut_off(*node, false));
    assert_eq!(cluster.connect(1).await.ask(&[&session], &echo).await.status(), 200, "the store is back");
    assert_eq!(cluster.connect(0).await.ask(&[], &initialize).await.status(), 200);
    assert_eq!(cluster.read(0, "/readyz").await.0, 200);
}

/// A node has the sealing keys before its first request.
#[tokio::test]
async fn a_node_that_has_served_nothing_serves_modern_calls_without_the_store() {
    let cluster = Cluster::new().await;
    let start = Instant::now();
    // One reads the keys, and makes them if there are none.
    while cluster.round_trips(2).await == 0 {
        assert!(start.elapsed() < DEADLINE, "the node reads the keys");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    cluster.memory.cut_off(cluster.numbers[2], true);
    let echo = json!({"name": "echo", "arguments": {"text": "x"}});
    let answer = cluster.connect(2).await.ask_modern(1, "tools/call", echo).await;
    assert_eq!(answer.status(), 200, "{}", answer.body);
}

#[tokio::test]
async fn a_plain_modern_call_costs_no_round_trip_and_a_legacy_one_costs_one() {
    let cluster = Cluster::new().await;
    let session = cluster.initialize(0, json!({})).await;
    let round_trips = async || cluster.round_trips(0).await;
    let before = round_trips().await;
    let mut wire = cluster.connect(0).await;
    for id in 0..100 {
        let echo = json!({"name": "echo", "arguments": {"text": "x"}});
        assert_eq!(wire.ask_modern(id, "tools/call", echo).await.status(), 200);
    }
    assert_eq!(round_trips().await, before);
    for id in 0..100 {
        assert_eq!(wire.ask(&[&session], &call(id, "echo", json!({"text": "x"}))).await.status(), 200);
    }
    assert_eq!(round_trips().await, before + 100);
}

#[tokio::test]
async fn what_a_client_sets_at_one_node_holds_at_all() {
    let cluster = Cluster::new().await;
    let session = cluster.initialize(0, json!({})).await;
    let logs_at = async |node: usize| {
        let mut wire = cluster.connect(node).await;
        wire.post(&[&session], &call(2, "warn", json!({}))).await;
        let response = wire.answer().await;
        response.body.contains("notifications/message")
    };
    for node in 0..3 {
        assert!(logs_at(node).await, "node {node}");
    }
    let level = json!({"jsonrpc": "2.0", "id": 1, "method": "logging/setLevel", "params": {"level": "error"}});
    assert_eq!(cluster.connect(1).await.ask(&[&session], &level).await.status(), 200);
    for node in 0..3 {
        assert!(!logs_at(node).await, "node {node}");
    }
}
