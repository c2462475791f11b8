//! Notifications and requests from the server -> lines on stderr, or on stdout during `subscriptions/listen`.

use std::io::{IsTerminal, Write};

use barewire::Failure;
use barewire::client::ServerNotification;
use barewire::peer::{Context, Methods, Raw};
use barewire::transport::Stderr;
use barewire_proto::json::Json;
use barewire_proto::mcp::LogMessage;
use barewire_proto::transcript::escape;
use serde_json::json;

use crate::output::{self, raw_stderr, safe_json, shown};

/// Returns the handlers for `--raw`: they print notifications and requests, unless `quiet`, and refuse the requests.
pub(super) fn methods(quiet: bool) -> Methods {
    if quiet {
        return Methods::new();
    }
    Methods::new().fallback(|context: Context, params: Raw| async move {
        let kind = if context.id().is_some() { "refused request" } else { "notification" };
        let params = params.as_str().map_or(String::new(), |params| format!(" {}", safe_json(params)));
        let _ = writeln!(output::stderr(), "{kind} {}{params}", escape(context.method().as_bytes()));
        Err::<Raw, _>(Failure::method_not_found())
    })
}

/// Returns a writer for a program's stderr, which escapes it on a terminal and passes it on unchanged otherwise.
pub(super) fn stderr() -> Stderr {
    if raw_stderr().is_terminal() {
        return Stderr::inherit();
    }
    Stderr::lines(|line| {
        // Each line is one write, so that lines of different threads do not mix.
        let _ = raw_stderr().write_all(&[line, b"\n"].concat());
    })
}

pub(super) fn stderr_line(notification: &ServerNotification) -> String {
    match notification {
        ServerNotification::Message(LogMessage { level, logger, data, .. }) => {
            let logger =
                logger.as_ref().map_or(String::new(), |logger| format!(" {}", shown(logger.as_bytes(), MAX_LOGGER)));
            let json = Json::parse(data.get().as_bytes()).ok();
            let data = json.and_then(Json::string).unwrap_or_else(|| safe_json(data.get()));
            format!("log {level}{logger}: {}", shown(data.as_bytes(), MAX_LOG_DATA))
        }
        ServerNotification::Lagged(count) => {
            format!("barewire: {count} notifications were too fast to show")
        }
        other => {
            let (method, params) = parts(other);
            format!("notification {method}{}", params.map_or(String::new(), |params| format!(" {params}")))
        }
    }
}

/// Returns a notification of `subscriptions/listen` as a line for stdout.
pub(super) fn listen_line(notification: &ServerNotification, json: bool) -> String {
    if !json {
        return stderr_line(notification);
    }
    let (method, params) = parts(notification);
    let params = params.map_or(String::new(), |params| format!(",\"params\":{params}"));
    format!("{{\"kind\":\"notification\",\"method\":{}{params}}}", serde_json::Value::from(method))
}

/// Returns the method, and the params as escaped JSON.
fn parts(notification: &ServerNotification) -> (String, Option<String>) {
    let json = |value: serde_json::Value| Some(safe_json(&value.to_string()).into_owned());
    let (method, params) = match notification {
        ServerNotification::ToolsListChanged => ("notifications/tools/list_changed", None),
        ServerNotification::PromptsListChanged => ("notifications/prompts/list_changed", None),
        ServerNotification::ResourcesListChanged => ("notifications/resources/list_changed", None),
        ServerNotification::ResourceUpdated { uri } => ("notifications/resources/updated", json(json!({ "uri": uri }))),
        ServerNotification::ElicitationComplete { elicitation_id } => {
            ("notifications/elicitation/complete", json(json!({ "elicitationId": elicitation_id })))
        }
        ServerNotification::Message(message) => {
            ("notifications/message", serde_json::to_value(message).ok().and_then(json))
        }
        ServerNotification::Other { method, params } => {
            let params = params.as_str().map(|params| safe_json(params).into_owned());
            return (escape(method.as_bytes()).into_owned(), params);
        }
        other => return (format!("{other:?}"), None),
    };
    (method.to_owned(), params)
}

/// The maximum number of characters of a logger's name to show.
const MAX_LOGGER: usize = 60;
/// The maximum number of characters of a log message to show.
const MAX_LOG_DATA: usize = 2000;
