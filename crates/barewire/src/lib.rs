//! The wire of the Model Context Protocol, for building on: connections that answer every frame.
//!
//! [`blocking`] serves JSON-RPC 2.0 over any `Read` and `Write`, without a runtime. What the bytes mean is decided in
//! [`proto`], which touches nothing; this crate moves them and runs handlers.
//!
//! ```
//! use barewire::blocking::{Call, Conn, Failure};
//!
//! let input = br#"{"jsonrpc":"2.0","id":1,"method":"add","params":[19,23]}"#;
//! let mut output = Vec::new();
//! Conn::new(&input[..], &mut output).serve(|call: &mut Call<'_>| match call.method() {
//!     "add" => {
//!         let (a, b): (i64, i64) = call.params()?;
//!         Ok(a + b)
//!     }
//!     _ => Err(Failure::method_not_found()),
//! })?;
//! assert_eq!(output, b"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":42}\n");
//! # Ok::<(), std::io::Error>(())
//! ```

pub mod blocking;
#[cfg(feature = "tokio")]
pub mod peer;
#[cfg(feature = "tokio")]
pub mod transport;

mod failure;
mod log;
mod params;

pub use failure::Failure;

pub use barewire_proto as proto;

/// The code in the README compiles.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
