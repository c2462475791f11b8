//! A server at a URL: where it is, and what is shown to it.

mod credentials;
mod endpoint;
// What sends messages through it comes next.
#[allow(dead_code)]
pub(crate) mod fetch;

pub use credentials::{Answer, Challenge, OnChallenge, Secret, TokenFuture, TokenProvider};
pub use endpoint::Endpoint;
pub use fetch::{FetchError, RedirectError};
