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

    /// Returns the text. Do not show it to users and do not log it.
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

/// The future that [`TokenProvider::token`] returns. If its output is `None`, the request is sent without a token.
pub type TokenFuture<'a> = Pin<Box<dyn Future<Output = Result<Option<Secret>, Failure>> + Send + 'a>>;

/// A source of bearer tokens. It is called before each request, so it can replace an expired token.
///
/// A [`Secret`] always provides itself. A closure provides the output of the future that it returns. The token is sent
/// only to the origin of the endpoint, and never to another origin that a redirect leads to.
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
    /// The values of the `WWW-Authenticate` headers; can be empty. Values that are not visible ASCII are left out.
    pub www_authenticate: Vec<String>,
    /// The URL that sent the response: the endpoint's URL, or the target of a redirect within the same origin.
    pub url: String,
    /// The token that was sent, if any. Another request might have obtained a newer token in the meantime.
    pub token: Option<Secret>,
}

/// The reaction to a [`Challenge`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum ChallengeResponse {
    /// Send the request once more with this token. The handler is not called again for this request.
    Retry(Secret),
    /// Return the server's response as the error.
    GiveUp,
}

/// A handler for 401 and 403 responses, which can get a new token. Implement OAuth here.
///
/// The handler is called at most once for a request, and only for responses from the endpoint's origin. The request
/// waits for the handler, and that time counts towards the timeout of the call. The handler can be called for several
/// requests at the same time. For later requests, the [`TokenProvider`] must return the new token.
pub trait OnChallenge: Send + Sync {
    /// Decides how to react to the challenge.
    fn challenged(
        &self,
        challenge: Challenge,
    ) -> Pin<Box<dyn Future<Output = Result<ChallengeResponse, Failure>> + Send + '_>>;
}
