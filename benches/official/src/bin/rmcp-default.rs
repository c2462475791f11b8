//! The official SDK as at the start of its documentation: `#[tokio::main]` with a thread for each processor, and
//! `stdio()`.

use std::error::Error;

use barewire_benches_official::Echo;
use rmcp::ServiceExt;
use rmcp::transport::stdio;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    Echo.serve(stdio()).await?.waiting().await?;
    Ok(())
}
