//! A server over HTTP, byte by byte over real sockets.

#[path = "http_server/access.rs"]
mod access;
#[path = "http_server/auth.rs"]
mod auth;
mod eventually;
#[path = "http_server/legacy.rs"]
mod legacy;
#[path = "http_server/listener.rs"]
mod listener;
#[path = "http_server/modern.rs"]
mod modern;
#[path = "http_server/resume.rs"]
mod resume;
#[path = "http_server/senders.rs"]
mod senders;
#[path = "http_server/wire.rs"]
mod wire;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use barewire::Server;
use barewire::mcp;
use barewire::server::http::{HttpBuilder, HttpLimits, StopHandle};
use barewire::server::{Call, Elicit, Tool};
use eventually::eventually;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use wire::Wire;

#[derive(Deserialize, JsonSchema)]
struct Text {
    text: String,
}

#[derive(Deserialize, JsonSchema)]
struct Ms {
    ms: u64,
}

#[derive(Serialize, Deserialize, JsonSchema)]
struct Name {
    name: String,
}

/// Counts the running handlers of `hold` and `hang_up`.
#[derive(Clone, Default)]
struct RunningHandlers(Arc<AtomicUsize>);

struct RunningGuard(RunningHandlers);

impl Drop for RunningGuard {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl RunningHandlers {
    fn now(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }

    /// Waits until this many handlers are running.
    async fn until(&self, count: usize) {
        eventually(&format!("{count} handlers are running"), || self.now() == count).await;
    }
}

/// Returns a server with a tool for each behaviour that is tested here.
fn test_server() -> (Server, RunningHandlers) {
    let running_handlers = RunningHandlers::default();
    let (held, hanging) = (running_handlers.clone(), running_handlers.clone());
    let hold = move |call: Call, Ms { ms }| {
        let held = held.clone();
        async move {
            held.0.fetch_add(1, Ordering::SeqCst);
            let _held = RunningGuard(held);
            call.progress(1.0, None, None).await?;
            tokio::time::sleep(Duration::from_millis(ms)).await;
            call.progress(2.0, None, None).await?;
            Ok::<_, barewire::peer::CallError>("held")
        }
    };
    let ask = |call: Call| async move {
        let Name { name } = call.ask("who", Elicit::form("Who are you?")).await?;
        Ok::<_, barewire::server::AskError>(format!("Hello, {name}!"))
    };
    let schema = r#"{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"},"size":{"type":"integer","x-mcp-header":"Size"}}}"#;
    let schema = RawValue::from_string(schema.to_owned()).expect("JSON");
    let mirrored = mcp::Tool::new("mirrored", schema);
    let whoami = |call: Call| async move { call.principal().map_or("nobody", |it| it.name()).to_owned() };
    let hang_up = move |call: Call, Ms { ms }| {
        let hanging = hanging.clone();
        async move {
            hanging.0.fetch_add(1, Ordering::SeqCst);
            let _held = RunningGuard(hanging);
            call.hang_up(Duration::from_millis(ms));
            tokio::time::sleep(Duration::from_millis(50)).await;
            "back again"
        }
    };
    let server = Server::new("test", "1")
        .tool("echo", "Says it again", |Text { text }| async move { text })
        .tool("hold", "Waits", hold)
        .tool("ask", "Asks", ask)
        .tool("whoami", "Who is it", whoami)
        .tool("hang_up", "Hangs up", hang_up)
        .with(Tool::unchecked(mirrored, |_: Box<RawValue>| async { "mirrored" }));
    (server, running_handlers)
}

/// A running server and its address.
struct TestSite {
    url: String,
    addr: std::net::SocketAddr,
    stop: StopHandle,
    running: tokio::task::JoinHandle<()>,
}

impl TestSite {
    async fn of(http: HttpBuilder) -> Self {
        let listener = http.bind("127.0.0.1:0").await.expect("bound");
        let (addr, url, stop) = (listener.local_addr().expect("bound"), listener.url(), listener.stop_handle());
        Self { url, addr, stop, running: tokio::spawn(listener.run()) }
    }

    async fn new() -> (Self, RunningHandlers) {
        let (server, running_handlers) = test_server();
        (Self::of(server.http()).await, running_handlers)
    }

    async fn with(limits: impl FnOnce(&mut HttpLimits)) -> (Self, RunningHandlers) {
        let (server, running_handlers) = test_server();
        let mut set = HttpLimits::default();
        limits(&mut set);
        (Self::of(server.http().limits(set)).await, running_handlers)
    }

    async fn connect(&self) -> Wire {
        Wire::to(self.addr).await
    }
}
