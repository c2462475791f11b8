//! Authentication: from the head of a request, determines the principal that sent it, or refuses the request. The body
//! is read only after that.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::OnceLock;

use barewire_proto::auth::server::{Challenges, PresentedToken, Scheme, credentials};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri};
use subtle::{Choice, ConstantTimeEq};

use super::principal::ChallengeStyle;
use super::{Principal, ProtectedResource};
use crate::headers::HeaderMapView;

/// A check that identifies the sender of a request. It runs before the body is read.
///
/// The check gets the whole head of the request, so schemes that sign the method and the URI work too. The credentials
/// are not passed on: handlers get the [`Principal`], and no other server gets the token.
///
/// ```
/// use barewire::server::http::{RequestHead, Authenticate, AuthenticateFuture, AuthError, Principal};
///
/// /// Trusts a proxy that has verified the user and names them in a header.
/// struct BehindProxy;
///
/// impl Authenticate for BehindProxy {
///     fn authenticate<'a>(&'a self, head: &'a RequestHead<'a>) -> AuthenticateFuture<'a> {
///         Box::pin(async move {
///             let user = head.headers.get("x-verified-user").and_then(|user| user.to_str().ok());
///             user.map(Principal::new).ok_or_else(AuthError::unauthorized)
///         })
///     }
/// }
/// ```
pub trait Authenticate: Send + Sync + 'static {
    /// Returns the sender, or the reason why the request is refused.
    fn authenticate<'a>(&'a self, head: &'a RequestHead<'a>) -> AuthenticateFuture<'a>;

    /// Returns the scopes that every request needs. They are checked after the body is read, together with those of the
    /// tool, prompt or resource, so that one refusal names all scopes that are missing.
    fn required_scopes(&self) -> &[String] {
        &[]
    }

    /// Returns the metadata that tells clients where to get a token. It is served unless
    /// [`HttpBuilder::protected_resource`](super::HttpBuilder::protected_resource) sets other metadata.
    fn protected_resource(&self) -> Option<ProtectedResource> {
        None
    }

    /// Checks the settings when the server starts. The error says what to change.
    fn check_settings(&self) -> Result<(), String> {
        Ok(())
    }
}

/// The future of a running check.
pub type AuthenticateFuture<'a> = Pin<Box<dyn Future<Output = Result<Principal, AuthError>> + Send + 'a>>;

/// The head of a request. `Debug` shows no query and no values of headers, because a client can have a secret there.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub struct RequestHead<'a> {
    /// The HTTP method: `POST`, `GET` or `DELETE`.
    pub method: &'a Method,
    /// The URI with scheme and host. If the request line has no host, the host is that of the `Host` header, and the
    /// scheme is `http`, or `https` with [`HttpBuilder::behind_tls`](super::HttpBuilder::behind_tls).
    pub uri: &'a Uri,
    /// All headers. The values of `Authorization`, `DPoP` and `Cookie` are marked as sensitive, so `Debug` does not
    /// show them.
    pub headers: &'a HeaderMap,
    /// The headers that the check adds to the response of a request that it accepts.
    #[cfg_attr(not(feature = "oauth"), allow(dead_code, reason = "only checks of access tokens add headers"))]
    pub(super) response: &'a AddedHeaders,
}

impl fmt::Debug for RequestHead<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.headers.keys().map(HeaderName::as_str).collect();
        f.debug_struct("RequestHead")
            .field("method", self.method)
            .field("path", &self.uri.path())
            .field("headers", &names)
            .finish_non_exhaustive()
    }
}

/// Headers of a response that are known before it is.
#[derive(Debug, Default)]
pub(super) struct AddedHeaders(OnceLock<(HeaderName, HeaderValue)>);

impl AddedHeaders {
    /// Adds a header. There is room for one.
    #[cfg(feature = "oauth")]
    pub(super) fn add(&self, name: HeaderName, value: HeaderValue) {
        let _ = self.0.set((name, value));
    }

    pub(super) fn add_to(self, headers: &mut HeaderMap) {
        if let Some((name, value)) = self.0.into_inner() {
            headers.insert(name, value);
        }
    }
}

/// The refusal of a request whose sender is not authenticated or not allowed.
#[derive(Debug, Clone)]
pub struct AuthError {
    pub(super) status: StatusCode,
    pub(super) what: String,
    pub(super) error: Option<&'static str>,
    pub(super) scopes: Vec<String>,
    pub(super) challenges: Vec<HeaderValue>,
    pub(super) headers: Vec<(HeaderName, HeaderValue)>,
    style: ChallengeStyle,
}

impl AuthError {
    fn new(status: StatusCode, what: &str, error: Option<&'static str>) -> Self {
        Self {
            status,
            what: what.to_owned(),
            error,
            scopes: Vec::new(),
            challenges: Vec::new(),
            headers: Vec::new(),
            style: ChallengeStyle::default(),
        }
    }

    /// Creates the refusal of a request without credentials: 401.
    pub fn unauthorized() -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "authentication is required: send Authorization: Bearer <token>", None)
    }

    /// Creates the refusal of a request whose credentials are not valid: 401.
    pub fn invalid_token() -> Self {
        let what = "the token is not valid: get another one";
        Self::new(StatusCode::UNAUTHORIZED, what, Some("invalid_token"))
    }

    /// Creates the refusal of a request whose credentials are not valid for this reason: 401. The client gets the
    /// reason, so it must not contain the token.
    pub fn invalid_because(why: impl fmt::Display) -> Self {
        let what = format!("the token is not valid: {why}");
        Self::new(StatusCode::UNAUTHORIZED, &what, Some("invalid_token"))
    }

    /// Creates the refusal of a request that cannot be checked now, because the issuer of its token cannot be reached:
    /// 503.
    pub fn unavailable() -> Self {
        let what =
            "the token cannot be checked now, because its issuer cannot be reached: send the request again later";
        Self::new(StatusCode::SERVICE_UNAVAILABLE, what, None)
    }

    /// Creates the refusal of a request about a task whose scopes cannot be found now: 503.
    pub(super) fn unknown_scopes() -> Self {
        let what = "the store of the tasks cannot be reached: send the request again later";
        Self::new(StatusCode::SERVICE_UNAVAILABLE, what, None)
    }

    /// Creates the refusal of a request whose sender lacks these scopes: 403.
    pub fn insufficient_scope<S: Into<String>>(scopes: impl IntoIterator<Item = S>) -> Self {
        let what = "the token does not allow this: get one with the scopes of the challenge";
        let denied = Self::new(StatusCode::FORBIDDEN, what, Some("insufficient_scope"));
        Self { scopes: scopes.into_iter().map(Into::into).collect(), ..denied }
    }

    /// Sets the scopes that the `WWW-Authenticate` challenge names.
    #[must_use]
    pub fn scopes<S: Into<String>>(mut self, scopes: impl IntoIterator<Item = S>) -> Self {
        self.scopes = scopes.into_iter().map(Into::into).collect();
        self
    }

    /// Adds a header to the response.
    #[must_use]
    pub fn header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.push((name, value));
        self
    }

    /// Sets the schemes that the challenge names.
    #[must_use]
    pub(super) fn style(mut self, style: ChallengeStyle) -> Self {
        self.style = style;
        self
    }

    /// Sets another error code and text.
    #[cfg(feature = "oauth")]
    pub(super) fn error(mut self, error: &'static str, what: impl fmt::Display) -> Self {
        (self.error, self.what) = (Some(error), what.to_string());
        self
    }

    /// Adds a `WWW-Authenticate` challenge. If none is added, the response has a challenge for bearer tokens.
    #[must_use]
    pub fn challenge(mut self, challenge: HeaderValue) -> Self {
        self.challenges.push(challenge);
        self
    }

    /// Returns the `WWW-Authenticate` headers. The default is a challenge for bearer tokens with the URL of the
    /// metadata: RFC 9728, section 5.1.
    pub(super) fn www_authenticate(&self, metadata: Option<&str>) -> Vec<HeaderValue> {
        if !self.challenges.is_empty() {
            return self.challenges.clone();
        }
        // The client did nothing wrong, so there is nothing that it could do.
        if self.status == StatusCode::SERVICE_UNAVAILABLE {
            return Vec::new();
        }
        let mut challenges = Challenges::default().dpop(self.style.dpop).scopes(&self.scopes);
        challenges.presented = self.style.presented;
        challenges.error = self.error;
        challenges.description = Some(&self.what);
        challenges.metadata = metadata;
        challenges.values().into_iter().filter_map(|value| HeaderValue::try_from(value).ok()).collect()
    }
}

/// A fixed list of tokens and their principals.
///
/// A request's token is compared with every token of the list, and the time of each comparison does not depend on where
/// the two tokens differ.
#[derive(Default)]
pub struct BearerTokens {
    tokens: Vec<(Box<[u8]>, Principal)>,
    scopes: Vec<String>,
}

impl BearerTokens {
    /// Creates an empty list, which refuses every request.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a token and the principal that it identifies.
    #[must_use]
    pub fn token(mut self, token: impl AsRef<str>, principal: Principal) -> Self {
        self.tokens.push((token.as_ref().as_bytes().into(), principal));
        self
    }

    /// Refuses every principal that lacks one of these scopes.
    #[must_use]
    pub fn require<S: Into<String>>(mut self, scopes: impl IntoIterator<Item = S>) -> Self {
        self.scopes = scopes.into_iter().map(Into::into).collect();
        self
    }

    fn check(&self, headers: &HeaderMap) -> Result<Principal, AuthError> {
        let headers = HeaderMapView(headers);
        let given = credentials(&headers).map_err(|_| AuthError::invalid_token())?;
        let Some(PresentedToken { scheme: Scheme::Bearer, token: given, .. }) = given else {
            return Err(AuthError::unauthorized().scopes(self.scopes.iter().cloned()));
        };
        let mut found = None;
        for (token, principal) in &self.tokens {
            // The loop continues after a match, so that the time does not reveal which token matched.
            let is_same: Choice = token.ct_eq(given);
            if bool::from(is_same) && !token.is_empty() {
                found = Some(principal);
            }
        }
        let principal = found.ok_or_else(|| AuthError::invalid_token().scopes(self.scopes.iter().cloned()))?;
        if self.scopes.iter().all(|scope| principal.has_scope(scope)) {
            Ok(principal.clone())
        } else {
            Err(AuthError::insufficient_scope(self.scopes.iter().cloned()))
        }
    }
}

impl Authenticate for BearerTokens {
    fn authenticate<'a>(&'a self, head: &'a RequestHead<'a>) -> AuthenticateFuture<'a> {
        Box::pin(std::future::ready(self.check(head.headers)))
    }
}

impl fmt::Debug for BearerTokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BearerTokens").field("tokens", &self.tokens.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use http::header;

    use super::*;

    fn checked(values: &[&str]) -> Result<String, (u16, Option<&'static str>)> {
        let tokens = BearerTokens::new()
            .token("s3cret", Principal::new("ada").scopes(["mcp"]))
            .token("", Principal::new("nobody").scopes(["mcp"]))
            .token("other", Principal::new("bob"))
            .require(["mcp"]);
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(header::AUTHORIZATION, HeaderValue::from_str(value).unwrap());
        }
        let checked = tokens.check(&headers);
        checked.map(|it| it.name().to_owned()).map_err(|denied| (denied.status.as_u16(), denied.error))
    }

    #[test]
    fn a_token_identifies_its_principal() {
        let (missing, invalid) = (Err((401, None)), Err((401, Some("invalid_token"))));
        for (values, expected) in [
            (&["Bearer s3cret"][..], Ok("ada".to_owned())),
            (&["bearer  s3cret "], Ok("ada".to_owned())),
            (&["Bearer other"], Err((403, Some("insufficient_scope")))),
            (&["Bearer s3cre"], invalid.clone()),
            (&["Bearer s3cret2"], invalid.clone()),
            (&["Bearer s3cret", "Bearer s3cret"], invalid),
            (&[], missing.clone()),
            (&["Bearer"], missing.clone()),
            (&["Bearer "], missing.clone()),
            (&["Basic s3cret"], missing),
        ] {
            assert_eq!(checked(values), expected, "{values:?}");
        }
    }
}
