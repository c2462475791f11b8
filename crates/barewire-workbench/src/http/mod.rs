//! Messages -> requests over HTTP, byte by byte, each on a connection of its own, and what comes back of them.
//!
//! For those who want to see and to decide what is on the wire; whoever only wants answers asks the library's client.

mod exchange;
pub mod head;
pub mod messages;
mod request;
pub mod session;

pub use exchange::{ExchangeEvent, exchange};
pub use head::Kind;
pub use request::{HttpRequest, ToolHeaders, is_modern};
