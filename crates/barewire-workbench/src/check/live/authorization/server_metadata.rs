//! The authorization servers that a resource names -> their metadata, and findings about it.

use barewire::client::http::MetadataError;
use barewire_proto::auth::{
    AddressKind, BadServerMetadata, NetworkRefusal, ServerMetadata, Url, authorization_server_places, host_kind,
};
use barewire_proto::mcp::Revision;

use super::AuthProbe;
use super::metadata_place::MetadataPlace;
use crate::check::catalogue::authorization::{
    AUTH_CLIENT_REGISTRATION, AUTH_PKCE, AUTH_RESPONSE_ISS, AUTH_SERVER_METADATA, SERVER_DISCOVERY, SERVER_HTTPS,
    SERVER_ISSUER, SERVER_MEMBERS,
};
use crate::check::catalogue::{Check, Rule};
use crate::check::finding::{Finding, Party};

/// The result of the search for the metadata of one authorization server.
enum Searched {
    Found(MetadataPlace, Box<ServerMetadata>),
    /// A document that cannot be used, and the rule that it breaks.
    Bad(MetadataPlace, &'static Rule, String),
    /// Nothing was found; what is at each place.
    Nothing(String),
    /// The places may not be contacted on behalf of the server.
    Refused(NetworkRefusal),
}

impl AuthProbe<'_> {
    pub(super) fn skip_servers(&self) {
        let checks: [&'static Check; 4] =
            [&AUTH_SERVER_METADATA, &AUTH_PKCE, &AUTH_RESPONSE_ISS, &AUTH_CLIENT_REGISTRATION];
        self.harness.skip_all(&checks, "no authorization server is known");
    }

    /// Judges the metadata of the authorization servers that the resource names.
    pub(super) async fn judge_servers(&self, issuers: &[String]) {
        let mut known = 0;
        for issuer in issuers.iter().take(MAX_ISSUERS) {
            let Ok(url) = Url::parse(issuer) else { continue };
            match self.search(issuer, &url).await {
                Searched::Found(place, metadata) => {
                    known += 1;
                    self.judge_server(&place, &metadata);
                }
                Searched::Bad(place, rule, detail) => {
                    self.fail_server(&AUTH_SERVER_METADATA, Some(rule), Some(&place), format!("{issuer}: {detail}"));
                }
                Searched::Nothing(tried) => {
                    let detail = format!("{issuer}: no metadata was found: {tried}");
                    self.fail_server(&AUTH_SERVER_METADATA, Some(&SERVER_DISCOVERY), None, detail);
                }
                Searched::Refused(why) => {
                    let why = format!("the metadata of {issuer} was not fetched: {why}");
                    self.harness.recording.ledger().incomplete(&AUTH_SERVER_METADATA, why);
                }
            }
        }
        if known == 0 {
            let checks: [&'static Check; 3] = [&AUTH_PKCE, &AUTH_RESPONSE_ISS, &AUTH_CLIENT_REGISTRATION];
            self.harness.skip_all(&checks, "the metadata of no authorization server is known");
        }
    }

    /// Looks for the metadata of an authorization server, place by place, as a client does.
    async fn search(&self, issuer: &str, url: &Url) -> Searched {
        let mut tried = Vec::new();
        let mut other = None;
        for url in authorization_server_places(url).unwrap_or_default() {
            let place = MetadataPlace::fetch(self.harness, &self.http.dialer, url.as_str()).await;
            if let Err(MetadataError::Refused(why @ (NetworkRefusal::Near(_) | NetworkRefusal::Special))) = place.found
            {
                return Searched::Refused(why);
            }
            match place.body().map(|body| ServerMetadata::read(body, issuer, false)) {
                Some(Ok(metadata)) => return Searched::Found(place, Box::new(metadata)),
                Some(Err(BadServerMetadata::OtherIssuer { found })) => {
                    other.get_or_insert((place, &SERVER_ISSUER, format!("its metadata has the issuer {found}")));
                }
                Some(Err(BadServerMetadata::Member(name))) => {
                    return Searched::Bad(place, &SERVER_MEMBERS, format!("{name} does not have the right type"));
                }
                _ => tried.push(format!("{} has {}", place.url, place.describe())),
            }
        }
        match other {
            Some((place, rule, detail)) => Searched::Bad(place, rule, detail),
            None => Searched::Nothing(tried.join("; ")),
        }
    }

    fn judge_server(&self, place: &MetadataPlace, metadata: &ServerMetadata) {
        let issuer = &metadata.issuer;
        self.harness.recording.ledger().inspected(&AUTH_SERVER_METADATA);
        let fail =
            |check, rule, detail: String| self.fail_server(check, rule, Some(place), format!("{issuer}: {detail}"));
        if metadata.token_endpoint.is_none() {
            fail(&AUTH_SERVER_METADATA, Some(&SERVER_MEMBERS), "token_endpoint is missing".to_owned());
        }
        for (name, url) in [
            ("authorization_endpoint", &metadata.authorization_endpoint),
            ("token_endpoint", &metadata.token_endpoint),
            ("registration_endpoint", &metadata.registration_endpoint),
            ("device_authorization_endpoint", &metadata.device_authorization_endpoint),
            ("revocation_endpoint", &metadata.revocation_endpoint),
        ] {
            if let Some(url) = url
                && !url.is_https()
                && host_kind(url.host()) != Some(AddressKind::Loopback)
            {
                fail(&AUTH_SERVER_METADATA, Some(&SERVER_HTTPS), format!("{name} is not an https URL: {url}"));
            }
        }
        let has_codes = metadata.authorization_endpoint.is_some();
        if !has_codes {
            let checks: [&'static Check; 2] = [&AUTH_PKCE, &AUTH_RESPONSE_ISS];
            self.harness.skip_all(&checks, "the authorization server has no authorization endpoint");
        }
        if has_codes && self.applies(&AUTH_PKCE, Revision::V2025_11_25) && !metadata.has_pkce(true) {
            let found = match &metadata.code_challenge_methods {
                Some(methods) => format!("does not contain S256: {}", methods.join(", ")),
                None => "is missing".to_owned(),
            };
            fail(&AUTH_PKCE, None, format!("code_challenge_methods_supported {found}"));
        }
        if has_codes && self.applies(&AUTH_RESPONSE_ISS, Revision::V2026_07_28) && !metadata.has_iss {
            let detail = "authorization_response_iss_parameter_supported is not true".to_owned();
            fail(&AUTH_RESPONSE_ISS, None, detail);
        }
        let can_register = metadata.has_client_id_documents || metadata.registration_endpoint.is_some();
        if self.applies(&AUTH_CLIENT_REGISTRATION, Revision::V2025_06_18) && !can_register {
            let detail = "neither client_id_metadata_document_supported nor registration_endpoint".to_owned();
            fail(&AUTH_CLIENT_REGISTRATION, None, detail);
        }
    }

    /// Whether a check that exists since a revision applies, and counts an inspection of it. Notes a skip if the server
    /// speaks only earlier revisions.
    fn applies(&self, check: &'static Check, since: Revision) -> bool {
        let applies = self.may_speak(since);
        match applies {
            true => self.harness.recording.ledger().inspected(check),
            false => self.skip(check, format!("the server speaks no revision since {since}")),
        }
        applies
    }

    fn fail_server(
        &self,
        check: &'static Check,
        rule: Option<&'static Rule>,
        place: Option<&MetadataPlace>,
        detail: String,
    ) {
        let finding = Finding::new(check, Party::Server, Default::default(), format!("authorization server {detail}"));
        let finding = place.map_or(finding.clone(), |place| place.evidence(finding));
        self.report(rule.map_or(finding.clone(), |rule| finding.under(rule)));
    }
}

/// The maximum number of authorization servers whose metadata is fetched. Servers name one, rarely two.
const MAX_ISSUERS: usize = 4;
