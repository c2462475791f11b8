//! The rows of an index -> the entries of a transcript, for everything that reads transcripts.
//!
//! Texts are those of the index, so secrets are already replaced. White space between messages is not kept, nor are the
//! ids of events in a stream.

use std::collections::HashMap;
use std::time::Duration;

use barewire_proto::transcript::{
    Bytes, Channel, End, Entry, Event, Framing, Header, Marks, Note, Stream, Truncated, VERSION, Word, read_line,
};
use serde_json::json;

use super::IndexedCapture;
use super::exported::ExportedRows;
use super::record::{EntryKind, EntryRecord, Flags};
use crate::frames::FrameKind;
use crate::rows::Role;

/// Passes the entries of rows, or of all of them, to a function, each with its row if it has one, until it returns
/// `false`.
pub(crate) fn wire_entries(
    index: &IndexedCapture,
    only: Option<&ExportedRows>,
    take: &mut dyn FnMut(Option<usize>, Entry) -> bool,
) -> bool {
    let mut writer = EntryWriter { index, channels: HashMap::new(), entries: Vec::new() };
    let (started, name, count) = {
        let data = index.data();
        let name = if data.totals.is_started_local { "started-local" } else { "started" };
        (data.totals.started.clone(), name, data.entries.len())
    };
    let fact = started.and_then(|started| Some((Word::new(name)?, started.into_bytes())));
    if !take(None, Entry::Header(Header { version: VERSION, facts: fact.into_iter().collect() })) {
        return false;
    }
    for row in (0..count).filter(|row| only.is_none_or(|rows| rows.has(*row))) {
        let (entry, channel, word) = {
            let data = index.data();
            let entry = data.entries[row].clone();
            let channel = data.channel(&entry).unwrap_or_default().into_owned();
            let word = data.names.get(entry.method).unwrap_or_default().to_owned();
            (entry, channel, word)
        };
        if entry.element > 0 {
            continue;
        }
        writer.row(&entry, &channel, &word);
        if !writer.entries.drain(..).all(|entry| take(Some(row), entry)) {
            return false;
        }
    }
    writer.finish();
    writer.entries.drain(..).all(|entry| take(None, entry))
}

/// Makes entries of rows.
struct EntryWriter<'a> {
    index: &'a IndexedCapture,
    /// The HTTP exchange of each channel.
    channels: HashMap<String, HttpChannel>,
    entries: Vec<Entry>,
}

/// An HTTP exchange: how its bodies are framed, and the time of its last row.
#[derive(Default)]
struct HttpChannel {
    is_stream: bool,
    /// Whether the body of the request has ended.
    is_sent: bool,
    time: Option<Duration>,
}

impl EntryWriter<'_> {
    fn row(&mut self, entry: &EntryRecord, channel: &str, word: &str) {
        let time = entry.time.micros().map(Duration::from_micros);
        let text = self.index.spool().whole(entry.text);
        if let Some(http) = self.channels.get_mut(channel) {
            http.time = time.or(http.time);
        }
        let before = self.entries.len();
        match (entry.kind, word, entry.flags.stream()) {
            (EntryKind::Event, "http", Some(stream)) => self.head(channel, stream, time, &text),
            (EntryKind::Event, "stderr", _) => self.bytes(channel, Stream::Stderr, time, text, End::Lf, None),
            (EntryKind::Event, word, _) => self.note(channel, time, word, &text),
            (_, _, stream) => self.frame(entry, channel, stream.unwrap_or(Stream::ToServer), time, text),
        }
        for of_row in &mut self.entries[before..] {
            if let Entry::Bytes(bytes) = of_row {
                bytes.marks.redacted = entry.flags.has(Flags::REDACTED);
            }
        }
    }

    fn frame(&mut self, entry: &EntryRecord, channel: &str, stream: Stream, time: Option<Duration>, text: Vec<u8>) {
        // A line break between the members of a message would end the line.
        let text = if entry.text.is_kept() { text } else { self.known_beginning(entry) };
        let text: Vec<u8> =
            text.into_iter().map(|byte| if matches!(byte, b'\n' | b'\r') { b' ' } else { byte }).collect();
        let is_cut = entry.kind == EntryKind::Frame(FrameKind::Cut) || !entry.text.is_kept();
        let cut = is_cut.then(|| Truncated { length: entry.length, sha256: "0".repeat(64) });
        match self.channels.get(channel).map(|http| http.is_stream && stream == Stream::ToClient) {
            None => self.bytes(channel, stream, time, text, End::Lf, cut),
            Some(false) => {
                // A body is one message, and ends with it.
                self.bytes(channel, stream, time, text, End::None, cut);
                self.end(channel, stream, time);
            }
            // A part of an event says itself that its rest is missing.
            Some(true) if is_cut => self.bytes(channel, stream, time, text, End::Lf, cut),
            Some(true) => {
                self.bytes(channel, stream, time, [b"data: ".as_slice(), &text].concat(), End::Lf, None);
                self.bytes(channel, stream, time, Vec::new(), End::Lf, None);
            }
        }
    }

    /// Returns the beginning of a message whose text was not kept, so that it still has its number and its operation.
    fn known_beginning(&self, entry: &EntryRecord) -> Vec<u8> {
        let data = self.index.data();
        let id = data.ids.text(entry.id).map(|id| format!(",\"id\":{id}"));
        let method = data.names.get(entry.method).map(|method| format!(",\"method\":{}", json!(method)));
        let params = match (&entry.role, &method) {
            (Role::Response { .. }, _) => ",\"result\":",
            (_, Some(_)) => ",\"params\":",
            _ => ",",
        };
        let known = [Some("{\"jsonrpc\":\"2.0\""), id.as_deref(), method.as_deref(), Some(params)];
        known.into_iter().flatten().collect::<String>().into_bytes()
    }

    fn bytes(
        &mut self,
        channel: &str,
        stream: Stream,
        time: Option<Duration>,
        payload: Vec<u8>,
        end: End,
        cut: Option<Truncated>,
    ) {
        let channel = Channel::new(channel).unwrap_or_default();
        let mut marks = Marks::at(time);
        marks.truncated = cut;
        self.entries.push(Entry::Bytes(Bytes { stream, channel, payload, end, marks }));
    }

    fn event(&mut self, channel: &str, time: Option<Duration>, note: Note) {
        let channel = Channel::new(channel).unwrap_or_default();
        self.entries.push(Entry::Event(Event { channel, note, marks: Marks::at(time) }));
    }

    fn head(&mut self, channel: &str, stream: Stream, time: Option<Duration>, text: &[u8]) {
        if stream == Stream::ToClient && self.channels.contains_key(channel) {
            self.end(channel, Stream::ToServer, time);
        }
        for line in text.split(|byte| *byte == b'\n') {
            self.event(channel, time, Note::Head(stream, line.to_vec()));
        }
        let lower = String::from_utf8_lossy(text).to_ascii_lowercase();
        let is_stream =
            lower.lines().any(|line| line.starts_with("content-type:") && line.contains("text/event-stream"));
        let http = self.channels.entry(channel.to_owned()).or_default();
        (http.is_stream, http.time) = (stream == Stream::ToClient && is_stream, time);
        let framing = if http.is_stream { Framing::Sse } else { Framing::Body };
        self.event(channel, time, Note::Framing(framing));
    }

    /// Appends an event, whose text is as in a transcript.
    fn note(&mut self, channel: &str, time: Option<Duration>, word: &str, text: &[u8]) {
        let text = String::from_utf8_lossy(text);
        let line = if word == "note" { format!("@ {text}") } else { format!("@ {word} {text}") };
        if let Ok(Entry::Event(event)) = read_line(line.trim_end().as_bytes(), 2) {
            self.event(channel, time, event.note);
        }
    }

    /// Ends the request or the response of an exchange.
    fn end(&mut self, channel: &str, stream: Stream, time: Option<Duration>) {
        let Some(http) = self.channels.get_mut(channel) else { return };
        if stream == Stream::ToServer && std::mem::replace(&mut http.is_sent, true) {
            return;
        }
        if stream == Stream::ToClient {
            self.channels.remove(channel);
        }
        self.event(channel, time, Note::Eof(stream));
    }

    /// Ends the exchanges.
    fn finish(&mut self) {
        let mut channels: Vec<_> = std::mem::take(&mut self.channels).into_iter().collect();
        channels.sort_by(|a, b| a.0.cmp(&b.0));
        for (channel, http) in channels {
            if !http.is_sent {
                self.event(&channel, http.time, Note::Eof(Stream::ToServer));
            }
            self.event(&channel, http.time, Note::Eof(Stream::ToClient));
        }
    }
}
