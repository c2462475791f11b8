//! Many requests over few connections, in both eras, answered in one body and in streams: none is lost, and none is run
//! or answered twice.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::time::Instant;

use barewire::Server;
use barewire::server::Call;
use barewire::server::http::HttpLimits;
use schemars::JsonSchema;
use serde::Deserialize;

use super::wire::{Wire, text};
use super::{LoadServer, report, requests, threads};

#[test]
fn every_request_is_answered_once() {
    threads().block_on(run(20_000));
}

#[test]
#[ignore = "long: a million requests"]
fn a_million_requests_are_answered_once() {
    threads().block_on(run(1_000_000));
}

#[derive(Deserialize, JsonSchema)]
struct Number {
    number: u64,
}

async fn run(count: u64) {
    let ran: Arc<[AtomicU8]> = (0..count).map(|_| AtomicU8::new(0)).collect();
    let load_server = LoadServer::start(server(&ran), HttpLimits::default()).await;
    let next = Arc::new(AtomicU64::new(0));
    let start = Instant::now();
    let mut clients = Vec::new();
    for client in 0..CONNECTIONS / 4 {
        // Of four connections, two are modern and two share a session.
        let session = Arc::new(Wire::connect(load_server.addr).await.initialize().await);
        for which in 0..4 {
            let session = (which > 1).then(|| Arc::clone(&session));
            let (addr, next) = (load_server.addr, Arc::clone(&next));
            clients.push(tokio::spawn(async move {
                let mut wire = Wire::connect(addr).await;
                let mut answered = 0;
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= count {
                        break;
                    }
                    ask(&mut wire, session.as_ref().map(|session| session.as_str()), number).await;
                    answered += 1;
                }
                assert!(wire.is_quiet(), "client {client}.{which} got more than one response for a request");
                answered
            }));
        }
    }
    let mut answered = 0;
    for client in clients {
        answered += client.await.expect("all answers are right");
    }
    assert_eq!(answered, count);
    let wrong = ran.iter().position(|times| times.load(Ordering::Relaxed) != 1);
    assert_eq!(wrong, None, "a call that did not run exactly once");
    let rate = f64::from(u32::try_from(count).expect("few enough")) / start.elapsed().as_secs_f64();
    report(&format!("{count} requests, each answered once, {rate:.0} a second"));
    load_server.end().await;
}

async fn ask(wire: &mut Wire, session: Option<&str>, number: u64) {
    let tool = match number % 16 {
        0 => "reporting",
        1 | 2 => "later",
        _ => "now",
    };
    let arguments = format!(r#"{{"number":{number}}}"#);
    let request = match session {
        Some(session) => requests::session_call(session, number, tool, &arguments),
        None => requests::call(number, tool, &arguments),
    };
    wire.send(&request).await.expect("sent");
    assert_eq!(text(&wire.answer().await, number), format!("{tool} {number}"));
}

/// Returns tools that count their calls with each number.
fn server(ran: &Arc<[AtomicU8]>) -> Server {
    let counts = || {
        let ran = Arc::clone(ran);
        move |number: u64| ran[usize::try_from(number).expect("small")].fetch_add(1, Ordering::Relaxed)
    };
    let (now, later, reporting) = (counts(), counts(), counts());
    Server::new("load", "1")
        .tool("now", "Answers at once", move |Number { number }| {
            now(number);
            async move { format!("now {number}") }
        })
        .tool("later", "Answers after others had their turn", move |Number { number }| {
            later(number);
            async move {
                tokio::task::yield_now().await;
                format!("later {number}")
            }
        })
        .tool("reporting", "Says something before it answers", move |call: Call, Number { number }| {
            reporting(number);
            async move {
                let sent = call.progress(1, None, None).await;
                format!("{} {number}", if sent.is_ok() { "reporting" } else { "mute" })
            }
        })
}

/// The same number as in the benchmark.
const CONNECTIONS: usize = 32;
