//! Support for testing a server: connects a client to the server in memory, with one line of code.
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
//! All messages are serialized as on any other transport, so a test sees the same bytes as a real client. If tokio's
//! time is paused, timeouts expire without any waiting.

use crate::client::Builder;
use crate::mcp::Revision;
use crate::transport::memory;
use crate::{Client, ClientError, Server};

/// Connects a client to this server, in the latest revision that both support.
///
/// # Panics
/// If the client cannot connect to the server.
pub async fn connect(server: &Server) -> Client {
    connected(connect_with(server, builder()).await)
}

/// Connects a client to this server in one revision, to test that the server works with older hosts.
///
/// # Panics
/// If the client cannot connect to the server.
pub async fn connect_as(server: &Server, revision: Revision) -> Client {
    connected(connect_with(server, builder().revision(revision)).await)
}

/// Connects a client with custom settings, for example a client that answers requests from the server.
pub async fn connect_with(server: &Server, client: Builder) -> Result<Client, ClientError> {
    let (here, there) = memory(BUFFER_SIZE);
    // The server's task ends when the client is dropped.
    tokio::spawn(server.serve(there));
    client.over(here).await
}

fn builder() -> Builder {
    Client::builder("testkit", env!("CARGO_PKG_VERSION"))
}

fn connected(client: Result<Client, ClientError>) -> Client {
    client.unwrap_or_else(|error| panic!("{error}"))
}

/// The size in bytes of the buffer for each direction: the default capacity of a pipe on Linux.
const BUFFER_SIZE: usize = 64 * 1024;
