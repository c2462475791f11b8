//! The server of these tests, on one node or on several.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use barewire::Server;
use barewire::mcp;
use barewire::server::http::cluster::MemoryCluster;
use barewire::server::http::{HttpBuilder, HttpLimits, StopHandle};
use barewire::server::{Call, Elicit, Tool};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tokio::sync::watch;
use tokio::time::timeout;

use crate::eventually::eventually;
use crate::wire::Wire;

#[derive(Deserialize, JsonSchema)]
struct Text {
    text: String,
}

#[derive(Deserialize, JsonSchema)]
struct Ms {
    ms: u64,
}

#[derive(Serialize, Deserialize, JsonSchema)]
pub(crate) struct Name {
    pub(crate) name: String,
}

/// Counts the running handlers of `hold` and `hang_up`, and releases those of `hold`.
#[derive(Clone, Default)]
pub(crate) struct RunningHandlers(Arc<AtomicUsize>, watch::Sender<bool>);

struct RunningGuard(RunningHandlers);

impl Drop for RunningGuard {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl RunningHandlers {
    pub(crate) fn now(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }

    /// Ends the waiting of all handlers of `hold`, also of later ones.
    pub(crate) fn release(&self) {
        self.1.send_replace(true);
    }

    /// Waits until this many handlers are running.
    pub(crate) async fn until(&self, count: usize) {
        eventually(&format!("{count} handlers are running"), || self.now() == count).await;
    }
}

/// Returns a server with a tool for each behaviour that is tested here.
pub(crate) fn test_server() -> (Server, RunningHandlers) {
    let running_handlers = RunningHandlers::default();
    (test_server_of(&running_handlers), running_handlers)
}

/// Returns such a server, which counts its handlers in `running_handlers`.
pub(crate) fn test_server_of(running_handlers: &RunningHandlers) -> Server {
    let (held, hanging) = (running_handlers.clone(), running_handlers.clone());
    let hold = move |call: Call, Ms { ms }| {
        let held = held.clone();
        async move {
            let mut released = held.1.subscribe();
            held.0.fetch_add(1, Ordering::SeqCst);
            let _held = RunningGuard(held);
            call.progress(1.0, None, None).await?;
            // The error of a timeout means that the time is up, which is an end as good as a release.
            let _ = timeout(Duration::from_millis(ms), released.wait_for(|is_released| *is_released)).await;
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
    Server::new("test", "1")
        .tool("echo", "Says it again", |Text { text }| async move { text })
        .tool("hold", "Waits", hold)
        .tool("ask", "Asks", ask)
        .tool("whoami", "Who is it", whoami)
        .tool("hang_up", "Hangs up", hang_up)
        .with(Tool::unchecked(mirrored, |_: Box<RawValue>| async { "mirrored" }))
}

/// Stops all nodes.
pub(crate) struct StopAll(Vec<StopHandle>);

impl StopAll {
    pub(crate) fn stop(&self) {
        self.0.iter().for_each(StopHandle::stop);
    }

    #[allow(dead_code, reason = "only the tests of one node use it")]
    pub(crate) fn drain(&self) {
        self.0.iter().for_each(StopHandle::drain);
    }
}

/// A running server and its address. In a cluster it is one of several, which requests are spread over.
pub(crate) struct TestSite {
    pub(crate) url: String,
    pub(crate) addr: std::net::SocketAddr,
    pub(crate) stop: StopAll,
    pub(crate) running: tokio::task::JoinHandle<()>,
    /// The addresses of all nodes.
    pub(crate) nodes: Vec<std::net::SocketAddr>,
}

impl TestSite {
    pub(crate) async fn of(http: HttpBuilder) -> Self {
        if crate::NODES == 1 {
            return Self::listening(http).await;
        }
        let cluster = MemoryCluster::default();
        let mut sites = Vec::new();
        for _ in 0..crate::NODES {
            sites.push(Self::listening(http.clone().cluster(cluster.join())).await);
        }
        let nodes = sites.iter().map(|site| site.addr).collect();
        let stops = sites.iter().flat_map(|site| site.stop.0.iter().cloned()).collect();
        let (url, addr) = (sites[0].url.clone(), sites[0].addr);
        let running = tokio::spawn(async move {
            for site in sites {
                site.running.await.expect("no panic");
            }
        });
        Self { url, addr, stop: StopAll(stops), running, nodes }
    }

    /// Starts a server on one node.
    pub(crate) async fn listening(http: HttpBuilder) -> Self {
        let listener = http.bind("127.0.0.1:0").await.expect("bound");
        let (addr, url, stop) = (listener.local_addr().expect("bound"), listener.url(), listener.stop_handle());
        Self { url, addr, stop: StopAll(vec![stop]), running: tokio::spawn(listener.run()), nodes: vec![addr] }
    }

    pub(crate) async fn new() -> (Self, RunningHandlers) {
        let (server, running_handlers) = test_server();
        (Self::of(server.http()).await, running_handlers)
    }

    pub(crate) async fn with(limits: impl FnOnce(&mut HttpLimits)) -> (Self, RunningHandlers) {
        let (server, running_handlers) = test_server();
        let mut set = HttpLimits::default();
        limits(&mut set);
        (Self::of(server.http().limits(set)).await, running_handlers)
    }

    /// Opens a connection. In a cluster, each of its requests goes to another node than the one before.
    pub(crate) async fn connect(&self) -> Wire {
        Wire::to_each(&self.nodes).await
    }
}
