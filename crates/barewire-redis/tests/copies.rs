//! The copies of sessions that nodes make and drop: what a session is stays the same, however often that happens.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use barewire::Server;
use barewire::mcp::LoggingLevel;
use barewire::peer::CallError;
use barewire::server::http::{BearerTokens, HttpBuilder, HttpLimits, Principal};
use barewire::server::{Call, Resource, ServerHandle};
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use crate::redis_server::{RedisServer, patient};
use crate::wire::{Events, Wire, call};

/// A node in this process, with a connection of its own to Redis.
pub(crate) struct Node {
    addr: SocketAddr,
    pub(crate) handle: ServerHandle,
    running: JoinHandle<()>,
}

/// What the handlers of all nodes do.
#[derive(Clone, Default)]
pub(crate) struct Handlers {
    running: Arc<AtomicUsize>,
    release: Arc<Notify>,
}

impl Handlers {
    fn server(&self) -> Server {
        let (held, keeping) = (self.clone(), self.clone());
        let hold = move || held.clone().wait();
        // The call is answered, and what the handler has started goes on.
        let keep = move |call: Call| {
            let keeping = keeping.clone();
            async move {
                tokio::spawn(async move {
                    let _call = call;
                    keeping.wait().await;
                });
                "kept"
            }
        };
        let warn = |call: Call| async move {
            call.log(LoggingLevel::Warning, "careful").await?;
            Ok::<_, CallError>("warned")
        };
        Server::new("test", "1")
            .tool("echo", "Answers", || async { "echo" })
            .tool("gone", "Is removed", || async { "here" })
            .tool("hold", "Waits", hold)
            .tool("keep", "Keeps its call", keep)
            .tool("warn", "Logs a warning", warn)
            .with(Resource::text("a://1", "one", "1"))
            .with(Resource::text("a://2", "two", "2"))
    }

    async fn wait(self) -> &'static str {
        self.running.fetch_add(1, Ordering::SeqCst);
        self.release.notified().await;
        self.running.fetch_sub(1, Ordering::SeqCst);
        "held"
    }

    async fn until_running(&self, count: usize) {
        eventually("handlers run", async || self.running.load(Ordering::SeqCst) == count).await;
    }
}

impl Node {
    async fn start(url: &str, server: Server, set: impl FnOnce(HttpBuilder) -> HttpBuilder) -> Self {
        let store = patient().connect(url).await.expect("the server runs");
        let handle = server.handle();
        let http = set(server.http().health().metrics("/metrics").cluster(store));
        let listener = http.bind("127.0.0.1:0").await.expect("a free port");
        let addr = listener.local_addr().expect("it is bound");
        Self { addr, handle, running: tokio::spawn(listener.run()) }
    }

    /// Starts two nodes with these limits.
    pub(crate) async fn two(url: &str, handlers: &Handlers, limits: &HttpLimits) -> [Self; 2] {
        let start = || Self::start(url, handlers.server(), |http| http.limits(limits.clone()));
        [start().await, start().await]
    }

    pub(crate) async fn connect(&self) -> Wire {
        Wire::to(self.addr).await
    }

    pub(crate) async fn ask(&self, headers: &[&str], message: &Value) -> u16 {
        self.connect().await.ask(headers, message).await.status()
    }

    pub(crate) async fn echo(&self, headers: &[&str]) -> u16 {
        self.ask(headers, &call(1, "echo", json!({}))).await
    }

    /// Opens the GET stream of a session, or goes on after an event.
    pub(crate) async fn get(&self, session: &str, after: Option<&str>) -> Events {
        let mut wire = self.connect().await;
        let after = after.map(|id| format!("Last-Event-ID: {id}"));
        let headers: Vec<&str> = [session].into_iter().chain(after.as_deref()).collect();
        wire.get(&headers).await;
        Events::of(wire).await
    }

    /// Returns the number of sessions of which there is a copy.
    pub(crate) async fn copies(&self) -> usize {
        let mut wire = self.connect().await;
        wire.request("GET /metrics", &["Host: localhost"], "").await;
        let metrics = wire.answer().await.body;
        let line = metrics.lines().find_map(|line| line.strip_prefix("barewire_sessions "));
        line.expect("the metric").parse().expect("a number")
    }

    pub(crate) async fn until_copies(&self, count: usize) {
        eventually(&format!("there are {count} copies"), async || self.copies().await == count).await;
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.running.abort();
    }
}

pub(crate) async fn eventually(what: &str, holds: impl AsyncFn() -> bool) {
    let waited = async {
        while !holds().await {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), waited).await.unwrap_or_else(|_| panic!("not in time: {what}"));
}

pub(crate) fn limits(sessions: usize, session_copy_idle: Duration) -> HttpLimits {
    let mut limits = HttpLimits::default();
    (limits.sessions, limits.session_copy_idle) = (sessions, session_copy_idle);
    limits
}

/// A copy is dropped as soon as nothing uses it.
pub(crate) const AT_ONCE: Duration = Duration::from_millis(20);

/// No copy is dropped for being idle.
const NEVER: Duration = Duration::from_secs(3600);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn more_sessions_than_a_node_has_room_for_go_on_at_all_nodes() {
    let redis = RedisServer::start(&[]);
    let nodes = Arc::new(Node::two(&redis.url(), &Handlers::default(), &limits(ROOM, NEVER)).await);
    let mut sessions = Vec::new();
    for number in 0..10 * ROOM {
        sessions.push(nodes[number % 2].connect().await.initialize("2025-11-25", json!({})).await);
    }
    for node in &*nodes {
        assert!(node.copies().await <= ROOM);
    }
    let sessions = Arc::new(sessions);
    // Fewer clients than copies, so that there is always one that is idle.
    let clients = (0..ROOM / 2).map(|client| {
        let (nodes, sessions) = (Arc::clone(&nodes), Arc::clone(&sessions));
        tokio::spawn(async move {
            for round in 0..2 {
                for session in sessions.iter().skip(client).step_by(ROOM / 2) {
                    for (number, node) in nodes.iter().enumerate() {
                        assert_eq!(node.echo(&[session]).await, 200, "node {number} in round {round}");
                    }
                }
            }
        })
    });
    for client in clients.collect::<Vec<_>>() {
        client.await.expect("each call is answered");
    }
    for node in &*nodes {
        let copies = node.copies().await;
        assert!((1..=ROOM).contains(&copies), "{copies}");
    }
}

const ROOM: usize = 8;

/// If all copies are in use, there is no room, and when one is not, there is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copy_that_is_in_use_is_not_dropped() {
    let (redis, handlers) = (RedisServer::start(&[]), Handlers::default());
    let nodes = Node::two(&redis.url(), &handlers, &limits(2, NEVER)).await;
    let mut sessions = Vec::new();
    for _ in 0..3 {
        sessions.push(nodes[1].connect().await.initialize("2025-11-25", json!({})).await);
    }
    let mut running = Vec::new();
    for session in &sessions[..2] {
        let mut wire = nodes[0].connect().await;
        wire.post(&[session], &call(1, "hold", json!({}))).await;
        running.push(wire);
    }
    handlers.until_running(2).await;
    assert_eq!(nodes[0].echo(&[&sessions[2]]).await, 503);
    handlers.release.notify_one();
    handlers.until_running(1).await;
    eventually("there is room", async || nodes[0].echo(&[&sessions[2]]).await == 200).await;
    handlers.release.notify_one();
    for wire in &mut running {
        assert_eq!(wire.answer().await.status(), 200);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copy_comes_back_as_it_was() {
    let (redis, handlers) = (RedisServer::start(&[]), Handlers::default());
    let start = async || {
        let tokens = BearerTokens::new().token("ada", Principal::new("ada")).token("bob", Principal::new("bob"));
        Node::start(&redis.url(), handlers.server(), |http| http.limits(limits(100, AT_ONCE)).authenticate(tokens))
            .await
    };
    let nodes = [start().await, start().await];
    let copies = async |node: &Node| {
        let mut wire = node.connect().await;
        wire.request("GET /metrics", &["Host: localhost", ADA], "").await;
        let body = wire.answer().await.body;
        body.contains("barewire_sessions 0\n")
    };
    let all_dropped = async || {
        for node in &nodes {
            eventually("no copy is left", async || copies(node).await).await;
        }
    };
    let session = nodes[0].connect().await.initialize_with("2025-11-25", json!({}), &[ADA]).await;
    for (number, method, params) in
        [(1, "logging/setLevel", json!({"level": "error"})), (0, "resources/subscribe", json!({"uri": "a://1"}))]
    {
        all_dropped().await;
        let message = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        assert_eq!(nodes[number].ask(&[&session, ADA], &message).await, 200);
    }
    for node in &nodes {
        all_dropped().await;
        let warned = node.connect().await.ask(&[&session, ADA], &call(2, "warn", json!({}))).await;
        assert_eq!(warned.status(), 200);
        assert!(!warned.body.contains("notifications/message"), "{}", warned.body);
        all_dropped().await;
        assert_eq!(node.echo(&[&session, BOB]).await, 404, "it is not his");
    }
    // What changes while no node has a copy is told when the client listens, once.
    all_dropped().await;
    nodes[1].handle.updated("a://2");
    nodes[1].handle.updated("a://1");
    nodes[0].handle.remove_tool("gone");
    let mut wire = nodes[1].connect().await;
    wire.get(&[&session, ADA]).await;
    let mut events = Events::of(wire).await;
    let mut told = [events.message().await, events.message().await].map(|it| it["method"].clone());
    told.sort_by_key(Value::to_string);
    assert_eq!(told, ["notifications/resources/updated", "notifications/tools/list_changed"]);
    nodes[0].handle.remove_resource("a://2");
    assert_eq!(events.message().await["method"], "notifications/resources/list_changed", "nothing was told twice");
}

const ADA: &str = "Authorization: Bearer ada";
const BOB: &str = "Authorization: Bearer bob";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_that_the_client_has_not_read_are_there_when_the_copy_comes_back() {
    let (redis, handlers) = (RedisServer::start(&[]), Handlers::default());
    let nodes = Node::two(&redis.url(), &handlers, &limits(100, AT_ONCE)).await;
    let session = nodes[0].connect().await.initialize("2025-11-25", json!({})).await;
    let log = format!("barewire:{{session/{}}}/events", session.split_once(": ").expect("a header").1);
    let stored = || redis.command(&["LLEN", &log]);
    // A request keeps the copy until the message is there.
    let mut wire = nodes[0].connect().await;
    wire.post(&[&session], &call(1, "hold", json!({}))).await;
    handlers.until_running(1).await;
    nodes[1].handle.remove_tool("gone");
    nodes[0].handle.remove_tool("warn");
    eventually("the message is stored", async || stored() != ":0\r\n").await;
    handlers.release.notify_one();
    assert_eq!(wire.answer().await.status(), 200);
    let resources = "notifications/resources/list_changed";
    let mut ids = Vec::new();
    for (node, resource) in [(1, "a://1"), (0, "a://2")] {
        nodes[0].until_copies(0).await;
        nodes[1].until_copies(0).await;
        let mut events = nodes[node].get(&session, None).await;
        if ids.is_empty() {
            ids.push(next_with(&mut events, "notifications/tools/list_changed").await);
        }
        nodes[1].handle.remove_resource(resource);
        ids.push(next_with(&mut events, resources).await);
    }
    assert!(ids[0] != ids[1] && ids[1] != ids[2], "{ids:?}");
    // It is one stream, which goes on after any of its events.
    nodes[0].until_copies(0).await;
    let mut events = nodes[1].get(&session, Some(&ids[0])).await;
    let again = [next_with(&mut events, resources).await, next_with(&mut events, resources).await];
    assert_eq!(again, ids[1..]);
}

/// Returns the id of the next event that contains this text.
pub(crate) async fn next_with(events: &mut Events, text: &str) -> String {
    loop {
        let event = events.next().await.expect("an event");
        if event.data.is_some_and(|data| data.contains(text)) {
            return event.id.expect("an id");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_and_what_a_handler_has_kept_keep_the_copy() {
    let (redis, handlers) = (RedisServer::start(&[]), Handlers::default());
    let nodes = Node::two(&redis.url(), &handlers, &limits(100, AT_ONCE)).await;
    let open = async || nodes[0].connect().await.initialize("2025-11-25", json!({})).await;
    let (listening, kept) = (open().await, open().await);
    let mut events = nodes[0].get(&listening, None).await;
    assert_eq!(nodes[0].ask(&[&kept], &call(1, "keep", json!({}))).await, 200);
    handlers.until_running(1).await;
    // Later ones are dropped, so those before them would have been.
    for _ in 0..5 {
        open().await;
    }
    nodes[0].until_copies(2).await;
    nodes[1].handle.remove_tool("gone");
    assert_eq!(events.message().await["method"], "notifications/tools/list_changed");
    drop(events);
    nodes[0].until_copies(1).await;
    handlers.release.notify_one();
    nodes[0].until_copies(0).await;
    for session in [&listening, &kept] {
        assert_eq!(nodes[1].echo(&[session]).await, 200);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_redis_is_away_no_copy_is_dropped() {
    let mut redis = RedisServer::start(&["--appendonly", "yes", "--appendfsync", "always"]);
    let nodes = Node::two(&redis.url(), &Handlers::default(), &limits(100, AT_ONCE)).await;
    let session = nodes[0].connect().await.initialize("2025-11-25", json!({})).await;
    let events = nodes[0].get(&session, None).await;
    redis.kill();
    eventually("the node has noticed", async || {
        let mut wire = nodes[0].connect().await;
        wire.request("GET /readyz", &["Host: localhost"], "").await;
        wire.answer().await.status() == 503
    })
    .await;
    drop(events);
    for _ in 0..40 {
        assert_eq!(nodes[0].echo(&[&session]).await, 200);
        tokio::time::sleep(AT_ONCE / 2).await;
    }
    tokio::task::block_in_place(|| redis.restart());
    nodes[0].until_copies(0).await;
    for node in &nodes {
        eventually("the session goes on", async || node.echo(&[&session]).await == 200).await;
    }
}
