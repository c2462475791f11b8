//! Messages -> requests over HTTP, byte by byte, each on a connection of its own, and what comes back of them.
//!
//! For tools that decide and see every byte on the wire. For answers alone there is the library's client.

mod exchange;
pub mod head;
pub mod messages;
mod request;
pub mod session;

pub use exchange::{ExchangeEvent, exchange};
pub use head::Kind;
pub use request::{HttpRequest, ToolHeaders, is_modern};
