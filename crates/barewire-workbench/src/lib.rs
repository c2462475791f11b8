//! Tools for Model Context Protocol traffic: read, record, check, inject faults, replay, and measure under load.
//!
//! ```text
//! bytes -> entries -> { capture
//!                     { frames -> operations -> checks
//! ```
//!
//! Live bytes and files go through the same [`pipeline`]. Each part can also be used alone:
//!
//! - [`frames`] reads captures, logs and live bytes into frames, and parses each.
//! - [`operations`] pairs requests with their responses, over rounds, cancels and HTTP exchanges.
//! - [`capture`] writes `.wire` files, and [`secrets`] finds and replaces secrets in them.
//! - [`check`] reports what is wrong with a server or a capture, where, how severe it is, and how to fix it.
//! - [`relay`] passes bytes between a host and its server; [`fault`] injects faults into them.
//! - [`replay`] acts as the client of a capture, or as its server.
//! - [`load`] sends requests to servers and measures the responses.
//!
//! docs/testing.md in the repository shows how to use these parts in tests:
//!
//! ```
//! use barewire::Server;
//! use barewire_workbench::check::{Checks, Target};
//!
//! let server = Server::new("greeter", "1.0").tool("greet", "Greets", || async { "hello" });
//! let report = Checks::new().run(Target::server(&server))?;
//! assert!(report.is_clean(), "{report}");
//! # Ok::<(), barewire_workbench::Error>(())
//! ```
//!
//! Nothing here prints, checks for a terminal or ends the process; all of that is left to the calling program.

#![warn(clippy::exhaustive_structs, clippy::exhaustive_enums)]

// The modules are in the order of the data. The blank lines keep rustfmt from sorting; `rustfmt::skip` on a `mod` line
// would skip the module.
pub mod frames;
pub mod operations;

pub mod secrets;

pub mod capture;
pub mod pipeline;

pub mod check;
pub mod fault;
pub mod http;
pub mod load;
pub mod relay;
pub mod replay;

pub mod duration;
pub mod platform;
pub mod text;
pub mod xml;

mod error;
mod nearest;

pub use error::{Advice, Error};

/// Checks that the code in the guide compiles.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/testing.md")]
struct Testing;
