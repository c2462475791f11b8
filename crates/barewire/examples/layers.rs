//! A server on stdin and stdout whose logging, timing, rate limit and permissions are layers, written once for all
//! tools.
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
async fn main() -> Result<(), barewire::Error> {
    tracing_subscriber::fmt().with_writer(std::io::stderr).init();
    let may_delete = std::env::var_os("MAY_DELETE").is_some();
    let server = Server::new("files", "1.0")
        // `log` is the outermost layer, so it also sees calls that the other layers refuse.
        .layer(log)
        .layer(rate_limit(10, Duration::from_secs(1)))
        .layer(permissions(move |name| name != "delete" || may_delete))
        .with(
            Tool::new("read", "Reads a file", |File { name }| async move { format!("contents of {name}") }).read_only(),
        )
        .with(Tool::new("delete", "Deletes a file", |File { name }| async move { format!("{name} is gone") }));
    server.serve_stdio().await
}

/// Logs the outcome of each call, and the time it took.
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

/// Allows `calls` calls in each `window` of time, and refuses further calls.
fn rate_limit(calls: u32, window: Duration) -> impl Layer {
    let counted = Mutex::new((Instant::now(), 0));
    move |invocation: Invocation, next: NextLayer| {
        let has_room = {
            let mut counted = counted.lock().expect("no panic while it is locked");
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

/// Refuses calls of tools that are not allowed. Prompts and resources are always allowed. Over HTTP,
/// `invocation.call().principal()` is the authenticated caller.
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
