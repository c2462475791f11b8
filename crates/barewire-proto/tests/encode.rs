//! Encoding: a message always becomes exactly one frame, whatever its content.

use std::time::Duration;

use barewire_proto::frame::{Codec, ContentLength, EncodeError, Lines, Sse, sse_comment, sse_event, sse_retry};
use barewire_proto::json::Json;
use barewire_proto::rpc::{Id, Params, write};

/// A JSON value on several lines.
const PRETTY: &[u8] = b"{\n  \"text\": \"a\\nb\",\r\n  \"list\": [\n    1\n  ]\n}";

#[test]
fn a_message_is_one_line_even_if_its_parts_have_several() {
    let params = Params::from_json(Json::parse(PRETTY).expect("JSON")).expect("an object");
    let mut out = Vec::new();
    Lines::encode(&mut out, |out| write::request(out, &Id::from(1), "m", Some(params)));
    let text = String::from_utf8(out).expect("UTF-8");
    let expected = r#"{"jsonrpc":"2.0","id":1,"method":"m","params":{   "text": "a\nb",    "list": [     1   ] }}"#;
    assert_eq!(text, format!("{expected}\n"));
}

#[test]
fn an_event_carries_a_message_on_one_line() {
    let mut out = Vec::new();
    Sse::encode(&mut out, |out| out.extend_from_slice(b"{\n}"));
    assert_eq!(out, b"data: { }\n\n");
}

#[test]
fn a_body_is_counted_and_unchanged() {
    let mut out = b"before".to_vec();
    ContentLength::encode(&mut out, |out| out.extend_from_slice("{\"é\":\n1}".as_bytes()));
    assert_eq!(out, "beforeContent-Length: 9\r\n\r\n{\"é\":\n1}".as_bytes());
}

#[test]
fn a_line_break_in_a_field_is_refused_and_nothing_is_written() {
    let mut out = Vec::new();
    let broken = |field| Err(EncodeError::LineBreak { field });
    for bad in ["a\nb", "a\rb", "a\r\nb", "\n", "evil\ndata: injected"] {
        assert_eq!(sse_event(&mut out, Some(bad), None, "x"), broken("event"));
        assert_eq!(sse_event(&mut out, None, Some(bad), "x"), broken("id"));
        assert_eq!(sse_comment(&mut out, bad), broken("comment"));
    }
    assert_eq!(sse_event(&mut out, None, None, "a\rb"), broken("data"));
    assert_eq!(sse_event(&mut out, None, Some("a\0b"), "x"), Err(EncodeError::Nul));
    assert!(out.is_empty());
}

#[test]
fn an_event_with_everything_reads_back() {
    let mut out = Vec::new();
    sse_comment(&mut out, "keep-alive").expect("one line");
    sse_retry(&mut out, Duration::from_millis(500));
    sse_event(&mut out, Some("message"), Some("7"), " two\nlines").expect("no line break in a field");
    assert_eq!(out, b": keep-alive\nretry: 500\nevent: message\nid: 7\ndata:  two\ndata: lines\n\n");
    let mut sse = Sse::default();
    let mut input = &out[..];
    let frame = sse.next_frame(&mut input).expect("a frame").expect("a good one");
    assert_eq!(frame.bytes, b" two\nlines");
    let head = frame.event.expect("an event");
    assert_eq!((head.name, head.last_event_id), ("message", "7"));
    assert_eq!((sse.last_event_id(), sse.retry()), ("7", Some(Duration::from_millis(500))));
}

#[test]
fn extra_members_are_inserted_before_those_of_the_result() {
    use barewire_proto::rpc::{Message, Parsed, parse};
    let frame = br#"{"jsonrpc":"2.0","id":1,"method":"m"}"#;
    let Parsed::Message(Message::Request(request)) = parse(frame, 8) else { panic!("a request") };
    for (result, expected) in
        [(r#"{"a":1}"#, r#"{"x":0,"a":1}"#), ("{}", r#"{"x":0}"#), ("{\n}", r#"{"x":0}"#), ("[1]", "[1]"), ("7", "7")]
    {
        let raw: &serde_json::value::RawValue = serde_json::from_str(result).expect("JSON");
        let mut out = b"before".to_vec();
        request.reply().serialize_with(&mut out, "\"x\":0", raw).expect("written");
        let text = String::from_utf8(out).expect("UTF-8");
        assert_eq!(text, format!(r#"before{{"jsonrpc":"2.0","id":1,"result":{expected}}}"#));
    }
}
