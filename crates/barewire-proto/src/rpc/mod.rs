//! Frames <-> messages: the grammar of JSON-RPC 2.0, told by which members are present.
//!
//! [`parse`] reads a frame once and names what it is; a frame that is no message comes out as an [`Invalid`] that knows
//! the rule it broke, where, and whether and under which id its sender is to be answered. [`Reply`] and the functions
//! of [`mod@write`] go the other way.

mod batch;
mod code;
mod error;
mod id;
mod invalid;
mod message;
mod parse;
mod parsed_frame;
pub mod write;

pub use batch::{Batch, BatchElements};
pub use code::{Code, ReservedCode};
pub use error::{ErrorObject, ErrorRef};
pub use id::Id;
pub use invalid::{ErrorFault, Invalid, MemberName, Rule, Shape};
pub use message::{Message, Notification, Params, Request, Response};
pub use parse::{DEFAULT_DEPTH, Parsed, parse};
pub use parsed_frame::ParsedFrame;
pub(crate) use parsed_frame::span_of;
pub use write::Reply;
