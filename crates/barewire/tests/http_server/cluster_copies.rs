//! Copies of sessions that are made while something else happens to the session.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use barewire::Server;
use barewire::mcp::LoggingLevel;
use barewire::server::http::HttpLimits;
use barewire::server::http::cluster::{ClusterFuture, ClusterStore, LogEntry, MemoryCluster, MemoryNode, Record};
use barewire::server::{Call, Resource, ServerHandle};
use bytes::Bytes;
use serde_json::{Value, json};
use tokio::sync::oneshot;

use crate::TestSite;
use crate::eventually::DEADLINE;
use crate::site::{RunningHandlers, test_server_of};
use crate::wire::{Events, Wire, call};

/// A store that holds back what it has read of sessions.
struct SlowReads {
    node: MemoryNode,
    gate: Arc<Gate>,
}

#[derive(Default)]
struct Gate {
    is_closed: AtomicBool,
    waiting: Mutex<VecDeque<oneshot::Sender<()>>>,
    /// The number of messages that have arrived from other nodes.
    received: AtomicUsize,
}

impl Gate {
    async fn pass(&self) {
        if self.is_closed.load(Ordering::SeqCst) {
            let (open, opened) = oneshot::channel();
            self.waiting.lock().expect("no panic").push_back(open);
            let _ = opened.await;
        }
    }

    async fn until_waiting(&self, count: usize) {
        until("reads wait", async || self.waiting.lock().expect("no panic").len() == count).await;
    }

    /// Lets the read through that waits for the longest time.
    fn open_once(&self) {
        let open = self.waiting.lock().expect("no panic").pop_front().expect("one waits");
        open.send(()).expect("it waits");
    }
}

impl ClusterStore for SlowReads {
    fn node(&self) -> u32 {
        self.node.node()
    }

    fn nodes(&self) -> ClusterFuture<'_, Vec<u32>> {
        self.node.nodes()
    }

    fn create<'a>(&'a self, name: &'a str, value: Bytes, lifetime: Duration) -> ClusterFuture<'a, Option<u64>> {
        self.node.create(name, value, lifetime)
    }

    fn read<'a>(&'a self, name: &'a str, lifetime: Option<Duration>) -> ClusterFuture<'a, Option<Record>> {
        Box::pin(async move {
            let record = self.node.read(name, lifetime).await;
            if name.starts_with("session/") {
                self.gate.pass().await;
            }
            record
        })
    }

    fn replace<'a>(
        &'a self,
        name: &'a str,
        version: u64,
        value: Bytes,
        lifetime: Duration,
    ) -> ClusterFuture<'a, Option<u64>> {
        self.node.replace(name, version, value, lifetime)
    }

    fn remove<'a>(&'a self, name: &'a str) -> ClusterFuture<'a, bool> {
        self.node.remove(name)
    }

    fn append(&self, entries: Vec<LogEntry>) -> ClusterFuture<'_, ()> {
        self.node.append(entries)
    }

    fn log<'a>(&'a self, name: &'a str) -> ClusterFuture<'a, Vec<Bytes>> {
        self.node.log(name)
    }

    fn send(&self, to: u32, message: Bytes) -> ClusterFuture<'_, ()> {
        self.node.send(to, message)
    }

    fn receive(&self) -> ClusterFuture<'_, Vec<Bytes>> {
        Box::pin(async move {
            let messages = self.node.receive().await?;
            self.gate.received.fetch_add(messages.len(), Ordering::SeqCst);
            Ok(messages)
        })
    }
}

/// Two nodes, of which the second one reads slowly. It has served the session, and has no copy of it any more.
struct Site {
    nodes: [TestSite; 2],
    handles: [ServerHandle; 2],
    gate: Arc<Gate>,
    running: RunningHandlers,
    session: String,
}

impl Site {
    /// Opens a session at one of the nodes.
    async fn with_session_at(home: usize) -> Self {
        let (memory, running, gate) = (MemoryCluster::default(), RunningHandlers::default(), Arc::default());
        let mut limits = HttpLimits::default();
        (limits.session_idle, limits.session_copy_idle) = (SESSION_IDLE, Duration::from_millis(20));
        let warn = |call: Call| async move {
            call.log(LoggingLevel::Warning, "careful").await?;
            Ok::<_, barewire::peer::CallError>("warned")
        };
        let servers = [(); 2].map(|()| {
            test_server_of(&running).tool("warn", "Logs a warning", warn).with(Resource::text("a://1", "one", "1"))
        });
        let http = |server: &Server| server.http().limits(limits.clone()).metrics("/metrics");
        let slow = SlowReads { node: memory.join(), gate: Arc::clone(&gate) };
        let nodes = [
            TestSite::listening(http(&servers[0]).cluster(memory.join())).await,
            TestSite::listening(http(&servers[1]).cluster(slow)).await,
        ];
        let session = Wire::to(nodes[home].addr).await.initialize("2025-11-25", json!({})).await;
        let handles = servers.map(|server| server.handle());
        let this = Self { nodes, handles, gate, running, session };
        let echo = call(1, "echo", json!({"text": "x"}));
        assert_eq!(this.connect(1).await.ask(&[&this.session], &echo).await.status(), 200);
        until("the copy is dropped", async || {
            let mut wire = this.connect(1).await;
            wire.request("GET /metrics", &["Host: localhost"], "").await;
            wire.answer().await.body.contains("barewire_sessions 0\n")
        })
        .await;
        this.gate.is_closed.store(true, Ordering::SeqCst);
        this
    }

    async fn connect(&self, node: usize) -> Wire {
        Wire::to(self.nodes[node].addr).await
    }
}

async fn until(what: &str, holds: impl AsyncFn() -> bool) {
    let start = Instant::now();
    while !holds().await {
        assert!(start.elapsed() < DEADLINE, "not in time: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// A request that has read a later record finds a copy that another one has made of an earlier record.
#[tokio::test]
async fn what_was_set_before_a_request_holds_for_it_if_another_one_makes_the_copy() {
    let site = Site::with_session_at(0).await;
    let session = [site.session.as_str()];
    let mut earlier = site.connect(1).await;
    earlier.post(&session, &call(1, "hold", json!({"ms": 60_000}))).await;
    site.gate.until_waiting(1).await;
    let level = json!({"jsonrpc": "2.0", "id": 2, "method": "logging/setLevel", "params": {"level": "error"}});
    assert_eq!(site.connect(0).await.ask(&session, &level).await.status(), 200);
    let mut later = site.connect(1).await;
    later.post(&session, &call(3, "warn", json!({}))).await;
    site.gate.until_waiting(2).await;
    site.gate.open_once();
    site.running.until(1).await;
    site.gate.open_once();
    let answer = later.answer().await;
    assert_eq!(answer.status(), 200);
    assert!(!answer.body.contains("notifications/message"), "{}", answer.body);
}

/// A session is ended while a node makes a copy of it: the stream of that copy does not stay open for ever.
#[tokio::test]
async fn a_stream_of_a_session_that_has_ended_ends() {
    let site = Site::with_session_at(0).await;
    let mut wire = site.connect(1).await;
    wire.get(&[&site.session]).await;
    site.gate.until_waiting(1).await;
    let before = site.gate.received.load(Ordering::SeqCst);
    assert_eq!(site.connect(0).await.delete(&site.session).await.status(), 200);
    until("the other node has heard of it", async || site.gate.received.load(Ordering::SeqCst) > before).await;
    site.gate.is_closed.store(false, Ordering::SeqCst);
    site.gate.open_once();
    let ended = async {
        let mut events = Events::of(wire).await;
        while events.next().await.is_some() {}
    };
    tokio::time::timeout(DEADLINE, ended).await.expect("the stream ends");
}

/// A client subscribes while the node that tells it of updates makes a copy of the session.
#[tokio::test]
async fn a_subscription_is_not_missed_by_a_copy_that_is_being_made() {
    let site = Site::with_session_at(1).await;
    let before = site.gate.received.load(Ordering::SeqCst);
    let mut wire = site.connect(0).await;
    wire.get(&[&site.session]).await;
    site.gate.until_waiting(1).await;
    let subscribe = json!({"jsonrpc": "2.0", "id": 2, "method": "resources/subscribe", "params": {"uri": "a://1"}});
    assert_eq!(site.connect(0).await.ask(&[&site.session], &subscribe).await.status(), 200);
    let received = async || site.gate.received.load(Ordering::SeqCst) >= before + 2;
    until("the wish for the stream and the change have arrived", received).await;
    site.gate.is_closed.store(false, Ordering::SeqCst);
    site.gate.open_once();
    let mut events = Events::of(wire).await;
    site.handles[1].updated("a://1");
    assert_eq!(events.message().await["method"], "notifications/resources/updated");
}

/// A session is served by one node after the other, and each of them dies.
#[tokio::test]
async fn a_session_that_outlives_many_nodes_forgets_them() {
    let (memory, running) = (MemoryCluster::default(), RunningHandlers::default());
    let observer = memory.join();
    let start = async || {
        let node = memory.join();
        let number = node.node();
        (TestSite::listening(test_server_of(&running).http().cluster(node)).await, number)
    };
    let (first, _) = start().await;
    let session = Wire::to(first.addr).await.initialize("2025-11-25", json!({})).await;
    let name = format!("session/{}", session.split_once(": ").expect("a header").1);
    let mut most = 0;
    for _ in 0..50 {
        let (site, number) = start().await;
        let echo = call(1, "echo", json!({"text": "x"}));
        assert_eq!(Wire::to(site.addr).await.ask(&[&session], &echo).await.status(), 200);
        memory.cut_off(number, true);
        site.running.abort();
        let record = observer.read(&name, None).await.expect("it is there").expect("it is there");
        let record: Value = serde_json::from_slice(&record.value).expect("JSON");
        most = most.max(record["nodes"].as_array().expect("a list").len());
    }
    assert!((20..40).contains(&most), "{most}");
    let echo = call(1, "echo", json!({"text": "x"}));
    assert_eq!(Wire::to(first.addr).await.ask(&[&session], &echo).await.status(), 200);
}

/// A third of it is the time after which a session in use is looked for in the store.
const SESSION_IDLE: Duration = Duration::from_secs(12);
