//! What transcripts cannot show of the engine: time, cancelling from our side, limits, order, closing. Over memory, with time
//! paused wherever time matters.

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

/// A peer whose other side is written by hand.
fn by_hand(methods: Methods) -> (Peer, Memory) {
    let (here, there) = memory(1 << 20);
    (Connection::new(here).methods(methods).spawn(), there)
}

/// A connection of two peers.
fn pair(here: Methods, there: Methods) -> (Peer, Peer) {
    let (a, b) = memory(4096);
    let quiet = |end, methods| Connection::new(end).methods(methods).spawn();
    (quiet(a, here), quiet(b, there))
}

async fn line(raw: &mut Memory) -> Value {
    let line = timeout(seconds(100), raw.recv_line()).await.expect("a line in time");
    serde_json::from_str(&line.expect("memory").expect("not the end")).expect("JSON")
}

async fn say(raw: &mut Memory, message: Value) {
    raw.send_line(&message.to_string()).await.expect("memory");
}
