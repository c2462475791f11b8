//! Messages -> requests over HTTP, byte by byte, each on a connection of its own, and what comes back of them.
//!
//! For those who want to see and to decide what is on the wire; whoever only wants answers asks the library's client.

mod asking;
mod carry;

pub(crate) use crate::tap::http::head::Kind;
pub(crate) use asking::{Asking, Tools, is_modern};
pub(crate) use carry::{News, exchange};
