//! The official SDK over HTTP as in its examples: an axum router, sessions, and all defaults. On one thread, like all
//! servers here.

use std::error::Error;

use barewire_benches_official::Echo;
use barewire_benches_official_http::harnessed;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use tokio::net::TcpListener;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let service = StreamableHttpService::new(
        || Ok(Echo),
        LocalSessionManager::default().into(),
        StreamableHttpServerConfig::default(),
    );
    let router = axum::Router::new().nest_service("/mcp", service);
    let listener = TcpListener::bind(harnessed::LISTEN_ADDRESS).await?;
    harnessed::begin(listener.local_addr()?)?;
    axum::serve(listener, router).await?;
    Ok(())
}
