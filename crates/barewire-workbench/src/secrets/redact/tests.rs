//! Secrets of every kind, whole and in pieces, and texts that only look like secrets.

mod cases;

use std::ffi::OsStr;

use proptest::prelude::*;
use serde_json::{Map, Value};

use super::*;
use barewire_proto::transcript::{Marks, is_clean, read_line};
use cases::{CASES, PLAIN};

fn redactor() -> Redactor {
    let env = [
        ("MY_TOKEN", "from-the-environment"),
        ("HOME", "/home/somebody"),
        ("API_KEY", "a\"quote\\in it"),
        ("X_TOKEN", "Env/Secret\"Val+ue-99 11"),
        ("Y_TOKEN", "/usr/bin/python3"),
    ];
    Redactor::with(Detector::knowing(env.into_iter().map(|(name, value)| (name.into(), value.into())), []))
}

fn text(text: &str) -> String {
    String::from_utf8(redactor().0.expect("it is on").text(text.as_bytes()).0).expect("UTF-8")
}

#[test]
fn secrets_are_replaced_and_nothing_else() {
    for (before, after) in CASES {
        assert_eq!(text(before), *after);
        // Redacting the result again changes nothing.
        assert_eq!(text(after), *after);
    }
}

#[test]
fn plain_text_stays() {
    for plain in PLAIN {
        assert_eq!(text(plain), *plain);
    }
}

/// The free text of events is redacted like any other text.
#[test]
fn secrets_in_events_are_replaced() {
    let events = [
        "open {}",
        "failed {}",
        "changed > {}",
        "informational < {}",
        "refused > {}",
        "unread < the body is encoded: {}",
        "unread < {}",
        "closed > the program cannot be written to: {}",
        "cut < {}",
        "cut < {}; the client is told 502 Bad Gateway",
        "cut < the client closed the connection: {}",
        "cut < the client sent what is not passed on: {}",
        "cut < the server closed the connection: {}",
        "cut < the server closed the connection: {}; the client is told 502 Bad Gateway",
        "fault < 3 junk {}",
        "something-new {}",
    ];
    for (before, after) in CASES.iter().filter(|(before, _)| is_clean(before.as_bytes())) {
        for event in events {
            let (before, after) = (event.replace("{}", before), event.replace("{}", after));
            let mut out = Vec::new();
            let read = read_line(format!("@ {before}").as_bytes(), 2).expect("an event");
            redactor().entry(read, &mut out);
            let [Entry::Event(Event { note, marks, .. })] = &out[..] else { panic!("{out:?}") };
            assert_eq!(String::from_utf8_lossy(&note.text()), after);
            assert_eq!(marks.redacted, before != after, "{before}");
        }
    }
}

/// Redacts a text line by line.
fn in_lines(text: &str) -> String {
    let (mut redactor, mut out) = (redactor(), Vec::new());
    for (number, line) in text.split('\n').enumerate() {
        redactor.entry(entry(line.as_bytes(), End::Lf), &mut out);
        assert_eq!(out.len(), number + 1, "no line waits for another");
    }
    let lines: Vec<_> = out.iter().map(|entry| String::from_utf8_lossy(payload(entry))).collect();
    lines.join("\n")
}

/// JSON with every member on its own line gives the same result: as one text, line by line, and in strings.
#[test]
fn the_layout_of_json_makes_no_difference() {
    let compact = |text: &str| serde_json::from_str::<Value>(text).expect(text).to_string();
    let more = [
        (r#"{"args":["--token","a1"]}"#, r#"{"args":["--token","<redacted-1>"]}"#),
        (
            r#"{"h":[{"name":"Authorization","value":"a1"},{"key":"API_KEY","value":"b2"}]}"#,
            r#"{"h":[{"name":"Authorization","value":"<redacted-1>"},{"key":"API_KEY","value":"<redacted-2>"}]}"#,
        ),
        (
            r#"{"secret":{"a":{"value":"a1","b":[{},{}]},"type":"text","value":"b2"}}"#,
            r#"{"secret":{"a":{"value":"<redacted-1>","b":[{},{}]},"type":"text","value":"<redacted-2>"}}"#,
        ),
    ];
    let plain = PLAIN.iter().map(|plain| (*plain, *plain));
    let is_json = |text: &str| serde_json::from_str::<Value>(text).is_ok();
    for (before, after) in CASES.iter().copied().chain(more).chain(plain).filter(|(text, _)| is_json(text)) {
        let expected = compact(&text(&compact(before)));
        // The numbers may differ because the members are in another order.
        assert_eq!(
            expected.matches(REPLACEMENT_PREFIX).count(),
            after.matches(REPLACEMENT_PREFIX).count(),
            "{expected}"
        );
        let value: Value = serde_json::from_str(before).expect("JSON");
        for indent in ["  ", "\t", "        "] {
            let mut pretty = Vec::new();
            let format = serde_json::ser::PrettyFormatter::with_indent(indent.as_bytes());
            let mut out = serde_json::Serializer::with_formatter(&mut pretty, format);
            serde::Serialize::serialize(&value, &mut out).expect("it can be written");
            let pretty = String::from_utf8(pretty).expect("UTF-8");
            let event = format!("data: {}", pretty.replace('\n', "\ndata: "));
            // A line break is not added inside a string.
            let apart = if before.contains('\\') { &*pretty } else { &pretty.replace("\": ", "\"\t:\n") };
            for pretty in [&pretty, &pretty.replace('\n', "\r\n"), apart] {
                assert_eq!(compact(&text(pretty)), expected, "{pretty}");
                assert_eq!(compact(&in_lines(pretty)), expected, "{pretty}");
            }
            let lines = in_lines(&event).replace("\ndata: ", "\n");
            assert_eq!(compact(lines.trim_start_matches("data: ")), expected, "{event}");
            // The same text as a JSON string, and as a string within a string.
            let (mut inner, mut shown) = (pretty.clone(), text(&Value::from(pretty).to_string()));
            for _ in 0..2 {
                let string: String = serde_json::from_str(&shown).expect("a string");
                assert_eq!(compact(&string), expected, "{inner}");
                inner = Value::from(inner).to_string();
                shown = serde_json::from_str(&text(&Value::from(&*inner).to_string())).expect("a string");
            }
        }
    }
}

#[test]
fn held_text_is_bounded() {
    let (mut redactor, mut out) = (redactor(), Vec::new());
    for line in ["\"secret\": {", "\"--token\",", "", ":", "\"password\": [", "  "].repeat(1000) {
        redactor.entry(entry(line.as_bytes(), End::Lf), &mut out);
        let held = redactor.0.as_ref().expect("on").unfinished.values().next().expect("one").line.held();
        assert!(held < 4096, "{held}");
    }
    assert_eq!(out.len(), 6000);
}

/// Splits every case at every byte, with enough text around it that part of every piece is written at once.
#[test]
fn no_secret_comes_through_in_pieces() {
    let around = "lorem ipsum ".repeat(1000);
    for (before, after) in CASES.iter().copied().chain(PLAIN.iter().take(4).map(|plain| (*plain, *plain))) {
        let line = format!("{around}{before} {around}");
        let expected = format!("{around}{after} {around}");
        for cut in around.len() - 1..=around.len() + before.len() + 2 {
            let (first, second) = line.as_bytes().split_at(cut);
            for pieces in [vec![first, second], first.chunks(3000).chain(second.chunks(3000)).collect()] {
                assert!(in_pieces(&pieces, End::Lf) == expected, "{before} cut at {cut}");
            }
        }
    }
}

/// Feeds every case in pieces of one byte, in a line that never ends.
#[test]
fn the_end_of_a_stream_writes_held_text() {
    for (before, after) in CASES {
        let bytes: Vec<&[u8]> = before.as_bytes().chunks(1).collect();
        assert_eq!(in_pieces(&bytes, End::None), *after);
    }
}

#[test]
fn a_secret_of_any_length_takes_little_memory() {
    let piece = "\\\\\\\"0".repeat(20_000);
    let mut redactor = redactor();
    let mut out = Vec::new();
    redactor.entry(entry(b"{\"token\":\"", End::None), &mut out);
    for _ in 0..100 {
        redactor.entry(entry(piece.as_bytes(), End::None), &mut out);
        let held = redactor.0.as_ref().expect("on").unfinished.values().next().expect("one").line.held();
        assert!(held < 4096, "{held}");
    }
    redactor.entry(entry(b"\",\"a\":\"b\"}", End::Lf), &mut out);
    let written: usize = out.iter().map(|entry| payload(entry).len()).sum();
    assert!(written < 64, "{written}");
    let whole: Vec<u8> = out.iter().flat_map(payload).copied().collect();
    assert_eq!(String::from_utf8_lossy(&whole), r#"{"token":"<redacted-1>","a":"b"}"#);
}

#[test]
fn a_private_key_over_many_lines() {
    let mut redactor = redactor();
    let mut out = Vec::new();
    for line in ["-----BEGIN PRIVATE KEY-----", "MIIEvQIBADAN", "abc+/=", "-----END PRIVATE KEY-----", "ready"] {
        redactor.entry(entry(line.as_bytes(), End::Lf), &mut out);
    }
    let lines: Vec<_> = out.iter().map(|entry| String::from_utf8_lossy(payload(entry))).collect();
    let expected =
        ["-----BEGIN PRIVATE KEY-----", "<redacted-1>", "<redacted-2>", "-----END PRIVATE KEY-----", "ready"];
    assert_eq!(lines, expected);
}

#[test]
fn heads_are_redacted() {
    for (before, after) in [
        ("authorization: Bearer abc", "authorization: Bearer <redacted-1>"),
        ("Proxy-Authorization:secret", "Proxy-Authorization:<redacted-1>"),
        ("Cookie: a=1; b=2; a=1", "Cookie: a=<redacted-1>; b=<redacted-2>; a=<redacted-1>"),
        ("Set-Cookie: sid=abc; Path=/; HttpOnly", "Set-Cookie: sid=<redacted-1>; Path=/; HttpOnly"),
        ("Mcp-Session-Id: 123", "Mcp-Session-Id: <redacted-1>"),
        ("POST /mcp?token=abc HTTP/1.1", "POST /mcp?token=<redacted-1> HTTP/1.1"),
        ("Authorization: Bearer <redacted-7>", "Authorization: Bearer <redacted-7>"),
        ("Authorization: Bearer <redacted-x", "Authorization: Bearer <redacted-1>"),
        ("Cookie: a=<redacted-7>; b=<redacted-7>8", "Cookie: a=<redacted-7>; b=<redacted-1>"),
        ("Location: http://me:pw@h/", "Location: http://me:<redacted-1>@h/"),
        ("Content-Type: application/json", "Content-Type: application/json"),
        ("Ocp-Apim-Subscription-Key: a1b2c3d4", "Ocp-Apim-Subscription-Key: <redacted-1>"),
        ("Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="),
    ] {
        let note = Note::Head(Stream::ToServer, before.as_bytes().to_vec());
        let (channel, mut out) = (Channel::default(), Vec::new());
        redactor().entry(Entry::Event(Event { channel, note, marks: Marks::default() }), &mut out);
        let [Entry::Event(Event { note: Note::Head(_, line), marks, .. })] = &out[..] else { panic!("{out:?}") };
        assert_eq!(String::from_utf8_lossy(line), after);
        assert_eq!(marks.redacted, before != after);
    }
}

#[test]
fn arguments_are_redacted() {
    for (argv, shown) in [
        (
            &["server", "--token", "abc", "--api-key=def", "x y"][..],
            "server --token <redacted-1> --api-key=<redacted-2> 'x y'",
        ),
        (
            &["env", "API_KEY=abc", "-H", "Authorization: Bearer abc"],
            "env API_KEY=<redacted-1> -H 'Authorization: Bearer <redacted-1>'",
        ),
        (&["s", "--token", "--port", "80", "from-the-environment"], "s --token --port 80 <redacted-1>"),
        (&["don't"], "'don'\\''t'"),
        (&["s", "--token=<redacted-7>", "--token=<redacted-x"], "s '--token=<redacted-7>' --token=<redacted-1>"),
        (
            &["s", "--password=hunter2;more#rest", "--token=$uperS3cret", "-e", "DB_PASSWORD=(abc"],
            "s --password=<redacted-1> --token=<redacted-2> -e DB_PASSWORD=<redacted-3>",
        ),
        (
            &["s", "--pass", "a", "--key", "a1b2c3d4", "--key", "name", "--auth", "u:p"],
            "s --pass <redacted-1> --key <redacted-2> --key name --auth <redacted-3>",
        ),
        (
            &["s", "--config", r#"{"apiKey": "a1", "b": "c"}"#, "--header=X-Auth-Token: a1"],
            r#"s --config '{"apiKey": "<redacted-1>", "b": "c"}' '--header=X-Auth-Token: <redacted-1>'"#,
        ),
        (&["sh", "-c", "srv --password ppp"], "sh -c 'srv --password <redacted-1>'"),
        (&["s", "--auth-mode=token", "8080", "--env=API_KEY=x"], "s --auth-mode=token 8080 --env=API_KEY=<redacted-1>"),
    ] {
        let argv: Vec<&OsStr> = argv.iter().map(OsStr::new).collect();
        assert_eq!(String::from_utf8_lossy(&redactor().argv(argv).0), shown);
    }
}

#[test]
fn off_means_off() {
    let mut out = Vec::new();
    Redactor::off().entry(entry(b"{\"token\":\"abc\"}", End::Lf), &mut out);
    assert_eq!(out, [entry(b"{\"token\":\"abc\"}", End::Lf)]);
}

fn in_pieces(pieces: &[&[u8]], last: End) -> String {
    let (mut redactor, mut out) = (redactor(), Vec::new());
    for (index, piece) in pieces.iter().enumerate() {
        redactor.entry(entry(piece, if index + 1 < pieces.len() { End::None } else { last }), &mut out);
    }
    let eof = Event { channel: Channel::default(), note: Note::Eof(Stream::ToServer), marks: Marks::default() };
    redactor.entry(Entry::Event(eof), &mut out);
    let joined: Vec<u8> = out.iter().flat_map(payload).copied().collect();
    String::from_utf8(joined).expect("UTF-8")
}

fn payload(entry: &Entry) -> &[u8] {
    if let Entry::Bytes(bytes) = entry { &bytes.payload } else { b"" }
}

fn entry(payload: &[u8], end: End) -> Entry {
    let marks = Marks::default();
    Entry::Bytes(Bytes { stream: Stream::ToServer, channel: Channel::default(), payload: payload.to_vec(), end, marks })
}

#[test]
fn prefixes_of_known_secrets_are_replaced() {
    for (before, after) in [
        ("the tool from-the-env…: no", "the tool <redacted-1>…: no"),
        ("a from…, from-the-environment and fro…", "a <redacted-2>…, <redacted-1> and fro…"),
        ("nothing…", "nothing…"),
    ] {
        assert_eq!(redactor().shown(before.as_bytes(), 100), after);
    }
}

#[test]
fn common_text_is_no_secret_of_the_environment() {
    let env = [("FOO_TOKEN", "tools/call"), ("BAR_TOKEN", "20261116"), ("BAZ_PASSWORD", "initialize")];
    let env = env.into_iter().map(|(name, value)| (name.into(), value.into()));
    let text = br#"{"id":20261116,"method":"tools/call","a":"initialize"}"#;
    assert_eq!(Redactor::with(Detector::knowing(env, [])).shown(text, 100).as_bytes(), text);
}

#[test]
fn excerpts_are_redacted_before_they_are_cut() {
    let secret = "a1".repeat(30);
    let (env, before) = ("from-the-environment", "x ".repeat(70));
    for (text, most) in [(format!("{before}{env}"), 150), (format!("{before}token={secret}"), 160)] {
        let shown = redactor().shown(text.as_bytes(), most);
        assert!(shown.contains("<reda") && !shown.contains("from") && !shown.contains("a1a1"), "{shown}");
    }
    let long = format!("{{\"token\":\"{}\"", secret.repeat(1000));
    assert_eq!(redactor().shown(long.as_bytes(), 100), "{\"token\":\"…");
    assert_eq!(redactor().shown(b"\x1b[31mtoken=abc", 100), "\\x1b[31mtoken=<redacted-1>");
    let line = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7";
    assert_eq!(redactor().shown(line.as_bytes(), 100), "<redacted-1>");
}

/// Names of secrets, parts of secrets, and characters that end strings.
const NAMES: &[&str] =
    &["token", "password", "secret", "key", "value", "OPENAI_KEY", "otp", "cookies", "a", "se\u{e9}"];
#[rustfmt::skip] // a table
const PARTS: &[&str] = &[
    "abc", "--password", "--token ", "Bearer ", "a1b2c3d4e5f6", "token", "password", ":", "=", " ", ",", "\"", "'",
    "\\", "{", "}", "[", "]", "<x>", "***", "\n", "Authorization: Digest a=", "%3Ftoken%3D", "bearer ", "Cookie: ",
    "; ", "X-Api-Key: ", "secret = ", "…", "SG.", "postgres://u:", "@h/", "ghp_", "AKIAIOSFODNN7EXAMPLE",
    "-----BEGIN PRIVATE KEY-----",
];

fn values() -> impl Strategy<Value = Value> {
    let text = prop::collection::vec(prop::sample::select(PARTS), 0..6).prop_map(|parts| Value::from(parts.concat()));
    let leaf = prop_oneof![4 => text, 1 => any::<u32>().prop_map(Value::from), 1 => Just(Value::Null)];
    leaf.prop_recursive(5, 40, 4, |inner| {
        let member = (prop::sample::select(NAMES), inner.clone()).prop_map(|(name, value)| (name.to_owned(), value));
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec(member, 0..4).prop_map(|members| Value::from(Map::from_iter(members))),
            inner.prop_map(|value| Value::from(value.to_string())),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn json_stays_json_whole_and_in_pieces(value in values(), cut in 0..1000_usize) {
        let before = value.to_string();
        let after = text(&before);
        prop_assert!(serde_json::from_str::<Value>(&after).is_ok(), "{before}\n{after}");
        let (first, second) = before.as_bytes().split_at(cut % before.len());
        prop_assert_eq!(in_pieces(&[first, second], End::Lf), after);
    }

    #[test]
    fn json_in_lines_is_as_json_in_one(value in values(), cut in 0..100_usize) {
        let before = serde_json::to_string_pretty(&value).expect("it can be written");
        let after = in_lines(&before);
        let read = serde_json::from_str::<Value>(&after);
        prop_assert!(read.is_ok(), "{before}\n{after}");
        prop_assert_eq!(read.expect("JSON").to_string(), text(&value.to_string()));
        // The same with every line in two pieces.
        let (mut redactor, mut out) = (redactor(), Vec::new());
        for line in before.lines() {
            let (first, second) = line.as_bytes().split_at(cut % line.len());
            redactor.entry(entry(first, End::None), &mut out);
            redactor.entry(entry(second, End::Lf), &mut out);
        }
        let pieces: Vec<u8> = out.iter().flat_map(payload).copied().collect();
        prop_assert_eq!(String::from_utf8_lossy(&pieces), after.replace('\n', ""));
    }
}
