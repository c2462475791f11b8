//! The wire of the Model Context Protocol, to look at: read it, record it, check it, break it, play it again, load it.
//!
//! ```text
//! bytes -> entries -> { capture
//!                     { frames -> operations -> checks
//! ```
//!
//! There is one way from bytes to verdicts, for what is seen live and for what is read from a file ([`pipeline`]). Each part of
//! it stands for itself as well:
//!
//! - [`frames`] reads captures, logs and live bytes into frames, each parsed and judged by itself.
//! - [`operations`] pairs requests with their responses, over rounds, cancels and HTTP exchanges.
//! - [`capture`] writes `.wire` files without the [`secrets`] that pass.
//! - [`check`] says what is wrong with a server or a capture, where, how bad, and how to fix it.
//! - [`relay`] stands between a host and its server; [`fault`] breaks the bytes that pass.
//! - [`replay`] plays the client of a capture again, or its server.
//! - [`load`] sends requests to servers as fast as they can take them, and measures.
//!
//! docs/testing.md in the repository shows how to use them in tests:
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
//! Nothing here prints, asks for a terminal or ends the process: that is for the program on top.

#![warn(clippy::exhaustive_structs, clippy::exhaustive_enums)]

// In the order of the data. The blank lines keep rustfmt from sorting; `rustfmt::skip` on a `mod` line would skip the module.
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

/// The code in the guide compiles.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/testing.md")]
struct Testing;
