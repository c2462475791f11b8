//! Input that no well-behaved client sends: broken and partial lines, invalid UTF-8, very large and very deep messages.

use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;

use barewire_proto::json::{Json, Kind};
use barewire_proto::mcp::{Era, Revision};
use serde_json::{Value, json};
use tokio::time::sleep;

use super::connection::{Exited, ServerConnection};
use super::harness::{Harness, Probe};
use super::outcome::{ErrorResponse, RequestOutcome, code, is_response_to};
use super::recording::LocatedFrame;
use crate::check::catalogue::envelope::{EMPTY_ARRAY, ENVELOPE_VALIDATION, PARSE_ERROR_ANSWER, PARSE_ERROR_RECOVERY};
use crate::check::catalogue::flow::CANCELLATION;
use crate::check::catalogue::framing::{
    BLANK_LINES, COALESCED_INPUT, CRLF_INPUT, DEEP_NESTING, INVALID_UTF8, LARGE_MESSAGE, LINE_SEPARATORS, SPLIT_INPUT,
};
use crate::check::catalogue::{Check, CheckPlace, all};
use crate::check::excerpt::{Excerpt, Fault};
use crate::{Advice, Error};

pub(super) fn probes(harness: &Harness, era: Era) -> Vec<Probe<'_>> {
    if !harness.may_be_hostile() {
        for check in all().filter(|check| check.hostile && check.runs_on(CheckPlace::Http)) {
            harness.skip_forbidden(check, "it sends hostile input", Advice::AllowHostile);
        }
        return Vec::new();
    }
    let mut probes = Vec::new();
    // These probes are about lines, which HTTP does not have. There, `BrokenMessage` sends what is not JSON.
    if !harness.is_http() {
        let mut broken = vec![Step::new(OF_BROKEN, BROKEN, Input::Broken)];
        let malformed = MALFORMED_MESSAGES.iter();
        broken
            .extend(malformed.map(|it| Step::new(&[&ENVELOPE_VALIDATION], "malformed messages", Input::Malformed(it))));
        broken.push(Step::new(&[&EMPTY_ARRAY], "an empty array", Input::EmptyArray));
        let lines = vec![
            Step::new(&[&SPLIT_INPUT], "a message in parts", Input::Split),
            Step::new(&[&COALESCED_INPUT], "many messages at once", Input::Coalesced),
            Step::new(&[&CRLF_INPUT], "CRLF", Input::Crlf),
            Step::new(&[&LINE_SEPARATORS], "line separators of Unicode", Input::Separators),
            Step::new(&[&BLANK_LINES], "blank lines", Input::Blank),
            Step::new(&[&CANCELLATION], "stray cancellations", Input::StrayCancellations),
        ];
        probes.push(harness.side(run(harness, era, broken)));
        probes.push(harness.side(run(harness, era, lines)));
    }
    for (check, subject) in [
        (&LARGE_MESSAGE, "a large message"),
        (&DEEP_NESTING, "deep nesting"),
        (&INVALID_UTF8, "bytes that are not UTF-8"),
    ] {
        let step = Step { checks: vec![check], subject, input: Input::Note(check) };
        probes.push(harness.side(run(harness, era, vec![step])));
    }
    probes
}

/// Input to send, and the checks that judge the reaction to it.
struct Step {
    checks: Vec<&'static Check>,
    subject: &'static str,
    input: Input,
}

enum Input {
    Broken,
    Malformed(&'static MalformedMessage),
    EmptyArray,
    Split,
    Coalesced,
    Crlf,
    Separators,
    Blank,
    StrayCancellations,
    /// A request with a value in its metadata that may be too much for this check's server.
    Note(&'static Check),
}

impl Step {
    fn new(checks: &[&'static Check], subject: &'static str, input: Input) -> Self {
        Self { checks: checks.to_vec(), subject, input }
    }

    /// Sends the input. Returns whether the connection still works.
    async fn send(&self, harness: &Harness, connection: &mut ServerConnection) -> bool {
        match self.input {
            Input::Broken => broken_json(harness, connection).await,
            Input::Malformed(message) => malformed_message(harness, connection, message).await,
            Input::EmptyArray => empty_array(harness, connection).await,
            Input::Split => split_input(harness, connection).await,
            Input::Coalesced => coalesced_input(harness, connection).await,
            Input::Crlf => crlf(harness, connection).await,
            Input::Separators => line_separators(harness, connection).await,
            Input::Blank => blank_lines(harness, connection).await,
            Input::StrayCancellations => stray_cancellations(harness, connection).await,
            Input::Note(check) => survives(harness, connection, check, &note(check)).await,
        }
    }

    async fn run_alone(self, harness: &Harness, era: Era) -> Result<(), Error> {
        let _subject = harness.progress(self.subject);
        let Some(mut connection) = harness.connect(era, true).await? else {
            harness.not_restarted(&self.checks);
            return Ok(());
        };
        self.send(harness, &mut connection).await;
        harness.close(connection).await;
        Ok(())
    }
}

/// Runs steps one after the other on one connection. After one that the connection does not survive, the others run at
/// once, each on its own connection, so that several missing responses take no longer than one.
async fn run(harness: &Harness, era: Era, steps: Vec<Step>) -> Result<(), Error> {
    let mut steps = steps.into_iter().filter(|step| harness.wants(&step.checks)).collect::<VecDeque<_>>();
    let Some(first) = steps.front() else { return Ok(()) };
    let subject = harness.progress(first.subject);
    let Some(mut connection) = harness.connect(era, true).await? else {
        for step in &steps {
            harness.not_restarted(&step.checks);
        }
        return Ok(());
    };
    drop(subject);
    let mut works = true;
    while works && let Some(step) = steps.pop_front() {
        let _subject = harness.progress(step.subject);
        works = step.send(harness, &mut connection).await;
        if !works {
            // One finding is enough for messages of the same kind.
            steps.retain(|other| other.checks != step.checks);
        }
    }
    harness.close(connection).await;
    let rest = steps.into_iter().map(|step| -> Probe<'_> { Box::pin(step.run_alone(harness, era)) });
    harness.run_all(rest.collect()).await
}

async fn broken_json(harness: &Harness, connection: &mut ServerConnection) -> bool {
    connection.error_without_id = None;
    connection.send(&[BROKEN_JSON, b"\n"].concat()).await;
    let sent = connection.last_sent();
    if !survives_broken(harness, connection, sent.as_ref()).await {
        return false;
    }
    if connection.error_without_id.is_none() {
        // Responses may arrive in any order, so the error may still follow.
        connection.drain_for(REORDERING_TIME).await;
    }
    judge_broken(harness, connection, sent);
    true
}

/// What is not JSON, sent over HTTP. The server has answered another request since, so other probes may run.
pub(super) struct BrokenMessage {
    connection: ServerConnection,
    sent: Option<Excerpt>,
}

impl BrokenMessage {
    /// Sends the message, and another request after it; `None` if nothing is left to judge.
    pub(super) async fn send(harness: &Harness, era: Era) -> Result<Option<Self>, Error> {
        if !harness.may_be_hostile() || !harness.wants(OF_BROKEN) {
            return Ok(None);
        }
        let _subject = harness.progress(BROKEN);
        let Some(mut connection) = harness.connect(era, true).await? else {
            harness.not_restarted(OF_BROKEN);
            return Ok(None);
        };
        connection.error_without_id = None;
        connection.send(BROKEN_JSON).await;
        let sent = connection.last_sent();
        // HTTP exchanges run in parallel, so the next request could overtake the broken message.
        connection.drain_for(REORDERING_TIME).await;
        if !survives_broken(harness, &mut connection, sent.as_ref()).await {
            harness.close(connection).await;
            return Ok(None);
        }
        Ok(Some(Self { connection, sent }))
    }

    /// Waits for the response, and judges it.
    pub(super) async fn finish(self, harness: &Harness) {
        let _subject = harness.progress(BROKEN);
        let Self { mut connection, sent } = self;
        if connection.error_without_id.is_none() {
            connection.drain_for(harness.patience).await;
        }
        judge_broken(harness, &connection, sent);
        harness.close(connection).await;
    }
}

/// Whether the server still answers after what is not JSON.
async fn survives_broken(harness: &Harness, connection: &mut ServerConnection, sent: Option<&Excerpt>) -> bool {
    let works = connection.still_answers().await;
    connection.wait_until_quiet().await;
    harness.recording.ledger().inspected(&PARSE_ERROR_RECOVERY);
    if !works {
        let why = why_unresponsive(connection);
        harness.fail_missing(&PARSE_ERROR_RECOVERY, connection, sent.cloned(), why);
    }
    works
}

fn judge_broken(harness: &Harness, connection: &ServerConnection, sent: Option<Excerpt>) {
    harness.recording.ledger().inspected(&PARSE_ERROR_ANSWER);
    match &connection.error_without_id {
        None => {
            let detail = "expected error -32700, got no response";
            harness.fail_missing(&PARSE_ERROR_ANSWER, connection, sent, detail);
        }
        Some(response) if response.code == -32700 => {}
        Some(ErrorResponse { frame, code, .. }) => {
            let detail = format!("expected error -32700, got error {code}");
            fail_answer(harness, &PARSE_ERROR_ANSWER, frame, sent, detail);
        }
    }
}

/// Sends a malformed message, given by its name, its members, and the error codes that are right for it.
async fn malformed_message(
    harness: &Harness,
    connection: &mut ServerConnection,
    MalformedMessage(message, members, codes): &MalformedMessage,
) -> bool {
    let id = connection.next_id().to_string();
    connection.claim(&id);
    let members = members.replace("METHOD", connection.liveness_method());
    let line = format!("{{\"id\":{id},{members}}}");
    connection.send(format!("{line}\n").as_bytes()).await;
    let sent = connection.last_sent();
    let (frames, works) = connection.drain_until_liveness(|frame| response_code(frame, &id).is_some()).await;
    harness.recording.ledger().inspected(&ENVELOPE_VALIDATION);
    let expected = codes.iter().map(ToString::to_string).collect::<Vec<_>>().join(" or ");
    let detail = |got: &str| format!("{message}: expected error {expected}, got {got}");
    match frames.iter().find_map(|frame| response_code(frame, &id).map(|code| (frame, code))) {
        None => {
            let got = match works {
                true => "no response".to_owned(),
                false => format!("no response: {}", why_unresponsive(connection)),
            };
            harness.fail_missing(&ENVELOPE_VALIDATION, connection, sent, detail(&got));
        }
        Some((_, Some(code))) if codes.contains(&code) => {}
        Some((frame, code)) => {
            let got = code.map_or("a result".to_owned(), |code| format!("error {code}"));
            fail_answer(harness, &ENVELOPE_VALIDATION, frame, sent, detail(&got));
        }
    }
    works
}

async fn split_input(harness: &Harness, connection: &mut ServerConnection) -> bool {
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

async fn coalesced_input(harness: &Harness, connection: &mut ServerConnection) -> bool {
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

async fn crlf(harness: &Harness, connection: &mut ServerConnection) -> bool {
    let (line, id) = connection.request_line(connection.liveness_method(), json!({}));
    connection.claim(&id);
    connection.send(format!("{line}\r\n").as_bytes()).await;
    let outcome = connection.wait_for_response(&id).await;
    expect_result(harness, &CRLF_INPUT, connection, &outcome)
}

/// Sends a request with the characters at which some functions that split text into lines split it too.
async fn line_separators(harness: &Harness, connection: &mut ServerConnection) -> bool {
    let note = json!({"_meta": {"com.example/note": "a\u{2028}b\u{2029}c\u{85}d"}});
    let (line, id) = connection.request_line(connection.liveness_method(), note);
    connection.claim(&id);
    connection.error_without_id = None;
    connection.send(format!("{line}\n").as_bytes()).await;
    let sent = connection.last_sent();
    let (frames, works) = connection.drain_until_liveness(|frame| response_code(frame, &id).is_some()).await;
    harness.recording.ledger().inspected(&LINE_SEPARATORS);
    let answer = frames.iter().find_map(|frame| response_code(frame, &id).map(|code| (frame, code)));
    match answer {
        _ if !works => fail_unresponsive(harness, &LINE_SEPARATORS, connection),
        Some((_, None)) => {}
        Some((_, Some(code))) if !matches!(code, -32700 | -32600) => {}
        Some((frame, code)) => {
            let detail = format!("expected a result, got error {}", code.unwrap_or_default());
            fail_answer(harness, &LINE_SEPARATORS, frame, sent, detail);
        }
        None => {
            let detail = "expected a result, got no response";
            harness.fail_missing(&LINE_SEPARATORS, connection, sent, detail);
        }
    }
    works
}

/// Sends an array without elements, which is not a batch.
async fn empty_array(harness: &Harness, connection: &mut ServerConnection) -> bool {
    connection.error_without_id = None;
    connection.send(b"[]\n").await;
    let sent = connection.last_sent();
    let is_answer = |frame: &LocatedFrame| frame.json().is_some_and(|it| it.kind() == Kind::Array || is_refusal(it));
    let (frames, works) = connection.drain_until_liveness(is_answer).await;
    harness.recording.ledger().inspected(&EMPTY_ARRAY);
    let answer = frames.iter().find(|frame| is_answer(frame));
    let code = answer.and_then(|frame| frame.json()?.member("error").map(code));
    match (answer, code) {
        _ if !works => fail_unresponsive(harness, &EMPTY_ARRAY, connection),
        (Some(_), Some(-32600 | -32700)) => {}
        (Some(frame), _) => {
            let got = code.map_or("an array".to_owned(), |code| format!("error {code}"));
            let detail = format!("expected error -32600, got {got}");
            fail_answer(harness, &EMPTY_ARRAY, frame, sent, detail);
        }
        (None, _) if connection.revision == Revision::V2025_03_26 => {
            harness.fail_missing(&EMPTY_ARRAY, connection, sent, "expected error -32600, got no response");
        }
        (None, _) => {}
    }
    works
}

/// Whether a message is an error without an id.
fn is_refusal(message: Json<'_>) -> bool {
    message.member("error").is_some() && message.member("id").is_none_or(|id| id.kind() == Kind::Null)
}

async fn blank_lines(harness: &Harness, connection: &mut ServerConnection) -> bool {
    connection.error_without_id = None;
    connection.send(b"\n\r\n\n").await;
    let works = connection.still_answers().await;
    connection.wait_until_quiet().await;
    harness.recording.ledger().inspected(&BLANK_LINES);
    if !works {
        fail_unresponsive(harness, &BLANK_LINES, connection);
    } else if let Some(ErrorResponse { frame, code, .. }) = &connection.error_without_id {
        let detail = format!("expected no response, got error {code}");
        harness.fail_frame(&BLANK_LINES, frame, Fault::Member("/error/code"), detail);
    }
    works
}

async fn stray_cancellations(harness: &Harness, connection: &mut ServerConnection) -> bool {
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
async fn survives(harness: &Harness, connection: &mut ServerConnection, check: &'static Check, note: &[u8]) -> bool {
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
    let mut outcome = if must_answer { connection.response_within(&id, harness.patience).await } else { None };
    let works = connection.still_answers().await;
    if must_answer && outcome.is_none() {
        // A slow server has read the message only now.
        outcome = Some(connection.settled_response(&id).await);
    }
    harness.recording.ledger().inspected(check);
    match outcome {
        _ if !works => fail_unresponsive(harness, check, connection),
        // A server that cannot read the message may be unable to read its id, so the error may have no id.
        Some(RequestOutcome::NoResponse(_)) if connection.error_without_id.is_some() => {}
        Some(outcome @ (RequestOutcome::NoResponse(_) | RequestOutcome::Disconnected(_))) => {
            harness.fail(check, connection, Some(&outcome), format!("expected a response, got {}", outcome.describe()));
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
    match outcome {
        RequestOutcome::Result(..) => true,
        // A server that lacks the method of the light request, such as ping, has understood the request too.
        RequestOutcome::Error(response) if !matches!(response.code, -32700 | -32600) => true,
        RequestOutcome::Disconnected(_) => {
            fail_unresponsive(harness, check, connection);
            false
        }
        outcome => {
            harness.fail(check, connection, Some(outcome), format!("expected a result, got {}", outcome.describe()));
            matches!(outcome, RequestOutcome::Error(_))
        }
    }
}

/// Reports a wrong answer to what was sent. The answer may have no id, so that it is not known as a response.
fn fail_answer(
    harness: &Harness,
    check: &'static Check,
    frame: &LocatedFrame,
    sent: Option<Excerpt>,
    detail: impl Into<String>,
) {
    let frame = LocatedFrame { request: sent.map(Rc::new), ..frame.clone() };
    let is_error = frame.json().is_some_and(|message| message.member("error").is_some());
    let fault = if is_error { "/error/code" } else { "/result" };
    harness.fail_frame(check, &frame, Fault::Member(fault), detail);
}

fn fail_unresponsive(harness: &Harness, check: &'static Check, connection: &ServerConnection) {
    harness.fail(check, connection, None, why_unresponsive(connection));
}

/// Returns the JSON text, or almost JSON text, that is too much for some servers.
fn note(check: &Check) -> Vec<u8> {
    if check == &DEEP_NESTING {
        return [vec![b'['; DEPTH], vec![b']'; DEPTH]].concat();
    }
    if check == &INVALID_UTF8 {
        return b"\"caf\xe9 \xff\"".to_vec();
    }
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

/// A malformed message: its name, its members, and the error codes that are right for it.
struct MalformedMessage(&'static str, &'static str, &'static [i64]);

const MALFORMED_MESSAGES: &[MalformedMessage] = &[
    MalformedMessage("a request without jsonrpc", r#""method":"METHOD""#, &[-32600]),
    MalformedMessage("a request with jsonrpc 1.0", r#""jsonrpc":"1.0","method":"METHOD""#, &[-32600]),
    MalformedMessage("a request with a number as method", r#""jsonrpc":"2.0","method":7"#, &[-32600]),
    MalformedMessage(
        "a request with a string as params",
        r#""jsonrpc":"2.0","method":"METHOD","params":"x""#,
        &[-32600, -32602],
    ),
    MalformedMessage("a message with neither method nor result", r#""jsonrpc":"2.0""#, &[-32600]),
];
/// The checks of what is not JSON, and its name in the progress.
const OF_BROKEN: &[&Check] = &[&PARSE_ERROR_RECOVERY, &PARSE_ERROR_ANSWER];
const BROKEN: &str = "a line that is not JSON";
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
