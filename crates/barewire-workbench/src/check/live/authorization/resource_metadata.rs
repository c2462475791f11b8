//! A challenge -> the protected resource metadata that it leads to, and findings about it.

use std::sync::Arc;

use barewire_proto::auth::{
    AddressKind, AuthChallenge, BadResourceMetadata, ResourceMetadata, ServerMetadata, Url, authorization_base_url,
    authorization_server_places, host_kind, protected_resource_places,
};
use barewire_proto::mcp::Revision;

use super::AuthProbe;
use super::metadata_place::MetadataPlace;
use crate::check::catalogue::Rule;
use crate::check::catalogue::authorization::{
    AUTH_RESOURCE_METADATA, AUTHORIZATION_SERVERS, ISSUER_URL, RESOURCE_DISCOVERY, RESOURCE_DOCUMENT,
    RESOURCE_IDENTIFIER, SAME_METADATA,
};
use crate::check::finding::{Finding, Party};
use crate::check::live::harness::Harness;
use crate::check::live::http_client::HttpReply;
use crate::http::session::HttpTarget;

/// The documents at all places at which the metadata of a resource may be.
pub(super) struct ResourceDocuments {
    server: Url,
    /// `resource_metadata` of the challenge, as it was written.
    named: Option<String>,
    /// The places, in the order in which clients try them. The first is the named one, if it is a URL.
    places: Vec<MetadataPlace>,
}

impl ResourceDocuments {
    pub(super) async fn fetch(
        harness: &Harness,
        http: &Arc<HttpTarget>,
        server: &Url,
        challenge: Option<AuthChallenge>,
    ) -> Self {
        let named = challenge.and_then(|challenge| challenge.resource_metadata);
        let url = named.as_deref().and_then(|text| Url::parse(text).ok());
        let urls = protected_resource_places(server, url.as_ref()).unwrap_or_default();
        let urls = urls.iter().map(ToString::to_string).collect();
        let places = MetadataPlace::fetch_all(harness, &http.dialer, urls).await;
        Self { server: server.clone(), named, places }
    }

    pub(super) fn named(&self) -> Option<&str> {
        self.named.as_deref()
    }

    /// Whether there is a document that is metadata of a resource, whether it can be used or not.
    pub(super) fn has_metadata(&self) -> bool {
        self.places.iter().any(|place| self.is_metadata(place))
    }

    fn is_metadata(&self, place: &MetadataPlace) -> bool {
        let read = |body| ResourceMetadata::read(body, &self.server);
        place.body().is_some_and(|body| read(body) != Err(BadResourceMetadata::NotMetadata))
    }

    /// Returns the place that a client uses: the named one, or else the first that has metadata.
    fn used(&self) -> Option<&MetadataPlace> {
        match &self.named {
            Some(named) => self.places.first().filter(|place| place.url == *named),
            None => self.places.iter().find(|place| self.is_metadata(place)),
        }
    }

    /// Returns the metadata that a client uses, if it can be used.
    pub(super) fn used_metadata(&self) -> Option<(&MetadataPlace, ResourceMetadata)> {
        let place = self.used()?;
        Some((place, ResourceMetadata::read(place.body()?, &self.server).ok()?))
    }
}

impl AuthProbe<'_> {
    /// Judges the metadata, and returns it if it can be used.
    pub(super) async fn judge_resource(
        &self,
        documents: &ResourceDocuments,
        refused: &HttpReply,
    ) -> Option<ResourceMetadata> {
        let check = &AUTH_RESOURCE_METADATA;
        let Some(place) = documents.used() else {
            match documents.named() {
                Some(named) => {
                    let detail = format!("resource_metadata of the challenge is not an absolute URL: {named}");
                    self.fail(check, &RESOURCE_DISCOVERY, refused, detail);
                }
                None => self.judge_missing(documents, refused).await,
            }
            return None;
        };
        self.harness.recording.ledger().inspected(check);
        let fail = |rule: &'static Rule, detail: String| self.fail_place(place, rule, detail);
        let Some(body) = place.body() else {
            fail(&RESOURCE_DISCOVERY, format!("resource_metadata leads to {}: got {}", place.url, place.describe()));
            return None;
        };
        let metadata = match ResourceMetadata::read(body, &self.server) {
            Ok(metadata) => metadata,
            Err(why) => {
                let (rule, detail) = match why {
                    BadResourceMetadata::NotMetadata => {
                        (&RESOURCE_DOCUMENT, "the document is not a JSON object with resource".to_owned())
                    }
                    BadResourceMetadata::Member(name) => {
                        (&RESOURCE_DOCUMENT, format!("{name} does not have the right type"))
                    }
                    BadResourceMetadata::OtherResource { found } => (&RESOURCE_IDENTIFIER, self.other_resource(&found)),
                    BadResourceMetadata::NoAuthorizationServer => {
                        (&AUTHORIZATION_SERVERS, "authorization_servers is missing or empty".to_owned())
                    }
                    why => (&RESOURCE_DOCUMENT, format!("the document cannot be used: {why:?}")),
                };
                fail(rule, detail);
                return None;
            }
        };
        if !place.is_json() {
            let content_type = place.found.as_ref().ok().and_then(|response| response.content_type.as_deref());
            let found = content_type.unwrap_or("none");
            fail(&RESOURCE_DOCUMENT, format!("expected Content-Type application/json, got {found}"));
        }
        let is_root = documents.named().is_none() && !place.url.ends_with(self.server.path());
        let of_origin = is_root && is_same(&metadata.resource, &self.server.origin());
        if !of_origin && !is_same(&metadata.resource, self.server.as_str()) {
            fail(&RESOURCE_IDENTIFIER, self.other_resource(&metadata.resource));
        }
        for issuer in &metadata.authorization_servers {
            match Url::parse(issuer) {
                Err(why) => fail(&ISSUER_URL, format!("the authorization server {issuer} is not a URL: {why}")),
                Ok(url) if !url.is_https() && host_kind(url.host()) != Some(AddressKind::Loopback) => {
                    fail(&ISSUER_URL, format!("the authorization server {issuer} is not an https URL"));
                }
                Ok(_) => {}
            }
        }
        self.compare(documents, place, &metadata);
        Some(metadata)
    }

    /// Compares the named document with the one at the well-known URL of the server.
    fn compare(&self, documents: &ResourceDocuments, place: &MetadataPlace, metadata: &ResourceMetadata) {
        let well_known = protected_resource_places(&self.server, None).unwrap_or_default();
        let Some(well_known) = well_known.first().map(Url::as_str) else { return };
        let other = documents.places.iter().find(|it| it.url == well_known && it.url != place.url);
        let Some(other) = other.filter(|_| documents.named().is_some()) else { return };
        let Some(Ok(found)) = other.body().map(|body| ResourceMetadata::read(body, &self.server)) else { return };
        if (&found.resource, &found.authorization_servers) != (&metadata.resource, &metadata.authorization_servers) {
            let detail = format!("{} and {} have different documents", place.url, other.url);
            self.fail_place(other, &SAME_METADATA, detail);
        }
    }

    /// Judges a server that names no metadata and has none at the well-known URLs.
    async fn judge_missing(&self, documents: &ResourceDocuments, refused: &HttpReply) {
        let check = &AUTH_RESOURCE_METADATA;
        // Only a client that signs in needs metadata. A token that was given by hand may be a fixed one.
        let is_fixed = !self.credentials.is_empty() && !self.is_sign_in && self.harness.wrong_tokens.is_empty();
        if !self.may_speak(Revision::V2025_06_18) {
            self.skip(check, "the server speaks no revision after 2025-03-26");
        } else if is_fixed {
            self.has_fixed_token.set(true);
            self.skip(check, "the server has no metadata, and its token was given by hand");
        } else if self.revision.is_none() && self.is_own_issuer().await {
            self.skip(check, "the server is its own authorization server, as in 2025-03-26");
        } else {
            let places: Vec<String> =
                documents.places.iter().map(|place| format!("{} has {}", place.url, place.describe())).collect();
            let detail = format!("no metadata was found: {}", places.join("; "));
            self.fail(check, &RESOURCE_DISCOVERY, refused, detail);
        }
    }

    /// Whether the root of the server has the metadata of an authorization server.
    async fn is_own_issuer(&self) -> bool {
        let places = authorization_base_url(&self.server).and_then(|base| authorization_server_places(&base));
        let Some(url) = places.ok().and_then(|places| places.into_iter().next()) else { return false };
        let place = MetadataPlace::fetch(self.harness, &self.http.dialer, url.as_str()).await;
        place.body().is_some_and(|body| ServerMetadata::read(body, "", true).is_ok())
    }

    fn other_resource(&self, found: &str) -> String {
        format!("resource is {found}, but the URL of the server is {}", self.server)
    }

    fn fail_place(&self, place: &MetadataPlace, rule: &'static Rule, detail: String) {
        let finding = Finding::new(&AUTH_RESOURCE_METADATA, Party::Server, Default::default(), detail);
        self.report(place.evidence(finding).under(rule));
    }
}

/// Whether two identifiers of a resource are the same. A URL without a path has two spellings.
fn is_same(one: &str, other: &str) -> bool {
    let without_slash = |text: &str| match Url::parse(text) {
        Ok(url) if url.path() == "/" && url.query().is_none() => url.origin(),
        _ => text.to_owned(),
    };
    without_slash(one) == without_slash(other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_url_without_a_path_has_two_spellings() {
        assert!(is_same("https://a.example", "https://a.example/"));
        assert!(is_same("https://a.example/mcp", "https://a.example/mcp"));
        for other in ["https://a.example/mcp/", "https://a.example", "http://a.example/mcp", "https://a.example/mcp?x"]
        {
            assert!(!is_same("https://a.example/mcp", other), "{other}");
        }
    }
}
