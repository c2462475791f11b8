//! A server at a URL: where it is, what is shown to it, and how messages go there and back.

mod carrier;
mod credentials;
mod endpoint;
mod events;
mod failure;
pub(crate) mod fetch;
mod listing;
mod old;
mod opening;
mod outbox;
mod outgoing;
mod post;
mod tools;
mod unasked;

pub(super) use carrier::{Carrier, FAREWELL};
pub use credentials::{Challenge, ChallengeResponse, OnChallenge, Secret, TokenFuture, TokenProvider};
pub use endpoint::Endpoint;
pub use failure::HttpFailure;
pub use fetch::{DialedStream, Dialer, FetchError, RedirectError};
