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
//! - [`operations`] pairs requests with their responses, rounds and cancellations, on stdio and over HTTP.
//! - [`filter`] selects messages by kind, method, id, tool, time and text.
//! - [`capture`] writes `.wire` files, and [`secrets`] finds and replaces secrets in them.
//! - [`diagram`] draws a wire as SVG, Mermaid or text.
//! - [`export`] writes HAR files, and traces for OpenTelemetry.
//! - [`check`] reports what is wrong with a server or a capture, where, how severe it is, and how to fix it.
//! - [`relay`] passes bytes between a host and its server; [`fault`] injects faults into them.
//! - [`replay`] sends the messages of a capture again as its client, or answers from it as its server.
//! - [`compare`] shows what differs between two captures, by operation.
//! - [`probe`] is a server that puts the host which starts it to the test.
//! - [`index`] keeps a capture or live traffic so that every frame is found at once; [`view`] is the web page that shows it.
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
//! This crate never prints, checks for a terminal or ends the process; the calling program does that.

#![warn(clippy::exhaustive_structs, clippy::exhaustive_enums)]

// The modules are in the order in which data passes through them. The blank lines stop rustfmt from sorting them;
// `rustfmt::skip` on a `mod` line would leave the whole module unformatted.
pub mod frames;
pub mod operations;

pub mod filter;
pub mod rows;

pub mod secrets;

pub mod capture;
pub mod pipeline;

pub mod diagram;
pub mod export;

pub mod check;
pub mod fault;
pub mod http;
pub mod load;
pub mod relay;
pub mod replay;

pub mod compare;

pub mod probe;

pub mod index;

pub mod view;

pub mod duration;
pub mod platform;
pub mod text;
pub mod tree;
pub mod xml;

mod error;
mod nearest;
mod text_writer;

pub use error::{Advice, Error};

/// Checks that the code in the guide compiles.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/testing.md")]
struct Testing;
