//! The methods of MCP, and in which revisions they are. One table.

use std::io::{self, Write};

use serde_json::json;

use crate::output::{Output, Tone};

/// A method of the protocol.
pub(super) struct Method {
    pub(super) name: &'static str,
    pub(super) what: &'static str,
    kind: Kind,
    from: From,
    /// The first revision that has it and the last.
    since: &'static str,
    until: &'static str,
}

#[derive(Clone, Copy)]
enum Kind {
    Request,
    Notification,
}

#[derive(Clone, Copy)]
enum From {
    Client,
    Server,
    Either,
}

impl Method {
    pub(super) fn show(&self, output: &mut Output, as_json: bool) -> io::Result<()> {
        let Self { name, what, kind, from, since, until } = self;
        let kind = match kind {
            Kind::Request => "request",
            Kind::Notification => "notification",
        };
        let from = match from {
            From::Client => "the client",
            From::Server => "the server",
            From::Either => "either side",
        };
        if as_json {
            let value = json!({"name": name, "what": what, "kind": kind, "from": from, "since": since, "until": until});
            return writeln!(output, "{value}");
        }
        let head = output.paint(Tone::Strong, format_args!("{name}: a {kind} of MCP"));
        writeln!(output, "{head}\n\n{what}\n")?;
        writeln!(output, "Sent by: {from}")?;
        let revisions = if since == until { (*since).to_owned() } else { format!("{since} to {until}") };
        writeln!(output, "Revisions: {revisions}")?;
        writeln!(output, "Shape: barewire explain {kind}")
    }
}

use Kind::{Notification, Request};

const V2024: &str = "2024-11-05";
const V2025_JUNE: &str = "2025-06-18";
const V2025_NOVEMBER: &str = "2025-11-25";
const V2026: &str = "2026-07-28";

const fn method(
    name: &'static str,
    kind: Kind,
    from: From,
    since: &'static str,
    until: &'static str,
    what: &'static str,
) -> Method {
    Method { name, what, kind, from, since, until }
}

#[rustfmt::skip]
pub(super) const METHODS: &[Method] = &[
    method("initialize", Request, From::Client, V2024, V2025_NOVEMBER, "opens a connection: the revision, the capabilities and the names of both sides"),
    method("notifications/initialized", Notification, From::Client, V2024, V2025_NOVEMBER, "the client is ready: normal work may begin"),
    method("ping", Request, From::Either, V2024, V2025_NOVEMBER, "asks whether the other side is there; the result is {}"),
    method("server/discover", Request, From::Client, V2026, V2026, "asks for the server's versions, capabilities and instructions"),
    method("tools/list", Request, From::Client, V2024, V2026, "the tools there are, with the schemas of their arguments"),
    method("tools/call", Request, From::Client, V2024, V2026, "runs a tool; that the tool failed is a result with isError"),
    method("resources/list", Request, From::Client, V2024, V2026, "the resources there are"),
    method("resources/templates/list", Request, From::Client, V2024, V2026, "the URI templates of resources"),
    method("resources/read", Request, From::Client, V2024, V2026, "the contents of a resource"),
    method("resources/subscribe", Request, From::Client, V2024, V2025_NOVEMBER, "asks to be told when a resource changes"),
    method("resources/unsubscribe", Request, From::Client, V2024, V2025_NOVEMBER, "ends a subscription to a resource"),
    method("prompts/list", Request, From::Client, V2024, V2026, "the prompts there are"),
    method("prompts/get", Request, From::Client, V2024, V2026, "the messages of a prompt, with its arguments filled in"),
    method("completion/complete", Request, From::Client, V2024, V2026, "proposals for an argument of a prompt or template"),
    method("logging/setLevel", Request, From::Client, V2024, V2025_NOVEMBER, "which log messages the server should send"),
    method("subscriptions/listen", Request, From::Client, V2026, V2026, "opens a stream of change notifications"),
    method("sampling/createMessage", Request, From::Server, V2024, V2025_NOVEMBER, "asks the client's model for a completion; from 2026-07-28 an entry of inputRequests"),
    method("roots/list", Request, From::Server, V2024, V2025_NOVEMBER, "asks for the folders the client works in; from 2026-07-28 an entry of inputRequests"),
    method("elicitation/create", Request, From::Server, V2025_JUNE, V2025_NOVEMBER, "asks the user for input; from 2026-07-28 an entry of inputRequests"),
    method("tasks/get", Request, From::Either, V2025_NOVEMBER, V2025_NOVEMBER, "the state of a long-running task; an extension from 2026-07-28"),
    method("tasks/result", Request, From::Either, V2025_NOVEMBER, V2025_NOVEMBER, "waits for the result of a task"),
    method("tasks/list", Request, From::Either, V2025_NOVEMBER, V2025_NOVEMBER, "the tasks there are"),
    method("tasks/cancel", Request, From::Either, V2025_NOVEMBER, V2025_NOVEMBER, "ends a task; an extension from 2026-07-28"),
    method("notifications/cancelled", Notification, From::Either, V2024, V2026, "the sender no longer wants the answer to one of its requests"),
    method("notifications/progress", Notification, From::Either, V2024, V2026, "how far a request has come; only with the progressToken it was given"),
    method("notifications/message", Notification, From::Server, V2024, V2026, "a log message"),
    method("notifications/tools/list_changed", Notification, From::Server, V2024, V2026, "the list of tools has changed"),
    method("notifications/prompts/list_changed", Notification, From::Server, V2024, V2026, "the list of prompts has changed"),
    method("notifications/resources/list_changed", Notification, From::Server, V2024, V2026, "the list of resources has changed"),
    method("notifications/resources/updated", Notification, From::Server, V2024, V2026, "a resource that was subscribed to has changed"),
    method("notifications/roots/list_changed", Notification, From::Client, V2024, V2025_NOVEMBER, "the client's folders have changed"),
    method("notifications/elicitation/complete", Notification, From::Server, V2025_NOVEMBER, V2025_NOVEMBER, "an elicitation by URL is done"),
    method("notifications/tasks/status", Notification, From::Either, V2025_NOVEMBER, V2025_NOVEMBER, "the state of a task has changed"),
    method("notifications/subscriptions/acknowledged", Notification, From::Server, V2026, V2026, "the first message of a listen: what of it the server honours"),
];
