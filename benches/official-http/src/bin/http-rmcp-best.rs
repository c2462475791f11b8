//! The official SDK over HTTP in its fastest configuration: no sessions, answers in one JSON body, `TCP_NODELAY`, its
//! service directly on hyper, and no router before the tool.

use std::error::Error;

use barewire_benches_official::EchoByHand;
use barewire_benches_official_http::harnessed;
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use tokio::net::TcpListener;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let config = StreamableHttpServerConfig::default().with_legacy_session_mode(false).with_json_response(true);
    let service = StreamableHttpService::new(|| Ok(EchoByHand), NeverSessionManager::default().into(), config);
    let service = TowerToHyperService::new(service);
    let listener = TcpListener::bind(harnessed::LISTEN_ADDRESS).await?;
    harnessed::begin(listener.local_addr()?)?;
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let service = service.clone();
        tokio::spawn(async move {
            // Errors of a connection are the client's problem.
            let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
        });
    }
}
