//! A connection without a runtime: bytes are read, each message is handled in turn, answers go out together.
//!
//! For a server in one file, on one thread: [`serve_stdio`], or [`Conn`] over any `Read` and `Write`. A bad line, an
//! unknown method or a failing handler costs one answer and never the connection.

mod call;
mod conn;
mod memory;
mod output;

use std::io;

use serde::Serialize;

pub use crate::Failure;
pub use call::Call;
pub use conn::Conn;
pub use memory::{PipeReader, PipeWriter, pipe};

/// Serves JSON-RPC on stdin and stdout until stdin ends.
///
/// stdout belongs to the wire: print to stderr.
pub fn serve_stdio<R: Serialize>(handler: impl FnMut(&mut Call<'_>) -> Result<R, Failure>) -> io::Result<()> {
    // stdout is locked for each write only: a thread of the handler's that prints must not wait for ever.
    Conn::new(io::stdin().lock(), io::stdout()).serve(handler)
}
