//! Connections without an async runtime: messages are handled one after the other, on one thread.
//!
//! Small servers can use [`serve_stdio`], or [`Conn`] over any `Read` and `Write`. An invalid line, an unknown method
//! or a failing handler is answered with an error response and never ends the connection.
//!
//! ```
//! use barewire::blocking::{IncomingCall, Conn, Failure};
//!
//! let input = br#"{"jsonrpc":"2.0","id":1,"method":"add","params":[19,23]}"#;
//! let mut output = Vec::new();
//! Conn::new(&input[..], &mut output).serve(|call: &mut IncomingCall<'_>| match call.method() {
//!     "add" => {
//!         let (a, b): (i64, i64) = call.params()?;
//!         Ok(a + b)
//!     }
//!     _ => Err(Failure::method_not_found()),
//! })?;
//! assert_eq!(output, b"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":42}\n");
//! # Ok::<(), barewire::Error>(())
//! ```

mod call;
mod conn;
mod memory;
mod output;

use std::io;

use serde::Serialize;

use crate::Error;
pub use crate::Failure;
pub use call::IncomingCall;
pub use conn::Conn;
pub use memory::{PipeReader, PipeWriter, pipe};

/// Serves JSON-RPC on stdin and stdout until the end of stdin.
///
/// Only messages may be written to stdout, so print any other output to stderr.
pub fn serve_stdio<R: Serialize>(
    handler: impl FnMut(&mut IncomingCall<'_>) -> Result<R, Failure>,
) -> Result<(), Error> {
    // stdout is locked only during each write, so that another thread that prints to stdout is not blocked forever.
    Conn::new(io::stdin().lock(), io::stdout()).serve(handler)
}
