//! What a call costs at a node of a cluster, beside one node that keeps everything in memory; what a session takes in
//! Redis; and how long a resumed stream takes to go on. The figures of `docs/scaling.md` are from here:
//! `cargo test --release -p barewire-redis --test all -- --ignored --nocapture load::marks`

use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::process::Child;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::http::{Event, HttpClient, HttpResponse};
use super::node;
use crate::redis_server::{RedisServer, free_port, new_folder};

/// A node without a balancer.
struct SingleNode {
    port: u16,
    child: Child,
    folder: PathBuf,
}

impl SingleNode {
    async fn start(redis: Option<&RedisServer>) -> Self {
        let (port, folder) = (free_port(), new_folder());
        let url = redis.map(RedisServer::url);
        let child = node::start(port, url.as_deref(), &folder.join("ran"), &folder.join("log"));
        let node = Self { port, child, folder };
        let start = Instant::now();
        while tokio::net::TcpStream::connect(("127.0.0.1", port)).await.is_err() {
            let log = fs::read_to_string(node.folder.join("log")).unwrap_or_default();
            assert!(start.elapsed() < Duration::from_secs(20), "the node starts:\n{log}");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        node
    }

    fn kill(&mut self) {
        self.child.kill().expect("it is our child");
        self.child.wait().expect("it is our child");
    }

    /// Returns the processor time that the node has used, in ticks of 10 ms.
    fn cpu_time(&self) -> Duration {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.child.id())).expect("Linux");
        let fields: Vec<&str> = stat.rsplit(") ").next().expect("fields").split(' ').collect();
        let ticks = |field: usize| fields[field].parse::<u64>().expect("a number");
        Duration::from_millis((ticks(11) + ticks(12)) * 10)
    }
}

impl Drop for SingleNode {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Opens a session, and returns its headers.
async fn open_session(http: &mut HttpClient) -> String {
    let params = json!({
        "protocolVersion": "2025-11-25",
        "capabilities": {"elicitation": {}},
        "clientInfo": {"name": "marks", "version": "1.0.0"},
    });
    let message = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params});
    let mut response = http.post("", &message).await.expect("a response");
    let text = response.text().await.expect("a text");
    assert_eq!(response.status, 200, "{text}");
    let headers = format!(
        "Mcp-Session-Id: {}\r\nMCP-Protocol-Version: 2025-11-25\r\n",
        response.session.clone().expect("a session")
    );
    http.keep(response);
    let message = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    let mut response = http.post(&headers, &message).await.expect("a response");
    assert_eq!(response.status, 202);
    response.text().await.expect("no text");
    http.keep(response);
    headers
}

/// Calls a tool in a session.
async fn call(http: &mut HttpClient, session: &str, id: u64, tool: &str, arguments: Value) -> HttpResponse {
    let params = json!({"name": tool, "arguments": arguments, "_meta": {"progressToken": id}});
    let message = json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params});
    http.post(session, &message).await.expect("a response")
}

async fn echo(http: &mut HttpClient, session: Option<&str>, id: u64) {
    let arguments = json!({"token": "0123456789012345678901234567890123456789012345678901234567890123"});
    let mut response = match session {
        Some(session) => call(http, session, id, "echo", arguments).await,
        None => {
            let meta = json!({
                "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                "io.modelcontextprotocol/clientCapabilities": {},
            });
            let params = json!({"name": "echo", "arguments": arguments, "_meta": meta});
            let message = json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params});
            let headers = "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: echo\r\n";
            http.post(headers, &message).await.expect("a response")
        }
    };
    assert_eq!(response.status, 200);
    let text = response.text().await.expect("a text");
    assert!(text.contains("0123456789"), "{text}");
    http.keep(response);
}

/// What some calls have cost.
#[derive(Debug, Default, Clone, Copy)]
struct Cost {
    calls: u64,
    time: Duration,
    cpu: Duration,
}

impl Cost {
    fn add(&mut self, other: Self) {
        self.calls += other.calls;
        self.time += other.time;
        self.cpu += other.cpu;
    }

    fn per_second(self) -> f64 {
        self.calls as f64 / self.time.as_secs_f64()
    }

    fn cpu_each(self) -> f64 {
        self.cpu.as_secs_f64() * 1e6 / self.calls as f64
    }
}

/// Calls a node for a while, over many connections.
async fn measure(node: &SingleNode, is_legacy: bool, time: Duration) -> Cost {
    let mut clients = Vec::new();
    for _ in 0..CONNECTIONS {
        let mut http = HttpClient::new(node.port);
        let session = if is_legacy { Some(open_session(&mut http).await) } else { None };
        clients.push((http, session));
    }
    let (start, cpu) = (Instant::now(), node.cpu_time());
    let mut running = JoinSet::new();
    for (mut http, session) in clients {
        running.spawn(async move {
            let mut calls = 0;
            while start.elapsed() < time {
                calls += 1;
                echo(&mut http, session.as_deref(), calls).await;
            }
            calls
        });
    }
    let calls = running.join_all().await.into_iter().sum();
    Cost { calls, time: start.elapsed(), cpu: node.cpu_time() - cpu }
}

/// Returns how often Redis has run a command.
fn count(redis: &RedisServer, command: &str) -> u64 {
    let stats = redis.command(&["INFO", "commandstats"]);
    let line =
        stats.lines().find_map(|line| line.strip_prefix(&format!("cmdstat_{command}:calls="))?.split(',').next());
    line.map_or(0, |count| count.parse().expect("a number"))
}

fn used_memory(redis: &RedisServer) -> u64 {
    let info = redis.command(&["INFO", "memory"]);
    let used = info.lines().find_map(|line| line.strip_prefix("used_memory:")).expect("the memory");
    used.trim().parse().expect("a number")
}

/// Returns the memory in Redis of one idle session that has made a call.
async fn session_memory(redis: &RedisServer, node: &SingleNode, sessions: u64) -> u64 {
    let mut http = HttpClient::new(node.port);
    let before = used_memory(redis);
    for id in 0..sessions {
        let session = open_session(&mut http).await;
        echo(&mut http, Some(&session), id + 1).await;
    }
    (used_memory(redis) - before) / sessions
}

#[tokio::test]
async fn an_idle_session_takes_less_than_2_kib_in_redis() {
    let redis = RedisServer::start(&[]);
    let node = SingleNode::start(Some(&redis)).await;
    // The buffers of connections and the first keys are no part of a session.
    session_memory(&redis, &node, 5).await;
    let each = session_memory(&redis, &node, 300).await;
    assert!((200..2048).contains(&each), "{each} bytes");
}

/// Commands of the lease and of the inbox go on beside the calls; none of these is among them. The first call of a
/// minute also extends the life of the session.
#[tokio::test]
async fn a_legacy_call_is_one_command_and_a_modern_one_none() {
    let redis = RedisServer::start(&[]);
    let node = SingleNode::start(Some(&redis)).await;
    let mut http = HttpClient::new(node.port);
    let session = open_session(&mut http).await;
    // Those of the refreshed sealing keys come a minute later.
    let commands = ["get", "getex", "set", "rpush", "lrange", "xadd", "unlink", "multi", "evalsha"];
    let before = commands.map(|command| count(&redis, command));
    for id in 1..=50 {
        echo(&mut http, None, id).await;
    }
    assert_eq!(commands.map(|command| count(&redis, command)), before, "{commands:?}");
    for id in 1..=50 {
        echo(&mut http, Some(&session), id).await;
    }
    let mut expected = before;
    // `notifications/initialized` was the first request of the session.
    expected[0] += 50;
    assert_eq!(commands.map(|command| count(&redis, command)), expected, "{commands:?}");
}

/// Reads events until one has a message.
async fn next_message(response: &mut HttpResponse) -> Event {
    loop {
        let event = response.event().await.expect("the stream goes on").expect("the stream has not ended");
        if event.message.is_some() {
            return event;
        }
    }
}

/// Begins a stream at one node, and resumes it at another one. Returns the time until that has the next event.
async fn resume_time(one: &mut SingleNode, other: &SingleNode, is_killed: bool) -> Duration {
    let mut http = HttpClient::new(one.port);
    let session = open_session(&mut http).await;
    // The other node knows the session, as after a while it does.
    echo(&mut HttpClient::new(other.port), Some(&session), 1).await;
    let arguments = json!({"token": "marks", "steps": 1000, "ms": 5});
    let mut response = call(&mut http, &session, 2, "step", arguments).await;
    let mut last = None;
    for _ in 0..5 {
        last = next_message(&mut response).await.id;
    }
    // What the client has seen is in the store after a moment, or it would be told that events are missing.
    tokio::time::sleep(Duration::from_millis(20)).await;
    drop(response);
    let start = Instant::now();
    if is_killed {
        one.kill();
    }
    let mut resumed = HttpClient::new(other.port).resume(&session, &last.expect("an id")).await.expect("a response");
    assert!(resumed.is_stream(), "status {}", resumed.status);
    loop {
        let message = next_message(&mut resumed).await.message.expect("a message");
        let is_error = message.get("error").is_some();
        if is_killed == is_error {
            return start.elapsed();
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "measures"]
async fn marks() {
    let redis = RedisServer::start(&[]);
    let (alone, node) = (SingleNode::start(None).await, SingleNode::start(Some(&redis)).await);
    let mut report = String::from("\n");
    for (name, is_legacy, least) in [("modern", false, 0.95), ("legacy", true, 0.7)] {
        let (mut in_memory, mut in_cluster) = (Cost::default(), Cost::default());
        // In turns, so that what else the machine does falls on both.
        for _ in 0..ROUNDS {
            in_memory.add(measure(&alone, is_legacy, ROUND_TIME).await);
            in_cluster.add(measure(&node, is_legacy, ROUND_TIME).await);
        }
        for (place, cost) in [("in memory", in_memory), ("in a cluster", in_cluster)] {
            let (calls, cpu) = (cost.per_second(), cost.cpu_each());
            report += &format!("{name} calls {place:<13} {calls:>8.0} a second {cpu:>7.1} us of CPU\n");
        }
        let rate = in_cluster.per_second() / in_memory.per_second();
        let cpu = in_memory.cpu_each() / in_cluster.cpu_each();
        report += &format!("{name} calls, cluster to memory: rate {rate:.2}, CPU {cpu:.2} (mark: {least})\n");
    }
    let mut other = SingleNode::start(Some(&redis)).await;
    let mut times = Vec::new();
    for _ in 0..30 {
        times.push(resume_time(&mut other, &node, false).await);
    }
    times.sort_unstable();
    report += &format!("a resumed stream goes on after {:.1?} (median of {})\n", times[times.len() / 2], times.len());
    let mut times = Vec::new();
    for _ in 0..3 {
        let mut victim = SingleNode::start(Some(&redis)).await;
        times.push(resume_time(&mut victim, &node, true).await);
    }
    report += &format!("if its node was killed, it ends with an error after {times:.1?}\n");
    let appended = count(&redis, "rpush");
    let start = Instant::now();
    let mut running = JoinSet::new();
    for _ in 0..8 {
        let port = node.port;
        running.spawn(async move {
            let mut http = HttpClient::new(port);
            let session = open_session(&mut http).await;
            for id in 1..=20 {
                let arguments = json!({"token": "marks", "steps": 500, "ms": 0});
                let mut response = call(&mut http, &session, id, "step", arguments).await;
                response.text().await.expect("the whole stream");
                http.keep(response);
            }
        });
    }
    running.join_all().await;
    let rate = (count(&redis, "rpush") - appended) as f64 / start.elapsed().as_secs_f64();
    report += &format!("events of streams that a node writes to Redis: {rate:.0} a second\n");
    let each = session_memory(&redis, &node, 5000).await;
    report += &format!("an idle session takes {each} bytes in Redis\n");
    std::io::stderr().write_all(report.as_bytes()).expect("stderr");
}

const CONNECTIONS: usize = 16;

/// The number of measurements of each kind, and the time of each.
const ROUNDS: usize = 4;
const ROUND_TIME: Duration = Duration::from_millis(1500);
