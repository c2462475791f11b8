//! Requests of modern clients: each has its own metadata, and the probe keeps nothing between them.

use std::time::Instant;

use barewire_proto::json::Json;
use barewire_proto::mcp::{ClientCapabilities, ClientCapability, RequestParams, Revision, code, key};
use barewire_proto::rpc::Request;
use serde_json::{Value, json};

use super::answers::{Answer, Failure};
use super::server::{EXIT_AFTER, ProbeServer, Timer, message};
use super::tools::{SlowCall, quick, text};
use super::{lists, rounds};
use crate::check::Scenario;
use crate::check::host::UNKNOWN_REVISION;

pub(super) fn request(
    server: &mut ProbeServer,
    request: &Request<'_>,
    method: &str,
    params: &RequestParams<'_>,
    exchange: u64,
    now: Instant,
) {
    let answer = match check(server.scenario, params) {
        Ok(capabilities) => serve(server, request, method, params, &capabilities, exchange, now),
        Err(failure) => Err(failure),
    };
    let is_cacheable = matches!(method, "server/discover" | "resources/read") || method.ends_with("/list");
    let answer = answer.map(|answer| match answer {
        Answer::Result(result) => Answer::Result(decorated(result, is_cacheable)),
        Answer::Cut(result) => Answer::Cut(decorated(result, is_cacheable)),
        Answer::Text(text) => Answer::Text(format!("{},{}", opened(is_cacheable), &text[1..])),
        Answer::Later => Answer::Later,
    });
    server.reply(request, answer, exchange, now);
}

/// Checks the metadata of a request. Returns the capabilities of the client.
fn check(scenario: Scenario, params: &RequestParams<'_>) -> Result<ClientCapabilities, Failure> {
    let supported = match scenario {
        Scenario::Everything => Revision::LATEST.as_str(),
        Scenario::UnknownRevision => UNKNOWN_REVISION,
        // A server of the legacy era does not know the method, or not the metadata.
        Scenario::Legacy | Scenario::OldestRevision => return Err(Failure::unknown_method()),
    };
    let Some(version) = params.meta.protocol_version else {
        return Err(Failure::invalid_params("the metadata has no protocolVersion"));
    };
    let version = version.string().unwrap_or_default();
    if version != supported {
        let data = json!({"supported": [supported], "requested": version});
        return Err(Failure::new(code::UNSUPPORTED_PROTOCOL_VERSION, "Unsupported protocol version", data));
    }
    let capabilities = params.meta.client_capabilities.and_then(|it| it.to().ok());
    capabilities.ok_or_else(|| Failure::invalid_params("the metadata has no clientCapabilities"))
}

fn serve(
    server: &mut ProbeServer,
    request: &Request<'_>,
    method: &str,
    params: &RequestParams<'_>,
    capabilities: &ClientCapabilities,
    exchange: u64,
    now: Instant,
) -> Result<Answer, Failure> {
    match method {
        "server/discover" => {
            let mut versions: Vec<&str> = Revision::ALL.iter().map(|revision| revision.as_str()).collect();
            versions.reverse();
            Ok(Answer::Result(json!({
                "supportedVersions": versions,
                "capabilities": lists::capabilities(Revision::LATEST),
                "instructions": "This server tests the host that uses it: call each tool once.",
                "barewireUnknown": [null],
            })))
        }
        "subscriptions/listen" => {
            listen(server, request, exchange, now);
            Ok(Answer::Later)
        }
        "tools/call" => match &*params.name.and_then(Json::string).unwrap_or_default() {
            "slow" => {
                let call = SlowCall::new(request, params, exchange, true);
                server.later(now, Timer::Slow(call));
                Ok(Answer::Later)
            }
            "ask" => rounds::next(params, |capability: ClientCapability| capabilities.has(capability)),
            "exit" => {
                server.later(now + EXIT_AFTER, Timer::Exit);
                Ok(Answer::Result(text("The server ends now.")))
            }
            name => quick(name),
        },
        "initialize" | "ping" | "logging/setLevel" | "resources/subscribe" | "resources/unsubscribe" => {
            Err(Failure::unknown_method())
        }
        _ => lists::serve(method, params, server.has_changed, true),
    }
}

/// Acknowledges a subscription, and announces a change in it.
fn listen(server: &mut ProbeServer, request: &Request<'_>, exchange: u64, now: Instant) {
    let wanted = request.params.and_then(|params| params.json().member("notifications"));
    let wants_tools = wanted.and_then(|it| it.member("toolsListChanged")).is_some_and(|it| it.as_str() == "true");
    let id: Value = serde_json::from_str(request.id.as_str()).unwrap_or_default();
    let notifications = if wants_tools { json!({"toolsListChanged": true}) } else { json!({}) };
    let params = json!({"_meta": {key::SUBSCRIPTION_ID: id}, "notifications": notifications});
    let acknowledged = json!({"method": "notifications/subscriptions/acknowledged", "params": params});
    server.send(message(&acknowledged), exchange);
    if wants_tools {
        let subscription = Some(request.id.as_str().to_owned());
        server.later(now + ANNOUNCE_AFTER, Timer::AnnounceChange { exchange, subscription });
    }
}

/// Adds the members of every modern result, for a result that cannot be cached.
pub(super) fn complete(result: Value) -> Value {
    decorated(result, false)
}

fn decorated(mut result: Value, is_cacheable: bool) -> Value {
    if result.get("resultType").is_none() {
        result["resultType"] = json!("complete");
    }
    result["_meta"] = json!({key::SERVER_INFO: lists::server_info()});
    if is_cacheable {
        result["ttlMs"] = json!(0);
        result["cacheScope"] = json!("private");
    }
    result
}

/// Returns the beginning of a result that is written as text.
fn opened(is_cacheable: bool) -> String {
    let text = decorated(json!({}), is_cacheable).to_string();
    text[..text.len() - 1].to_owned()
}

/// The time from a subscription to the announcement of a change.
const ANNOUNCE_AFTER: std::time::Duration = std::time::Duration::from_millis(500);
