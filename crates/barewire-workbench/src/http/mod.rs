//! Messages -> HTTP requests, each on a connection of its own, and their responses, with access to every byte.
//!
//! For tools that decide and see every byte on the wire. To get only the responses, use the client of the library.

pub mod decoder;
mod exchange;
pub(crate) mod head;
mod request;
pub(crate) mod session;

pub(crate) use exchange::ExchangeEvent;
pub(crate) use request::{HttpRequest, is_modern};

use head::RequestKind;
