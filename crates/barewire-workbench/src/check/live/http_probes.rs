//! What only HTTP has -> findings: who may ask, in which words, in which session; each with a request that is ordinary but for one thing.

use std::sync::Arc;
use std::time::Instant;

use barewire_proto::mcp::{Era, Revision};
use serde_json::{Value, json};

use super::connection::modern_meta;
use super::harness::{Harness, time_is_up};
use super::http_client::{HttpReply, HttpRequest, RecordingClient};
use crate::check::catalogue::Check;
use crate::check::catalogue::http::{
    HTTP_HEADER_MIRRORING, HTTP_HOST, HTTP_ORIGIN, HTTP_PROTOCOL_VERSION, HTTP_REQUEST_TYPE, HTTP_SESSION,
    HTTP_SESSION_ENTROPY, HTTP_STATUS,
};
use crate::check::finding::{Finding, Party};
use crate::check::ledger::{Reason, SkipReason};
use crate::http::session::HttpTarget;
use crate::{Advice, Error};

/// What is known of the server by now.
pub(super) struct HttpFacts {
    pub(super) site: Arc<HttpTarget>,
    /// The latest revision with a handshake that it speaks.
    pub(super) legacy: Option<Revision>,
    pub(super) is_modern: bool,
    pub(super) is_loopback: bool,
}

pub(super) async fn run(harness: &mut Harness, facts: &HttpFacts) -> Result<(), Error> {
    let mut eras = Vec::new();
    eras.extend(facts.legacy.map(|_| Era::Legacy));
    eras.extend(facts.is_modern.then_some(Era::Modern));
    if eras.is_empty() {
        let checks = [&HTTP_ORIGIN, &HTTP_HOST, &HTTP_REQUEST_TYPE, &HTTP_SESSION, &HTTP_SESSION_ENTROPY];
        harness.skip_all(&checks, "no MCP server answers");
        harness.skip_all(&[&HTTP_PROTOCOL_VERSION, &HTTP_HEADER_MIRRORING], "no MCP server answers");
        return Ok(());
    }
    for era in &eras {
        let mut probe = HttpProbe {
            harness,
            facts,
            web: RecordingClient::new(Arc::clone(&facts.site), harness.recording.clone()),
            last: 0,
        };
        probe.origin(*era).await;
        probe.host(*era).await;
        probe.content_type(*era).await;
    }
    if let Some(revision) = facts.legacy {
        session(harness, revision).await?;
    } else {
        harness
            .skip_all(&[&HTTP_SESSION, &HTTP_SESSION_ENTROPY, &HTTP_PROTOCOL_VERSION], "the server has no handshake");
    }
    if facts.is_modern {
        let mut probe = HttpProbe {
            harness,
            facts,
            web: RecordingClient::new(Arc::clone(&facts.site), harness.recording.clone()),
            last: 0,
        };
        probe.mirroring().await;
        if facts.legacy.is_none() {
            probe.get().await;
        }
    } else {
        harness.skip_all(&[&HTTP_HEADER_MIRRORING], "the server does not speak 2026-07-28");
    }
    Ok(())
}

/// Requests that stand for themselves.
struct HttpProbe<'a> {
    harness: &'a Harness,
    facts: &'a HttpFacts,
    web: RecordingClient,
    last: u64,
}

impl HttpProbe<'_> {
    /// The request that begins every conversation of this era.
    fn first(&mut self, era: Era) -> HttpRequest {
        match era {
            Era::Modern => self.modern("server/discover", json!({})),
            Era::Legacy => {
                let params = json!({
                    "protocolVersion": self.facts.legacy.unwrap_or(Revision::LATEST_LEGACY),
                    "capabilities": {},
                    "clientInfo": {"name": "barewire", "version": env!("CARGO_PKG_VERSION")},
                });
                self.request("initialize", params, era)
            }
        }
    }

    fn modern(&mut self, method: &str, mut params: Value) -> HttpRequest {
        params["_meta"] =
            Value::Object(modern_meta().map(|(name, value)| (name.to_owned(), value)).into_iter().collect());
        self.request(method, params, Era::Modern)
    }

    fn request(&mut self, method: &str, params: Value, era: Era) -> HttpRequest {
        self.last += 1;
        let message = json!({"jsonrpc": "2.0", "id": self.last, "method": method, "params": params});
        let revision = self.facts.legacy.unwrap_or(Revision::LATEST_LEGACY);
        self.web.client.request(message.to_string().as_bytes(), era, revision)
    }

    /// Sends it, and ends the session if one inbox of it.
    async fn ask(&mut self, request: HttpRequest) -> HttpReply {
        let deadline = (Instant::now() + self.harness.patience).min(self.harness.until);
        let reply = self.web.ask(request, deadline).await;
        if let Some(session) = reply.header("mcp-session-id").filter(|_| reply.is_ok()) {
            self.web.client.session = Some(session.to_owned());
            self.web.end(deadline, self.facts.legacy).await;
        }
        reply
    }

    fn fail(&self, check: &'static Check, reply: &HttpReply, detail: String) {
        fail(self.harness, check, reply, detail);
    }

    /// Whether it may be sent; if not, that is noted.
    fn may(&self, check: &'static Check) -> bool {
        let may = self.harness.may_be_hostile();
        if !may {
            let why = Reason::new("it looks like an attack", Advice::AllowHostile);
            self.harness.recording.skip(check, SkipReason::Permission(why));
        }
        may && self.harness.wants(&[check])
    }

    async fn origin(&mut self, era: Era) {
        if !self.may(&HTTP_ORIGIN) {
            return;
        }
        self.harness.progress("a page of another origin");
        let request = self.first(era).with("origin", Some(FOREIGN_ORIGIN));
        let reply = self.ask(request).await;
        self.harness.recording.inspected(&HTTP_ORIGIN);
        // That it is 403 is said only since then.
        let is_exact = era == Era::Modern || self.facts.legacy >= Some(Revision::V2025_11_25);
        let is_right = match reply.status {
            Some(403) => true,
            Some(status) => !is_exact && (400..=499).contains(&status),
            None => false,
        };
        if !is_right {
            self.fail(&HTTP_ORIGIN, &reply, format!("Origin: {FOREIGN_ORIGIN} is answered with {}", reply.describe()));
        }
    }

    async fn host(&mut self, era: Era) {
        if !self.facts.is_loopback {
            self.harness.skip_all(&[&HTTP_HOST], "the server is not on this machine");
            return;
        }
        if !self.may(&HTTP_HOST) {
            return;
        }
        let request = self.first(era).with("host", Some(FOREIGN_HOST));
        let reply = self.ask(request).await;
        self.harness.recording.inspected(&HTTP_HOST);
        if reply.is_ok() || reply.status.is_none_or(|status| status >= 500) {
            self.fail(&HTTP_HOST, &reply, format!("Host: {FOREIGN_HOST} is answered with {}", reply.describe()));
        }
    }

    async fn content_type(&mut self, era: Era) {
        if !self.may(&HTTP_REQUEST_TYPE) {
            return;
        }
        let request = self.first(era).with("content-type", Some("text/plain"));
        let reply = self.ask(request).await;
        self.harness.recording.inspected(&HTTP_REQUEST_TYPE);
        if reply.is_ok() || reply.status.is_none_or(|status| status >= 500) {
            let detail = format!("a message as text/plain is answered with {}", reply.describe());
            self.fail(&HTTP_REQUEST_TYPE, &reply, detail);
        }
    }

    /// Headers that say something else than the body.
    async fn mirroring(&mut self) {
        if !self.harness.wants(&[&HTTP_HEADER_MIRRORING]) {
            return;
        }
        self.harness.progress("headers that mirror the body");
        let call = json!({"name": "barewire-no-such", "arguments": {}});
        let wrong = [
            ("no Mcp-Method", self.modern("server/discover", json!({})).with("mcp-method", None)),
            (
                "an Mcp-Method of another method",
                self.modern("server/discover", json!({})).with("mcp-method", Some("tools/list")),
            ),
            (
                "an Mcp-Name of another tool",
                self.modern("tools/call", call.clone()).with("mcp-name", Some("barewire-another")),
            ),
            ("no Mcp-Name with tools/call", self.modern("tools/call", call).with("mcp-name", None)),
            (
                "an MCP-Protocol-Version of another revision",
                self.modern("server/discover", json!({})).with("mcp-protocol-version", Some("2025-11-25")),
            ),
        ];
        for (what, request) in wrong {
            let reply = self.ask(request).await;
            self.harness.recording.inspected(&HTTP_HEADER_MIRRORING);
            if reply.status != Some(400) || reply.code() != Some(-32020) {
                let detail = format!("{what}: 400 and -32020 are expected, and {} comes", reply.describe());
                self.fail(&HTTP_HEADER_MIRRORING, &reply, detail);
            }
        }
    }

    /// A server of the modern era alone has nothing to GET.
    async fn get(&mut self) {
        if !self.harness.wants(&[&HTTP_STATUS]) {
            return;
        }
        let reply = self.ask(HttpRequest::of_session("GET", None, None)).await;
        self.harness.recording.inspected(&HTTP_STATUS);
        if reply.status != Some(405) {
            self.fail(&HTTP_STATUS, &reply, format!("GET: 405 is expected, and {} comes", reply.describe()));
        }
    }
}

fn fail(harness: &Harness, check: &'static Check, reply: &HttpReply, detail: String) {
    if reply.status.is_none() && harness.is_late() {
        harness.recording.incomplete(check, time_is_up());
        return;
    }
    let finding = Finding::new(check, Party::Server, reply.location(), detail);
    harness.recording.fail(match reply.lines.first() {
        Some(line) => finding.seen(&line.bytes),
        None => finding,
    });
}

/// A session: with its id, without, with another, and after its end.
async fn session(harness: &mut Harness, revision: Revision) -> Result<(), Error> {
    let checks: &[&'static Check] = &[&HTTP_SESSION, &HTTP_SESSION_ENTROPY, &HTTP_PROTOCOL_VERSION, &HTTP_STATUS];
    if !harness.wants(checks) {
        return Ok(());
    }
    harness.progress("sessions");
    let (first, second) = (harness.connect(Era::Legacy, true).await?, harness.connect(Era::Legacy, true).await?);
    let (Some(mut first), Some(mut second)) = (first, second) else {
        for check in checks {
            harness.recording.incomplete(check, "initialize was not answered when it was sent again");
        }
        return Ok(());
    };
    let id = first.web().and_then(|web| web.client.session.clone());
    let other = second.web().and_then(|web| web.client.session.clone());
    let deadline = || (Instant::now() + harness.patience).min(harness.until);
    let ping = |web: &RecordingClient, number: u64| {
        let message = json!({"jsonrpc": "2.0", "id": number, "method": "ping"});
        web.client.request(message.to_string().as_bytes(), Era::Legacy, revision)
    };
    let Some(web) = first.web() else { return Ok(()) };
    if revision >= Revision::V2025_06_18 {
        let request = ping(web, 901).with("mcp-protocol-version", Some("1900-01-01"));
        let reply = web.ask(request, deadline()).await;
        harness.recording.inspected(&HTTP_PROTOCOL_VERSION);
        if reply.status != Some(400) {
            let detail = format!("MCP-Protocol-Version: 1900-01-01 is answered with {}", reply.describe());
            fail(harness, &HTTP_PROTOCOL_VERSION, &reply, detail);
        }
    } else {
        harness.skip_all(&[&HTTP_PROTOCOL_VERSION], "the server speaks nothing later than 2025-03-26");
    }
    // What comes of it is told by the passive checks.
    let request = HttpRequest::of_session("GET", id.as_deref(), Some(revision));
    web.ask(request, deadline()).await;
    match (&id, &other) {
        (Some(id), Some(other)) => {
            harness.recording.inspected(&HTTP_SESSION);
            harness.recording.inspected(&HTTP_SESSION_ENTROPY);
            let reply = web.ask(ping(web, 902).with("mcp-session-id", None), deadline()).await;
            let is_no = |reply: &HttpReply| reply.status.is_some_and(|status| (400..=499).contains(&status));
            if !is_no(&reply) {
                fail(
                    harness,
                    &HTTP_SESSION,
                    &reply,
                    format!("a request without a session: {} comes", reply.describe()),
                );
            }
            let unknown = "barewire-no-such-session-00000000";
            let reply = web.ask(ping(web, 903).with("mcp-session-id", Some(unknown)), deadline()).await;
            if !is_no(&reply) {
                fail(
                    harness,
                    &HTTP_SESSION,
                    &reply,
                    format!("a session that does not exist: {} comes", reply.describe()),
                );
            }
            let request = HttpRequest::of_session("DELETE", Some(id), Some(revision));
            let reply = web.ask(request, deadline()).await;
            if reply.is_ok() {
                let reply = web.ask(ping(web, 904), deadline()).await;
                if reply.status != Some(404) {
                    let detail = format!("a session that was ended: 404 is expected, and {} comes", reply.describe());
                    fail(harness, &HTTP_SESSION, &reply, detail);
                }
                web.client.session = None;
            }
            if id == other {
                let detail = "two handshakes are given the same session".to_owned();
                fail(harness, &HTTP_SESSION, &HttpReply::default(), detail);
            } else if let Some(what) = is_guessed(id, other) {
                fail(harness, &HTTP_SESSION_ENTROPY, &HttpReply::default(), what);
            }
        }
        _ => harness.skip_all(&[&HTTP_SESSION, &HTTP_SESSION_ENTROPY], "the server has no sessions"),
    }
    harness.close(first).await;
    harness.close(second).await;
    Ok(())
}

/// Why a session's id can be guessed, if it can.
fn is_guessed(id: &str, other: &str) -> Option<String> {
    let length = id.len().min(other.len());
    if length < SHORTEST {
        return Some(format!("an id has {length} characters"));
    }
    let differ = id.bytes().zip(other.bytes()).filter(|(a, b)| a != b).count();
    (differ < DIFFERENT && id.len() == other.len())
        .then(|| format!("two ids differ in {differ} of {length} characters"))
}

/// 64 bits in hexadecimal digits.
const SHORTEST: usize = 16;
/// Of 16 random hexadecimal digits, fewer differ once in many millions.
const DIFFERENT: usize = 6;

/// Names that are nobody's: RFC 6761.
const FOREIGN_ORIGIN: &str = "https://barewire-check.invalid";
const FOREIGN_HOST: &str = "barewire-check.invalid";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_that_count_are_guessed_and_random_ones_are_not() {
        assert!(is_guessed("7", "8").is_some());
        assert!(is_guessed("session-0000000000001", "session-0000000000002").is_some());
        let (one, two) = ("0f8fad5b-d9cb-469f-a165-70867728950e", "7c9e6679-7425-40de-944b-e07fc1f90ae7");
        assert_eq!(is_guessed(one, two), None);
    }
}
