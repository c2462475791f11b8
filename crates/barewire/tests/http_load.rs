//! A server over HTTP under load, and with clients that stall, disconnect, send slowly or send bad requests: the
//! responses, and what the server still holds afterwards. The clients use raw sockets, so that they can do what no
//! library would.
//!
//! The long versions take some minutes:
//!
//! ```text
//! cargo test --release -p barewire --features http --test http_load -- --ignored --nocapture --test-threads=1
//! ```
#![cfg(all(target_os = "linux", feature = "http"))]

#[path = "http_load/bodies.rs"]
mod bodies;
mod eventually;
#[path = "http_load/fairness.rs"]
mod fairness;
#[path = "http_load/injection.rs"]
mod injection;
#[path = "http_load/process.rs"]
mod process;
#[path = "http_load/requests.rs"]
mod requests;
#[path = "http_load/sessions.rs"]
mod sessions;
#[path = "http_load/shutdown.rs"]
mod shutdown;
#[path = "http_load/slow.rs"]
mod slow;
#[path = "http_load/stall.rs"]
mod stall;
#[path = "http_load/streams.rs"]
mod streams;
#[path = "http_load/unique.rs"]
mod unique;
#[path = "http_load/vanish.rs"]
mod vanish;
#[path = "http_load/wire.rs"]
mod wire;

use std::future::Future;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::time::Duration;

use barewire::Server;
use barewire::server::ServerHandle;
use barewire::server::http::{HttpBuilder, HttpLimits, StopHandle};
use eventually::DEADLINE;
use schemars::JsonSchema;
use serde::Deserialize;
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinHandle;

/// A server on a port of its own.
struct LoadServer {
    addr: SocketAddr,
    /// Changes the server's entries.
    handle: ServerHandle,
    stop: StopHandle,
    running: JoinHandle<()>,
}

impl LoadServer {
    async fn start(server: Server, limits: HttpLimits) -> Self {
        Self::start_with(server.handle(), server.http().limits(limits)).await
    }

    async fn start_with(handle: ServerHandle, http: HttpBuilder) -> Self {
        let listener = http.bind("127.0.0.1:0").await.expect("a port");
        let (addr, stop) = (listener.local_addr().expect("it listens"), listener.stop_handle());
        Self { addr, handle, stop, running: tokio::spawn(listener.run()) }
    }

    /// Checks that the server still answers a correct request at once.
    async fn is_alive(&self) {
        let answer =
            before_deadline("an echo", wire::Wire::call(self.addr, 7, "echo", r#"{"text":"still there"}"#)).await;
        assert_eq!(answer, "still there");
    }

    /// Stops the server, and waits for its end.
    async fn end(self) {
        self.stop.stop();
        before_deadline("the end", self.running).await.expect("no panic");
    }
}

/// The arguments of most tools here.
#[derive(Deserialize, JsonSchema)]
struct Text {
    text: String,
}

/// Returns a server with the tool `echo`.
fn echo() -> Server {
    Server::new("load", "1").tool("echo", "Says it back", |Text { text }| async move { text })
}

/// Returns the default limits with these changes.
fn limits(set: impl FnOnce(&mut HttpLimits)) -> HttpLimits {
    let mut limits = HttpLimits::default();
    set(&mut limits);
    limits
}

fn threads() -> Runtime {
    Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime")
}

fn one_thread() -> Runtime {
    Builder::new_current_thread().enable_all().build().expect("a runtime")
}

async fn before_deadline<F: Future>(what: &str, future: F) -> F::Output {
    match tokio::time::timeout(DEADLINE, future).await {
        Ok(done) => done,
        Err(_) => panic!("not within {DEADLINE:?}: {what}"),
    }
}

/// Waits until the condition holds.
async fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    before_deadline(what, async {
        while !is_so() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
}

/// Prints a measurement, for the long versions.
fn report(what: &str) {
    let _ = writeln!(io::stderr(), "{what}");
}
