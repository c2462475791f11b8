//! What the other side says besides its answer -> lines on our stderr.

use std::io::{self, IsTerminal, Write};

use barewire::Failure;
use barewire::client::ServerNotification;
use barewire::peer::{Context, Methods, Raw};
use barewire::transport::Stderr;
use barewire_proto::mcp::LogMessage;
use barewire_proto::transcript::escape;
use serde_json::json;

use crate::output::{safe_json, shown};

/// Shows notifications and requests, unless they are not wanted, and refuses the requests.
pub(super) fn methods(quiet: bool) -> Methods {
    if quiet {
        return Methods::new();
    }
    Methods::new().fallback(|context: Context, params: Raw| async move {
        let kind = if context.id().is_some() { "refused request" } else { "notification" };
        let params = params.as_str().map_or(String::new(), |params| format!(" {}", safe_json(params)));
        say(format!("{kind} {}{params}", escape(context.method().as_bytes())).into_bytes());
        Err::<Raw, _>(Failure::method_not_found())
    })
}

/// The stderr of a program: to a terminal escaped, to anything else as it is.
pub(super) fn stderr() -> Stderr {
    if io::stderr().is_terminal() { Stderr::inherit() } else { Stderr::lines(|line| say(line.to_vec())) }
}

fn say(mut line: Vec<u8>) {
    line.push(b'\n');
    // In one piece, so that lines of several do not mix. If stderr is closed there is nobody to tell.
    let _ = io::stderr().write_all(&line);
}

/// What a server of MCP tells meanwhile, as a line.
pub(super) fn told(notification: &ServerNotification) -> String {
    match notification {
        ServerNotification::Message(LogMessage { level, logger, data, .. }) => {
            let logger =
                logger.as_ref().map_or(String::new(), |logger| format!(" {}", shown(logger.as_bytes(), LONGEST)));
            let data = serde_json::from_str(data.get()).unwrap_or_else(|_| safe_json(data.get()).into_owned());
            format!("log {level}{logger}: {}", shown(data.as_bytes(), LONGEST_DATA))
        }
        ServerNotification::Lagged(count) => {
            format!("barewire: {count} notifications came too fast to be shown")
        }
        other => {
            let (method, params) = parts(other);
            format!("notification {method}{}", params.map_or(String::new(), |params| format!(" {params}")))
        }
    }
}

/// What a listen has brought, for stdout.
pub(super) fn heard(notification: &ServerNotification, json: bool) -> String {
    if !json {
        return told(notification);
    }
    let (method, params) = parts(notification);
    let params = params.map_or(String::new(), |params| format!(",\"params\":{params}"));
    format!("{{\"kind\":\"notification\",\"method\":{}{params}}}", serde_json::Value::from(method))
}

/// Its method, and its params as JSON that is safe to look at.
fn parts(notification: &ServerNotification) -> (String, Option<String>) {
    let written = |value: serde_json::Value| Some(safe_json(&value.to_string()).into_owned());
    let (method, params) = match notification {
        ServerNotification::ToolsListChanged => ("notifications/tools/list_changed", None),
        ServerNotification::PromptsListChanged => ("notifications/prompts/list_changed", None),
        ServerNotification::ResourcesListChanged => ("notifications/resources/list_changed", None),
        ServerNotification::ResourceUpdated { uri } => {
            ("notifications/resources/updated", written(json!({ "uri": uri })))
        }
        ServerNotification::ElicitationComplete { elicitation_id } => {
            ("notifications/elicitation/complete", written(json!({ "elicitationId": elicitation_id })))
        }
        ServerNotification::Message(message) => {
            ("notifications/message", serde_json::to_value(message).ok().and_then(written))
        }
        ServerNotification::Other { method, params } => {
            let params = params.as_str().map(|params| safe_json(params).into_owned());
            return (escape(method.as_bytes()).into_owned(), params);
        }
        other => return (format!("{other:?}"), None),
    };
    (method.to_owned(), params)
}

/// As much of a name as fits a line, and as much of a message as is worth one.
const LONGEST: usize = 60;
const LONGEST_DATA: usize = 2000;
