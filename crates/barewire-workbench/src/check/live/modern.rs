//! Probes of the modern era: versions and metadata of each request, removed methods, `subscriptions/listen`.

use barewire_proto::json::{Json, Kind};
use barewire_proto::mcp::{Revision, key};
use serde_json::{Value, json};

use super::harness::{Harness, initialize_params};
use super::ordinary::ServerProbe;
use super::outcome::{RequestOutcome, is_response_to};
use crate::check::catalogue::modern::{
    CHECKS, LISTEN_ACKNOWLEDGED, MODERN_META, MODERN_REMOVED_METHODS, MODERN_VERSION,
};

pub(super) fn skip(harness: &Harness) {
    for check in CHECKS {
        // The server does not speak this era, so its responses to the requests that probed for the era prove nothing.
        harness.recording.ledger().withdraw(check);
    }
    harness.skip_all(CHECKS, "the server does not speak 2026-07-28");
}

impl ServerProbe<'_> {
    pub(super) async fn modern(&mut self) {
        self.harness.progress("the modern era");
        self.unsupported_version().await;
        self.missing_metadata().await;
        self.removed_methods().await;
        self.listen().await;
    }

    /// Sends `server/discover`, or `tools/list` if the server lacks it, with this metadata and no other metadata.
    async fn request_with_meta(&mut self, meta: Value) -> RequestOutcome {
        let method = if self.facts.discovers { "server/discover" } else { "tools/list" };
        let connection = &mut self.connection;
        let id = connection.next_id();
        let request = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": {"_meta": meta}});
        connection.claim(&id.to_string());
        connection.send_json(&request).await;
        connection.wait_for_response(&id.to_string()).await
    }

    async fn unsupported_version(&mut self) {
        if !self.harness.wants(&[&MODERN_VERSION]) {
            return;
        }
        let meta = json!({key::PROTOCOL_VERSION: UNSUPPORTED_VERSION, key::CLIENT_CAPABILITIES: {}});
        let outcome = self.request_with_meta(meta).await;
        let (harness, connection) = (&*self.harness, &self.connection);
        harness.expect_code(&MODERN_VERSION, connection, "an unsupported version", &outcome, &[-32022]);
        let RequestOutcome::Error(response) = &outcome else { return };
        if response.code != -32022 {
            return;
        }
        let is_list = |it: Json<'_>| {
            it.elements().next().is_some() && it.elements().all(|version| version.kind() == Kind::String)
        };
        let requested = response.at(&["data", "requested"]).and_then(Json::string);
        let detail = if !response.at(&["data", "supported"]).is_some_and(is_list) {
            "data.supported is not an array of versions"
        } else if requested.as_deref() != Some(UNSUPPORTED_VERSION) {
            "data.requested is not the requested version"
        } else {
            return;
        };
        harness.fail(&MODERN_VERSION, connection, Some(&outcome), detail);
    }

    async fn missing_metadata(&mut self) {
        if !self.harness.wants(&[&MODERN_META]) {
            return;
        }
        let version = json!(Revision::LATEST);
        let incomplete = [
            ("a request without protocolVersion", json!({key::CLIENT_CAPABILITIES: {}})),
            ("a request without clientCapabilities", json!({key::PROTOCOL_VERSION: version})),
        ];
        // Over HTTP a header also has the version, and the server may report that header and body do not match.
        let codes: &[i64] = if self.harness.is_http() { &[-32602, -32020] } else { &[-32602] };
        for (request, meta) in incomplete {
            let outcome = self.request_with_meta(meta).await;
            self.harness.expect_code(&MODERN_META, &self.connection, request, &outcome, codes);
        }
        let outcome =
            self.request_with_meta(json!({key::PROTOCOL_VERSION: version, key::CLIENT_CAPABILITIES: {}})).await;
        self.harness.expect_result(&MODERN_META, &self.connection, "a request without clientInfo", &outcome);
    }

    async fn removed_methods(&mut self) {
        if !self.harness.wants(&[&MODERN_REMOVED_METHODS]) {
            return;
        }
        for (method, params) in [
            ("initialize", initialize_params("2025-11-25")),
            ("ping", json!({})),
            ("logging/setLevel", json!({"level": "error"})),
            ("resources/subscribe", json!({"uri": "barewire-check://no/such/resource"})),
        ] {
            // A server of both eras may treat `initialize` as a handshake.
            if method == "initialize" && self.harness.has_handshake {
                continue;
            }
            let outcome = self.connection.claimed_request(method, params).await;
            // Any error code is right for `initialize`, because the error may list the supported versions.
            let codes: &[i64] = match (&outcome, method) {
                (RequestOutcome::Error(response), "initialize") => &[response.code],
                _ => &[-32601],
            };
            self.harness.expect_code(&MODERN_REMOVED_METHODS, &self.connection, method, &outcome, codes);
        }
    }

    /// Sends `subscriptions/listen` for declared changes, and checks that the first message is the acknowledgement.
    async fn listen(&mut self) {
        if !self.harness.wants(&[&LISTEN_ACKNOWLEDGED]) {
            return;
        }
        let filters =
            [("tools", "toolsListChanged"), ("prompts", "promptsListChanged"), ("resources", "resourcesListChanged")];
        let is_true = |it: Json<'_>| it.kind() == Kind::True;
        let declares = |name: &str| self.facts.capability(&[name, "listChanged"]).is_some_and(is_true);
        let Some((_, filter)) = filters.iter().find(|(name, _)| declares(name)) else {
            self.harness.skip_all(&[&LISTEN_ACKNOWLEDGED], "the server declares no listChanged");
            return;
        };
        let (harness, connection) = (&*self.harness, &mut self.connection);
        let id = connection.send_request("subscriptions/listen", json!({"notifications": {*filter: true}})).await;
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
                harness.fail_at(&LISTEN_ACKNOWLEDGED, frame.location, &frame.bytes, detail);
                return;
            }
        }
        connection.cancel_request(&id).await;
        connection.still_answers().await;
    }
}

/// A version that no server will ever speak.
const UNSUPPORTED_VERSION: &str = "v999.0.0";
