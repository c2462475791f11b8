//! A server on stdin and stdout whose logging, timing, rate limit and permissions are layers, written once for all tools.
//!
//! ```text
//! $ cargo build -p barewire --example layers
//! $ barewire call delete name=notes -- target/debug/examples/layers
//! ```

use std::sync::Mutex;
use std::time::{Duration, Instant};

use barewire::Server;
use barewire::server::{Invocation, InvocationKind, InvocationResult, Layer, NextLayer, ProtocolError, Tool};
use schemars::JsonSchema;
use serde::Deserialize;

#[derive(Deserialize, JsonSchema)]
struct File {
    name: String,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    tracing_subscriber::fmt().with_writer(std::io::stderr).init();
    let may_delete = std::env::var_os("MAY_DELETE").is_some();
    let server = Server::new("files", "1.0")
        // The outermost: it sees also what the others refuse.
        .layer(log)
        .layer(rate_limit(10, Duration::from_secs(1)))
        .layer(permissions(move |name| name != "delete" || may_delete))
        .with(
            Tool::new("read", "Reads a file", |File { name }| async move { format!("contents of {name}") }).read_only(),
        )
        .with(Tool::new("delete", "Deletes a file", |File { name }| async move { format!("{name} is gone") }));
    Ok(server.serve_stdio().await?)
}

/// Logs each call: what came of it, and how long it took.
async fn log(invocation: Invocation, next: NextLayer) -> Result<InvocationResult, ProtocolError> {
    let (kind, name, start) = (invocation.kind(), invocation.name().to_owned(), Instant::now());
    let outcome = next.run(invocation).await;
    let took = start.elapsed();
    match &outcome {
        Ok(served) => tracing::info!(?kind, name, ?took, failed = served.is_tool_error(), "served"),
        Err(error) => tracing::warn!(?kind, name, ?took, code = error.code().get(), "refused"),
    }
    outcome
}

/// Lets so many calls through in each window of time.
fn rate_limit(calls: u32, window: Duration) -> impl Layer {
    let counted = Mutex::new((Instant::now(), 0));
    move |invocation: Invocation, next: NextLayer| {
        let has_room = {
            let mut counted = counted.lock().expect("nothing panics while it is held");
            if counted.0.elapsed() >= window {
                *counted = (Instant::now(), 0);
            }
            counted.1 += 1;
            counted.1 <= calls
        };
        async move {
            if !has_room {
                return invocation.refuse("too many calls, try again in a moment");
            }
            next.run(invocation).await
        }
    }
}

/// Lets through the tools that may be called; everything else is let through. Over HTTP, `invocation.call().principal()` says
/// who asks.
fn permissions(is_allowed: impl Fn(&str) -> bool + Send + Sync + 'static) -> impl Layer {
    move |invocation: Invocation, next: NextLayer| {
        let allowed = invocation.kind() != InvocationKind::Tool || is_allowed(invocation.name());
        async move {
            if !allowed {
                let text = format!("{} is not allowed here", invocation.name());
                return invocation.refuse(text);
            }
            next.run(invocation).await
        }
    }
}
