//! Dynamic client registration: the client's properties -> the JSON request, and the response -> a client. RFC 7591.

use serde::Serialize;

use super::client::{ClientAuthMethod, ClientIdentity};
use super::credentials::{ClientRegistration, RegistrationKind};
use super::document::{BadMember, MAX_ENDPOINT_RESPONSE_BYTES, MetadataDocument};
use super::endpoint_error::EndpointError;
use super::grant::grant_type;
use super::scope::Scopes;
use super::server_metadata::ServerMetadata;

/// The body of a registration request.
#[derive(Debug, Serialize)]
struct RegistrationRequest<'a> {
    client_name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    client_uri: Option<&'a str>,
    redirect_uris: Vec<&'a str>,
    grant_types: Vec<&'static str>,
    // Written even if it is empty, as for a device: without it, a server assumes `code`, and requires a redirect URI
    // (RFC 7591, section 2).
    response_types: Vec<&'static str>,
    token_endpoint_auth_method: &'static str,
    application_type: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    scope: Option<String>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    dpop_bound_access_tokens: bool,
}

/// The properties of a client that its registration names.
#[derive(Debug, Clone, Copy)]
pub(super) struct RegistrationProperties<'a> {
    pub(super) identity: &'a ClientIdentity,
    /// The redirect URI of an authorization code grant; `None` for a device grant.
    pub(super) redirect_uri: Option<&'a str>,
    pub(super) scopes: &'a Scopes,
    pub(super) wants_refresh_token: bool,
    /// Whether a token that is not bound to a key would be refused: RFC 9449, section 5.2.
    pub(super) dpop_required: bool,
}

/// Returns the body of a registration request.
///
/// `application_type` must be there: without it, servers with OpenID Connect assume a web application and refuse the
/// redirect to loopback (MCP 2026-07-28, basic/authorization/client-registration, "Application Type and Redirect URI
/// Constraints"). `refresh_token` belongs to `grant_types` ("Refresh Tokens").
pub(super) fn registration_body(server: &ServerMetadata, properties: &RegistrationProperties<'_>) -> String {
    let grant = if properties.redirect_uri.is_some() { grant_type::CODE } else { grant_type::DEVICE };
    let refresh = properties.wants_refresh_token.then_some(grant_type::REFRESH);
    let request = RegistrationRequest {
        client_name: &properties.identity.name,
        client_uri: properties.identity.homepage.as_deref(),
        redirect_uris: properties.redirect_uri.into_iter().collect(),
        grant_types: [grant].into_iter().chain(refresh).collect(),
        response_types: properties.redirect_uri.map(|_| "code").into_iter().collect(),
        token_endpoint_auth_method: wanted_auth_method(server).as_str(),
        application_type: properties.identity.application_type.as_str(),
        scope: Some(properties.scopes.to_string()).filter(|scope| !scope.is_empty()),
        dpop_bound_access_tokens: properties.dpop_required,
    };
    serde_json::to_string(&request).expect("strings are JSON")
}

/// Returns the method to register: a program on the user's machine cannot keep a secret, so it is public if the server
/// allows it.
fn wanted_auth_method(server: &ServerMetadata) -> ClientAuthMethod {
    let order = [ClientAuthMethod::Public, ClientAuthMethod::SecretBasic, ClientAuthMethod::SecretPost];
    match &server.token_auth_methods {
        None if server.is_default => ClientAuthMethod::Public,
        // RFC 8414, section 2: a server that names no methods accepts this one.
        None => ClientAuthMethod::SecretBasic,
        Some(supported) => {
            let is_supported = |method: &ClientAuthMethod| supported.iter().any(|name| name == method.as_str());
            order.into_iter().find(is_supported).unwrap_or(ClientAuthMethod::Public)
        }
    }
}

/// The reason why a registration did not succeed.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum RegistrationError {
    /// The server refused the registration.
    Refused(EndpointError),
    /// The response is not a registration.
    Response(&'static str),
    /// The server requires a way to authenticate that this client does not have.
    AuthMethod(String),
}

impl From<BadMember> for RegistrationError {
    fn from(BadMember(name): BadMember) -> Self {
        Self::Response(name)
    }
}

/// Reads the response of a registration endpoint.
pub fn read_registration(
    status: u16,
    body: &[u8],
    redirect_uri: Option<&str>,
) -> Result<ClientRegistration, RegistrationError> {
    // RFC 7591, section 3.2.1, says 201; many servers send 200.
    if !matches!(status, 200 | 201) {
        return Err(RegistrationError::Refused(EndpointError::read(status, body)));
    }
    let document =
        MetadataDocument::read(body, MAX_ENDPOINT_RESPONSE_BYTES).ok_or(RegistrationError::Response("body"))?;
    let id =
        document.text("client_id")?.filter(|id| is_client_id(id)).ok_or(RegistrationError::Response("client_id"))?;
    let mut registration = ClientRegistration::new(RegistrationKind::Dynamic, id);
    registration.secret = document.text("client_secret")?.filter(|secret| !secret.is_empty()).map(Into::into);
    // Zero means that the secret does not end.
    registration.secret_expires_at = document.seconds("client_secret_expires_at")?.filter(|at| *at != 0);
    registration.auth_method = match document.text("token_endpoint_auth_method")? {
        None => None,
        Some(name) => Some(ClientAuthMethod::parse(&name).ok_or(RegistrationError::AuthMethod(name))?),
    };
    registration.redirect_uri = redirect_uri.map(str::to_owned);
    Ok(registration)
}

/// Whether the text can be a client ID: RFC 6749, appendix A.1.
fn is_client_id(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| matches!(byte, b' '..=b'~'))
}
