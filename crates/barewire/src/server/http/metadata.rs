//! Protected-resource metadata: where a client gets a token for this server. RFC 9728.

use bytes::Bytes;
use serde::Serialize;

/// What a client is told about this server as something that needs a token.
///
/// It is served below `/.well-known/oauth-protected-resource`, and every challenge says where.
#[derive(Debug, Clone, Default, Serialize)]
pub struct ProtectedResource {
    resource: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    authorization_servers: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    scopes_supported: Vec<String>,
    bearer_methods_supported: [&'static str; 1],
    #[serde(skip_serializing_if = "Option::is_none")]
    resource_name: Option<String>,
}

impl ProtectedResource {
    /// This server's URL as clients know it: `https://example.com/mcp`.
    pub fn new(resource: impl Into<String>) -> Self {
        let resource = resource.into();
        Self { resource, bearer_methods_supported: ["header"], ..Self::default() }
    }

    /// Tokens of this issuer are taken.
    #[must_use]
    pub fn authorization_server(mut self, issuer: impl Into<String>) -> Self {
        self.authorization_servers.push(issuer.into());
        self
    }

    /// There are these scopes.
    #[must_use]
    pub fn scopes<S: Into<String>>(mut self, scopes: impl IntoIterator<Item = S>) -> Self {
        self.scopes_supported = scopes.into_iter().map(Into::into).collect();
        self
    }

    /// What it is called, for people.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.resource_name = Some(name.into());
        self
    }
}

/// The same, ready to be sent.
#[derive(Debug)]
pub(super) struct Metadata {
    /// Where it is.
    pub(super) url: String,
    /// The path of that.
    path: String,
    pub(super) json: Bytes,
}

impl Metadata {
    /// `None` if the resource is no URL.
    pub(super) fn new(resource: &ProtectedResource) -> Option<Self> {
        let uri: http::Uri = resource.resource.parse().ok()?;
        let (scheme, authority) = (uri.scheme()?, uri.authority()?);
        let path = format!("{WELL_KNOWN}{}", uri.path().trim_end_matches('/'));
        let json = serde_json::to_vec(resource).expect("strings are JSON").into();
        Some(Self { url: format!("{scheme}://{authority}{path}"), path, json })
    }

    /// Whether this is where it is: below the path of the resource, or at the root, where clients look next.
    pub(super) fn is_at(&self, path: &str) -> bool {
        path == self.path || path == WELL_KNOWN
    }
}

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
    fn it_is_written_as_the_standard_has_it() {
        let resource = ProtectedResource::new("https://a.example/mcp")
            .authorization_server("https://issuer.example")
            .scopes(["mcp:read"]);
        let json = Metadata::new(&resource).unwrap().json;
        let expected = r#"{"resource":"https://a.example/mcp","authorization_servers":["https://issuer.example"],"scopes_supported":["mcp:read"],"bearer_methods_supported":["header"]}"#;
        assert_eq!(json, expected.as_bytes());
    }
}
