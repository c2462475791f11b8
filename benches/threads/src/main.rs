//! The same server as `mcp-server` on a runtime with a thread for each processor.

use barewire::Server;
use schemars::JsonSchema;
use serde::Deserialize;

#[derive(Deserialize, JsonSchema)]
struct Echo {
    text: String,
}

#[tokio::main]
async fn main() -> Result<(), barewire::Error> {
    Server::new("echo", "1.0.0").tool("echo", "Say it back", |Echo { text }| async move { text }).serve_stdio().await
}
