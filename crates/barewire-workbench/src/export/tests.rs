//! Exports wires, and reads what was written.

use std::path::PathBuf;

use barewire_proto::transcript::{Stream, read};
use serde_json::Value;

use super::{HarExporter, OtlpExporter};
use crate::Error;
use crate::frames::{Format, FrameLimits, FrameReader, Sink, Streams, WireItem};
use crate::pipeline::{Observer, ObserverSink};
use crate::secrets::Redactor;

const STDIO: &str = r#"wire 1 started=2026-07-28T09:30:00.000000Z
@(+0.000000) open server
>(+0.100000) {"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","clientInfo":{"name":"c","version":"1"}}}
<(+0.250000) {"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-06-18","serverInfo":{"name":"s","version":"2"}}}
>(+0.300000) {"jsonrpc":"2.0","method":"notifications/initialized"}
>(+0.400000) {"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"ask me"}}
<(+0.500000) {"jsonrpc":"2.0","id":7,"method":"sampling/createMessage","params":{}}
>(+0.600000) {"jsonrpc":"2.0","id":7,"error":{"code":-1,"message":"declined"}}
<(+0.700000) {"jsonrpc":"2.0","id":2,"result":{"content":[],"isError":true}}
>(+0.800000) not JSON
>(+0.900000) {"jsonrpc":"2.0","id":3,"method":"ping"}
"#;

const HTTP: &str = r#"wire 1 started=2026-07-28T09:30:00.000000Z
@x1(+0.000000) head > POST /mcp?a=b HTTP/1.1
@x1(+0.000000) head > host: localhost:3000
@x1(+0.000000) head > mcp-session-id: s1
@x1(+0.000000) framing body
>x1(noeol +0.001000) {"jsonrpc":"2.0","id":1,"method":"tools/list"}
@x1(+0.001000) eof >
@x1(+0.002000) head < HTTP/1.1 200 OK
@x1(+0.002000) head < content-type: text/event-stream
@x1(+0.002000) framing sse
<x1(+0.003000) data: {"jsonrpc":"2.0","method":"notifications/message","params":{}}
<x1(+0.003000)
<x1(+0.004000) data: {"jsonrpc":"2.0","id":1,"result":{"tools":[]}}
<x1(+0.004000)
@x1(+0.005000) eof <
"#;

fn observe<O: Observer>(transcript: &str, observer: O) -> O {
    let mut sink = ObserverSink::new(observer);
    let mut streams = Streams::new(FrameLimits { frame: 1 << 20, depth: 64 });
    for entry in read(transcript.as_bytes()).expect("a transcript") {
        assert!(matches!(streams.entry(&entry, &mut sink), Ok(true)));
    }
    assert!(streams.finish(&mut sink).is_ok());
    sink.finish()
}

fn har(transcript: &str) -> (String, u64) {
    let mut out = Vec::new();
    let entries = observe(transcript, HarExporter::new(&mut out, Redactor::new())).finish().expect("room");
    (String::from_utf8(out).expect("UTF-8"), entries)
}

fn otlp(transcript: &str) -> Vec<Value> {
    let mut out = Vec::new();
    let spans = observe(transcript, OtlpExporter::new(&mut out, Redactor::new())).finish().expect("room");
    let json: Value = serde_json::from_slice(&out).expect("JSON");
    let list = json["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().expect("spans").clone();
    assert_eq!(list.len() as u64, spans);
    list
}

/// The direction, time and text of every frame.
#[derive(Default)]
struct Frames(Vec<(char, Option<u128>, String)>);

impl Sink for Frames {
    fn take(&mut self, item: &WireItem<'_>) -> Result<bool, Error> {
        if let WireItem::Frame(frame) = item {
            let place = frame.place.expect("a place");
            let text = String::from_utf8_lossy(frame.bytes.unwrap_or_default()).into_owned();
            let sigil = if place.stream == Stream::ToServer { '>' } else { '<' };
            self.0.push((sigil, place.time.map(|time| time.as_micros()), text));
        }
        Ok(true)
    }
}

fn frames_of_wire(transcript: &str) -> Frames {
    let mut frames = Frames::default();
    let mut streams = Streams::new(FrameLimits { frame: 1 << 20, depth: 64 });
    for entry in read(transcript.as_bytes()).expect("a transcript") {
        streams.entry(&entry, &mut frames).expect("no limit");
    }
    streams.finish(&mut frames).expect("no limit");
    frames
}

fn frames_of_har(name: &str, text: &str) -> Frames {
    let path: PathBuf = std::env::temp_dir().join(format!("barewire-export-{}-{name}.har", std::process::id()));
    std::fs::write(&path, text).expect("a file");
    let mut frames = Frames::default();
    let reading = FrameReader {
        file: Some(&path),
        format: Format::Har,
        limits: FrameLimits { frame: 1 << 20, depth: 64 },
        follow: false,
        warn: &|error| panic!("{error}"),
        notice: &|notice| panic!("{notice:?}"),
        filter: None,
    };
    let done = reading.each(&mut frames);
    std::fs::remove_file(&path).expect("it is ours");
    done.expect("it is read");
    frames
}

#[test]
fn the_messages_of_a_byte_stream_survive_a_har_file() {
    let (text, entries) = har(STDIO);
    let (wire, read) = (frames_of_wire(STDIO), frames_of_har("stdio", &text));
    // Times are relative to the first message of the file.
    let since = |frames: Frames| -> Vec<_> {
        let first = frames.0[0].1.expect("a time");
        frames.0.into_iter().map(|(way, time, text)| (way, time.expect("a time") - first, text)).collect()
    };
    assert_eq!(since(read), since(wire));
    let json: Value = serde_json::from_str(&text).expect("JSON");
    let list = json["log"]["entries"].as_array().expect("entries");
    assert_eq!((list.len() as u64, entries), (6, 6));
    let of = |url: &str| list.iter().find(|entry| entry["request"]["url"] == url).expect(url);
    let call = of("stdio://server/tools/call/ask%20me");
    assert_eq!(
        (call["startedDateTime"].as_str(), call["time"].as_f64()),
        (Some("2026-07-28T09:30:00.400000Z"), Some(300.0))
    );
    assert_eq!(of("stdio://client/sampling/createMessage")["_barewire"]["from"], "server");
    assert_eq!(
        (&of("stdio://server/ping")["response"]["status"], &of("stdio://server/ping")["response"]["_error"]),
        (&0.into(), &"no response".into())
    );
}

#[test]
fn an_http_exchange_stays_as_it_was() {
    let (text, entries) = har(HTTP);
    assert_eq!(entries, 1);
    let texts = |frames: Frames| frames.0.into_iter().map(|(way, _, text)| (way, text)).collect::<Vec<_>>();
    assert_eq!(texts(frames_of_har("http", &text)), texts(frames_of_wire(HTTP)));
    let json: Value = serde_json::from_str(&text).expect("JSON");
    let entry = &json["log"]["entries"][0];
    assert_eq!(entry["request"]["url"], "http://localhost:3000/mcp?a=b");
    assert_eq!(entry["request"]["queryString"][0]["name"], "a");
    assert_eq!((&entry["response"]["status"], &entry["response"]["statusText"]), (&200.into(), &"OK".into()));
    assert_eq!(entry["response"]["content"]["mimeType"], "text/event-stream");
    assert!(entry.get("_barewire").is_none() && entry["time"] == 5.0, "{entry}");
}

#[test]
fn a_span_has_its_place_its_times_and_its_error() {
    let spans = otlp(STDIO);
    let named = |name: &str| spans.iter().find(|span| span["name"] == name).expect(name);
    let attribute = |span: &Value, key: &str| {
        let list = span["attributes"].as_array().expect("attributes").clone();
        list.into_iter()
            .find(|it| it["key"] == key)
            .map(|it| it["value"]["stringValue"].as_str().unwrap_or_default().to_owned())
    };
    let (root, call, question) =
        (named("MCP conversation"), named("tools/call ask me"), named("sampling/createMessage"));
    assert_eq!((&call["parentSpanId"], &question["parentSpanId"]), (&root["spanId"], &call["spanId"]));
    assert!(spans.iter().all(|span| span["traceId"] == root["traceId"]));
    assert_eq!(call["startTimeUnixNano"], "1785231000400000000");
    assert_eq!(call["endTimeUnixNano"], "1785231000700000000");
    assert_eq!((&call["status"]["code"], attribute(call, "error.type").as_deref()), (&2.into(), Some("tool_error")));
    assert_eq!(attribute(question, "rpc.response.status_code").as_deref(), Some("-1"));
    assert_eq!(attribute(call, "gen_ai.tool.name").as_deref(), Some("ask me"));
    assert_eq!(attribute(call, "jsonrpc.request.id").as_deref(), Some("2"));
    assert_eq!(named("initialize")["status"], serde_json::json!({}));
    assert_eq!(named("ping")["status"]["message"], "no response");
    // The same capture gives the same ids, another one gives others.
    assert_eq!(otlp(STDIO), spans);
    let other = otlp(&STDIO.replace("09:30:00", "09:31:00"));
    assert!(other.iter().all(|span| spans.iter().all(|known| known["spanId"] != span["spanId"])));
}

#[test]
fn a_trace_that_the_client_names_goes_on() {
    let wire = r#"wire 1
>(+1) {"jsonrpc":"2.0","id":1,"method":"ping","params":{"_meta":{"traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}}}
<(+2) {"jsonrpc":"2.0","id":1,"result":{}}
"#;
    let spans = otlp(wire);
    let ping = spans.iter().find(|span| span["name"] == "ping").expect("a span");
    assert_eq!(ping["traceId"], "0af7651916cd43dd8448eb211c80319c");
    assert_eq!(ping["parentSpanId"], "b7ad6b7169203331");
}

#[test]
fn rounds_are_one_span_with_the_time_of_the_answer_below_it() {
    let wire = r#"wire 1
>(+1) {"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"ask"}}
<(+1.5) {"jsonrpc":"2.0","id":1,"result":{"resultType":"input_required","requestState":"s"}}
>(+4) {"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"ask","requestState":"s"}}
<(+4.25) {"jsonrpc":"2.0","id":2,"result":{}}
"#;
    let spans = otlp(wire);
    let named = |name: &str| spans.iter().find(|span| span["name"] == name).expect(name);
    let (call, input) = (named("tools/call ask"), named("input required"));
    assert_eq!(spans.len(), 3);
    assert_eq!(input["parentSpanId"], call["spanId"]);
    assert_eq!((&input["startTimeUnixNano"], &input["endTimeUnixNano"]), (&"1500000000".into(), &"4000000000".into()));
    assert_eq!(call["endTimeUnixNano"], "4250000000");
}

#[test]
fn no_secret_is_exported() {
    let token = "ghp_16C7e42F292c6912E7710c838347Ae178B4a";
    let stdio = STDIO.replace("ask me", token).replace("declined", token);
    let http = HTTP.replace("host: localhost:3000", &format!("authorization: Bearer {token}"));
    for wire in [&stdio, &http] {
        assert!(wire.contains(token), "the wire has it");
        assert!(!har(wire).0.contains(token));
        let spans = format!("{:?}", otlp(wire));
        assert!(!spans.contains(token), "{spans}");
    }
}
