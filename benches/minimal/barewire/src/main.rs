//! The smallest server with one tool in barewire, as at the start of its documentation.

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
