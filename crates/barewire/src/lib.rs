//! Servers, clients and plain connections for the Model Context Protocol (MCP). Every request gets exactly one answer.
//!
//! - [`Server`] serves tools, resources and prompts, implemented as functions, in every revision of MCP. See
//!   [`server`].
//! - [`Client`] connects to servers of every revision. See [`client`].
//! - [`testkit`] connects a server and a client in memory, for tests.
//! - [`peer`] is the engine, on tokio: JSON-RPC with many requests in flight in both directions over one connection.
//! - [`transport`] contains the transports: stdio, child processes, sockets, memory.
//! - [`blocking`] serves over any `Read` and `Write`, without an async runtime.
//! - [`mcp`] contains the messages of the protocol as Rust types.
//!
//! The protocol itself is implemented in the crate `barewire-proto`, which does no IO. This crate reads and writes the
//! bytes and runs the handlers.
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
//! | `tokio` | [`peer`] and [`transport`]: plain JSON-RPC, without the parts that only MCP needs |
//! | `server`, on by default | [`Server`] |
//! | `client`, on by default | [`Client`] |
//! | `server` and `client` | [`testkit`] |
//! | `http` | Streamable HTTP for the server, the client or both: `server::http`, `client::http` |
//! | `oauth` | clients that sign in: `client::oauth`; access tokens of an OAuth issuer for servers: `server::http::AccessTokens` |
//! | `jsonschema` | tools whose arguments are checked with a schema that is not generated from a type |

#![warn(clippy::exhaustive_structs, clippy::exhaustive_enums)]
// Some functions of the engine are unused unless the features `client` and `server` are both enabled.
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
#[cfg(feature = "tokio")]
mod sync;
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

/// Re-exported to derive the schema of a tool's arguments. The derive macro works if `use barewire::schemars;` is in
/// scope.
#[cfg(feature = "server")]
pub use schemars;

/// Compiles the code in the README.
#[cfg(all(doctest, feature = "client", feature = "server"))]
#[doc = include_str!("../../../README.md")]
struct Readme;

/// Compiles the code in the guide to servers.
#[cfg(all(doctest, feature = "server"))]
#[doc = include_str!("../../../docs/servers.md")]
struct Servers;

/// Compiles the code in the guide to clients.
#[cfg(all(doctest, feature = "client", feature = "server"))]
#[doc = include_str!("../../../docs/clients.md")]
struct Clients;

/// Compiles the code in the guide to access tokens.
#[cfg(all(doctest, feature = "server", feature = "oauth"))]
#[doc = include_str!("../../../docs/access-tokens.md")]
struct AccessTokens;

/// Compiles the code in the guide to transports.
#[cfg(all(doctest, feature = "client", feature = "server", feature = "http"))]
#[doc = include_str!("../../../docs/transports.md")]
struct Transports;

/// Compiles the code in the guide to sign-in.
#[cfg(all(doctest, feature = "oauth"))]
#[doc = include_str!("../../../docs/sign-in.md")]
struct SignInGuide;
