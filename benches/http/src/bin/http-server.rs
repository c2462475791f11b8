//! An MCP server of `barewire` over HTTP as at the start of its documentation: one thread, a tool with typed arguments,
//! default limits. With the argument `--metrics` it also counts its requests.

use std::error::Error;

use barewire::Server;
use barewire_benches_http::harnessed;
use schemars::JsonSchema;
use serde::Deserialize;

#[derive(Deserialize, JsonSchema)]
struct Echo {
    text: String,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let server = Server::new("echo", "1.0.0").tool("echo", "Say it back", |Echo { text }| async move { text });
    let mut http = server.http();
    if std::env::args().any(|argument| argument == "--metrics") {
        http = http.metrics("/metrics");
    }
    let listener = http.bind(harnessed::LISTEN_ADDRESS).await?;
    harnessed::begin(listener.local_addr()?)?;
    listener.run().await;
    Ok(())
}
