//! The log of a host, with JSON within its lines -> messages with time and direction, lines of stderr, and events.
//!
//! A line of the host begins with a time and a level ([`line`]). A line without them continues the line before it, or
//! is a line of the server's stderr, which some hosts write to the log as it is.

mod channels;
mod clock;
mod line;

use std::cell::RefCell;

use barewire_proto::json::Json;
use barewire_proto::transcript::{Bytes, Channel, End, Entry, Marks, Note, Stream};

use super::import::{EntryFilter, Importer, event, header, mark_cut};
use super::json_text::{JsonText, LineEnd, may_continue};
use super::source::{Input, InputPiece, ReadEnd};
use super::text_lines::BoundedLines;
use super::{FrameLimits, Sink};
use crate::Error;
use channels::LogChannels;
use clock::LogClock;
use line::{LineContent, LineShape, LogLine};

/// Passes all items of a log to the sink, until the sink returns `false`.
pub(super) fn read<'a>(
    input: &mut Input,
    limits: FrameLimits,
    filter: Option<&'a RefCell<EntryFilter<'a>>>,
    sink: &mut dyn Sink,
) -> Result<ReadEnd, Error> {
    let mut lines = BoundedLines::new(limits.frame.saturating_add(MAX_LINE_START));
    let mut log = LogReader::new(limits, filter);
    loop {
        let (mut piece, ended) = match input.next(sink)? {
            InputPiece::Bytes(piece) => (piece, None),
            InputPiece::End => (&[][..], Some(ReadEnd::Finished)),
            InputPiece::Restarted => (&[][..], Some(ReadEnd::Restarted)),
        };
        while let Some((line, length)) = lines.next(&mut piece, ended.is_some()) {
            if !log.line(line, length, sink)? {
                return Ok(ReadEnd::Finished);
            }
        }
        sink.caught_up()?;
        if let Some(ended) = ended {
            log.finish(sink)?;
            return Ok(ended);
        }
    }
}

/// The evidence in a line that the input is the log of a host.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Evidence {
    /// A message or an event of MCP.
    Mcp,
    /// A time and a level, as in any log.
    AnyLog,
    None,
}

impl Evidence {
    pub(super) fn of(line: &[u8]) -> Self {
        match LogLine::read(line.trim_ascii_end()) {
            Some(line) if line.is_about_mcp() => Self::Mcp,
            Some(_) => Self::AnyLog,
            None => Self::None,
        }
    }
}

struct LogReader<'a> {
    importer: Importer<'a>,
    channels: LogChannels,
    clock: LogClock,
    /// Whether the header of the transcript was passed on.
    has_header: bool,
    /// The form of the host's lines; `None` before the first one.
    shape: Option<LineShape>,
    /// The server that the last line is about, and its channel.
    server: Vec<u8>,
    channel: Channel,
    state: LineState,
    max_frame: usize,
}

/// What a line without a time continues.
enum LineState {
    /// Nothing: the line is one of stderr.
    Free,
    /// An event of several lines.
    Note,
    /// A message of several lines.
    Message {
        stream: Stream,
        json: JsonText,
        /// Its lines so far, with line breaks between them.
        lines: Vec<u8>,
    },
}

impl<'a> LogReader<'a> {
    fn new(limits: FrameLimits, filter: Option<&'a RefCell<EntryFilter<'a>>>) -> Self {
        Self {
            importer: Importer::new(limits, filter),
            channels: LogChannels::default(),
            clock: LogClock::default(),
            has_header: false,
            shape: None,
            server: Vec::new(),
            channel: Channel::default(),
            state: LineState::Free,
            max_frame: limits.frame,
        }
    }

    /// Takes a line, of which only the beginning is given if it is longer than the limit. `length` is its whole length.
    fn line(&mut self, line: &[u8], length: u64, sink: &mut dyn Sink) -> Result<bool, Error> {
        let missing = length.saturating_sub(line.len() as u64 + 1);
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let read = LogLine::read(line).filter(|it| self.shape.is_none_or(|shape| shape == it.shape));
        if !std::mem::replace(&mut self.has_header, true) {
            // The time of the first line is not known if the host did not write it.
            let started = read.as_ref().map(|it| (it.time_text, it.shape.has_zone));
            if !self.importer.entry(header(started), sink)? {
                return Ok(false);
            }
        }
        match read {
            Some(read) => self.host_line(&read, missing, sink),
            None => self.other_line(line, missing, sink),
        }
    }

    fn host_line(&mut self, line: &LogLine<'_>, missing: u64, sink: &mut dyn Sink) -> Result<bool, Error> {
        if !self.give_up(sink)? {
            return Ok(false);
        }
        self.shape = Some(line.shape);
        self.clock.set(line.time.nanos);
        let server = line.server.unwrap_or_default();
        self.channel = self.channels.of(server, line.begins_connection());
        self.server.clear();
        self.server.extend_from_slice(server);
        match line.content {
            LineContent::Message { stream, text } => {
                self.channels.mark(server);
                self.message(stream, text, missing, sink)
            }
            LineContent::Stderr(text) => self.stderr(text, missing, sink),
            LineContent::Note(text) => {
                self.state = LineState::Note;
                self.note(text, sink)
            }
        }
    }

    /// Handles the first line of a message.
    fn message(&mut self, stream: Stream, text: &[u8], missing: u64, sink: &mut dyn Sink) -> Result<bool, Error> {
        let mut json = JsonText::default();
        match json.line(text) {
            LineEnd::Ended(end) => {
                // Some hosts write more after a message, and continue it on the next lines.
                self.state = if text[end..].trim_ascii().is_empty() { LineState::Free } else { LineState::Note };
                self.bytes(stream, text[..end].to_vec(), None, sink)
            }
            LineEnd::Open if missing == 0 => {
                self.state = LineState::Message { stream, json, lines: text.to_vec() };
                Ok(true)
            }
            LineEnd::Open | LineEnd::Cut => {
                let length = (text.len() as u64).saturating_add(missing);
                self.bytes(stream, text.to_vec(), Some(length), sink)
            }
        }
    }

    /// Handles a line that does not begin with a time.
    fn other_line(&mut self, line: &[u8], missing: u64, sink: &mut dyn Sink) -> Result<bool, Error> {
        if let LineState::Message { json, lines, .. } = &mut self.state {
            if may_continue(line) && lines.len() + line.len() < self.max_frame {
                lines.push(b'\n');
                lines.extend_from_slice(line);
                return match json.line(line) {
                    LineEnd::Open => Ok(true),
                    LineEnd::Cut => self.give_up(sink),
                    LineEnd::Ended(end) => self.join(line.len() - end, sink),
                };
            }
            if !self.give_up(sink)? {
                return Ok(false);
            }
        }
        if line.is_empty() {
            return Ok(true);
        }
        match self.state {
            LineState::Note if matches!(line[0], b' ' | b'\t' | b'}' | b']') => self.note(line, sink),
            _ => {
                self.state = LineState::Free;
                self.stderr(line, missing, sink)
            }
        }
    }

    /// Joins the lines of a message. The last `behind` bytes come after its end.
    fn join(&mut self, behind: usize, sink: &mut dyn Sink) -> Result<bool, Error> {
        let LineState::Message { stream, lines, .. } = &self.state else { return Ok(true) };
        let (stream, text) = (*stream, &lines[..lines.len() - behind]);
        if Json::parse(text).is_err() {
            return self.give_up(sink);
        }
        // A line break in JSON is white space.
        let text = text.iter().map(|byte| if *byte == b'\n' { b' ' } else { *byte }).collect();
        self.state = LineState::Note;
        self.bytes(stream, text, None, sink)
    }

    /// Ends a message whose end is missing: its first line is all that is known of it, and the other lines are stderr.
    fn give_up(&mut self, sink: &mut dyn Sink) -> Result<bool, Error> {
        let LineState::Message { stream, lines, .. } = std::mem::replace(&mut self.state, LineState::Free) else {
            return Ok(true);
        };
        for (index, line) in lines.split(|byte| *byte == b'\n').enumerate() {
            let (stream, cut) = match index {
                0 => (stream, Some(line.len() as u64)),
                _ => (Stream::Stderr, None),
            };
            if !self.bytes(stream, line.to_vec(), cut, sink)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn stderr(&mut self, text: &[u8], missing: u64, sink: &mut dyn Sink) -> Result<bool, Error> {
        let cut = (missing > 0).then(|| (text.len() as u64).saturating_add(missing));
        self.bytes(Stream::Stderr, text.to_vec(), cut, sink)
    }

    fn note(&mut self, text: &[u8], sink: &mut dyn Sink) -> Result<bool, Error> {
        let entry = event(&self.channel, Note::Log(text.to_vec()), self.clock.time());
        self.importer.entry(entry, sink)
    }

    /// Passes on a line of a stream; `cut` is its length if only its beginning is known.
    fn bytes(
        &mut self,
        stream: Stream,
        payload: Vec<u8>,
        cut: Option<u64>,
        sink: &mut dyn Sink,
    ) -> Result<bool, Error> {
        let (channel, marks) = (self.channel.clone(), Marks::at(self.clock.time()));
        let mut bytes = Bytes { stream, channel, payload, end: End::Lf, marks };
        if let Some(length) = cut {
            mark_cut(&mut bytes, length);
        }
        self.importer.entry(Entry::Bytes(bytes), sink)
    }

    fn finish(&mut self, sink: &mut dyn Sink) -> Result<(), Error> {
        if self.give_up(sink)? { self.importer.finish(sink) } else { Ok(()) }
    }
}

/// The maximum length of the text before a message on its line.
const MAX_LINE_START: usize = 4096;

#[cfg(test)]
mod tests;
