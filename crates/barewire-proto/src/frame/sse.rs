//! Server-sent events (WHATWG HTML, section 9.2): fields on lines, an event at each blank line, its data the frame.
//!
//! Lines end in LF, CR or CRLF. Comments and unknown fields pass by in constant memory. An event without data is not
//! given out, but the id it may carry counts, as the standard has it.

use std::time::Duration;

use super::outline::Scan;
use super::{BOM, Codec, DEFAULT_LIMIT, EncodeError, Frame, FrameError, hold};
use crate::json::flatten;

/// The decoder and encoder of an event stream.
#[derive(Debug)]
pub struct Sse {
    limit: usize,
    line: Line,
    /// The last byte was `\r`: a `\n` right behind it belongs to the same line end.
    after_cr: bool,
    /// How many bytes of the stream have been taken.
    taken: u64,
    event: Pending,
    /// The value of a field other than `data`, as far as it is read.
    value: Vec<u8>,
    /// The last field `id` since the last blank line; it counts from the next one on.
    id: Option<String>,
    last_event_id: String,
    retry: Option<Duration>,
}

/// What an event says besides its data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct SseEvent<'a> {
    /// Its type: the field `event`, or `message`.
    pub name: &'a str,
    /// The id of the last event that had one: where to go on after a broken connection. Empty if there was none.
    pub last_event_id: &'a str,
}

impl<'a> SseEvent<'a> {
    /// An event of this type, after the event with this id.
    #[inline]
    pub const fn new(name: &'a str, last_event_id: &'a str) -> Self {
        Self { name, last_event_id }
    }
}

/// Where in a line the decoder is.
#[derive(Debug)]
enum Line {
    /// At the start of the stream, after this many bytes of a BOM.
    Bom(usize),
    /// Before the first byte of a line.
    Start,
    /// In the name of a field that began at `start`; its first bytes are kept.
    Name { start: u64, kept: [u8; LONGEST_NAME], length: usize },
    /// Behind the colon, where one space is skipped.
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

/// The event that is being read.
#[derive(Debug, Default)]
struct Pending {
    /// Where its first field stands in the stream.
    start: Option<u64>,
    event: String,
    data: Data,
}

#[derive(Debug, Default)]
enum Data {
    /// No `data` field so far.
    #[default]
    None,
    /// The lines so far, joined by `\n`.
    Kept(Vec<u8>),
    /// The event was given out by the call before this one.
    Given(Vec<u8>),
    /// Too long to keep, and looked over instead.
    Skipped(Box<Scan>, u64),
}

impl Default for Sse {
    fn default() -> Self {
        Self::new(DEFAULT_LIMIT)
    }
}

impl Sse {
    /// Events with at most `limit` bytes of data.
    pub fn new(limit: usize) -> Self {
        Self {
            limit,
            line: Line::Bom(0),
            after_cr: false,
            taken: 0,
            event: Pending::default(),
            value: Vec::new(),
            id: None,
            last_event_id: String::new(),
            retry: None,
        }
    }

    /// The id to send as `Last-Event-ID` when the stream has to be opened again. Empty if there is none.
    pub fn last_event_id(&self) -> &str {
        &self.last_event_id
    }

    /// How long the server asked to wait before that.
    pub fn retry(&self) -> Option<Duration> {
        self.retry
    }

    fn take<'i>(&mut self, input: &mut &'i [u8], count: usize) -> &'i [u8] {
        let (taken, rest) = input.split_at(count);
        *input = rest;
        self.taken += count as u64;
        taken
    }

    /// Takes the bytes up to the end of what the state is about; `true` if an event is complete.
    fn step(&mut self, input: &mut &[u8]) -> bool {
        let byte = input[0];
        if std::mem::take(&mut self.after_cr) && byte == b'\n' {
            self.take(input, 1);
            return false;
        }
        match &mut self.line {
            Line::Bom(seen) if BOM.get(*seen) == Some(&byte) => {
                *seen += 1;
                self.take(input, 1);
                false
            }
            Line::Bom(seen) => {
                let seen = *seen;
                if seen == 0 || seen == BOM.len() {
                    self.line = Line::Start;
                } else {
                    // What looked like a BOM was the start of a name.
                    let mut kept = [0; LONGEST_NAME];
                    kept[..seen].copy_from_slice(&BOM[..seen]);
                    self.line = Line::Name { start: 0, kept, length: seen };
                }
                false
            }
            Line::Start => {
                if let b'\r' | b'\n' = byte {
                    self.end_line(input, byte);
                    return self.end_event();
                }
                self.line = Line::Name { start: self.taken, kept: [0; LONGEST_NAME], length: 0 };
                false
            }
            Line::Name { start, kept, length } => {
                let end = memchr::memchr3(b':', b'\r', b'\n', input);
                let name = &input[..end.unwrap_or(input.len())];
                for (place, byte) in kept.iter_mut().skip(*length).zip(name) {
                    *place = *byte;
                }
                *length = length.saturating_add(name.len());
                let (start, field) = (*start, Field::named(kept, *length));
                self.take(input, name.len());
                if end.is_some() {
                    self.begin_field(field, start);
                    if let line_end @ (b'\r' | b'\n') = input[0] {
                        // A line without a colon is a field with an empty value.
                        self.end_field(field);
                        self.end_line(input, line_end);
                    } else {
                        self.take(input, 1);
                        self.line = Line::Colon(field);
                    }
                }
                false
            }
            Line::Colon(field) => {
                self.line = Line::Value(*field);
                if byte == b' ' {
                    self.take(input, 1);
                }
                false
            }
            Line::Value(field) => {
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
        self.line = Line::Start;
    }

    fn begin_field(&mut self, field: Field, start: u64) {
        if field == Field::Ignored {
            return;
        }
        self.event.start.get_or_insert(start);
        if field == Field::Data {
            match self.event.data {
                Data::None => self.event.data = Data::Kept(Vec::new()),
                _ => self.add(Field::Data, b"\n"),
            }
        }
    }

    /// Adds to the value of a field.
    fn add(&mut self, field: Field, value: &[u8]) {
        match (field, &mut self.event.data) {
            (Field::Ignored, _) => {}
            (Field::Data, Data::Kept(data)) if data.len() + value.len() > self.limit => {
                let mut scan = Box::<Scan>::default();
                scan.feed(data);
                scan.feed(value);
                let length = (data.len() + value.len()) as u64;
                self.event.data = Data::Skipped(scan, length);
            }
            (Field::Data, Data::Kept(data)) => hold(data, value, self.limit),
            (Field::Data, Data::Skipped(scan, length)) => {
                scan.feed(value);
                *length += value.len() as u64;
            }
            (Field::Data, Data::None | Data::Given(_)) => unreachable!("begin_field comes first"),
            (Field::Event | Field::Id | Field::Retry, _) => {
                // One byte over the cap is enough to tell later that it was too long.
                let room = (LONGEST_VALUE + 1).saturating_sub(self.value.len());
                self.value.extend_from_slice(&value[..value.len().min(room)]);
            }
        }
    }

    /// A field's value is complete. A value that is too long is passed over like an unknown field.
    fn end_field(&mut self, field: Field) {
        if let Field::Data | Field::Ignored = field {
            return;
        }
        let value = std::mem::take(&mut self.value);
        if value.len() > LONGEST_VALUE {
            return;
        }
        let value = String::from_utf8_lossy(&value);
        match field {
            Field::Event => self.event.event = value.into_owned(),
            Field::Id if !value.contains('\0') => self.id = Some(value.into_owned()),
            Field::Retry if !value.is_empty() && value.bytes().all(|b| b.is_ascii_digit()) => {
                // Only digits, so what does not fit is too large, and waits as long as can be said.
                self.retry = Some(Duration::from_millis(value.parse().unwrap_or(u64::MAX)));
            }
            Field::Id | Field::Retry | Field::Data | Field::Ignored => {}
        }
    }

    /// A blank line: `true` if there is something to give out.
    fn end_event(&mut self) -> bool {
        if let Some(id) = self.id.take() {
            self.last_event_id = id;
        }
        match self.event.data {
            Data::None => {
                self.event = Pending::default();
                false
            }
            _ => true,
        }
    }

    /// Forgets the event that was given out.
    fn release(&mut self) {
        if let Data::Given(_) = self.event.data {
            self.event = Pending::default();
        }
    }
}

impl Codec for Sse {
    fn next_frame<'s, 'i: 's>(&'s mut self, input: &mut &'i [u8]) -> Option<Result<Frame<'s>, FrameError>> {
        self.release();
        while !input.is_empty() {
            if self.step(input) {
                return Some(self.give());
            }
        }
        None
    }

    /// An event without its blank line is not an event (WHATWG HTML, section 9.2.6).
    fn finish(&mut self) -> Option<Result<Frame<'_>, FrameError>> {
        self.release();
        let Pending { start, data, .. } = std::mem::take(&mut self.event);
        (self.line, self.after_cr, self.id) = (Line::Start, false, None);
        self.value.clear();
        match (start, data) {
            (Some(offset), Data::Kept(_) | Data::Skipped(..)) => Some(Err(FrameError::Truncated { offset })),
            _ => None,
        }
    }

    fn capacity(&self) -> usize {
        let data = match &self.event.data {
            Data::None | Data::Skipped(..) => 0,
            Data::Kept(data) | Data::Given(data) => data.capacity(),
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
    /// The event that a blank line has completed.
    fn give(&mut self) -> Result<Frame<'_>, FrameError> {
        let offset = self.event.start.unwrap_or_default();
        let data = match std::mem::take(&mut self.event.data) {
            Data::Skipped(scan, length) => {
                self.event = Pending::default();
                return Err(scan.finish(offset, length, self.limit));
            }
            Data::Kept(data) | Data::Given(data) => data,
            Data::None => Vec::new(),
        };
        self.event.data = Data::Given(data);
        let Data::Given(data) = &self.event.data else { unreachable!("it was set just now") };
        let name = match self.event.event.as_str() {
            "" => "message",
            name => name,
        };
        let event = SseEvent { name, last_event_id: &self.last_event_id };
        Ok(Frame { offset, bytes: data, event: Some(event) })
    }
}

impl Field {
    fn named(kept: &[u8], length: usize) -> Self {
        match kept.get(..length) {
            Some(b"data") => Self::Data,
            Some(b"event") => Self::Event,
            Some(b"id") => Self::Id,
            Some(b"retry") => Self::Retry,
            _ => Self::Ignored,
        }
    }
}

/// Appends an event with all its fields. Data of several lines is sent as several `data` fields.
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
    // A `\r` would be read as a line end and come back as `\n`: not the data that was sent.
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

/// Appends a comment, which receivers ignore: it keeps an idle connection open.
pub fn sse_comment(out: &mut Vec<u8>, text: &str) -> Result<(), EncodeError> {
    if text.contains(['\r', '\n']) {
        return Err(EncodeError::LineBreak { field: "comment" });
    }
    for part in [": ", text, "\n"] {
        out.extend_from_slice(part.as_bytes());
    }
    Ok(())
}

/// Appends the field by which a server says how long to wait before connecting again.
pub fn sse_retry(out: &mut Vec<u8>, after: Duration) {
    out.extend_from_slice(format!("retry: {}\n", after.as_millis()).as_bytes());
}

/// A type or id of more than this is not one. The same number bounds header lines elsewhere.
const LONGEST_VALUE: usize = 64 * 1024;

/// `event` and `retry` are the longest names that mean something; one byte more tells a longer one apart.
const LONGEST_NAME: usize = 6;
