//! A method of MCP -> text: its entry in the protocol's table of methods, and the members of its messages.

use std::io;

use barewire_proto::mcp::method::TASKS;
use barewire_proto::mcp::{Availability, Capability, Method, MethodKind, Revision, Side};
use serde_json::{Value, json};

use crate::output::{Output, Tone, wrapped};

pub(super) fn show(method: &Method, output: &mut Output, as_json: bool) -> io::Result<()> {
    if as_json {
        return writeln!(output, "{}", value(method));
    }
    let MethodMembers { params, result, note, .. } = members(method.name);
    let kind = kind(method);
    let head = output.paint(Tone::Strong, format_args!("{}: a {kind} of MCP", method.name));
    writeln!(output, "{head}\n")?;
    wrapped(output, "", method.summary)?;
    if !note.is_empty() {
        writeln!(output)?;
        wrapped(output, "", note)?;
    }
    writeln!(output)?;
    wrapped(output, "Params:     ", params)?;
    if method.kind == MethodKind::Request {
        wrapped(output, "Result:     ", result)?;
    }
    for (from, sent, needs) in senders(method) {
        wrapped(output, "Sent by:    ", &format!("{from}, {}", span(sent.since, sent.until)))?;
        if let Some(needs) = needs {
            wrapped(output, "Needs:      ", &needs)?;
        }
    }
    if let Some(from) = method.extension {
        wrapped(output, "2026-07-28: ", &format!("in the extension {TASKS}, sent by {}", side(from)))?;
    } else if let Some(instead) = method.instead {
        wrapped(output, "2026-07-28: ", instead)?;
    }
    if let Some(deprecated) = method.deprecated {
        wrapped(output, "Deprecated: ", &format!("since 2026-07-28: {deprecated}"))?;
    }
    wrapped(output, "Shape:      ", &format!("barewire explain {kind}"))
}

fn value(method: &Method) -> Value {
    let MethodMembers { params, result, note, .. } = members(method.name);
    let needs = |capability: Capability| match capability {
        Capability::Client(it) => json!({"side": "client", "capability": it.as_str()}),
        Capability::Server(it) => json!({"side": "server", "capability": it.as_str()}),
    };
    let sent = |from: &str, sent: Option<Availability>| {
        let Availability { since, until, needs: declared, .. } = sent?;
        Some(json!({"from": from, "since": since, "until": until, "needs": declared.map(needs)}))
    };
    let sent = [sent("client", method.by_client), sent("server", method.by_server)];
    json!({
        "name": method.name,
        "what": method.summary,
        "note": note,
        "kind": kind(method),
        "params": params,
        "result": (method.kind == MethodKind::Request).then_some(result),
        "from": sender(method),
        "since": method.since(),
        "until": method.until(),
        "sent": sent.into_iter().flatten().collect::<Vec<_>>(),
        "instead": method.instead,
        "deprecated": method.deprecated,
        "extension": method.extension.map(|from| json!({"name": TASKS, "from": side(from)})),
    })
}

pub(super) fn span(since: Revision, until: Revision) -> String {
    if since == until { since.to_string() } else { format!("{since} to {until}") }
}

pub(super) fn kind(method: &Method) -> &'static str {
    match method.kind {
        MethodKind::Request => "request",
        MethodKind::Notification => "notification",
    }
}

fn side(side: Side) -> &'static str {
    match side {
        Side::Client => "the client",
        Side::Server => "the server",
    }
}

fn sender(method: &Method) -> &'static str {
    match (method.by_client, method.by_server, method.extension) {
        (Some(_), Some(_), _) => "either side",
        (Some(_), None, _) | (None, None, Some(Side::Client)) => "the client",
        (None, Some(_), _) | (None, None, Some(Side::Server)) => "the server",
        (None, None, None) => "neither side",
    }
}

/// Returns which side sends a method, in which revisions, and the capability it needs. If this is the same for both
/// sides, returns one entry.
fn senders(method: &Method) -> Vec<(&'static str, Availability, Option<String>)> {
    let (by_client, by_server) = (method.by_client, method.by_server);
    if let (Some(client), Some(server)) = (by_client, by_server)
        && (client.since, client.until) == (server.since, server.until)
    {
        let whose = match (client.needs, server.needs) {
            (None, None) => return vec![("either side", client, None)],
            (Some(Capability::Server(_)), Some(Capability::Client(_))) => Some("the receiver's"),
            (Some(Capability::Client(_)), Some(Capability::Server(_))) => Some("the sender's"),
            _ => None,
        };
        if let (Some(whose), Some(needs)) = (whose, client.needs) {
            return vec![("either side", client, Some(format!("{whose} capability {}", needs.as_str())))];
        }
    }
    let each = [("the client", by_client), ("the server", by_server)];
    each.into_iter()
        .filter_map(|(from, sent)| sent.map(|sent| (from, sent, sent.needs.map(|needs| declared(&sent, needs)))))
        .collect()
}

fn declared(sent: &Availability, needs: Capability) -> String {
    let whose = match needs {
        Capability::Client(_) => "client",
        Capability::Server(_) => "server",
    };
    let name = needs.as_str();
    let first = Revision::ALL.into_iter().find(|revision| needs.is_in(*revision));
    match first.filter(|first| *first > sent.since) {
        None => format!("the {whose}'s capability {name}"),
        Some(first) => format!("the {whose}'s capability {name}, from {first} on"),
    }
}

/// The members of a method's messages, with `?` after optional ones, and a note about common mistakes.
struct MethodMembers {
    name: &'static str,
    params: &'static str,
    result: &'static str,
    note: &'static str,
}

fn members(method: &str) -> &'static MethodMembers {
    MEMBERS.iter().find(|members| members.name == method).expect("a test checks that every method has an entry")
}

const fn request(name: &'static str, params: &'static str, result: &'static str, note: &'static str) -> MethodMembers {
    MethodMembers { name, params, result, note }
}

const fn notification(name: &'static str, params: &'static str, note: &'static str) -> MethodMembers {
    MethodMembers { name, params, result: "", note }
}

const NONE: &str = "none";
const EMPTY: &str = "{}";
const PAGES: &str = "If the result has a nextCursor, even an empty one, there is another page: send the request again with this value as cursor. From 2026-07-28 on the result also has ttlMs and cacheScope.";
const CHANGED: &str =
    "The client should request the list again. From 2026-07-28 on, sent only to a subscriptions/listen that wants it.";

#[rustfmt::skip]
const MEMBERS: &[MethodMembers] = &[
    request("initialize", "protocolVersion, capabilities, clientInfo", "protocolVersion, capabilities, serverInfo, instructions?", "The first request of a connection, sent once. A server that does not speak the requested revision answers with a revision that it speaks; a client that does not speak that revision disconnects. The request cannot be cancelled, and is never part of a batch."),
    notification("notifications/initialized", NONE, "Sent once, after the result of initialize. Before this notification, a server should send no request except ping."),
    request("ping", NONE, EMPTY, "Either side may send it at any time. The response is immediate."),
    request("server/discover", NONE, "supportedVersions, capabilities, instructions?, ttlMs, cacheScope", "Every modern server has this method, but clients need not call it. Legacy servers do not have it, so a client can use it to find out the era."),
    request("tools/list", "cursor?", "tools, nextCursor?", PAGES),
    request("tools/call", "name, arguments?", "content, structuredContent?, isError?", "An unknown tool gets the error -32602. Up to 2025-06-18, bad arguments get this error too; from 2025-11-25 on, they get a result with isError, so that the model sees the mistake and can correct it."),
    request("resources/list", "cursor?", "resources, nextCursor?", PAGES),
    request("resources/templates/list", "cursor?", "resourceTemplates, nextCursor?", "Templates have the syntax of RFC 6570, such as note://{id}. If the result has a nextCursor, there is another page."),
    request("resources/read", "uri", "contents", "Each part of the contents has text, or a blob in Base64. A missing resource gets the error -32002, or from 2026-07-28 on -32602 with data.uri; never empty contents."),
    request("resources/subscribe", "uri", EMPTY, "After the response, the server sends notifications/resources/updated whenever the resource changes."),
    request("resources/unsubscribe", "uri", EMPTY, ""),
    request("prompts/list", "cursor?", "prompts, nextCursor?", PAGES),
    request("prompts/get", "name, arguments?", "messages, description?", "Arguments are strings. An unknown prompt or a missing argument is the error -32602."),
    request("completion/complete", "ref, argument, context?", "completion: values, total?, hasMore?", "ref is {\"type\":\"ref/prompt\",\"name\":…} or {\"type\":\"ref/resource\",\"uri\":…}. At most 100 values. context, since 2025-06-18, has the arguments that are already known."),
    request("logging/setLevel", "level", EMPTY, "The levels, from the least severe: debug, info, notice, warning, error, critical, alert, emergency."),
    request("subscriptions/listen", "notifications: toolsListChanged?, promptsListChanged?, resourcesListChanged?, resourceSubscriptions?", "{}, when the server ends the subscription", "The first message is notifications/subscriptions/acknowledged. It and all that follow carry the id of this request in their _meta, as io.modelcontextprotocol/subscriptionId. A subscription cannot be changed: open another one, then end this one. Subscriptions end with the connection."),
    request("sampling/createMessage", "messages, maxTokens, modelPreferences?, systemPrompt?, includeContext?, temperature?, stopSequences?, metadata?, tools?, toolChoice?", "role, content, model, stopReason?", "The user should see the request and may refuse it. tools, toolChoice and an array as content exist since 2025-11-25, and need the capability sampling.tools."),
    request("roots/list", NONE, "roots", "Roots are file: URIs. They tell where the user works, and do not restrict access."),
    request("elicitation/create", "message, requestedSchema; or mode \"url\", message, url, elicitationId (only in 2025-11-25)", "action, content?", "action is accept, decline or cancel. The schema is a flat object of strings, numbers, booleans and enums. A form must not ask for secrets: send the user to a URL instead (since 2025-11-25)."),
    request("tasks/get", "taskId", "taskId, status, ttl, createdAt, lastUpdatedAt, pollInterval?, statusMessage?", "status is working, input_required, completed, failed or cancelled. In the extension the times are ttlMs and pollIntervalMs, and the result of the task, or its questions, are in the same result."),
    request("tasks/result", "taskId", "the result of the original request", "The server sends the response when the task has ended."),
    request("tasks/list", "cursor?", "tasks, nextCursor?", ""),
    request("tasks/cancel", "taskId", "the task; {} in the extension", "A task that has ended cannot be cancelled: the request gets the error -32602. In the extension the request may be repeated. notifications/cancelled is not for tasks."),
    request("tasks/update", "taskId, inputResponses", EMPTY, "Answers the inputRequests in the result of tasks/get, with the same keys, for a task with status input_required."),
    notification("notifications/cancelled", "requestId, reason?", "The receiver stops and sends no response; a response that was already sent is ignored. Only for the sender's own requests in flight, and never for initialize. From 2026-07-28 on a client sends it only on stdio, because over HTTP it closes the response stream instead, and a server sends it only to end a subscriptions/listen."),
    notification("notifications/progress", "progressToken, progress, total?, message?", "progress increases with each notification; none follows the response. message exists since 2025-03-26. From 2026-07-28 on only servers send it, on the stream of the request."),
    notification("notifications/message", "level, data, logger?", "From 2026-07-28 on, sent only for a request that has io.modelcontextprotocol/logLevel in its _meta, on the stream of that request."),
    notification("notifications/tools/list_changed", NONE, CHANGED),
    notification("notifications/prompts/list_changed", NONE, CHANGED),
    notification("notifications/resources/list_changed", NONE, CHANGED),
    notification("notifications/resources/updated", "uri", "The resource has changed: read it again. From 2026-07-28 on, sent only to a subscriptions/listen that names the uri."),
    notification("notifications/roots/list_changed", NONE, "The server should request roots/list again."),
    notification("notifications/elicitation/complete", "elicitationId", "The client may repeat the request that failed with -32042."),
    notification("notifications/tasks/status", "the task, as in tasks/get", "Servers need not send it, so clients should not wait for it: use tasks/get."),
    notification("notifications/tasks", "the task, as in tasks/get", "Sent only to a subscriptions/listen with the task in taskIds."),
    notification("notifications/subscriptions/acknowledged", "notifications", "It lists only the notifications that the server supports. The server sends no other notification before it."),
];

#[cfg(test)]
mod tests {
    use barewire_proto::mcp::METHODS;

    use super::*;

    #[test]
    fn every_method_of_the_protocol_is_described_and_no_other() {
        let described: Vec<&str> = MEMBERS.iter().map(|members| members.name).collect();
        let known: Vec<&str> = METHODS.iter().map(|method| method.name).collect();
        assert_eq!(described, known);
        for method in METHODS {
            assert_eq!(
                members(method.name).result.is_empty(),
                method.kind == MethodKind::Notification,
                "{}",
                method.name
            );
            assert_ne!(sender(method), "neither side", "{}", method.name);
        }
    }
}
