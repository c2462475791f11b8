//! A server that requires authorization -> findings about its challenge, its metadata and the tokens that it accepts.
//!
//! ```text
//! a request without a token -> challenge -> metadata of the resource -> metadata of its authorization servers
//! requests with tokens that the server must refuse -> 401, or 403 for a missing scope
//! ```
//!
//! Real tokens are only sent to the server that is checked, and only in headers. Metadata is fetched without
//! credentials, by the library's rules for a sign-in.

mod metadata_place;
mod resource_metadata;
mod scope;
mod server_metadata;
mod tokens;

use std::cell::Cell;
use std::sync::Arc;

use barewire_proto::auth::{AuthChallenge, OFFLINE_ACCESS, Url};
use barewire_proto::mcp::{Era, Revision};
use serde_json::json;

use super::ServerSummary;
use super::harness::{Harness, initialize};
use super::http_client::HttpReply;
use super::http_probes::HttpProbe;
use super::{LiveTarget, RunLimit};
use crate::check::catalogue::authorization::{
    AUTH_CHALLENGE, AUTH_OFFLINE_ACCESS, CHALLENGE_SENT, CHALLENGE_STATUS, CHECKS, NO_AUTHORIZATION,
};
use crate::check::catalogue::{Check, Rule};
use crate::check::finding::{Finding, Party};
use crate::check::ledger::SkipReason;
use crate::http::session::HttpTarget;
use resource_metadata::ResourceDocuments;

pub(in crate::check) use tokens::altered_tokens;

/// The server, and what is known about it.
struct AuthProbe<'a> {
    harness: &'a Harness,
    http: &'a Arc<HttpTarget>,
    /// The URL of the server.
    server: Url,
    /// The latest legacy revision that the server speaks.
    legacy: Option<Revision>,
    /// The latest revision that the server speaks; `None` if it has answered no request.
    revision: Option<Revision>,
    /// The headers with the user's token.
    credentials: Vec<(String, String)>,
    /// Whether the token is of a stored sign-in.
    is_sign_in: bool,
    /// Whether the server has no metadata, and the token was given by hand: it may be a fixed one.
    has_fixed_token: Cell<bool>,
}

/// Whether a server that refuses a request without a token with this status requires authorization: it has protected
/// resource metadata, so it should have answered 401.
pub(super) async fn is_wrong_challenge(harness: &Harness, status: Option<u16>) -> bool {
    let LiveTarget::Url { http, .. } = &harness.target else { return false };
    let Some(server) = server_url(http).filter(|_| matches!(status, Some(300..=399 | 403))) else { return false };
    ResourceDocuments::fetch(harness, http, &server, None).await.has_metadata()
}

pub(super) async fn run(harness: &Harness, http: &Arc<HttpTarget>, summary: &ServerSummary) {
    if !harness.wants(CHECKS) {
        return;
    }
    let Some(server) = server_url(http) else {
        harness.skip_all(CHECKS, "the URL of the server cannot be the identifier of a resource");
        return;
    };
    let _subject = harness.progress("authorization");
    let mut credentials: Vec<(String, String)> = http.headers.clone();
    credentials.retain(|(name, _)| name.eq_ignore_ascii_case("authorization"));
    let signed_in = http.dialer.authorization("POST").await.unwrap_or_default();
    let is_sign_in = credentials.is_empty() && !signed_in.is_empty();
    if is_sign_in {
        credentials = signed_in.into_iter().map(|(name, value)| (name, value.expose().to_owned())).collect();
    }
    let legacy = summary.legacy.iter().copied().max();
    let revision = if summary.is_modern { Some(Revision::LATEST) } else { legacy };
    let has_fixed_token = Cell::new(false);
    let probe = AuthProbe { harness, http, server, legacy, revision, credentials, is_sign_in, has_fixed_token };
    probe.run(summary.answers).await;
}

fn server_url(http: &HttpTarget) -> Option<Url> {
    Url::parse(&format!("{}{}", http.dialer.origin(), http.dialer.path_and_query())).ok()
}

impl AuthProbe<'_> {
    /// Runs all checks. `is_let_in` is true if the server serves requests with the user's credentials.
    async fn run(&self, is_let_in: bool) {
        let first = self.ask(Vec::new()).await;
        if first.status.is_none() {
            match self.harness.reached_limit() {
                Some(limit) => self.incomplete(limit),
                None => self.harness.skip_all(CHECKS, "a request without a token gets no response"),
            }
            return;
        }
        let mut documents = ResourceDocuments::fetch(self.harness, self.http, &self.server, challenge(&first)).await;
        let is_refused = !first.is_ok() && is_let_in && !self.credentials.is_empty();
        if first.status != Some(401) && !documents.has_metadata() && !is_refused {
            self.harness.skip_all(CHECKS, NO_AUTHORIZATION);
            return;
        }
        let refused = self.judge_challenge(first).await;
        if documents.named().is_none() && challenge(&refused).is_some_and(|it| it.resource_metadata.is_some()) {
            documents = ResourceDocuments::fetch(self.harness, self.http, &self.server, challenge(&refused)).await;
        }
        let resource = self.judge_resource(&documents, &refused).await;
        self.judge_scopes(&refused, &documents);
        match &resource {
            Some(resource) => self.judge_servers(&resource.authorization_servers).await,
            None => self.skip_servers(),
        }
        self.check_invalid_tokens(is_let_in).await;
        self.check_wrong_tokens(resource.as_ref()).await;
        self.check_scope().await;
        self.check_proofs(is_let_in).await;
    }

    /// Sends the first request of a client with these credentials. If it begins a session, ends the session.
    async fn ask(&self, credentials: Vec<(String, String)>) -> HttpReply {
        let target = Arc::new(self.http.with_credentials(credentials));
        let mut probe = HttpProbe::new(self.harness, &target, self.legacy).claimed();
        let request = probe.first(self.era());
        probe.send(request).await
    }

    fn era(&self) -> Era {
        match (self.legacy, self.revision) {
            (None, Some(_)) => Era::Modern,
            _ => Era::Legacy,
        }
    }

    /// Judges the answers to requests without a token. Returns the one that refuses, or the last.
    async fn judge_challenge(&self, first: HttpReply) -> HttpReply {
        self.harness.recording.ledger().inspected(&AUTH_CHALLENGE);
        let reply = if first.is_ok() { self.list_without_token().await.unwrap_or(first) } else { first };
        match reply.status {
            Some(401) => {}
            Some(200..=299) => {
                let what = match self.era() {
                    Era::Legacy => "initialize and tools/list",
                    Era::Modern => "server/discover and tools/list",
                };
                let detail = format!("{what} are served without a token, but there is protected resource metadata");
                self.fail(&AUTH_CHALLENGE, &CHALLENGE_SENT, &reply, detail);
            }
            _ => {
                let detail = format!("a request without a token: expected 401, got {}", reply.describe());
                self.fail(&AUTH_CHALLENGE, &CHALLENGE_STATUS, &reply, detail);
            }
        }
        reply
    }

    /// Sends `tools/list` without a token. Returns `None` if the handshake is refused this time.
    async fn list_without_token(&self) -> Option<HttpReply> {
        let target = Arc::new(self.http.with_credentials(Vec::new()));
        let mut connection = self.harness.client_of(&target, self.era());
        if self.era() == Era::Legacy {
            let version = self.legacy.unwrap_or(Revision::LATEST_LEGACY);
            initialize(&mut connection, version.as_str(), self.harness.patience).await;
            self.harness.initialized(&mut connection).await;
        }
        let id = connection.send_request("tools/list", json!({})).await;
        connection.claim(&id);
        connection.wait_for_response(&id).await;
        let reply = connection.http().and_then(|client| client.reply(&id)).filter(|reply| reply.status.is_some());
        self.harness.close(connection).await;
        reply
    }

    fn judge_scopes(&self, refused: &HttpReply, documents: &ResourceDocuments) {
        if !self.may_speak(Revision::LATEST) {
            self.harness.skip_all(&[&AUTH_OFFLINE_ACCESS], "the server does not speak 2026-07-28");
            return;
        }
        self.harness.recording.ledger().inspected(&AUTH_OFFLINE_ACCESS);
        if challenge(refused).and_then(|it| it.scopes).is_some_and(|scopes| scopes.has(OFFLINE_ACCESS)) {
            let detail = "scope in the challenge contains offline_access".to_owned();
            self.fail_first(&AUTH_OFFLINE_ACCESS, refused, detail);
        }
        if let Some((place, metadata)) = documents.used_metadata()
            && metadata.scopes.is_some_and(|scopes| scopes.has(OFFLINE_ACCESS))
        {
            let finding = Finding::new(
                &AUTH_OFFLINE_ACCESS,
                Party::Server,
                Default::default(),
                "scopes_supported in the protected resource metadata contains offline_access",
            );
            self.report(place.evidence(finding.at("/scopes_supported")));
        }
    }

    /// Whether the server speaks this revision or a later one, or may do so.
    fn may_speak(&self, revision: Revision) -> bool {
        self.revision.is_none_or(|latest| latest >= revision)
    }

    /// Reports a violation of a named rule of the check.
    fn fail(&self, check: &'static Check, rule: &'static Rule, reply: &HttpReply, detail: String) {
        self.report(finding(check, reply, detail).under(rule));
    }

    /// Reports a violation of the first rule of the check that applies.
    fn fail_first(&self, check: &'static Check, reply: &HttpReply, detail: String) {
        self.report(finding(check, reply, detail));
    }

    fn report(&self, finding: Finding) {
        if finding.is_unanswered && self.harness.is_late() {
            return self.harness.incomplete(finding.check);
        }
        self.harness.recording.ledger().fail(finding.in_revision(self.revision));
    }

    fn incomplete(&self, limit: RunLimit) {
        for check in CHECKS {
            self.harness.recording.ledger().incomplete(check, limit.reason());
        }
    }

    fn skip(&self, check: &'static Check, why: impl Into<String>) {
        self.harness.recording.ledger().skip(check, SkipReason::Nothing(why.into().into()));
    }
}

fn finding(check: &'static Check, reply: &HttpReply, detail: String) -> Finding {
    let finding = Finding::new(check, Party::Server, reply.location(), detail);
    let finding = finding.with_request(reply.request.clone()).with_response(reply.excerpt());
    if reply.request.is_some() && reply.status.is_none() { finding.unanswered() } else { finding }
}

/// Returns the challenge of a response with 401.
fn challenge(reply: &HttpReply) -> Option<AuthChallenge> {
    reply.status.filter(|status| *status == 401).map(|status| AuthChallenge::read(status, &reply.headers[..]))
}
