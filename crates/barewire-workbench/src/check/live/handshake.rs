//! The handshake in all its variants: too late, too often, in versions that are not there; and arrays, which depend on it.

use barewire_proto::mcp::{Era, Revision};
use serde_json::json;

use super::ServerSummary;
use super::connection::ServerConnection;
use super::harness::{Harness, initialize};
use super::outcome::{RequestOutcome, is_answer};
use crate::check::catalogue::Check;
use crate::check::catalogue::envelope::BATCH_POLICY;
use crate::check::catalogue::lifecycle::{HANDSHAKE, LIFECYCLE_GATE, SECOND_INITIALIZE, VERSION_NEGOTIATION};
use crate::check::catalogue::methods::PING;
use crate::check::ledger::{Reason, SkipReason};
use crate::{Advice, Error};

/// What needs a handshake.
const NEEDED: &[&Check] = &[&HANDSHAKE, &LIFECYCLE_GATE, &SECOND_INITIALIZE, &VERSION_NEGOTIATION, &PING];

pub(super) fn skip(harness: &Harness) {
    for check in NEEDED {
        let check = crate::check::catalogue::find(check.id).expect("it is in the catalogue");
        harness.skip_all(&[check], "the server has no handshake");
    }
}

pub(super) async fn run(harness: &mut Harness, about: &mut ServerSummary) -> Result<(), Error> {
    // Over HTTP a server may do without sessions, and then every request stands for itself.
    if !harness.is_http() {
        gate(harness).await?;
    }
    versions(harness, about).await
}

/// A request before the handshake.
async fn gate(harness: &mut Harness) -> Result<(), Error> {
    if !harness.wants(&[&LIFECYCLE_GATE]) {
        return Ok(());
    }
    harness.progress("the time before the handshake");
    let mut connection = harness.spawn(Era::Legacy, true)?;
    let id = connection.send_request("tools/list", json!({})).await;
    connection.claim(&id);
    let answer = connection.wait_for_response_within(&id, harness.first_patience()).await;
    harness.recording.inspected(&LIFECYCLE_GATE);
    if !matches!(answer, RequestOutcome::Error(_)) {
        let detail = format!("tools/list before initialize is answered with {}", answer.describe());
        harness.fail(&LIFECYCLE_GATE, &connection, Some(&answer), detail);
    }
    harness.close(connection).await;
    Ok(())
}

/// One connection for each version that can be asked for, and what else can be tried on it.
async fn versions(harness: &mut Harness, about: &mut ServerSummary) -> Result<(), Error> {
    let checks: &[&Check] = &[&VERSION_NEGOTIATION, &SECOND_INITIALIZE, &BATCH_POLICY];
    if !harness.wants(checks) {
        return Ok(());
    }
    let legacy: Vec<Revision> = Revision::ALL.into_iter().filter(|it| !it.is_modern()).collect();
    let asked = std::iter::once(UNKNOWN).chain(legacy.iter().map(|it| it.as_str()));
    let mut agreed = Vec::new();
    for version in asked {
        if harness.is_late() {
            return Ok(());
        }
        harness.progress(&format!("initialize with {version}"));
        let mut connection = harness.spawn(Era::Legacy, true)?;
        let answer = initialize(&mut connection, version, harness.first_patience()).await;
        let got = judge(harness, &connection, version, &answer);
        if let Some(got) = got {
            agreed.push((version, got));
            connection.revision = got;
            connection.initialized().await;
            if version == UNKNOWN && !harness.is_http() {
                second(harness, &mut connection).await;
            } else if got.as_str() == version {
                batch(harness, &mut connection).await;
            }
        }
        harness.close(connection).await;
    }
    for (version, got) in &agreed {
        let is_spoken = agreed.iter().any(|(_, other)| other.as_str() == *version);
        if is_spoken && got.as_str() != *version {
            let detail = format!("{version} is answered with {got}, though the server agrees to {version} elsewhere");
            let location = crate::check::finding::Location::default();
            harness.fail_at(&VERSION_NEGOTIATION, location, b"", detail);
        }
    }
    about.legacy = legacy.into_iter().filter(|it| agreed.iter().any(|(_, got)| got == it)).collect();
    Ok(())
}

/// The revision that was agreed on, if it is one.
fn judge(harness: &Harness, connection: &ServerConnection, asked: &str, answer: &RequestOutcome) -> Option<Revision> {
    harness.recording.inspected(&VERSION_NEGOTIATION);
    let fail = |detail: String| harness.fail(&VERSION_NEGOTIATION, connection, Some(answer), detail);
    match answer {
        RequestOutcome::Result(_, result) => {
            // That it is not there is told by the passive checks.
            let got = result["protocolVersion"].as_str()?;
            match Revision::parse(got) {
                Some(revision) if !revision.is_modern() => return Some(revision),
                _ if got == asked => fail(format!("{asked} is agreed to, which is no revision of MCP")),
                _ => {
                    let got = crate::text::shown(got.as_bytes(), 40);
                    fail(format!("{asked} is answered with {got:?}, which is no revision with a handshake"));
                }
            }
        }
        // To name what there is in an error is what the specification shows as an example.
        RequestOutcome::Error(_) => {}
        answer if answer.is_refused() => {}
        answer => fail(format!("initialize with {asked} is answered with {}", answer.describe())),
    }
    None
}

async fn second(harness: &mut Harness, connection: &mut ServerConnection) {
    if !harness.wants(&[&SECOND_INITIALIZE]) {
        return;
    }
    let answer = initialize(connection, Revision::LATEST_LEGACY.as_str(), harness.patience).await;
    harness.recording.inspected(&SECOND_INITIALIZE);
    if !matches!(answer, RequestOutcome::Error(_)) && !harness.skip_if_exited(&SECOND_INITIALIZE, connection) {
        let detail = format!("initialize, sent again, is answered with {}", answer.describe());
        harness.fail(&SECOND_INITIALIZE, connection, Some(&answer), detail);
    }
}

/// An array of two light requests, in revisions that say something about it.
async fn batch(harness: &mut Harness, connection: &mut ServerConnection) {
    let revision = connection.revision;
    // 2024-11-05 is silent about them.
    if !harness.wants(&[&BATCH_POLICY]) || revision == Revision::V2024_11_05 {
        return;
    }
    if !harness.may_be_hostile() && revision != Revision::V2025_03_26 {
        let why = Reason::new(format!("an array is hostile in {revision}"), Advice::AllowHostile);
        harness.recording.skip(&BATCH_POLICY, SkipReason::Permission(why));
        return;
    }
    let ids = [connection.next_id().to_string(), connection.next_id().to_string()];
    let light = connection.liveness_method();
    let ping = |id: &String| format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"{light}\"}}");
    for id in &ids {
        connection.claim(id);
    }
    let array = format!("[{},{}]", ping(&ids[0]), ping(&ids[1]));
    connection.send(format!("{array}\n").as_bytes()).await;
    let sent = connection.location();
    let mut results = 0;
    let mut last = None;
    let (frames, still_answers) = connection.drain_until_liveness().await;
    for line in frames {
        let value: serde_json::Value = serde_json::from_slice(&line.bytes).unwrap_or_default();
        let answers = value.as_array().cloned().unwrap_or_else(|| vec![value]);
        let count = answers.iter().filter(|it| is_served(it, &ids)).count();
        if count > 0 {
            results += count;
            last = Some(line);
        }
    }
    harness.recording.inspected(&BATCH_POLICY);
    if !still_answers && harness.skip_if_exited(&BATCH_POLICY, connection) {
        return;
    }
    let detail = match (revision == Revision::V2025_03_26, results) {
        _ if !still_answers => format!("after an array of messages in {revision} the server does not go on"),
        (true, 0 | 1) => format!("of two requests in an array in {revision}, {results} are served"),
        (false, 1..) => format!("an array of messages is served in {revision}, which has none"),
        _ => return,
    };
    match last {
        Some(line) => harness.fail_at(&BATCH_POLICY, line.location, &line.bytes, detail),
        None => harness.fail_missing(&BATCH_POLICY, sent, array.as_bytes(), detail),
    }
}

/// An answer to one of the requests, and not to the array around it.
fn is_served(answer: &serde_json::Value, ids: &[String]) -> bool {
    let refused = matches!(answer["error"]["code"].as_i64(), Some(-32700 | -32600));
    ids.iter().any(|id| is_answer(answer, id)) && !refused
}

/// No server was ever of this version.
const UNKNOWN: &str = "1900-01-01";
