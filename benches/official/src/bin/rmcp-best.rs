//! The official SDK in its fastest configuration: `stdio_pipes()`, which its documentation recommends if both streams
//! are pipes; one thread, because its tasks pass each message on and never keep two threads busy; and no router before
//! the tool.

use std::error::Error;

use barewire_benches_official::EchoByHand;
use rmcp::ServiceExt;
use rmcp::transport::stdio_pipes;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    EchoByHand.serve(stdio_pipes()).await?.waiting().await?;
    Ok(())
}
