//! Several different requests in flight -> whether each response is the one that its request gets alone.

use std::time::Duration;

use barewire_proto::mcp::Era;
use serde_json::{Value, json};

use super::connection::{ServerConnection, lacks_id};
use super::eras::EraFacts;
use super::hard_texts;
use super::harness::Harness;
use super::ordinary::LISTS;
use super::outcome::{RequestOutcome, is_response_to};
use super::recording::LocatedFrame;
use super::tool::{ListedTool, tools};
use crate::Error;
use crate::check::catalogue::envelope::{ANSWER_MATCHING, UNANSWERED_REQUEST};
use crate::check::catalogue::framing::COALESCED_INPUT;
use crate::check::excerpt::Fault;
use crate::check::passive::INVENTED_TEXT;
use crate::text::shown;

/// A request that was answered alone.
struct AloneRequest {
    title: String,
    method: &'static str,
    params: Value,
    /// The result or error that the request got alone, as text.
    body: String,
    took: Duration,
}

/// Sends different requests, first one after the other and then all in one write, and compares their responses.
pub(super) async fn probe(harness: &Harness, era: Era, facts: EraFacts) -> Result<(), Error> {
    if !harness.wants(&[&ANSWER_MATCHING, &COALESCED_INPUT, &UNANSWERED_REQUEST]) {
        return Ok(());
    }
    let _subject = harness.progress("different requests at once");
    let Some(mut connection) = harness.connect(era, true).await? else {
        harness.not_restarted(&[&ANSWER_MATCHING]);
        return Ok(());
    };
    harness.recording.passive().mark_compared(connection.channel.as_str());
    let (mut alone, all) = alone(harness, &mut connection, &facts).await;
    if alone.len() < all {
        // The server may still be busy with a request that it has not answered.
        let Some(fresh) = harness.connect_again(&mut connection).await? else {
            harness.not_restarted(&[&ANSWER_MATCHING]);
            connection.end(Duration::ZERO).await;
            return Ok(());
        };
        harness.recording.passive().mark_compared(fresh.channel.as_str());
        std::mem::replace(&mut connection, fresh).end(Duration::ZERO).await;
    }
    // Slow requests first, so that responses arrive in another order than requests.
    alone.sort_by_key(|request| std::cmp::Reverse(request.took));
    // What differs once may differ by chance: a list may have changed, or the result of a tool.
    let mut swapped = None;
    for _ in 0..2 {
        swapped = compare(harness, &mut connection, &alone).await;
        if swapped.is_none() {
            break;
        }
    }
    if let Some((frame, detail)) = swapped {
        harness.fail_frame(&ANSWER_MATCHING, &frame, Fault::Member("/id"), detail);
    }
    if facts.declares("tools") && !harness.is_late() {
        hard_texts::probe(harness, &mut connection).await;
    }
    harness.close(connection).await;
    Ok(())
}

/// Sends requests one after the other. Returns those that were answered, except for those with long responses, and the
/// number of all.
async fn alone(harness: &Harness, connection: &mut ServerConnection, facts: &EraFacts) -> (Vec<AloneRequest>, usize) {
    let mut requests: Vec<(String, &'static str, Value)> = Vec::new();
    let light = connection.liveness_method();
    requests.push((light.to_owned(), light, json!({})));
    for (capability, method) in LISTS.iter().filter(|(_, method)| *method != light) {
        if facts.declares(capability) {
            requests.push(((*method).to_owned(), method, json!({})));
        }
    }
    if facts.declares("tools") {
        for name in ["barewire-no-such-1", "barewire-no-such-2"] {
            requests.push((format!("tools/call {name}"), "tools/call", json!({"name": name, "arguments": {}})));
        }
        requests.extend(calls(harness, connection).await);
    }
    let (mut answered, all) = (Vec::new(), requests.len());
    let mut patience = harness.patience;
    for (title, method, params) in requests {
        let since = connection.now();
        let outcome = connection.claimed_request_within(method, params.clone(), patience).await;
        if matches!(outcome, RequestOutcome::NoResponse(_)) {
            // A server that does not answer one request may not answer others.
            patience = patience.min(NEXT_PATIENCE);
        }
        if let Some(frame) = outcome.frame()
            && frame.bytes.len() <= MAX_COMPARED_RESPONSE
            && let Some(body) = body(frame)
        {
            let took = frame.time.saturating_sub(since);
            answered.push(AloneRequest { title, method, params, body, took });
        }
    }
    (answered, all)
}

/// Returns calls of tools that may be called repeatedly, with different arguments if a tool takes a text.
async fn calls(harness: &Harness, connection: &mut ServerConnection) -> Vec<(String, &'static str, Value)> {
    let listed = connection.claimed_request("tools/list", json!({})).await;
    let RequestOutcome::Result(result) = &listed else { return Vec::new() };
    let listed = tools(result).map(ListedTool::of).filter(|tool| tool.is_harmless || harness.all_calls);
    let mut calls = Vec::new();
    for tool in listed.take(MAX_TOOLS_AT_ONCE) {
        let (Some(name), Some(Value::Object(sample))) = (&tool.name, tool.sample()) else { continue };
        let texts: Vec<&String> =
            sample.iter().filter(|(_, value)| *value == INVENTED_TEXT).map(|(key, _)| key).collect();
        let variants = if texts.is_empty() { 1 } else { 2 };
        for variant in 1..=variants {
            let mut arguments = sample.clone();
            for key in &texts {
                arguments.insert((*key).clone(), json!(format!("{INVENTED_TEXT}-{variant}")));
            }
            let title = format!("tools/call {} ({variant})", shown(name.as_bytes(), 40));
            calls.push((title, "tools/call", json!({"name": name, "arguments": arguments})));
        }
    }
    calls
}

/// Sends all requests in one write. Returns a response that belongs to another request, and a description.
async fn compare(
    harness: &Harness,
    connection: &mut ServerConnection,
    alone: &[AloneRequest],
) -> Option<(LocatedFrame, String)> {
    let (mut text, mut ids) = (String::new(), Vec::new());
    for request in alone {
        let (line, id) = connection.request_line(request.method, request.params.clone());
        connection.claim(&id);
        text.push_str(&line);
        text.push('\n');
        ids.push(id);
    }
    connection.send(text.as_bytes()).await;
    let mut received: Vec<Option<LocatedFrame>> = vec![None; ids.len()];
    // A call that took long alone may take longer beside the others.
    let longest = alone.iter().map(|request| request.took).max().unwrap_or_default();
    let patience = harness.patience + longest * 4;
    let mut deadline = connection.deadline(patience);
    while received.iter().any(Option::is_none)
        && let Some(frame) = connection.next_frame(deadline).await
    {
        let at = ids.iter().position(|id| frame.json().is_some_and(|message| is_response_to(message, id)));
        // The passive checks report a response without an id. It is the response to a request that got the same alone.
        let same = || {
            let body = body(&frame).filter(|_| lacks_id(&frame))?;
            (0..ids.len()).find(|at| received[*at].is_none() && alone[*at].body == body)
        };
        if let Some(at) = at.or_else(same) {
            received[at].get_or_insert(frame);
            deadline = connection.deadline(patience);
        }
    }
    harness.recording.ledger().inspected(&ANSWER_MATCHING);
    let missing: Vec<&str> =
        alone.iter().zip(&received).filter(|(_, it)| it.is_none()).map(|(it, _)| &*it.title).collect();
    if !missing.is_empty() && harness.wants(&[&COALESCED_INPUT]) {
        let (lost, all, titles) = (missing.len(), alone.len(), missing.join(", "));
        let detail = format!("{lost} of {all} different requests in one write got no response: {titles}");
        harness.fail(&COALESCED_INPUT, connection, None, detail);
        return None;
    }
    for (at, (request, frame)) in alone.iter().zip(received).enumerate() {
        let Some(frame) = frame else { continue };
        let got = body(&frame)?;
        if got == request.body {
            continue;
        }
        let is_its = |other: &&AloneRequest| other.body == got && other.body != request.body;
        if let Some(other) = alone.iter().find(is_its) {
            let (title, id, other) = (&request.title, &ids[at], &other.title);
            let detail = format!("{title} with id {id}, sent together with others, got the response to {other}");
            return Some((frame, detail));
        }
    }
    None
}

/// Returns the result or the error of a response, as text.
fn body(frame: &LocatedFrame) -> Option<String> {
    let message = frame.json()?;
    Some(message.member("result").or_else(|| message.member("error"))?.as_str().to_owned())
}

/// The maximum length of a response that is compared, in bytes. The responses are held in memory until all of them have
/// arrived.
const MAX_COMPARED_RESPONSE: usize = 256 * 1024;
/// The time that a request has after one that got no response.
const NEXT_PATIENCE: Duration = Duration::from_secs(1);
/// The maximum number of tools that are called at once.
const MAX_TOOLS_AT_ONCE: usize = 2;
