//! A server and a client of it over memory, in one line: to test what a server offers.
//!
//! ```
//! use barewire::{Server, testkit};
//! use schemars::JsonSchema;
//! use serde::Deserialize;
//! use serde_json::json;
//!
//! #[derive(Deserialize, JsonSchema)]
//! struct Add { a: i64, b: i64 }
//!
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), barewire::ClientError> {
//! let server = Server::new("calculator", "1.0").tool("add", "Adds", |Add { a, b }| async move { a + b });
//!
//! let client = testkit::connect(&server).await;
//! let result = client.call_tool("add", json!({ "a": 19, "b": 23 })).await?;
//! assert_eq!(result.content[0].as_text(), Some("42"));
//! # Ok(()) }
//! ```
//!
//! Everything that is said goes over the wire as it would to somebody else, so a test sees what a host would see. With
//! tokio's time paused, timeouts cost nothing.

use crate::client::Builder;
use crate::mcp::Revision;
use crate::transport::memory;
use crate::{Client, ClientError, Server};

/// A client of this server, in the latest revision that both have.
///
/// # Panics
/// If they do not come together.
pub async fn connect(server: &Server) -> Client {
    connected(connect_with(server, builder()).await)
}

/// A client of this server in one revision: to see that an older host gets on with it.
///
/// # Panics
/// If they do not come together.
pub async fn connect_as(server: &Server, revision: Revision) -> Client {
    connected(connect_with(server, builder().revision(revision)).await)
}

/// A client that can be asked things, or has other ideas of its own.
pub async fn connect_with(server: &Server, client: Builder) -> Result<Client, ClientError> {
    let (here, there) = memory(BUFFER);
    // It ends with the client.
    tokio::spawn(server.serve(there));
    client.over(here).await
}

fn builder() -> Builder {
    Client::builder("testkit", env!("CARGO_PKG_VERSION"))
}

fn connected(client: Result<Client, ClientError>) -> Client {
    client.unwrap_or_else(|error| panic!("{error}"))
}

/// As much as a pipe holds on Linux.
const BUFFER: usize = 64 * 1024;
