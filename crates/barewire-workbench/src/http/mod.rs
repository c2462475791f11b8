//! Sends messages as HTTP requests, each on its own connection, and gives access to every byte of their responses.
//!
//! This module is for tools that need full control of the bytes on the wire. To get only the responses, use the client
//! of the library.

pub mod decoder;
mod exchange;
pub(crate) mod head;
mod request;
pub(crate) mod session;

pub(crate) use exchange::ExchangeEvent;
pub(crate) use request::{HttpRequest, is_modern};

use head::RequestKind;
