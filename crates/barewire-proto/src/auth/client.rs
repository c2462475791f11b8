//! The client of an authorization server: who it is, how it registers, and how it authenticates at the token endpoint.

use serde::{Deserialize, Serialize};

use super::credentials::{ClientRegistration, RegistrationKind};
use super::scope::Scopes;
use super::secret::SecretText;
use super::server_metadata::ServerMetadata;
use super::url::Url;

/// The way in which a client authenticates at the token endpoint: RFC 7591, section 2, and RFC 7523, section 2.2.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum ClientAuthMethod {
    /// Only `client_id` is sent: a public client.
    #[serde(rename = "none")]
    Public,
    /// Id and secret in the header `Authorization: Basic`.
    #[serde(rename = "client_secret_basic")]
    SecretBasic,
    /// Id and secret in the body.
    #[serde(rename = "client_secret_post")]
    SecretPost,
    /// A JWT that is signed with the client's key, in the body.
    #[serde(rename = "private_key_jwt")]
    PrivateKeyJwt,
}

impl ClientAuthMethod {
    const ALL: [Self; 4] = [Self::Public, Self::SecretBasic, Self::SecretPost, Self::PrivateKeyJwt];

    /// Returns the name on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Public => "none",
            Self::SecretBasic => "client_secret_basic",
            Self::SecretPost => "client_secret_post",
            Self::PrivateKeyJwt => "private_key_jwt",
        }
    }

    /// Returns the method with this name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|method| method.as_str() == name)
    }
}

/// Returns the method of a client that has a secret, a key or neither, if the server and the client have one in common.
/// `registered` is the method that client and server have agreed on. A server that names no methods accepts
/// `client_secret_basic` (RFC 8414, section 2).
pub fn choose_auth_method(
    registered: Option<ClientAuthMethod>,
    supported: Option<&[String]>,
    has_secret: bool,
    has_key: bool,
) -> Option<ClientAuthMethod> {
    use ClientAuthMethod::{PrivateKeyJwt, Public, SecretBasic, SecretPost};
    let can = |method: ClientAuthMethod| match method {
        Public => true,
        SecretBasic | SecretPost => has_secret,
        PrivateKeyJwt => has_key,
    };
    if let Some(method) = registered {
        return can(method).then_some(method);
    }
    let accepts = |method: ClientAuthMethod| match supported {
        Some(supported) => supported.iter().any(|name| name == method.as_str()),
        // A client with a key was registered with that key, outside of the protocol.
        None => method == SecretBasic || method == PrivateKeyJwt,
    };
    let in_common = [PrivateKeyJwt, SecretBasic, SecretPost, Public].into_iter().find(|m| can(*m) && accepts(*m));
    // A client without secret and key can only be public, even if the server does not list the method.
    in_common.or((!has_secret && !has_key).then_some(Public))
}

/// A key that signs, and the name of its algorithm. The signature is made outside of this crate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct SigningKey {
    /// The algorithm, by its JWS name: `ES256`.
    pub algorithm: String,
    /// The `kid` of the key, if the server knows several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The public key as a JWK. Only proofs of possession need it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub public_jwk: Option<String>,
    /// The private key as text, such as a JWK or PEM, or the name under which a key store knows it.
    pub key: SecretText,
}

impl SigningKey {
    /// Creates a key.
    pub fn new(algorithm: impl Into<String>, key: impl Into<SecretText>) -> Self {
        Self { algorithm: algorithm.into(), id: None, public_jwk: None, key: key.into() }
    }
}

setters! { SigningKey { id: Option<String>, public_jwk: Option<String> } }

/// A client that was registered outside of the protocol.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ConfiguredClient {
    /// The client ID.
    pub id: String,
    /// The client secret, if there is one.
    pub secret: Option<SecretText>,
    /// The key for `private_key_jwt`, if there is one.
    pub key: Option<SigningKey>,
    /// The issuer that the client is registered with. It is not used with any other.
    pub issuer: Option<String>,
    /// The way to authenticate; by default the one that the server and the client have in common.
    pub auth_method: Option<ClientAuthMethod>,
}

impl ConfiguredClient {
    /// Creates a public client.
    pub fn new(id: impl Into<String>) -> Self {
        Self { id: id.into(), secret: None, key: None, issuer: None, auth_method: None }
    }
}

setters! { ConfiguredClient {
    secret: Option<SecretText>, key: Option<SigningKey>, issuer: Option<String>, auth_method: Option<ClientAuthMethod>,
} }

/// The kind of an application: OpenID Connect Dynamic Client Registration 1.0, section 2.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "OpenID Connect defines these two")]
pub enum ApplicationType {
    /// A program on the user's machine, with a redirect to loopback.
    #[default]
    Native,
    /// A web application with a redirect to its own host.
    Web,
}

impl ApplicationType {
    /// Returns the name on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::Web => "web",
        }
    }
}

/// The ways in which this client can identify itself.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ClientIdentity {
    /// The name that the authorization server shows to the user.
    pub name: String,
    /// The home page of the client.
    pub homepage: Option<String>,
    /// The kind of the application, for a dynamic registration.
    pub application_type: ApplicationType,
    /// The client that was registered before.
    pub configured: Option<ConfiguredClient>,
    /// The URL of the client's metadata document, which is then its client ID. It must begin with `https`, have a path,
    /// and list the redirect URI that is used.
    pub metadata_document: Option<Url>,
}

impl ClientIdentity {
    /// Creates a native client with this name, which can only register dynamically.
    pub fn new(name: impl Into<String>) -> Self {
        let application_type = ApplicationType::default();
        Self { name: name.into(), homepage: None, application_type, configured: None, metadata_document: None }
    }
}

setters! { ClientIdentity {
    homepage: Option<String>, application_type: ApplicationType, configured: Option<ConfiguredClient>,
    metadata_document: Option<Url>,
} }

/// The way in which a client gets its client ID.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum RegistrationChoice {
    /// The client is known: configured, stored, or by the URL of its document.
    Known(Box<ClientRegistration>),
    /// The client registers itself at this endpoint.
    Dynamic(Url),
    /// The configured client belongs to another issuer.
    OtherIssuer {
        /// The issuer that the client is registered with.
        registered: String,
    },
    /// The server offers no way that the client has.
    Unavailable,
}

impl ClientIdentity {
    /// Chooses how the client identifies itself: configured, then stored, then by document, then dynamically.
    ///
    /// MCP 2026-07-28, basic/authorization/client-registration: the order of the list at the top, and "Authorization
    /// Server Binding". `stored` is a registration with the same issuer; a dynamic one is used again only for the same
    /// redirect URI, because servers compare it letter by letter, and for scopes that it has.
    pub fn choose(
        &self,
        server: &ServerMetadata,
        stored: Option<&ClientRegistration>,
        redirect_uri: Option<&str>,
        scopes: &Scopes,
        now: u64,
    ) -> RegistrationChoice {
        let known = |kind, id: &str| {
            let mut registration = ClientRegistration::new(kind, id);
            registration.redirect_uri = redirect_uri.map(str::to_owned);
            registration
        };
        if let Some(client) = &self.configured {
            if let Some(registered) = client.issuer.as_ref().filter(|issuer| **issuer != server.issuer) {
                return RegistrationChoice::OtherIssuer { registered: registered.clone() };
            }
            let mut registration = known(RegistrationKind::Configured, &client.id);
            registration.secret = client.secret.clone();
            registration.key = client.key.clone();
            registration.auth_method = client.auth_method;
            return RegistrationChoice::Known(Box::new(registration));
        }
        if let Some(document) = self.metadata_document.as_ref().filter(|url| is_document_id(url))
            && server.has_client_id_documents
        {
            let mut registration = known(RegistrationKind::MetadataDocument, document.as_str());
            registration.auth_method = Some(ClientAuthMethod::Public);
            return RegistrationChoice::Known(Box::new(registration));
        }
        let is_usable = |stored: &&ClientRegistration| {
            stored.kind == RegistrationKind::Dynamic
                && stored.redirect_uri.as_deref() == redirect_uri
                && (stored.scopes.is_empty() || stored.scopes.has_all(scopes))
                && stored.secret_expires_at.is_none_or(|at| now < at)
        };
        match (stored.filter(is_usable), &server.registration_endpoint) {
            (Some(stored), _) => RegistrationChoice::Known(Box::new(stored.clone())),
            (None, Some(endpoint)) => RegistrationChoice::Dynamic(endpoint.clone()),
            (None, None) => RegistrationChoice::Unavailable,
        }
    }
}

/// Whether the URL can be a client ID: `https`, with a path, without query. MCP 2026-07-28, client-registration,
/// "Client ID Metadata Documents".
fn is_document_id(url: &Url) -> bool {
    url.is_https() && !matches!(url.path(), "" | "/") && url.query().is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_method_is_one_that_both_sides_have() {
        use ClientAuthMethod::{PrivateKeyJwt, Public, SecretBasic, SecretPost};
        let all = ["none", "client_secret_post", "client_secret_basic", "private_key_jwt"];
        for (registered, supported, secret, key, expected) in [
            (None, None, false, false, Some(Public)),
            (None, None, true, false, Some(SecretBasic)),
            (None, None, false, true, Some(PrivateKeyJwt)),
            (None, Some(&all[..]), true, true, Some(PrivateKeyJwt)),
            (None, Some(&all), true, false, Some(SecretBasic)),
            (None, Some(&all[..2]), true, false, Some(SecretPost)),
            // A server that gives a secret to a client, and then accepts only public clients.
            (None, Some(&all[..1]), true, false, Some(Public)),
            (None, Some(&all[3..]), true, false, None),
            (None, Some(&all[3..]), false, false, Some(Public)),
            (None, Some(&["client_secret_jwt"][..]), true, false, None),
            (Some(SecretPost), Some(&all[2..3]), true, false, Some(SecretPost)),
            (Some(SecretBasic), None, false, false, None),
            (Some(PrivateKeyJwt), None, true, false, None),
        ] {
            let supported: Option<Vec<String>> = supported.map(|list| list.iter().map(|s| (*s).to_owned()).collect());
            let chosen = choose_auth_method(registered, supported.as_deref(), secret, key);
            assert_eq!(chosen, expected, "{registered:?} {supported:?} {secret} {key}");
        }
    }
}
