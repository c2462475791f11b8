//! Probes of the modern era: versions and metadata of each request, removed methods, `subscriptions/listen`.

use std::time::{Duration, Instant};

use barewire_proto::json::{Json, Kind};
use barewire_proto::mcp::{Era, Revision, key};
use serde_json::{Value, json};
use tokio::time::sleep;

use super::connection::modern_meta;
use super::eras::EraFacts;
use super::harness::{Harness, Probe, initialize_params};
use super::misuse;
use super::ordinary::{Judgement, LISTS, NO_SUCH_URI, ServerProbe};
use super::outcome::{RequestOutcome, ResultResponse, is_response_to};
use crate::Error;
use crate::check::catalogue::modern::{
    CHECKS, LISTEN_ACKNOWLEDGED, MODERN_META, MODERN_REMOVED_METHODS, MODERN_STATELESS, MODERN_VERSION, OTHER_METADATA,
};
use crate::check::catalogue::tools::LIST_ORDER;
use crate::check::excerpt::Fault;

pub(super) fn skip(harness: &Harness) {
    for check in CHECKS {
        // The server does not speak this era, so its responses to the requests that probed for the era prove nothing.
        harness.recording.ledger().withdraw(check);
    }
    harness.skip_all(CHECKS, "the server does not speak 2026-07-28");
}

/// Returns all probes of the modern era.
pub(super) fn probes<'a>(harness: &'a Harness, probe: ServerProbe<'a>) -> Vec<Probe<'a>> {
    let (facts, misuse) = (probe.facts.clone(), misuse::probes(harness, &probe));
    let mut probes: Vec<Probe<'_>> = vec![Box::pin(probe.run())];
    probes.extend(misuse);
    if !harness.is_http() {
        probes.push(harness.side(first_request(harness, facts)));
    }
    probes
}

/// Sends a request to a new process without `server/discover` before it, and checks that it is served.
async fn first_request(harness: &Harness, facts: EraFacts) -> Result<(), Error> {
    if !harness.wants(&[&MODERN_STATELESS]) {
        return Ok(());
    }
    let Some(method) = facts.declared_list() else {
        harness.skip_all(&[&MODERN_STATELESS], "the server has no lists");
        return Ok(());
    };
    let _subject = harness.progress("a request without server/discover before it");
    let mut connection = harness.spawn(Era::Modern, true).await?;
    let outcome = connection.claimed_request_within(method, json!({}), harness.first_patience()).await;
    let what = format!("{method} as the first request of a connection");
    harness.expect_result(&MODERN_STATELESS, &connection, &what, &outcome);
    if let RequestOutcome::Result(first) = &outcome
        && !harness.recording.ledger().has_failed(&LIST_ORDER)
    {
        // Other requests must not change the list, so it is the same after them.
        let since = Instant::now();
        for (_, other) in LISTS.iter().filter(|(capability, _)| facts.declares(capability)) {
            connection.claimed_request(other, json!({})).await;
        }
        let again = connection.claimed_request(method, json!({})).await;
        if let RequestOutcome::Result(result) = &again
            && names(result, method) != names(first, method)
            && !changes_by_itself(harness, method, since.elapsed()).await?
        {
            let detail = format!("{method} has other entries after other requests than before them");
            harness.fail(&MODERN_STATELESS, &connection, Some(&again), detail);
        }
    }
    harness.close(connection).await;
    Ok(())
}

/// Whether the first page of a list changes without other requests on a new process, in the time that they took.
async fn changes_by_itself(harness: &Harness, method: &str, time: Duration) -> Result<bool, Error> {
    let mut connection = harness.spawn(Era::Modern, true).await?;
    let first = connection.claimed_request_within(method, json!({}), harness.first_patience()).await;
    sleep(time * 2 + MIN_LOADING).await;
    let again = connection.claimed_request(method, json!({})).await;
    harness.close(connection).await;
    Ok(match (&first, &again) {
        (RequestOutcome::Result(first), RequestOutcome::Result(again)) => names(first, method) != names(again, method),
        _ => true,
    })
}

/// Returns the names or URIs in the first page of a list, in a fixed order.
fn names(result: &ResultResponse, method: &str) -> Vec<String> {
    let (member, name) = match method {
        "resources/list" => ("resources", "uri"),
        "prompts/list" => ("prompts", "name"),
        _ => ("tools", "name"),
    };
    let entries = result.at(&[member]).into_iter().flat_map(Json::elements).take(MAX_NAMES);
    let mut names: Vec<String> = entries.filter_map(|it| Some(it.member(name)?.string()?.into_owned())).collect();
    names.sort();
    names
}

impl ServerProbe<'_> {
    /// Sends requests with wrong versions and metadata, and methods that the modern era does not have.
    pub(super) async fn modern_misuse(&mut self) -> Result<(), Error> {
        if self.harness.wants(&[&MODERN_VERSION]) {
            let meta = json!({key::PROTOCOL_VERSION: UNSUPPORTED_VERSION, key::CLIENT_CAPABILITIES: {}});
            self.request_with_meta(meta, Judgement::UnsupportedVersion).await?;
        }
        if self.harness.wants(&[&MODERN_META]) {
            self.missing_metadata().await?;
        }
        if self.harness.wants(&[&MODERN_REMOVED_METHODS]) {
            self.removed_methods().await?;
        }
        Ok(())
    }

    /// Sends `server/discover`, or `tools/list` if the server lacks it, with this metadata and no other metadata.
    async fn request_with_meta(&mut self, meta: Value, judgement: Judgement) -> Result<(), Error> {
        self.reconnect_if_closed().await?;
        let method = if self.facts.discovers { "server/discover" } else { "tools/list" };
        let id = self.connection.next_id();
        let request = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": {"_meta": meta}});
        self.connection.claim(&id.to_string());
        self.connection.send_json(&request).await;
        self.await_response(id.to_string(), judgement).await;
        Ok(())
    }

    pub(super) fn judge_version(&self, outcome: &RequestOutcome) {
        let (harness, connection) = (self.harness, &self.connection);
        harness.expect_code(&MODERN_VERSION, connection, "an unsupported version", outcome, &[-32022]);
        let RequestOutcome::Error(response) = outcome else { return };
        if response.code != -32022 {
            return;
        }
        let is_list = |it: Json<'_>| {
            it.elements().next().is_some() && it.elements().all(|version| version.kind() == Kind::String)
        };
        let has_spoken =
            |it: Json<'_>| it.elements().any(|version| version.string().as_deref() == Some(Revision::LATEST.as_str()));
        let requested = response.at(&["data", "requested"]).and_then(Json::string);
        let detail = if !response.at(&["data", "supported"]).is_some_and(is_list) {
            "data.supported is not an array of versions"
        } else if !response.at(&["data", "supported"]).is_some_and(has_spoken) {
            "data.supported lacks 2026-07-28, which the server speaks"
        } else if requested.as_deref() != Some(UNSUPPORTED_VERSION) {
            "data.requested is not the requested version"
        } else {
            return;
        };
        harness.fail(&MODERN_VERSION, connection, Some(outcome), detail);
    }

    async fn missing_metadata(&mut self) -> Result<(), Error> {
        let version = json!(Revision::LATEST);
        let incomplete = [
            ("a request without protocolVersion", json!({key::CLIENT_CAPABILITIES: {}})),
            ("a request without clientCapabilities", json!({key::PROTOCOL_VERSION: version})),
        ];
        // Over HTTP a header also has the version, and the server may report that header and body do not match.
        let codes: &[i64] = if self.harness.is_http() { &[-32602, -32020] } else { &[-32602] };
        for (what, meta) in incomplete {
            let judgement = Judgement::Code { check: (&MODERN_META).into(), what: what.to_owned(), codes };
            self.request_with_meta(meta, judgement).await?;
        }
        let meta = json!({key::PROTOCOL_VERSION: version, key::CLIENT_CAPABILITIES: {}});
        let judgement = Judgement::Result { check: &MODERN_META, what: "a request without clientInfo" };
        self.request_with_meta(meta, judgement).await?;
        let mut meta = json!({"com.example/note": "barewire", "traceparent": TRACE});
        for (name, value) in modern_meta() {
            meta[name] = value;
        }
        self.request_with_meta(meta, Judgement::OtherMetadata).await
    }

    pub(super) fn judge_other_metadata(&self, outcome: &RequestOutcome) {
        let what = "a request with com.example/note and traceparent in its metadata";
        match outcome {
            RequestOutcome::Error(response) => {
                let detail = format!("{what}: expected a result, got {}", outcome.describe());
                self.harness.fail_frame_under(&OTHER_METADATA, &MODERN_META, &response.frame, detail);
            }
            outcome => self.harness.expect_result(&MODERN_META, &self.connection, what, outcome),
        }
    }

    async fn removed_methods(&mut self) -> Result<(), Error> {
        let check = &MODERN_REMOVED_METHODS;
        // A server of both eras may treat `initialize` as a handshake. Any error code is right for `initialize`,
        // because the error may list the supported versions.
        if !self.harness.has_handshake.get() {
            let judgement = Judgement::AnyError { check, what: "initialize" };
            self.ask("initialize", initialize_params("2025-11-25"), judgement).await?;
        }
        for (method, params) in [
            ("ping", json!({})),
            ("logging/setLevel", json!({"level": "error"})),
            ("resources/subscribe", json!({"uri": NO_SUCH_URI})),
        ] {
            self.expect_code(check, method, method, params, &[-32601]).await?;
        }
        Ok(())
    }

    /// Sends `subscriptions/listen` for declared changes, and checks that the first message is the acknowledgement.
    pub(super) async fn listen(&mut self) {
        if !self.harness.wants(&[&LISTEN_ACKNOWLEDGED]) {
            return;
        }
        let filters =
            [("tools", "toolsListChanged"), ("prompts", "promptsListChanged"), ("resources", "resourcesListChanged")];
        let is_true = |it: Json<'_>| it.kind() == Kind::True;
        let declares = |name: &str| self.facts.capability(&[name, "listChanged"]).is_some_and(is_true);
        let changes = filters.iter().find(|(name, _)| declares(name)).map(|(_, filter)| json!({*filter: true}));
        let subscribes = self.facts.capability(&["resources", "subscribe"]).is_some_and(is_true);
        let updates = subscribes.then(|| json!({"resourceSubscriptions": [NO_SUCH_URI]}));
        let Some(filter) = changes.or(updates) else {
            self.harness.skip_all(&[&LISTEN_ACKNOWLEDGED], "the server declares neither listChanged nor subscribe");
            return;
        };
        let (harness, connection) = (self.harness, &mut self.connection);
        let id = connection.send_request("subscriptions/listen", json!({"notifications": filter})).await;
        connection.claim(&id);
        let deadline = connection.response_deadline();
        harness.recording.ledger().inspected(&LISTEN_ACKNOWLEDGED);
        loop {
            let Some(frame) = connection.next_frame(deadline).await else {
                harness.fail(&LISTEN_ACKNOWLEDGED, connection, None, "subscriptions/listen: no acknowledgement");
                break;
            };
            let Some(message) = frame.json() else { continue };
            let method = message.member("method").and_then(Json::string);
            if method.as_deref() == Some("notifications/subscriptions/acknowledged") {
                break;
            }
            if is_response_to(message, &id) {
                let detail = "subscriptions/listen: expected an acknowledgement, got a response";
                harness.fail_frame(&LISTEN_ACKNOWLEDGED, &frame, Fault::Whole, detail);
                return;
            }
        }
        connection.cancel_request(&id).await;
        connection.still_answers().await;
    }
}

/// A version that no server will ever speak.
const UNSUPPORTED_VERSION: &str = "v999.0.0";
/// The example of the specification for the context of a trace.
const TRACE: &str = "00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01";
/// The minimum time in which a server may complete its lists after it has started.
const MIN_LOADING: Duration = Duration::from_secs(1);
/// The maximum number of entries of a list that are compared; more than a model can choose from.
const MAX_NAMES: usize = 16_384;
