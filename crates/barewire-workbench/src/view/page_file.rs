//! A source -> one HTML file that shows it anywhere: the page, and its answers about the source.

use std::collections::BTreeSet;
use std::fmt::Write;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::answer::{Answer, AnswerError};
use super::meaning::all_meanings;
use super::query::ViewRequest;
use super::rows::{operations_of, row_with_preview};
use super::sources::Source;
use super::timeline::whole_timeline;
use super::tree::{frame_text, whole_characters};
use super::{View, inlined, routes};
use crate::filter::FilteredMessage;
use crate::index::{Candidate, EntryKind, Flags, IndexData, OperationState};

/// Returns the file with what a filter selects of a conversation, or of all of them if its name is empty. The source
/// must be read whole.
pub(super) fn page_file(
    view: &View,
    source: &Source,
    filter: &str,
    conversation: &str,
) -> Result<PageFile, AnswerError> {
    page_file_within(FileLimits::default(), view, source, filter, conversation)
}

fn page_file_within(
    limits: FileLimits,
    view: &View,
    source: &Source,
    filter: &str,
    conversation: &str,
) -> Result<PageFile, AnswerError> {
    let selection = format!("filter={}&conversation={}", encoded(filter), encoded(conversation));
    let (notes, cuts, selected) = (Vec::new(), Vec::new(), Vec::new());
    let mut collected =
        CollectedAnswers { limits, view, source, filter, conversation, selection, notes, cuts, selected };
    let html = inlined::page(&collected.data()?);
    Ok(PageFile { html, cuts: collected.cuts })
}

/// One HTML file that shows a source.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct PageFile {
    /// The file.
    pub html: String,
    /// What did not fit into the file, a sentence each. The file says the same.
    pub cuts: Vec<String>,
}

/// What a file may have. A browser opens all of it at once.
#[derive(Clone, Copy)]
struct FileLimits {
    /// The maximum length of the text of one frame: longer than any text that a person reads.
    text: usize,
    /// The maximum length of the frames together.
    frames: usize,
    /// The maximum length of the texts of all events together.
    events: usize,
}

impl Default for FileLimits {
    fn default() -> Self {
        Self { text: 8 * 1024 * 1024, frames: 64 * 1024 * 1024, events: 16 * 1024 * 1024 }
    }
}

/// Asks for everything that the page in the file may show.
struct CollectedAnswers<'a> {
    limits: FileLimits,
    view: &'a View,
    source: &'a Source,
    filter: &'a str,
    conversation: &'a str,
    /// The filter and the conversation as the parameters of a request.
    selection: String,
    /// What the file does not contain.
    notes: Vec<String>,
    /// What of this was wanted, but did not fit.
    cuts: Vec<String>,
    /// The rows in the index.
    selected: Vec<u32>,
}

impl CollectedAnswers<'_> {
    fn data(&mut self) -> Result<String, AnswerError> {
        let rows = self.rows()?;
        let frames = self.frames(&rows);
        let words = self.words(&rows);
        let findings = self.ask("findings", &self.selection)?;
        let request = ViewRequest::new(false, "", &self.selection, Vec::new());
        let timeline = whole_timeline(self.source.index(), &request)?;
        let operations = self.operations();
        let mut source = self.source.json();
        self.note_selection();
        if let (false, Some(conversations)) = (self.conversation.is_empty(), source["conversations"].as_array_mut()) {
            conversations.retain(|it| it["name"] == self.conversation);
        }
        (source["state"], source["drivable"], source["progress"]) = (json!("complete"), json!(false), Value::Null);
        let sources = json!({ "redacted": self.view.state().is_redacted, "sources": [source] });
        let id = self.source.id().to_string();
        let program = concat!("barewire ", env!("CARGO_PKG_VERSION"));
        let facts = json!({
            "format": 1, "program": program, "exported": null, "sources": sources, "source": id, "filter": self.filter,
            "notes": self.notes, "rows": rows, "timeline": timeline, "operations": operations, "findings": findings, "words": words,
            "meanings": all_meanings(),
        });
        let mut data = facts.to_string();
        // The frames are the largest part, and are text already.
        data.pop();
        let _ = write!(data, ",\"frames\":{frames}}}");
        Ok(data)
    }

    /// Notes that the file does not have everything.
    fn note_selection(&mut self) {
        let filter = (!self.filter.trim().is_empty()).then(|| format!("the filter {} selects", self.filter.trim()));
        let conversation = (!self.conversation.is_empty()).then(|| format!("is in {}", self.conversation));
        let selected: Vec<String> = filter.into_iter().chain(conversation).collect();
        if !selected.is_empty() {
            self.notes.push(format!("This file has only what {}.", selected.join(" and ")));
        }
    }

    /// Returns the answer to a request about the source, as the page would get it.
    fn ask(&self, path: &str, query: &str) -> Result<Value, AnswerError> {
        let path = format!("s/{}/{path}", self.source.id());
        match routes::answer(self.view, &ViewRequest::new(false, &path, query, Vec::new()))? {
            Answer::Json(text) => serde_json::from_str(&text).map_err(|error| AnswerError::new(500, error)),
            Answer::Done | Answer::Download { .. } => Ok(Value::Null),
        }
    }

    /// Returns the rows that are there now: live traffic has no end to wait for.
    fn rows(&mut self) -> Result<Vec<Value>, AnswerError> {
        let index = self.source.index();
        let query = ViewRequest::new(false, "", &self.selection, Vec::new()).selection()?;
        let mut selected = index.select_all(&query);
        let total = selected.len();
        if total > MAX_ROWS {
            self.cut(format!("Only the first {MAX_ROWS} of {total} rows are in this file."));
            selected.truncate(MAX_ROWS);
        }
        let mut rows: Vec<Value> = selected.iter().map(|row| row_with_preview(index, *row)).collect();
        let (mut length, mut lost) = (0, 0_usize);
        for (value, row) in rows.iter_mut().zip(&selected) {
            let (mut facts, span) = {
                let data = index.data();
                let entry = &data.entries[*row as usize];
                (facts(&data, *row, &selected), Some(entry.text).filter(|_| entry.kind == EntryKind::Event))
            };
            if let Some(span) = span.filter(|span| span.is_kept()) {
                if length + span.length as usize <= self.limits.events {
                    length += span.length as usize;
                    facts["text"] = json!(String::from_utf8_lossy(&index.spool().whole(span)));
                } else {
                    (facts["lost"], lost) = (json!(true), lost + 1);
                }
            }
            value["match"] = facts;
        }
        if lost > 0 {
            let events = if lost == 1 { "1 event".to_owned() } else { format!("{lost} events") };
            let of = format!("The whole text of {events} is not in this file");
            let most = self.limits.events;
            self.cut(format!("{of}, because all events together have more than {most} bytes: no search finds it."));
        }
        self.selected = selected;
        Ok(rows)
    }

    /// Returns the frames of the rows as the text of a JSON object, up to a total length.
    fn frames(&mut self, rows: &[Value]) -> String {
        let mut text = String::from("{");
        let (mut left_out, mut shortened) = (Vec::new(), Vec::new());
        let numbers: BTreeSet<u64> = rows.iter().filter_map(|row| row["frame"].as_u64()).collect();
        for number in numbers {
            let Ok(mut frame) = self.ask(&format!("frame/{number}"), "") else { continue };
            let kept = self.set_text(number, &mut frame);
            let written = frame.to_string();
            // Later frames can be small enough.
            if text.len() + written.len() > self.limits.frames {
                left_out.push(number);
                continue;
            }
            shortened.extend(kept.map(|_| number));
            let comma = if text.len() > 1 { "," } else { "" };
            let _ = write!(text, "{comma}\"{number}\":{written}");
        }
        // Their texts are with the rows.
        for key in rows.iter().filter(|row| row["frame"].is_null()).filter_map(|row| row["key"].as_str()) {
            let row = key.trim_start_matches('e');
            let Ok(mut event) = self.ask(&format!("event/{row}"), "") else { continue };
            event["text"] = json!("");
            let written = event.to_string();
            if text.len() + written.len() <= self.limits.frames {
                let comma = if text.len() > 1 { "," } else { "" };
                let _ = write!(text, "{comma}\"{key}\":{written}");
            }
        }
        text.push('}');
        if !shortened.is_empty() {
            let only = format!("only the first {} bytes of {}", self.limits.text, frames_named(&shortened));
            self.cut(format!("This file has {only}: a search does not look at the rest."));
        }
        if !left_out.is_empty() {
            let frames = frames_named(&left_out);
            let larger = format!("the frames would be larger than {} bytes", self.limits.frames);
            self.cut(format!("The content of {frames} is not in this file, because {larger}: no search finds it."));
        }
        text
    }

    /// Sets the whole text of a frame, up to a length. Returns the number of bytes if it had to be cut.
    fn set_text(&self, number: u64, frame: &mut Value) -> Option<usize> {
        let most = self.limits.text;
        let bytes = frame_text(self.source.index(), number).unwrap_or_default();
        let is_cut = bytes.len() > most;
        let kept = if is_cut { &bytes[..whole_characters(&bytes[..most])] } else { &bytes[..] };
        match std::str::from_utf8(kept) {
            Ok(text) => {
                // The text to copy is the same.
                if frame["copy"]["json"] == text {
                    (frame["copy"]["json"], frame["copied"]) = (Value::Null, json!(true));
                }
                frame["text"] = json!(text);
            }
            Err(_) => (frame["text"], frame["bytes"]) = (json!(""), json!(STANDARD.encode(kept))),
        }
        if is_cut {
            let said = format!("Only the first {} of {} bytes are in this file.", kept.len(), bytes.len());
            let before = frame["explanation"].as_str().unwrap_or_default();
            frame["explanation"] = json!(format!("{before} {said}").trim());
            frame["kept"] = json!(kept.len());
        }
        is_cut.then_some(kept.len())
    }

    /// Notes that something is not in the file.
    fn cut(&mut self, note: String) {
        self.cuts.push(note.clone());
        self.notes.push(note);
    }

    /// Returns the operations of the rows, for the statistics.
    fn operations(&self) -> Vec<Value> {
        let data = self.source.index().data();
        let is_part = !self.filter.trim().is_empty() || !self.conversation.is_empty() || !self.cuts.is_empty();
        let listed = is_part.then(|| operations_of(&data, &self.selected));
        let operations = (1..).zip(data.operations.from(0));
        let operations = operations.filter(|(number, _)| listed.as_ref().is_none_or(|it| it.contains_key(number)));
        let operations = operations.map(|(number, it)| {
            let is_answered = !it.state.is_open() && it.state != OperationState::Cancelled;
            let latency = it.end.since(it.start).filter(|_| is_answered).map(|it| it.as_secs_f64());
            let state = match it.state {
                state if state.is_failure() => "failed",
                state if state.is_open() => "open",
                _ => "done",
            };
            json!({
                "op": number, "method": data.names.get(it.method).unwrap_or("(no method)"), "state": state,
                "conversation": data.conversations.get(it.conversation as usize).map(|it| &it.name),
                "start": it.start.seconds(), "latency": latency,
            })
        });
        operations.collect()
    }

    /// Returns the explanations of the methods in the rows.
    fn words(&self, rows: &[Value]) -> Value {
        let methods: BTreeSet<&str> = rows.iter().filter_map(|row| row["method"].as_str()).take(MAX_ROWS).collect();
        let explain = &self.view.state().explain;
        let words =
            methods.into_iter().take(MAX_WORDS).filter_map(|word| Some((word.to_owned(), json!(explain(word)?))));
        Value::Object(words.collect())
    }
}

/// Returns what the filter, the folding and the statistics of the page must know about a row: the facts that
/// [`FilteredMessage`] has, the row that it is folded below, and where its text is.
fn facts(data: &IndexData, row: u32, selected: &[u32]) -> Value {
    let entry = &data.entries[row as usize];
    let candidate = Candidate::new(data, entry);
    let is_event = entry.kind == EntryKind::Event;
    let mut facts = serde_json::Map::new();
    let mut set = |name: &str, value: Value| facts.insert(name.to_owned(), value);
    if let Some(stream) = candidate.stream() {
        set("stream", json!(stream.sigil().to_string()));
    }
    if candidate.is_failure() || is_event && entry.flags.has(Flags::FAILURE) {
        set("failed", json!(true));
    }
    if entry.operation > 0 {
        set("op", json!(entry.operation));
    }
    if let Some(above) = data.above(entry).and_then(|above| selected.binary_search(&above).ok()) {
        set("above", json!(above));
    }
    if !entry.text.is_kept() {
        set("lost", json!(true));
    }
    if is_event {
        return Value::Object(facts);
    }
    if let Some(method) = candidate.method() {
        set("method", json!(method));
    }
    if let Some(tool) = candidate.tool() {
        set("tool", json!(tool));
    }
    let ids = candidate.ids();
    if !ids.is_empty() {
        set("ids", json!(ids));
    }
    if candidate.is_unanswered() {
        set("open", json!(true));
    }
    if entry.element > 0 {
        let frame = data.frame(u64::from(entry.frame)).map(|row| data.entries[row as usize].text);
        let at = frame.map_or(0, |frame| entry.text.at.saturating_sub(frame.at));
        set("part", json!([at, entry.text.length]));
    }
    Value::Object(facts)
}

/// Returns frames by their numbers, of which the first are named.
fn frames_named(numbers: &[u64]) -> String {
    let named: Vec<String> = numbers.iter().take(MAX_NAMED).map(u64::to_string).collect();
    let more = match numbers.len().saturating_sub(MAX_NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!("{} {}{more}", if numbers.len() == 1 { "frame" } else { "frames" }, named.join(", "))
}

/// Encodes a value for a query.
fn encoded(text: &str) -> String {
    text.bytes().fold(String::new(), |mut encoded, byte| {
        let _ = write!(encoded, "%{byte:02X}");
        encoded
    })
}

/// The maximum number of rows in a file.
const MAX_ROWS: usize = 20_000;
/// The maximum number of frames that a note names.
const MAX_NAMED: usize = 10;
/// The maximum number of methods that are explained.
const MAX_WORDS: usize = 500;

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::thread;
    use std::time::Duration;

    use super::super::sources::{SourceKind, SourceState};
    use super::*;
    use crate::index::tests::{indexed, indexed_so_far};

    fn data_of(html: &str) -> Value {
        let data = html.split("id=\"barewire-data\">").nth(1).and_then(|rest| rest.split("</script>").next());
        serde_json::from_str(data.expect("data")).expect("JSON")
    }

    /// A text is whole unless it is longer than any that a person reads, and then the file says which one is not.
    #[test]
    fn a_file_has_whole_texts_or_says_which_are_cut() {
        let texts = ["x".repeat(300_000), "ä".repeat(200_000), "z".to_owned()];
        let lines = texts.iter().enumerate().map(|(id, text)| {
            format!("<(+{id}) {{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{{\"text\":\"{text}\"}}}}\n!(+{id}) line {text}\n")
        });
        let wire = format!("wire 1\n{}", lines.collect::<String>());
        let view = View::new(true, |_| None);
        let source = view.add(Source::new(SourceKind::File, "f", SourceState::Complete, indexed(&wire)));
        let page = |limits| page_file_within(limits, &view, &source, "", "").expect("a page");
        let whole = page(FileLimits::default());
        let data = data_of(&whole.html);
        assert_eq!(whole.cuts, Vec::<String>::new());
        for (frame, text) in (1..).zip(&texts) {
            let frame = &data["frames"][format!("{frame}")];
            assert!(frame["text"].as_str().is_some_and(|it| it.contains(text.as_str())) && frame["kept"].is_null());
            let events = data["rows"].as_array().expect("rows").iter().filter_map(|row| row["match"]["text"].as_str());
            assert!(events.into_iter().any(|it| it.ends_with(text.as_str())));
        }
        let cut = page(FileLimits { text: 100_001, ..FileLimits::default() });
        let data = data_of(&cut.html);
        assert_eq!(
            cut.cuts,
            ["This file has only the first 100001 bytes of frames 1, 2: a search does not look at the rest."]
        );
        assert_eq!(data["notes"], json!(cut.cuts));
        assert_eq!((&data["frames"]["1"]["kept"], &data["frames"]["3"]["kept"]), (&json!(100_001), &Value::Null));
        let said = data["frames"]["2"]["explanation"].as_str().unwrap_or_default();
        assert!(said.ends_with("Only the first 100000 of 400045 bytes are in this file."), "{said}");
        let small = page(FileLimits { frames: 40_000, events: 300_100, ..FileLimits::default() });
        let data = data_of(&small.html);
        assert_eq!(small.cuts.len(), 2, "{:?}", small.cuts);
        assert!(small.cuts[0].starts_with("The whole text of 1 event is not in this file"), "{:?}", small.cuts);
        assert!(small.cuts[1].starts_with("The content of frames 1, 2 is not in this file"), "{:?}", small.cuts);
        assert!(data["frames"]["1"].is_null() && data["frames"]["3"]["text"].is_string());
    }

    /// A tap that goes on is saved as it is now.
    #[test]
    fn a_live_source_is_saved_as_it_is() {
        let wire = "wire 1\n>(+1) {\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n!(+2) text\n";
        for filter in ["", "unanswered", "\"ping\""] {
            let index = indexed_so_far(wire);
            let (done, is_done) = mpsc::channel();
            thread::spawn(move || {
                let view = View::new(true, |_| None);
                let source = view.add(Source::new(SourceKind::Tap, "tap", SourceState::Live, index));
                let _ =
                    done.send(page_file(&view, &source, filter, "").map(|page| page.html).map_err(|error| error.error));
            });
            let page = is_done.recv_timeout(Duration::from_secs(60)).expect("it ends").expect("a page");
            let data = data_of(&page);
            let keys: Vec<&Value> = data["rows"].as_array().expect("rows").iter().map(|row| &row["key"]).collect();
            assert_eq!(keys, if filter.is_empty() { vec!["f1", "e1"] } else { vec!["f1"] }, "{filter}");
        }
    }
}
