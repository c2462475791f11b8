//! One entry of a HAR file -> the entries of a transcript: the head and the body of the request, and of the response.

use std::borrow::Cow;
use std::time::Duration;

use barewire_proto::json::{Json, Kind, Text};
use barewire_proto::transcript::{Bytes, Channel, CutReason, End, Entry, Framing, Marks, Note, Recorder, Stream};
use base64::Engine;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use memchr::memmem;

use crate::frames::import::{event, mark_cut};
use crate::frames::timestamp::Timestamp;

/// An entry of a HAR file.
pub(super) struct HarExchange<'a> {
    started: Cow<'a, str>,
    times: ExchangeTimes,
    request: Json<'a>,
    response: Json<'a>,
    /// The reason of the browser why there is no response, or why it ended early.
    error: Option<Cow<'a, str>>,
    /// How the exchange was on the wire, if it was on a byte stream and we have written the file.
    on_stream: Option<StreamPlace>,
}

/// The place of a message on a byte stream, which our own HAR files say in the member `_barewire`.
struct StreamPlace {
    channel: Channel,
    /// The stream of the request, or of a message without a response.
    stream: Stream,
}

/// The times of an exchange, in nanoseconds since 1970.
#[derive(Debug, Clone, Copy)]
pub(super) struct ExchangeTimes {
    pub(super) request: i64,
    /// The time at which the response was complete. A HAR file does not contain the times of the events in a stream.
    pub(super) response: i64,
}

/// A part of an exchange.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Part {
    Request,
    Response,
}

impl<'a> HarExchange<'a> {
    /// Reads an entry; `None` if it has no request, no response or no time.
    pub(super) fn of(entry: Json<'a>) -> Option<Self> {
        let object = |name| entry.member(name).filter(|value| value.kind() == Kind::Object);
        let started = string(entry, "startedDateTime")?;
        let request = Timestamp::at_start(started.as_bytes())?.nanos;
        // A response comes after its request, even if the file says that it took no time.
        let took = entry.member("time").and_then(milliseconds).unwrap_or(0).max(1);
        let times = ExchangeTimes { request, response: request.saturating_add(took) };
        let (request, response) = (object("request")?, object("response")?);
        // Chromium's own name for it, and that of Playwright.
        let error = ["_error", "_failureText"].iter().find_map(|name| string(response, name));
        let error = error.filter(|error| !error.is_empty());
        let on_stream = entry.member("_barewire").and_then(StreamPlace::of);
        Some(Self { started, times, request, response, error, on_stream })
    }

    pub(super) fn started_text(&self) -> &str {
        &self.started
    }

    pub(super) fn times(&self) -> ExchangeTimes {
        self.times
    }

    /// Whether the exchange is part of MCP: it has a header of MCP, or a message in one of its bodies.
    pub(super) fn is_mcp(&self) -> bool {
        // The request that a browser sends to ask for permission names the headers, but is not part of MCP.
        if self.method() == "OPTIONS" {
            return false;
        }
        if self.on_stream.is_some() {
            return true;
        }
        let has_header =
            |part| headers(part).any(|(name, _)| MCP_HEADERS.iter().any(|it| name.eq_ignore_ascii_case(it)));
        has_header(self.request) || has_header(self.response) || self.has_message()
    }

    fn has_message(&self) -> bool {
        let has_message =
            |body: Option<Body<'_>>| body.is_some_and(|body| memmem::find(&body.bytes, JSONRPC).is_some());
        has_message(self.request_body()) || has_message(self.response_body()) || self.is_http_sse()
    }

    /// Whether the response is a stream of HTTP+SSE, which begins with the address for messages.
    fn is_http_sse(&self) -> bool {
        let begins = |body: Body<'_>| body.bytes.trim_ascii_start().starts_with(b"event: endpoint");
        self.is_event_stream() && self.response_body().is_some_and(begins)
    }

    fn method(&self) -> Cow<'a, str> {
        string(self.request, "method").unwrap_or_default()
    }

    fn is_event_stream(&self) -> bool {
        self.content_type().starts_with("text/event-stream")
    }

    fn content_type(&self) -> String {
        let header = headers(self.response).find(|(name, _)| name.eq_ignore_ascii_case("content-type"));
        let named = || self.response.member("content").and_then(|content| string(content, "mimeType"));
        header.map(|(_, value)| value).or_else(named).unwrap_or_default().to_ascii_lowercase()
    }

    fn request_body(&self) -> Option<Body<'a>> {
        let data = self.request.member("postData").filter(|data| data.kind() == Kind::Object)?;
        let size = self.request.member("bodySize").and_then(Json::integer);
        Body::of(data, size)
    }

    fn response_body(&self) -> Option<Body<'a>> {
        let content = self.response.member("content").filter(|content| content.kind() == Kind::Object)?;
        let size = content.member("size").and_then(Json::integer);
        Body::of(content, size)
    }

    /// Appends the entries of the request or of the response. Returns whether its body is missing or cut.
    pub(super) fn write(&self, part: Part, channel: &Channel, time: Duration, out: &mut Vec<Entry>) -> bool {
        if let Some(StreamPlace { channel, stream }) = &self.on_stream {
            let mut writer = PartWriter { channel, time, out };
            let other = if *stream == Stream::ToServer { Stream::ToClient } else { Stream::ToServer };
            return match part {
                Part::Request => self.request_body().is_some_and(|body| writer.line(*stream, &body)),
                Part::Response => self.response_body().is_some_and(|body| writer.line(other, &body)),
            };
        }
        let mut writer = PartWriter { channel, time, out };
        match part {
            Part::Request => self.write_request(&mut writer),
            Part::Response => self.write_response(&mut writer),
        }
    }

    fn write_request(&self, out: &mut PartWriter<'_>) -> bool {
        let stream = Stream::ToServer;
        let url = string(self.request, "url").unwrap_or_default();
        let line = format!("{} {} {}", self.method(), target(&url), version(self.request));
        out.head(stream, &line, self.request);
        let framing = if self.method() == "POST" { Framing::Body } else { Framing::None };
        let is_missing = out.body(stream, framing, None, self.request_body());
        out.note(Note::Eof(stream));
        is_missing
    }

    fn write_response(&self, out: &mut PartWriter<'_>) -> bool {
        let stream = Stream::ToClient;
        let status = self.response.member("status").and_then(Json::integer).unwrap_or(0);
        if status <= 0 {
            let why = self.error.as_deref().unwrap_or("the HAR file has no response");
            out.note(Note::Cut { stream, why: CutReason::failed(why.as_bytes()) });
            return false;
        }
        let reason = string(self.response, "statusText").unwrap_or_default();
        let line = format!("{} {status} {reason}", version(self.response));
        out.head(stream, line.trim_end(), self.response);
        let is_post = self.method() == "POST";
        let is_json = self.content_type().starts_with("application/json");
        let framing = match (self.is_event_stream(), is_post && (is_json || (200..300).contains(&status))) {
            (true, _) => Framing::Sse,
            (false, true) => Framing::Body,
            (false, false) => Framing::None,
        };
        // The request has set this framing for the channel.
        let known = if is_post { Framing::Body } else { Framing::None };
        let is_missing = out.body(stream, framing, Some(known), self.response_body());
        out.note(match &self.error {
            // A page that aborts a stream has not seen its end.
            Some(why) => Note::Cut { stream, why: CutReason::failed(why.as_bytes()) },
            None => Note::Eof(stream),
        });
        is_missing
    }
}

impl StreamPlace {
    fn of(member: Json<'_>) -> Option<Self> {
        if string(member, "transport")? != "stdio" {
            return None;
        }
        let stream = if string(member, "from")? == "server" { Stream::ToClient } else { Stream::ToServer };
        let channel = string(member, "channel").and_then(|name| Channel::new(&name)).unwrap_or_default();
        Some(Self { channel, stream })
    }
}

/// A body in a HAR file.
struct Body<'a> {
    bytes: Cow<'a, [u8]>,
    /// The number of bytes that the sender has sent; `None` if the file does not say it.
    size: Option<u64>,
}

impl<'a> Body<'a> {
    /// Reads the members `text` and `encoding`; `None` if there is no body.
    fn of(content: Json<'a>, size: Option<i64>) -> Option<Self> {
        let size = size.and_then(|size| u64::try_from(size).ok());
        let text = content.member("text").and_then(Text::from_json).map(Text::to_bytes).unwrap_or_default();
        let is_encoded = string(content, "encoding").is_some_and(|encoding| encoding.eq_ignore_ascii_case("base64"));
        let decoded = is_encoded.then(|| BASE64.decode(&text).ok()).flatten().map(Cow::Owned);
        let bytes = decoded.unwrap_or(text);
        (!bytes.is_empty() || size.is_some_and(|size| size > 0)).then_some(Self { bytes, size })
    }

    /// Returns the number of bytes that are missing. The size counts the bytes before another encoding of characters
    /// was converted, so it only matters for a body that is not complete JSON.
    fn missing(&self, framing: Framing) -> u64 {
        let missing = self.size.unwrap_or(0).saturating_sub(self.bytes.len() as u64);
        let is_complete = framing == Framing::Body && Json::parse(&self.bytes).is_ok();
        if is_complete { 0 } else { missing }
    }
}

struct PartWriter<'a> {
    channel: &'a Channel,
    time: Duration,
    out: &'a mut Vec<Entry>,
}

impl PartWriter<'_> {
    fn note(&mut self, note: Note) {
        self.out.push(event(self.channel, note, Some(self.time)));
    }

    fn head(&mut self, stream: Stream, first: &str, part: Json<'_>) {
        self.note(Note::Head(stream, one_line(first)));
        for (name, value) in headers(part) {
            let name = match name.strip_prefix(':') {
                None => name,
                Some("authority") => Cow::Borrowed("host"),
                // HTTP/2 has the parts of the first line as headers.
                Some(_) => continue,
            };
            // A HAR file contains bodies without this encoding.
            if !name.eq_ignore_ascii_case("content-encoding") {
                self.note(Note::Head(stream, one_line(&format!("{name}: {value}"))));
            }
        }
    }

    /// Appends a body as one line of a byte stream. Returns whether it is cut.
    fn line(&mut self, stream: Stream, body: &Body<'_>) -> bool {
        let missing = body.missing(Framing::Body);
        // Line breaks between the members of a message would end the line.
        let mut line: Vec<u8> = one_line_of(&body.bytes);
        if missing > 0 {
            let length = line.len() as u64 + missing;
            let (channel, marks) = (self.channel.clone(), Marks::at(Some(self.time)));
            let mut bytes = Bytes { stream, channel, payload: line, end: End::Lf, marks };
            mark_cut(&mut bytes, length);
            self.out.push(Entry::Bytes(bytes));
            return true;
        }
        line.push(b'\n');
        let mut recorder = Recorder::new(stream, self.channel.clone(), PIECE);
        recorder.push(&line, Some(self.time), self.out);
        recorder.finish(Some(self.time), self.out);
        false
    }

    /// Appends a body. Returns whether it is missing or cut.
    fn body(&mut self, stream: Stream, framing: Framing, known: Option<Framing>, body: Option<Body<'_>>) -> bool {
        if known != Some(framing) {
            self.note(Note::Framing(framing));
        }
        let Some(body) = body else { return false };
        let (missing, marks) = (body.missing(framing), Marks::at(Some(self.time)));
        if missing > 0 && framing == Framing::Body && !body.bytes.is_empty() {
            let length = body.bytes.len() as u64 + missing;
            let (channel, payload) = (self.channel.clone(), body.bytes.into_owned());
            let mut bytes = Bytes { stream, channel, payload, end: End::None, marks };
            mark_cut(&mut bytes, length);
            self.out.push(Entry::Bytes(bytes));
            return true;
        }
        let mut recorder = Recorder::new(stream, self.channel.clone(), PIECE);
        recorder.push(&body.bytes, Some(self.time), self.out);
        recorder.finish(Some(self.time), self.out);
        if missing > 0 {
            self.note(Note::Gap(stream, missing));
        }
        missing > 0
    }
}

fn string<'a>(object: Json<'a>, name: &str) -> Option<Cow<'a, str>> {
    object.member(name).and_then(Text::from_json).map(Text::to_name)
}

/// Returns the names and values of the headers of a request or response.
fn headers<'a>(part: Json<'a>) -> impl Iterator<Item = (Cow<'a, str>, Cow<'a, str>)> {
    let list = part.member("headers").into_iter().flat_map(Json::elements);
    list.filter_map(|header| Some((string(header, "name")?, string(header, "value")?)))
}

/// Returns the milliseconds of a number as nanoseconds.
fn milliseconds(number: Json<'_>) -> Option<i64> {
    let milliseconds: f64 = number.as_str().parse().ok()?;
    let time = Duration::try_from_secs_f64(milliseconds / 1000.0).ok()?;
    i64::try_from(time.as_nanos()).ok()
}

/// Returns the path and the query of a URL.
fn target(url: &str) -> &str {
    let Some((_, rest)) = url.split_once("://") else { return url };
    let target = rest.find(['/', '?']).map_or("/", |at| &rest[at..]);
    target.split('#').next().unwrap_or(target)
}

/// Returns the version of HTTP, which browsers write in different ways: `HTTP/1.1`, `http/2.0`, `h3`.
fn version(part: Json<'_>) -> String {
    let version = string(part, "httpVersion").unwrap_or_default().to_ascii_uppercase();
    match version.strip_prefix('H').filter(|number| number.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.')) {
        Some(number) if !number.is_empty() => format!("HTTP/{number}"),
        _ if version.starts_with("HTTP/") && !version.contains(char::is_whitespace) => version,
        _ => "HTTP/1.1".to_owned(),
    }
}

/// Returns a line of a head. A line break in it would begin another line.
fn one_line(line: &str) -> Vec<u8> {
    one_line_of(line.as_bytes())
}

fn one_line_of(line: &[u8]) -> Vec<u8> {
    line.iter().map(|byte| if matches!(byte, b'\r' | b'\n') { b' ' } else { *byte }).collect()
}

/// The headers that only MCP has.
const MCP_HEADERS: [&str; 4] = ["mcp-session-id", "mcp-protocol-version", "mcp-method", "mcp-name"];

const JSONRPC: &[u8] = b"\"jsonrpc\"";

/// A line of a body that is longer than this many bytes becomes several entries.
const PIECE: usize = 256 * 1024;

/// Base64 with or without the padding at its end.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);
