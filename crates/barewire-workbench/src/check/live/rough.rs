//! What no well-behaved client sends: broken lines, pieces of lines, bytes that are no text, too much of everything.

use std::time::Duration;

use barewire_proto::mcp::Era;
use serde_json::json;
use tokio::time::sleep;

use super::answer::{Answer, code, is_answer};
use super::lab::Lab;
use super::talk::Talk;
use super::tape::Line;
use crate::Error;
use crate::check::catalogue::Check;
use crate::check::catalogue::envelope::{ENVELOPE_VALIDATION, PARSE_ERROR_ANSWER, PARSE_ERROR_RECOVERY};
use crate::check::catalogue::flow::CANCELLATION;
use crate::check::catalogue::framing::{
    BLANK_LINES, COALESCED_INPUT, CRLF_INPUT, DEEP_NESTING, INVALID_UTF8, LARGE_MESSAGE, SPLIT_INPUT,
};
use crate::check::catalogue::methods::PING;
use crate::check::catalogue::modern::MODERN_DISCOVER;

pub(super) async fn run(lab: &mut Lab, era: Era) -> Result<(), Error> {
    let mut lane = Lane { lab, era, talk: None };
    lane.broken_json().await?;
    lane.envelopes().await?;
    lane.pieces().await?;
    lane.at_once().await?;
    lane.crlf().await?;
    lane.blank().await?;
    lane.cancels().await?;
    lane.survives(&LARGE_MESSAGE, "a large message", large).await?;
    lane.survives(&DEEP_NESTING, "deep nesting", deep).await?;
    lane.survives(&INVALID_UTF8, "bytes that are not UTF-8", not_utf8).await?;
    lane.done().await;
    Ok(())
}

/// The same over HTTP, as far as it means anything there; what is cut into lines does not.
pub(super) async fn over_http(lab: &mut Lab, era: Era) -> Result<(), Error> {
    let mut lane = Lane { lab, era, talk: None };
    lane.broken_json().await?;
    lane.survives(&LARGE_MESSAGE, "a large message", large).await?;
    lane.survives(&DEEP_NESTING, "deep nesting", deep).await?;
    lane.survives(&INVALID_UTF8, "bytes that are not UTF-8", not_utf8).await?;
    lane.done().await;
    Ok(())
}

/// A connection that is taken for one thing after the other as long as it holds.
struct Lane<'a> {
    lab: &'a mut Lab,
    era: Era,
    talk: Option<Talk>,
}

impl Lane<'_> {
    /// A connection that works, for these checks; `None` if they are not wanted or none can be had.
    async fn ready(&mut self, checks: &[&'static Check], what: &str) -> Result<Option<Talk>, Error> {
        if !self.lab.wants(checks) {
            return Ok(None);
        }
        self.lab.progress(what);
        if let Some(talk) = self.talk.take() {
            return Ok(Some(talk));
        }
        let talk = self.lab.fresh(self.era, true).await?;
        if talk.is_none() {
            for check in checks {
                self.lab.tape.incomplete(check, "the server did not answer when it was started again");
            }
        }
        Ok(talk)
    }

    /// Keeps a connection that still works for the next.
    async fn keep(&mut self, talk: Talk, works: bool) {
        if works {
            self.talk = Some(talk);
        } else {
            self.lab.end(talk).await;
        }
    }

    async fn done(&mut self) {
        if let Some(talk) = self.talk.take() {
            self.lab.end(talk).await;
        }
    }

    /// Nobody answers any more. That a program ends by itself, as it does elsewhere as well, is told there.
    fn lost(&self, check: &'static Check, talk: &Talk) {
        if !self.lab.is_told_gone(check, talk) {
            self.lab.fail(check, talk, None, gone(talk));
        }
    }

    async fn broken_json(&mut self) -> Result<(), Error> {
        let checks: &[&'static Check] = &[&PARSE_ERROR_RECOVERY, &PARSE_ERROR_ANSWER];
        let Some(mut talk) = self.ready(checks, "a line that is no JSON").await? else { return Ok(()) };
        talk.orphans.clear();
        talk.send(&[JUNK, b"\n"].concat()).await;
        if self.lab.is_http() {
            // Exchanges go on beside each other: the next could be there first.
            talk.settle(self.lab.patience).await;
        }
        let sent = talk.location();
        let works = talk.goes_on().await;
        talk.quieten().await;
        if works && talk.orphans.is_empty() {
            // Answers come in any order.
            talk.settle(LATER).await;
        }
        let lab = &*self.lab;
        lab.tape.look(&PARSE_ERROR_RECOVERY);
        if !works {
            if !lab.is_told_gone(&PARSE_ERROR_RECOVERY, &talk) {
                lab.nothing_for(&PARSE_ERROR_RECOVERY, sent, JUNK, gone(&talk));
            }
        } else {
            lab.tape.look(&PARSE_ERROR_ANSWER);
            match talk.orphans.first() {
                None => lab.nothing_for(&PARSE_ERROR_ANSWER, sent, JUNK, "nothing comes for it"),
                Some(failed) if failed.code == -32700 => {}
                Some(failed) => {
                    let detail = format!("the error {} comes for it", failed.code);
                    lab.fail(&PARSE_ERROR_ANSWER, &talk, Some(&Answer::Error(failed.clone())), detail);
                }
            }
        }
        self.keep(talk, works).await;
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
            let Some(mut talk) = self.ready(checks, "messages of the wrong shape").await? else {
                return Ok(());
            };
            talk.orphans.clear();
            let id = talk.next_id().to_string();
            talk.claim(&id);
            let members = members.replace("METHOD", talk.light());
            let line = format!("{{\"id\":{id},{members}}}");
            talk.send(format!("{line}\n").as_bytes()).await;
            let sent = talk.location();
            let (frames, works) = talk.until_light().await;
            let lab = &*self.lab;
            lab.tape.look(&ENVELOPE_VALIDATION);
            let answer = frames.iter().find_map(|line| answers(line, &id));
            match answer {
                None if !works && lab.is_told_gone(&ENVELOPE_VALIDATION, &talk) => {}
                None => {
                    let why = if works { "nothing comes for it".to_owned() } else { gone(&talk) };
                    lab.nothing_for(&ENVELOPE_VALIDATION, sent, line.as_bytes(), format!("{what}: {why}"));
                }
                Some((line, None)) => {
                    let detail = format!("{what}: it is answered with a result");
                    lab.fail_at(&ENVELOPE_VALIDATION, line.location.clone(), &line.bytes, detail);
                }
                Some((_, Some(code))) if codes.contains(&code) => {}
                Some((line, Some(code))) => {
                    let detail = format!("{what}: it is answered with {code}");
                    lab.fail_at(&ENVELOPE_VALIDATION, line.location.clone(), &line.bytes, detail);
                }
            }
            self.keep(talk, works).await;
            if !works {
                break;
            }
        }
        Ok(())
    }

    async fn pieces(&mut self) -> Result<(), Error> {
        let Some(mut talk) = self.ready(&[&SPLIT_INPUT], "a message in pieces").await? else { return Ok(()) };
        let (line, id) = talk.line(talk.light(), noted("Zürich, in pieces"));
        talk.claim(&id);
        let line = format!("{line}\n").into_bytes();
        let inside = line.iter().position(|b| *b == 0xc3).map_or(line.len() / 2, |at| at + 1);
        for piece in [&line[..9], &line[9..inside], &line[inside..]] {
            talk.send(piece).await;
            sleep(PAUSE).await;
        }
        let answer = talk.answer(&id).await;
        let works = self.expect(&SPLIT_INPUT, &mut talk, &answer).await;
        self.keep(talk, works).await;
        Ok(())
    }

    /// Notes whether a result came; and says whether the connection is still good.
    async fn expect(&mut self, check: &'static Check, talk: &mut Talk, answer: &Answer) -> bool {
        self.lab.tape.look(check);
        match answer {
            Answer::Result(..) => true,
            // Nothing better can come of a server without ping.
            Answer::Error(_) if self.lab.tape.has_failed(&PING) || self.lab.tape.has_failed(&MODERN_DISCOVER) => true,
            Answer::Ended => {
                self.lost(check, talk);
                false
            }
            answer => {
                self.lab.fail(check, talk, Some(answer), format!("{} comes for it", answer.told()));
                matches!(answer, Answer::Error(_))
            }
        }
    }

    async fn at_once(&mut self) -> Result<(), Error> {
        let Some(mut talk) = self.ready(&[&COALESCED_INPUT], "many messages at once").await? else {
            return Ok(());
        };
        let mut text = String::new();
        let mut missing = Vec::new();
        for _ in 0..AT_ONCE {
            let (line, id) = talk.line(talk.light(), json!({}));
            talk.claim(&id);
            text.push_str(&line);
            text.push('\n');
            missing.push(id);
        }
        talk.send(text.as_bytes()).await;
        let mut deadline = talk.deadline_for_answer();
        while !missing.is_empty()
            && let Some(line) = talk.next(deadline).await
        {
            // An error without an id is for one of them; and who has answered one has time for the next.
            if let Some(at) = missing.iter().position(|id| answers(&line, id).is_some()) {
                missing.remove(at);
                deadline = talk.deadline_for_answer();
            }
        }
        self.lab.tape.look(&COALESCED_INPUT);
        if !missing.is_empty() && talk.is_over() {
            self.lost(&COALESCED_INPUT, &talk);
        } else if !missing.is_empty() {
            let detail = format!("of {AT_ONCE} requests {} are not answered", missing.len());
            self.lab.fail(&COALESCED_INPUT, &talk, None, detail);
        }
        let works = missing.is_empty();
        self.keep(talk, works).await;
        Ok(())
    }

    async fn crlf(&mut self) -> Result<(), Error> {
        let Some(mut talk) = self.ready(&[&CRLF_INPUT], "CRLF").await? else { return Ok(()) };
        let (line, id) = talk.line(talk.light(), json!({}));
        talk.claim(&id);
        talk.orphans.clear();
        talk.send(format!("{line}\r\n").as_bytes()).await;
        let answer = talk.answer(&id).await;
        let works = self.expect(&CRLF_INPUT, &mut talk, &answer).await;
        self.keep(talk, works).await;
        Ok(())
    }

    async fn blank(&mut self) -> Result<(), Error> {
        let Some(mut talk) = self.ready(&[&BLANK_LINES], "blank lines").await? else { return Ok(()) };
        talk.orphans.clear();
        talk.send(b"\n\r\n\n").await;
        let works = talk.goes_on().await;
        talk.quieten().await;
        self.lab.tape.look(&BLANK_LINES);
        match talk.orphans.first() {
            _ if !works => self.lost(&BLANK_LINES, &talk),
            Some(failed) => {
                let detail = format!("the error {} comes for it", failed.code);
                self.lab.fail(&BLANK_LINES, &talk, Some(&Answer::Error(failed.clone())), detail);
            }
            None => {}
        }
        self.keep(talk, works).await;
        Ok(())
    }

    async fn cancels(&mut self) -> Result<(), Error> {
        let Some(mut talk) = self.ready(&[&CANCELLATION], "cancels for nothing").await? else {
            return Ok(());
        };
        let done = talk.begin(talk.light(), json!({})).await;
        talk.claim(&done);
        talk.answer(&done).await;
        let answered: serde_json::Value = serde_json::from_str(&done).unwrap_or_default();
        for params in [json!({"requestId": 987_654}), json!({"requestId": answered}), json!({})] {
            talk.notify("notifications/cancelled", params).await;
        }
        let works = talk.goes_on().await;
        talk.quieten().await;
        self.lab.tape.look(&CANCELLATION);
        if !works {
            self.lost(&CANCELLATION, &talk);
        }
        self.keep(talk, works).await;
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
        let Some(mut talk) = self.ready(&[check], what).await? else { return Ok(()) };
        let id = talk.next_id().to_string();
        talk.claim(&id);
        // The metadata without its closing brace, so that a member can be added.
        let meta = talk.with_meta(json!({"_meta": {}}))["_meta"].to_string();
        let meta = meta.strip_suffix('}').unwrap_or(&meta);
        let meta = format!("{meta}{}", if meta.len() > 1 { "," } else { "" });
        talk.orphans.clear();
        talk.send(&message(&id, talk.light(), &meta)).await;
        let must_answer = check == &LARGE_MESSAGE;
        let answer = if must_answer { Some(talk.answer(&id).await) } else { None };
        let works = talk.goes_on().await;
        self.lab.tape.look(check);
        match answer {
            _ if !works => self.lost(check, &talk),
            // Whoever cannot read it may not be able to read its id either.
            Some(Answer::Silence) if !talk.orphans.is_empty() => {}
            Some(answer @ (Answer::Silence | Answer::Ended)) => {
                self.lab.fail(check, &talk, None, format!("{} comes for it", answer.told()));
            }
            _ => {}
        }
        self.lab.end(talk).await;
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
fn answers<'a>(line: &'a Line, id: &str) -> Option<(&'a Line, Option<i64>)> {
    let value: serde_json::Value = serde_json::from_slice(&line.bytes).ok()?;
    let code = value.get("error").map(code);
    match value.get("id") {
        Some(_) if is_answer(&value, id) => Some((line, code)),
        None | Some(serde_json::Value::Null) if code.is_some() => Some((line, code)),
        _ => None,
    }
}

/// Why nothing comes any more.
fn gone(talk: &Talk) -> String {
    match (talk.exited(), talk.is_over()) {
        (Some(super::talk::Exited::Code(code)), _) => format!("the program exits with code {code}"),
        (Some(super::talk::Exited::Signal(signal)), _) => format!("signal {signal} ends the program"),
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
