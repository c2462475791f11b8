//! Notifications and requests from the server -> lines on stderr, or on stdout during `subscriptions/listen`.

use std::borrow::Cow;
use std::io::{self, IsTerminal, Write};

use barewire::Failure;
use barewire::client::ServerNotification;
use barewire::peer::{Context, Methods, Raw};
use barewire::transport::Stderr;
use barewire_proto::json::Json;
use barewire_proto::mcp::LogMessage;
use barewire_proto::transcript::escape;
use serde_json::json;

use crate::output::{self, Output, SafeJson, raw_stderr, safe_json, shown};

/// Returns the handlers for `--raw`: they print notifications and requests, unless `quiet`, and refuse the requests.
pub(super) fn methods(quiet: bool) -> Methods {
    if quiet {
        return Methods::new();
    }
    Methods::new().fallback(|context: Context, params: Raw| async move {
        let kind = if context.id().is_some() { "refused request" } else { "notification" };
        let params = params.as_str().map_or(String::new(), |params| format!(" {}", line_of(params)));
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
            let params = params.map_or(String::new(), |params| format!(" {}", line_of(&params)));
            format!("notification {}{params}", escape(method.as_bytes()))
        }
    }
}

/// Returns JSON from the server for a line on stderr: escaped, and cut if it is too long to be read.
fn line_of(json: &str) -> String {
    match json.char_indices().nth(MAX_PARAMS) {
        Some((end, _)) => format!("{}…", safe_json(&json[..end])),
        None => safe_json(json).into_owned(),
    }
}

/// Prints a notification of `subscriptions/listen` as a line.
pub(super) fn print_listened(output: &mut Output, notification: &ServerNotification, json: bool) -> io::Result<()> {
    if !json {
        return writeln!(output, "{}", stderr_line(notification));
    }
    let (method, params) = parts(notification);
    write!(output, "{{\"kind\":\"notification\",\"method\":{}", safe_json(&json!(method).to_string()))?;
    if let Some(params) = params {
        write!(output, ",\"params\":{}", SafeJson(&params))?;
    }
    writeln!(output, "}}")
}

/// Returns the method, and the params as JSON. Neither is escaped.
fn parts(notification: &ServerNotification) -> (Cow<'_, str>, Option<Cow<'_, str>>) {
    let json = |value: serde_json::Value| Some(Cow::Owned(value.to_string()));
    let (method, params) = match notification {
        ServerNotification::ToolsListChanged => ("notifications/tools/list_changed", None),
        ServerNotification::PromptsListChanged => ("notifications/prompts/list_changed", None),
        ServerNotification::ResourcesListChanged => ("notifications/resources/list_changed", None),
        ServerNotification::ResourceUpdated { uri } => ("notifications/resources/updated", json(json!({ "uri": uri }))),
        ServerNotification::ElicitationComplete { elicitation_id } => {
            ("notifications/elicitation/complete", json(json!({ "elicitationId": elicitation_id })))
        }
        ServerNotification::Message(message) => {
            ("notifications/message", serde_json::to_string(message).ok().map(Cow::Owned))
        }
        ServerNotification::Other { method, params } => return (method.into(), params.as_str().map(Cow::Borrowed)),
        other => return (format!("{other:?}").into(), None),
    };
    (method.into(), params)
}

/// The maximum number of characters of the params of a notification on stderr. A longer line cannot be read, and takes
/// several times its length in memory until it is written.
const MAX_PARAMS: usize = 64 * 1024;
/// The maximum number of characters of a logger's name to show.
const MAX_LOGGER: usize = 60;
/// The maximum number of characters of a log message to show.
const MAX_LOG_DATA: usize = 2000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_params_are_cut() {
        let json = format!("\"{}\"", "é".repeat(100_000));
        let line = line_of(&json);
        assert_eq!(line.chars().count(), 65_536 + 1);
        assert!(line.ends_with("é…"), "the end is marked");
        assert_eq!(line_of("{\"a\":1}"), "{\"a\":1}");
    }
}
