//! The rules of Streamable HTTP, without I/O: methods, header values and bodies -> decisions.
//!
//! ```text
//! server:  admit(method, headers)  ->  Verb  ->  ParsedMessage::read(body)  ->  plan(headers, message)  ->  Plan
//!                                 \-> Rejection: a status, a rule and a JSON-RPC error             HeaderParams::check
//! client:  mirror::encode, HeaderParams::headers  ->  …  ->  ResponseKind::classify(status, body)  ->  fall_back
//! ```
//!
//! This module depends on no HTTP library: the header map of a library only has to implement [`Headers`]. The rules are
//! those of MCP 2026-07-28, basic/transports/streamable-http, and for sessions those of 2025-11-25, basic/transports.

mod access;
pub(crate) mod base64;
pub mod challenge;
mod event_id;
mod fall_back;
pub mod header;
mod host;
mod media;
pub mod mirror;
mod origin;
mod param;
mod plan;
mod rejection;
mod response_kind;
mod schema;
mod standard;
mod verb;
mod version;

pub use access::{Access, BadAccess};
pub use event_id::EventId;
pub use fall_back::{Attempt, NextStep, fall_back, next_after_response};
pub use header::{Headers, RepeatedHeader, single};
pub use host::{Authority, BadAuthority, Host};
pub use media::Media;
pub use origin::Origin;
pub use param::{BadArgument, HeaderParams};
pub use plan::{Plan, plan};
pub use rejection::{Rejection, RejectionRule};
pub use response_kind::ResponseKind;
pub use schema::BadAnnotation;
pub use standard::mcp_name_source;
pub use verb::{Verb, admit};
