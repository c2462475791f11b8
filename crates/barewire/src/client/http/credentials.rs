//! Who the client says it is: tokens for requests, and what to do when a server wants another one.

use std::fmt;
use std::pin::Pin;

use http::StatusCode;

use crate::Failure;

/// Text that is sent to a server and shown to nobody else. `Debug` prints `***`.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Box<str>);

impl Secret {
    /// Keeps this text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into().into_boxed_str())
    }

    /// The text itself, to be sent and not to be shown.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

impl From<String> for Secret {
    fn from(text: String) -> Self {
        Self::new(text)
    }
}

impl From<&str> for Secret {
    fn from(text: &str) -> Self {
        Self::new(text)
    }
}

/// What [`TokenProvider::token`] gives: `None` is a request without a token.
pub type TokenFuture<'a> = Pin<Box<dyn Future<Output = Result<Option<Secret>, Failure>> + Send + 'a>>;

/// Gives the bearer token that a request is sent with. Asked before each one, so one that has expired can be replaced.
///
/// A [`Secret`] gives itself, and a closure what its future does. The token goes to the origin of the endpoint and nowhere
/// else, whatever redirects say.
pub trait TokenProvider: Send + Sync {
    /// The token for the next request.
    fn token(&self) -> TokenFuture<'_>;
}

impl TokenProvider for Secret {
    fn token(&self) -> TokenFuture<'_> {
        Box::pin(async { Ok(Some(self.clone())) })
    }
}

impl<F, Fut> TokenProvider for F
where
    F: Fn() -> Fut + Send + Sync,
    Fut: Future<Output = Result<Option<Secret>, Failure>> + Send + 'static,
{
    fn token(&self) -> TokenFuture<'_> {
        Box::pin(self())
    }
}

/// What a server said instead of serving a request.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Challenge {
    /// 401: who are you; 403: not with this token.
    pub status: StatusCode,
    /// The values of `WWW-Authenticate`, as they came; there may be none. What is no text is left out.
    pub www_authenticate: Vec<String>,
    /// What was asked for: the URL of the endpoint or, if that was redirected within its origin, where to.
    pub url: String,
    /// The token that was not enough, if there was one: another request may have got a newer one in the meantime.
    pub token: Option<Secret>,
}

/// What follows from a [`Challenge`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum ChallengeResponse {
    /// The request is sent once more, with this token. What the server says then stands.
    Retry(Secret),
    /// What the server said stands.
    GiveUp,
}

/// Gets another token when a server wants one: this is where OAuth comes in.
///
/// Asked at most once for a request, and only about what the origin of the endpoint says. The request waits meanwhile, and the
/// time counts as part of its timeout; several requests may be waiting at once. A token that is good for more than one request is
/// the [`TokenProvider`]'s to remember.
pub trait OnChallenge: Send + Sync {
    /// Decides.
    fn challenged(
        &self,
        challenge: Challenge,
    ) -> Pin<Box<dyn Future<Output = Result<ChallengeResponse, Failure>> + Send + '_>>;
}
