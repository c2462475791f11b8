//! Messages -> requests over HTTP, byte by byte, each on a connection of its own, and what comes back of them.
//!
//! For tools that decide and see every byte on the wire. For answers alone there is the library's client.

pub mod decoder;
mod exchange;
pub(crate) mod head;
mod request;
pub(crate) mod session;

pub(crate) use exchange::ExchangeEvent;
pub(crate) use request::{HttpRequest, is_modern};

use head::Kind;
