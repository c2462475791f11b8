//! One frame -> everything that the page shows about it.

use barewire_proto::json::{Json, Text};
use barewire_proto::rpc::{Parsed, parse};
use serde_json::{Value, json};

use super::answer::{Answer, AnswerError};
use super::copy::copies;
use super::findings::{finding_of_frame, pointer_place};
use super::listed_schemas::{ListedMismatch, ToolMessages};
use super::rows::{Previewed, latency, role, row, with_preview};
use super::tree::{lossy, message_nodes, no_event, no_frame, whole_characters};
use crate::check::catalogue::tools::OUTPUT_SCHEMA;
use crate::frames::{FrameKind, WireFrame};
use crate::index::{EntryKind, EntryRecord, IndexData, IndexedCapture, Span};
use crate::rows::{CaretLine, consequence};

/// `frame`: one frame in detail.
pub(super) fn frame(index: &IndexedCapture, number: u64) -> Result<Answer, AnswerError> {
    let parts = Parts::of(index, number)?;
    let bytes = index.spool().whole(parts.entry.text);
    let parsed = parse(&bytes, usize::MAX);
    let shown = &bytes[..bytes.len().min(MAX_TEXT)];
    let is_complete = shown.len() == bytes.len();
    let (text, is_lossy) = lossy(&shown[..if is_complete { shown.len() } else { whole_characters(shown) }]);
    let entry = &parts.entry;
    let wire = WireFrame {
        number,
        offset: entry.offset,
        length: entry.length,
        bytes: entry.text.is_kept().then_some(&bytes[..]),
        parsed,
        too_deep: None,
        place: None,
    };
    let mut explanation =
        if entry.text.is_kept() || bytes.is_empty() { consequence(&wire).text } else { String::new() };
    if entry.kind == EntryKind::Frame(FrameKind::Cut) {
        explanation = "The rest of the frame is missing in the recording, so it cannot be checked.".to_owned();
    }
    if !entry.text.is_kept() {
        explanation = "The text of the frame was not kept: it was too long, or there was no room.".to_owned();
    }
    let row = with_preview(index, parts.row, &parts.previewed);
    let elements: Vec<Value> =
        parts.elements.into_iter().map(|(value, text)| with_preview(index, value, &text)).collect();
    let of_member = |at: usize, path: &str, message: &str| json!({"at": at, "path": path, "message": message});
    let named = |members: &[(String, String)]| -> Vec<Value> {
        members.iter().map(|(path, message)| of_member(pointer_place(&bytes, path), path, message)).collect()
    };
    let (mut schema, marks) = (named(&parts.mismatches), named(&parts.marks));
    for ListedMismatch { path, at, message } in parts.tools.mismatches(index, &bytes) {
        // A finding says so already.
        if !schema.iter().any(|it| it["at"] == at || it["path"].as_str().is_some_and(|known| path.starts_with(known))) {
            schema.push(of_member(at, &path, &message));
        }
    }
    let http = parts.heads.map(|(request, response)| heads(index, request, response));
    let copies = copies(&bytes, &parts.copied, http.as_ref());
    let kind = entry.kind.as_str();
    let mut tree = message_nodes(kind, &bytes);
    for node in &mut tree {
        for (member, list) in [("schema", &schema), ("mark", &marks)] {
            let found = list.iter().find(|it| it["at"] == node["at"]);
            node[member] = found.map_or(Value::Null, |it| it["message"].clone());
        }
    }
    Answer::json(&json!({
        "row": row, "length": entry.length, "text": text, "text_complete": is_complete, "lossy": is_lossy,
        "invalid": invalid(entry, &wire, &bytes, parts.detail.as_deref()), "tree": tree, "explanation": explanation,
        "http": http, "schema": schema, "marks": marks, "findings": parts.findings, "operation": parts.operation,
        "elements": elements, "prev": (number > 1).then(|| number - 1), "next": parts.next, "copy": copies,
    }))
}

/// `event`: a row that is not a message: its whole text, the heads of its exchange, its operation. The answer is one
/// about a frame, in which everything is empty that only a message has.
pub(super) fn event(index: &IndexedCapture, number: u64) -> Result<Answer, AnswerError> {
    let (value, previewed, operation, exchange, entry) = {
        let data = index.data();
        let (at, entry) = data.event(number).ok_or_else(|| no_event(number))?;
        let (value, previewed) = row(&data, at, 0);
        let exchange = data.exchange(entry.exchange).map(|it| (it.request, it.response));
        (value, previewed, operation(&data, entry.operation), exchange, entry.clone())
    };
    let bytes = index.spool().read(entry.text, 0, MAX_TEXT);
    let is_complete = bytes.len() == entry.text.length as usize;
    let (text, is_lossy) = lossy(&bytes[..if is_complete { bytes.len() } else { whole_characters(&bytes) }]);
    let is_kept = entry.text.is_kept() || entry.length == 0;
    let explanation = if is_kept { "" } else { "The text was not kept: it was too long, or there was no room." };
    Answer::json(&json!({
        "row": with_preview(index, value, &previewed), "length": entry.length, "text": text,
        "text_complete": is_complete, "lossy": is_lossy, "invalid": null, "tree": [], "explanation": explanation,
        "http": exchange.map(|(request, response)| heads(index, request, response)), "schema": [], "marks": [],
        "findings": [], "operation": operation, "elements": [], "prev": null, "next": null,
        "copy": { "json": null, "call": null, "curl": null },
    }))
}

/// What the index knows about a frame.
struct Parts {
    entry: EntryRecord,
    row: Value,
    previewed: Previewed,
    detail: Option<String>,
    elements: Vec<(Value, Previewed)>,
    findings: Vec<Value>,
    /// The members that do not match the schema of their tool, and why, as a finding says.
    mismatches: Vec<(String, String)>,
    /// The members that other findings are about, and what these say.
    marks: Vec<(String, String)>,
    /// The messages about calls of tools.
    tools: ToolMessages,
    operation: Value,
    heads: Option<(Span, Span)>,
    next: Option<u64>,
    copied: Copied,
}

/// What the command lines of a copy need.
pub(super) struct Copied {
    pub(super) is_request: bool,
    pub(super) method: String,
    /// The command line of the program, as the capture has it.
    pub(super) program: Option<String>,
}

impl Parts {
    fn of(index: &IndexedCapture, number: u64) -> Result<Self, AnswerError> {
        let data = index.data();
        let at = data.frame(number).ok_or_else(|| no_frame(number))?;
        let entry = data.entries[at as usize].clone();
        let (row_value, previewed) = row(&data, at, 0);
        let elements = u32::from(entry.elements).min(MAX_ELEMENTS);
        let last = at + elements;
        let elements = (at + 1..=last).filter(|row| (*row as usize) < data.entries.len());
        let elements: Vec<_> = elements.map(|element| row(&data, element, 1)).collect();
        let findings = data.findings.of_frame(number).map(finding_of_frame).collect();
        let paths = data.findings.of_frame(number).filter_map(|it| {
            let path = it.finding.path.clone().filter(|path| path.starts_with('/'))?;
            let of_schema = it.finding.check.id == OUTPUT_SCHEMA.id;
            Some((of_schema, (path, format!("{}: {}", it.finding.check.sentence, it.finding.detail))))
        });
        let (mismatches, marks): (Vec<_>, Vec<_>) = paths.partition(|(of_schema, _)| *of_schema);
        let without_kind = |members: Vec<(bool, (String, String))>| members.into_iter().map(|(_, it)| it).collect();
        let exchange = data.exchange(entry.exchange);
        let method = data.names.get(entry.method).unwrap_or_default().to_owned();
        Ok(Self {
            row: row_value,
            previewed,
            detail: data.names.get(entry.detail).map(str::to_owned),
            elements,
            findings,
            mismatches: without_kind(mismatches),
            marks: without_kind(marks),
            tools: ToolMessages::of(&data, at..=last),
            operation: operation(&data, entry.operation),
            heads: exchange.map(|it| (it.request, it.response)),
            next: Some(number + 1).filter(|next| data.frame(*next).is_some()),
            copied: Copied {
                is_request: entry.kind == EntryKind::Frame(FrameKind::Request),
                method,
                program: data.totals.program.clone(),
            },
            entry,
        })
    }
}

/// Returns an operation, with its frames and with the operations around it.
fn operation(data: &IndexData, number: u32) -> Value {
    let Some(it) = data.operation(number) else { return Value::Null };
    let name = |number| data.names.get(number);
    let frames: Vec<Value> = data
        .rows_of(number)
        .into_iter()
        .map(|row| &data.entries[row as usize])
        .filter(|entry| entry.frame > 0)
        .take(MAX_FRAMES)
        .map(|entry| {
            json!({
                "frame": entry.frame, "role": role(entry.role), "time": entry.time.seconds(),
                "latency": latency(data, entry),
            })
        })
        .collect();
    // A question comes while its call is open, so the operations after the call are looked at until its end.
    let after = data.operations.from(number as usize).take(MAX_LOOKED_AT);
    let children = (number + 1..).zip(after).filter(|(_, other)| other.parent == number);
    let children: Vec<Value> = children.take(MAX_CHILDREN).map(|(child, _)| reference(data, child)).collect();
    let method = name(it.method).unwrap_or_default();
    json!({
        "number": number, "method": method, "name": name(it.name), "title": title(data, number),
        "asker": if it.is_of_server { "server" } else { "client" },
        "conversation": data.conversations.get(it.conversation as usize).map(|it| &it.name),
        "latency": it.end.since(it.start).map(|latency| latency.as_secs_f64()), "state": it.state.as_str(),
        "frames": frames, "parent": if it.parent > 0 { reference(data, it.parent) } else { Value::Null },
        "children": children,
    })
}

fn reference(data: &IndexData, number: u32) -> Value {
    let Some(it) = data.operation(number) else { return Value::Null };
    let frame = data.entries.get(it.first as usize).map(|entry| entry.frame);
    json!({
        "op": number, "frame": frame, "method": data.names.get(it.method), "name": data.names.get(it.name),
        "title": title(data, number),
    })
}

/// Returns the method of an operation, and the tool, prompt or resource that it names.
pub(super) fn title(data: &IndexData, number: u32) -> String {
    let Some(it) = data.operation(number) else { return String::new() };
    let method = data.names.get(it.method).unwrap_or("(no method)");
    data.names.get(it.name).map_or_else(|| method.to_owned(), |name| format!("{method} {name}"))
}

/// Returns what is wrong with a frame that is not a message, with a caret at the place.
fn invalid(entry: &EntryRecord, wire: &WireFrame<'_>, bytes: &[u8], detail: Option<&str>) -> Value {
    if entry.kind == EntryKind::Frame(FrameKind::Cut) {
        let caret = CaretLine::around(bytes, bytes.len());
        return json!({
            "rule": "truncated", "detail": "the rest of the frame is missing in the recording", "at": bytes.len(),
            "excerpt": caret.line, "caret": caret.column,
        });
    }
    let found = match &wire.parsed {
        Parsed::Invalid(invalid) => Some(invalid.clone()),
        Parsed::Batch(_) => wire.elements().find_map(|(element, _)| element.err()),
        Parsed::Message(_) => None,
    };
    match found {
        Some(invalid) if wire.bytes.is_some() => {
            let caret = CaretLine::around(bytes, invalid.at);
            json!({
                "rule": invalid.rule.name(), "detail": invalid.to_string(), "at": invalid.at, "excerpt": caret.line,
                "caret": caret.column,
            })
        }
        _ if entry.kind == EntryKind::Frame(FrameKind::Invalid) => {
            json!({"rule": detail, "detail": detail, "at": 0, "excerpt": "", "caret": 0})
        }
        _ => Value::Null,
    }
}

/// Returns the heads of an exchange.
fn heads(index: &IndexedCapture, request: Span, response: Span) -> Value {
    let read = |span| String::from_utf8_lossy(&index.spool().whole(span)).into_owned();
    let (request, response) = (read(request), read(response));
    let headers = |lines: std::str::Lines<'_>| -> Vec<(String, String)> {
        let pairs = lines.filter_map(|line| line.split_once(':'));
        pairs.map(|(name, value)| (name.trim().to_owned(), value.trim().to_owned())).collect()
    };
    let mut lines = request.lines();
    let request = lines.next().map(|first| {
        let mut words = first.split(' ');
        let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        json!({"method": method, "target": target, "headers": headers(lines)})
    });
    let mut lines = response.lines();
    let response = lines.next().map(|first| {
        let mut words = first.splitn(3, ' ').skip(1);
        let status: u16 = words.next().and_then(|word| word.parse().ok()).unwrap_or_default();
        json!({"status": status, "reason": words.next().unwrap_or_default(), "headers": headers(lines)})
    });
    json!({"request": request, "response": response})
}

/// Returns a member of an object in a message, as text.
pub(super) fn text_member<'a>(object: Json<'a>, name: &str) -> Option<std::borrow::Cow<'a, str>> {
    object.member(name).and_then(Text::from_json).map(Text::to_name)
}

/// The maximum length of the text in the answer, in bytes. The page asks for more in parts.
const MAX_TEXT: usize = 64 * 1024;
/// The maximum number of elements of a batch in the answer.
const MAX_ELEMENTS: u32 = 200;
/// The maximum number of frames and of questions of an operation in the answer.
const MAX_FRAMES: usize = 500;
const MAX_CHILDREN: usize = 200;
/// The maximum number of later operations among which the questions of an operation are looked for.
const MAX_LOOKED_AT: usize = 100_000;
