//! Input that no well-behaved client sends: broken and partial lines, invalid UTF-8, very large and very deep messages.

use std::time::Duration;

use barewire_proto::json::{Json, Kind};
use barewire_proto::mcp::Era;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::connection::{Exited, ServerConnection};
use super::harness::Harness;
use super::outcome::{ErrorResponse, RequestOutcome, code, is_response_to};
use super::recording::LocatedFrame;
use crate::check::catalogue::envelope::{ENVELOPE_VALIDATION, PARSE_ERROR_ANSWER, PARSE_ERROR_RECOVERY};
use crate::check::catalogue::flow::CANCELLATION;
use crate::check::catalogue::framing::{
    BLANK_LINES, COALESCED_INPUT, CRLF_INPUT, DEEP_NESTING, INVALID_UTF8, LARGE_MESSAGE, SPLIT_INPUT,
};
use crate::check::catalogue::methods::PING;
use crate::check::catalogue::modern::MODERN_DISCOVER;
use crate::check::catalogue::{Check, CheckPlace, all};
use crate::{Advice, Error};

pub(super) async fn run(harness: &mut Harness, era: Era) -> Result<(), Error> {
    if !harness.may_be_hostile() {
        for check in all().filter(|check| check.hostile && check.runs_on(CheckPlace::Http)) {
            harness.skip_forbidden(check, "it sends hostile input", Advice::AllowHostile);
        }
        return Ok(());
    }
    let is_http = harness.is_http();
    let mut probe = HostileProbe { harness, era, connection: None };
    probe.run(&[&PARSE_ERROR_RECOVERY, &PARSE_ERROR_ANSWER], "a line that is not JSON", broken_json).await?;
    // These probes are about lines, which HTTP does not have.
    if !is_http {
        for message in MALFORMED_MESSAGES {
            let send = async |harness: &mut Harness, connection: &mut ServerConnection| {
                malformed_message(harness, connection, message).await
            };
            if !probe.run(&[&ENVELOPE_VALIDATION], "malformed messages", send).await? {
                break;
            }
        }
        probe.run(&[&SPLIT_INPUT], "a message in parts", split_input).await?;
        probe.run(&[&COALESCED_INPUT], "many messages at once", coalesced_input).await?;
        probe.run(&[&CRLF_INPUT], "CRLF", crlf).await?;
        probe.run(&[&BLANK_LINES], "blank lines", blank_lines).await?;
        probe.run(&[&CANCELLATION], "stray cancellations", stray_cancellations).await?;
    }
    let notes = [
        (&LARGE_MESSAGE, "a large message", large_note()),
        (&DEEP_NESTING, "deep nesting", [vec![b'['; DEPTH], vec![b']'; DEPTH]].concat()),
        (&INVALID_UTF8, "bytes that are not UTF-8", b"\"caf\xe9 \xff\"".to_vec()),
    ];
    for (check, subject, note) in notes {
        // Each of these probes gets a new connection.
        probe.close().await;
        let send = async |harness: &mut Harness, connection: &mut ServerConnection| {
            survives(harness, connection, check, &note).await
        };
        probe.run(&[check], subject, send).await?;
    }
    probe.close().await;
    Ok(())
}

/// Runs the hostile probes one after the other. They share a connection as long as the connection works.
struct HostileProbe<'a> {
    harness: &'a mut Harness,
    era: Era,
    connection: Option<ServerConnection>,
}

impl HostileProbe<'_> {
    /// Runs a probe, unless its checks are not selected or no connection can be opened. Returns whether the probe has
    /// run and the connection still works.
    async fn run(
        &mut self,
        checks: &[&'static Check],
        subject: &str,
        send: impl AsyncFnOnce(&mut Harness, &mut ServerConnection) -> bool,
    ) -> Result<bool, Error> {
        if !self.harness.wants(checks) {
            return Ok(false);
        }
        self.harness.progress(subject);
        let connection = match self.connection.take() {
            Some(connection) => Some(connection),
            None => self.harness.connect(self.era, true).await?,
        };
        let Some(mut connection) = connection else {
            for check in checks {
                self.harness
                    .recording
                    .ledger()
                    .incomplete(check, "the server did not respond when it was started again");
            }
            return Ok(false);
        };
        let works = send(self.harness, &mut connection).await;
        self.connection = Some(connection);
        if !works {
            self.close().await;
        }
        Ok(works)
    }

    async fn close(&mut self) {
        if let Some(connection) = self.connection.take() {
            self.harness.close(connection).await;
        }
    }
}

async fn broken_json(harness: &mut Harness, connection: &mut ServerConnection) -> bool {
    connection.error_without_id = None;
    connection.send(&[BROKEN_JSON, b"\n"].concat()).await;
    if harness.is_http() {
        // HTTP exchanges run in parallel, so the next request could overtake the broken line.
        connection.drain_for(harness.patience).await;
    }
    let sent = connection.location();
    let works = connection.still_answers().await;
    connection.wait_until_quiet().await;
    if works && connection.error_without_id.is_none() {
        // Responses may arrive in any order, so the error may still follow.
        connection.drain_for(REORDERING_TIME).await;
    }
    harness.recording.ledger().inspected(&PARSE_ERROR_RECOVERY);
    if !works {
        if !harness.skip_if_exited(&PARSE_ERROR_RECOVERY, connection) {
            harness.fail_missing(&PARSE_ERROR_RECOVERY, sent, BROKEN_JSON, why_unresponsive(connection));
        }
        return false;
    }
    harness.recording.ledger().inspected(&PARSE_ERROR_ANSWER);
    match &connection.error_without_id {
        None => harness.fail_missing(&PARSE_ERROR_ANSWER, sent, BROKEN_JSON, "expected error -32700, got no response"),
        Some(response) if response.code == -32700 => {}
        Some(ErrorResponse { frame, code, .. }) => {
            let detail = format!("expected error -32700, got error {code}");
            harness.fail_at(&PARSE_ERROR_ANSWER, frame.location.clone(), &frame.bytes, detail);
        }
    }
    true
}

/// Sends a malformed message, given by its name, its members, and the error codes that are right for it.
async fn malformed_message(
    harness: &mut Harness,
    connection: &mut ServerConnection,
    (message, members, codes): &(&str, &str, &[i64]),
) -> bool {
    let id = connection.next_id().to_string();
    connection.claim(&id);
    let members = members.replace("METHOD", connection.liveness_method());
    let line = format!("{{\"id\":{id},{members}}}");
    connection.send(format!("{line}\n").as_bytes()).await;
    let sent = connection.location();
    let (frames, works) = connection.drain_until_liveness(|frame| response_code(frame, &id).is_some()).await;
    harness.recording.ledger().inspected(&ENVELOPE_VALIDATION);
    let expected = codes.iter().map(ToString::to_string).collect::<Vec<_>>().join(" or ");
    let detail = |got: &str| format!("{message}: expected error {expected}, got {got}");
    match frames.iter().find_map(|frame| response_code(frame, &id).map(|code| (frame, code))) {
        None if !works && harness.skip_if_exited(&ENVELOPE_VALIDATION, connection) => {}
        None => {
            let got = match works {
                true => "no response".to_owned(),
                false => format!("no response: {}", why_unresponsive(connection)),
            };
            harness.fail_missing(&ENVELOPE_VALIDATION, sent, line.as_bytes(), detail(&got));
        }
        Some((_, Some(code))) if codes.contains(&code) => {}
        Some((frame, code)) => {
            let got = code.map_or("a result".to_owned(), |code| format!("error {code}"));
            harness.fail_at(&ENVELOPE_VALIDATION, frame.location.clone(), &frame.bytes, detail(&got));
        }
    }
    works
}

async fn split_input(harness: &mut Harness, connection: &mut ServerConnection) -> bool {
    let note = json!({"_meta": {"com.example/note": "Zürich, in pieces"}});
    let (line, id) = connection.request_line(connection.liveness_method(), note);
    connection.claim(&id);
    let line = format!("{line}\n").into_bytes();
    let inside = line.iter().position(|b| *b == 0xc3).map_or(line.len() / 2, |at| at + 1);
    for part in [&line[..9], &line[9..inside], &line[inside..]] {
        connection.send(part).await;
        sleep(PAUSE).await;
    }
    let outcome = connection.wait_for_response(&id).await;
    expect_result(harness, &SPLIT_INPUT, connection, &outcome)
}

async fn coalesced_input(harness: &mut Harness, connection: &mut ServerConnection) -> bool {
    let mut text = String::new();
    let mut missing = Vec::new();
    for _ in 0..COALESCED_REQUESTS {
        let (line, id) = connection.request_line(connection.liveness_method(), json!({}));
        connection.claim(&id);
        text.push_str(&line);
        text.push('\n');
        missing.push(id);
    }
    connection.send(text.as_bytes()).await;
    let mut deadline = connection.response_deadline();
    while !missing.is_empty()
        && let Some(frame) = connection.next_frame(deadline).await
    {
        // An error without an id counts as the response to one of the requests. Each response extends the deadline.
        if let Some(at) = missing.iter().position(|id| response_code(&frame, id).is_some()) {
            missing.remove(at);
            deadline = connection.response_deadline();
        }
    }
    harness.recording.ledger().inspected(&COALESCED_INPUT);
    let works = missing.is_empty();
    if !works && connection.is_closed {
        fail_unresponsive(harness, &COALESCED_INPUT, connection);
    } else if !works {
        let detail = format!("{} of {COALESCED_REQUESTS} requests in one write got no response", missing.len());
        harness.fail(&COALESCED_INPUT, connection, None, detail);
    }
    works
}

async fn crlf(harness: &mut Harness, connection: &mut ServerConnection) -> bool {
    let (line, id) = connection.request_line(connection.liveness_method(), json!({}));
    connection.claim(&id);
    connection.send(format!("{line}\r\n").as_bytes()).await;
    let outcome = connection.wait_for_response(&id).await;
    expect_result(harness, &CRLF_INPUT, connection, &outcome)
}

async fn blank_lines(harness: &mut Harness, connection: &mut ServerConnection) -> bool {
    connection.error_without_id = None;
    connection.send(b"\n\r\n\n").await;
    let works = connection.still_answers().await;
    connection.wait_until_quiet().await;
    harness.recording.ledger().inspected(&BLANK_LINES);
    if !works {
        fail_unresponsive(harness, &BLANK_LINES, connection);
    } else if let Some(ErrorResponse { frame, code, .. }) = &connection.error_without_id {
        let detail = format!("expected no response, got error {code}");
        harness.fail_at(&BLANK_LINES, frame.location.clone(), &frame.bytes, detail);
    }
    works
}

async fn stray_cancellations(harness: &mut Harness, connection: &mut ServerConnection) -> bool {
    let answered = connection.send_request(connection.liveness_method(), json!({})).await;
    connection.claim(&answered);
    connection.wait_for_response(&answered).await;
    let answered: Value = serde_json::from_str(&answered).unwrap_or_default();
    for params in [json!({"requestId": 987_654}), json!({"requestId": answered}), json!({})] {
        connection.notify("notifications/cancelled", params).await;
    }
    let works = connection.still_answers().await;
    connection.wait_until_quiet().await;
    harness.recording.ledger().inspected(&CANCELLATION);
    if !works {
        fail_unresponsive(harness, &CANCELLATION, connection);
    }
    works
}

/// Sends a request with this JSON text in its metadata, and checks that the server still answers after it.
async fn survives(
    harness: &mut Harness,
    connection: &mut ServerConnection,
    check: &'static Check,
    note: &[u8],
) -> bool {
    let id = connection.next_id().to_string();
    connection.claim(&id);
    // Removes the closing brace of the metadata, so that a member can be added.
    let meta = connection.with_meta(json!({"_meta": {}}))["_meta"].to_string();
    let meta = meta.strip_suffix('}').unwrap_or(&meta);
    let comma = if meta.len() > 1 { "," } else { "" };
    let method = connection.liveness_method();
    let start = format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"{method}\",\"params\":{{\"_meta\":");
    let start = format!("{start}{meta}{comma}\"com.example/note\":");
    connection.error_without_id = None;
    connection.send(&[start.as_bytes(), note, b"}}}\n"].concat()).await;
    let must_answer = check == &LARGE_MESSAGE;
    let outcome = if must_answer { Some(connection.wait_for_response(&id).await) } else { None };
    let works = connection.still_answers().await;
    harness.recording.ledger().inspected(check);
    match outcome {
        _ if !works => fail_unresponsive(harness, check, connection),
        // A server that cannot read the message may be unable to read its id, so the error may have no id.
        Some(RequestOutcome::NoResponse) if connection.error_without_id.is_some() => {}
        Some(outcome @ (RequestOutcome::NoResponse | RequestOutcome::Disconnected)) => {
            harness.fail(check, connection, None, format!("expected a response, got {}", outcome.describe()));
        }
        _ => {}
    }
    works
}

/// Checks that the outcome is a result, and returns whether the connection still works.
fn expect_result(
    harness: &Harness,
    check: &'static Check,
    connection: &ServerConnection,
    outcome: &RequestOutcome,
) -> bool {
    harness.recording.ledger().inspected(check);
    // A server that lacks the method of the light request, such as ping, answers the request with an error.
    let is_light = || ![&PING, &MODERN_DISCOVER].iter().any(|check| harness.recording.ledger().has_failed(check));
    match outcome {
        RequestOutcome::Result(..) => true,
        RequestOutcome::Error(_) if !is_light() => true,
        RequestOutcome::Disconnected => {
            fail_unresponsive(harness, check, connection);
            false
        }
        outcome => {
            harness.fail(check, connection, Some(outcome), format!("expected a result, got {}", outcome.describe()));
            matches!(outcome, RequestOutcome::Error(_))
        }
    }
}

/// Reports that the server stopped answering, unless `stays-alive` already reports that the process exits.
fn fail_unresponsive(harness: &Harness, check: &'static Check, connection: &ServerConnection) {
    if !harness.skip_if_exited(check, connection) {
        harness.fail(check, connection, None, why_unresponsive(connection));
    }
}

/// Returns a JSON string of [`LARGE`] bytes, including the quotes.
fn large_note() -> Vec<u8> {
    let mut note = vec![b'x'; LARGE];
    note[0] = b'"';
    note[LARGE - 1] = b'"';
    note
}

/// Returns the error code in the response to `id` or in an error without an id; `Some(None)` for a result, and `None`
/// for any other message.
fn response_code(frame: &LocatedFrame, id: &str) -> Option<Option<i64>> {
    let message = frame.json()?;
    let code = message.member("error").map(code);
    match message.member("id").map(Json::kind) {
        Some(_) if is_response_to(message, id) => Some(code),
        None | Some(Kind::Null) if code.is_some() => Some(code),
        _ => None,
    }
}

fn why_unresponsive(connection: &ServerConnection) -> String {
    match (connection.exited(), connection.is_closed) {
        (Some(Exited::Code(code)), _) => format!("the process exited with code {code}"),
        (Some(Exited::Signal(signal)), _) => format!("signal {signal} ended the process"),
        (None, true) => "the process closed its stdout".to_owned(),
        (None, false) => "the server does not answer any more".to_owned(),
    }
}

/// Malformed messages: the name of each, its members, and the error codes that are right for it.
const MALFORMED_MESSAGES: &[(&str, &str, &[i64])] = &[
    ("a request without jsonrpc", r#""method":"METHOD""#, &[-32600]),
    ("a request with jsonrpc 1.0", r#""jsonrpc":"1.0","method":"METHOD""#, &[-32600]),
    ("a request with a number as method", r#""jsonrpc":"2.0","method":7"#, &[-32600]),
    ("a request with a string as params", r#""jsonrpc":"2.0","method":"METHOD","params":"x""#, &[-32600, -32602]),
    ("a message with neither method nor result", r#""jsonrpc":"2.0""#, &[-32600]),
];
/// The start of a request, which is not valid JSON.
const BROKEN_JSON: &[u8] = br#"{"jsonrpc":"2.0","id":991,"method":"#;
/// The pause between two parts of a message, so that the server reads them separately.
const PAUSE: Duration = Duration::from_millis(25);
/// The number of requests in one write; more than a small buffer of lines can hold.
const COALESCED_REQUESTS: usize = 20;
/// The maximum time to wait for a response after a later request is answered.
const REORDERING_TIME: Duration = Duration::from_secs(1);
/// The length in bytes of the string in the large message; about the size of a picture.
const LARGE: usize = 1024 * 1024;
/// The number of nested arrays. A parser that uses 84 bytes of stack for each array overflows a stack of 8 MiB.
const DEPTH: usize = 100_000;
