//! The wire format of the Model Context Protocol: bytes <-> messages, without a runtime.
//!
//! ```text
//! bytes  ->  frame  ->  rpc  ->  session  ->  mcp  ->  …     read: Codec::next_frame, rpc::parse, Session::step
//! bytes  <-  frame  <-  rpc  <-  session  <-  mcp  <-  …     write: rpc::write and Reply, inside Codec::encode
//! │                       ├─ http: the rules of Streamable HTTP: headers and messages in, decisions out
//! │                       └─ auth: the rules of sign-in: challenges, documents and callbacks in, decisions out
//! └─ transcript: the same bytes as text, for people and tests
//! ```
//!
//! The crate does no I/O: no sockets, no clock, no threads, no randomness. Bytes and times are arguments, so every rule
//! can be tested by calling a function. Each module depends only on modules before it in this order: `json`, `frame`,
//! `rpc`, `session`, `mcp`, `http`, `auth`, `transcript`.
//!
//! ```
//! use barewire_proto::frame::{Codec, Lines};
//! use barewire_proto::rpc::{self, Message, Parsed};
//!
//! let mut lines = Lines::default();
//! let mut out = Vec::new();
//! let mut read = &b"{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"ping\"}\nnonsense\n{\"jso"[..];
//! while let Some(frame) = lines.next_frame(&mut read) {
//!     let frame = frame.expect("no line is longer than the limit");
//!     match rpc::parse(frame.bytes, rpc::DEFAULT_DEPTH) {
//!         Parsed::Message(Message::Request(request)) => {
//!             Lines::encode(&mut out, |out| {
//!                 request.reply().serialize(out, &serde_json::json!({})).expect("an object is JSON");
//!             });
//!         }
//!         Parsed::Invalid(invalid) => {
//!             if let Some(reply) = invalid.reply() {
//!                 Lines::encode(&mut out, |out| reply.error(out, &invalid.error()));
//!             }
//!         }
//!         _ => {}
//!     }
//! }
//! let out = String::from_utf8(out).expect("we write UTF-8");
//! assert!(out.starts_with("{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{}}\n"));
//! assert!(out.contains("\"id\":null,\"error\":{\"code\":-32700"));
//! ```

#![warn(clippy::exhaustive_structs, clippy::exhaustive_enums)]

#[macro_use]
mod setters;

mod escape;
mod safe_text;

#[rustfmt::skip] // in the order of their dependencies
pub mod json;
pub mod frame;
pub mod rpc;
pub mod session;
#[rustfmt::skip]
pub mod mcp;
pub mod http;

// A group of its own, so that rustfmt keeps it after `http`.
pub mod auth;
pub mod transcript;
