//! An MCP server of `barewire` as at the start of its documentation: one thread, a tool with typed arguments.

use barewire::Server;
use schemars::JsonSchema;
use serde::Deserialize;

#[derive(Deserialize, JsonSchema)]
struct Echo {
    text: String,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), barewire::Error> {
    Server::new("echo", "1.0.0").tool("echo", "Say it back", |Echo { text }| async move { text }).serve_stdio().await
}
