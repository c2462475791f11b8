//! Clients that disconnect. In the modern era their handlers are dropped; in the legacy era the handlers continue, and
//! their messages can be fetched.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use barewire::Server;
use barewire::server::Call;
use tokio::sync::watch;

use super::wire::{Wire, text};
use super::{LoadServer, Text, before_deadline, echo, limits, report, requests, threads, until};

#[test]
fn modern_handlers_are_dropped() {
    threads().block_on(modern(40));
}

#[test]
fn legacy_handlers_continue_and_their_responses_can_be_fetched() {
    threads().block_on(legacy(40));
}

#[test]
#[ignore = "long: 2,000 clients"]
fn two_thousand_modern_handlers_are_dropped() {
    super::process::allow_files(5_000);
    threads().block_on(modern(2_000));
}

#[test]
#[ignore = "long: 2,000 clients"]
fn two_thousand_legacy_handlers_continue() {
    super::process::allow_files(5_000);
    threads().block_on(legacy(2_000));
}

/// The numbers of handlers that have started, are running, and have finished.
#[derive(Default)]
struct HandlerCounts {
    started: AtomicUsize,
    running: AtomicUsize,
    finished: AtomicUsize,
}

/// Counts one running handler until it is dropped.
struct RunningGuard(Arc<HandlerCounts>);

impl RunningGuard {
    fn begin(counts: &Arc<HandlerCounts>) -> Self {
        // Tests look at the second when the first is right.
        counts.running.fetch_add(1, Ordering::SeqCst);
        counts.started.fetch_add(1, Ordering::SeqCst);
        Self(Arc::clone(counts))
    }
}

impl Drop for RunningGuard {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Returns a server whose handlers wait for the gate to open: `mute` sends nothing before that, `reporting` reports
/// progress.
fn server(counts: &Arc<HandlerCounts>, gate: &watch::Receiver<bool>) -> Server {
    let waits = || {
        let (counts, gate) = (Arc::clone(counts), gate.clone());
        move || (RunningGuard::begin(&counts), Arc::clone(&counts), gate.clone())
    };
    let (mute, reporting) = (waits(), waits());
    echo()
        .tool("mute", "Waits", move |Text { text }| {
            let (running, counts, mut gate) = mute();
            async move {
                let _running = running;
                gate.wait_for(|open| *open).await.expect("the test holds the gate");
                counts.finished.fetch_add(1, Ordering::SeqCst);
                text
            }
        })
        .tool("reporting", "Says so, and waits", move |call: Call, Text { text }| {
            let (running, counts, mut gate) = reporting();
            async move {
                let _running = running;
                call.progress(1, None, None).await.expect("the client is there");
                gate.wait_for(|open| *open).await.expect("the test holds the gate");
                // The client may be gone.
                let _ = call.progress(2, None, None).await;
                counts.finished.fetch_add(1, Ordering::SeqCst);
                text
            }
        })
}

async fn modern(count: usize) {
    let counts = Arc::new(HandlerCounts::default());
    let (_gate, closed) = watch::channel(false);
    // The limit is the exact number of streams, so that a leaked one shows.
    let load_server = LoadServer::start(server(&counts, &closed), limits(|limits| limits.exchanges = count)).await;
    for round in 1..=2 {
        let mut wires = Vec::new();
        for number in 0..count {
            let id = u64::try_from(number).expect("a count");
            let mut wire = Wire::connect(load_server.addr).await;
            match number % 3 {
                // No status has arrived yet.
                0 => wire.send(&requests::call(id, "mute", r#"{"text":""}"#)).await.expect("sent"),
                1 => {
                    wire.send(&requests::call(id, "reporting", r#"{"text":""}"#)).await.expect("sent");
                    wire.head().await.expect("a stream");
                    let event = before_deadline("progress", wire.event()).await.expect("a stream").expect("no end");
                    assert_eq!(event.message["method"], "notifications/progress");
                }
                _ => {
                    wire.send(&requests::listen(id)).await.expect("sent");
                    wire.head().await.expect("a stream");
                    before_deadline("an acknowledgement", wire.event()).await.expect("a stream").expect("no end");
                }
            }
            wires.push(wire);
        }
        let calls = (0..count).filter(|number| number % 3 < 2).count();
        until("all have started", || counts.started.load(Ordering::SeqCst) == round * calls).await;
        assert_eq!(counts.running.load(Ordering::SeqCst), calls);
        let mut one_more = Wire::connect(load_server.addr).await;
        let (head, _) = one_more.ask(&requests::listen(1)).await;
        assert_eq!(head.status, 503, "there are as many streams as there may be");
        drop(wires);
        let start = Instant::now();
        until("all handlers are dropped", || counts.running.load(Ordering::SeqCst) == 0).await;
        report(&format!("{calls} handlers dropped {:?} after their clients vanished", start.elapsed()));
    }
    assert_eq!(counts.finished.load(Ordering::SeqCst), 0);
    load_server.is_alive().await;
    load_server.end().await;
}

async fn legacy(count: usize) {
    let counts = Arc::new(HandlerCounts::default());
    let (gate, closed) = watch::channel(false);
    let load_server = LoadServer::start(server(&counts, &closed), limits(|_| {})).await;
    let mut left = Vec::new();
    for number in 0..count {
        let id = u64::try_from(number).expect("a count");
        let mut wire = Wire::connect(load_server.addr).await;
        let session = wire.initialize().await;
        let arguments = format!(r#"{{"text":"of {number}"}}"#);
        let tool = if number % 4 == 0 { "mute" } else { "reporting" };
        wire.send(&requests::session_call(&session, id, tool, &arguments)).await.expect("sent");
        if tool == "reporting" {
            wire.head().await.expect("a stream");
            let event = before_deadline("progress", wire.event()).await.expect("a stream").expect("no end");
            assert_eq!(event.message["method"], "notifications/progress");
            left.push((id, session, event.id.expect("events of sessions have ids")));
        } else {
            until("it has started", || counts.started.load(Ordering::SeqCst) == number + 1).await;
        }
    }
    // The connections are closed, and that cancels nothing. This takes a pause, because no message says that the server
    // has noticed.
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(counts.running.load(Ordering::SeqCst), count);
    gate.send_replace(true);
    until("all have finished", || counts.finished.load(Ordering::SeqCst) == count).await;
    for (id, session, last) in &left {
        // Twice, because the connection may break again.
        for _ in 0..2 {
            let mut wire = Wire::connect(load_server.addr).await;
            wire.send(&requests::get(session, Some(last))).await.expect("sent");
            let head = wire.head().await.expect("a stream");
            assert_eq!(head.status, 200);
            let mut messages = Vec::new();
            while let Some(event) = before_deadline("the rest", wire.event()).await.expect("a stream") {
                assert_ne!(event.id.as_deref(), Some(last.as_str()), "it is known already");
                messages.push(event.message);
            }
            let answer = messages.pop().expect("the answer");
            assert_eq!(text(&answer, *id), format!("of {id}"));
            assert_eq!(messages.len(), 1, "{messages:?}");
            assert_eq!(messages[0]["params"]["progress"].as_f64(), Some(2.0));
        }
    }
    report(&format!("{} answers fetched after their clients vanished", left.len()));
    load_server.end().await;
}
