//! The rules of 2026-07-28 for requests, results and notifications.

use std::collections::HashMap;

use barewire_proto::json::{Json, Kind, Text};
use barewire_proto::mcp::{ClientCapability, RequestParams, Revision, Side, code, key};
use barewire_proto::rpc::{Message, Params, Request, Response};

use super::MessageContext;
use super::listens::{self, Listens};
use super::methods::client_has;
use super::pages::Pages;
use crate::check::catalogue::modern::{
    CACHING_HINTS, INPUT_REQUIRED, MODERN_DISCOVER, MODERN_LOGGING, MODERN_META, MODERN_SERVER_REQUESTS, RESULT_TYPE,
    SERVER_INFO, UNKNOWN_RESULT_TYPE, request_of_server, response_of_client,
};
use crate::check::ledger::Ledger;
use crate::operations::{Conversation, Handshake, Relation, member};
use crate::text::shown;

#[derive(Default)]
pub(super) struct ModernChecks {
    conversations: HashMap<String, ModernConversation>,
    /// Whether the server has shown over HTTP, in any exchange, that it speaks the modern era.
    is_modern_over_http: bool,
    /// The cacheScope of the first page of each list.
    scopes: Pages<String>,
}

#[derive(Default)]
struct ModernConversation {
    /// The operation numbers of the requests in flight that have a logLevel.
    with_log_level: Vec<u64>,
    /// Whether the server has shown that it speaks the modern era. A result alone does not show that, because an older
    /// server may serve some modern requests.
    is_modern: bool,
    listens: Listens,
}

impl ModernChecks {
    /// Whether the server of this conversation has shown that it speaks the modern era.
    pub(super) fn is_modern(&self, conversation: &Conversation) -> bool {
        let is_modern = self.conversations.get(&conversation.name).is_some_and(|it| it.is_modern);
        is_modern || conversation.over_http && self.is_modern_over_http
    }

    pub(super) fn message(&mut self, context: &MessageContext<'_>, ledger: &mut Ledger) {
        let tracked = context.tracked;
        let name = &tracked.conversation.name;
        if self.conversations.len() >= MAX_CONVERSATIONS && !self.conversations.contains_key(name) {
            return;
        }
        self.scopes.request(context);
        let conversation = self.conversations.entry(name.clone()).or_default();
        let over_http = tracked.conversation.over_http;
        conversation.is_modern |= over_http && self.is_modern_over_http;
        match (tracked.message, tracked.relation) {
            (Ok(Message::Request(request)), Relation::Request { operation, .. }) => match tracked.sender {
                Side::Client => conversation.request(context, request, operation.number, ledger),
                Side::Server if conversation.is_modern && is_modern_conversation(context) => {
                    let detail = format!("the server sends {} to the client", request.method.to_name());
                    let detail = shown(detail.as_bytes(), 120);
                    let finding = context.finding(&MODERN_SERVER_REQUESTS, 0, detail);
                    context.note(ledger, finding.under(request_of_server(over_http)));
                }
                Side::Server => {}
            },
            (Ok(Message::Notification(notification)), _)
                if tracked.sender == Side::Server && conversation.is_modern && is_modern_conversation(context) =>
            {
                let params = notification.params.map(Params::json);
                conversation.notification(context, &notification.method.to_name(), params, ledger);
            }
            (Ok(Message::Response(response)), Relation::Response { operation, .. }) => {
                conversation.with_log_level.retain(|number| *number != operation.number);
                conversation.listens.end(&response.id);
                if context.is_modern() && tracked.sender == Side::Client {
                    let finding = context.finding(&MODERN_SERVER_REQUESTS, 0, "a modern client sends a response");
                    context.note(ledger, finding.under(response_of_client(over_http)));
                }
                let before = self.scopes.take_before(operation.number);
                if context.is_modern() {
                    conversation.is_modern |= proves_modern(&operation.method, response);
                    if let (Ok(result), true) = (response.outcome, conversation.is_modern) {
                        check_result(context, &operation.method, result, ledger);
                        check_cache_scope(context, &operation.method, result, before, &mut self.scopes, ledger);
                    }
                }
            }
            (Ok(Message::Notification(_)), Relation::Cancellation { operation }) => {
                let ids: Vec<_> = operation.rounds.iter().map(|round| &round.id).collect();
                conversation.with_log_level.retain(|number| *number != operation.number);
                for id in ids {
                    match tracked.sender {
                        Side::Client => conversation.listens.cancel(id),
                        Side::Server => conversation.listens.end(id),
                    }
                }
            }
            _ => {}
        }
        self.is_modern_over_http |= over_http && conversation.is_modern;
    }

    /// Forgets the conversation of an HTTP exchange that has ended.
    pub(super) fn over(&mut self, conversation: &str) {
        self.conversations.remove(conversation);
    }
}

impl ModernConversation {
    fn request(&mut self, context: &MessageContext<'_>, request: &Request<'_>, number: u64, ledger: &mut Ledger) {
        let meta = RequestParams::read(request.params).meta;
        let has_version = meta.protocol_version.is_some();
        let is_modern = has_version || is_modern_conversation(context) && request.method != "initialize";
        if !is_modern {
            return;
        }
        if self.is_modern {
            ledger.inspected(&MODERN_SERVER_REQUESTS);
            ledger.inspected(&MODERN_META);
            ledger.inspected(&MODERN_LOGGING);
        }
        for (name, is_present) in
            [(key::PROTOCOL_VERSION, has_version), (key::CLIENT_CAPABILITIES, meta.client_capabilities.is_some())]
        {
            if !is_present {
                context.fail_in(ledger, &MODERN_META, "/params/_meta", format!("{name} is missing"));
            }
        }
        if meta.log_level.is_some() && self.with_log_level.len() < MAX_CONVERSATIONS {
            self.with_log_level.push(number);
        }
        if request.method == "subscriptions/listen" {
            self.listens.open(&request.id, request.params.map(Params::json));
        }
    }

    fn notification(
        &mut self,
        context: &MessageContext<'_>,
        method: &str,
        params: Option<Json<'_>>,
        ledger: &mut Ledger,
    ) {
        if method == "notifications/message" {
            if self.with_log_level.is_empty() {
                context.fail(ledger, &MODERN_LOGGING, "no request in flight has a logLevel");
            }
            return;
        }
        self.listens.notification(context, method, params, ledger);
    }
}

/// Whether only a modern server would send this response.
fn proves_modern(method: &str, response: &Response<'_>) -> bool {
    match response.outcome {
        Ok(result) => method == "server/discover" || member(Some(result), "resultType").is_some(),
        Err(error) => code::is_modern(error.code),
    }
}

fn check_result(context: &MessageContext<'_>, method: &str, result: Json<'_>, ledger: &mut Ledger) {
    // `initialize` belongs to the legacy era.
    if context.tracked.sender != Side::Server || result.kind() != Kind::Object || method == "initialize" {
        return;
    }
    ledger.inspected(&RESULT_TYPE);
    let kind = member(Some(result), "resultType");
    let text = kind.and_then(Text::from_json).map(Text::to_name);
    if kind.is_none() {
        context.fail_in(ledger, &RESULT_TYPE, "/result", format!("the result of {method} has no resultType"));
    } else if text.is_none() {
        context.fail_in(ledger, &RESULT_TYPE, "/result/resultType", "resultType is not a string");
    }
    check_known_type(context, method, text.as_deref(), ledger);
    let is_complete = text.as_deref().is_none_or(|kind| kind == "complete");
    if is_complete && CACHEABLE.contains(&method) {
        check_caching_hints(context, method, result, ledger);
    }
    if text.as_deref() == Some("input_required") {
        check_input_required(context, method, result, ledger);
    }
    match method {
        "server/discover" => check_discover(context, result, ledger),
        "subscriptions/listen" => listens::check_end(context, result, ledger),
        _ => {}
    }
}

/// Checks that the client can know the type of a result: a type of the specification, or maybe of an extension.
fn check_known_type(context: &MessageContext<'_>, method: &str, kind: Option<&str>, ledger: &mut Ledger) {
    ledger.inspected(&UNKNOWN_RESULT_TYPE);
    // `task-undeclared` judges results with a task.
    let Some(kind) = kind.filter(|kind| !matches!(*kind, "complete" | "input_required" | "task")) else { return };
    let declared = context.request.and_then(|request| request.capabilities.as_deref());
    let declared = declared.and_then(|text| Json::parse(text.as_bytes()).ok()?.member("extensions"));
    if declared.is_none_or(|extensions| extensions.members().next().is_none()) {
        let detail = format!("the result of {method} has the resultType {}", shown(kind.as_bytes(), 40));
        context.fail_in(ledger, &UNKNOWN_RESULT_TYPE, "/result/resultType", detail);
    }
}

fn check_caching_hints(context: &MessageContext<'_>, method: &str, result: Json<'_>, ledger: &mut Ledger) {
    ledger.inspected(&CACHING_HINTS);
    let ttl = member(Some(result), "ttlMs");
    let whole = |ttl: Json<'_>| ttl.to::<f64>().is_ok_and(|ms| ms >= 0.0 && ms.fract() == 0.0);
    let scope = member(Some(result), "cacheScope");
    let fail = |ledger: &mut Ledger, what: &str| {
        context.fail_in(ledger, &CACHING_HINTS, "/result", format!("the result of {method}: {what}"));
    };
    match ttl {
        None => fail(ledger, "ttlMs is missing"),
        Some(ttl) if !whole(ttl) => fail(ledger, "ttlMs is not an integer of at least 0"),
        Some(_) => {}
    }
    let is = |scope, known| Text::from_json(scope).is_some_and(|text| text == known);
    match scope {
        None => fail(ledger, "cacheScope is missing"),
        Some(scope) if is(scope, "public") || is(scope, "private") => {}
        Some(_) => fail(ledger, "cacheScope is neither public nor private"),
    }
}

/// Checks that all pages of a list have the same cacheScope.
fn check_cache_scope(
    context: &MessageContext<'_>,
    method: &str,
    result: Json<'_>,
    before: Option<String>,
    scopes: &mut Pages<String>,
    ledger: &mut Ledger,
) {
    let scope = member(Some(result), "cacheScope").and_then(Text::from_json).map(Text::to_name);
    let Some(scope) = scope.filter(|_| CACHEABLE.contains(&method)) else { return };
    if let Some(first) = &before
        && *first != scope
    {
        let detail =
            format!("a page of {method} has cacheScope {}, the first page has {first}", shown(scope.as_bytes(), 20));
        context.fail_in(ledger, &CACHING_HINTS, "/result/cacheScope", detail);
    }
    let first = before.unwrap_or_else(|| shown(scope.as_bytes(), 20));
    scopes.keep(context, method, result, first);
}

fn check_input_required(context: &MessageContext<'_>, method: &str, result: Json<'_>, ledger: &mut Ledger) {
    ledger.inspected(&INPUT_REQUIRED);
    if !matches!(method, "tools/call" | "prompts/get" | "resources/read") {
        context.fail(ledger, &INPUT_REQUIRED, format!("the result of {method} must not ask for input"));
    }
    let (requests, state) = (member(Some(result), "inputRequests"), member(Some(result), "requestState"));
    if requests.is_none() && state.is_none() {
        context.fail(ledger, &INPUT_REQUIRED, "the result has neither inputRequests nor requestState");
    }
    if requests.is_some_and(|it| it.kind() != Kind::Object) {
        context.fail_in(ledger, &INPUT_REQUIRED, "/result/inputRequests", "inputRequests is not an object");
    }
    if state.is_some_and(|it| it.kind() != Kind::String) {
        context.fail_in(ledger, &INPUT_REQUIRED, "/result/requestState", "requestState is not a string");
    }
    let declared = context.request.and_then(|request| request.capabilities.as_deref());
    for request in requests.into_iter().flat_map(Json::members) {
        let asks = member(Some(request.value), "method").and_then(Text::from_json);
        let asks = asks.map(Text::to_name).unwrap_or_default();
        let needed = match &*asks {
            "elicitation/create" => ClientCapability::Elicitation,
            "sampling/createMessage" => ClientCapability::Sampling,
            "roots/list" => ClientCapability::Roots,
            other => {
                let other = shown(other.as_bytes(), 60);
                context.fail(ledger, &INPUT_REQUIRED, format!("{other} cannot be used to ask for input"));
                continue;
            }
        };
        if !client_has(declared, needed) {
            let detail = format!("the result asks for {asks}, but the request has not declared the capability");
            context.fail(ledger, &INPUT_REQUIRED, detail);
        }
    }
}

fn check_discover(context: &MessageContext<'_>, result: Json<'_>, ledger: &mut Ledger) {
    ledger.inspected(&MODERN_DISCOVER);
    let fail = |ledger: &mut Ledger, what: &str| context.fail_in(ledger, &MODERN_DISCOVER, "/result", what);
    match member(Some(result), "supportedVersions") {
        Some(versions) if versions.kind() == Kind::Array => {
            let requested = context.revision.unwrap_or(Revision::LATEST);
            let has = |it: Json<'_>| Text::from_json(it).is_some_and(|text| text == requested.as_str());
            if !versions.elements().any(has) {
                fail(ledger, "supportedVersions lacks the version of the request");
            }
        }
        Some(_) => fail(ledger, "supportedVersions is not an array"),
        None => fail(ledger, "supportedVersions is missing"),
    }
    match member(Some(result), "capabilities") {
        Some(it) if it.kind() == Kind::Object => {}
        Some(_) => fail(ledger, "capabilities is not an object"),
        None => fail(ledger, "capabilities is missing"),
    }
    ledger.inspected(&SERVER_INFO);
    let info = member(member(Some(result), "_meta"), key::SERVER_INFO);
    let text = |name| member(info, name).is_some_and(|it| it.kind() == Kind::String);
    if info.is_none() {
        context.fail_in(ledger, &SERVER_INFO, "/result/_meta", "serverInfo is missing");
    } else if !text("name") || !text("version") {
        context.fail_in(ledger, &SERVER_INFO, "/result/_meta", "serverInfo lacks a name or a version");
    }
}

/// Whether the conversation has a modern revision and no handshake.
fn is_modern_conversation(context: &MessageContext<'_>) -> bool {
    let conversation = context.tracked.conversation;
    conversation.handshake == Handshake::None && conversation.revision().is_some_and(Revision::is_modern)
}

const CACHEABLE: [&str; 6] =
    ["server/discover", "tools/list", "prompts/list", "resources/list", "resources/templates/list", "resources/read"];

/// The maximum number of conversations that are tracked; more than any host has.
const MAX_CONVERSATIONS: usize = 4096;
