//! Clients that send long bodies to tools that do not finish. The bodies count towards their limit as long as anything
//! of them is in memory, whatever the clients do, and the memory of the process stays bounded.

use std::net::SocketAddr;
use std::time::Duration;

use barewire::server::Tool;
use barewire::server::http::HttpLimits;

use super::process::{in_own_process, peak};
use super::wire::Wire;
use super::{LoadServer, Text, before_deadline, echo, limits, report, requests, threads};

#[test]
fn bodies_of_abandoned_legacy_calls_are_counted() {
    if in_own_process("bodies::bodies_of_abandoned_legacy_calls_are_counted") {
        threads().block_on(abandoned_legacy_calls());
        memory_is_bounded();
    }
}

#[test]
fn bodies_of_open_modern_calls_are_counted() {
    if in_own_process("bodies::bodies_of_open_modern_calls_are_counted") {
        threads().block_on(open_modern_calls());
        memory_is_bounded();
    }
}

#[test]
fn bodies_of_abandoned_blocking_handlers_are_counted() {
    if in_own_process("bodies::bodies_of_abandoned_blocking_handlers_are_counted") {
        threads().block_on(abandoned_blocking_calls());
        memory_is_bounded();
    }
}

/// Eight sessions send 20 long calls each, and leave as soon as the response is a stream.
async fn abandoned_legacy_calls() {
    let server = LoadServer::start(waiting(), quick()).await;
    let mut sessions = Vec::new();
    for _ in 0..8 {
        sessions.push(Wire::connect(server.addr).await.initialize().await);
    }
    let mut accepted = 0;
    for id in 1..=20 {
        for session in &sessions {
            let call = requests::session_call(session, id, "wait", &long_text());
            let status = status(server.addr, &call).await.0;
            accepted += usize::from(is_accepted(status));
        }
    }
    assert_eq!(accepted, MAX_BODIES);
    server.is_alive().await;
    // A session that ends drops its calls, and their bodies with them.
    for session in &sessions {
        Wire::connect(server.addr).await.ask(&requests::delete(session)).await;
    }
    has_room(&server).await;
    server.end().await;
}

/// Modern clients send long calls, with and without an announced length, and keep their connections open.
async fn open_modern_calls() {
    let server = LoadServer::start(waiting(), quick()).await;
    let mut accepted = Vec::new();
    for id in 0..80 {
        let call = requests::call(id, "wait", &long_text());
        let call = if id % 2 == 0 { call } else { requests::chunked(&call) };
        let (status, wire) = status(server.addr, &call).await;
        accepted.extend(is_accepted(status).then_some(wire));
    }
    assert_eq!(accepted.len(), MAX_BODIES);
    server.is_alive().await;
    drop(accepted);
    has_room(&server).await;
    server.end().await;
}

/// Modern clients leave while their handlers run on threads, which do not notice it.
async fn abandoned_blocking_calls() {
    let (release, released) = std::sync::mpsc::channel::<()>();
    let released = std::sync::Arc::new(std::sync::Mutex::new(released));
    let (begin, mut begun) = tokio::sync::mpsc::unbounded_channel();
    let tool = Tool::new("block", "Blocks its thread", move |Text { text }| {
        let (released, begin) = (std::sync::Arc::clone(&released), begin.clone());
        async move {
            begin.send(()).expect("the test waits for it");
            // Every handler waits until the test drops the sender.
            let _ = released.lock().expect("no panic").recv();
            text
        }
    });
    let server = LoadServer::start(echo().with(tool.blocking()), quick()).await;
    let mut accepted = 0;
    for id in 0..60 {
        let (status, wire) = status(server.addr, &requests::call(id, "block", &long_text())).await;
        if is_accepted(status) {
            // If the client left before the handler has a thread, the handler would never run, nor keep its body.
            before_deadline("a handler", begun.recv()).await.expect("a handler");
            accepted += 1;
        }
        drop(wire);
    }
    assert_eq!(accepted, MAX_BODIES);
    drop(release);
    has_room(&server).await;
    server.end().await;
}

/// Sends a request, and returns the status of its response. A call that does not finish has the status 200 as soon as
/// its response is a stream.
async fn status(addr: SocketAddr, request: &[u8]) -> (u16, Wire) {
    let mut wire = Wire::connect(addr).await;
    // The server refuses a body before it is read, so the rest may not be sent.
    let _ = wire.send(request).await;
    let head = before_deadline("a response", wire.head()).await.expect("a response");
    (head.status, wire)
}

fn is_accepted(status: u16) -> bool {
    assert!(status == 200 || status == 503, "{status}");
    status == 200
}

/// Waits until a long body is accepted again.
async fn has_room(server: &LoadServer) {
    let call = requests::call(1, "echo", &long_text());
    let deadline = tokio::time::Instant::now() + super::DEADLINE;
    while status(server.addr, &call).await.0 != 200 {
        assert!(tokio::time::Instant::now() < deadline, "the bodies still count");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

fn waiting() -> barewire::Server {
    echo().tool("wait", "Waits for ever", |Text { text }| async move {
        std::future::pending::<()>().await;
        text
    })
}

/// The default limits, except that a slow response becomes a stream soon.
fn quick() -> HttpLimits {
    limits(|limits| limits.keep_alive = Duration::from_millis(50))
}

/// Returns arguments of slightly less than 4 MiB, the maximum length of a body.
fn long_text() -> String {
    format!(r#"{{"text":"{}"}}"#, "x".repeat(4 * 1024 * 1024 - 1024))
}

fn memory_is_bounded() {
    let mib = peak() / 1024;
    report(&format!("peak {mib} MiB"));
    assert!(mib < 320, "{mib} MiB");
}

/// The number of bodies of 4 MiB that may be in memory at the same time.
const MAX_BODIES: usize = 32;
