//! Thousands of open streams, half of them listens and half GET streams of sessions: each gets one notification of one
//! change.

use std::time::Instant;

use serde_json::Value;
use tokio::sync::{Semaphore, mpsc};

use super::process::{allow_files, resident};
use super::wire::{Event, Wire};
use super::{LoadServer, before_deadline, echo, limits, report, requests, threads};
use barewire::server::Tool;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

#[test]
fn every_stream_gets_one_notification() {
    threads().block_on(run(200));
}

#[test]
#[ignore = "long: 5,000 streams"]
fn five_thousand_streams_get_one_notification() {
    threads().block_on(run(5_000));
}

/// The progress of a stream.
enum StreamStage {
    Open,
    Notified,
}

async fn run(count: u64) {
    let streams = usize::try_from(count).expect("a count");
    allow_files(2 * streams + 200);
    let load_server = LoadServer::start(echo(), limits(|limits| limits.grace = Duration::from_secs(20))).await;
    let (stages, mut reached) = mpsc::unbounded_channel();
    // The kernel queues only a limited number of connections to be accepted.
    let connecting = Arc::new(Semaphore::new(128));
    let before = resident();
    let mut clients = Vec::new();
    for number in 0..count {
        let (addr, stages, connecting) = (load_server.addr, stages.clone(), Arc::clone(&connecting));
        clients.push(tokio::spawn(async move {
            let turn = connecting.acquire().await.expect("not closed");
            let wire = if number % 2 == 0 { listen(addr, number).await } else { open(addr).await };
            drop(turn);
            stages.send(StreamStage::Open).expect("the test waits");
            follow(wire, &stages).await
        }));
    }
    let mut opened = 0;
    while opened < streams {
        match before_deadline("an open stream", reached.recv()).await {
            Some(StreamStage::Open) => opened += 1,
            _ => panic!("a stream was notified before anything changed"),
        }
    }
    let each = resident().saturating_sub(before) / count;
    load_server.is_alive().await;
    let start = Instant::now();
    load_server.handle.add(Tool::new("fresh", "Was not there before", || async { "" }));
    for _ in 0..count {
        let notified = before_deadline("that something changed", reached.recv()).await;
        assert!(matches!(notified, Some(StreamStage::Notified)), "a stream opened twice");
    }
    let all_notified = start.elapsed();
    load_server.is_alive().await;
    load_server.end().await;
    for (number, client) in clients.into_iter().enumerate() {
        let (notified, last) = before_deadline("the end of a stream", client).await.expect("no panic");
        assert_eq!(notified, [CHANGED], "stream {number}");
        match last {
            Some(result) => {
                assert_eq!((number % 2, result["id"].as_u64()), (0, u64::try_from(number).ok()), "{result}");
                assert_eq!(result["result"]["resultType"], "complete", "{result}");
            }
            None => assert_eq!(number % 2, 1, "a listen ended without its result"),
        }
    }
    report(&format!("{count} streams: all notified in {all_notified:?}; {each} KiB each, with the client's part"));
}

/// Opens a listen, and waits for its acknowledgement.
async fn listen(addr: SocketAddr, id: u64) -> Wire {
    let mut wire = Wire::connect(addr).await;
    wire.send(&requests::listen(id)).await.expect("sent");
    let head = wire.head().await.expect("a response");
    assert_eq!((head.status, head.header("Content-Type")), (200, Some("text/event-stream")));
    assert_eq!(head.header("X-Accel-Buffering"), Some("no"));
    let first = wire.event().await.expect("an event").expect("no end").message;
    assert_eq!(first["method"], "notifications/subscriptions/acknowledged");
    wire
}

/// Opens the GET stream of a new session.
async fn open(addr: SocketAddr) -> Wire {
    let mut wire = Wire::connect(addr).await;
    let session = wire.initialize().await;
    wire.send(&requests::get(&session, None)).await.expect("sent");
    let head = wire.head().await.expect("a response");
    assert_eq!((head.status, head.header("Content-Type")), (200, Some("text/event-stream")));
    wire
}

/// Returns the methods of all notifications until the stream ends, and the result that it ends with.
async fn follow(mut wire: Wire, stages: &mpsc::UnboundedSender<StreamStage>) -> (Vec<String>, Option<Value>) {
    let (mut notified, mut last) = (Vec::new(), None);
    while let Some(Event { message, .. }) = wire.event().await.expect("it ends in order") {
        assert!(last.is_none(), "something follows on the result: {message}");
        match message["method"].as_str() {
            Some(method) => {
                notified.push(method.to_owned());
                stages.send(StreamStage::Notified).expect("the test waits");
            }
            None => last = Some(message),
        }
    }
    (notified, last)
}

const CHANGED: &str = "notifications/tools/list_changed";
