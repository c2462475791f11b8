//! HTTP requests that differ from an ordinary request in one header -> findings about access, headers and sessions.

use std::sync::Arc;

use barewire_proto::mcp::{Era, Revision};
use serde_json::{Value, json};

use super::ServerSummary;
use super::connection::modern_meta;
use super::harness::{Harness, initialize_params};
use super::http_client::{HttpReply, HttpRequest, RecordingClient};
use crate::check::catalogue::http::{
    GET_STATUS, HTTP_HEADER_MIRRORING, HTTP_HOST, HTTP_ORIGIN, HTTP_PROTOCOL_VERSION, HTTP_REQUEST_TYPE, HTTP_SESSION,
    HTTP_SESSION_ENTROPY, HTTP_STATUS, SESSION_MISSING, SESSION_OPEN, SESSION_SHARED,
};
use crate::check::catalogue::{Check, Rule};
use crate::http::session::HttpTarget;
use crate::{Advice, Error};

pub(super) async fn run(
    harness: &Harness,
    target: &Arc<HttpTarget>,
    is_loopback: bool,
    summary: &ServerSummary,
) -> Result<(), Error> {
    let legacy = summary.legacy.iter().copied().max();
    if legacy.is_none() && !summary.is_modern {
        let checks = [&HTTP_ORIGIN, &HTTP_HOST, &HTTP_REQUEST_TYPE, &HTTP_SESSION, &HTTP_SESSION_ENTROPY];
        harness.skip_all(&checks, "no MCP server responds");
        harness.skip_all(&[&HTTP_PROTOCOL_VERSION, &HTTP_HEADER_MIRRORING], "no MCP server responds");
        return Ok(());
    }
    let client = |harness: &Harness| RecordingClient::new(Arc::clone(target), harness.recording.clone());
    for era in [legacy.map(|_| Era::Legacy), summary.is_modern.then_some(Era::Modern)].into_iter().flatten() {
        let mut probe = HttpProbe { harness, legacy, client: client(harness), last_id: 0 };
        probe.origin(era).await;
        probe.host(era, is_loopback).await;
        probe.content_type(era).await;
    }
    if let Some(revision) = legacy {
        session(harness, revision).await?;
    } else {
        let checks = [&HTTP_SESSION, &HTTP_SESSION_ENTROPY, &HTTP_PROTOCOL_VERSION];
        harness.skip_all(&checks, "the server has no handshake");
    }
    if summary.is_modern {
        let mut probe = HttpProbe { harness, legacy, client: client(harness), last_id: 0 };
        probe.mirroring().await;
        if legacy.is_none() {
            probe.get().await;
        }
    } else {
        harness.skip_all(&[&HTTP_HEADER_MIRRORING], "the server does not speak 2026-07-28");
    }
    Ok(())
}

/// Sends single requests, outside of any session.
struct HttpProbe<'a> {
    harness: &'a Harness,
    /// The latest legacy revision that the server speaks.
    legacy: Option<Revision>,
    client: RecordingClient,
    last_id: u64,
}

impl HttpProbe<'_> {
    /// Returns the first request that a client of this era sends.
    fn first(&mut self, era: Era) -> HttpRequest {
        match era {
            Era::Modern => self.modern("server/discover", json!({})),
            Era::Legacy => self.request("initialize", initialize_params(self.legacy_revision().as_str()), era),
        }
    }

    fn modern(&mut self, method: &str, mut params: Value) -> HttpRequest {
        params["_meta"] =
            Value::Object(modern_meta().map(|(name, value)| (name.to_owned(), value)).into_iter().collect());
        self.request(method, params, Era::Modern)
    }

    fn request(&mut self, method: &str, params: Value, era: Era) -> HttpRequest {
        self.last_id += 1;
        let message = json!({"jsonrpc": "2.0", "id": self.last_id, "method": method, "params": params});
        self.client.client.request(message.to_string().as_bytes(), era, self.legacy_revision())
    }

    fn legacy_revision(&self) -> Revision {
        self.legacy.unwrap_or(Revision::LATEST_LEGACY)
    }

    /// Sends a request, and ends the session if the response starts one.
    async fn send(&mut self, request: HttpRequest) -> HttpReply {
        let deadline = self.harness.response_deadline();
        let reply = self.client.ask(request, deadline).await;
        if let Some(session) = reply.header("mcp-session-id").filter(|_| reply.is_ok()) {
            self.client.client.session = Some(session.to_owned());
            self.client.end(deadline, self.legacy).await;
        }
        reply
    }

    /// Whether this hostile check may run and is selected. Notes a skip if the user's permission is missing.
    fn may_run(&self, check: &'static Check) -> bool {
        let may_run = self.harness.may_be_hostile();
        if !may_run {
            self.harness.skip_forbidden(check, "its requests look like an attack", Advice::AllowHostile);
        }
        may_run && self.harness.wants(&[check])
    }

    async fn origin(&mut self, era: Era) {
        if !self.may_run(&HTTP_ORIGIN) {
            return;
        }
        let _subject = self.harness.progress("a foreign Origin");
        let request = self.first(era).with("origin", Some(FOREIGN_ORIGIN));
        let reply = self.send(request).await;
        self.harness.recording.ledger().inspected(&HTTP_ORIGIN);
        // Earlier revisions do not require 403.
        let is_exact = era == Era::Modern || self.legacy >= Some(Revision::V2025_11_25);
        if reply.status != Some(403) && (is_exact || !reply.is_client_error()) {
            let detail = format!("Origin: {FOREIGN_ORIGIN}: expected 403, got {}", reply.describe());
            fail(self.harness, &HTTP_ORIGIN, &reply, detail);
        }
    }

    async fn host(&mut self, era: Era, is_loopback: bool) {
        if !is_loopback {
            self.harness.skip_all(&[&HTTP_HOST], "the server is not on this machine");
            return;
        }
        if self.may_run(&HTTP_HOST) {
            let request = self.first(era).with("host", Some(FOREIGN_HOST));
            self.expect_refusal(&HTTP_HOST, request, &format!("Host: {FOREIGN_HOST}")).await;
        }
    }

    async fn content_type(&mut self, era: Era) {
        if self.may_run(&HTTP_REQUEST_TYPE) {
            let request = self.first(era).with("content-type", Some("text/plain"));
            self.expect_refusal(&HTTP_REQUEST_TYPE, request, "a message as text/plain").await;
        }
    }

    async fn expect_refusal(&mut self, check: &'static Check, request: HttpRequest, what: &str) {
        let reply = self.send(request).await;
        self.harness.recording.ledger().inspected(check);
        if reply.is_ok() || reply.status.is_none_or(|status| status >= 500) {
            fail(self.harness, check, &reply, format!("{what}: expected a 4xx, got {}", reply.describe()));
        }
    }

    /// Sends requests whose headers contradict their bodies.
    async fn mirroring(&mut self) {
        if !self.harness.wants(&[&HTTP_HEADER_MIRRORING]) {
            return;
        }
        let _subject = self.harness.progress("headers that mirror the body");
        let discover = |probe: &mut Self| probe.modern("server/discover", json!({}));
        let call = |probe: &mut Self| probe.modern("tools/call", json!({"name": "barewire-no-such", "arguments": {}}));
        let requests = [
            ("no Mcp-Method", discover(self).with("mcp-method", None)),
            ("Mcp-Method of another method", discover(self).with("mcp-method", Some("tools/list"))),
            ("Mcp-Name of another tool", call(self).with("mcp-name", Some("barewire-another"))),
            ("tools/call without Mcp-Name", call(self).with("mcp-name", None)),
            (
                "MCP-Protocol-Version of another revision",
                discover(self).with("mcp-protocol-version", Some("2025-11-25")),
            ),
        ];
        for (what, request) in requests {
            let reply = self.send(request).await;
            self.harness.recording.ledger().inspected(&HTTP_HEADER_MIRRORING);
            if reply.status != Some(400) || reply.code() != Some(-32020) {
                let detail = format!("{what}: expected status 400 and error -32020, got {}", reply.describe());
                fail(self.harness, &HTTP_HEADER_MIRRORING, &reply, detail);
            }
        }
    }

    /// Sends a GET, which a server of only the modern era does not serve.
    async fn get(&mut self) {
        if !self.harness.wants(&[&HTTP_STATUS]) {
            return;
        }
        let reply = self.send(HttpRequest::of_session("GET", None, None)).await;
        self.harness.recording.ledger().inspected(&HTTP_STATUS);
        if reply.status != Some(405) {
            let detail = format!("GET: expected status 405, got {}", reply.describe());
            fail_under(self.harness, Some(&GET_STATUS), &HTTP_STATUS, &reply, detail);
        }
    }
}

fn fail(harness: &Harness, check: &'static Check, reply: &HttpReply, detail: String) {
    fail_under(harness, None, check, reply, detail);
}

/// Reports a violation, of a named rule of the check or of its first rule.
fn fail_under(
    harness: &Harness,
    rule: Option<&'static Rule>,
    check: &'static Check,
    reply: &HttpReply,
    detail: String,
) {
    if reply.status.is_none() && harness.is_late() {
        harness.incomplete(check);
        return;
    }
    let bytes = reply.first.as_ref().map_or(&[][..], |frame| &frame.start);
    match rule {
        Some(rule) => harness.fail_under(rule, check, reply.location(), bytes, detail),
        None => harness.fail_at(check, reply.location(), bytes, detail),
    }
}

/// Sends requests with the right session id, without an id, with an unknown id, and after the end of the session.
async fn session(harness: &Harness, revision: Revision) -> Result<(), Error> {
    let checks: &[&'static Check] = &[&HTTP_SESSION, &HTTP_SESSION_ENTROPY, &HTTP_PROTOCOL_VERSION, &HTTP_STATUS];
    if !harness.wants(checks) {
        return Ok(());
    }
    let _subject = harness.progress("sessions");
    let (first, second) = (harness.connect(Era::Legacy, true).await?, harness.connect(Era::Legacy, true).await?);
    let (Some(mut first), Some(mut second)) = (first, second) else {
        for check in checks {
            harness.recording.ledger().incomplete(check, "initialize was not answered when it was sent again");
        }
        return Ok(());
    };
    let other = second.http().and_then(|client| client.client.session.clone());
    let ping = |client: &RecordingClient, id: u64| {
        let message = json!({"jsonrpc": "2.0", "id": id, "method": "ping"});
        client.client.request(message.to_string().as_bytes(), Era::Legacy, revision)
    };
    let Some(client) = first.http() else { return Ok(()) };
    let id = client.client.session.clone();
    if revision >= Revision::V2025_06_18 {
        let request = ping(client, 901).with("mcp-protocol-version", Some("1900-01-01"));
        let reply = client.ask(request, harness.response_deadline()).await;
        harness.recording.ledger().inspected(&HTTP_PROTOCOL_VERSION);
        if reply.status != Some(400) {
            let detail = format!("MCP-Protocol-Version: 1900-01-01: expected 400, got {}", reply.describe());
            fail(harness, &HTTP_PROTOCOL_VERSION, &reply, detail);
        }
    } else {
        harness.skip_all(&[&HTTP_PROTOCOL_VERSION], "the server speaks no revision after 2025-03-26");
    }
    // The passive checks judge the reply.
    client.ask(HttpRequest::of_session("GET", id.as_deref(), Some(revision)), harness.response_deadline()).await;
    if let (Some(id), Some(other)) = (&id, &other) {
        harness.recording.ledger().inspected(&HTTP_SESSION);
        harness.recording.ledger().inspected(&HTTP_SESSION_ENTROPY);
        let unknown = Some("barewire-no-such-session-00000000");
        let requests =
            [("a request without a session id", 902, None), ("a request with an unknown session id", 903, unknown)];
        for (what, number, session) in requests {
            let rule = if session.is_none() { &SESSION_MISSING } else { &SESSION_OPEN };
            let request = ping(client, number).with("mcp-session-id", session);
            let reply = client.ask(request, harness.response_deadline()).await;
            if !reply.is_client_error() {
                let detail = format!("{what}: expected a 4xx, got {}", reply.describe());
                fail_under(harness, Some(rule), &HTTP_SESSION, &reply, detail);
            }
        }
        let request = HttpRequest::of_session("DELETE", Some(id), Some(revision));
        let reply = client.ask(request, harness.response_deadline()).await;
        if reply.is_ok() {
            let reply = client.ask(ping(client, 904), harness.response_deadline()).await;
            if reply.status != Some(404) {
                let detail = format!("a request after DELETE of its session: expected 404, got {}", reply.describe());
                fail(harness, &HTTP_SESSION, &reply, detail);
            }
            client.client.session = None;
        }
        if id == other {
            let detail = "two handshakes get the same session id".to_owned();
            fail_under(harness, Some(&SESSION_SHARED), &HTTP_SESSION, &HttpReply::default(), detail);
        } else if let Some(detail) = guessable(id, other) {
            fail(harness, &HTTP_SESSION_ENTROPY, &HttpReply::default(), detail);
        }
    } else {
        harness.skip_all(&[&HTTP_SESSION, &HTTP_SESSION_ENTROPY], "the server has no sessions");
    }
    harness.close(first).await;
    harness.close(second).await;
    Ok(())
}

fn guessable(id: &str, other: &str) -> Option<String> {
    let length = id.len().min(other.len());
    if length < MIN_ID_LENGTH {
        return Some(format!("a session id has only {length} characters"));
    }
    let differences = id.bytes().zip(other.bytes()).filter(|(a, b)| a != b).count();
    (differences < MIN_DIFFERENCES && id.len() == other.len())
        .then(|| format!("two session ids differ in only {differences} of {length} characters"))
}

/// The minimum length of a session id: 64 bits in hexadecimal digits.
const MIN_ID_LENGTH: usize = 16;
/// The minimum number of characters in which two session ids differ. Of five billion pairs of random strings of 16
/// hexadecimal digits, about one pair differs in fewer characters.
const MIN_DIFFERENCES: usize = 6;

/// A foreign origin. RFC 6761 reserves names under `.invalid`, so no real site has such a name.
const FOREIGN_ORIGIN: &str = "https://barewire-check.invalid";
const FOREIGN_HOST: &str = "barewire-check.invalid";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counting_session_ids_are_guessable_and_random_ones_are_not() {
        assert!(guessable("7", "8").is_some());
        assert!(guessable("session-0000000000001", "session-0000000000002").is_some());
        let (one, two) = ("0f8fad5b-d9cb-469f-a165-70867728950e", "7c9e6679-7425-40de-944b-e07fc1f90ae7");
        assert_eq!(guessable(one, two), None);
    }
}
