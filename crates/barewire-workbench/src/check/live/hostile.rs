//! What no well-behaved client sends: broken lines, pieces of lines, bytes that are no text, too much of everything.

use std::time::Duration;

use barewire_proto::mcp::Era;
use serde_json::json;
use tokio::time::sleep;

use super::connection::ServerConnection;
use super::harness::Harness;
use super::outcome::{RequestOutcome, code, is_answer};
use super::recording::LocatedFrame;
use crate::Error;
use crate::check::catalogue::Check;
use crate::check::catalogue::envelope::{ENVELOPE_VALIDATION, PARSE_ERROR_ANSWER, PARSE_ERROR_RECOVERY};
use crate::check::catalogue::flow::CANCELLATION;
use crate::check::catalogue::framing::{
    BLANK_LINES, COALESCED_INPUT, CRLF_INPUT, DEEP_NESTING, INVALID_UTF8, LARGE_MESSAGE, SPLIT_INPUT,
};
use crate::check::catalogue::methods::PING;
use crate::check::catalogue::modern::MODERN_DISCOVER;

pub(super) async fn run(harness: &mut Harness, era: Era) -> Result<(), Error> {
    let mut probe = HostileProbe { harness, era, connection: None };
    probe.broken_json().await?;
    probe.envelopes().await?;
    probe.pieces().await?;
    probe.at_once().await?;
    probe.crlf().await?;
    probe.blank().await?;
    probe.cancels().await?;
    probe.survives(&LARGE_MESSAGE, "a large message", large).await?;
    probe.survives(&DEEP_NESTING, "deep nesting", deep).await?;
    probe.survives(&INVALID_UTF8, "bytes that are not UTF-8", not_utf8).await?;
    probe.done().await;
    Ok(())
}

/// The same over HTTP, as far as it means anything there; what is cut into lines does not.
pub(super) async fn over_http(harness: &mut Harness, era: Era) -> Result<(), Error> {
    let mut probe = HostileProbe { harness, era, connection: None };
    probe.broken_json().await?;
    probe.survives(&LARGE_MESSAGE, "a large message", large).await?;
    probe.survives(&DEEP_NESTING, "deep nesting", deep).await?;
    probe.survives(&INVALID_UTF8, "bytes that are not UTF-8", not_utf8).await?;
    probe.done().await;
    Ok(())
}

/// A connection that is taken for one thing after the other as long as it holds.
struct HostileProbe<'a> {
    harness: &'a mut Harness,
    era: Era,
    connection: Option<ServerConnection>,
}

impl HostileProbe<'_> {
    /// A connection that works, for these checks; `None` if they are not wanted or none can be had.
    async fn ready(&mut self, checks: &[&'static Check], what: &str) -> Result<Option<ServerConnection>, Error> {
        if !self.harness.wants(checks) {
            return Ok(None);
        }
        self.harness.progress(what);
        if let Some(connection) = self.connection.take() {
            return Ok(Some(connection));
        }
        let connection = self.harness.connect(self.era, true).await?;
        if connection.is_none() {
            for check in checks {
                self.harness.recording.incomplete(check, "the server did not answer when it was started again");
            }
        }
        Ok(connection)
    }

    /// Keeps a connection that still works for the next.
    async fn keep(&mut self, connection: ServerConnection, works: bool) {
        if works {
            self.connection = Some(connection);
        } else {
            self.harness.close(connection).await;
        }
    }

    async fn done(&mut self) {
        if let Some(connection) = self.connection.take() {
            self.harness.close(connection).await;
        }
    }

    /// Nobody answers any more. That a program ends by itself, as it does elsewhere as well, is told there.
    fn lost(&self, check: &'static Check, connection: &ServerConnection) {
        if !self.harness.skip_if_exited(check, connection) {
            self.harness.fail(check, connection, None, gone(connection));
        }
    }

    async fn broken_json(&mut self) -> Result<(), Error> {
        let checks: &[&'static Check] = &[&PARSE_ERROR_RECOVERY, &PARSE_ERROR_ANSWER];
        let Some(mut connection) = self.ready(checks, "a line that is no JSON").await? else { return Ok(()) };
        connection.errors_without_id.clear();
        connection.send(&[JUNK, b"\n"].concat()).await;
        if self.harness.is_http() {
            // Exchanges go on beside each other: the next could be there first.
            connection.drain_for(self.harness.patience).await;
        }
        let sent = connection.location();
        let works = connection.still_answers().await;
        connection.wait_until_quiet().await;
        if works && connection.errors_without_id.is_empty() {
            // Answers come in any order.
            connection.drain_for(LATER).await;
        }
        let harness = &*self.harness;
        harness.recording.inspected(&PARSE_ERROR_RECOVERY);
        if !works {
            if !harness.skip_if_exited(&PARSE_ERROR_RECOVERY, &connection) {
                harness.fail_missing(&PARSE_ERROR_RECOVERY, sent, JUNK, gone(&connection));
            }
        } else {
            harness.recording.inspected(&PARSE_ERROR_ANSWER);
            match connection.errors_without_id.first() {
                None => harness.fail_missing(&PARSE_ERROR_ANSWER, sent, JUNK, "nothing comes for it"),
                Some(response) if response.code == -32700 => {}
                Some(response) => {
                    let detail = format!("the error {} comes for it", response.code);
                    harness.fail(
                        &PARSE_ERROR_ANSWER,
                        &connection,
                        Some(&RequestOutcome::Error(response.clone())),
                        detail,
                    );
                }
            }
        }
        self.keep(connection, works).await;
        Ok(())
    }

    /// Messages of the wrong shape, each with what is wrong and the codes that say so.
    async fn envelopes(&mut self) -> Result<(), Error> {
        let shapes: &[(&str, &str, &[i64])] = &[
            ("a request without jsonrpc", r#""method":"METHOD""#, &[-32600]),
            ("a request of jsonrpc 1.0", r#""jsonrpc":"1.0","method":"METHOD""#, &[-32600]),
            ("a method that is a number", r#""jsonrpc":"2.0","method":7"#, &[-32600]),
            ("params that are a string", r#""jsonrpc":"2.0","method":"METHOD","params":"x""#, &[-32600, -32602]),
            ("a message with nothing to do", r#""jsonrpc":"2.0""#, &[-32600]),
        ];
        for (what, members, codes) in shapes {
            let checks: &[&'static Check] = &[&ENVELOPE_VALIDATION];
            let Some(mut connection) = self.ready(checks, "messages of the wrong shape").await? else {
                return Ok(());
            };
            connection.errors_without_id.clear();
            let id = connection.next_id().to_string();
            connection.claim(&id);
            let members = members.replace("METHOD", connection.liveness_method());
            let line = format!("{{\"id\":{id},{members}}}");
            connection.send(format!("{line}\n").as_bytes()).await;
            let sent = connection.location();
            let (frames, works) = connection.drain_until_liveness().await;
            let harness = &*self.harness;
            harness.recording.inspected(&ENVELOPE_VALIDATION);
            let answer = frames.iter().find_map(|line| answers(line, &id));
            match answer {
                None if !works && harness.skip_if_exited(&ENVELOPE_VALIDATION, &connection) => {}
                None => {
                    let why = if works { "nothing comes for it".to_owned() } else { gone(&connection) };
                    harness.fail_missing(&ENVELOPE_VALIDATION, sent, line.as_bytes(), format!("{what}: {why}"));
                }
                Some((line, None)) => {
                    let detail = format!("{what}: it is answered with a result");
                    harness.fail_at(&ENVELOPE_VALIDATION, line.location.clone(), &line.bytes, detail);
                }
                Some((_, Some(code))) if codes.contains(&code) => {}
                Some((line, Some(code))) => {
                    let detail = format!("{what}: it is answered with {code}");
                    harness.fail_at(&ENVELOPE_VALIDATION, line.location.clone(), &line.bytes, detail);
                }
            }
            self.keep(connection, works).await;
            if !works {
                break;
            }
        }
        Ok(())
    }

    async fn pieces(&mut self) -> Result<(), Error> {
        let Some(mut connection) = self.ready(&[&SPLIT_INPUT], "a message in pieces").await? else { return Ok(()) };
        let (line, id) = connection.line(connection.liveness_method(), noted("Zürich, in pieces"));
        connection.claim(&id);
        let line = format!("{line}\n").into_bytes();
        let inside = line.iter().position(|b| *b == 0xc3).map_or(line.len() / 2, |at| at + 1);
        for piece in [&line[..9], &line[9..inside], &line[inside..]] {
            connection.send(piece).await;
            sleep(PAUSE).await;
        }
        let answer = connection.wait_for_response(&id).await;
        let works = self.expect(&SPLIT_INPUT, &mut connection, &answer).await;
        self.keep(connection, works).await;
        Ok(())
    }

    /// Notes whether a result inbox; and says whether the connection is still good.
    async fn expect(
        &mut self,
        check: &'static Check,
        connection: &mut ServerConnection,
        answer: &RequestOutcome,
    ) -> bool {
        self.harness.recording.inspected(check);
        match answer {
            RequestOutcome::Result(..) => true,
            // Nothing better can come of a server without ping.
            RequestOutcome::Error(_)
                if self.harness.recording.has_failed(&PING) || self.harness.recording.has_failed(&MODERN_DISCOVER) =>
            {
                true
            }
            RequestOutcome::Disconnected => {
                self.lost(check, connection);
                false
            }
            answer => {
                self.harness.fail(check, connection, Some(answer), format!("{} comes for it", answer.describe()));
                matches!(answer, RequestOutcome::Error(_))
            }
        }
    }

    async fn at_once(&mut self) -> Result<(), Error> {
        let Some(mut connection) = self.ready(&[&COALESCED_INPUT], "many messages at once").await? else {
            return Ok(());
        };
        let mut text = String::new();
        let mut missing = Vec::new();
        for _ in 0..AT_ONCE {
            let (line, id) = connection.line(connection.liveness_method(), json!({}));
            connection.claim(&id);
            text.push_str(&line);
            text.push('\n');
            missing.push(id);
        }
        connection.send(text.as_bytes()).await;
        let mut deadline = connection.deadline_for_answer();
        while !missing.is_empty()
            && let Some(line) = connection.next_frame(deadline).await
        {
            // An error without an id is for one of them; and who has answered one has time for the next.
            if let Some(at) = missing.iter().position(|id| answers(&line, id).is_some()) {
                missing.remove(at);
                deadline = connection.deadline_for_answer();
            }
        }
        self.harness.recording.inspected(&COALESCED_INPUT);
        if !missing.is_empty() && connection.is_over() {
            self.lost(&COALESCED_INPUT, &connection);
        } else if !missing.is_empty() {
            let detail = format!("of {AT_ONCE} requests {} are not answered", missing.len());
            self.harness.fail(&COALESCED_INPUT, &connection, None, detail);
        }
        let works = missing.is_empty();
        self.keep(connection, works).await;
        Ok(())
    }

    async fn crlf(&mut self) -> Result<(), Error> {
        let Some(mut connection) = self.ready(&[&CRLF_INPUT], "CRLF").await? else { return Ok(()) };
        let (line, id) = connection.line(connection.liveness_method(), json!({}));
        connection.claim(&id);
        connection.errors_without_id.clear();
        connection.send(format!("{line}\r\n").as_bytes()).await;
        let answer = connection.wait_for_response(&id).await;
        let works = self.expect(&CRLF_INPUT, &mut connection, &answer).await;
        self.keep(connection, works).await;
        Ok(())
    }

    async fn blank(&mut self) -> Result<(), Error> {
        let Some(mut connection) = self.ready(&[&BLANK_LINES], "blank lines").await? else { return Ok(()) };
        connection.errors_without_id.clear();
        connection.send(b"\n\r\n\n").await;
        let works = connection.still_answers().await;
        connection.wait_until_quiet().await;
        self.harness.recording.inspected(&BLANK_LINES);
        match connection.errors_without_id.first() {
            _ if !works => self.lost(&BLANK_LINES, &connection),
            Some(response) => {
                let detail = format!("the error {} comes for it", response.code);
                self.harness.fail(&BLANK_LINES, &connection, Some(&RequestOutcome::Error(response.clone())), detail);
            }
            None => {}
        }
        self.keep(connection, works).await;
        Ok(())
    }

    async fn cancels(&mut self) -> Result<(), Error> {
        let Some(mut connection) = self.ready(&[&CANCELLATION], "cancels for nothing").await? else {
            return Ok(());
        };
        let done = connection.send_request(connection.liveness_method(), json!({})).await;
        connection.claim(&done);
        connection.wait_for_response(&done).await;
        let answered: serde_json::Value = serde_json::from_str(&done).unwrap_or_default();
        for params in [json!({"requestId": 987_654}), json!({"requestId": answered}), json!({})] {
            connection.notify("notifications/cancelled", params).await;
        }
        let works = connection.still_answers().await;
        connection.wait_until_quiet().await;
        self.harness.recording.inspected(&CANCELLATION);
        if !works {
            self.lost(&CANCELLATION, &connection);
        }
        self.keep(connection, works).await;
        Ok(())
    }

    /// Sends something that is hard to take, on a connection of its own, and looks whether the server goes on.
    async fn survives(
        &mut self,
        check: &'static Check,
        what: &str,
        message: fn(&str, &str, &str) -> Vec<u8>,
    ) -> Result<(), Error> {
        self.done().await;
        let Some(mut connection) = self.ready(&[check], what).await? else { return Ok(()) };
        let id = connection.next_id().to_string();
        connection.claim(&id);
        // The metadata without its closing brace, so that a member can be added.
        let meta = connection.with_meta(json!({"_meta": {}}))["_meta"].to_string();
        let meta = meta.strip_suffix('}').unwrap_or(&meta);
        let meta = format!("{meta}{}", if meta.len() > 1 { "," } else { "" });
        connection.errors_without_id.clear();
        connection.send(&message(&id, connection.liveness_method(), &meta)).await;
        let must_answer = check == &LARGE_MESSAGE;
        let answer = if must_answer { Some(connection.wait_for_response(&id).await) } else { None };
        let works = connection.still_answers().await;
        self.harness.recording.inspected(check);
        match answer {
            _ if !works => self.lost(check, &connection),
            // Whoever cannot read it may not be able to read its id either.
            Some(RequestOutcome::NoResponse) if !connection.errors_without_id.is_empty() => {}
            Some(answer @ (RequestOutcome::NoResponse | RequestOutcome::Disconnected)) => {
                self.harness.fail(check, &connection, None, format!("{} comes for it", answer.describe()));
            }
            _ => {}
        }
        self.harness.close(connection).await;
        Ok(())
    }
}

/// Parameters with a note in their metadata, where everything may stand.
fn noted(note: &str) -> serde_json::Value {
    json!({"_meta": {"com.example/note": note}})
}

fn request(id: &str, method: &str, meta: &str, note: &[u8]) -> Vec<u8> {
    let mut line = format!(
        "{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"{method}\",\"params\":{{\"_meta\":{meta}\"com.example/note\":"
    )
    .into_bytes();
    line.extend_from_slice(note);
    line.extend_from_slice(b"}}}\n");
    line
}

fn large(id: &str, method: &str, meta: &str) -> Vec<u8> {
    let mut note = vec![b'x'; LARGE];
    note[0] = b'"';
    note[LARGE - 1] = b'"';
    request(id, method, meta, &note)
}

fn deep(id: &str, method: &str, meta: &str) -> Vec<u8> {
    let note = [vec![b'['; DEEP], vec![b']'; DEEP]].concat();
    request(id, method, meta, &note)
}

fn not_utf8(id: &str, method: &str, meta: &str) -> Vec<u8> {
    request(id, method, meta, b"\"caf\xe9 \xff\"")
}

/// The answer to `id` in a line, or one without an id: its code, if it is an error.
fn answers<'a>(line: &'a LocatedFrame, id: &str) -> Option<(&'a LocatedFrame, Option<i64>)> {
    let value: serde_json::Value = serde_json::from_slice(&line.bytes).ok()?;
    let code = value.get("error").map(code);
    match value.get("id") {
        Some(_) if is_answer(&value, id) => Some((line, code)),
        None | Some(serde_json::Value::Null) if code.is_some() => Some((line, code)),
        _ => None,
    }
}

/// Why nothing comes any more.
fn gone(connection: &ServerConnection) -> String {
    match (connection.exited(), connection.is_over()) {
        (Some(super::connection::Exited::Code(code)), _) => format!("the program exits with code {code}"),
        (Some(super::connection::Exited::Signal(signal)), _) => format!("signal {signal} ends the program"),
        (None, true) => "the program closes its stdout".to_owned(),
        (None, false) => "nothing comes any more".to_owned(),
    }
}

/// No JSON, and without an end no request.
const JUNK: &[u8] = br#"{"jsonrpc":"2.0","id":991,"method":"#;
/// Longer than a read waits for more.
const PAUSE: Duration = Duration::from_millis(25);
/// More than a buffer of ten lines.
const AT_ONCE: usize = 20;
/// An answer that does not come in the order of what was sent comes soon all the same.
const LATER: Duration = Duration::from_secs(1);
/// A picture.
const LARGE: usize = 1024 * 1024;
/// Eight megabytes of stack, at 80 bytes a level.
const DEEP: usize = 100_000;
