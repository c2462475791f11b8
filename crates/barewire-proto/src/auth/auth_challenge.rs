//! A 401 or 403 response -> what the server asks for. RFC 6750, section 3; RFC 9728, section 5.1; RFC 9449, section
//! 7.1.

use super::credentials::TokenType;
use super::dpop::DPOP_NONCE;
use super::scope::Scopes;
use crate::http::{Headers, challenge, single};

/// The demands of a server that has refused a request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct AuthChallenge {
    /// The HTTP status.
    pub status: u16,
    /// The URL of the metadata of the resource, as it was written.
    pub resource_metadata: Option<String>,
    /// The scopes that the request needs.
    pub scopes: Option<Scopes>,
    /// The error code: `invalid_token`, `insufficient_scope`, `use_dpop_nonce`.
    pub error: Option<String>,
    /// Whether the server accepts only tokens that are bound to a key: it names the scheme `DPoP`, and not `Bearer`.
    pub dpop_only: bool,
    /// Whether the server names the scheme `DPoP`.
    pub names_dpop: bool,
    /// The nonce for the next proof.
    pub dpop_nonce: Option<String>,
}

impl AuthChallenge {
    /// Reads a response. A server may send a challenge for each scheme; of a parameter that both have, the first is
    /// used.
    pub fn read(status: u16, headers: &(impl Headers + ?Sized)) -> Self {
        Self::read_for(None, status, headers)
    }

    /// Reads the response to a request with a token that was `sent` under this scheme. Of a parameter that the challenges
    /// of both schemes have, that of this scheme is used: the error of the other one is about a request that was not made.
    pub fn read_for(sent: Option<TokenType>, status: u16, headers: &(impl Headers + ?Sized)) -> Self {
        let challenges = challenge::parse(headers);
        let known = |scheme: &str| challenges.iter().any(|challenge| challenge.is(scheme));
        let param = |name: &str| {
            // The sort is stable: without a token, the first challenge comes first.
            let mut ours: Vec<_> = challenges.iter().filter(|it| it.is("Bearer") || it.is("DPoP")).collect();
            ours.sort_by_key(|challenge| sent.is_some_and(|own| !challenge.is(own.as_str())));
            ours.into_iter().find_map(|challenge| challenge.param(name)).map(str::to_owned)
        };
        let nonce = single(headers, DPOP_NONCE).ok().flatten().and_then(|nonce| std::str::from_utf8(nonce).ok());
        Self {
            status,
            resource_metadata: param("resource_metadata"),
            scopes: param("scope").map(|scope| Scopes::parse(&scope)).filter(|scopes| !scopes.is_empty()),
            error: param("error"),
            dpop_only: known("DPoP") && !known("Bearer"),
            names_dpop: known("DPoP"),
            dpop_nonce: nonce.map(str::to_owned),
        }
    }

    /// Whether the server only wants another proof, with its nonce: RFC 9449, section 9.
    pub fn wants_nonce(&self) -> bool {
        self.status == 401 && self.error.as_deref() == Some("use_dpop_nonce") && self.dpop_nonce.is_some()
    }

    /// Whether the token lacks scopes.
    pub fn wants_scopes(&self) -> bool {
        self.status == 403 && self.error.as_deref() == Some("insufficient_scope")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_schemes_are_read() {
        let headers = [
            ("WWW-Authenticate", "Basic realm=\"x\", scope=\"no\""),
            ("WWW-Authenticate", "DPoP error=\"use_dpop_nonce\", algs=\"ES256\""),
            ("WWW-Authenticate", "Bearer scope=\"a b\", resource_metadata=\"https://m.example/x\""),
            ("DPoP-Nonce", "n1"),
        ];
        let challenge = AuthChallenge::read(401, &headers[..]);
        assert_eq!(challenge.scopes, Some(Scopes::parse("a b")));
        assert_eq!(challenge.resource_metadata.as_deref(), Some("https://m.example/x"));
        assert!(challenge.wants_nonce() && challenge.names_dpop && !challenge.dpop_only);
        assert!(AuthChallenge::read(401, &headers[1..2]).dpop_only);
        assert!(!AuthChallenge::read(401, &headers[1..2]).wants_nonce(), "there is no nonce");
        let both = [
            ("WWW-Authenticate", "Bearer error=\"invalid_token\", DPoP error=\"use_dpop_nonce\""),
            ("DPoP-Nonce", "n1"),
        ];
        let read = |sent| AuthChallenge::read_for(sent, 401, &both[..]);
        assert!(read(Some(TokenType::Dpop)).wants_nonce());
        assert!(!read(Some(TokenType::Bearer)).wants_nonce() && !read(None).wants_nonce());
        let empty: [(&str, &str); 0] = [];
        assert_eq!(AuthChallenge::read(401, &empty[..]), AuthChallenge { status: 401, ..AuthChallenge::default() });
    }
}
