//! The facts of a sign-in -> the URL of the page to open, and what must be remembered until the callback. RFC 6749,
//! section 4.1.1; RFC 7636; RFC 8707.

use super::form;
use super::scope::Scopes;
use super::secret::SecretText;
use super::url::{BadUrl, Url};
use crate::http::base64;

/// The random numbers and the hash that a sign-in needs. This crate has neither.
pub trait Crypto {
    /// Returns 32 random bytes of cryptographic quality.
    fn random(&mut self) -> [u8; 32];
    /// Returns the SHA-256 hash of the bytes.
    fn sha256(&mut self, bytes: &[u8]) -> [u8; 32];
}

/// The secret of one authorization request and its hash: RFC 7636, sections 4.1 and 4.2.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Pkce {
    /// `code_verifier`, which is sent with the code.
    pub verifier: SecretText,
    /// `code_challenge`, which is sent with the authorization request. The method is always S256.
    pub challenge: String,
}

impl Pkce {
    /// Creates a new secret.
    pub fn new(crypto: &mut (impl Crypto + ?Sized)) -> Self {
        Self::from_verifier(base64::encode_url(&crypto.random()), crypto)
    }

    fn from_verifier(verifier: String, crypto: &mut (impl Crypto + ?Sized)) -> Self {
        let challenge = base64::encode_url(&crypto.sha256(verifier.as_bytes()));
        Self { verifier: verifier.into(), challenge }
    }
}

/// The facts that the callback of an authorization request is compared with. They belong to one request.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PendingAuthorization {
    /// The `state` of the request.
    pub state: SecretText,
    /// The secret of the request.
    pub pkce: Pkce,
    /// The issuer of the checked metadata: the only one whose answer is accepted.
    pub issuer: String,
    /// Whether the answer must have `iss`.
    pub has_iss: bool,
    /// The redirect URI of the request.
    pub redirect_uri: String,
}

/// The parts of an authorization request.
#[derive(Debug, Clone, Copy)]
pub(super) struct AuthorizationRequest<'a> {
    pub(super) endpoint: &'a Url,
    pub(super) client_id: &'a str,
    pub(super) scopes: &'a Scopes,
    pub(super) resource: Option<&'a str>,
    /// The hash of the public key that the code will be bound to: RFC 9449, section 10.
    pub(super) dpop_thumbprint: Option<&'a str>,
    pub(super) pending: &'a PendingAuthorization,
}

impl AuthorizationRequest<'_> {
    /// Returns the URL of the page. A query of the endpoint is kept (RFC 6749, section 3.1).
    pub(super) fn url(&self) -> Result<Url, BadUrl> {
        let scope = self.scopes.to_string();
        // OpenID Connect Core, section 11: a server may ignore `offline_access` if the user is not asked for consent.
        let prompt = self.scopes.has(super::scope::OFFLINE_ACCESS).then_some("consent");
        let pairs = [
            ("response_type", Some("code")),
            ("client_id", Some(self.client_id)),
            ("redirect_uri", Some(&*self.pending.redirect_uri)),
            ("state", Some(self.pending.state.expose())),
            ("code_challenge", Some(&*self.pending.pkce.challenge)),
            ("code_challenge_method", Some("S256")),
            ("resource", self.resource),
            ("scope", Some(&*scope).filter(|scope| !scope.is_empty())),
            ("prompt", prompt),
            ("dpop_jkt", self.dpop_thumbprint),
        ];
        let query = form::encode(pairs.into_iter().filter_map(|(name, value)| Some((name, value?))));
        let separator = match self.endpoint.query() {
            None => "?",
            Some("") => "",
            Some(_) => "&",
        };
        Url::parse(&format!("{}{separator}{query}", self.endpoint))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The hash of the example in RFC 7636, appendix B.
    struct Example;

    impl Crypto for Example {
        fn random(&mut self) -> [u8; 32] {
            let bytes = base64::decode_url(b"dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk").expect("valid");
            bytes.try_into().expect("32 bytes")
        }

        fn sha256(&mut self, bytes: &[u8]) -> [u8; 32] {
            assert_eq!(bytes, b"dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk");
            let hash = base64::decode_url(b"E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM").expect("valid");
            hash.try_into().expect("32 bytes")
        }
    }

    #[test]
    fn the_example_of_rfc_7636() {
        let pkce = Pkce::new(&mut Example);
        assert_eq!(pkce.challenge, "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM");
    }

    #[test]
    fn the_query_of_the_endpoint_is_kept() {
        let pending = PendingAuthorization {
            state: "s".into(),
            pkce: Pkce { verifier: "v".into(), challenge: "c".into() },
            issuer: "https://a.example".into(),
            has_iss: false,
            redirect_uri: "http://127.0.0.1:1/".into(),
        };
        for (endpoint, start) in [
            ("https://a.example/authorize", "https://a.example/authorize?response_type=code&client_id=a%26b&"),
            ("https://a.example/authorize?", "https://a.example/authorize?response_type=code&"),
            ("https://a.example/authorize?t=1", "https://a.example/authorize?t=1&response_type=code&"),
        ] {
            let endpoint = Url::parse(endpoint).unwrap();
            let scopes = Scopes::new();
            let request = AuthorizationRequest {
                endpoint: &endpoint,
                client_id: "a&b",
                scopes: &scopes,
                resource: None,
                dpop_thumbprint: None,
                pending: &pending,
            };
            let url = request.url().unwrap();
            assert!(url.as_str().starts_with(start), "{url}");
        }
    }
}
