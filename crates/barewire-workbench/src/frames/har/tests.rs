use std::cell::{Cell, RefCell};
use std::path::PathBuf;

use barewire_proto::transcript::Entry;

use super::*;
use crate::frames::{Format, WireItem};

struct Nothing;

impl Sink for Nothing {
    fn take(&mut self, _item: &WireItem<'_>) -> Result<bool, Error> {
        Ok(true)
    }
}

fn file(name: &str, text: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("barewire-har-{}-{name}", std::process::id()));
    std::fs::write(&path, text).expect("a file");
    path
}

/// Returns the transcript of a HAR file, and what was reported about it.
fn converted(name: &str, text: &str, frame: usize) -> Result<(String, Vec<String>), String> {
    let path = file(name, text);
    let (wire, told) = (RefCell::new(String::new()), RefCell::new(Vec::new()));
    let filter = RefCell::new(|entry: Entry, out: &mut Vec<Entry>| {
        entry.write(&mut wire.borrow_mut());
        out.push(entry);
    });
    let reading = FrameReader {
        file: Some(&path),
        format: Format::Har,
        limits: FrameLimits { frame, depth: 64 },
        follow: false,
        warn: &|error| told.borrow_mut().push(error.to_string()),
        notice: &|notice| told.borrow_mut().push(format!("{notice:?}")),
        filter: Some(&filter),
    };
    let read = reading.each(&mut Nothing).map_err(|error| error.to_string());
    std::fs::remove_file(&path).expect("it is ours");
    let told = told.borrow().iter().map(|it| it.replace(&path.display().to_string(), "FILE")).collect();
    let wire = wire.borrow().clone();
    read.map(|()| (wire, told)).map_err(|error| error.replace(&path.display().to_string(), "FILE"))
}

fn entry(at: &str, took: &str, request: &str, response: &str) -> String {
    format!(
        r#"{{"startedDateTime":"2026-07-28T09:30:{at}Z","time":{took},
        "request":{{{request}}},"response":{{{response}}}}}"#
    )
}

fn har(entries: &[String]) -> String {
    format!(r#"{{"log":{{"version":"1.2","creator":{{"name":"x"}},"entries":[{}]}}}}"#, entries.join(","))
}

const POST: &str = r#""method":"POST","url":"http://h:1/mcp?a=b#c","httpVersion":"h2",
"headers":[{"name":":authority","value":"h:1"},{"name":":path","value":"/mcp"}],
"postData":{"mimeType":"application/json","text":"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}"}"#;

#[test]
fn exchanges_are_in_the_order_of_their_times() {
    let stream = r#""method":"GET","url":"http://h:1/sse","httpVersion":"HTTP/1.1","headers":[]"#;
    let events = r#""status":200,"statusText":"OK","httpVersion":"HTTP/1.1",
        "headers":[{"name":"Content-Type","value":"text/event-stream"},{"name":"content-encoding","value":"br"}],
        "content":{"size":-1,"encoding":"base64","text":"ZXZlbnQ6IGVuZHBvaW50CmRhdGE6IC9tY3A/YT1iCgpkYXRhOiB7Impzb25ycGMiOiIyLjAiLCJpZCI6MSwicmVzdWx0Ijp7fX0KCg=="}"#;
    let accepted = r#""status":202,"statusText":"","httpVersion":"http/2.0","headers":[],"content":{"size":0}"#;
    let page = entry("00.5", "1", r#""method":"GET","url":"http://h/","headers":[]"#, r#""status":200,"headers":[]"#);
    let all = [entry("01.000", "0", POST, accepted), page, entry("00.000", "2000.5", stream, events)];
    let (wire, told) = converted("order", &har(&all), 1000).expect("it is read");
    assert_eq!(told, ["OtherExchanges(1)"]);
    let expected = "\
wire 1 started=2026-07-28T09:30:00.000Z
@x1(+0.000000) head > GET /sse HTTP/1.1
@x1(+0.000000) framing none
@x1(+0.000000) eof >
@x2(+1.000000) head > POST /mcp?a=b HTTP/2
@x2(+1.000000) head > host: h:1
@x2(+1.000000) framing body
>x2(+1.000000 noeol) {\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}
@x2(+1.000000) eof >
@x2(+1.000000001) head < HTTP/2.0 202
@x2(+1.000000001) eof <
@x1(+2.000500) head < HTTP/1.1 200 OK
@x1(+2.000500) head < Content-Type: text/event-stream
@x1(+2.000500) framing sse
<x1(+2.000500) event: endpoint
<x1(+2.000500) data: /mcp?a=b
<x1(+2.000500)
<x1(+2.000500) data: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}
<x1(+2.000500)
@x1(+2.000500) eof <
";
    assert_eq!(wire, expected);
}

#[test]
fn bodies_that_are_missing_or_cut_are_said_to_be() {
    let response = |content: &str| {
        let head = r#""status":200,"statusText":"OK","httpVersion":"HTTP/1.1",
            "headers":[{"name":"content-type","value":"application/json"}],"content":"#;
        format!("{head}{content}")
    };
    let cut = response(r#"{"size":500,"text":"{\"jsonrpc\":\"2.0\",\"id\":1,\"res"}"#);
    let absent = response(r#"{"size":7}"#);
    // The size counts the bytes of another character set.
    let whole = response(r#"{"size":500,"text":"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}"}"#);
    let aborted = r#""status":0,"headers":[],"_error":"net::ERR_ABORTED""#;
    let all = [&*cut, &absent, &whole, aborted].map(|response| entry("00", "1", POST, response));
    let (wire, told) = converted("cut", &har(&all), 1000).expect("it is read");
    assert_eq!(told, ["MissingBodies(2)"]);
    let zeros = "0".repeat(64);
    for line in [
        &format!("<x1(+0.001000 noeol truncated=500:{zeros}) {{\"jsonrpc\":\"2.0\",\"id\":1,\"res\n"),
        "@x2(+0.001000) gap < 7\n",
        "<x3(+0.001000 noeol) {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n",
        "@x4(+0.001000) cut < net::ERR_ABORTED\n",
    ] {
        assert!(wire.contains(line), "{line}{wire}");
    }
}

#[test]
fn bad_files_have_clear_errors_and_warnings() {
    assert!(converted("no", "{\"log\":{}}", 1000).expect_err("no entries").contains("it has no list log.entries"));
    assert_eq!(converted("empty", &har(&[]), 1000), Ok((String::new(), vec![])));
    let response = r#""status":200,"headers":[]"#;
    let good = entry("00", "1", POST, response);
    let long = entry("00", "1", POST, &format!("{response},\"x\":\"{}\"", "y".repeat(2 << 20)));
    let text = har(&[good.clone(), "{\"request\":{}}".into(), "{bad}".into(), long]);
    let (wire, told) = converted("bad", &text, 1000).expect("it is read");
    assert!(wire.contains("@x1(") && !wire.contains("@x2("), "{wire}");
    let warnings = [
        "FILE has 1 entries that are too long, which are left out",
        "FILE has 2 entries without a request, a response and a time",
    ];
    assert_eq!(told, warnings);
    let half = har(&[good.clone(), good]);
    let (wire, told) = converted("half", &half[..half.len() - 20], 1000).expect("it is read");
    assert!(wire.contains("@x1("), "{wire}");
    assert_eq!(told, ["FILE ends within its list of exchanges"]);
}

#[test]
fn a_har_file_cannot_be_read_from_stdin_or_followed() {
    let notices = Cell::new(0);
    let reading = FrameReader {
        file: None,
        format: Format::Har,
        limits: FrameLimits::default(),
        follow: false,
        warn: &|_| {},
        notice: &|_| notices.set(1),
        filter: None,
    };
    assert!(read(&reading, &mut Nothing).is_err_and(|error| error.to_string().contains("it is read twice")));
    let follow = FrameReader { file: Some(Path::new("a.har")), follow: true, ..reading };
    assert!(read(&follow, &mut Nothing).is_err_and(|error| error.to_string().contains("cannot follow a.har")));
    assert_eq!(notices.get(), 0);
}
