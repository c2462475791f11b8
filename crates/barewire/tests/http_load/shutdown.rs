//! A shutdown in the middle of everything: streams end after their final messages, calls finish, and it takes a bounded
//! time.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use barewire::Server;
use barewire::server::Call;
use serde_json::Value;
use tokio::net::TcpStream;
use tokio::task::JoinHandle;

use super::wire::{Wire, text};
use super::{DEADLINE, LoadServer, Text, before_deadline, echo, limits, report, requests, threads, until};

#[test]
fn running_requests_finish_on_shutdown() {
    threads().block_on(run(5));
}

#[test]
#[ignore = "long: 5,000 connections"]
fn five_thousand_connections_finish_on_shutdown() {
    super::process::allow_files(11_000);
    threads().block_on(run(1_000));
}

#[test]
fn stuck_requests_are_aborted_on_shutdown() {
    threads().block_on(stuck());
}

/// Returns a server whose tools take a while, and the number of calls that have started. `reporting` reports progress
/// first.
fn server(time: Duration) -> (Server, Arc<AtomicUsize>) {
    let started: Arc<AtomicUsize> = Arc::default();
    let (slow, reporting) = (Arc::clone(&started), Arc::clone(&started));
    let server = echo()
        .tool("slow", "Takes a while", move |Text { text }| {
            slow.fetch_add(1, Ordering::SeqCst);
            async move {
                tokio::time::sleep(time).await;
                text
            }
        })
        .tool("reporting", "Says something, and takes a while", move |call: Call, Text { text }| {
            let reporting = Arc::clone(&reporting);
            async move {
                call.progress(1, None, None).await.expect("the client is there");
                reporting.fetch_add(1, Ordering::SeqCst);
                tokio::time::sleep(time).await;
                text
            }
        });
    (server, started)
}

async fn run(each: u64) {
    // Long enough that all calls have started before the first one finishes.
    let time = Duration::from_millis(700 + 2 * each);
    let (server, started) = server(time);
    let limits = limits(|limits| limits.grace = 4 * DEADLINE);
    let load_server = LoadServer::start(server, limits).await;
    let addr = load_server.addr;
    let mut listens = Vec::new();
    let mut unasked = Vec::new();
    let mut sessions = Vec::new();
    for id in 0..each {
        let mut listen = Wire::connect(addr).await;
        listen.send(&requests::listen(id)).await.expect("sent");
        listen.head().await.expect("a stream");
        listen.event().await.expect("a stream").expect("an acknowledgement");
        listens.push(tokio::spawn(async move { (id, rest(listen).await) }));
        let mut wire = Wire::connect(addr).await;
        let session = wire.initialize().await;
        wire.send(&requests::get(&session, None)).await.expect("sent");
        wire.head().await.expect("a stream");
        unasked.push(tokio::spawn(rest(wire)));
        sessions.push(session);
    }
    let idle = Wire::connect(addr).await;
    let mut calls: Vec<JoinHandle<(u64, String)>> = Vec::new();
    for (id, session) in (0..).zip(sessions) {
        calls.push(tokio::spawn(call(addr, id, requests::call(id, "slow", &argument(id)))));
        calls.push(tokio::spawn(call(addr, id, requests::call(id, "reporting", &argument(id)))));
        let in_session = |tool| requests::session_call(&session, id, tool, &argument(id));
        calls.push(tokio::spawn(call(addr, id, in_session("slow"))));
        calls.push(tokio::spawn(call(addr, id + each, {
            requests::session_call(&session, id + each, "reporting", &argument(id + each))
        })));
    }
    until("all calls have started", || started.load(Ordering::SeqCst) == calls.len()).await;
    let stopped = Instant::now();
    load_server.stop.stop();
    // New connections are refused.
    let refused = async { while TcpStream::connect(addr).await.is_ok() {} };
    before_deadline("refused connections", refused).await;
    for listen in listens {
        let (id, messages) = before_deadline("the end of a listen", listen).await.expect("it ends in order");
        assert_eq!(messages.len(), 1, "{messages:?}");
        assert_eq!((messages[0]["id"].as_u64(), &messages[0]["result"]["resultType"]), (Some(id), &"complete".into()));
    }
    let streams = stopped.elapsed();
    for stream in unasked {
        let messages = before_deadline("the end of a stream", stream).await.expect("it ends in order");
        assert!(messages.is_empty(), "{messages:?}");
    }
    assert_eq!(before_deadline("the end of an idle connection", idle.rest()).await, b"");
    for call in calls {
        let (id, text) = before_deadline("the answer to a call", call).await.expect("it is answered");
        assert_eq!(text, format!("of {id}"));
    }
    before_deadline("the end", load_server.running).await.expect("no panic");
    // Nothing has waited for the end of the grace period.
    let all = stopped.elapsed();
    report(&format!("shutdown: {each} listens over after {streams:?}, {} calls after {all:?}", 4 * each));
    assert!(all < 4 * DEADLINE, "{all:?}");
}

/// Calls that never finish are aborted.
async fn stuck() {
    let (server, started) = server(Duration::from_secs(3600));
    let grace = Duration::from_millis(500);
    let load_server = LoadServer::start(server, limits(|limits| limits.grace = grace)).await;
    let mut wires = Vec::new();
    for tool in ["slow", "reporting"] {
        let mut wire = Wire::connect(load_server.addr).await;
        wire.send(&requests::call(1, tool, &argument(1))).await.expect("sent");
        wires.push(wire);
        let mut wire = Wire::connect(load_server.addr).await;
        let session = wire.initialize().await;
        wire.send(&requests::session_call(&session, 1, tool, &argument(1))).await.expect("sent");
        wires.push(wire);
    }
    // And one that has sent half of a request.
    let mut half = Wire::connect(load_server.addr).await;
    half.send(b"POST /mcp HTTP/1.1\r\nHost: localh").await.expect("sent");
    wires.push(half);
    until("all calls have started", || started.load(Ordering::SeqCst) == 4).await;
    load_server.stop.stop();
    // The calls would take an hour.
    before_deadline("the end", load_server.running).await.expect("no panic");
    for wire in wires {
        before_deadline("a closed connection", wire.rest()).await;
    }
}

fn argument(id: u64) -> String {
    format!(r#"{{"text":"of {id}"}}"#)
}

/// Sends a call on a connection of its own.
async fn call(addr: SocketAddr, id: u64, request: Vec<u8>) -> (u64, String) {
    let mut wire = Wire::connect(addr).await;
    wire.send(&request).await.expect("sent");
    (id, text(&wire.answer().await, id))
}

/// Returns all remaining messages. The stream must end in order.
async fn rest(mut wire: Wire) -> Vec<Value> {
    let mut messages = Vec::new();
    while let Some(event) = wire.event().await.expect("it ends in order") {
        messages.push(event.message);
    }
    messages
}
