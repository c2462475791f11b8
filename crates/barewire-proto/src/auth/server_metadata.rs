//! The metadata document of an authorization server -> its endpoints and abilities. RFC 8414, and OpenID Connect
//! Discovery 1.0.

use super::document::{BadMember, MAX_METADATA_BYTES, MetadataDocument};
use super::scope::Scopes;
use super::url::{BadUrl, Url};

/// The metadata of an authorization server, as far as a client needs it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServerMetadata {
    /// The issuer, as it was written. It is compared letter by letter.
    pub issuer: String,
    /// The page at which a user signs in.
    pub authorization_endpoint: Option<Url>,
    /// The endpoint that issues tokens.
    pub token_endpoint: Option<Url>,
    /// The endpoint that registers clients: RFC 7591.
    pub registration_endpoint: Option<Url>,
    /// The endpoint that starts a device grant: RFC 8628.
    pub device_authorization_endpoint: Option<Url>,
    /// The endpoint that revokes tokens: RFC 7009.
    pub revocation_endpoint: Option<Url>,
    /// The scopes that the server knows, if it names them.
    pub scopes: Option<Scopes>,
    /// The methods of PKCE; `None` if the member is absent.
    pub code_challenge_methods: Option<Vec<String>>,
    /// The methods of client authentication at the token endpoint; `None` if the member is absent.
    pub token_auth_methods: Option<Vec<String>>,
    /// The algorithms of signed client assertions; `None` if the member is absent.
    pub token_auth_algorithms: Option<Vec<String>>,
    /// The algorithms of DPoP proofs; empty if the server does not support DPoP.
    pub dpop_algorithms: Vec<String>,
    /// Whether every authorization response has `iss`: RFC 9207, section 3.
    pub has_iss: bool,
    /// Whether a client ID can be the URL of a metadata document.
    pub has_client_id_documents: bool,
    /// Whether these are the default endpoints of 2025-03-26, because the server has no metadata.
    pub is_default: bool,
}

/// The reason why a metadata document is not used.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum BadServerMetadata {
    /// The text is not the metadata of an authorization server: not a JSON object, too long, or without `issuer`.
    NotMetadata,
    /// A member has the wrong type, or is not a URL where it must be one.
    Member(&'static str),
    /// The document is about another issuer: RFC 8414, section 3.3.
    OtherIssuer {
        /// The issuer that it is about.
        found: String,
    },
}

impl From<BadMember> for BadServerMetadata {
    fn from(BadMember(name): BadMember) -> Self {
        Self::Member(name)
    }
}

impl ServerMetadata {
    /// Reads a document, and checks that it is about this issuer. The two must be identical, letter by letter, unless
    /// `issuer_may_differ` is set for a server that is known to be wrong.
    pub fn read(body: &[u8], issuer: &str, issuer_may_differ: bool) -> Result<Self, BadServerMetadata> {
        let document = MetadataDocument::read(body, MAX_METADATA_BYTES).ok_or(BadServerMetadata::NotMetadata)?;
        let found = document.text("issuer")?.ok_or(BadServerMetadata::NotMetadata)?;
        if found != issuer && !issuer_may_differ {
            return Err(BadServerMetadata::OtherIssuer { found });
        }
        let scopes = document.list("scopes_supported")?;
        Ok(Self {
            issuer: found,
            authorization_endpoint: document.url("authorization_endpoint")?,
            token_endpoint: document.url("token_endpoint")?,
            registration_endpoint: document.url("registration_endpoint")?,
            device_authorization_endpoint: document.url("device_authorization_endpoint")?,
            revocation_endpoint: document.url("revocation_endpoint")?,
            scopes: scopes.map(|scopes| scopes.iter().map(String::as_str).collect()),
            code_challenge_methods: document.list("code_challenge_methods_supported")?,
            token_auth_methods: document.list("token_endpoint_auth_methods_supported")?,
            token_auth_algorithms: document.list("token_endpoint_auth_signing_alg_values_supported")?,
            dpop_algorithms: document.list("dpop_signing_alg_values_supported")?.unwrap_or_default(),
            has_iss: document.flag("authorization_response_iss_parameter_supported"),
            has_client_id_documents: document.flag("client_id_metadata_document_supported"),
            is_default: false,
        })
    }

    /// Returns the default endpoints of a server without metadata. MCP 2025-03-26, basic/authorization, "Fallbacks for
    /// Servers without Metadata Discovery".
    pub fn default_endpoints(base: &Url) -> Result<Self, BadUrl> {
        Ok(Self {
            issuer: base.as_str().to_owned(),
            authorization_endpoint: Some(base.with_path("/authorize")?),
            token_endpoint: Some(base.with_path("/token")?),
            registration_endpoint: Some(base.with_path("/register")?),
            device_authorization_endpoint: None,
            revocation_endpoint: None,
            scopes: None,
            code_challenge_methods: None,
            token_auth_methods: None,
            token_auth_algorithms: None,
            dpop_algorithms: Vec::new(),
            has_iss: false,
            has_client_id_documents: false,
            is_default: true,
        })
    }

    /// Whether codes are protected by PKCE with S256.
    ///
    /// MCP 2026-07-28, basic/authorization/security-considerations, "Authorization Code Protection": a client must
    /// refuse a server that does not name its methods. Before 2025-11-25 the specification does not say so
    /// (`must_be_advertised` is false), and the default endpoints have no document that could name them.
    pub fn has_pkce(&self, must_be_advertised: bool) -> bool {
        match &self.code_challenge_methods {
            Some(methods) => methods.iter().any(|method| method == "S256"),
            None => self.is_default || !must_be_advertised,
        }
    }
}
