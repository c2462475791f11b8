//! The official SDK at its fastest: `stdio_pipes()`, which its documentation prefers where both streams are pipes; one
//! thread, because its tasks hand each message on and never have work for two; and no router before the tool.

use std::error::Error;

use barewire_benches_official::EchoByHand;
use rmcp::ServiceExt;
use rmcp::transport::stdio_pipes;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    EchoByHand.serve(stdio_pipes()).await?.waiting().await?;
    Ok(())
}
