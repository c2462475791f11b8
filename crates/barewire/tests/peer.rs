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

use std::io::{self, Write};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use barewire::peer::{Connection, Methods, Peer};
use barewire::transport::{Memory, memory};
use serde_json::Value;
use tokio::time::timeout;

fn seconds(n: u64) -> Duration {
    Duration::from_secs(n)
}

/// A peer whose other side is written by hand.
fn by_hand(methods: Methods) -> (Peer, Memory) {
    let (here, there) = memory(1 << 20);
    (Connection::new(here).methods(methods).log_to(io::sink()).spawn(), there)
}

/// A connection of two peers.
fn pair(here: Methods, there: Methods) -> (Peer, Peer) {
    let (a, b) = memory(4096);
    let quiet = |end, methods| Connection::new(end).methods(methods).log_to(io::sink()).spawn();
    (quiet(a, here), quiet(b, there))
}

async fn line(raw: &mut Memory) -> Value {
    let line = timeout(seconds(100), raw.recv_line()).await.expect("a line in time");
    serde_json::from_str(&line.expect("memory").expect("not the end")).expect("JSON")
}

async fn say(raw: &mut Memory, message: Value) {
    raw.send_line(&message.to_string()).await.expect("memory");
}

/// What a connection logs.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("no panic").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Log {
    fn text(&self) -> String {
        String::from_utf8_lossy(&self.0.lock().expect("no panic")).into_owned()
    }
}
