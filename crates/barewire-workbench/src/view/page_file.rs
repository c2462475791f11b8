//! A source -> one HTML file that shows it anywhere: the page, and its answers about the source.

use std::collections::{BTreeSet, VecDeque};
use std::fmt::Write;

use serde_json::{Value, json};

use super::answer::{Answer, AnswerError};
use super::query::ViewRequest;
use super::rows::row_with_preview;
use super::sources::Source;
use super::{View, inlined, routes};

/// Returns the file with what a filter selects of a conversation, or of all of them if its name is empty. The source
/// must be read whole.
pub(super) fn page_file(view: &View, source: &Source, filter: &str, conversation: &str) -> Result<String, AnswerError> {
    let selection = format!("filter={}&conversation={}", encoded(filter), encoded(conversation));
    let collected = CollectedAnswers { view, source, filter, conversation, selection, notes: Vec::new() };
    Ok(inlined::page(&collected.data()?))
}

/// Asks for everything that the page in the file may show.
struct CollectedAnswers<'a> {
    view: &'a View,
    source: &'a Source,
    filter: &'a str,
    conversation: &'a str,
    /// The filter and the conversation as the parameters of a request.
    selection: String,
    /// What the file does not contain.
    notes: Vec<String>,
}

impl CollectedAnswers<'_> {
    fn data(mut self) -> Result<String, AnswerError> {
        let rows = self.rows()?;
        let frames = self.frames(&rows);
        let words = self.words(&rows);
        let ask = |path| self.ask(path, &self.selection);
        let (timeline, stats, findings) = (ask("timeline")?, ask("stats")?, ask("findings")?);
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
            "notes": self.notes, "rows": rows, "timeline": timeline, "stats": stats, "findings": findings, "words": words,
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
        let selected = index.select_all(&query);
        let total = selected.len();
        if total > MAX_ROWS {
            self.notes.push(format!("Only the first {MAX_ROWS} of {total} rows are in this file."));
        }
        let shown = selected.into_iter().take(MAX_ROWS);
        Ok(shown.map(|at| row_with_preview(index, at)).collect())
    }

    /// Returns the frames of the rows as the text of a JSON object, up to a total length.
    fn frames(&mut self, rows: &[Value]) -> String {
        let mut text = String::from("{");
        let mut left_out = 0_u64;
        let numbers: BTreeSet<u64> = rows.iter().filter_map(|row| row["frame"].as_u64()).collect();
        for number in numbers {
            if text.len() > MAX_LENGTH {
                left_out += 1;
                continue;
            }
            let Ok(mut frame) = self.ask(&format!("frame/{number}"), "") else { continue };
            self.cut(number, &mut frame);
            let frame = frame.to_string();
            if frame.len() > MAX_FRAME_LENGTH {
                left_out += 1;
                continue;
            }
            let comma = if text.len() > 1 { "," } else { "" };
            let _ = write!(text, "{comma}\"{number}\":{frame}");
        }
        text.push('}');
        if left_out > 0 {
            let frames = if left_out == 1 { "1 frame is".to_owned() } else { format!("{left_out} frames are") };
            self.notes.push(format!("The content of {frames} not in this file, because it would be too large."));
        }
        text
    }

    /// Cuts the text of a frame, and adds the members below its outermost ones.
    fn cut(&self, number: u64, frame: &mut Value) {
        if let Some(text) = frame["text"].as_str()
            && text.len() > MAX_TEXT
        {
            let end = (0..=MAX_TEXT).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
            let start = text[..end].to_owned();
            (frame["text"], frame["text_complete"]) = (json!(start), json!(false));
        }
        let mut nodes = serde_json::Map::new();
        let mut count = 0;
        let is_small = frame["length"].as_u64().is_some_and(|length| length <= MAX_TREE_LENGTH);
        let mut open: VecDeque<u64> = if is_small { containers(&frame["tree"]).into() } else { VecDeque::new() };
        while let Some(at) = open.pop_front() {
            if count >= MAX_NODES {
                break;
            }
            let Ok(mut answer) = self.ask(&format!("frame/{number}/tree"), &format!("at={at}&count=200")) else {
                break;
            };
            let below = answer["nodes"].take();
            count += below.as_array().map_or(0, Vec::len);
            open.extend(containers(&below));
            nodes.insert(at.to_string(), below);
        }
        frame["nodes"] = Value::Object(nodes);
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

/// Returns the places of the objects and arrays in a list of members.
fn containers(nodes: &Value) -> Vec<u64> {
    let nodes = nodes.as_array().into_iter().flatten();
    let is_container = |node: &&Value| matches!(node["kind"].as_str(), Some("object" | "array")) && node["count"] != 0;
    nodes.filter(is_container).filter_map(|node| node["at"].as_u64()).collect()
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
/// The maximum length of the frames in a file together, and of one frame.
const MAX_LENGTH: usize = 16 * 1024 * 1024;
const MAX_FRAME_LENGTH: usize = 1024 * 1024;
/// The maximum length of the text of a frame.
const MAX_TEXT: usize = 16 * 1024;
/// The maximum length of a frame whose members are in the file below the outermost ones, and their maximum number.
const MAX_TREE_LENGTH: u64 = 1024 * 1024;
const MAX_NODES: usize = 300;
/// The maximum number of methods that are explained.
const MAX_WORDS: usize = 500;

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::thread;
    use std::time::Duration;

    use super::super::sources::{SourceKind, SourceState};
    use super::*;
    use crate::index::tests::indexed_so_far;

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
                let _ = done.send(page_file(&view, &source, filter, "").map_err(|error| error.error));
            });
            let page = is_done.recv_timeout(Duration::from_secs(60)).expect("it ends").expect("a page");
            let data = page.split("id=\"barewire-data\">").nth(1).and_then(|rest| rest.split("</script>").next());
            let data: Value = serde_json::from_str(data.expect("data")).expect("JSON");
            let keys: Vec<&Value> = data["rows"].as_array().expect("rows").iter().map(|row| &row["key"]).collect();
            assert_eq!(keys, if filter.is_empty() { vec!["f1", "e1"] } else { vec!["f1"] }, "{filter}");
        }
    }
}
