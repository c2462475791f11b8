//! Probes with a missing handshake, a repeated one and unknown versions; and with batches, which depend on the version.

use std::cell::RefCell;
use std::rc::Rc;

use barewire_proto::json::{Json, Kind};
use barewire_proto::mcp::{Era, Revision};
use serde_json::json;

use super::ServerSummary;
use super::connection::ServerConnection;
use super::harness::{Harness, Probe, initialize};
use super::outcome::{RequestOutcome, is_response_to};
use super::recording::LocatedFrame;
use crate::check::catalogue::envelope::BATCH_POLICY;
use crate::check::catalogue::lifecycle::{
    HANDSHAKE, INITIALIZE_MEMBERS, LIFECYCLE_GATE, SECOND_INITIALIZE, VERSION_NEGOTIATION,
};
use crate::check::catalogue::methods::{OMITTED_PARAMS, PING};
use crate::check::excerpt::Fault;
use crate::check::finding::Location;
use crate::text::shown;
use crate::{Advice, Error};

pub(super) fn skip(harness: &Harness) {
    let checks = [&HANDSHAKE, &INITIALIZE_MEMBERS, &LIFECYCLE_GATE, &SECOND_INITIALIZE, &VERSION_NEGOTIATION];
    harness.skip_all(&checks, "the server has no handshake");
    harness.skip_all(&[&OMITTED_PARAMS, &PING], "the server has no handshake");
}

pub(super) fn probes<'a>(harness: &'a Harness, summary: &'a RefCell<ServerSummary>) -> impl Iterator<Item = Probe<'a>> {
    // Over HTTP, a server without sessions cannot know whether the client has sent `initialize`.
    let early = (!harness.is_http()).then(|| harness.side(request_before_handshake(harness)));
    early.into_iter().chain([harness.side(versions(harness, summary))])
}

async fn request_before_handshake(harness: &Harness) -> Result<(), Error> {
    if !harness.wants(&[&LIFECYCLE_GATE]) {
        return Ok(());
    }
    let _subject = harness.progress("a request before the handshake");
    let mut connection = harness.spawn(Era::Legacy, true).await?;
    let outcome = connection.claimed_request_within("tools/list", json!({}), harness.first_patience()).await;
    harness.recording.ledger().inspected(&LIFECYCLE_GATE);
    if !matches!(outcome, RequestOutcome::Error(_)) {
        let detail = format!("tools/list before initialize: expected an error, got {}", outcome.describe());
        harness.fail(&LIFECYCLE_GATE, &connection, Some(&outcome), detail);
    }
    harness.close(connection).await;
    Ok(())
}

/// Opens a connection for an unknown version and for each legacy revision, and also uses it for other probes.
async fn versions(harness: &Harness, summary: &RefCell<ServerSummary>) -> Result<(), Error> {
    if !harness.wants(&[&VERSION_NEGOTIATION, &SECOND_INITIALIZE, &BATCH_POLICY]) {
        return Ok(());
    }
    let legacy: Vec<Revision> = Revision::ALL.into_iter().filter(|it| !it.is_modern()).collect();
    let requested = std::iter::once(UNKNOWN_VERSION).chain(legacy.iter().map(|it| it.as_str()));
    let agreed = RefCell::new(Vec::new());
    let agreed = &agreed;
    let probe = |version| -> Probe<'_> {
        Box::pin(async move {
            if let Some(got) = initialize_with(harness, version).await? {
                agreed.borrow_mut().push((version, got));
            }
            Ok(())
        })
    };
    harness.run_all(requested.map(probe).collect()).await?;
    let mut agreed = agreed.take();
    agreed.sort();
    for (version, got) in &agreed {
        let is_spoken = agreed.iter().any(|(_, other)| other.as_str() == *version);
        if is_spoken && got.as_str() != *version {
            let detail = format!(
                "{version} is answered with {got}, although the server agrees to {version} in another handshake"
            );
            harness.fail_at(&VERSION_NEGOTIATION, Location::default(), detail);
        }
    }
    if !harness.is_late() {
        let spoken = legacy.into_iter().filter(|it| agreed.iter().any(|(_, got)| got == it)).collect();
        summary.borrow_mut().legacy = spoken;
    }
    Ok(())
}

/// Requests a version on a new connection, and returns the revision that the server agrees to.
async fn initialize_with(harness: &Harness, version: &str) -> Result<Option<Revision>, Error> {
    if harness.is_late() {
        return Ok(None);
    }
    let _subject = harness.progress(&format!("initialize with {version}"));
    let mut connection = harness.spawn(Era::Legacy, true).await?;
    let outcome = initialize(&mut connection, version, harness.first_patience()).await;
    let agreed = agreed_revision(harness, &connection, version, &outcome);
    if let Some(got) = agreed {
        connection.revision = got;
        harness.initialized(&mut connection).await;
        if version == UNKNOWN_VERSION && !harness.is_http() {
            second_initialize(harness, &mut connection).await;
        } else if got.as_str() == version {
            batch(harness, &mut connection).await;
        }
    }
    harness.close(connection).await;
    Ok(agreed)
}

/// Judges the response to `initialize`, and returns the agreed revision if it is a legacy revision.
fn agreed_revision(
    harness: &Harness,
    connection: &ServerConnection,
    requested: &str,
    outcome: &RequestOutcome,
) -> Option<Revision> {
    harness.recording.ledger().inspected(&VERSION_NEGOTIATION);
    let detail = match outcome {
        RequestOutcome::Result(result) => {
            // The passive checks report a result without a version.
            let got = result.string(&["protocolVersion"])?;
            match Revision::parse(&got) {
                Some(revision) if !revision.is_modern() => return Some(revision),
                _ if got == requested => format!("the server agrees to {requested}, which is not an MCP revision"),
                _ => {
                    let got = shown(got.as_bytes(), 40);
                    format!("{requested} is answered with {got:?}, which is not a revision with a handshake")
                }
            }
        }
        // The specification allows an error that lists the supported versions.
        outcome if outcome.is_refused() => return None,
        outcome => format!("initialize with {requested}: got {}", outcome.describe()),
    };
    harness.fail(&VERSION_NEGOTIATION, connection, Some(outcome), detail);
    None
}

async fn second_initialize(harness: &Harness, connection: &mut ServerConnection) {
    if !harness.wants(&[&SECOND_INITIALIZE]) {
        return;
    }
    let outcome = initialize(connection, Revision::LATEST_LEGACY.as_str(), harness.patience).await;
    harness.recording.ledger().inspected(&SECOND_INITIALIZE);
    if !matches!(outcome, RequestOutcome::Error(_)) {
        let detail = format!("initialize, sent again: expected an error, got {}", outcome.describe());
        harness.fail(&SECOND_INITIALIZE, connection, Some(&outcome), detail);
    }
}

/// Sends a batch of two pings or similar requests, in revisions that have a rule for batches.
async fn batch(harness: &Harness, connection: &mut ServerConnection) {
    let revision = connection.revision;
    let has_batches = revision == Revision::V2025_03_26;
    // 2024-11-05 has no rule for batches.
    if !harness.wants(&[&BATCH_POLICY]) || revision == Revision::V2024_11_05 {
        return;
    }
    if !harness.may_be_hostile() && !has_batches {
        let why = format!("a batch is hostile input in {revision}");
        harness.skip_forbidden(&BATCH_POLICY, why, Advice::AllowHostile);
        return;
    }
    let ids = [connection.next_id().to_string(), connection.next_id().to_string()];
    let method = connection.liveness_method();
    let request = |id: &String| format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"{method}\"}}");
    for id in &ids {
        connection.claim(id);
    }
    let array = format!("[{},{}]", request(&ids[0]), request(&ids[1]));
    connection.send(format!("{array}\n").as_bytes()).await;
    let sent = connection.last_sent();
    let mut served = 0;
    let mut last = None;
    let (frames, still_answers) = connection.drain_until_liveness(is_last_response(ids.to_vec())).await;
    for frame in frames {
        let count = messages(&frame).filter(|it| is_served(*it, &ids)).count();
        if count > 0 {
            served += count;
            last = Some(frame);
        }
    }
    harness.recording.ledger().inspected(&BATCH_POLICY);
    let detail = match (has_batches, served) {
        _ if !still_answers => format!("after a batch in {revision} the server stops answering"),
        (true, 0 | 1) => format!("{served} of 2 requests of a batch are served in {revision}, which has batches"),
        (false, 1..) => format!("a batch is served in {revision}, which has no batches"),
        _ => return,
    };
    match last {
        Some(frame) => {
            let frame = LocatedFrame { request: sent.map(Rc::new), ..frame };
            harness.fail_frame(&BATCH_POLICY, &frame, Fault::Whole, detail);
        }
        None => harness.fail_missing(&BATCH_POLICY, connection, sent, detail),
    }
}

/// Returns a function that is called with each frame, and returns `true` after every request of the batch, or the batch
/// as a whole, is answered.
fn is_last_response(mut unanswered: Vec<String>) -> impl FnMut(&LocatedFrame) -> bool {
    move |frame| {
        for message in messages(frame) {
            let is_null = message.member("id").is_none_or(|id| id.kind() == Kind::Null);
            let is_refusal = is_null && message.member("error").is_some();
            unanswered.retain(|id| !is_refusal && !is_response_to(message, id));
        }
        unanswered.is_empty()
    }
}

/// Returns the elements of a batch, or the only message of a frame.
fn messages(frame: &LocatedFrame) -> impl Iterator<Item = Json<'_>> {
    let json = frame.json();
    let (batch, message) = (json, json.filter(|it| it.kind() != Kind::Array));
    batch.into_iter().flat_map(Json::elements).chain(message)
}

/// Whether a message is the response to one request of the batch, and not a refusal of the whole batch.
fn is_served(response: Json<'_>, ids: &[String]) -> bool {
    let code = response.at(&["error", "code"]).and_then(Json::integer);
    let refused = matches!(code, Some(-32700 | -32600));
    ids.iter().any(|id| is_response_to(response, id)) && !refused
}

/// A version that no server speaks.
const UNKNOWN_VERSION: &str = "1900-01-01";
