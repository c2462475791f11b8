//! A `.wire` transcript -> its entries, line by line.

use barewire_proto::frame::DEFAULT_LIMIT;
use barewire_proto::json::Json;
use barewire_proto::rpc::DEFAULT_DEPTH;
use barewire_proto::transcript::{self, Entry, Stream, WireError, WireFault, read_line};

use super::source::{Ended, Input, Piece};
use super::{Sink, Streams};
use crate::{Advice, Error};

/// How much of a wire is kept and parsed.
#[derive(Debug, Clone, Copy)]
#[expect(clippy::exhaustive_structs, reason = "frames are limited in both directions: length and depth")]
pub struct FrameLimits {
    /// The bytes of a frame.
    pub frame: usize,
    /// The levels of a message.
    pub depth: usize,
}

/// The limits that a server of ours has: 4 MiB and 64 levels.
impl Default for FrameLimits {
    fn default() -> Self {
        Self { frame: DEFAULT_LIMIT, depth: DEFAULT_DEPTH }
    }
}

/// Tells everything in a transcript, until that is enough.
pub(super) fn read(
    input: &mut Input,
    limits: FrameLimits,
    warn: &dyn Fn(&Error),
    sink: &mut dyn Sink,
) -> Result<Ended, Error> {
    let name = input.name.clone();
    // An escaped payload takes four bytes a byte, and the marks some more.
    let longest = limits.frame.saturating_mul(4).saturating_add(64 * 1024);
    let mut lines = TextLines { held: Vec::new(), number: 0, longest };
    let mut streams = Streams::new(limits);
    loop {
        let (mut piece, ended) = match input.next(sink)? {
            Piece::Bytes(piece) => (piece, None),
            Piece::End => (&[][..], Some(Ended::Over)),
            Piece::Anew => {
                // What was there of a line is not a line.
                streams.finish(sink)?;
                return Ok(Ended::Anew);
            }
        };
        while let Some((number, line)) = lines.next(&mut piece, ended.is_some()).map_err(|Overlong(line)| {
            Error::new(format!("cannot read {name}: line {line} is longer than {longest} bytes"))
                .with_advice(Advice::RaiseFrameLimit)
        })? {
            let entry = read_line(line, number);
            // What is left at the end has no line break.
            if ended.is_some() && is_cut(&entry) {
                warn(&left_out(&name, number));
                continue;
            }
            let entry = entry.map_err(|error| unreadable(&name, &error))?;
            if !streams.entry(&entry, sink)? {
                return Ok(Ended::Over);
            }
        }
        sink.caught_up()?;
        if let Some(ended) = ended {
            streams.finish(sink)?;
            return Ok(ended);
        }
    }
}

/// The entries of a transcript that is in memory. A last line that is cut short is left out, which `warn` is told.
pub fn read_entries(name: &str, text: &[u8], warn: &dyn Fn(&Error)) -> Result<Vec<Entry>, WireError> {
    let lines = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    let (whole, last) = text.split_at(lines);
    let mut entries = transcript::read(whole)?;
    if !last.is_empty() {
        let number = entries.len() as u64 + 1;
        let entry = read_line(last, number);
        if is_cut(&entry) {
            warn(&left_out(name, number));
        } else {
            entries.push(entry?);
        }
    }
    Ok(entries)
}

fn left_out(name: &str, line: u64) -> Error {
    Error::new(format!("{name} ends in the middle of line {line}, which is left out"))
        .with_hint("whoever wrote it was stopped while it did")
}

/// Whether the rest of a line is missing: it says nothing, or the message in it is not at its end.
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

/// The lines of a transcript. Unlike frames, all of them count, blank ones too.
struct TextLines {
    held: Vec<u8>,
    number: u64,
    longest: usize,
}

/// The number of a line that is too long.
struct Overlong(u64);

impl TextLines {
    /// The next line with its number.
    fn next(&mut self, rest: &mut &[u8], ended: bool) -> Result<Option<(u64, &[u8])>, Overlong> {
        if self.held.last() == Some(&b'\n') {
            self.held.clear();
        }
        let newline = rest.iter().position(|b| *b == b'\n');
        let (line, behind) = rest.split_at(newline.map_or(rest.len(), |at| at + 1));
        *rest = behind;
        if self.held.len() + line.len() > self.longest {
            return Err(Overlong(self.number + 1));
        }
        self.held.extend_from_slice(line);
        if newline.is_none() {
            if !ended || self.held.is_empty() {
                return Ok(None);
            }
            // The last line needs no line break.
            self.held.push(b'\n');
        }
        self.number += 1;
        Ok(Some((self.number, &self.held[..self.held.len() - 1])))
    }
}
