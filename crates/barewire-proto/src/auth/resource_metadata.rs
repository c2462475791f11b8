//! The metadata document of a protected resource -> the authorization servers, scopes and identifier to use. RFC 9728.

use super::document::{BadMember, MAX_METADATA_BYTES, MetadataDocument};
use super::scope::Scopes;
use super::url::Url;

/// The metadata of a protected resource, as far as a client needs it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ResourceMetadata {
    /// The identifier of the resource, as it was written. It is sent as `resource`, letter by letter.
    pub resource: String,
    /// The issuers whose tokens the resource accepts, as they were written.
    pub authorization_servers: Vec<String>,
    /// The scopes of the resource, if it names them.
    pub scopes: Option<Scopes>,
    /// Whether the resource accepts only tokens that are bound to a key: RFC 9449, section 12.
    pub dpop_required: bool,
    /// Whether the server names algorithms for proofs, so that it accepts tokens which are bound to a key.
    pub has_dpop: bool,
    /// The name to show to people.
    pub name: Option<String>,
}

/// The reason why a metadata document is not used.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum BadResourceMetadata {
    /// The text is not the metadata of a resource: not a JSON object, too long, or without `resource`. Servers that
    /// answer every path with a page send such texts.
    NotMetadata,
    /// A member has the wrong type.
    Member(&'static str),
    /// The document is about a resource that is not this server.
    OtherResource {
        /// The resource that it is about.
        found: String,
    },
    /// No authorization server is named.
    NoAuthorizationServer,
}

impl From<BadMember> for BadResourceMetadata {
    fn from(BadMember(name): BadMember) -> Self {
        Self::Member(name)
    }
}

impl ResourceMetadata {
    /// Reads a document, and checks that it is about the server at this URL.
    ///
    /// RFC 9728, section 3.3, requires that `resource` is the URL into which the well-known path was inserted. For a
    /// document at the root that is the origin, although the server has a path, so a resource that contains the
    /// server's URL is accepted.
    pub fn read(body: &[u8], server: &Url) -> Result<Self, BadResourceMetadata> {
        let document = MetadataDocument::read(body, MAX_METADATA_BYTES).ok_or(BadResourceMetadata::NotMetadata)?;
        let resource = document.text("resource")?.ok_or(BadResourceMetadata::NotMetadata)?;
        if !Url::parse(&resource).is_ok_and(|url| url.contains(server)) {
            return Err(BadResourceMetadata::OtherResource { found: resource });
        }
        let authorization_servers = document.list("authorization_servers")?.unwrap_or_default();
        if authorization_servers.is_empty() {
            return Err(BadResourceMetadata::NoAuthorizationServer);
        }
        let scopes = document.list("scopes_supported")?;
        Ok(Self {
            resource,
            authorization_servers,
            scopes: scopes.map(|scopes| scopes.iter().map(String::as_str).collect()),
            dpop_required: document.flag("dpop_bound_access_tokens_required"),
            has_dpop: document.list("dpop_signing_alg_values_supported")?.is_some_and(|names| !names.is_empty()),
            name: document.text("resource_name")?,
        })
    }
}
