//! Bearer tokens, and the handling of 401 and 403 responses.

use std::fmt;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;

use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};

use super::FetchError;
use super::fetch::HttpUrl;
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

/// Credentials that differ from request to request, such as an access token with a proof of its key.
pub(crate) trait AccessGrant: Send + Sync {
    /// Returns the access token, to compare grants.
    #[cfg_attr(not(feature = "oauth"), allow(dead_code, reason = "only a sign-in has grants"))]
    fn access_token(&self) -> &str;

    /// Returns the headers for one request. A request that is redirected within its origin needs new ones.
    fn headers(&self, method: &Method, url: &HttpUrl) -> Result<Vec<(HeaderName, HeaderValue)>, FetchError>;

    /// Returns the headers for one request with another token, and a proof for that token if this one is bound to a key.
    /// Only a test of a server sends them.
    #[cfg(feature = "oauth")]
    fn headers_with(
        &self,
        method: &Method,
        url: &HttpUrl,
        token: &str,
    ) -> Result<Vec<(HeaderName, HeaderValue)>, FetchError>;
}

/// The grant for a request; `None` if it is sent without one.
pub(crate) type GrantFuture<'a> =
    Pin<Box<dyn Future<Output = Result<Option<Arc<dyn AccessGrant>>, FetchError>> + Send + 'a>>;

/// The future that [`Authorizer::sign_out`] returns.
#[cfg(feature = "oauth")]
pub(crate) type SignOutFuture<'a> = Pin<Box<dyn Future<Output = Result<SignOut, FetchError>> + Send + 'a>>;

/// The result of a sign-out.
#[cfg(feature = "oauth")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SignOut {
    /// There was no sign-in.
    NotSignedIn,
    /// The tokens were removed here. The authorization server accepts them until they expire: it has no endpoint to
    /// revoke them, or it did not answer.
    Forgotten,
    /// The tokens were removed here, and the authorization server has revoked them.
    Revoked,
}

/// A sign-in: a source of grants that obtains them as the server requires.
pub(crate) trait Authorizer: Send + Sync {
    /// Returns the grant for the next request. Renews it if it is about to expire.
    fn grant(&self) -> GrantFuture<'_>;

    /// Reacts to a 401 or 403 response. Returns the grant to send the request with once more; `None` if the response
    /// is final.
    fn challenged<'a>(&'a self, refusal: RefusedRequest<'a>) -> GrantFuture<'a>;

    /// Whether there is a token other than this one, perhaps of another process.
    fn has_other<'a>(&'a self, token: &'a str) -> Pin<Box<dyn Future<Output = bool> + Send + 'a>>;

    /// Whether a server on the Internet may send the client into a private network.
    fn allows_private_networks(&self) -> bool;

    /// Forgets the sign-in.
    #[cfg(feature = "oauth")]
    fn sign_out(&self) -> SignOutFuture<'_>;

    /// Reads the status and the headers of any response of the endpoint's origin.
    fn responded(&self, status: StatusCode, headers: &HeaderMap);
}

/// A 401 or 403 response, for an [`Authorizer`].
#[derive(Clone, Copy)]
#[cfg_attr(not(feature = "oauth"), allow(dead_code, reason = "only a sign-in reads a refusal"))]
pub(crate) struct RefusedRequest<'a> {
    pub(crate) status: StatusCode,
    pub(crate) headers: &'a HeaderMap,
    /// The access token that was sent.
    pub(crate) token: Option<&'a str>,
    /// The address that responded, if there was no proxy.
    pub(crate) address: Option<IpAddr>,
}
