//! Methods and error codes -> whether the sender may use them in this revision, at this time, with these capabilities.

use barewire_proto::mcp::{
    Capability, ClientCapabilities, ClientCapability, Method, Revision, ServerCapabilities, Side, code,
};
use barewire_proto::rpc::{Code, ErrorRef, Message};

use super::MessageContext;
use super::tools::ToolChecks;
use crate::check::catalogue::lifecycle::{LIFECYCLE_GATE, METHOD_IN_REVISION, SENT_EARLY_BY_SERVER};
use crate::check::catalogue::methods::{
    CAPABILITY_TRUTH, RESERVED_CODE, RESERVED_ERROR_CODES, UNDECLARED_CLIENT_CAPABILITY, UNDECLARED_SERVER_CAPABILITY,
    undeclared,
};
use crate::check::excerpt::Fault;
use crate::check::ledger::Ledger;
use crate::operations::{Handshake, Relation};
use crate::text::shown;

/// Checks the method or the error code of a message. `is_modern` is true if the server has proved to be modern.
pub(super) fn message(context: &MessageContext<'_>, tools: &ToolChecks, is_modern: bool, ledger: &mut Ledger) {
    match context.tracked.message {
        Ok(Message::Request(request)) => {
            let name = request.method.to_name();
            check_method(context, &name, ledger);
            check_handshake(context, &name, ledger);
        }
        Ok(Message::Notification(notification)) => check_method(context, &notification.method.to_name(), ledger),
        Ok(Message::Response(response)) => {
            if let Err(error) = response.outcome {
                check_code(context, &error, tools, is_modern, ledger);
            }
        }
        Ok(Message::OrphanError(error)) => check_code(context, error, tools, is_modern, ledger),
        Err(_) => {}
    }
}

/// Checks that the sender may send the method in this revision, and that the capability for it is declared.
fn check_method(context: &MessageContext<'_>, name: &str, ledger: &mut Ledger) {
    let sender = context.tracked.sender;
    let (Some(method), Some(revision)) = (Method::find(name), context.revision) else { return };
    let conversation = context.tracked.conversation;
    // The handshake decides the revision, so the rules of the revision apply only to messages after the handshake.
    let is_agreed = revision.is_modern() || conversation.handshake >= Handshake::Answered;
    if matches!(name, "initialize" | "notifications/initialized") || !is_agreed {
        return;
    }
    ledger.inspected(&METHOD_IN_REVISION);
    let Some(sent) = method.availability(sender, revision) else {
        // `modern-server-requests` reports the requests of a modern server.
        let has_own_check = sender == Side::Server && revision.is_modern() && context.request.is_some();
        if method.extension.is_none() && !has_own_check {
            let sender = if sender == Side::Client { "client" } else { "server" };
            let detail = format!("the {sender} sends {name}, which a {sender} may not send in {revision}");
            context.fail_method(ledger, &METHOD_IN_REVISION, detail);
        }
        return;
    };
    let (check, needed) = match (sender, sent.needs_in(revision)) {
        (Side::Server, Some(Capability::Client(needed))) => {
            ledger.inspected(&UNDECLARED_CLIENT_CAPABILITY);
            if !client_has(conversation.client_capabilities.as_deref(), needed) {
                let detail = format!("the server sends {name}, but the client has not declared the capability for it");
                context.fail_method(ledger, &UNDECLARED_CLIENT_CAPABILITY, detail);
            }
            return;
        }
        (Side::Server, Some(Capability::Server(needed))) => (&CAPABILITY_TRUTH, needed),
        // A modern client may send a request without knowing the capabilities.
        (Side::Client, Some(Capability::Server(needed))) if !revision.is_modern() => {
            (&UNDECLARED_SERVER_CAPABILITY, needed)
        }
        _ => return,
    };
    let declared = conversation.server_capabilities.as_deref();
    let declared: Option<ServerCapabilities> = declared.and_then(|text| serde_json::from_str(text).ok());
    let Some(declared) = declared else { return };
    if sender == Side::Server || !context.state.client_is_ours {
        ledger.inspected(check);
    }
    if !declared.has(needed) {
        let sender = if sender == Side::Client { "client" } else { "server" };
        let detail = format!("the {sender} sends {name}, but the server has not declared the capability for it");
        let finding = context.finding(check, 0, detail);
        let finding = if sender == "server" { finding.under(undeclared(needed.as_str())) } else { finding };
        context.note_with(ledger, finding, Fault::Member("/method"));
    }
}

pub(super) fn client_has(declared: Option<&str>, needed: ClientCapability) -> bool {
    let declared: Option<ClientCapabilities> = declared.and_then(|text| serde_json::from_str(text).ok());
    declared.is_some_and(|declared| declared.has(needed))
}

/// Checks that no request is sent before the handshake is complete.
fn check_handshake(context: &MessageContext<'_>, name: &str, ledger: &mut Ledger) {
    let (conversation, sender) = (context.tracked.conversation, context.tracked.sender);
    if context.is_modern() || conversation.over_http && sender == Side::Server {
        return;
    }
    if conversation.handshake > Handshake::None {
        ledger.inspected(&LIFECYCLE_GATE);
    }
    let before = match (sender, conversation.handshake) {
        (Side::Client, Handshake::Asked) if name != "initialize" => "initialize is answered",
        (Side::Server, Handshake::Asked | Handshake::Answered) => "the client has sent notifications/initialized",
        _ => return,
    };
    if name != "ping" {
        let finding = context.finding(&LIFECYCLE_GATE, 0, format!("{name} is sent before {before}"));
        let finding = if sender == Side::Server { finding.under(&SENT_EARLY_BY_SERVER) } else { finding };
        context.note_with(ledger, finding, Fault::Member("/method"));
    }
}

/// Checks that an error code is used with its defined meaning.
fn check_code(
    context: &MessageContext<'_>,
    error: &ErrorRef<'_>,
    tools: &ToolChecks,
    is_modern: bool,
    ledger: &mut Ledger,
) {
    ledger.inspected(&RESERVED_ERROR_CODES);
    let conversation = context.tracked.conversation;
    let number = error.code.get();
    let is_ready = context.is_modern() || conversation.handshake == Handshake::Done;
    let call = match context.tracked.relation {
        Relation::Response { operation, .. } if operation.method == "tools/call" && is_ready => Some(operation),
        _ => None,
    };
    let listed = call.and_then(|operation| tools.call(operation));
    let name = || shown(call.and_then(|call| call.name.as_deref()).unwrap_or_default().as_bytes(), 60);
    let detail = match error.code {
        Code::PARSE_ERROR | Code::INVALID_REQUEST if call.is_some() => {
            format!("a tool call fails with {number}, which means that it was not a valid request")
        }
        Code::METHOD_NOT_FOUND if listed.is_some_and(|call| call.is_plain) => {
            format!("the tool {} is listed, but a call of it fails with {number}", name())
        }
        // The arguments match the schema, so the tool itself has failed.
        Code::INTERNAL_ERROR if listed.is_some_and(|call| call.is_valid && !call.is_refused) => {
            format!("a call of {} with valid arguments fails with {number}, not with isError", name())
        }
        Code::PARSE_ERROR
        | Code::INVALID_REQUEST
        | Code::METHOD_NOT_FOUND
        | Code::INVALID_PARAMS
        | Code::INTERNAL_ERROR => return,
        _ if !(-32768..=-32000).contains(&number) => return,
        _ => {
            let Some(revision) = context.revision.or(conversation.revision()) else { return };
            // A server that does not know the modern era may use any error.
            if revision.is_modern() && !is_modern {
                return;
            }
            let Some(why) = undefined(error.code, revision) else { return };
            let finding = context.finding(&RESERVED_ERROR_CODES, 0, format!("{number} {why}"));
            return context.note(ledger, finding.at("/error/code").under(&RESERVED_CODE));
        }
    };
    context.fail_in(ledger, &RESERVED_ERROR_CODES, "/error/code", detail);
}

/// Returns the reason why a reserved code must not be used in this revision, if there is one.
fn undefined(code: Code, revision: Revision) -> Option<String> {
    match (code::find(code), code.get()) {
        (Some(known), _) if known.is_in(revision) => None,
        (Some(known), _) if revision > known.until => {
            Some(format!("was removed after {} and is not in {revision}", known.until))
        }
        // Servers could define these codes themselves before MCP reserved them.
        (_, -32099..=-32000) if !revision.is_modern() => None,
        (_, -32019..=-32000) => None,
        (_, -32099..=-32020) => Some(format!("is reserved for MCP, and {revision} does not define it")),
        _ => Some("is reserved for JSON-RPC, which does not define it".to_owned()),
    }
}
