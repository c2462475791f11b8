//! The wire of the Model Context Protocol, for building on: connections that answer every frame.
//!
//! - [`Server`] serves MCP in every revision: tools, resources and prompts from functions. See [`server`].
//! - [`Client`] connects to servers of every revision. See [`client`].
//! - [`testkit`] puts the two together over memory, for tests.
//! - [`peer`] is the engine, on tokio: many requests in flight in both directions over one connection.
//! - [`transport`] carries its bytes: stdio, child processes, sockets, memory.
//! - [`blocking`] serves over any `Read` and `Write`, without a runtime.
//! - [`mcp`] has the messages of the protocol as types.
//!
//! What the bytes mean is decided in the crate `barewire-proto`, which touches nothing; this one moves them and runs handlers.
//!
//! ```
//! use barewire::peer::{Connection, Context, Methods};
//! use barewire::transport::memory;
//!
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let (here, there) = memory(64 * 1024);
//! let methods = Methods::new().on("add", |_: Context, (a, b): (i64, i64)| async move { Ok(a + b) });
//! tokio::spawn(Connection::new(there).methods(methods).run());
//!
//! let peer = Connection::new(here).spawn();
//! assert_eq!(peer.call::<i64>("add", (19, 23)).await?, 42);
//! # Ok(()) }
//! ```
//!
//! # Features
//!
//! | feature | adds |
//! |---|---|
//! | none | [`blocking`] and [`mcp`] |
//! | `tokio` | [`peer`] and [`transport`]: plain JSON-RPC, without anything that only MCP needs |
//! | `server`, on by default | [`Server`] |
//! | `client`, on by default | [`Client`] |
//! | `server` and `client` | [`testkit`] |
//! | `http` | Streamable HTTP for the server, the client or both: `server::http`, `client::http` |
//! | `jsonschema` | tools whose arguments are checked by a schema that does not come from a type |

#![warn(clippy::exhaustive_structs, clippy::exhaustive_enums)]
// Parts of the engine have no caller where only one of the two is on, or none.
#![cfg_attr(not(all(feature = "client", feature = "server")), allow(dead_code, unused_imports))]

pub mod blocking;
#[cfg(feature = "client")]
pub mod client;
pub mod mcp;
#[cfg(feature = "tokio")]
pub mod peer;
#[cfg(feature = "server")]
pub mod server;
#[cfg(all(feature = "client", feature = "server"))]
pub mod testkit;
#[cfg(feature = "tokio")]
pub mod transport;

mod error;
mod failure;
#[cfg(feature = "http")]
mod headers;
mod log;
mod params;
#[cfg(feature = "tokio")]
mod platform;
#[cfg(feature = "server")]
mod schema;
mod trace;
#[cfg(feature = "server")]
mod until;

#[doc(inline)]
pub use barewire_proto::rpc::{Code, ErrorObject, Id, ReservedCode};
#[cfg(feature = "client")]
pub use client::{Client, ClientError};
pub use error::Error;
pub use failure::Failure;
#[cfg(feature = "server")]
pub use server::Server;
pub use trace::TraceContext;

/// What derives the schema of a tool's arguments: `use barewire::schemars;` is all that its derive needs.
#[cfg(feature = "server")]
pub use schemars;

/// The code in the README compiles.
#[cfg(all(doctest, feature = "client", feature = "server"))]
#[doc = include_str!("../../../README.md")]
struct Readme;

/// So does that in the guide.
#[cfg(all(doctest, feature = "server"))]
#[doc = include_str!("../../../docs/servers.md")]
struct Servers;

/// And in the other one.
#[cfg(all(doctest, feature = "client", feature = "server"))]
#[doc = include_str!("../../../docs/clients.md")]
struct Clients;

/// And in what there is to say about HTTP.
#[cfg(all(doctest, feature = "client", feature = "server", feature = "http"))]
#[doc = include_str!("../../../docs/transports.md")]
struct Transports;
