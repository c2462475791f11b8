//! Indexes small wires, and looks at what was kept and at what is exported of it.

use std::sync::Arc;

use barewire_proto::transcript::read;

use super::{IndexWriter, IndexedCapture, SelectionQuery, observe_selection, wire_entries};
use crate::filter::Filter;
use crate::frames::{FrameLimits, Streams, WireItem};
use crate::operations::{OperationTracker, TrackedMessage};
use crate::pipeline::{Observer, ObserverSink};
use crate::secrets::Redactor;

/// The length of a frame that is not kept.
const TOO_LONG: usize = 2 * 1024 * 1024;

/// Adds a transcript to an index. More can be added by the sink.
pub(crate) fn indexing(index: &Arc<IndexedCapture>, transcript: &str) -> ObserverSink<IndexWriter> {
    let mut sink = ObserverSink::new(IndexWriter::new(Arc::clone(index), Redactor::new()));
    let mut streams = Streams::new(FrameLimits { frame: TOO_LONG, depth: 64 });
    for entry in read(transcript.as_bytes()).expect("a transcript") {
        assert!(matches!(streams.entry(&entry, &mut sink), Ok(true)));
    }
    assert!(streams.finish(&mut sink).is_ok());
    sink
}

/// Indexes a whole transcript.
pub(crate) fn indexed(transcript: &str) -> Arc<IndexedCapture> {
    let index = Arc::new(IndexedCapture::new());
    indexing(&index, transcript).finish();
    index
}

/// Indexes the beginning of live traffic.
pub(crate) fn indexed_so_far(transcript: &str) -> Arc<IndexedCapture> {
    let index = Arc::new(IndexedCapture::new());
    indexing(&index, transcript);
    index
}

fn filter(text: &str) -> SelectionQuery {
    let filter = if text.is_empty() { Filter::new() } else { Filter::parse(text).expect(text) };
    SelectionQuery { filter, ..SelectionQuery::default() }
}

/// Returns the capture of what a filter selects.
fn exported(index: &IndexedCapture, query: &str) -> String {
    let mut text = String::new();
    let rows = index.captured_rows(&filter(query));
    wire_entries(index, rows.as_ref(), &mut |_, entry| {
        entry.write(&mut text);
        true
    });
    text
}

/// Returns the kind, the method and the id of each message of a capture, as the index has them.
fn messages(index: &IndexedCapture) -> Vec<String> {
    let data = index.data();
    let frames = data.entries.from(0).filter(|entry| entry.frame > 0);
    let words = frames.map(|entry| {
        let (method, id) = (data.names.get(entry.method).unwrap_or("-"), data.ids.text(entry.id));
        format!("{} {method} {} op {}", entry.kind.as_str(), id.as_deref().unwrap_or("-"), entry.operation)
    });
    words.collect()
}

/// The frames and the indexes of elements that an observer sees.
#[derive(Default)]
struct Seen(Vec<(u64, Option<usize>)>);

impl Observer for Seen {
    fn message(&mut self, message: &TrackedMessage<'_>) {
        self.0.push((message.frame.number, message.element));
    }

    fn item(&mut self, _: &WireItem<'_>, _: &OperationTracker) {}

    fn end(&mut self, _: &OperationTracker) {}
}

fn seen(index: &IndexedCapture, query: &str) -> Vec<(u64, Option<usize>)> {
    observe_selection(index, &filter(query), Seen::default()).unwrap_or_else(|error| panic!("{error}")).0
}

fn call(id: u32, tool: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"{tool}"}}}}"#)
}

fn result(id: u32) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#)
}

/// A batch cannot be cut, so the other requests in it need their responses too.
#[test]
fn a_capture_of_a_selection_has_the_responses_to_all_requests_of_a_batch() {
    let (a, b, c) = (call(1, "a"), call(2, "b"), call(3, "c"));
    let wire = format!("wire 1\n> [{a},{b}]\n> {c}\n< {}\n< {}\n< {}\n", result(3), result(1), result(2));
    let index = indexed(&wire);
    let again = indexed(&exported(&index, "tool:a"));
    let expected = [
        "batch - - op 0",
        "request tools/call 1 op 1",
        "request tools/call 2 op 2",
        "result - 1 op 1",
        "result - 2 op 2",
    ];
    assert_eq!(messages(&again), expected);
    // Other formats have the operations alone.
    assert_eq!(seen(&index, "tool:a"), [(1, Some(0)), (4, None)]);
}

/// The index has rows for the first thousand elements only.
#[test]
fn elements_without_a_row_are_not_taken_for_other_rows() {
    let ping = |id: usize| format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#);
    let batch: Vec<String> = (0..1010).map(ping).collect();
    let calls: String = (2000..2020).map(|id| format!("> {}\n", call(id, "a"))).collect();
    let index = indexed(&format!("wire 1\n> [{}]\n{calls}", batch.join(",")));
    let seen = seen(&index, "tool:a");
    assert_eq!(seen.len(), 20, "{seen:?}");
    assert!(seen.iter().all(|(_, element)| element.is_none()), "{seen:?}");
}

#[test]
fn a_time_without_a_zone_stays_one() {
    let index = indexed("wire 1 started-local=2026-07-28T09:30:00.000\n> {}\n");
    assert!(
        exported(&index, "").starts_with("wire 1 started-local=2026-07-28T09:30:00.000\n"),
        "{}",
        exported(&index, "")
    );
    let index = indexed("wire 1 started=2026-07-28T09:30:00Z\n> {}\n");
    assert!(exported(&index, "").starts_with("wire 1 started=2026-07-28T09:30:00Z\n"));
}

#[test]
fn a_line_with_a_secret_says_that_it_was_replaced() {
    let token = ["ghp_", "0123456789abcdefghijABCDEFGHIJ012345"].concat();
    let index = indexed(&format!(
        "wire 1\n! using {token}\n! nothing\n> {{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":\"{token}\"}}\n"
    ));
    let text = exported(&index, "");
    let marked = |line: &&str| line.contains("(redacted)") && line.contains("<redacted-1>");
    assert_eq!(text.lines().filter(marked).count(), 2, "{text}");
    assert!(text.contains("\n! nothing\n"), "{text}");
}

const STREAM: &str = r#"wire 1
@x1 head > POST /mcp HTTP/1.1
@x1 framing body
>x1(noeol) {"jsonrpc":"2.0","id":1,"method":"tools/list"}
@x1 eof >
@x1 head < HTTP/1.1 200 OK
@x1 head < content-type: text/event-stream
@x1 framing sse
<x1(truncated=5000:0000000000000000000000000000000000000000000000000000000000000000) {"jsonrpc":"2.0","id":1,"result":{"tools":[{"na
@x1 eof <
"#;

#[test]
fn a_frame_that_is_cut_stays_cut() {
    let index = indexed(STREAM);
    assert_eq!(messages(&index), ["request tools/list 1 op 1", "cut - 1 op 1"]);
    let text = exported(&index, "");
    assert_eq!(messages(&indexed(&text)), messages(&index), "{text}");
}

#[test]
fn a_frame_whose_text_is_not_kept_keeps_its_number() {
    let long = "x".repeat(TOO_LONG);
    let wire = format!(
        "wire 1\n> {}\n< {{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":\"{long}\"}}\n> {}\n< {}\n",
        call(1, "a"),
        call(2, "b"),
        result(2)
    );
    let index = indexed(&wire);
    assert_eq!(seen(&index, "tool:b"), [(3, None), (4, None)]);
    assert_eq!(seen(&index, ""), [(1, None), (2, None), (3, None), (4, None)]);
    let again = indexed(&exported(&index, ""));
    // The response is still there, and belongs to its request.
    let words = messages(&again);
    assert_eq!((words.len(), words[1].as_str()), (4, "cut - 1 op 1"), "{words:?}");
}

/// What a server logs, and the exchanges of a long session, do not take the room for names.
#[test]
fn events_and_exchanges_need_no_names() {
    let index = indexed_so_far("wire 1\n! first\n> {\"jsonrpc\":\"2.0\",\"method\":\"known\"}\n");
    let mut full = 0;
    while index.data_mut().names.number(&format!("name {full}")) != 1 {
        full += 1;
    }
    let exchange = |number: u32| {
        format!(
            "@x{number} head > POST /mcp HTTP/1.1\n@x{number} framing body\n>x{number}(noeol) {}\n@x{number} eof >\n\
             @x{number} head < HTTP/1.1 200 OK\n@x{number} framing body\n<x{number}(noeol) {}\n@x{number} eof <\n",
            call(number, "a"),
            result(number),
        )
    };
    indexing(&index, &format!("wire 1\n{}{}! third line\n", exchange(1), exchange(2)));
    let text = exported(&index, "");
    for line in ["@x1 head > POST /mcp HTTP/1.1", "@x2 head < HTTP/1.1 200 OK", "! third line"] {
        assert!(text.contains(line), "{line}\n{text}");
    }
}
