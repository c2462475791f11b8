use std::path::PathBuf;

use super::*;
use crate::frames::{Format, FrameReader, WireItem};

/// The items of a log, one line each.
#[derive(Default)]
struct Shown(Vec<String>);

impl Sink for Shown {
    fn take(&mut self, item: &WireItem<'_>) -> Result<bool, Error> {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        self.0.push(match item {
            WireItem::Header(header) => match header.facts.first() {
                Some((key, value)) => format!("{} {}", key.as_str(), text(value)),
                None => "no start".to_owned(),
            },
            WireItem::Frame(frame) => {
                let (place, facts) = (frame.place.expect("a place"), frame.facts());
                let time = place.time.expect("a time").as_millis();
                let bytes = text(frame.bytes.unwrap_or_default());
                let bytes: String = bytes.chars().take(60).collect();
                format!("{}{} {time} {} {} {bytes}", place.stream.sigil(), place.channel, facts.kind, frame.length)
            }
            WireItem::Stderr(bytes) => {
                let cut = bytes.marks.truncated.as_ref().map_or(String::new(), |whole| format!(" of {}", whole.length));
                format!("!{} {}{cut}", bytes.channel.as_str(), text(&bytes.payload))
            }
            WireItem::Event(event) => format!("@{} {}", event.channel.as_str(), text(&event.note.text())),
            WireItem::Endpoint { .. } => "endpoint".to_owned(),
        });
        Ok(true)
    }
}

fn file(name: &str, text: &[u8]) -> PathBuf {
    let path = std::env::temp_dir().join(format!("barewire-host-log-{}-{name}", std::process::id()));
    std::fs::write(&path, text).expect("a file");
    path
}

fn shown(name: &str, text: &[u8], limits: FrameLimits) -> Vec<String> {
    let path = file(name, text);
    let (warn, notice) = (&|_: &_| {}, &|_| {});
    let reading =
        FrameReader { file: Some(&*path), format: Format::HostLog, limits, follow: false, warn, notice, filter: None };
    let mut sink = Shown::default();
    reading.each(&mut sink).expect("it is read");
    std::fs::remove_file(&path).expect("it is ours");
    sink.0
}

#[test]
fn lines_become_messages_stderr_and_events() {
    let log = "\
banner without a time
2026-07-28T09:30:00.000Z [info] [a] Initializing server...\r
2026-07-28T09:30:00.100Z [info] [a] Message from client: \
{\"method\":\"ping\",\"jsonrpc\":\"2.0\",\"id\":1} { metadata: {
    context: 1
  } }
2026-07-28T09:30:00.200Z [info] [b] Message from server: [1,2] rest
trace of b

  at line 3
2026-07-28 11:30:00.250 [info] a line of the server in another form
2026-07-28T09:30:00.300Z [error] [a] [
  \"not a message\"
]
2026-07-28T09:29:59.900Z [info] [a] Message from server: none";
    let expected = [
        "no start",
        "! banner without a time",
        "@a log Initializing server...",
        ">a 100 request 40 {\"method\":\"ping\",\"jsonrpc\":\"2.0\",\"id\":1}",
        "@a log     context: 1",
        "@a log   } }",
        "<b 200 batch 5 [1,2]",
        "!b trace of b",
        "!b   at line 3",
        "!b 2026-07-28 11:30:00.250 [info] a line of the server in another form",
        "@a log [",
        "@a log   \"not a message\"",
        "@a log ]",
        "@a log none",
    ];
    assert_eq!(shown("lines", log.as_bytes(), FrameLimits::default()), expected);
}

#[test]
fn messages_of_several_lines_are_joined_and_cut_ones_are_marked() {
    let entry = "2026-07-28 09:30:00.000 [trace] [server -> editor] ";
    let log = [
        entry,
        "{\n  \"jsonrpc\": \"2.0\",\n  \"id\": 1,\n  \"result\": {}\n}\n",
        // Cut within a string, with words of the host after it.
        entry,
        "{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{\"text\":\"some... [12 more]\n",
        // Cut outside a string, and a line of stderr.
        entry,
        "{\"jsonrpc\":\"2.0\",\"id\":3,\"result\":{\nnoise\n",
        // Lines that look like JSON, but are not a value together.
        entry,
        "{\"jsonrpc\":\"2.0\",\n[supergateway] }\n}\n",
        entry,
        "{\"jsonrpc\":\"2.0\",\"id\":4,\n",
    ]
    .concat();
    let expected = [
        "started-local 2026-07-28T09:30:00.000",
        "< 0 result 49 {   \"jsonrpc\": \"2.0\",   \"id\": 1,   \"result\": {} }",
        "< 0 cut 59 {\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{\"text\":\"some... [12 more]",
        "< 0 cut 34 {\"jsonrpc\":\"2.0\",\"id\":3,\"result\":{",
        "! noise",
        "< 0 cut 17 {\"jsonrpc\":\"2.0\",",
        "! [supergateway] }",
        "! }",
        "< 0 cut 24 {\"jsonrpc\":\"2.0\",\"id\":4,",
    ];
    assert_eq!(shown("joined", log.as_bytes(), FrameLimits::default()), expected);
}

#[test]
fn a_line_that_is_too_long_is_a_cut_frame_with_its_length() {
    let text = "x".repeat(300_000);
    let entry = "2026-07-28 09:30:00.000 [trace] [server -> editor] ";
    let log = format!("{entry}{{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":\"{text}\"}}\n{entry}{{\"id\":2,\n{text}\n");
    let limits = FrameLimits { frame: 100_000, depth: 64 };
    let lines = shown("long", log.as_bytes(), limits);
    assert_eq!(lines[1], format!("< 0 cut 300036 {{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":\"{}", "x".repeat(26)));
    assert_eq!(lines[2], "< 0 cut 8 {\"id\":2,");
    assert!(lines[3].starts_with("! xxx") && lines[3].ends_with("x of 300000") && lines.len() == 4, "{lines:?}");
}
