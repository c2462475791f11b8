//! Requests that break a rule of MCP on purpose, on connections of their own: malformed params, unknown cursors,
//! capabilities that are not declared, and the end of the input while requests are in flight.

use std::time::Duration;

use barewire_proto::mcp::Era;
use serde_json::{Value, json};

use super::capabilities::capability_requests;
use super::connection::ServerConnection;
use super::harness::{Harness, JudgedBy, Probe};
use super::in_flight;
use super::ordinary::{Judgement, LISTS, ServerProbe};
use super::outcome::RequestOutcome;
use crate::Error;
use crate::check::catalogue::Check;
use crate::check::catalogue::flow::{ANSWERS_AT_EOF, BAD_CURSOR};
use crate::check::catalogue::methods::{CAPABILITY_TRUTH, INVALID_PARAMS, NAMELESS_CALL};
use crate::check::catalogue::modern::{MODERN_META, MODERN_REMOVED_METHODS, MODERN_VERSION};
use crate::check::catalogue::process::STAYS_ALIVE;
use crate::check::ledger::SkipReason;
use crate::check::origin::NO_SUCH;

/// Returns the probes of the era of an ordinary probe.
pub(super) fn probes<'a>(harness: &'a Harness, ordinary: &ServerProbe<'a>) -> Vec<Probe<'a>> {
    let (era, facts) = (ordinary.connection.era, ordinary.facts.clone());
    let mut probes: Vec<Probe<'_>> = Vec::new();
    let other = facts.clone();
    probes.push(harness.side(async move {
        let modern: &[&'static Check] = match era {
            Era::Legacy => &[],
            Era::Modern => &[&MODERN_VERSION, &MODERN_META, &MODERN_REMOVED_METHODS],
        };
        let checks = [&[&INVALID_PARAMS, &BAD_CURSOR, &CAPABILITY_TRUTH][..], modern].concat();
        if !harness.wants(&checks) {
            return Ok(());
        }
        let _subject = harness.progress("malformed requests");
        let Some(connection) = harness.connect(era, true).await? else {
            harness.not_restarted(&checks);
            return Ok(());
        };
        let mut probe = ServerProbe::new(harness, connection, facts);
        probe.misuse().await?;
        if era == Era::Modern {
            probe.modern_misuse().await?;
        }
        probe.settle().await;
        harness.close(probe.connection).await;
        Ok(())
    }));
    if !harness.is_http() {
        probes.push(harness.side(in_flight::probe(harness, era, other)));
        let list = ordinary.facts.declared_list();
        let call = ordinary.repeatable_call();
        probes.push(harness.side(end_of_input(harness, era, list, call)));
    }
    probes
}

impl ServerProbe<'_> {
    async fn misuse(&mut self) -> Result<(), Error> {
        if self.declares("tools") {
            let nameless = json!({"arguments": {}});
            let check = JudgedBy::rule(&INVALID_PARAMS, &NAMELESS_CALL);
            self.expect_code(check, "tools/call without a name", "tools/call", nameless, &[-32602]).await?;
        }
        if self.connection.era == Era::Legacy && self.declares("logging") && self.harness.wants(&[&INVALID_PARAMS]) {
            let unknown = json!({"level": NO_SUCH});
            self.ask("logging/setLevel", unknown, Judgement::LogLevel).await?;
        }
        self.unknown_cursor().await?;
        let has_declared = self.facts.capability(&[]).is_some_and(|it| it.kind() != barewire_proto::json::Kind::Null);
        if self.harness.wants(&[&CAPABILITY_TRUTH]) && has_declared {
            for (capability, method, params) in capability_requests(&self.connection) {
                if !self.declares(capability) {
                    let judgement = Judgement::Capability { capability, method, is_declared: false };
                    self.ask(method, params, judgement).await?;
                }
            }
        }
        Ok(())
    }
}

impl ServerProbe<'_> {
    /// Sends a cursor that the server has not issued, if the server issues cursors. A server whose lists have one page
    /// may ignore a cursor, because no client has one.
    async fn unknown_cursor(&mut self) -> Result<(), Error> {
        if !self.harness.wants(&[&BAD_CURSOR]) {
            return Ok(());
        }
        for (capability, method) in LISTS {
            if !self.declares(capability) {
                continue;
            }
            let id = self.connection.send_request(method, json!({})).await;
            let outcome = self.connection.wait_for_response(&id).await;
            let RequestOutcome::Result(first) = &outcome else { continue };
            if first.string(&["nextCursor"]).is_some() {
                let what = format!("{method} with an unknown cursor");
                let unknown = json!({"cursor": "barewire-no-such-cursor"});
                return self.expect_code(&BAD_CURSOR, &what, method, unknown, &[-32602]).await;
            }
        }
        self.harness.skip_all(&[&BAD_CURSOR], "no list of the server has a second page");
        Ok(())
    }
}

/// Sends requests and closes stdin at once. The requests were sent, so they must be answered.
async fn end_of_input(
    harness: &Harness,
    era: Era,
    list: Option<&'static str>,
    call: Option<Value>,
) -> Result<(), Error> {
    if !harness.wants(&[&ANSWERS_AT_EOF]) {
        return Ok(());
    }
    let _subject = harness.progress("the end of the input");
    let Some(mut connection) = harness.connect(era, true).await? else {
        harness.not_restarted(&[&ANSWERS_AT_EOF]);
        return Ok(());
    };
    let mut last_call = None;
    if let Some(call) = call {
        let outcome = connection.claimed_request_within("tools/call", call.clone(), MAX_QUICK).await;
        if let RequestOutcome::NoResponse(_) = outcome {
            // The server may still be busy with the call.
            let Some(fresh) = harness.connect_again(&mut connection).await? else {
                harness.not_restarted(&[&ANSWERS_AT_EOF]);
                connection.end(Duration::ZERO).await;
                return Ok(());
            };
            std::mem::replace(&mut connection, fresh).end(Duration::ZERO).await;
        }
        last_call = Some(call).filter(|_| matches!(outcome, RequestOutcome::Result(_)));
    }
    if connection.is_closed {
        harness.recording.ledger().skip(&ANSWERS_AT_EOF, SkipReason::Needs(STAYS_ALIVE.id));
        harness.close(connection).await;
        return Ok(());
    }
    let sent = send_last_requests(&mut connection, list, last_call).await;
    let last = connection.last_sent();
    let missing = connection.unanswered_at_eof(&sent, harness.patience).await;
    harness.recording.ledger().inspected(&ANSWERS_AT_EOF);
    if !missing.is_empty() && !harness.is_late() {
        let (lost, all) = (missing.len(), sent.len());
        let detail = format!("{lost} of {all} requests that were sent right before stdin was closed got no response");
        let sent = missing.first().and_then(|id| connection.sent_request(id));
        harness.fail_missing(&ANSWERS_AT_EOF, &connection, sent.or(last), detail);
    }
    harness.close(connection).await;
    Ok(())
}

/// Sends requests in one write: a list and a call, which take a server longer than a ping, and light requests.
async fn send_last_requests(
    connection: &mut ServerConnection,
    list: Option<&'static str>,
    call: Option<Value>,
) -> Vec<String> {
    let (mut text, mut ids) = (String::new(), Vec::new());
    let light = connection.liveness_method();
    let call = call.map(|params| ("tools/call", params));
    let requests = [(light, json!({})), (list.unwrap_or(light), json!({}))].into_iter();
    for (method, params) in requests.chain(call).chain([(light, json!({}))]) {
        let (line, id) = connection.request_line(method, params);
        connection.claim(&id);
        text.push_str(&line);
        text.push('\n');
        ids.push(id);
    }
    connection.send(text.as_bytes()).await;
    ids
}

/// The time in which a call is answered that is made again right before the end of the input.
const MAX_QUICK: Duration = Duration::from_secs(1);
