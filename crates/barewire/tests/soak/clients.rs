//! The clients of a soak: correct ones of both eras, and clients that vanish, send slowly or send nonsense. Each
//! operation checks the responses that it gets.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinHandle;

use super::requests;
use super::wire::{Wire, text};

/// The clients, on a runtime of their own.
pub(super) struct Load {
    runtime: Runtime,
    clients: Vec<JoinHandle<()>>,
    shared: Arc<LoadState>,
}

#[derive(Default)]
struct LoadState {
    is_stopped: AtomicBool,
    counts: [AtomicUsize; OPERATIONS.len()],
}

impl Load {
    pub(super) fn start(server: SocketAddr) -> Self {
        let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
        let shared = Arc::<LoadState>::default();
        let clients = (1..=CLIENTS).map(|seed| runtime.spawn(client(server, Random(seed), Arc::clone(&shared))));
        let clients = clients.collect();
        Self { runtime, clients, shared }
    }

    /// Runs the clients for this long.
    pub(super) fn run_for(&self, time: Duration) {
        self.runtime.block_on(async { tokio::time::sleep(time).await });
        let failed = self.clients.iter().filter(|client| client.is_finished()).count();
        assert_eq!(failed, 0, "clients have failed");
    }

    /// Returns the number of operations so far.
    pub(super) fn operations(&self) -> usize {
        self.shared.counts.iter().map(|count| count.load(Ordering::Relaxed)).sum()
    }

    /// Stops the clients, and returns how often each operation was run.
    pub(super) fn stop(self) -> Vec<(&'static str, usize)> {
        self.shared.is_stopped.store(true, Ordering::Relaxed);
        for client in self.clients {
            self.runtime.block_on(client).expect("no client has failed");
        }
        let counts = self.shared.counts.iter().map(|count| count.load(Ordering::Relaxed));
        OPERATIONS.into_iter().zip(counts).collect()
    }
}

/// Runs operations, chosen at random, one after the other.
async fn client(server: SocketAddr, mut random: Random, shared: Arc<LoadState>) {
    while !shared.is_stopped.load(Ordering::Relaxed) {
        let number = random.below(OPERATIONS.len());
        let name = OPERATIONS[number];
        let operation = run(name, server, &mut random);
        let done = tokio::time::timeout(OPERATION_TIMEOUT, operation).await;
        assert!(done.is_ok(), "not within {OPERATION_TIMEOUT:?}: {name}");
        shared.counts[number].fetch_add(1, Ordering::Relaxed);
        tokio::time::sleep(Duration::from_millis(random.number(100))).await;
    }
}

const OPERATIONS: [&str; 15] = [
    "modern calls",
    "modern stream",
    "modern client that vanishes",
    "modern listen",
    "long body",
    "session",
    "silent session",
    "GET stream, broken and resumed",
    "cancelled call",
    "abandoned call",
    "question",
    "bad requests",
    "half a request",
    "lines without HTTP",
    "slow sender",
];

async fn run(name: &str, server: SocketAddr, random: &mut Random) {
    match name {
        "modern calls" => {
            let mut wire = Wire::connect(server).await;
            for id in 1..=1 + random.number(8) {
                let text_sent = format!("call {id}");
                wire.send(&requests::call(id, "echo", &format!(r#"{{"text":"{text_sent}"}}"#))).await.expect("sent");
                assert_eq!(text(&wire.answer().await, id), text_sent);
            }
        }
        "modern stream" => {
            let mut wire = Wire::connect(server).await;
            wire.send(&requests::call(1, "report", r#"{"text":"reported"}"#)).await.expect("sent");
            assert_eq!(wire.head().await.expect("a response").status, 200);
            let mut progress = 0;
            loop {
                let event = wire.event().await.expect("a stream").expect("the answer comes first");
                if event.message.get("id").is_some() {
                    assert_eq!((progress, text(&event.message, 1).as_str()), (3, "reported"));
                    return;
                }
                progress += 1;
            }
        }
        "modern client that vanishes" => {
            let mut wire = Wire::connect(server).await;
            let tool = ["wait", "report", "slow"][random.below(3)];
            wire.send(&requests::call(1, tool, r#"{"text":""}"#)).await.expect("sent");
            tokio::time::sleep(Duration::from_millis(random.number(200))).await;
        }
        "modern listen" => {
            let mut wire = Wire::connect(server).await;
            wire.send(&requests::listen(1)).await.expect("sent");
            assert_eq!(wire.head().await.expect("a response").status, 200);
            for _ in 0..=random.number(2) {
                wire.event().await.expect("a stream").expect("a notification");
            }
        }
        "long body" => {
            let mut wire = Wire::connect(server).await;
            let long = "x".repeat(64 * 1024 + random.below(1024 * 1024));
            wire.send(&requests::call(1, "echo", &format!(r#"{{"text":"{long}"}}"#))).await.expect("sent");
            assert_eq!(text(&wire.answer().await, 1).len(), long.len());
        }
        "session" => {
            let mut wire = Wire::connect(server).await;
            let session = wire.initialize().await;
            for id in 1..=1 + random.number(4) {
                let tool = ["echo", "report"][random.below(2)];
                let request = requests::session_call(&session, id, tool, r#"{"text":"in a session"}"#);
                wire.send(&request).await.expect("sent");
                let answer = last_answer(&mut wire).await;
                assert_eq!(text(&answer, id), "in a session");
            }
            leave_or_delete(&mut wire, &session, random).await;
        }
        "silent session" => {
            let (head, _) = Wire::connect(server).await.ask(&requests::initialize()).await;
            assert_eq!(head.status, 200);
        }
        "GET stream, broken and resumed" => {
            let mut wire = Wire::connect(server).await;
            let session = wire.initialize().await;
            let mut last = None;
            for _ in 0..=random.number(2) {
                let mut stream = Wire::connect(server).await;
                stream.send(&requests::get(&session, last.as_deref())).await.expect("sent");
                assert_eq!(stream.head().await.expect("a response").status, 200);
                let event = stream.event().await.expect("a stream").expect("a notification");
                assert_eq!(event.message["method"], "notifications/tools/list_changed");
                last = event.id;
            }
            leave_or_delete(&mut wire, &session, random).await;
        }
        "cancelled call" => {
            let mut wire = Wire::connect(server).await;
            let session = wire.initialize().await;
            let mut calling = Wire::connect(server).await;
            calling.send(&requests::session_call(&session, 7, "wait", r#"{"text":""}"#)).await.expect("sent");
            tokio::time::sleep(Duration::from_millis(random.number(50))).await;
            let cancel = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}"#;
            assert_eq!(wire.ask(&requests::in_session(&session, cancel)).await.0.status, 202);
            leave_or_delete(&mut wire, &session, random).await;
        }
        "abandoned call" => {
            let mut wire = Wire::connect(server).await;
            let session = wire.initialize().await;
            let tool = ["wait", "slow", "report"][random.below(3)];
            wire.send(&requests::session_call(&session, 1, tool, r#"{"text":""}"#)).await.expect("sent");
            tokio::time::sleep(Duration::from_millis(random.number(50))).await;
        }
        "question" => question(server, random).await,
        "bad requests" => {
            for request in bad_requests() {
                let mut wire = Wire::connect(server).await;
                wire.send(&request).await.expect("sent");
                let head = wire.head().await.expect("a refusal");
                assert!((400..500).contains(&head.status), "{head:?}: {}", request.escape_ascii());
            }
        }
        "half a request" => {
            let request = requests::call(1, "echo", r#"{"text":"never whole"}"#);
            let mut wire = Wire::connect(server).await;
            wire.send(&request[..1 + random.below(request.len() - 1)]).await.expect("sent");
            tokio::time::sleep(Duration::from_millis(random.number(50))).await;
        }
        "lines without HTTP" => lines(server, random).await,
        "slow sender" => {
            // The server closes the connection before the head is whole.
            let mut stream = TcpStream::connect(server).await.expect("it listens");
            stream.write_all(b"POST /mcp HTTP/1.1\r\nHost: local").await.expect("sent");
            let mut rest = Vec::new();
            let _ = stream.read_to_end(&mut rest).await;
        }
        _ => unreachable!("every operation is listed"),
    }
}

/// Ends a session, or leaves it to expire.
async fn leave_or_delete(wire: &mut Wire, session: &str, random: &mut Random) {
    if random.below(2) == 0 {
        assert_eq!(wire.ask(&requests::delete(session)).await.0.status, 200);
    }
}

/// Reads the response to a call in a session, as one body or as the last event of a stream.
async fn last_answer(wire: &mut Wire) -> serde_json::Value {
    let head = wire.head().await.expect("a response");
    assert_eq!(head.status, 200);
    if head.header("Transfer-Encoding").is_none() {
        return serde_json::from_slice(&wire.body(&head).await.expect("a body")).expect("JSON");
    }
    let mut last = None;
    while let Some(event) = wire.event().await.expect("a stream") {
        last = Some(event.message);
    }
    last.expect("a stream ends with the answer")
}

/// Answers the question of a tool, or leaves while the tool waits for the answer.
async fn question(server: SocketAddr, random: &mut Random) {
    let mut wire = Wire::connect(server).await;
    let body = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{"elicitation":{}},"clientInfo":{"name":"soak","version":"1"}}}"#;
    let (head, _) = wire.ask(&requests::post("", body)).await;
    let session = head.header("Mcp-Session-Id").expect("a session").to_owned();
    assert_eq!(wire.ask(&requests::initialized(&session)).await.0.status, 202);
    let mut calling = Wire::connect(server).await;
    calling.send(&requests::session_call(&session, 1, "ask", "{}")).await.expect("sent");
    assert_eq!(calling.head().await.expect("a stream").status, 200);
    let question = calling.event().await.expect("a stream").expect("the question").message;
    assert_eq!(question["method"], "elicitation/create");
    if random.below(3) > 0 {
        let id = &question["id"];
        let answer =
            format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"action":"accept","content":{{"name":"me"}}}}}}"#);
        assert_eq!(wire.ask(&requests::in_session(&session, &answer)).await.0.status, 202);
        let event = calling.event().await.expect("a stream").expect("the answer");
        assert_eq!(text(&event.message, 1), "me");
    }
    leave_or_delete(&mut wire, &session, random).await;
}

/// Talks to the same port without HTTP: one message per line, good ones and bad ones.
async fn lines(server: SocketAddr, random: &mut Random) {
    let mut stream = TcpStream::connect(server).await.expect("it listens");
    let lines = [
        r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"soak","version":"1"}}}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
        "neither JSON nor anything else",
        r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#,
        r#"[1,2,3]"#,
        r#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"wait","arguments":{"text":""}}}"#,
        r#"{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"echo","arguments":{"text":"the last one"}}}"#,
    ];
    stream.write_all(format!("{}\n", lines.join("\n")).as_bytes()).await.expect("sent");
    let mut read = Vec::new();
    while !read.windows(12).any(|window| window == b"the last one") {
        assert_ne!(stream.read_buf(&mut read).await.expect("a socket"), 0, "{}", read.escape_ascii());
    }
    if random.below(2) == 0 {
        stream.write_all(b"{\"jsonrpc\":\"2.0\",\"id\":4,\"met").await.expect("sent");
    }
}

/// Returns requests that must be refused.
fn bad_requests() -> Vec<Vec<u8>> {
    let post = |body: &str| requests::post("", body);
    let mut not_utf8 = post(r#"{"jsonrpc":"2.0","id":1,"method":"____"}"#);
    let at = not_utf8.len() - 4;
    not_utf8[at] = 0xff;
    let deep = "[".repeat(10_000);
    vec![
        not_utf8,
        post("not JSON"),
        post("{}"),
        post("[]"),
        post(&deep),
        post(r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#),
        requests::post("Mcp-Session-Id: none\r\n", r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#),
        requests::post("MCP-Protocol-Version: 1999-01-01\r\n", r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#),
        requests::modern(1, "no/such/method", None, ""),
        requests::get("no such session", None),
        requests::delete("no such session"),
        b"POST /mcp HTTP/1.1\r\nHost: evil.example\r\n\r\n".to_vec(),
        b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\n\r\n".to_vec(),
        b"BREW /mcp HTTP/1.1\r\nHost: localhost\r\n\r\n".to_vec(),
        b"GET /nothing HTTP/1.1\r\nHost: localhost\r\n\r\n".to_vec(),
    ]
}

/// Random numbers that are the same in every run.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        // Splitmix64, whose results differ much for seeds that differ little.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number from 0 to `most`.
    fn number(&mut self, most: u64) -> u64 {
        self.next() % (most + 1)
    }

    /// Returns a number below `end`.
    fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.number(u64::try_from(end - 1).expect("a count"))).expect("below a usize")
    }
}

/// The number of clients that run operations at the same time.
const CLIENTS: u64 = 32;

/// Longer than any operation takes, also on a busy machine.
const OPERATION_TIMEOUT: Duration = Duration::from_secs(60);
