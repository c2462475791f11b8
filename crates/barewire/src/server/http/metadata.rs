//! Protected-resource metadata: the document that tells a client where to get a token for this server. RFC 9728.

use barewire_proto::auth::server::{DpopRole, listed_scopes};
use bytes::Bytes;
use serde::Serialize;

/// The metadata of a server that requires tokens.
///
/// The metadata is served below `/.well-known/oauth-protected-resource`, and every `WWW-Authenticate` challenge for
/// bearer tokens contains its URL.
#[derive(Debug, Clone, Default, Serialize)]
pub struct ProtectedResource {
    resource: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    authorization_servers: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    scopes_supported: Vec<String>,
    bearer_methods_supported: [&'static str; 1],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    dpop_signing_alg_values_supported: &'static [&'static str],
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    dpop_bound_access_tokens_required: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    resource_name: Option<String>,
}

impl ProtectedResource {
    /// Creates the metadata for the server at this URL. `resource` must be the URL that clients use, such as
    /// `https://example.com/mcp`.
    pub fn new(resource: impl Into<String>) -> Self {
        let resource = resource.into();
        Self { resource, bearer_methods_supported: ["header"], ..Self::default() }
    }

    /// Adds an authorization server (its issuer URL) whose tokens this server accepts.
    #[must_use]
    pub fn authorization_server(mut self, issuer: impl Into<String>) -> Self {
        self.authorization_servers.push(issuer.into());
        self
    }

    /// Sets the scopes that tokens for this server can have. Clients that are told no other scopes request all of these,
    /// so name those that basic use needs. `offline_access` is left out: it is no requirement of a server.
    #[must_use]
    pub fn scopes<S: Into<String>>(mut self, scopes: impl IntoIterator<Item = S>) -> Self {
        let scopes: Vec<String> = scopes.into_iter().map(Into::into).collect();
        self.scopes_supported = listed_scopes(scopes.iter().map(String::as_str)).into_iter().map(Into::into).collect();
        self
    }

    /// Sets whether tokens may or must be bound to keys (DPoP).
    #[must_use]
    pub fn dpop(mut self, dpop: DpopRole) -> Self {
        self.dpop_signing_alg_values_supported = if dpop == DpopRole::Unused { &[] } else { &DPOP_ALGORITHMS };
        self.dpop_bound_access_tokens_required = dpop == DpopRole::Required;
        self
    }

    /// Sets the name of this server that is shown to the user.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.resource_name = Some(name.into());
        self
    }
}

/// The metadata as it is served.
#[derive(Debug)]
pub(super) struct Metadata {
    /// The URL of the document.
    pub(super) url: String,
    /// The path of `url`.
    path: String,
    pub(super) json: Bytes,
}

impl Metadata {
    /// Creates the document. Returns `None` if the resource is not a URL with scheme and host.
    pub(super) fn new(resource: &ProtectedResource) -> Option<Self> {
        let uri: http::Uri = resource.resource.parse().ok()?;
        let (scheme, authority) = (uri.scheme()?, uri.authority()?);
        let path = format!("{WELL_KNOWN}{}", uri.path().trim_end_matches('/'));
        let json = serde_json::to_vec(resource).expect("strings are JSON").into();
        Some(Self { url: format!("{scheme}://{authority}{path}"), path, json })
    }

    /// Whether the document is served at this path: the well-known path followed by the resource's path, or the
    /// well-known path alone, which clients try next.
    pub(super) fn is_at(&self, path: &str) -> bool {
        path == self.path || path == WELL_KNOWN
    }
}

/// The algorithms of DPoP proofs that are accepted.
const DPOP_ALGORITHMS: [&str; 4] = ["ES256", "EdDSA", "PS256", "RS256"];

const WELL_KNOWN: &str = "/.well-known/oauth-protected-resource";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_of_the_resource_follows_the_well_known_one() {
        for (resource, url) in [
            ("https://a.example/mcp", "https://a.example/.well-known/oauth-protected-resource/mcp"),
            ("https://a.example", "https://a.example/.well-known/oauth-protected-resource"),
            ("https://a.example/", "https://a.example/.well-known/oauth-protected-resource"),
            ("http://localhost:8808/x/y", "http://localhost:8808/.well-known/oauth-protected-resource/x/y"),
        ] {
            let metadata = Metadata::new(&ProtectedResource::new(resource)).unwrap();
            assert_eq!(metadata.url, url);
            assert!(metadata.is_at("/.well-known/oauth-protected-resource"));
            assert!(!metadata.is_at("/mcp"));
        }
        assert!(Metadata::new(&ProtectedResource::new("mcp")).is_none());
    }

    #[test]
    fn the_document_matches_rfc_9728() {
        let resource = ProtectedResource::new("https://a.example/mcp")
            .authorization_server("https://issuer.example")
            .scopes(["mcp:read", "offline_access"]);
        let json = Metadata::new(&resource).unwrap().json;
        let expected = r#"{"resource":"https://a.example/mcp","authorization_servers":["https://issuer.example"],"scopes_supported":["mcp:read"],"bearer_methods_supported":["header"]}"#;
        assert_eq!(json, expected.as_bytes());
        let json =
            Metadata::new(&ProtectedResource::new("https://a.example/mcp").dpop(DpopRole::Required)).unwrap().json;
        let expected = r#"{"resource":"https://a.example/mcp","bearer_methods_supported":["header"],"dpop_signing_alg_values_supported":["ES256","EdDSA","PS256","RS256"],"dpop_bound_access_tokens_required":true}"#;
        assert_eq!(json, expected.as_bytes());
    }
}
