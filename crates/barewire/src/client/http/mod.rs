//! A server at a URL: where it is, what is shown to it, and how messages go there and back.

mod connection;
mod credentials;
mod endpoint;
mod events;
mod failure;
pub(crate) mod fetch;
mod get_stream;
mod http_sse;
mod mirrored;
mod negotiation;
mod outbox;
mod post;
mod tool_headers;
mod tool_lookup;

pub(super) use connection::{FAREWELL_TIMEOUT, HttpConnection};
pub use credentials::{Challenge, ChallengeResponse, OnChallenge, Secret, TokenFuture, TokenProvider};
pub use endpoint::Endpoint;
pub use failure::HttpFailure;
pub use fetch::{DialedStream, Dialer, FetchError, RedirectError};
