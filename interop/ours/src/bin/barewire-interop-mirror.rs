//! A barewire server with a tool whose arguments are repeated in headers, over HTTP: barewire-interop-mirror ADDR

use std::error::Error;

use barewire::Server;
use barewire::server::Tool;
use schemars::JsonSchema;
use serde::Deserialize;
use tokio::signal::unix::{SignalKind, signal};

#[derive(Deserialize, JsonSchema)]
struct Mirror {
    #[schemars(extend("x-mcp-header" = "Text"))]
    text: String,
    #[schemars(extend("x-mcp-header" = "Count"))]
    count: i32,
    #[schemars(extend("x-mcp-header" = "Sure"))]
    sure: bool,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let addr = std::env::args().nth(1).ok_or("barewire-interop-mirror ADDR")?;
    let mirror = |Mirror { text, count, sure }| async move { format!("{text} {count} {sure}") };
    let server = Server::new("mirror", "1.0.0").with(Tool::new("mirror", "Tell what goes into headers too", mirror));
    let listener = server.http().bind(addr.as_str()).await?;
    let mut terminate = signal(SignalKind::terminate())?;
    listener
        .run_until(async {
            terminate.recv().await;
        })
        .await;
    Ok(())
}
