//! The messages of a wire -> a HAR 1.2 file.
//!
//! An HTTP exchange becomes an entry as it was. On a byte stream, a request and its response become an entry, and so
//! does every other message; the member `_barewire` of such an entry says so, and our own reader makes the messages of
//! the byte stream from it again.

use std::collections::{BTreeMap, HashMap};
use std::io::{self, Write};
use std::time::Duration;

use barewire_proto::mcp::Side;
use barewire_proto::rpc::Message;
use barewire_proto::transcript::{Event, Note, Stream};
use serde_json::json;

use super::clock::{WallClock, time_of};
use super::har_entry::{HarEntry, HarPart};
use super::har_http::OpenHarExchange;
use crate::frames::{WireFrame, WireItem, ended_stream};
use crate::operations::{OperationTracker, Relation, TrackedMessage};
use crate::pipeline::Observer;
use crate::secrets::Redactor;

/// Writes a HAR file.
pub struct HarExporter<W> {
    out: W,
    /// The first error; after it, nothing is written.
    error: Option<io::Error>,
    redactor: Redactor,
    clock: WallClock,
    entries: u64,
    /// Maps the channel of each unfinished HTTP exchange to the exchange.
    exchanges: HashMap<String, OpenHarExchange>,
    /// Maps the number of each operation on a byte stream without a response to its request.
    requests: BTreeMap<u64, HeldRequest>,
    /// The number of bytes of bodies that are held.
    held: usize,
    /// The time of the last message or event.
    last: Duration,
}

/// A request on a byte stream that waits for its response.
struct HeldRequest {
    time: Duration,
    sender: Side,
    channel: String,
    path: String,
    part: HarPart,
}

impl<W: Write> HarExporter<W> {
    /// Begins a file. The redactor replaces the secrets.
    pub fn new(out: W, redactor: Redactor) -> Self {
        let (exchanges, requests) = (HashMap::new(), BTreeMap::new());
        let clock = WallClock::default();
        let mut exporter =
            Self { out, error: None, redactor, clock, entries: 0, exchanges, requests, held: 0, last: Duration::ZERO };
        let creator = json!({ "name": "barewire", "version": env!("CARGO_PKG_VERSION") });
        exporter
            .write(format_args!("{{\"log\":{{\"version\":\"1.2\",\"creator\":{creator},\"pages\":[],\"entries\":["));
        exporter
    }

    /// Writes the end of the file. Returns the number of entries.
    pub fn finish(mut self) -> io::Result<u64> {
        self.write(format_args!("\n]}}}}\n"));
        match self.error {
            Some(error) => Err(error),
            None => self.out.flush().map(|()| self.entries),
        }
    }

    fn write(&mut self, text: std::fmt::Arguments<'_>) {
        if self.error.is_none() {
            self.error = self.out.write_fmt(text).err();
        }
    }

    fn entry(&mut self, entry: &HarEntry) {
        let comma = if self.entries == 0 { "" } else { "," };
        self.entries += 1;
        self.write(format_args!("{comma}\n"));
        if self.error.is_none() {
            self.error = entry.write(&mut self.out).err();
        }
    }

    /// Returns a text without its secrets. Bytes that are not UTF-8 stay as they are if there is no secret in them.
    fn clean(&mut self, text: &[u8]) -> Vec<u8> {
        let lossy = String::from_utf8_lossy(text);
        let clean = self.redactor.text(&lossy);
        if clean == *lossy { text.to_vec() } else { clean.into_bytes() }
    }

    fn on_stream(&mut self, tracked: &TrackedMessage<'_>) {
        let frame = tracked.frame;
        let time = time_of(frame);
        let text = self.clean(tracked.text.or(frame.bytes).unwrap_or_default());
        // Of a frame that is too long or cut, the length is more than that of its text.
        let length = if tracked.element.is_some() { 0 } else { frame.length };
        let part = HarPart::message(&text, length.max(text.len() as u64));
        let channel = frame.place.map_or("", |place| place.channel);
        match tracked.relation {
            Relation::Request { operation, .. } => {
                let name = operation.name.as_deref().map(|name| self.redactor.text(name));
                let path = path(&operation.method, name.as_deref());
                let (sender, channel) = (tracked.sender, channel.to_owned());
                self.held += part.body.len();
                self.requests.insert(operation.number, HeldRequest { time, sender, channel, path, part });
                self.limit_held();
            }
            Relation::Response { operation, .. } if self.requests.contains_key(&operation.number) => {
                if let Some(request) = self.take_request(operation.number) {
                    self.write_pair(request, Some((time, part)));
                }
            }
            _ => {
                let method = tracked.message.as_ref().ok().and_then(method_of);
                let path = path(method.as_deref().unwrap_or("message"), None);
                self.write_alone(time, tracked.sender, channel, path, part);
            }
        }
    }

    fn take_request(&mut self, number: u64) -> Option<HeldRequest> {
        let request = self.requests.remove(&number)?;
        self.held = self.held.saturating_sub(request.part.body.len());
        Some(request)
    }

    /// Writes the oldest requests without a response, if too many are held.
    fn limit_held(&mut self) {
        while (self.held > MAX_HELD || self.requests.len() > MAX_REQUESTS)
            && let Some(number) = self.requests.keys().next().copied()
            && let Some(request) = self.take_request(number)
        {
            self.write_pair(request, None);
        }
    }

    fn write_pair(&mut self, request: HeldRequest, response: Option<(Duration, HarPart)>) {
        let HeldRequest { time, sender, channel, path, part } = request;
        let mut entry = self.stream_entry(time, sender, &channel, path, part);
        match response {
            Some((answered, part)) => {
                entry.took = answered.saturating_sub(time);
                (entry.status, entry.reason, entry.response) = (200, "OK".to_owned(), part);
            }
            None => entry.error = Some("no response".to_owned()),
        }
        self.entry(&entry);
    }

    /// Writes a message that has no response. Streamable HTTP answers such messages with status 202.
    fn write_alone(&mut self, time: Duration, sender: Side, channel: &str, path: String, part: HarPart) {
        let mut entry = self.stream_entry(time, sender, channel, path, part);
        (entry.status, entry.reason) = (202, "Accepted".to_owned());
        self.entry(&entry);
    }

    fn stream_entry(&self, time: Duration, sender: Side, channel: &str, path: String, part: HarPart) -> HarEntry {
        let (from, to) = if sender == Side::Client { ("client", "server") } else { ("server", "client") };
        HarEntry {
            started: self.clock.text(time),
            method: "POST".to_owned(),
            url: format!("stdio://{to}/{path}"),
            request: part,
            extension: Some(json!({ "transport": "stdio", "from": from, "channel": channel })),
            ..HarEntry::default()
        }
    }

    fn event(&mut self, event: &Event) {
        let channel = event.channel.as_str();
        let time = event.marks.time.unwrap_or(self.last);
        self.last = time;
        if let Note::Head(stream, line) = &event.note {
            let line = String::from_utf8_lossy(line);
            let line = self.redactor.text(&line);
            if self.exchanges.len() < MAX_EXCHANGES || self.exchanges.contains_key(channel) {
                let exchange = self.exchanges.entry(channel.to_owned());
                exchange.or_insert_with(|| OpenHarExchange::new(time)).head(*stream, &line);
            }
        } else if ended_stream(&event.note) == Some(Stream::ToClient) {
            let error = match &event.note {
                Note::Cut { .. } => Some(String::from_utf8_lossy(&event.note.text()).into_owned()),
                _ => None,
            };
            self.end_exchange(channel, time, error);
        }
    }

    fn end_exchange(&mut self, channel: &str, time: Duration, error: Option<String>) {
        let Some(exchange) = self.exchanges.remove(channel) else { return };
        self.held = self.held.saturating_sub(exchange.held());
        let error = error.map(|error| self.redactor.text(&error));
        let entry = exchange.finish(self.clock, time, error);
        self.entry(&entry);
    }

    /// Adds a frame to the body of its HTTP exchange.
    fn frame(&mut self, frame: &WireFrame<'_>) {
        let time = time_of(frame);
        self.last = time;
        let Some(place) = frame.place.filter(|place| self.exchanges.contains_key(place.channel)) else { return };
        let text = self.clean(frame.bytes.unwrap_or_default());
        let keep = self.held + text.len() <= MAX_HELD;
        if let Some(exchange) = self.exchanges.get_mut(place.channel) {
            self.held += exchange.body(place.stream, &text, frame.length, keep);
        }
    }
}

impl<W: Write> Observer for HarExporter<W> {
    fn message(&mut self, tracked: &TrackedMessage<'_>) {
        let channel = tracked.frame.place.map_or("", |place| place.channel);
        if !self.exchanges.contains_key(channel) {
            self.on_stream(tracked);
        }
    }

    fn item(&mut self, item: &WireItem<'_>, _: &OperationTracker) {
        match item {
            WireItem::Header(header) => self.clock = WallClock::of(header),
            WireItem::Frame(frame) => self.frame(frame),
            WireItem::Endpoint { channel, uri } => {
                let uri = self.redactor.text(uri);
                if let Some(exchange) = self.exchanges.get_mut(*channel) {
                    exchange.endpoint(&uri);
                    self.held += uri.len();
                }
            }
            WireItem::Event(event) => self.event(event),
            WireItem::Stderr(_) => {}
        }
    }

    fn end(&mut self, _: &OperationTracker) {
        while let Some(number) = self.requests.keys().next().copied() {
            if let Some(request) = self.take_request(number) {
                self.write_pair(request, None);
            }
        }
        let mut open: Vec<String> = self.exchanges.keys().cloned().collect();
        open.sort_unstable();
        for channel in open {
            self.end_exchange(&channel, self.last, Some("the capture ends within the exchange".to_owned()));
        }
    }
}

fn method_of(message: &Message<'_>) -> Option<String> {
    match message {
        Message::Notification(notification) => Some(notification.method.to_name().into_owned()),
        _ => None,
    }
}

/// Returns the path of the URL: the method, and the name of the tool, prompt or resource, so that a list of URLs shows
/// them.
fn path(method: &str, name: Option<&str>) -> String {
    let mut path = String::new();
    for text in [Some(method), name].into_iter().flatten() {
        if !path.is_empty() {
            path.push('/');
        }
        for byte in text.bytes().take(MAX_PATH) {
            match byte {
                b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => {
                    path.push(char::from(byte))
                }
                byte => path.push_str(&format!("%{byte:02X}")),
            }
        }
    }
    path
}

/// The maximum number of bytes of bodies that are held: more than one message of the maximum length.
const MAX_HELD: usize = 128 * 1024 * 1024;
/// The maximum number of requests without a response that are held, and of unfinished exchanges.
const MAX_REQUESTS: usize = 65_536;
const MAX_EXCHANGES: usize = 65_536;
/// The maximum number of bytes of a method or name in a URL.
const MAX_PATH: usize = 200;
