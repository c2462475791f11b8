//! A grant -> the form that is posted to a token endpoint, with the client's authentication.

use super::client::ClientAuthMethod;
use super::credentials::ClientRegistration;
use super::dpop::ProofRequest;
use super::form;
use super::jwt::AssertionRequest;
use super::secret::SecretText;
use super::url::Url;
use crate::http::base64;

/// The values of `grant_type`.
pub(super) mod grant_type {
    /// RFC 6749, section 4.1.3.
    pub(in crate::auth) const CODE: &str = "authorization_code";
    /// RFC 6749, section 6.
    pub(in crate::auth) const REFRESH: &str = "refresh_token";
    /// RFC 6749, section 4.4.
    pub(in crate::auth) const CLIENT: &str = "client_credentials";
    /// RFC 8628, section 3.4.
    pub(in crate::auth) const DEVICE: &str = "urn:ietf:params:oauth:grant-type:device_code";
    /// RFC 8693, section 2.1.
    pub(in crate::auth) const EXCHANGE: &str = "urn:ietf:params:oauth:grant-type:token-exchange";
    /// RFC 7523, section 2.1.
    pub(in crate::auth) const ASSERTION: &str = "urn:ietf:params:oauth:grant-type:jwt-bearer";
}

/// The type of an identity assertion that grants a token at another authorization server.
pub const ID_JAG: &str = "urn:ietf:params:oauth:token-type:id-jag";

/// The type of an OpenID Connect ID token: RFC 8693, section 3.
pub const ID_TOKEN: &str = "urn:ietf:params:oauth:token-type:id_token";

/// The type of a SAML 2.0 assertion: RFC 8693, section 3.
pub const SAML2: &str = "urn:ietf:params:oauth:token-type:saml2";

/// The parameters that are secrets.
const SECRET_PARAMETERS: [&str; 7] =
    ["code", "code_verifier", "refresh_token", "device_code", "subject_token", "assertion", "client_secret"];

const ASSERTION_TYPE: &str = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";

/// The reason for which a token is requested, with what the grant needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum TokenGrant {
    /// A code that a callback has brought.
    Code { code: SecretText, verifier: SecretText, redirect_uri: String },
    /// A refresh token.
    Refresh { refresh_token: SecretText },
    /// The client acts for itself.
    Client,
    /// A code that a user has entered on another device.
    Device { device_code: SecretText },
    /// An identity assertion is exchanged, at the identity provider, for a grant at the authorization server
    /// `audience`.
    Exchange { subject_token: SecretText, subject_token_type: String, audience: String },
    /// A signed assertion: an ID-JAG, or the identity of a workload.
    Assertion { assertion: SecretText },
}

impl TokenGrant {
    /// Returns the parameters of the grant.
    pub(super) fn parameters(&self) -> Vec<(&'static str, &str)> {
        match self {
            Self::Code { code, verifier, redirect_uri } => vec![
                ("grant_type", grant_type::CODE),
                ("code", code.expose()),
                ("redirect_uri", redirect_uri),
                ("code_verifier", verifier.expose()),
            ],
            Self::Refresh { refresh_token } => {
                vec![("grant_type", grant_type::REFRESH), ("refresh_token", refresh_token.expose())]
            }
            Self::Client => vec![("grant_type", grant_type::CLIENT)],
            Self::Device { device_code } => {
                vec![("grant_type", grant_type::DEVICE), ("device_code", device_code.expose())]
            }
            Self::Exchange { subject_token, subject_token_type, audience } => vec![
                ("grant_type", grant_type::EXCHANGE),
                ("requested_token_type", ID_JAG),
                ("audience", audience),
                ("subject_token", subject_token.expose()),
                ("subject_token_type", subject_token_type),
            ],
            Self::Assertion { assertion } => {
                vec![("grant_type", grant_type::ASSERTION), ("assertion", assertion.expose())]
            }
        }
    }

    /// Whether the request names the scopes. The scopes of a code are those of its authorization request, and those of
    /// a refresh token stay as they are.
    pub(super) fn has_scope(&self, scope_on_refresh: bool) -> bool {
        match self {
            Self::Code { .. } | Self::Device { .. } => false,
            Self::Refresh { .. } => scope_on_refresh,
            Self::Client | Self::Exchange { .. } | Self::Assertion { .. } => true,
        }
    }
}

/// The body of a request to an endpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum PostBody {
    /// `application/x-www-form-urlencoded`.
    Form(Vec<(&'static str, SecretText)>),
    /// `application/json`.
    Json(String),
}

/// A request to an endpoint of an authorization server. It must not follow redirects, and its response must not be
/// longer than [`MAX_ENDPOINT_RESPONSE_BYTES`](super::MAX_ENDPOINT_RESPONSE_BYTES).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Post {
    /// The URL of the endpoint.
    pub url: Url,
    /// The body.
    pub body: PostBody,
    /// The value of the `Authorization` header, if there is one.
    pub authorization: Option<SecretText>,
    /// The client assertion to be signed and added to the form, if there is one.
    pub assertion: Option<AssertionRequest>,
    /// The proof to be signed and sent in the header `DPoP`, if there is one.
    pub proof: Option<ProofRequest>,
    /// The secrets of the post, which the server may repeat in an error.
    pub(super) secrets: Vec<SecretText>,
}

impl Post {
    pub(super) fn json(url: Url, body: String) -> Self {
        Self { url, body: PostBody::Json(body), authorization: None, assertion: None, proof: None, secrets: Vec::new() }
    }

    /// Creates the post of a form by a client, which authenticates with `method`. `issuer` is the audience of a signed
    /// assertion (MCP extension "OAuth Client Credentials"; the issuer rather than the endpoint, because an assertion
    /// for the endpoint of another server could be used there).
    pub(super) fn form(
        url: Url,
        parameters: Vec<(&'static str, &str)>,
        client: &ClientRegistration,
        method: ClientAuthMethod,
        issuer: &str,
    ) -> Self {
        let mut pairs: Vec<_> = parameters.into_iter().map(|(name, value)| (name, SecretText::from(value))).collect();
        let secret = client.secret.as_ref().map(SecretText::expose).unwrap_or_default();
        let (mut authorization, mut assertion) = (None, None);
        match method {
            ClientAuthMethod::Public => pairs.push(("client_id", client.id.as_str().into())),
            ClientAuthMethod::SecretBasic => authorization = Some(basic(&client.id, secret)),
            ClientAuthMethod::SecretPost => {
                pairs.extend([("client_id", client.id.as_str().into()), ("client_secret", secret.into())]);
            }
            ClientAuthMethod::PrivateKeyJwt => {
                // The client is named by the assertion.
                assertion = client.key.clone().map(|key| AssertionRequest {
                    client_id: client.id.clone(),
                    audience: issuer.to_owned(),
                    key,
                });
            }
        }
        let is_secret = |(name, _): &&(&'static str, SecretText)| SECRET_PARAMETERS.contains(name);
        let mut secrets: Vec<_> = pairs.iter().filter(is_secret).map(|(_, value)| value.clone()).collect();
        secrets.extend(client.secret.clone());
        // Without the name of the scheme, which the server may leave out.
        let credentials = authorization.as_ref().and_then(|value: &SecretText| value.expose().split_once(' '));
        secrets.extend(credentials.map(|(_, credentials)| credentials.into()));
        Self { url, body: PostBody::Form(pairs), authorization, assertion, proof: None, secrets }
    }

    /// Whether the post sends a refresh token to be exchanged. The server may replace the token, so that the response is
    /// the only place where the new one is: store it before the program ends.
    pub fn is_renewal(&self) -> bool {
        let is_refresh =
            |(name, value): &(&str, SecretText)| *name == "grant_type" && value.expose() == grant_type::REFRESH;
        matches!(&self.body, PostBody::Form(pairs) if pairs.iter().any(is_refresh))
    }

    /// Returns the type of the body.
    pub fn content_type(&self) -> &'static str {
        match self.body {
            PostBody::Form(_) => "application/x-www-form-urlencoded",
            PostBody::Json(_) => "application/json",
        }
    }

    /// Returns the body. `client_assertion` is the signed JWT that [`Self::assertion`] asks for.
    pub fn body(&self, client_assertion: Option<&str>) -> SecretText {
        match &self.body {
            PostBody::Json(json) => json.as_str().into(),
            PostBody::Form(pairs) => {
                let pairs = pairs.iter().map(|(name, value)| (*name, value.expose()));
                let signed = client_assertion
                    .into_iter()
                    .flat_map(|jwt| [("client_assertion_type", ASSERTION_TYPE), ("client_assertion", jwt)]);
                form::encode(pairs.chain(signed)).into()
            }
        }
    }
}

/// Returns the header value of `client_secret_basic`: id and secret are form-encoded first (RFC 6749, section 2.3.1).
fn basic(id: &str, secret: &str) -> SecretText {
    let mut text = String::new();
    form::push_encoded(&mut text, id);
    text.push(':');
    form::push_encoded(&mut text, secret);
    let mut value = String::from("Basic ");
    base64::encode(&mut value, text.as_bytes());
    value.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::client::SigningKey;
    use crate::auth::credentials::RegistrationKind;

    #[test]
    fn a_client_authenticates_in_one_way() {
        let mut client = ClientRegistration::new(RegistrationKind::Configured, "a:b");
        client.secret = Some("c d".into());
        client.key = Some(SigningKey::new("ES256", "k"));
        let url = Url::parse("https://a.example/token").unwrap();
        let grant = TokenGrant::Client;
        for (method, authorization, body) in [
            (ClientAuthMethod::Public, None, "grant_type=client_credentials&client_id=a%3Ab"),
            // `a%3Ab:c%20d`
            (ClientAuthMethod::SecretBasic, Some("Basic YSUzQWI6YyUyMGQ="), "grant_type=client_credentials"),
            (ClientAuthMethod::SecretPost, None, "grant_type=client_credentials&client_id=a%3Ab&client_secret=c%20d"),
            (
                ClientAuthMethod::PrivateKeyJwt,
                None,
                "grant_type=client_credentials&client_assertion_type=urn%3Aietf%3Aparams%3Aoauth%3A\
                 client-assertion-type%3Ajwt-bearer&client_assertion=h.c.s",
            ),
        ] {
            let post = Post::form(url.clone(), grant.parameters(), &client, method, "https://a.example");
            let jwt = post.assertion.as_ref().map(|assertion| {
                assert_eq!((&*assertion.client_id, &*assertion.audience), ("a:b", "https://a.example"));
                "h.c.s"
            });
            assert_eq!(post.authorization.as_ref().map(SecretText::expose), authorization);
            assert_eq!(post.body(jwt).expose(), body);
            assert!(!format!("{post:?}").contains("c d"));
        }
    }
}
