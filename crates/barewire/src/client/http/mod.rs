//! Servers at a URL: the endpoint and its credentials, and the HTTP requests that carry the messages.

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
#[cfg(feature = "oauth")]
pub use credentials::SignOut;
#[cfg(feature = "oauth")]
pub(super) use credentials::{AccessGrant, Authorizer, GrantFuture, RefusedRequest, SignOutFuture};
pub use credentials::{Challenge, ChallengeResponse, OnChallenge, Secret, TokenFuture, TokenProvider};
pub use endpoint::Endpoint;
pub use failure::HttpFailure;
pub use fetch::{DialedStream, Dialer, FetchError, RedirectError};
#[cfg(feature = "oauth")]
pub use fetch::{MetadataError, MetadataResponse};
