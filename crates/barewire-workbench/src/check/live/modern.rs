//! What only the modern era has: versions and metadata with each request, methods that are gone, listens.

use barewire_proto::mcp::{Revision, key};
use serde_json::{Value, json};

use super::answer::{Answer, is_answer};
use super::lab::{Lab, ask};
use super::ordinary::Bench;
use super::talk::Talk;
use crate::Error;
use crate::check::catalogue::modern::{
    CACHING_HINTS, INPUT_REQUIRED, LISTEN_ACKNOWLEDGED, MODERN_DISCOVER, MODERN_LOGGING, MODERN_META,
    MODERN_REMOVED_METHODS, MODERN_SERVER_REQUESTS, MODERN_VERSION, RESULT_TYPE, SERVER_INFO,
};

pub(super) fn skip(lab: &Lab) {
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
        lab.tape.withdraw(check);
    }
    lab.nothing(&checks, "the server does not speak 2026-07-28");
}

pub(super) async fn run(bench: &mut Bench<'_>) -> Result<(), Error> {
    bench.lab.progress("the modern era");
    version(bench).await;
    metadata(bench).await;
    removed(bench).await;
    listen(bench).await;
    Ok(())
}

/// A request with this metadata and no other.
async fn with_meta(talk: &mut Talk, method: &str, meta: Value) -> Answer {
    let id = talk.next_id();
    let request = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": {"_meta": meta}});
    talk.claim(&id.to_string());
    talk.send_json(&request).await;
    talk.answer(&id.to_string()).await
}

/// The method that every modern server has, or the one that this one has.
fn light(bench: &Bench<'_>) -> &'static str {
    if bench.surface.discovers { "server/discover" } else { "tools/list" }
}

async fn version(bench: &mut Bench<'_>) {
    if !bench.lab.wants(&[&MODERN_VERSION]) {
        return;
    }
    let meta = json!({key::PROTOCOL_VERSION: UNKNOWN, key::CLIENT_CAPABILITIES: {}});
    let method = light(bench);
    let answer = with_meta(&mut bench.talk, method, meta).await;
    let (lab, talk) = (&*bench.lab, &bench.talk);
    lab.expect_code(&MODERN_VERSION, talk, "a version that does not exist", &answer, &[-32022]);
    let Answer::Error(failed) = &answer else { return };
    if failed.code != -32022 {
        return;
    }
    let data = &failed.error["data"];
    let lists = data["supported"].as_array().is_some_and(|it| !it.is_empty() && it.iter().all(Value::is_string));
    if !lists {
        lab.fail(&MODERN_VERSION, talk, Some(&answer), "data.supported is no list of versions");
    } else if data["requested"] != json!(UNKNOWN) {
        lab.fail(&MODERN_VERSION, talk, Some(&answer), "data.requested is not the version that was asked for");
    }
}

async fn metadata(bench: &mut Bench<'_>) {
    if !bench.lab.wants(&[&MODERN_META]) {
        return;
    }
    let version = json!(Revision::LATEST);
    let method = light(bench);
    let without = [
        ("a request without protocolVersion", json!({key::CLIENT_CAPABILITIES: {}})),
        ("a request without clientCapabilities", json!({key::PROTOCOL_VERSION: version})),
    ];
    // Over HTTP the version is in a header as well: that the two are not the same may be seen first.
    let codes: &[i64] = if bench.lab.is_http() { &[-32602, -32020] } else { &[-32602] };
    for (what, meta) in without {
        let answer = with_meta(&mut bench.talk, method, meta).await;
        bench.lab.expect_code(&MODERN_META, &bench.talk, what, &answer, codes);
    }
    let meta = json!({key::PROTOCOL_VERSION: version, key::CLIENT_CAPABILITIES: {}});
    let answer = with_meta(&mut bench.talk, method, meta).await;
    bench.lab.expect_result(&MODERN_META, &bench.talk, "a request without clientInfo", &answer);
}

async fn removed(bench: &mut Bench<'_>) {
    if !bench.lab.wants(&[&MODERN_REMOVED_METHODS]) {
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
        if method == "initialize" && bench.lab.has_handshake {
            continue;
        }
        let answer = ask(&mut bench.talk, method, params).await;
        // How it is refused is left open, so that the error can name versions.
        let codes: &[i64] = match (&answer, method) {
            (Answer::Error(failed), "initialize") => &[failed.code],
            _ => &[-32601],
        };
        bench.lab.expect_code(&MODERN_REMOVED_METHODS, &bench.talk, method, &answer, codes);
    }
}

/// Listens to what the server says that it tells, and looks at the first message.
async fn listen(bench: &mut Bench<'_>) {
    if !bench.lab.wants(&[&LISTEN_ACKNOWLEDGED]) {
        return;
    }
    let filters =
        [("tools", "toolsListChanged"), ("prompts", "promptsListChanged"), ("resources", "resourcesListChanged")];
    let told = filters.iter().find(|(name, _)| bench.surface.capabilities[*name]["listChanged"] == json!(true));
    let Some((_, filter)) = told else {
        bench.lab.nothing(&[&LISTEN_ACKNOWLEDGED], "the server declares no listChanged");
        return;
    };
    let (lab, talk) = (&*bench.lab, &mut bench.talk);
    let id = talk.begin("subscriptions/listen", json!({"notifications": {*filter: true}})).await;
    talk.claim(&id);
    let deadline = talk.deadline_for_answer();
    lab.tape.look(&LISTEN_ACKNOWLEDGED);
    loop {
        let Some(line) = talk.next(deadline).await else {
            lab.fail(&LISTEN_ACKNOWLEDGED, talk, None, "no acknowledgement comes");
            break;
        };
        let value: Value = serde_json::from_slice(&line.bytes).unwrap_or_default();
        if value["method"] == json!("notifications/subscriptions/acknowledged") {
            break;
        }
        if is_answer(&value, &id) {
            lab.fail_at(
                &LISTEN_ACKNOWLEDGED,
                line.location,
                &line.bytes,
                "an answer comes in place of an acknowledgement",
            );
            return;
        }
    }
    talk.give_up(&id).await;
    talk.goes_on().await;
}

/// No server will ever be of this version.
const UNKNOWN: &str = "v999.0.0";
