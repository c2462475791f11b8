//! The settings of a sign-in: which server, as which client, by which grant.

use super::client::{ClientIdentity, ConfiguredClient, SigningKey};
use super::dpop::DpopUse;
use super::network::NetworkPolicy;
use super::rules::Overrides;
use super::scope::Scopes;
use super::secret::SecretText;
use super::url::Url;
use crate::mcp::Revision;

/// The way in which a token is obtained.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum SignInGrant {
    /// A user signs in with a browser on this machine, or on one whose callback can be pasted.
    AuthorizationCode {
        /// The URI that the browser returns to: `http://127.0.0.1:PORT/callback`, or a URL with `https`.
        redirect_uri: String,
    },
    /// A user enters a code on another device: RFC 8628.
    DeviceCode,
    /// The client acts for itself: MCP extension "OAuth Client Credentials".
    ClientCredentials,
    /// The identity provider of an enterprise vouches for the user: MCP extension "Enterprise-Managed Authorization".
    EnterpriseManaged(Box<IdentityProvider>),
    /// The platform that a program runs on vouches for it: workload identity (SEP-1933, RFC 7523).
    WorkloadIdentity {
        /// The JWT of the platform. Its audience is the authorization server.
        assertion: SecretText,
    },
}

/// The identity provider of an enterprise, and the assertion that it has issued at single sign-on.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct IdentityProvider {
    /// The issuer, whose metadata names the token endpoint.
    pub issuer: String,
    /// The token endpoint, if it is known; then no metadata is fetched.
    pub token_endpoint: Option<Url>,
    /// The client that is registered with the identity provider.
    pub client: ConfiguredClient,
    /// The identity assertion: an ID token, or a SAML assertion.
    pub subject_token: SecretText,
    /// The type of the assertion: [`ID_TOKEN`](super::ID_TOKEN) or [`SAML2`](super::SAML2).
    pub subject_token_type: String,
}

impl IdentityProvider {
    /// Creates an identity provider that has issued an ID token.
    pub fn new(issuer: impl Into<String>, client: ConfiguredClient, id_token: impl Into<SecretText>) -> Self {
        Self {
            issuer: issuer.into(),
            token_endpoint: None,
            client,
            subject_token: id_token.into(),
            subject_token_type: super::grant::ID_TOKEN.to_owned(),
        }
    }
}

setters! { IdentityProvider { token_endpoint: Option<Url>, subject_token_type: String } }

/// The settings of a sign-in.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SignInSettings {
    /// The URL of the MCP server.
    pub server: Url,
    /// The revision that client and server speak. Leave it out if it is not known yet: then the ways of every revision
    /// are tried, with the strictest checks.
    pub revision: Option<Revision>,
    /// The way in which the token is obtained.
    pub grant: SignInGrant,
    /// The client.
    pub client: ClientIdentity,
    /// The scopes to ask for first; by default those that the server asks for.
    pub scopes: Option<Scopes>,
    /// Whether to ask for a refresh token.
    pub wants_refresh_token: bool,
    /// Whether tokens are bound to a key.
    pub dpop: DpopUse,
    /// The key that tokens are bound to. It needs `public_jwk`.
    pub dpop_key: Option<SigningKey>,
    /// The networks that the server may name URLs of.
    pub network: NetworkPolicy,
    /// The exceptions for a server that is known to be wrong.
    pub overrides: Overrides,
}

impl SignInSettings {
    /// Creates the settings of a sign-in.
    pub fn new(server: Url, grant: SignInGrant, client: ClientIdentity) -> Self {
        let network = NetworkPolicy::for_server(&server);
        Self {
            server,
            revision: None,
            grant,
            client,
            scopes: None,
            wants_refresh_token: true,
            dpop: DpopUse::default(),
            dpop_key: None,
            network,
            overrides: Overrides::default(),
        }
    }

    pub(super) fn redirect_uri(&self) -> Option<&str> {
        match &self.grant {
            SignInGrant::AuthorizationCode { redirect_uri } => Some(redirect_uri),
            _ => None,
        }
    }

    /// Whether a user takes part in the grant.
    pub(super) fn is_interactive(&self) -> bool {
        matches!(self.grant, SignInGrant::AuthorizationCode { .. } | SignInGrant::DeviceCode)
    }
}

setters! { SignInSettings {
    revision: Option<Revision>, scopes: Option<Scopes>, wants_refresh_token: bool, dpop: DpopUse,
    dpop_key: Option<SigningKey>, network: NetworkPolicy, overrides: Overrides,
} }
