//! Server-sent events (WHATWG HTML, section 9.2): each line is a field, a blank line ends an event, and the data of an
//! event is a frame.
//!
//! Lines end in LF, CR or CRLF. Comments and unknown fields are skipped in constant memory. An event without data is
//! not returned as a frame, but its id is remembered, as the standard requires.

use std::time::Duration;

use super::outline::OutlineScanner;
use super::{BOM, Codec, DEFAULT_LIMIT, EncodeError, Frame, FrameError, append_bounded};
use crate::json::flatten;

/// The decoder and encoder for an event stream.
#[derive(Debug)]
pub struct Sse {
    limit: usize,
    line: LinePosition,
    /// Whether the last byte was `\r`: a `\n` directly after it belongs to the same line end.
    after_cr: bool,
    /// The number of bytes of the stream consumed so far.
    taken: u64,
    event: PendingEvent,
    /// The part of the current field's value that was read so far. Not used for `data` fields.
    value: Vec<u8>,
    /// The last `id` field since the last blank line. The next blank line copies it to `last_event_id`.
    id: Option<String>,
    last_event_id: String,
    retry: Option<Duration>,
}

/// The type and id of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct SseEvent<'a> {
    /// The event type: the value of the field `event`, or `message` if the event has no such field.
    pub name: &'a str,
    /// The id of the last event that had an id, used to resume a broken stream. Empty if no event had an id.
    pub last_event_id: &'a str,
}

impl<'a> SseEvent<'a> {
    /// Creates an event with this type and id.
    #[inline]
    pub const fn new(name: &'a str, last_event_id: &'a str) -> Self {
        Self { name, last_event_id }
    }
}

/// The position of the decoder in a line.
#[derive(Debug)]
enum LinePosition {
    /// At the start of the stream. The number counts the bytes of a byte order mark (BOM) matched so far.
    Bom(usize),
    /// Before the first byte of a line.
    Start,
    /// In the name of a field that began at `start`. `prefix` holds the first bytes of the name.
    Name { start: u64, prefix: [u8; MAX_FIELD_NAME], length: usize },
    /// After the colon. One space directly after the colon is skipped.
    Colon(Field),
    /// In a field's value.
    Value(Field),
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Field {
    Data,
    Event,
    Id,
    Retry,
    /// A comment or an unknown field.
    Ignored,
}

/// The event that the decoder is reading.
#[derive(Debug, Default)]
struct PendingEvent {
    /// The offset in the stream of the event's first field.
    start: Option<u64>,
    event: String,
    data: EventData,
}

#[derive(Debug, Default)]
enum EventData {
    /// The event has no `data` field so far.
    #[default]
    None,
    /// The values of the `data` fields so far, joined by `\n`.
    Buffered(Vec<u8>),
    /// The data of the event that the previous call returned.
    Delivered(Vec<u8>),
    /// The data is too long. It is scanned for its id and method, but not kept. The number is the length of the data so
    /// far.
    Skipped(Box<OutlineScanner>, u64),
}

impl Default for Sse {
    fn default() -> Self {
        Self::new(DEFAULT_LIMIT)
    }
}

impl Sse {
    /// Creates a decoder for events with at most `limit` bytes of data.
    pub fn new(limit: usize) -> Self {
        Self {
            limit,
            line: LinePosition::Bom(0),
            after_cr: false,
            taken: 0,
            event: PendingEvent::default(),
            value: Vec::new(),
            id: None,
            last_event_id: String::new(),
            retry: None,
        }
    }

    /// Returns the id to send as `Last-Event-ID` when the client reopens the stream. Empty if no event had an id.
    pub fn last_event_id(&self) -> &str {
        &self.last_event_id
    }

    /// Returns the time that the client must wait before it reconnects, or `None` if the server sent no `retry` field.
    pub fn retry(&self) -> Option<Duration> {
        self.retry
    }

    fn take<'i>(&mut self, input: &mut &'i [u8], count: usize) -> &'i [u8] {
        let (taken, rest) = input.split_at(count);
        *input = rest;
        self.taken += count as u64;
        taken
    }

    /// Consumes bytes up to the end of the current part of the line. Returns true if an event is complete.
    fn step(&mut self, input: &mut &[u8]) -> bool {
        let byte = input[0];
        if std::mem::take(&mut self.after_cr) && byte == b'\n' {
            self.take(input, 1);
            return false;
        }
        match &mut self.line {
            LinePosition::Bom(matched) if BOM.get(*matched) == Some(&byte) => {
                *matched += 1;
                self.take(input, 1);
                false
            }
            LinePosition::Bom(matched) => {
                let matched = *matched;
                if matched == 0 || matched == BOM.len() {
                    self.line = LinePosition::Start;
                } else {
                    // The bytes that looked like a BOM are the start of a field name.
                    let mut prefix = [0; MAX_FIELD_NAME];
                    prefix[..matched].copy_from_slice(&BOM[..matched]);
                    self.line = LinePosition::Name { start: 0, prefix, length: matched };
                }
                false
            }
            LinePosition::Start => {
                if let b'\r' | b'\n' = byte {
                    self.end_line(input, byte);
                    return self.end_event();
                }
                self.line = LinePosition::Name { start: self.taken, prefix: [0; MAX_FIELD_NAME], length: 0 };
                false
            }
            LinePosition::Name { start, prefix, length } => {
                let end = memchr::memchr3(b':', b'\r', b'\n', input);
                let name = &input[..end.unwrap_or(input.len())];
                for (place, byte) in prefix.iter_mut().skip(*length).zip(name) {
                    *place = *byte;
                }
                *length = length.saturating_add(name.len());
                let (start, field) = (*start, Field::from_name(prefix, *length));
                self.take(input, name.len());
                if end.is_some() {
                    self.begin_field(field, start);
                    if let line_end @ (b'\r' | b'\n') = input[0] {
                        // A line without a colon is a field with an empty value.
                        self.end_field(field);
                        self.end_line(input, line_end);
                    } else {
                        self.take(input, 1);
                        self.line = LinePosition::Colon(field);
                    }
                }
                false
            }
            LinePosition::Colon(field) => {
                self.line = LinePosition::Value(*field);
                if byte == b' ' {
                    self.take(input, 1);
                }
                false
            }
            LinePosition::Value(field) => {
                let field = *field;
                let end = memchr::memchr2(b'\r', b'\n', input);
                let value = self.take(input, end.unwrap_or(input.len()));
                self.add(field, value);
                if end.is_some() {
                    self.end_field(field);
                    self.end_line(input, input[0]);
                }
                false
            }
        }
    }

    fn end_line(&mut self, input: &mut &[u8], line_end: u8) {
        self.take(input, 1);
        self.after_cr = line_end == b'\r';
        self.line = LinePosition::Start;
    }

    fn begin_field(&mut self, field: Field, start: u64) {
        if field == Field::Ignored {
            return;
        }
        self.event.start.get_or_insert(start);
        if field == Field::Data {
            match self.event.data {
                EventData::None => self.event.data = EventData::Buffered(Vec::new()),
                _ => self.add(Field::Data, b"\n"),
            }
        }
    }

    /// Appends `value` to the value of the current field.
    fn add(&mut self, field: Field, value: &[u8]) {
        match (field, &mut self.event.data) {
            (Field::Ignored, _) => {}
            (Field::Data, EventData::Buffered(data)) if data.len() + value.len() > self.limit => {
                let mut scan = Box::<OutlineScanner>::default();
                scan.feed(data);
                scan.feed(value);
                let length = (data.len() + value.len()) as u64;
                self.event.data = EventData::Skipped(scan, length);
            }
            (Field::Data, EventData::Buffered(data)) => append_bounded(data, value, self.limit),
            (Field::Data, EventData::Skipped(scan, length)) => {
                scan.feed(value);
                *length += value.len() as u64;
            }
            (Field::Data, EventData::None | EventData::Delivered(_)) => unreachable!("begin_field sets the data"),
            (Field::Event | Field::Id | Field::Retry, _) => {
                // One byte over the limit is enough for `end_field` to see that the value is too long.
                let room = (MAX_FIELD_VALUE + 1).saturating_sub(self.value.len());
                self.value.extend_from_slice(&value[..value.len().min(room)]);
            }
        }
    }

    /// Stores the value of a field that is complete. A value that is too long is ignored, like an unknown field.
    fn end_field(&mut self, field: Field) {
        if let Field::Data | Field::Ignored = field {
            return;
        }
        let value = std::mem::take(&mut self.value);
        if value.len() > MAX_FIELD_VALUE {
            return;
        }
        let value = String::from_utf8_lossy(&value);
        match field {
            Field::Event => self.event.event = value.into_owned(),
            Field::Id if !value.contains('\0') => self.id = Some(value.into_owned()),
            Field::Retry if !value.is_empty() && value.bytes().all(|b| b.is_ascii_digit()) => {
                // The value is all digits, so parsing fails only if the number is too large. Then the maximum time is
                // used.
                self.retry = Some(Duration::from_millis(value.parse().unwrap_or(u64::MAX)));
            }
            Field::Id | Field::Retry | Field::Data | Field::Ignored => {}
        }
    }

    /// Ends the current event at a blank line. Returns true if the event has data.
    fn end_event(&mut self) -> bool {
        if let Some(id) = self.id.take() {
            self.last_event_id = id;
        }
        match self.event.data {
            EventData::None => {
                self.event = PendingEvent::default();
                false
            }
            _ => true,
        }
    }

    /// Drops the event that the previous call returned.
    fn release(&mut self) {
        if let EventData::Delivered(_) = self.event.data {
            self.event = PendingEvent::default();
        }
    }
}

impl Codec for Sse {
    fn next_frame<'s, 'i: 's>(&'s mut self, input: &mut &'i [u8]) -> Option<Result<Frame<'s>, FrameError>> {
        self.release();
        while !input.is_empty() {
            if self.step(input) {
                return Some(self.deliver());
            }
        }
        None
    }

    /// Ends the stream. An event that is not ended by a blank line is incomplete (WHATWG HTML, section 9.2.6).
    fn finish(&mut self) -> Option<Result<Frame<'_>, FrameError>> {
        self.release();
        let PendingEvent { start, data, .. } = std::mem::take(&mut self.event);
        (self.line, self.after_cr, self.id) = (LinePosition::Start, false, None);
        self.value.clear();
        match (start, data) {
            (Some(offset), EventData::Buffered(_) | EventData::Skipped(..)) => {
                Some(Err(FrameError::Truncated { offset }))
            }
            _ => None,
        }
    }

    fn capacity(&self) -> usize {
        let data = match &self.event.data {
            EventData::None | EventData::Skipped(..) => 0,
            EventData::Buffered(data) | EventData::Delivered(data) => data.capacity(),
        };
        data + self.value.capacity() + self.event.event.capacity()
    }

    fn trim(&mut self) {
        self.release();
        if self.value.is_empty() {
            self.value = Default::default();
        }
    }

    fn encode(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
        out.extend_from_slice(b"data: ");
        let start = out.len();
        write(out);
        flatten(&mut out[start..]);
        out.extend_from_slice(b"\n\n");
    }
}

impl Sse {
    /// Returns the event that a blank line has completed.
    fn deliver(&mut self) -> Result<Frame<'_>, FrameError> {
        let offset = self.event.start.unwrap_or_default();
        let data = match std::mem::take(&mut self.event.data) {
            EventData::Skipped(scan, length) => {
                self.event = PendingEvent::default();
                return Err(scan.finish(offset, length, self.limit));
            }
            EventData::Buffered(data) | EventData::Delivered(data) => data,
            EventData::None => Vec::new(),
        };
        self.event.data = EventData::Delivered(data);
        let EventData::Delivered(data) = &self.event.data else { unreachable!("the data was set above") };
        let name = match self.event.event.as_str() {
            "" => "message",
            name => name,
        };
        let event = SseEvent { name, last_event_id: &self.last_event_id };
        Ok(Frame { offset, bytes: data, event: Some(event) })
    }
}

impl Field {
    fn from_name(prefix: &[u8], length: usize) -> Self {
        match prefix.get(..length) {
            Some(b"data") => Self::Data,
            Some(b"event") => Self::Event,
            Some(b"id") => Self::Id,
            Some(b"retry") => Self::Retry,
            _ => Self::Ignored,
        }
    }
}

/// Appends an event with all its fields. Data with several lines becomes several `data` fields.
///
/// ```
/// let mut out = Vec::new();
/// barewire_proto::frame::sse_event(&mut out, Some("endpoint"), None, "/messages")?;
/// assert_eq!(out, b"event: endpoint\ndata: /messages\n\n");
/// # Ok::<(), barewire_proto::frame::EncodeError>(())
/// ```
pub fn sse_event(out: &mut Vec<u8>, event: Option<&str>, id: Option<&str>, data: &str) -> Result<(), EncodeError> {
    let one_line = |field, value: &str| match memchr::memchr2(b'\r', b'\n', value.as_bytes()) {
        Some(_) => Err(EncodeError::LineBreak { field }),
        None => Ok(()),
    };
    one_line("event", event.unwrap_or_default())?;
    one_line("id", id.unwrap_or_default())?;
    if id.is_some_and(|id| id.contains('\0')) {
        return Err(EncodeError::Nul);
    }
    // The receiver would treat a `\r` as a line end and replace it with `\n`, which would change the data.
    if data.contains('\r') {
        return Err(EncodeError::LineBreak { field: "data" });
    }
    let mut field = |name: &str, value: &str| {
        for part in [name, ": ", value, "\n"] {
            out.extend_from_slice(part.as_bytes());
        }
    };
    if let Some(event) = event {
        field("event", event);
    }
    if let Some(id) = id {
        field("id", id);
    }
    for line in data.split('\n') {
        field("data", line);
    }
    out.push(b'\n');
    Ok(())
}

/// Appends a comment, which receivers ignore. Comments keep an idle connection open.
pub fn sse_comment(out: &mut Vec<u8>, text: &str) -> Result<(), EncodeError> {
    if text.contains(['\r', '\n']) {
        return Err(EncodeError::LineBreak { field: "comment" });
    }
    for part in [": ", text, "\n"] {
        out.extend_from_slice(part.as_bytes());
    }
    Ok(())
}

/// Appends the field `retry`: the time that a client waits before it reconnects.
pub fn sse_retry(out: &mut Vec<u8>, after: Duration) {
    out.extend_from_slice(format!("retry: {}\n", after.as_millis()).as_bytes());
}

/// The maximum length, in bytes, of the value of a field other than `data`.
const MAX_FIELD_VALUE: usize = 64 * 1024;

/// The maximum number of bytes of a field name that are kept. The longest known names, `event` and `retry`, have five;
/// the sixth byte shows that a name is longer than those.
const MAX_FIELD_NAME: usize = 6;
