//! A record -> the request that makes its tokens useless, for a user who signs out. RFC 7009.

use super::client::ClientAuthMethod;
use super::credentials::Credentials;
use super::grant::Post;
use super::url::Url;

impl Credentials {
    /// Returns the request that revokes the refresh token, or without one the access token; servers that revoke a
    /// refresh token also end its access tokens (section 2.1). Returns `None` if the server has no endpoint for it.
    ///
    /// The status 200 means that the token is no longer valid, also if it was not before. After any other status the
    /// record is removed all the same.
    pub fn revocation(&self) -> Option<Post> {
        let url = Url::parse(self.revocation_endpoint.as_deref()?).ok()?;
        let (token, hint) = match &self.refresh_token {
            Some(refresh_token) => (refresh_token, "refresh_token"),
            None => (&self.access_token, "access_token"),
        };
        let parameters = vec![("token", token.expose()), ("token_type_hint", hint)];
        let method = self.client.auth_method.unwrap_or(ClientAuthMethod::Public);
        Some(Post::form(url, parameters, &self.client, method, &self.issuer))
    }
}
