//! Tests of the engine that transcripts cannot express: timeouts, cancellation of our calls, limits, order, shutdown.
//! Over memory, with time paused wherever time matters.

#[path = "peer/calls.rs"]
mod calls;
#[path = "peer/end.rs"]
mod end;
#[path = "peer/flow.rs"]
mod flow;
#[path = "peer/handlers.rs"]
mod handlers;
mod log;

use std::time::Duration;

use barewire::peer::{Connection, Methods, Peer};
use barewire::transport::{Memory, memory};
use log::Log;
use serde_json::Value;
use tokio::time::timeout;

fn seconds(n: u64) -> Duration {
    Duration::from_secs(n)
}

/// A peer, and the other end of its connection, for messages that the test writes itself.
fn peer_with_raw_end(methods: Methods) -> (Peer, Memory) {
    let (here, there) = memory(1 << 20);
    (Connection::new(here).methods(methods).spawn(), there)
}

/// Two connected peers.
fn pair(here: Methods, there: Methods) -> (Peer, Peer) {
    let (a, b) = memory(4096);
    let spawn = |end, methods| Connection::new(end).methods(methods).spawn();
    (spawn(a, here), spawn(b, there))
}

async fn receive(raw: &mut Memory) -> Value {
    let line = timeout(seconds(100), raw.recv_line()).await.expect("a line in time");
    serde_json::from_str(&line.expect("memory").expect("not the end")).expect("JSON")
}

async fn send(raw: &mut Memory, message: Value) {
    raw.send_line(&message.to_string()).await.expect("memory");
}
