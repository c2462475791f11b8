//! The rows of a list, as the page shows them.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::answer::{Answer, AnswerError};
use super::preview::{PREVIEWED, preview};
use super::query::ViewRequest;
use crate::frames::FrameKind;
use crate::index::{EntryKind, EntryRecord, Flags, IndexData, IndexedCapture, RowOutcome, Span, Time};
use crate::rows::{MessageRelation, OperationFacts, Role};
use crate::text::shown;

/// `rows`: the rows that a filter selects, a page at a time.
pub(super) fn rows(index: &IndexedCapture, request: &ViewRequest) -> Result<Answer, AnswerError> {
    let query = request.selection()?;
    let from = request.number("from")?.unwrap_or(0);
    let count = request.number("count")?.unwrap_or(100).min(MAX_ROWS);
    let selected = index.select(&query);
    let rows = selected.rows(from, count);
    let mut shown: Vec<(Value, Previewed)> = {
        let data = index.data();
        rows.iter().map(|it| row(&data, it.row, u8::from(it.is_child))).collect()
    };
    let rows: Vec<Value> = shown.iter_mut().map(|(value, text)| with_preview(index, value.take(), text)).collect();
    Answer::json(&json!({
        "total": selected.total, "final": selected.is_final, "scanned": selected.scanned, "from": from, "rows": rows,
    }))
}

/// `find`: the place of a frame or of an event in the list.
pub(super) fn find(index: &IndexedCapture, request: &ViewRequest) -> Result<Answer, AnswerError> {
    let query = request.selection()?;
    let (frame, event) = (request.number("frame")?.unwrap_or(0), request.number("event")?);
    let selected = index.select(&query);
    let data = index.data();
    let row = match event {
        Some(row) => data.event(row).map(|(row, _)| row),
        None => data.frame(frame),
    };
    let Some(row) = row else { return Answer::json(&json!({"index": null, "op": null})) };
    let entry = &data.entries[row as usize];
    let above = data.above(entry);
    // What unfolds the row: its operation, or the message that an HTTP head came with.
    let message = data.message_of_head(entry).map(|row| -i64::from(data.entries[row as usize].frame));
    let group = message.unwrap_or(i64::from(entry.operation));
    drop(data);
    if let Some(place) = selected.place(row) {
        return Answer::json(&json!({"index": place, "op": null}));
    }
    let place = above.filter(|_| query.is_folded).and_then(|above| selected.place(above));
    Answer::json(&json!({"index": place, "op": place.map(|_| group)}))
}

/// `near`: the place of the first row at or after a time.
pub(super) fn near(index: &IndexedCapture, request: &ViewRequest) -> Result<Answer, AnswerError> {
    let query = request.selection()?;
    let time = request.seconds("time")?.unwrap_or(0.0);
    let selected = index.select(&query);
    let row = {
        let data = index.data();
        // Rows are in the order of their times, except for a few heads.
        let (mut low, mut high) = (0, data.entries.len());
        while low < high {
            let middle = usize::midpoint(low, high);
            let is_before = data.entries[middle].time.seconds().is_none_or(|it| it < time);
            if is_before { low = middle + 1 } else { high = middle }
        }
        low
    };
    let place = selected.place_at(u32::try_from(row).unwrap_or(u32::MAX));
    Answer::json(&json!({"index": (selected.total > 0).then_some(place)}))
}

/// What a preview is made of.
pub(super) struct Previewed {
    kind: EntryKind,
    /// The method of the message or, for a response, that of the request it answers.
    method: Option<String>,
    text: Span,
    /// Whether it is an HTTP head.
    is_head: bool,
}

/// Returns a row without its preview, and what the preview is made of.
pub(super) fn row(data: &IndexData, row: u32, depth: u8) -> (Value, Previewed) {
    let entry = &data.entries[row as usize];
    let name = |number| data.names.get(number);
    let operation = data.operation(entry.operation);
    let is_event = entry.kind == EntryKind::Event;
    let is_batch = entry.kind == EntryKind::Frame(FrameKind::Batch);
    let (own_method, detail) = (name(entry.method).filter(|_| !is_event), name(entry.detail));
    let method = own_method.or_else(|| operation.and_then(|it| name(it.method)).filter(|_| !is_event));
    let is_first = operation.is_some_and(|it| it.first == row);
    // The HTTP heads of a batch, or of a message that is not part of an operation.
    let heads = data.exchange(entry.exchange).filter(|it| it.message == row + 1).map_or(0, |it| it.heads);
    let of_operation = operation.filter(|_| is_first && !is_batch).map_or(0, |it| it.children);
    let children = u32::from(entry.elements) + heads + of_operation;
    let key = match (entry.frame, entry.element) {
        (0, _) => format!("e{row}"),
        (frame, 0) => format!("f{frame}"),
        (frame, element) => format!("f{frame}.{element}"),
    };
    let findings: Vec<&str> = match entry.frame {
        0 => Vec::new(),
        frame => data.findings.of_frame(u64::from(frame)).take(MAX_FINDINGS).map(|it| it.finding.check.id).collect(),
    };
    let message = if heads > 0 { Some(entry.frame) } else { None };
    let message = message.or_else(|| Some(data.entries[data.message_of_head(entry)? as usize].frame));
    let group = match message.or(is_batch.then_some(entry.frame)) {
        Some(frame) => Some(-i64::from(frame)),
        None => operation.map(|_| i64::from(entry.operation)),
    };
    let note = if is_event { None } else { Some(note(data, entry, detail)).filter(|note| !note.is_empty()) };
    let value = json!({
        "frame": (entry.frame > 0).then_some(entry.frame), "key": key,
        "event": is_event.then(|| name(entry.method)),
        "time": entry.time.seconds(), "dir": direction(entry.flags),
        "kind": if is_event { name(entry.method).unwrap_or("event") } else { entry.kind.as_str() },
        "id": data.ids.text(entry.id).map(|id| shown(id.as_bytes(), MAX_ID)),
        "method": method, "name": operation.and_then(|it| name(it.name)).filter(|_| !is_event),
        "size": entry.length, "latency": latency(data, entry),
        "outcome": entry.outcome.as_str(), "note": note, "op": group,
        "round": (entry.round > 0).then_some(entry.round), "role": role(entry.role),
        "channel": data.channel(entry),
        "conversation": data.conversations.get(entry.conversation as usize).map(|it| &it.name),
        "children": children, "depth": depth, "bad": entry.flags.has(Flags::BAD) || entry.flags.has(Flags::FAILURE),
        "findings": findings, "redacted": entry.flags.has(Flags::REDACTED),
    });
    let is_head = is_event && name(entry.method) == Some("http");
    (value, Previewed { kind: entry.kind, method: method.map(str::to_owned), text: entry.text, is_head })
}

/// Returns a row with its preview.
pub(super) fn row_with_preview(index: &IndexedCapture, at: u32) -> Value {
    let (value, previewed) = row(&index.data(), at, 0);
    with_preview(index, value, &previewed)
}

/// Adds the preview of the text to a row, and the first line of an event.
pub(super) fn with_preview(index: &IndexedCapture, mut value: Value, previewed: &Previewed) -> Value {
    let bytes = index.spool().read(previewed.text, 0, PREVIEWED);
    if previewed.kind == EntryKind::Event {
        let line = String::from_utf8_lossy(&bytes[..bytes.len().min(MAX_EVENT)]);
        let line = line.lines().next().unwrap_or_default();
        let word = value["event"].as_str().unwrap_or_default();
        value["event"] = json!(format!("{word} {line}").trim_end());
        // The row has the first line already; of an HTTP head, the headers follow.
        if previewed.is_head {
            let headers: Vec<&[u8]> = bytes.split(|byte| *byte == b'\n').skip(1).map(<[u8]>::trim_ascii).collect();
            value["preview"] = json!(preview(previewed.kind, None, &headers.join(&b", "[..])));
            return value;
        }
    }
    value["preview"] = json!(preview(previewed.kind, previewed.method.as_deref(), &bytes));
    value
}

/// Returns the words that `barewire read` prints after the size, without the latency, which has its own column.
fn note(data: &IndexData, entry: &EntryRecord, detail: Option<&str>) -> String {
    let operation = data.operation(entry.operation).map(|it| {
        let name = |number| data.names.get(number);
        let first = data.entries.get(it.first as usize);
        let request = (entry.request as usize).checked_sub(1).and_then(|row| data.entries.get(row));
        let request = request.filter(|_| entry.flags.has(Flags::OTHER_ID));
        OperationFacts {
            number: u64::from(entry.operation),
            frame: first.map_or(0, |entry| u64::from(entry.frame)),
            method: name(it.method).unwrap_or_default().to_owned(),
            name: name(it.name).map(str::to_owned),
            round: usize::from(entry.round),
            request_id: request.and_then(|it| data.ids.text(it.id)).map(|id| shown(id.as_bytes(), MAX_ID)),
            total: entry.time.since(it.start),
        }
    });
    let relation = MessageRelation { role: entry.role, operation, latency: None };
    let mut words = relation.words(true);
    match entry.outcome {
        RowOutcome::Error => {
            words.insert(0, format!("{} {}", entry.code, detail.unwrap_or_default()).trim_end().to_owned())
        }
        RowOutcome::Invalid if entry.kind != EntryKind::Frame(FrameKind::Batch) => {
            words.insert(0, detail.unwrap_or_default().to_owned())
        }
        _ => {}
    }
    words.join("  ")
}

/// Returns the time from the request of a response to the response, in seconds.
pub(super) fn latency(data: &IndexData, entry: &EntryRecord) -> Option<f64> {
    let request = data.entries.get((entry.request as usize).checked_sub(1)?)?;
    entry.time.since(request.time).map(|latency| latency.as_secs_f64())
}

pub(super) fn direction(flags: Flags) -> Option<String> {
    if flags.has(Flags::GUESSED) { None } else { flags.stream().map(|stream| stream.sigil().to_string()) }
}

pub(super) const fn role(role: Role) -> Option<&'static str> {
    match role {
        Role::None => None,
        Role::Request { .. } => Some("request"),
        Role::Response { .. } => Some("response"),
        Role::Progress => Some("progress"),
        Role::Cancellation => Some("cancel"),
        Role::RefusesUnidentified => Some("refusal"),
        Role::Duplicate => Some("duplicate"),
        Role::Unsolicited => Some("unsolicited"),
    }
}

/// The operations that have a row in a list, each with the first such row.
pub(super) fn operations_of(data: &IndexData, rows: &[u32]) -> BTreeMap<u32, u32> {
    let mut operations = BTreeMap::new();
    for row in rows {
        let operation = data.entries.get(*row as usize).map_or(0, |entry| entry.operation);
        if operation > 0 {
            operations.entry(operation).or_insert(*row);
        }
    }
    operations
}

/// Returns a time as the page has it; `None` if it is unknown.
pub(super) fn seconds(time: Option<Time>) -> Option<f64> {
    time.and_then(Time::seconds)
}

/// The maximum number of rows in one answer.
const MAX_ROWS: usize = 500;
/// The maximum number of findings that a row names.
const MAX_FINDINGS: usize = 20;
/// The maximum length of the line of an event, in bytes.
const MAX_EVENT: usize = 512;
/// The maximum width of an id.
const MAX_ID: usize = 40;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::tests::indexed;

    /// Returns the rows of an answer: the key of each, with the number of rows below it, and what it shows.
    fn keys(index: &IndexedCapture, query: &str) -> Vec<String> {
        let Ok(Answer::Json(text)) = rows(index, &ViewRequest::new(false, "", query, Vec::new())) else {
            panic!("no rows: {query}")
        };
        let value: Value = serde_json::from_str(&text).expect("JSON");
        let shown = |row: &Value| {
            let word = row["event"].as_str().or(row["method"].as_str()).unwrap_or_default();
            let place = if row["depth"] == 0 { "" } else { "+" };
            format!("{place}{} {} {word}", row["key"].as_str().unwrap_or_default(), row["children"])
        };
        value["rows"].as_array().expect("rows").iter().map(shown).collect()
    }

    const POST: &str = "head > POST /mcp HTTP/1.1\n@x(+1) head > content-type: application/json\n@x(+1) framing body";

    /// The heads around a message that is not part of an operation are folded below it, and below a batch.
    #[test]
    fn http_heads_are_folded_below_what_was_sent() {
        let exchange = |body: &str, status: &str| {
            format!("@x(+1) {POST}\n>x(noeol +1) {body}\n@x(+1) eof >\n@x(+2) head < HTTP/1.1 {status}\n@x(+2) eof <\n")
        };
        let note = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
        let batch = r#"[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","method":"notifications/x"}]"#;
        let wire = format!("wire 1\n{}{}", exchange(note, "202 Accepted"), exchange(batch, "400 Bad Request"));
        let index = indexed(&wire);
        assert_eq!(keys(&index, "fold=1"), ["f1 2 notifications/initialized", "f2 4 "]);
        assert_eq!(
            keys(&index, "fold=1&expand=-1,-2"),
            [
                "f1 2 notifications/initialized",
                "+e0 0 http POST /mcp HTTP/1.1",
                "+e2 0 http HTTP/1.1 202 Accepted",
                "f2 4 ",
                "+e3 0 http POST /mcp HTTP/1.1",
                "+f2.1 0 ping",
                "+f2.2 0 notifications/x",
                "+e7 0 http HTTP/1.1 400 Bad Request",
            ]
        );
        // Heads that a search finds are listed if the message is not.
        assert_eq!(
            keys(&index, "fold=1&filter=POST"),
            ["e0 0 http POST /mcp HTTP/1.1", "e3 0 http POST /mcp HTTP/1.1"]
        );
        let head = row_with_preview(&index, 0);
        assert_eq!(head["preview"], "content-type: application/json");
    }

    /// Only rows that are folded below a request count as its children, not the elements of a batch.
    #[test]
    fn an_element_of_a_batch_is_below_its_batch_only() {
        let (request, response) =
            (r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#, r#"{"jsonrpc":"2.0","id":1,"result":{}}"#);
        let index = indexed(&format!("wire 1\n>(+1) [{request}]\n<(+2) [{response}]\n"));
        assert_eq!(keys(&index, ""), ["f1 1 ", "f1.1 0 ping", "f2 1 ", "f2.1 0 ping"]);
    }
}
