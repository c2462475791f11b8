//! Properties of `barewire-proto` that hold for any bytes: one function per fuzz target, which panics if its property
//! does not hold. cargo-fuzz and the property tests call these functions, the tests also with `testdata/corpus`.

use barewire_proto::auth::{
    AuthChallenge, ClientIdentity, Credentials, Crypto, SignIn, SignInEffect, SignInEvent, SignInGrant, SignInSettings,
    Url,
};
use barewire_proto::frame::{Codec, ContentLength, Frame, FrameError, Lines, Outline, Sse};
use barewire_proto::json::{Json, Kind};
use barewire_proto::mcp::{ParsedMessage, RequestParams};
use barewire_proto::rpc::{Id, Invalid, Message, Params, Parsed, Rule, Shape, parse, write};
use barewire_proto::transcript::{Channel, Entry, Note, Recorder, Stream, is_clean, read, read_line, restore};
use serde_json::value::RawValue;

/// The name of a fuzz target and of its corpus, and the function that checks its property.
pub type Check = (&'static str, fn(&[u8]));

/// All checks.
pub const ALL: [Check; 8] = [
    ("lines", lines),
    ("sse", sse),
    ("content_length", content_length),
    ("scanner", scanner),
    ("outline", outline),
    ("wire", wire),
    ("round_trip", round_trip),
    ("sign_in", sign_in),
];

/// An owned copy of a frame, so that the frames of two decoders can be compared.
#[derive(Debug, PartialEq)]
struct OwnedFrame {
    offset: u64,
    bytes: Vec<u8>,
    event: String,
    last_event_id: String,
}

impl From<Frame<'_>> for OwnedFrame {
    fn from(Frame { offset, bytes, event, .. }: Frame<'_>) -> Self {
        let (event, last_event_id) = event.map_or(("", ""), |event| (event.name, event.last_event_id));
        let (event, last_event_id) = (event.to_owned(), last_event_id.to_owned());
        Self { offset, bytes: bytes.to_vec(), event, last_event_id }
    }
}

/// Decodes a stream that arrives in `pieces`.
fn decode<'a, C: Codec>(mut codec: C, pieces: impl Iterator<Item = &'a [u8]>) -> Vec<Result<OwnedFrame, FrameError>> {
    let mut frames = Vec::new();
    for mut piece in pieces {
        while let Some(frame) = codec.next_frame(&mut piece) {
            frames.push(frame.map(OwnedFrame::from));
        }
        assert!(piece.is_empty(), "None means that all bytes were taken");
    }
    while let Some(frame) = codec.finish() {
        frames.push(frame.map(OwnedFrame::from));
    }
    frames
}

/// Checks that any split of the bytes gives the same frames: whole, byte by byte, in pieces, and cut in two. Returns
/// the frames.
fn any_split<C: Codec>(new: impl Fn() -> C, stream: &[u8], cuts: u8) -> Vec<Result<OwnedFrame, FrameError>> {
    let whole = decode(new(), std::iter::once(stream));
    assert_eq!(decode(new(), stream.chunks(1)), whole, "byte by byte");
    assert_eq!(decode(new(), stream.chunks(usize::from(cuts % 13) + 2)), whole, "in pieces");
    let (first, second) = stream.split_at(usize::from(cuts) * stream.len() / 256);
    assert_eq!(decode(new(), [first, second].into_iter()), whole, "in two at {}", first.len());
    whole
}

/// Splits the fuzzer's input: the first byte is a limit, the second chooses the cuts, and the rest is the stream.
fn setup(data: &[u8]) -> Option<(usize, u8, &[u8])> {
    match data {
        [limit, cuts, stream @ ..] => Some((usize::from(*limit), *cuts, stream)),
        _ => None,
    }
}

/// Checks that newline-delimited JSON is decoded as by a naive implementation, and that a frame is encoded as one line.
pub fn lines(data: &[u8]) {
    let Some((limit, cuts, stream)) = setup(data) else { return };
    let frames = any_split(|| Lines::new(limit), stream, cuts);
    let text = stream.strip_prefix(b"\xef\xbb\xbf").unwrap_or(stream);
    let trimmed = |line: &[u8]| line.strip_suffix(b"\r").unwrap_or(line).to_vec();
    let blank = |line: &Vec<u8>| line.iter().all(|b| b" \t\r".contains(b));
    let naive: Vec<Vec<u8>> = text.split(|b| *b == b'\n').map(trimmed).filter(|l| !blank(l)).collect();
    assert_eq!(frames.len(), naive.len());
    for (frame, line) in frames.iter().zip(naive) {
        let (offset, length) = match frame {
            Ok(frame) => {
                assert_eq!(frame.bytes, line);
                assert!(line.len() <= limit);
                (frame.offset, frame.bytes.len())
            }
            Err(FrameError::TooLong(long)) => {
                assert!(line.len() > limit);
                (long.offset, long.length as usize)
            }
            Err(other) => panic!("{other:?}"),
        };
        assert_eq!(stream[offset as usize..][..length], line);
    }
    let mut out = Vec::new();
    Lines::encode(&mut out, |out| out.extend_from_slice(stream));
    assert_eq!(memchr_count(&out), 1, "one line");
    assert_eq!(out.last(), Some(&b'\n'));
}

fn memchr_count(bytes: &[u8]) -> usize {
    bytes.iter().filter(|b| **b == b'\n').count()
}

/// Checks that server-sent events are decoded as by a naive implementation, and can be encoded again.
pub fn sse(data: &[u8]) {
    let Some((limit, cuts, stream)) = setup(data) else { return };
    let events = any_split(|| Sse::new(limit), stream, cuts);
    let data_of = |event: &Result<OwnedFrame, FrameError>| match event {
        Ok(event) => Some((event.event.clone(), event.last_event_id.clone(), event.bytes.len() as u64)),
        Err(FrameError::TooLong(long)) => Some((String::new(), String::new(), long.length)),
        Err(_) => None,
    };
    let decoded: Vec<_> = events.iter().filter_map(data_of).collect();
    let naive = naive_events(stream);
    assert_eq!(decoded.len(), naive.len());
    for ((name, id, length), (naive_name, naive_id, data)) in decoded.iter().zip(&naive) {
        assert_eq!(*length, data.len() as u64);
        assert!(*length > limit as u64 || (name, id) == (naive_name, naive_id), "{name} {id}");
    }
    for event in events.iter().flatten() {
        assert!(event.bytes.len() <= limit);
        // A decoded event can be encoded again, unless its data is not UTF-8.
        let (Ok(data), id) = (std::str::from_utf8(&event.bytes), &event.last_event_id) else { continue };
        let mut out = Vec::new();
        barewire_proto::frame::sse_event(&mut out, Some(&event.event), Some(id), data)
            .expect("a decoded event has no line break that cannot be encoded");
        let again = decode(Sse::default(), std::iter::once(&out[..]));
        let [Ok(again)] = &again[..] else { panic!("{again:?}") };
        assert_eq!((&again.bytes, &again.event), (&event.bytes, &event.event));
        assert_eq!(again.last_event_id, *id);
    }
}

/// Decodes a whole stream at once, literally as in WHATWG HTML, section 9.2.6.
fn naive_events(stream: &[u8]) -> Vec<(String, String, Vec<u8>)> {
    let stream = stream.strip_prefix(b"\xef\xbb\xbf").unwrap_or(stream);
    let mut lines = vec![Vec::new()];
    let mut bytes = stream.iter().copied().peekable();
    while let Some(byte) = bytes.next() {
        match byte {
            b'\r' => {
                bytes.next_if_eq(&b'\n');
                lines.push(Vec::new());
            }
            b'\n' => lines.push(Vec::new()),
            byte => lines.last_mut().expect("there is at least one line").push(byte),
        }
    }
    // The text after the last line end is not a line yet.
    lines.pop();
    let (mut events, mut data, mut event, mut id) = (Vec::new(), None::<Vec<u8>>, String::new(), String::new());
    for line in lines {
        if line.is_empty() {
            let name = std::mem::take(&mut event);
            if let Some(data) = data.take() {
                let name = if name.is_empty() { "message".to_owned() } else { name };
                events.push((name, id.clone(), data));
            }
            continue;
        }
        let colon = line.iter().position(|b| *b == b':');
        let (name, value) = line.split_at(colon.unwrap_or(line.len()));
        let value = value.strip_prefix(b":").unwrap_or(value);
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match name {
            b"data" => match &mut data {
                Some(data) => {
                    data.push(b'\n');
                    data.extend_from_slice(value);
                }
                None => data = Some(value.to_vec()),
            },
            b"event" => event = String::from_utf8_lossy(value).into_owned(),
            b"id" if !value.contains(&0) => id = String::from_utf8_lossy(value).into_owned(),
            _ => {}
        }
    }
    events
}

/// Checks that `Content-Length` frames are parts of the stream, and that an encoded frame decodes to the same bytes.
pub fn content_length(data: &[u8]) {
    let Some((limit, cuts, stream)) = setup(data) else { return };
    for frame in any_split(|| ContentLength::new(limit), stream, cuts).iter().flatten() {
        assert!(frame.bytes.len() <= limit);
        assert_eq!(stream[frame.offset as usize..][..frame.bytes.len()], frame.bytes);
    }
    let mut out = Vec::new();
    ContentLength::encode(&mut out, |out| out.extend_from_slice(stream));
    let again = decode(ContentLength::default(), out.chunks(7));
    let [Ok(again)] = &again[..] else { panic!("{again:?}") };
    assert_eq!(again.bytes, stream);
}

/// Checks that a [`ParsedMessage`] returns the same message and the same params as direct parsing.
fn parsed_message(data: &[u8], parsed: &Parsed<'_>) {
    let message = ParsedMessage::read(data, 8);
    assert_eq!(message.parsed(), *parsed);
    let params = match parsed {
        Parsed::Message(Message::Request(request)) => Some(RequestParams::read(request.params)),
        Parsed::Message(Message::Notification(notification)) => Some(RequestParams::read(notification.params)),
        _ => None,
    };
    assert_eq!(format!("{:?}", message.params()), format!("{params:?}"));
    let copy = ParsedMessage::copy(data, parsed, params.as_ref());
    assert_eq!(copy.parsed(), *parsed);
    assert_eq!(format!("{:?}", copy.params()), format!("{params:?}"));
}

/// Checks that the scanner accepts exactly the texts that `serde_json` accepts as a raw value, and that parsing agrees
/// with a naive implementation.
pub fn scanner(data: &[u8]) {
    let text = std::str::from_utf8(data).ok();
    let json = text.and_then(|text| serde_json::from_str::<&RawValue>(text).ok());
    assert_eq!(Json::parse(data).is_ok(), json.is_some(), "accepts what the RFC accepts");
    if let (Ok(ours), Some(theirs)) = (Json::parse(data), json) {
        assert_eq!(ours.as_str(), theirs.get());
    }
    let faults = |invalid: &Invalid<'_>| matches!(invalid.rule, Rule::Syntax(_) | Rule::BadUtf8);
    let parsed = parse(data, 8);
    parsed_message(data, &parsed);
    match parsed {
        Parsed::Message(message) => {
            assert!(json.is_some());
            same_as_naive(data, &Ok(message));
        }
        Parsed::Invalid(invalid) => {
            assert_eq!(faults(&invalid), json.is_none(), "{invalid:?}");
            assert!(invalid.at <= data.len());
            match invalid.rule {
                Rule::Syntax(_) => assert_eq!((invalid.id.as_ref(), invalid.shape), (None, Shape::Unknown)),
                Rule::EmptyBatch | Rule::BadUtf8 => {}
                _ => same_as_naive(data, &Err(invalid)),
            }
        }
        Parsed::Batch(batch) => {
            let elements: Vec<_> = batch.elements().collect();
            assert_eq!(elements.len(), batch.len());
            assert!(batch.refusals().count() >= 1);
            let bad = elements.iter().any(|e| e.as_ref().is_err_and(faults));
            assert_eq!(bad, json.is_none(), "bad UTF-8 makes some element invalid");
            if let Some(json) = json {
                let apart: Vec<&RawValue> = serde_json::from_str(json.get()).expect("a batch is an array");
                assert_eq!(apart.len(), elements.len());
                for (text, element) in apart.iter().zip(&elements).filter(|(text, _)| !text.get().starts_with('[')) {
                    let alone = match parse(text.get().as_bytes(), 7) {
                        Parsed::Message(message) => Ok(message),
                        Parsed::Invalid(invalid) => Err(invalid),
                        Parsed::Batch(_) => unreachable!("arrays are filtered out"),
                    };
                    match (&alone, element) {
                        (Ok(alone), Ok(element)) => assert_eq!(alone, element),
                        (Err(alone), Err(element)) => {
                            assert_eq!((alone.rule.name(), &alone.id), (element.rule.name(), &element.id));
                        }
                        _ => panic!("{alone:?} alone, {element:?} in the batch"),
                    }
                }
            }
        }
    }
}

/// The members of an object as `serde_json` reads them, in order and with duplicates.
struct Pairs(Vec<(String, Box<RawValue>)>);

impl<'de> serde::Deserialize<'de> for Pairs {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct PairsVisitor;
        impl<'de> serde::de::Visitor<'de> for PairsVisitor {
            type Value = Pairs;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: serde::de::MapAccess<'de>>(self, mut map: A) -> Result<Pairs, A::Error> {
                let mut pairs = Vec::new();
                while let Some(pair) = map.next_entry()? {
                    pairs.push(pair);
                }
                Ok(Pairs(pairs))
            }
        }
        deserializer.deserialize_map(PairsVisitor)
    }
}

/// Checks the result of parsing an object against a naive implementation.
fn same_as_naive(data: &[u8], parsed: &Result<Message<'_>, Invalid<'_>>) {
    // A Rust string cannot hold a name with half of a surrogate pair, so there is nothing to compare with.
    let Ok(Pairs(pairs)) = serde_json::from_slice::<Pairs>(data) else { return };
    let all = |name: &str| pairs.iter().filter(|(n, _)| n == name).map(|(_, v)| v.get()).collect::<Vec<_>>();
    let names = ["jsonrpc", "id", "method", "params", "result", "error"];
    let twice = names.iter().any(|name| all(name).len() > 1);
    let has = |name: &str| !all(name).is_empty();
    let first = |name: &str| all(name).first().map_or('-', |text| text.chars().next().unwrap_or('-'));
    let is = |name: &str, kinds: &str| kinds.contains(first(name));
    let version = all("jsonrpc").first().is_some_and(|t| serde_json::from_str(t).is_ok_and(|s: String| s == "2.0"));
    let valid_id = is("id", "\"-0123456789") && has("id");
    let params = !has("params") || is("params", "{[");
    let sound = version && !twice && params_are_valid(params, has("method"));
    let kind = match (has("method"), has("result"), has("error"), has("id")) {
        (true, false, false, true) if sound && is("method", "\"") && valid_id => "request",
        (true, false, false, false) if sound && is("method", "\"") => "notification",
        (false, true, false, true) if sound && valid_id => "result",
        (false, false, true, _) if sound && is("error", "{") && (valid_id || !has("id") || is("id", "n")) => "error",
        _ => "invalid",
    };
    let ours = match parsed {
        Ok(Message::Request(_)) => "request",
        Ok(Message::Notification(_)) => "notification",
        Ok(Message::Response(response)) if response.outcome.is_ok() => "result",
        Ok(Message::Response(_) | Message::OrphanError(_)) => "error",
        Err(invalid) if matches!(invalid.rule, Rule::TooDeep { .. } | Rule::BadError(_)) => return,
        Err(_) => "invalid",
    };
    assert_eq!(ours, kind, "{parsed:?}");
    // An id is only trusted if it is the only one in the object.
    if let Err(Invalid { id: Some(id), .. }) = parsed {
        assert_eq!(all("id"), [id.as_str()], "{parsed:?}");
    }
}

/// Whether `params` is valid, or ignored because the object has no `method`.
fn params_are_valid(params: bool, method: bool) -> bool {
    params || !method
}

/// Checks that a frame that is too long is refused with the same id and shape as if it had been parsed.
pub fn outline(data: &[u8]) {
    if data.contains(&b'\n') || data.len() < 2 {
        return;
    }
    let skipped = decode(Lines::new(1), data.chunks(3));
    let [Err(error)] = &skipped[..] else { return };
    let FrameError::TooLong(long) = error else { panic!("{error:?}") };
    let refused = Invalid::from_frame(error);
    let bytes = data.strip_prefix(b"\xef\xbb\xbf").unwrap_or(data);
    let json = Json::parse(bytes.strip_suffix(b"\r").unwrap_or(bytes));
    let Ok(json) = json else { return };
    if json.kind() != Kind::Object {
        assert_eq!(long.outline, Outline::Other);
        assert_eq!((refused.id, refused.shape), (None, Shape::Unknown));
        return;
    }
    let (id, shape) = match parse(bytes, usize::MAX) {
        Parsed::Message(Message::Request(request)) => (Some(request.id), Shape::Request),
        Parsed::Message(Message::Notification(_)) => (None, Shape::Notification),
        Parsed::Message(Message::Response(response)) => (Some(response.id), Shape::Response),
        Parsed::Message(Message::OrphanError(_)) => (None, Shape::Response),
        Parsed::Invalid(invalid) => match invalid.rule {
            // A repeated member: the parser checks all names, the outline only the names that it needs.
            Rule::Duplicate(_) => return,
            _ => (invalid.id, invalid.shape),
        },
        Parsed::Batch(_) => unreachable!("the text is an object"),
    };
    assert_eq!((refused.id, refused.shape), (id, shape));
}

/// Checks that a transcript can be read, written and read again, and that any bytes can be recorded and restored.
pub fn wire(data: &[u8]) {
    if let Ok(entries) = read(data) {
        let mut text = String::new();
        entries.iter().for_each(|entry| entry.write(&mut text));
        assert_eq!(read(text.as_bytes()).as_ref(), Ok(&entries), "{text}");
    }
    event_text(data);
    let Some((limit, cuts, stream)) = setup(data) else { return };
    let channel = Channel::new("a").expect("a letter is a valid channel");
    let mut recorder = Recorder::new(Stream::ToClient, channel.clone(), limit);
    let mut entries = Vec::new();
    for piece in stream.chunks(usize::from(cuts) + 1) {
        recorder.push(piece, None, &mut entries);
    }
    recorder.finish(None, &mut entries);
    let mut text = String::new();
    entries.iter().for_each(|entry| entry.write(&mut text));
    assert!(text.chars().all(|c| c == '\n' || !c.is_control()), "safe to show");
    let entries: Vec<Entry> = read(text.as_bytes()).expect("a recorded transcript is valid");
    assert_eq!(restore(&entries, Stream::ToClient, &channel).expect("no byte is missing"), stream);
}

/// Checks that the text of an event is written as it was read. The text of a strict event can change, but not its
/// meaning: `gap > 007` becomes `gap > 7`.
fn event_text(text: &[u8]) {
    if !is_clean(text) {
        return;
    }
    let Ok(Entry::Event(event)) = read_line(&[b"@ ", text].concat(), 2) else { return };
    let is_strict = matches!(
        event.note,
        Note::Open(_)
            | Note::Head(..)
            | Note::Gap(..)
            | Note::Read(_)
            | Note::Eof(_)
            | Note::ExitCode(_)
            | Note::ExitSignal(_)
    );
    assert!(is_strict || event.note.text() == text, "{event:?}");
}

/// Checks that a message stays the same when it is written and parsed again.
pub fn round_trip(data: &[u8]) {
    let Some((kind, cut, rest)) = setup(data) else { return };
    let (first, second) = rest.split_at(usize::from(cut) * rest.len() / 256);
    let method = String::from_utf8_lossy(first);
    let json = Json::parse(second).ok();
    let params = json.and_then(Params::from_json);
    let id = Id::parse(first).unwrap_or_else(|| Id::from(&*method));
    let mut out = Vec::new();
    if kind % 2 == 0 {
        write::request(&mut out, &id, &method, params);
    } else {
        write::notification(&mut out, &method, params);
    }
    assert_eq!(memchr_count(&out), 0, "one line");
    let flat = |params: Option<Params<'_>>| params.map(|p| p.json().as_str().replace(['\n', '\r'], " "));
    match parse(&out, usize::MAX) {
        Parsed::Message(Message::Request(request)) => {
            assert_eq!(request.id.as_str(), id.as_str());
            assert_eq!(request.method, &*method);
            assert_eq!(flat(request.params), flat(params));
            let mut answer = Vec::new();
            request.reply().serialize(&mut answer, &*method).expect("a string is JSON");
            let Parsed::Message(Message::Response(response)) = parse(&answer, 1) else { panic!() };
            assert_eq!(response.id.as_str(), id.as_str());
            assert_eq!(response.outcome.expect("a result").to::<String>().expect("a string"), method);
        }
        Parsed::Message(Message::Notification(notification)) => {
            assert_eq!(kind % 2, 1);
            assert_eq!(notification.method, &*method);
            assert_eq!(flat(notification.params), flat(params));
        }
        other => panic!("{other:?}"),
    }
    if let Parsed::Invalid(invalid) = parse(rest, 8)
        && let Some(reply) = invalid.reply()
    {
        let mut answer = Vec::new();
        reply.error(&mut answer, &invalid.error());
        let Parsed::Message(answer) = parse(&answer, 8) else { panic!("{invalid:?}") };
        match (answer, &invalid.id) {
            (Message::Response(response), Some(id)) => assert_eq!(response.id.as_str(), id.as_str()),
            (Message::OrphanError(error), None) => assert_eq!(error.code, invalid.rule.code()),
            (answer, id) => panic!("{answer:?} to {id:?}"),
        }
    }
}

/// Random numbers and hashes that are always the same.
struct FixedCrypto;

impl Crypto for FixedCrypto {
    fn random(&mut self) -> [u8; 32] {
        [0; 32]
    }

    fn sha256(&mut self, _: &[u8]) -> [u8; 32] {
        [0; 32]
    }
}

/// A sign-in whose events are the lines of `data`, each with a letter in front: whatever servers and browsers send,
/// there is no panic, no request goes to a URL without `https`, no text controls a terminal, and a record can be read
/// again.
pub fn sign_in(data: &[u8]) {
    let server = Url::parse("https://mcp.example.com/mcp").expect("a URL");
    let grant = match data.first() {
        Some(b'D') => SignInGrant::DeviceCode,
        _ => SignInGrant::AuthorizationCode { redirect_uri: "http://127.0.0.1:7777/callback".into() },
    };
    let mut sign_in = SignIn::new(SignInSettings::new(server, grant, ClientIdentity::new("fuzz")), None);
    for line in data.split(|byte| *byte == b'\n').take(64) {
        let Some((kind, rest)) = line.split_first() else { continue };
        let text = String::from_utf8_lossy(rest);
        let state = text.replace("<state>", "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA");
        let event = match kind {
            b'4' => SignInEvent::Challenge(AuthChallenge::read(401, &[("www-authenticate", rest)][..])),
            b'3' => SignInEvent::Challenge(AuthChallenge::read(403, &[("www-authenticate", rest)][..])),
            b'f' => SignInEvent::Fetched { status: 200, body: rest },
            b'n' => SignInEvent::Fetched { status: 404, body: rest },
            b'p' => SignInEvent::Posted { status: 200, nonce: None, body: rest },
            b'e' => SignInEvent::Posted { status: 400, nonce: Some(&text), body: rest },
            b'l' => SignInEvent::Failed { why: &text },
            b'c' => SignInEvent::Callback { query: &state },
            b'w' => SignInEvent::Waited,
            b'a' => SignInEvent::Accepted,
            b'x' => SignInEvent::Expired,
            b'j' => {
                let _ = barewire_proto::auth::server::Jws::parse(rest);
                continue;
            }
            _ => SignInEvent::Start,
        };
        match sign_in.step(event, 1_000, &mut FixedCrypto) {
            SignInEffect::Fetch { url } | SignInEffect::OpenPage { url, .. } => assert!(url.is_https(), "{url}"),
            SignInEffect::Post(post) => assert!(post.url.is_https(), "{}", post.url),
            SignInEffect::Token(credentials) => {
                assert_eq!(Credentials::read(credentials.write().as_bytes()).as_ref(), Ok(&*credentials));
            }
            SignInEffect::Stop(reason) => {
                let shown = reason.to_string();
                assert!(shown.split(['\n', '\t']).all(|line| is_clean(line.as_bytes())), "{shown}");
                assert!(reason.remedy().is_some() || !shown.is_empty());
            }
            _ => {}
        }
    }
}
