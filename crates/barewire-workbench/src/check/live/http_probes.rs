//! HTTP requests that differ from an ordinary request in one header -> findings about access, headers and sessions.

use std::sync::Arc;
use std::time::{Duration, Instant};

use barewire_proto::mcp::{Era, Revision};
use serde_json::{Value, json};

use super::ServerSummary;
use super::connection::modern_meta;
use super::harness::{Harness, Probe, initialize_params};
use super::http_client::{HttpReply, HttpRequest, RecordingClient};
use super::outcome::is_response_to;
use crate::check::catalogue::http::{
    GET_STATUS, HTTP_GET_STREAM, HTTP_HEADER_MIRRORING, HTTP_HOST, HTTP_ORIGIN, HTTP_PROTOCOL_VERSION,
    HTTP_REQUEST_TYPE, HTTP_SESSION, HTTP_SESSION_ENTROPY, HTTP_STATUS, SESSION_MISSING, SESSION_OPEN, SESSION_SHARED,
};
use crate::check::catalogue::{Check, Rule};
use crate::check::finding::{Finding, Party};
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
    let probe = || HttpProbe::new(harness, target, legacy);
    let mut probes: Vec<Probe<'_>> = Vec::new();
    for era in [legacy.map(|_| Era::Legacy), summary.is_modern.then_some(Era::Modern)].into_iter().flatten() {
        probes.push(Box::pin(probe().origin(era)));
        probes.push(Box::pin(probe().host(era, is_loopback)));
        probes.push(Box::pin(probe().content_type(era)));
    }
    if let Some(revision) = legacy {
        probes.push(Box::pin(session(harness, target, revision)));
        probes.push(Box::pin(request_beside_stream(harness, revision)));
    } else {
        let checks = [&HTTP_SESSION, &HTTP_SESSION_ENTROPY, &HTTP_PROTOCOL_VERSION];
        harness.skip_all(&checks, "the server has no handshake");
    }
    if summary.is_modern {
        probes.extend(Contradiction::ALL.map(|it| -> Probe<'_> { Box::pin(probe().contradict(it)) }));
        if legacy.is_none() {
            probes.push(Box::pin(probe().get()));
        }
    } else {
        harness.skip_all(&[&HTTP_HEADER_MIRRORING], "the server does not speak 2026-07-28");
    }
    harness.run_all(probes).await
}

/// Sends one request, outside of any session.
pub(super) struct HttpProbe<'a> {
    harness: &'a Harness,
    /// The latest legacy revision that the server speaks.
    legacy: Option<Revision>,
    client: RecordingClient,
}

/// A header of a modern request that contradicts the body.
#[derive(Clone, Copy)]
struct Contradiction {
    what: &'static str,
    method: &'static str,
    header: &'static str,
    value: Option<&'static str>,
}

impl Contradiction {
    const ALL: [Self; 5] = [
        Self::new("no Mcp-Method", DISCOVER, "mcp-method", None),
        Self::new("Mcp-Method of another method", DISCOVER, "mcp-method", Some("tools/list")),
        Self::new("Mcp-Name of another tool", CALL, "mcp-name", Some("barewire-another")),
        Self::new("tools/call without Mcp-Name", CALL, "mcp-name", None),
        Self::new("MCP-Protocol-Version of another revision", DISCOVER, "mcp-protocol-version", Some("2025-11-25")),
    ];

    const fn new(what: &'static str, method: &'static str, header: &'static str, value: Option<&'static str>) -> Self {
        Self { what, method, header, value }
    }
}

/// The id of the request, as JSON text.
const REQUEST_ID: &str = "1";
const DISCOVER: &str = "server/discover";
const CALL: &str = "tools/call";

impl<'a> HttpProbe<'a> {
    pub(super) fn new(harness: &'a Harness, target: &Arc<HttpTarget>, legacy: Option<Revision>) -> Self {
        Self { harness, legacy, client: RecordingClient::new(target.clone(), harness.recording.clone()) }
    }

    /// Returns the first request that a client of this era sends.
    pub(super) fn first(&self, era: Era) -> HttpRequest {
        match era {
            Era::Modern => self.modern("server/discover", json!({})),
            Era::Legacy => self.request("initialize", initialize_params(self.legacy_revision().as_str()), era),
        }
    }

    fn modern(&self, method: &str, mut params: Value) -> HttpRequest {
        params["_meta"] =
            Value::Object(modern_meta().map(|(name, value)| (name.to_owned(), value)).into_iter().collect());
        self.request(method, params, Era::Modern)
    }

    fn request(&self, method: &str, params: Value, era: Era) -> HttpRequest {
        let message = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        self.client.client.request(message.to_string().as_bytes(), era, self.legacy_revision())
    }

    fn legacy_revision(&self) -> Revision {
        self.legacy.unwrap_or(Revision::LATEST_LEGACY)
    }

    /// Claims the request: the caller reports a missing response itself.
    pub(super) fn claimed(mut self) -> Self {
        self.client.claim(REQUEST_ID);
        self
    }

    /// Sends a request, and ends the session if the response starts one.
    pub(super) async fn send(&mut self, request: HttpRequest) -> HttpReply {
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

    async fn origin(mut self, era: Era) -> Result<(), Error> {
        if !self.may_run(&HTTP_ORIGIN) {
            return Ok(());
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
        Ok(())
    }

    async fn host(self, era: Era, is_loopback: bool) -> Result<(), Error> {
        if !is_loopback {
            self.harness.skip_all(&[&HTTP_HOST], "the server is not on this machine");
            return Ok(());
        }
        if self.may_run(&HTTP_HOST) {
            let _subject = self.harness.progress("a foreign Host");
            let request = self.first(era).with("host", Some(FOREIGN_HOST));
            self.expect_refusal(&HTTP_HOST, request, &format!("Host: {FOREIGN_HOST}")).await;
        }
        Ok(())
    }

    async fn content_type(self, era: Era) -> Result<(), Error> {
        if self.may_run(&HTTP_REQUEST_TYPE) {
            let _subject = self.harness.progress("a foreign Content-Type");
            let request = self.first(era).with("content-type", Some("text/plain"));
            self.expect_refusal(&HTTP_REQUEST_TYPE, request, "a message as text/plain").await;
        }
        Ok(())
    }

    async fn expect_refusal(mut self, check: &'static Check, request: HttpRequest, what: &str) {
        let reply = self.send(request).await;
        self.harness.recording.ledger().inspected(check);
        if reply.is_ok() || reply.status.is_none_or(|status| status >= 500) {
            fail(self.harness, check, &reply, format!("{what}: expected a 4xx, got {}", reply.describe()));
        }
    }

    /// Sends a request with a header that contradicts its body.
    async fn contradict(mut self, Contradiction { what, method, header, value }: Contradiction) -> Result<(), Error> {
        if !self.harness.wants(&[&HTTP_HEADER_MIRRORING]) {
            return Ok(());
        }
        let _subject = self.harness.progress("headers that mirror the body");
        let params = if method == CALL { json!({"name": "barewire-no-such", "arguments": {}}) } else { json!({}) };
        let request = self.modern(method, params).with(header, value);
        let reply = self.send(request).await;
        self.harness.recording.ledger().inspected(&HTTP_HEADER_MIRRORING);
        if reply.status != Some(400) || reply.code() != Some(-32020) {
            let detail = format!("{what}: expected status 400 and error -32020, got {}", reply.describe());
            fail(self.harness, &HTTP_HEADER_MIRRORING, &reply, detail);
        }
        Ok(())
    }

    /// Sends a GET, which a server of only the modern era does not serve.
    async fn get(mut self) -> Result<(), Error> {
        if !self.harness.wants(&[&HTTP_STATUS]) {
            return Ok(());
        }
        let _subject = self.harness.progress("a GET");
        let reply = self.send(HttpRequest::of_session("GET", None, None)).await;
        self.harness.recording.ledger().inspected(&HTTP_STATUS);
        if reply.status != Some(405) {
            let detail = format!("GET: expected status 405, got {}", reply.describe());
            fail_under(self.harness, Some(&GET_STATUS), &HTTP_STATUS, &reply, detail);
        }
        Ok(())
    }
}

fn fail(harness: &Harness, check: &'static Check, reply: &HttpReply, detail: String) {
    fail_under(harness, None, check, reply, detail);
}

/// Reports a violation, of a named rule of the check or of its first rule.
pub(super) fn fail_under(
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
    let finding = Finding::new(check, Party::Server, reply.location(), detail);
    let finding = finding.with_request(reply.request.clone()).with_response(reply.excerpt());
    let finding = if reply.request.is_some() && reply.status.is_none() { finding.unanswered() } else { finding };
    harness.recording.ledger().fail(rule.map_or(finding.clone(), |rule| finding.under(rule)));
}

/// Sends requests with the right session id, without an id, with an unknown id, and after the end of the session.
async fn session(harness: &Harness, target: &Arc<HttpTarget>, revision: Revision) -> Result<(), Error> {
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
    let (Some(client), Some(deleted)) = (first.http(), second.http()) else { return Ok(()) };
    let (id, other) = (client.client.session.clone(), deleted.client.session.clone());
    let message = |number: u64| json!({"jsonrpc": "2.0", "id": number, "method": "ping"}).to_string();
    let ping = |number: u64| client.client.request(message(number).as_bytes(), Era::Legacy, revision);
    let ask = async |request: HttpRequest| {
        let mut client = RecordingClient::new(target.clone(), harness.recording.clone());
        client.ask(request, harness.response_deadline()).await
    };
    let ask = &ask;
    // None of these requests depends on another, so they are sent together.
    let mut probes: Vec<Probe<'_>> = Vec::new();
    if revision >= Revision::V2025_06_18 {
        let request = ping(901).with("mcp-protocol-version", Some("1900-01-01"));
        probes.push(Box::pin(async move {
            let reply = ask(request).await;
            harness.recording.ledger().inspected(&HTTP_PROTOCOL_VERSION);
            if reply.status != Some(400) {
                let detail = format!("MCP-Protocol-Version: 1900-01-01: expected 400, got {}", reply.describe());
                fail(harness, &HTTP_PROTOCOL_VERSION, &reply, detail);
            }
            Ok(())
        }));
    } else {
        harness.skip_all(&[&HTTP_PROTOCOL_VERSION], "the server speaks no revision after 2025-03-26");
    }
    let get = HttpRequest::of_session("GET", id.as_deref(), Some(revision));
    probes.push(Box::pin(async move {
        let reply = ask(get).await;
        // The passive checks judge the head of the reply.
        if reply.status.is_none() {
            let detail = format!("GET: expected a stream or status 405, got {}", reply.describe());
            fail_under(harness, Some(&GET_STATUS), &HTTP_STATUS, &reply, detail);
        }
        Ok(())
    }));
    let unknown = Some("barewire-no-such-session-00000000");
    let requests = [
        ("a request without a session id", ping(902).with("mcp-session-id", None), &SESSION_MISSING),
        ("a request with an unknown session id", ping(903).with("mcp-session-id", unknown), &SESSION_OPEN),
    ];
    for (what, request, rule) in requests.into_iter().filter(|_| id.is_some() && other.is_some()) {
        probes.push(Box::pin(async move {
            let reply = ask(request).await;
            if !reply.is_client_error() {
                let detail = format!("{what}: expected a 4xx, got {}", reply.describe());
                fail_under(harness, Some(rule), &HTTP_SESSION, &reply, detail);
            }
            Ok(())
        }));
    }
    if let (Some(id), Some(other)) = (&id, &other)
        && id != other
    {
        let end = HttpRequest::of_session("DELETE", Some(other), Some(revision));
        let after = ping(904).with("mcp-session-id", Some(other));
        probes.push(Box::pin(async move {
            if !ask(end).await.is_ok() {
                return Ok(());
            }
            let reply = ask(after).await;
            if reply.status != Some(404) {
                let detail = format!("a request after DELETE of its session: expected 404, got {}", reply.describe());
                fail(harness, &HTTP_SESSION, &reply, detail);
            }
            deleted.client.session = None;
            Ok(())
        }));
    }
    harness.run_all(probes).await?;
    if let (Some(id), Some(other)) = (&id, &other) {
        harness.recording.ledger().inspected(&HTTP_SESSION);
        harness.recording.ledger().inspected(&HTTP_SESSION_ENTROPY);
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

/// Sends a request while the stream of a GET is open in the same session. The passive checks judge the stream, in which
/// the response must not arrive.
async fn request_beside_stream(harness: &Harness, revision: Revision) -> Result<(), Error> {
    if !harness.wants(&[&HTTP_GET_STREAM]) || revision < Revision::V2025_03_26 {
        return Ok(());
    }
    let _subject = harness.progress("a request beside the stream of a GET");
    // Some servers have only one stream in a session, so the session is new.
    let Some(mut connection) = harness.connect(Era::Legacy, true).await? else { return Ok(()) };
    let (deadline, revision) = (harness.response_deadline(), connection.revision);
    let is_open = match connection.http() {
        Some(client) => client.open_stream(revision, deadline).await,
        None => false,
    };
    if is_open {
        let id = connection.send_request(connection.liveness_method(), json!({})).await;
        // Other probes report a request that is not answered at all.
        connection.claim(&id);
        let mut last = harness.response_deadline();
        let mut has_ended = false;
        while Instant::now() < last {
            let step = connection.deadline(POLL_INTERVAL).min(last);
            match connection.next_frame(step).await {
                Some(frame) if frame.json().is_some_and(|message| is_response_to(message, &id)) => break,
                _ => {}
            }
            if !has_ended && connection.http().is_some_and(|client| !client.is_waiting(Some(&id))) {
                // What is sent in the stream may arrive later than the end of the exchange.
                (has_ended, last) = (true, last.min(connection.deadline(STREAM_DELAY)));
            }
        }
    }
    harness.close(connection).await;
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

/// The time between two looks at whether an exchange has ended.
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// The time by which a response in a stream may arrive later than the end of the exchange of its request.
const STREAM_DELAY: Duration = Duration::from_millis(500);
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
