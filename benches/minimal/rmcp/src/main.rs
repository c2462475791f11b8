//! The smallest server with one tool in the official SDK, as at the start of its documentation.

use std::error::Error;

use rmcp::handler::server::wrapper::Parameters;
use rmcp::transport::stdio;
use rmcp::{ServiceExt, schemars, tool, tool_router};
use serde::Deserialize;

struct Server;

#[derive(Deserialize, schemars::JsonSchema)]
struct Echo {
    text: String,
}

#[tool_router(server_handler)]
impl Server {
    #[tool(description = "Say it back")]
    async fn echo(&self, Parameters(Echo { text }): Parameters<Echo>) -> String {
        text
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    Server.serve(stdio()).await?.waiting().await?;
    Ok(())
}
