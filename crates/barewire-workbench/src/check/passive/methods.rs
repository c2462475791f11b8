//! Methods and codes -> whether they may be used here: by this side, in this revision, at this time, with what was declared.

use barewire_proto::mcp::{
    Capability, ClientCapabilities, ClientCapability, Method, Revision, ServerCapabilities, Side, code,
};
use barewire_proto::rpc::{Code, ErrorRef, Message};

use super::MessageContext;
use super::tools::ToolChecks;
use crate::check::catalogue::lifecycle::{LIFECYCLE_GATE, METHOD_IN_REVISION};
use crate::check::catalogue::methods::{
    CAPABILITY_TRUTH, RESERVED_ERROR_CODES, UNDECLARED_CLIENT_CAPABILITY, UNDECLARED_SERVER_CAPABILITY,
};
use crate::check::ledger::Ledger;
use crate::operations::{Handshake, Relation};
use crate::text::shown;

/// `is_modern` if the server has shown that it is.
pub(super) fn message(context: &MessageContext<'_>, tools: &ToolChecks, is_modern: bool, ledger: &mut Ledger) {
    match context.tracked.message {
        Ok(Message::Request(request)) => {
            let name = request.method.to_name();
            sent(context, &name, ledger);
            too_early(context, &name, ledger);
        }
        Ok(Message::Notification(notification)) => sent(context, &notification.method.to_name(), ledger),
        Ok(Message::Response(response)) => {
            if let Err(error) = response.outcome {
                reserved(context, &error, tools, is_modern, ledger);
            }
        }
        Ok(Message::OrphanError(error)) => reserved(context, error, tools, is_modern, ledger),
        Err(_) => {}
    }
}

/// A method, and the side that uses it.
fn sent(context: &MessageContext<'_>, name: &str, ledger: &mut Ledger) {
    let sender = context.tracked.sender;
    let (Some(method), Some(revision)) = (Method::find(name), context.revision) else { return };
    // The handshake decides the revision, so it is of none.
    if matches!(name, "initialize" | "notifications/initialized") {
        return;
    }
    // What comes before the agreement is not judged by it.
    let conversation = context.tracked.conversation;
    let agreed = revision.is_modern() || conversation.handshake >= Handshake::Answered;
    if !agreed {
        return;
    }
    ledger.inspected(&METHOD_IN_REVISION);
    let Some(sent) = method.sent(sender, revision) else {
        // A server that asks in the modern era breaks a rule of its own.
        let has_own_rule = sender == Side::Server && revision.is_modern() && context.request.is_some();
        if method.extension.is_none() && !has_own_rule {
            let who = if sender == Side::Client { "client" } else { "server" };
            let detail = format!("the {who} sends {name}, which it does not have in {revision}");
            context.fail(ledger, &METHOD_IN_REVISION, detail);
        }
        return;
    };
    match (sender, sent.needs_in(revision)) {
        (Side::Server, Some(Capability::Client(needed))) => {
            ledger.inspected(&UNDECLARED_CLIENT_CAPABILITY);
            if !client_has(conversation.client_capabilities.as_deref(), needed) {
                let detail = format!("{name} needs a capability that the client has not declared");
                context.fail(ledger, &UNDECLARED_CLIENT_CAPABILITY, detail);
            }
        }
        (Side::Server, Some(Capability::Server(needed))) => {
            let declared: Option<ServerCapabilities> =
                conversation.server_capabilities.as_deref().and_then(|text| serde_json::from_str(text).ok());
            if let Some(declared) = declared {
                ledger.inspected(&CAPABILITY_TRUTH);
                if !declared.has(needed) {
                    let detail = format!("{name} is sent, and what it needs is not declared");
                    context.fail(ledger, &CAPABILITY_TRUTH, detail);
                }
            }
        }
        (Side::Client, Some(Capability::Server(needed))) => {
            let declared: Option<ServerCapabilities> =
                conversation.server_capabilities.as_deref().and_then(|text| serde_json::from_str(text).ok());
            // A modern server need not be asked what it has, and says so when it has not.
            if let Some(declared) = declared.filter(|_| !revision.is_modern()) {
                if !context.state.client_is_ours {
                    ledger.inspected(&UNDECLARED_SERVER_CAPABILITY);
                }
                if !declared.has(needed) {
                    let detail = format!("{name} is asked of a server that has not declared it");
                    context.fail(ledger, &UNDECLARED_SERVER_CAPABILITY, detail);
                }
            }
        }
        _ => {}
    }
}

pub(super) fn client_has(declared: Option<&str>, needed: ClientCapability) -> bool {
    let declared: Option<ClientCapabilities> = declared.and_then(|text| serde_json::from_str(text).ok());
    declared.is_some_and(|declared| declared.has(needed))
}

/// A request before the other side is ready for it.
fn too_early(context: &MessageContext<'_>, name: &str, ledger: &mut Ledger) {
    let conversation = context.tracked.conversation;
    if context.is_modern() || conversation.over_http && context.tracked.sender == Side::Server {
        return;
    }
    let is_early = match context.tracked.sender {
        Side::Client => conversation.handshake == Handshake::Asked && name != "initialize",
        Side::Server => matches!(conversation.handshake, Handshake::Asked | Handshake::Answered),
    };
    if conversation.handshake > Handshake::None {
        ledger.inspected(&LIFECYCLE_GATE);
    }
    if is_early && name != "ping" {
        let before = match context.tracked.sender {
            Side::Client => "initialize was answered",
            Side::Server => "the client has sent notifications/initialized",
        };
        context.fail(ledger, &LIFECYCLE_GATE, format!("{name} is asked before {before}"));
    }
}

/// A code, and what it means where it is used.
fn reserved(
    context: &MessageContext<'_>,
    error: &ErrorRef<'_>,
    tools: &ToolChecks,
    is_modern: bool,
    ledger: &mut Ledger,
) {
    ledger.inspected(&RESERVED_ERROR_CODES);
    let number = error.code.get();
    let path = "/error/code";
    let call = match context.tracked.relation {
        Relation::Response { operation, .. } if operation.method == "tools/call" => Some(operation),
        _ => None,
    };
    let (is_call, listed) = (call.is_some(), call.and_then(|operation| tools.call(operation)));
    let name = || shown(call.and_then(|call| call.name.as_deref()).unwrap_or_default().as_bytes(), 60);
    let is_ready = context.is_modern() || context.tracked.conversation.handshake == Handshake::Done;
    match error.code {
        Code::PARSE_ERROR | Code::INVALID_REQUEST if is_call && is_ready => {
            let detail = format!("a call of a tool fails with {number}, which says that it was no request");
            context.fail_in(ledger, &RESERVED_ERROR_CODES, path, detail);
        }
        Code::METHOD_NOT_FOUND if is_ready && listed.is_some_and(|call| call.is_plain) => {
            let detail = format!("{} is listed, and a call of it fails with {number}", name());
            context.fail_in(ledger, &RESERVED_ERROR_CODES, path, detail);
        }
        // The arguments are as the schema has them, so what has failed is the tool.
        Code::INTERNAL_ERROR if is_ready && listed.is_some_and(|call| call.is_valid && !call.is_refused) => {
            let detail = format!("{} is called as its schema says, and fails with {number}", name());
            context.fail_in(ledger, &RESERVED_ERROR_CODES, path, detail);
        }
        Code::PARSE_ERROR
        | Code::INVALID_REQUEST
        | Code::METHOD_NOT_FOUND
        | Code::INVALID_PARAMS
        | Code::INTERNAL_ERROR => {}
        _ if !(-32768..=-32000).contains(&number) => {}
        _ => {
            let Some(revision) = context.revision.or(context.tracked.conversation.revision()) else { return };
            // A server that does not know the modern era says so as it likes.
            if revision.is_modern() && !is_modern {
                return;
            }
            if let Some(why) = undefined(error.code, revision) {
                context.fail_in(ledger, &RESERVED_ERROR_CODES, path, format!("{number} {why}"));
            }
        }
    }
}

/// Why a code of the reserved range must not be used in this revision.
fn undefined(code: Code, revision: Revision) -> Option<String> {
    match (code::find(code), code.get()) {
        (Some(known), _) if known.is_in(revision) => None,
        (Some(known), _) if revision > known.until => {
            Some(format!("is of no revision after {}, and this is {revision}", known.until))
        }
        // Before MCP took them, they were left to servers.
        (_, -32099..=-32000) if !revision.is_modern() => None,
        (_, -32019..=-32000) => None,
        (_, -32099..=-32020) => Some(format!("is kept for MCP, and {revision} does not define it")),
        _ => Some("is kept for JSON-RPC, which does not define it".to_owned()),
    }
}
