//! `initialize` and requests as hosts write them -> whether the server takes them like ours: members that a server need
//! not know, and no params where none are required.

use barewire_proto::mcp::{Era, Revision};
use serde_json::json;

use super::connection::ServerConnection;
use super::eras::EraFacts;
use super::harness::{Harness, initialize, initialize_params};
use super::ordinary::LISTS;
use super::outcome::{RequestOutcome, ResultResponse};
use crate::Error;
use crate::check::catalogue::Check;
use crate::check::catalogue::lifecycle::INITIALIZE_MEMBERS;
use crate::check::catalogue::methods::OMITTED_PARAMS;

/// Performs a handshake with further members and requests lists, without params. What happens once may be chance.
pub(super) async fn probe(harness: &Harness, facts: EraFacts) -> Result<(), Error> {
    let checks: &[&'static Check] = &[&INITIALIZE_MEMBERS, &OMITTED_PARAMS];
    if !harness.wants(checks) {
        return Ok(());
    }
    let _subject = harness.progress("requests as hosts write them");
    let mut refused = None;
    for _ in 0..2 {
        let (connection, outcome) = full_handshake(harness).await?;
        harness.recording.ledger().inspected(&INITIALIZE_MEMBERS);
        if is_result(&outcome) {
            return match is_served(harness, connection, &facts).await {
                true => Ok(()),
                false => without_params(harness, &facts).await,
            };
        }
        harness.close(connection).await;
        refused = Some(outcome);
    }
    // On a busy machine, an ordinary handshake may be late too.
    let Some(connection) = bare_handshake(harness).await? else {
        harness.not_restarted(checks);
        return Ok(());
    };
    if let Some(outcome) = refused.filter(|_| !harness.is_late()) {
        let detail = format!("initialize with {FURTHER_MEMBERS}: expected a result, got {}", outcome.describe());
        harness.fail(&INITIALIZE_MEMBERS, &connection, Some(&outcome), detail);
    }
    match is_served(harness, connection, &facts).await {
        true => Ok(()),
        false => without_params(harness, &facts).await,
    }
}

/// Sends `initialize` with members that hosts send, and completes the handshake without params.
async fn full_handshake(harness: &Harness) -> Result<(ServerConnection, RequestOutcome), Error> {
    let mut connection = harness.spawn(Era::Legacy, true).await?;
    let revision = harness.handshake_revision.get();
    let mut params = initialize_params(revision.as_str());
    // Any client can have further capabilities, in every revision.
    params["capabilities"] = json!({"experimental": {"com.example/check": {}}, "com.example/check": {}});
    if revision >= Revision::V2025_06_18 {
        params["clientInfo"]["title"] = json!("barewire check");
    }
    let outcome = connection.claimed_request_within("initialize", params, harness.first_patience()).await;
    if let RequestOutcome::Result(result) = &outcome {
        bare_initialized(harness, &mut connection, result).await;
    }
    Ok((connection, outcome))
}

/// Performs an ordinary handshake, but for the params of its notification.
async fn bare_handshake(harness: &Harness) -> Result<Option<ServerConnection>, Error> {
    let mut connection = harness.spawn(Era::Legacy, true).await?;
    let revision = harness.handshake_revision.get();
    let outcome = initialize(&mut connection, revision.as_str(), harness.first_patience()).await;
    let RequestOutcome::Result(result) = &outcome else {
        harness.close(connection).await;
        return Ok(None);
    };
    bare_initialized(harness, &mut connection, result).await;
    Ok(Some(connection))
}

async fn bare_initialized(harness: &Harness, connection: &mut ServerConnection, result: &ResultResponse) {
    if let Some(revision) = result.string(&["protocolVersion"]).and_then(|it| Revision::parse(&it)) {
        connection.revision = revision;
    }
    connection.send_json(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await;
    harness.expect_accepted(connection).await;
}

/// Returns the requests that need no params.
fn methods(connection: &ServerConnection, facts: &EraFacts) -> Vec<&'static str> {
    let light = connection.liveness_method();
    let lists = LISTS.iter().filter(|(capability, method)| *method != light && facts.declares(capability));
    std::iter::once(light).chain(lists.map(|(_, method)| *method)).collect()
}

/// Sends requests without params, and closes the connection. Returns whether all of them got results.
async fn is_served(harness: &Harness, mut connection: ServerConnection, facts: &EraFacts) -> bool {
    let mut is_served = true;
    for method in methods(&connection, facts) {
        is_served = is_result(&connection.bare_request(method).await);
        if !is_served {
            break;
        }
        harness.recording.ledger().inspected(&OMITTED_PARAMS);
    }
    harness.close(connection).await;
    is_served
}

/// Finds the message that the server does not take without params, although it takes it with empty ones.
async fn without_params(harness: &Harness, facts: &EraFacts) -> Result<(), Error> {
    let checks: &[&'static Check] = &[&OMITTED_PARAMS];
    let Some(mut connection) = harness.connect(Era::Legacy, true).await? else {
        harness.not_restarted(checks);
        return Ok(());
    };
    for method in methods(&connection, facts) {
        let outcome = connection.bare_request(method).await;
        if is_result(&outcome) {
            continue;
        }
        harness.close(connection).await;
        let Some(mut other) = harness.connect(Era::Legacy, true).await? else {
            harness.not_restarted(checks);
            return Ok(());
        };
        let with = other.claimed_request(method, json!({})).await;
        if is_result(&with) && !harness.is_late() {
            let got = outcome.describe();
            let detail =
                format!("{method} without params: expected the result that it gets with empty ones, got {got}");
            harness.fail(&OMITTED_PARAMS, &other, Some(&outcome), detail);
        }
        harness.close(other).await;
        return Ok(());
    }
    harness.close(connection).await;
    // Only the notification is left.
    let Some(mut connection) = bare_handshake(harness).await? else { return Ok(()) };
    for method in methods(&connection, facts) {
        let outcome = connection.claimed_request(method, json!({})).await;
        if !is_result(&outcome) && !harness.is_late() {
            let got = outcome.describe();
            let detail =
                format!("{method} after notifications/initialized without params: expected a result, got {got}");
            harness.fail(&OMITTED_PARAMS, &connection, Some(&outcome), detail);
            break;
        }
    }
    harness.close(connection).await;
    Ok(())
}

fn is_result(outcome: &RequestOutcome) -> bool {
    matches!(outcome, RequestOutcome::Result(_))
}

/// The members of `initialize` that the probe adds, as reports name them.
const FURTHER_MEMBERS: &str = "clientInfo.title and further capabilities";
