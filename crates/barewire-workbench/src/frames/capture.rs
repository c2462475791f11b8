//! Reads the entries of a `.wire` transcript, line by line.

use barewire_proto::frame::DEFAULT_LIMIT;
use barewire_proto::json::Json;
use barewire_proto::rpc::DEFAULT_DEPTH;
use barewire_proto::transcript::{self, Entry, Stream, WireError, WireFault, read_line};

use super::source::{Input, InputPiece, ReadEnd};
use super::{Sink, Streams};
use crate::{Advice, Error};

/// The maximum size and nesting of frames.
#[derive(Debug, Clone, Copy)]
#[expect(clippy::exhaustive_structs, reason = "only the length and the depth of a frame are limited")]
pub struct FrameLimits {
    /// The maximum length of a frame, in bytes.
    pub frame: usize,
    /// The maximum nesting depth of a message.
    pub depth: usize,
}

/// The limits of our own servers: 64 MiB and 128 levels.
impl Default for FrameLimits {
    fn default() -> Self {
        Self { frame: DEFAULT_LIMIT, depth: DEFAULT_DEPTH }
    }
}

/// Passes all items of a transcript to the sink, until the sink returns `false`.
pub(super) fn read(
    input: &mut Input,
    limits: FrameLimits,
    warn: &dyn Fn(&Error),
    sink: &mut dyn Sink,
) -> Result<ReadEnd, Error> {
    let name = input.name.clone();
    // In a transcript, an escaped byte takes four bytes, and the marks of a line take some more.
    let max_length = limits.frame.saturating_mul(4).saturating_add(64 * 1024);
    let mut lines = TextLines { held: Vec::new(), number: 0, max_length };
    let mut streams = Streams::new(limits);
    loop {
        let (mut piece, ended) = match input.next(sink)? {
            InputPiece::Bytes(piece) => (piece, None),
            InputPiece::End => (&[][..], Some(ReadEnd::Finished)),
            InputPiece::Restarted => {
                // An unfinished line of the replaced file is dropped.
                streams.finish(sink)?;
                return Ok(ReadEnd::Restarted);
            }
        };
        while let Some((number, line)) = lines.next(&mut piece, ended.is_some()).map_err(|Overlong(line)| {
            Error::new(format!("cannot read {name}: line {line} is longer than {max_length} bytes"))
                .with_advice(Advice::RaiseFrameLimit)
        })? {
            let entry = read_line(line, number);
            // Only a last line without a line break can be incomplete.
            if ended.is_some() && is_cut(&entry) {
                warn(&cut_line_warning(&name, number));
                continue;
            }
            let entry = entry.map_err(|error| unreadable(&name, &error))?;
            if !streams.entry(&entry, sink)? {
                return Ok(ReadEnd::Finished);
            }
        }
        sink.caught_up()?;
        if let Some(ended) = ended {
            streams.finish(sink)?;
            return Ok(ended);
        }
    }
}

/// Reads the entries of a transcript in memory. An incomplete last line is left out and reported to `warn`.
pub fn read_entries(name: &str, text: &[u8], warn: &dyn Fn(&Error)) -> Result<Vec<Entry>, WireError> {
    let lines = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    let (whole, last) = text.split_at(lines);
    let mut entries = transcript::read(whole)?;
    if !last.is_empty() {
        let number = entries.len() as u64 + 1;
        let entry = read_line(last, number);
        if is_cut(&entry) {
            warn(&cut_line_warning(name, number));
        } else {
            entries.push(entry?);
        }
    }
    Ok(entries)
}

fn cut_line_warning(name: &str, line: u64) -> Error {
    Error::new(format!("{name} ends in the middle of line {line}, which is left out"))
        .with_hint("the program that wrote it was stopped while writing")
}

/// Whether the end of a line is missing: the line is not an entry, or the message in it is incomplete.
fn is_cut(entry: &Result<Entry, WireError>) -> bool {
    match entry {
        Err(_) => true,
        Ok(Entry::Bytes(bytes)) if bytes.stream != Stream::Stderr && bytes.marks.truncated.is_none() => {
            let text = bytes.payload.strip_prefix(b"data:").unwrap_or(&bytes.payload).trim_ascii_start();
            let is_json = matches!(text.first(), Some(b'{' | b'['));
            is_json && Json::parse(text).is_err_and(|syntax| syntax.at >= text.len())
        }
        Ok(_) => false,
    }
}

fn unreadable(name: &str, error: &WireError) -> Error {
    let unreadable = Error::new(format!("cannot read {name}: {error}"));
    match error.fault {
        WireFault::UnknownSigil => unreadable.with_advice(Advice::ReadAsLines),
        _ => unreadable.with_hint("docs/wire-format.md describes the format"),
    }
}

/// Splits a transcript into lines. Unlike in message framing, blank lines are included.
struct TextLines {
    held: Vec<u8>,
    number: u64,
    max_length: usize,
}

/// The number of a line that is longer than the maximum.
struct Overlong(u64);

impl TextLines {
    /// Returns the next line and its number.
    fn next(&mut self, rest: &mut &[u8], ended: bool) -> Result<Option<(u64, &[u8])>, Overlong> {
        if self.held.last() == Some(&b'\n') {
            self.held.clear();
        }
        let newline = rest.iter().position(|b| *b == b'\n');
        let (line, behind) = rest.split_at(newline.map_or(rest.len(), |at| at + 1));
        *rest = behind;
        if self.held.len() + line.len() > self.max_length {
            return Err(Overlong(self.number + 1));
        }
        self.held.extend_from_slice(line);
        if newline.is_none() {
            if !ended || self.held.is_empty() {
                return Ok(None);
            }
            // The last line may have no line break.
            self.held.push(b'\n');
        }
        self.number += 1;
        Ok(Some((self.number, &self.held[..self.held.len() - 1])))
    }
}
