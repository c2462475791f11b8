//! Frames <-> messages: JSON-RPC 2.0. The members of a frame decide which kind of message it is.
//!
//! [`parse`] reads a frame once. A frame that is not a message becomes an [`Invalid`]: the rule that the frame breaks,
//! the offset of the fault, and the error response to the sender, if there must be one. [`Reply`] and the functions of
//! [`mod@write`] write messages.

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
