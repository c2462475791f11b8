//! Bearer tokens, and the handling of 401 and 403 responses.

use std::fmt;
use std::pin::Pin;

use http::StatusCode;

use crate::Failure;

/// Text that is sent to a server and never shown. `Debug` prints `***`.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Box<str>);

impl Secret {
    /// Wraps this text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into().into_boxed_str())
    }

    /// The text itself. Send it, do not show it.
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

/// The future of [`TokenProvider::token`]. `None` means a request without a token.
pub type TokenFuture<'a> = Pin<Box<dyn Future<Output = Result<Option<Secret>, Failure>> + Send + 'a>>;

/// A source of bearer tokens. Called before each request, so an expired token can be replaced.
///
/// A [`Secret`] provides itself; a closure provides the output of its future. The token is sent to the origin of the
/// endpoint and nowhere else, whatever redirects say.
pub trait TokenProvider: Send + Sync {
    /// Returns the token for the next request.
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

/// A 401 or 403 response of the server.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Challenge {
    /// 401: the request needs a token. 403: the token does not allow the request.
    pub status: StatusCode,
    /// The values of `WWW-Authenticate`; may be empty. Values that are not text are left out.
    pub www_authenticate: Vec<String>,
    /// The requested URL: that of the endpoint, or the target of a redirect within its origin.
    pub url: String,
    /// The token that was sent, if any. Another request may have received a newer one since.
    pub token: Option<Secret>,
}

/// The reaction to a [`Challenge`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum ChallengeResponse {
    /// Send the request once more with this token. The next response is final.
    Retry(Secret),
    /// Return the server's response as the error.
    GiveUp,
}

/// A handler that gets a new token when the server wants one. Implement OAuth here.
///
/// Called at most once for a request, and only for responses of the endpoint's origin. The request waits meanwhile, and
/// the time counts towards its timeout. Several requests may wait at once. Storing a token for later requests is up to
/// the [`TokenProvider`].
pub trait OnChallenge: Send + Sync {
    /// Decides how to react to the challenge.
    fn challenged(
        &self,
        challenge: Challenge,
    ) -> Pin<Box<dyn Future<Output = Result<ChallengeResponse, Failure>> + Send + '_>>;
}
