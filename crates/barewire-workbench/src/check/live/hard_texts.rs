//! A tool that takes text -> calls with text that is hard to write as one line of JSON: the passive checks judge the
//! output, and a call that is not answered any more is a finding.

use std::time::Duration;

use barewire_proto::json::Kind;
use serde_json::{Value, json};

use super::connection::ServerConnection;
use super::harness::Harness;
use super::outcome::{RequestOutcome, ResultResponse};
use super::running_calls::CALL_TIMEOUT;
use super::tool::{ListedTool, tools};
use crate::check::catalogue::envelope::UNANSWERED_REQUEST;
use crate::check::catalogue::process::STAYS_ALIVE;
use crate::check::passive::INVENTED_TEXT;
use crate::text::shown;

/// A tool that may be called repeatedly, with arguments that have a text.
struct TextTool {
    name: String,
    arguments: Value,
    /// The arguments whose values are the text.
    texts: Vec<String>,
}

impl TextTool {
    /// Returns the tool with its arguments; `None` if it takes no text.
    fn of(tool: &ListedTool) -> Option<Self> {
        let (name, arguments) = (tool.name.clone()?, tool.sample_with_text()?);
        let texts = arguments.as_object()?.iter().filter(|(_, value)| **value == INVENTED_TEXT);
        let texts: Vec<String> = texts.map(|(name, _)| name.clone()).collect();
        (!texts.is_empty()).then_some(Self { name, arguments, texts })
    }

    /// Returns the params of a call with this text.
    fn params(&self, text: &str) -> Value {
        let mut arguments = self.arguments.clone();
        for name in &self.texts {
            arguments[name.as_str()] = json!(text);
        }
        json!({"name": self.name, "arguments": arguments})
    }
}

/// Calls a tool with a plain text, and then with hard ones. Which result the tool gives, and whether it is an error,
/// does not matter.
pub(super) async fn probe(harness: &Harness, connection: &mut ServerConnection) {
    let Some((tool, took)) = answered_tool(harness, connection).await else { return };
    for (what, text) in [("line breaks, quotes and letters of many scripts", hard_text()), ("100 KB", long_text())] {
        if harness.is_late() {
            return;
        }
        let (unreadable, sent) = (connection.unreadable, connection.now());
        connection.error_without_id = None;
        let id = connection.send_request("tools/call", tool.params(&text)).await;
        connection.claim(&id);
        let outcome = connection.call_outcome(&id, "", sent, CALL_TIMEOUT, unreadable).await;
        let is_lost = matches!(outcome, RequestOutcome::NoResponse(_));
        if connection.unreadable > unreadable || is_lost && connection.error_without_id.is_some() {
            // The passive checks report output that cannot be read, and `line-separators` a text that is not read as
            // one line.
            return;
        }
        let call = format!("tools/call {} with a text of {what}", shown(tool.name.as_bytes(), 60));
        match &outcome {
            RequestOutcome::Disconnected(_) => {
                harness.fail(&STAYS_ALIVE, connection, Some(&outcome), format!("{call}: the process exits"));
                return;
            }
            RequestOutcome::NoResponse(_) => {
                let detail = format!("{call} gets no response within {CALL_TIMEOUT:?}");
                // A long text may take a tool long.
                let is_alive = connection.still_answers().await;
                if connection.unreadable > unreadable {
                    return;
                }
                match is_alive && took <= MAX_QUICK && text.len() < MAX_HARD_TEXT {
                    true => harness.fail(&UNANSWERED_REQUEST, connection, Some(&outcome), detail),
                    false => harness.recording.ledger().doubt(&UNANSWERED_REQUEST, detail),
                }
                return;
            }
            RequestOutcome::Result(_) | RequestOutcome::Error(_) | RequestOutcome::Refused(_) => {}
        }
    }
}

/// Returns a tool that answers a call with a plain text, and the time that the call takes: one that gives a result, if
/// there is one among the first.
async fn answered_tool(harness: &Harness, connection: &mut ServerConnection) -> Option<(TextTool, Duration)> {
    let listed = connection.claimed_request("tools/list", json!({})).await;
    let RequestOutcome::Result(result) = &listed else { return None };
    let listed = tools(result).map(ListedTool::of).filter(|tool| tool.is_harmless || harness.all_calls);
    let listed: Vec<TextTool> = listed.filter_map(|tool| TextTool::of(&tool)).take(MAX_TRIED_TOOLS).collect();
    let mut failing = None;
    for tool in listed {
        if harness.is_late() {
            break;
        }
        let since = connection.now();
        let outcome = connection.claimed_request("tools/call", tool.params(INVENTED_TEXT)).await;
        let Some(frame) = outcome.frame() else { break };
        let took = frame.time.saturating_sub(since);
        if matches!(&outcome, RequestOutcome::Result(result) if is_success(result)) {
            return Some((tool, took));
        }
        failing.get_or_insert((tool, took));
    }
    failing
}

fn is_success(result: &ResultResponse) -> bool {
    result.at(&["isError"]).is_none_or(|it| it.kind() != Kind::True)
}

/// A text with what a server must escape, what some programs treat as the end of a line, and letters that take one to
/// four bytes.
fn hard_text() -> String {
    "barewire \"quoted\" \\ C:\\dir\nline\r\ttab a\u{2028}b\u{2029}c\u{85}d Z\u{fc}rich \u{6771}\u{4eac} \u{1f389}"
        .to_owned()
}

/// A text that is longer than a buffer.
fn long_text() -> String {
    "barewire ".repeat(LONG_TEXT / "barewire ".len())
}

/// The length of the long text in bytes: longer than the buffer of a pipe, which often has 64 KiB.
const LONG_TEXT: usize = 100_000;
/// The length from which a text may take a tool long.
const MAX_HARD_TEXT: usize = 1000;
/// The maximum duration of a call with a plain text, if one with another text is expected to be answered.
const MAX_QUICK: Duration = Duration::from_secs(1);
/// The maximum number of tools that are called to find one that gives a result.
const MAX_TRIED_TOOLS: usize = 4;
