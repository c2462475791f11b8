//! A challenge -> the authorization server of the protected resource: the part of [`SignIn`] that fetches metadata.

use super::endpoint_error::shortened;
use super::location::{
    authorization_base_url, authorization_server_places, base_url_places, protected_resource_places,
};
use super::network::{AddressKind, NetworkPolicy, NetworkRefusal};
use super::resource_metadata::{BadResourceMetadata, ResourceMetadata};
use super::search::Search;
use super::server_metadata::{BadServerMetadata, ServerMetadata};
use super::settings::{IdentityProvider, SignInGrant};
use super::sign_in::{SignIn, SignInEffect, State, Step, World};
use super::stop::{PlaceFound, StopReason};
use super::url::Url;

/// The status and body of a response.
type Response<'a> = (u16, &'a [u8]);

impl SignIn {
    /// Looks for the metadata of the protected resource.
    pub(super) fn find_resource(&mut self, world: &mut World<'_>) -> Step {
        let named = self.flow.challenge.resource_metadata.as_deref().map(|text| (text, Url::parse(text)));
        let url = named.as_ref().and_then(|(_, url)| url.as_ref().ok());
        let places = protected_resource_places(&self.settings.server, url).map_err(StopReason::BadServerUrl)?;
        let mut search = Search::new(places);
        if let Some((text, Err(why))) = &named {
            search.add_bad(text, *why);
        }
        self.next_resource_place(search, world)
    }

    pub(super) fn next_resource_place(&mut self, mut search: Search, world: &mut World<'_>) -> Step {
        if let Some(url) = search.next(|url| self.check_metadata_url(url)) {
            self.state = State::Resource(search);
            return Ok(SignInEffect::Fetch { url });
        }
        // Only a server without metadata is one of the old revision. An attacker that can keep the client from reading the
        // metadata must not get a sign-in that is not bound to a resource.
        let may_have_metadata = search.is_unsure() || self.flow.challenge.resource_metadata.is_some();
        if !self.rules.server_is_issuer || may_have_metadata {
            return Err(StopReason::NoResourceMetadata(search.into_tried()));
        }
        let base = authorization_base_url(&self.settings.server).map_err(StopReason::BadServerUrl)?;
        let places = base_url_places(&base).map_err(StopReason::BadServerUrl)?;
        self.next_server_place(base.to_string(), Search::new(places), true, world)
    }

    pub(super) fn fetched_resource(
        &mut self,
        mut search: Search,
        (status, body): Response<'_>,
        world: &mut World<'_>,
    ) -> Step {
        if status != 200 {
            search.miss(PlaceFound::Status(status));
            return self.next_resource_place(search, world);
        }
        match ResourceMetadata::read(body, &self.settings.server) {
            Ok(resource) => self.found_resource(resource, world),
            Err(BadResourceMetadata::NotMetadata) => {
                search.miss(PlaceFound::NotMetadata);
                self.next_resource_place(search, world)
            }
            Err(why) => {
                let url = search.current().unwrap_or(&self.settings.server).clone();
                Err(StopReason::ResourceMetadata { url, why })
            }
        }
    }

    /// Chooses the authorization server: the one of the configured client or of the stored record if the resource names
    /// it, else the first. RFC 9728, section 7.6: the choice is the client's.
    fn found_resource(&mut self, resource: ResourceMetadata, world: &mut World<'_>) -> Step {
        let configured = self.settings.client.configured.as_ref().and_then(|client| client.issuer.as_ref());
        let stored = self.credentials.as_ref().map(|stored| &stored.issuer);
        let is_named = |issuer: &&String| resource.authorization_servers.contains(issuer);
        let known = configured.into_iter().chain(stored).find(is_named);
        let issuer = known.or(resource.authorization_servers.first()).cloned().unwrap_or_default();
        self.flow.resource = Some(resource);
        let search = issuer_search(&issuer)?;
        if let Ok(url) = Url::parse(&issuer) {
            let refuse = |why| StopReason::EndpointRefused { name: "issuer", url: url.clone(), why };
            self.check_metadata_url(&url).map_err(refuse)?;
        }
        self.next_server_place(issuer, search, false, world)
    }

    /// Fetches the next place of the authorization server's metadata. `is_base` is true for a server that is its own
    /// authorization server, as in 2025-03-26; it has default endpoints if it has no metadata.
    pub(super) fn next_server_place(
        &mut self,
        issuer: String,
        mut search: Search,
        is_base: bool,
        world: &mut World<'_>,
    ) -> Step {
        if let Some(url) = search.next(|url| self.check_metadata_url(url)) {
            self.state = State::Server { issuer, search, is_base };
            return Ok(SignInEffect::Fetch { url });
        }
        if let Some(found) = search.other_issuer() {
            return Err(StopReason::IssuerMismatch { expected: shortened(&issuer), found: found.clone() });
        }
        if is_base && !search.is_unsure() {
            let base = authorization_base_url(&self.settings.server).map_err(StopReason::BadServerUrl)?;
            let server = ServerMetadata::default_endpoints(&base).map_err(StopReason::BadServerUrl)?;
            return self.found_server(server, world);
        }
        Err(StopReason::NoServerMetadata { issuer: shortened(&issuer), tried: search.into_tried() })
    }

    pub(super) fn fetched_server(
        &mut self,
        issuer: String,
        mut search: Search,
        is_base: bool,
        response: Response<'_>,
        world: &mut World<'_>,
    ) -> Step {
        // The issuer of a server that is its own authorization server is derived from its URL. Many write it with a slash.
        let with_slash = Some(format!("{issuer}/"))
            .filter(|with_slash| is_base && ServerMetadata::read(response.1, with_slash, false).is_ok());
        let expected = with_slash.as_deref().unwrap_or(&issuer);
        match read_server(&mut search, response, expected, self.settings.overrides.issuer_may_differ)? {
            Some(server) => self.found_server(server, world),
            None => self.next_server_place(issuer, search, is_base, world),
        }
    }

    /// Looks for the token endpoint of the identity provider.
    pub(super) fn find_provider(&mut self) -> Step {
        let Some(provider) = self.provider() else { return Err(StopReason::NoClient) };
        match provider.token_endpoint.clone() {
            Some(endpoint) => self.exchange_at_provider(endpoint, None),
            None => {
                let search = issuer_search(&provider.issuer)?;
                self.next_provider_place(search)
            }
        }
    }

    pub(super) fn next_provider_place(&mut self, mut search: Search) -> Step {
        let policy = self.provider_policy();
        let issuer = self.provider().map(|provider| shortened(&provider.issuer)).unwrap_or_default();
        match (search.next(|url| policy.check_url(url)), search.other_issuer()) {
            (Some(url), _) => {
                self.state = State::Provider { search };
                Ok(SignInEffect::Fetch { url })
            }
            (None, Some(found)) => Err(StopReason::IssuerMismatch { expected: issuer, found: found.clone() }),
            (None, None) => Err(StopReason::NoServerMetadata { issuer, tried: search.into_tried() }),
        }
    }

    pub(super) fn fetched_provider(&mut self, mut search: Search, response: Response<'_>) -> Step {
        let issuer = self.provider().map(|provider| provider.issuer.clone()).unwrap_or_default();
        match read_server(&mut search, response, &issuer, false)? {
            Some(server) => {
                let endpoint = server.token_endpoint.ok_or(StopReason::NoEndpoint("token_endpoint"))?;
                self.exchange_at_provider(endpoint, server.token_auth_methods)
            }
            None => self.next_provider_place(search),
        }
    }

    pub(super) fn provider(&self) -> Option<&IdentityProvider> {
        match &self.settings.grant {
            SignInGrant::EnterpriseManaged(provider) => Some(provider),
            _ => None,
        }
    }

    /// Returns the policy for the identity provider, which the user has configured, so it may be in any network.
    pub(super) fn provider_policy(&self) -> NetworkPolicy {
        NetworkPolicy { nearest: AddressKind::Loopback, ..self.settings.network }
    }

    /// Checks a URL of a metadata document. The origin of the server may always be fetched: the client already uses it.
    fn check_metadata_url(&self, url: &Url) -> Result<(), NetworkRefusal> {
        match url.is_same_origin(&self.settings.server) {
            true => Ok(()),
            false => self.settings.network.check_url(url),
        }
    }
}

fn issuer_search(issuer: &str) -> Result<Search, StopReason> {
    let places = Url::parse(issuer).and_then(|url| authorization_server_places(&url));
    places.map(Search::new).map_err(|_| StopReason::BadIssuer(shortened(issuer)))
}

/// Reads the metadata of an authorization server. Returns `None` if the next place must be tried: a document of another
/// issuer is not used, but the right one may be elsewhere.
fn read_server(
    search: &mut Search,
    (status, body): Response<'_>,
    issuer: &str,
    issuer_may_differ: bool,
) -> Result<Option<ServerMetadata>, StopReason> {
    if status != 200 {
        search.miss(PlaceFound::Status(status));
        return Ok(None);
    }
    match (ServerMetadata::read(body, issuer, issuer_may_differ), search.current().cloned()) {
        (Ok(server), _) => Ok(Some(server)),
        (Err(BadServerMetadata::OtherIssuer { found }), _) => {
            search.miss(PlaceFound::OtherIssuer(shortened(&found)));
            Ok(None)
        }
        (Err(why @ BadServerMetadata::Member(_)), Some(url)) => Err(StopReason::ServerMetadata { url, why }),
        (Err(_), _) => {
            search.miss(PlaceFound::NotMetadata);
            Ok(None)
        }
    }
}
