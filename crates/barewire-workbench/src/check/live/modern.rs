//! What only the modern era has: versions and metadata with each request, methods that are gone, listens.

use barewire_proto::mcp::{Revision, key};
use serde_json::{Value, json};

use super::connection::ServerConnection;
use super::harness::{Harness, ask};
use super::ordinary::ServerProbe;
use super::outcome::{RequestOutcome, is_answer};
use crate::Error;
use crate::check::catalogue::modern::{
    CACHING_HINTS, INPUT_REQUIRED, LISTEN_ACKNOWLEDGED, MODERN_DISCOVER, MODERN_LOGGING, MODERN_META,
    MODERN_REMOVED_METHODS, MODERN_SERVER_REQUESTS, MODERN_VERSION, RESULT_TYPE, SERVER_INFO,
};

pub(super) fn skip(harness: &Harness) {
    let checks = [
        &MODERN_DISCOVER,
        &MODERN_VERSION,
        &MODERN_META,
        &MODERN_REMOVED_METHODS,
        &MODERN_SERVER_REQUESTS,
        &RESULT_TYPE,
        &CACHING_HINTS,
        &SERVER_INFO,
        &MODERN_LOGGING,
        &LISTEN_ACKNOWLEDGED,
        &INPUT_REQUIRED,
    ];
    for check in checks {
        // It was asked in this era to find out whether it has it. Whatever it answered, it is no server of this era.
        harness.recording.withdraw(check);
    }
    harness.skip_all(&checks, "the server does not speak 2026-07-28");
}

pub(super) async fn run(probe: &mut ServerProbe<'_>) -> Result<(), Error> {
    probe.harness.progress("the modern era");
    version(probe).await;
    metadata(probe).await;
    removed(probe).await;
    listen(probe).await;
    Ok(())
}

/// A request with this metadata and no other.
async fn with_meta(connection: &mut ServerConnection, method: &str, meta: Value) -> RequestOutcome {
    let id = connection.next_id();
    let request = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": {"_meta": meta}});
    connection.claim(&id.to_string());
    connection.send_json(&request).await;
    connection.wait_for_response(&id.to_string()).await
}

/// The method that every modern server has, or the one that this one has.
fn light(probe: &ServerProbe<'_>) -> &'static str {
    if probe.facts.discovers { "server/discover" } else { "tools/list" }
}

async fn version(probe: &mut ServerProbe<'_>) {
    if !probe.harness.wants(&[&MODERN_VERSION]) {
        return;
    }
    let meta = json!({key::PROTOCOL_VERSION: UNKNOWN, key::CLIENT_CAPABILITIES: {}});
    let method = light(probe);
    let answer = with_meta(&mut probe.connection, method, meta).await;
    let (harness, connection) = (&*probe.harness, &probe.connection);
    harness.expect_code(&MODERN_VERSION, connection, "a version that does not exist", &answer, &[-32022]);
    let RequestOutcome::Error(response) = &answer else { return };
    if response.code != -32022 {
        return;
    }
    let data = &response.error["data"];
    let lists = data["supported"].as_array().is_some_and(|it| !it.is_empty() && it.iter().all(Value::is_string));
    if !lists {
        harness.fail(&MODERN_VERSION, connection, Some(&answer), "data.supported is no list of versions");
    } else if data["requested"] != json!(UNKNOWN) {
        harness.fail(
            &MODERN_VERSION,
            connection,
            Some(&answer),
            "data.requested is not the version that was asked for",
        );
    }
}

async fn metadata(probe: &mut ServerProbe<'_>) {
    if !probe.harness.wants(&[&MODERN_META]) {
        return;
    }
    let version = json!(Revision::LATEST);
    let method = light(probe);
    let without = [
        ("a request without protocolVersion", json!({key::CLIENT_CAPABILITIES: {}})),
        ("a request without clientCapabilities", json!({key::PROTOCOL_VERSION: version})),
    ];
    // Over HTTP the version is in a header as well: that the two are not the same may be seen first.
    let codes: &[i64] = if probe.harness.is_http() { &[-32602, -32020] } else { &[-32602] };
    for (what, meta) in without {
        let answer = with_meta(&mut probe.connection, method, meta).await;
        probe.harness.expect_code(&MODERN_META, &probe.connection, what, &answer, codes);
    }
    let meta = json!({key::PROTOCOL_VERSION: version, key::CLIENT_CAPABILITIES: {}});
    let answer = with_meta(&mut probe.connection, method, meta).await;
    probe.harness.expect_result(&MODERN_META, &probe.connection, "a request without clientInfo", &answer);
}

async fn removed(probe: &mut ServerProbe<'_>) {
    if !probe.harness.wants(&[&MODERN_REMOVED_METHODS]) {
        return;
    }
    let info = json!({"name": "barewire", "version": "1"});
    let initialize = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info});
    for (method, params) in [
        ("initialize", initialize),
        ("ping", json!({})),
        ("logging/setLevel", json!({"level": "error"})),
        ("resources/subscribe", json!({"uri": "barewire-check://no/such/resource"})),
    ] {
        // A server of both eras may take it for the beginning of the other.
        if method == "initialize" && probe.harness.has_handshake {
            continue;
        }
        let answer = ask(&mut probe.connection, method, params).await;
        // How it is refused is left open, so that the error can name versions.
        let codes: &[i64] = match (&answer, method) {
            (RequestOutcome::Error(response), "initialize") => &[response.code],
            _ => &[-32601],
        };
        probe.harness.expect_code(&MODERN_REMOVED_METHODS, &probe.connection, method, &answer, codes);
    }
}

/// Listens to what the server says that it tells, and looks at the first message.
async fn listen(probe: &mut ServerProbe<'_>) {
    if !probe.harness.wants(&[&LISTEN_ACKNOWLEDGED]) {
        return;
    }
    let filters =
        [("tools", "toolsListChanged"), ("prompts", "promptsListChanged"), ("resources", "resourcesListChanged")];
    let told = filters.iter().find(|(name, _)| probe.facts.capabilities[*name]["listChanged"] == json!(true));
    let Some((_, filter)) = told else {
        probe.harness.skip_all(&[&LISTEN_ACKNOWLEDGED], "the server declares no listChanged");
        return;
    };
    let (harness, connection) = (&*probe.harness, &mut probe.connection);
    let id = connection.send_request("subscriptions/listen", json!({"notifications": {*filter: true}})).await;
    connection.claim(&id);
    let deadline = connection.deadline_for_answer();
    harness.recording.inspected(&LISTEN_ACKNOWLEDGED);
    loop {
        let Some(line) = connection.next_frame(deadline).await else {
            harness.fail(&LISTEN_ACKNOWLEDGED, connection, None, "no acknowledgement comes");
            break;
        };
        let value: Value = serde_json::from_slice(&line.bytes).unwrap_or_default();
        if value["method"] == json!("notifications/subscriptions/acknowledged") {
            break;
        }
        if is_answer(&value, &id) {
            harness.fail_at(
                &LISTEN_ACKNOWLEDGED,
                line.location,
                &line.bytes,
                "an answer comes in place of an acknowledgement",
            );
            return;
        }
    }
    connection.cancel_request(&id).await;
    connection.still_answers().await;
}

/// No server will ever be of this version.
const UNKNOWN: &str = "v999.0.0";
