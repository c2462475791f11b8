//! Records a byte stream as entries, and restores the stream from them.

use std::fmt;
use std::time::Duration;

use super::entry::{Bytes, Channel, End, Entry, Event, Marks, Stream};
use super::note::Note;

/// A recorder of one byte stream: each line becomes an entry, and no byte is lost.
#[derive(Debug)]
pub struct Recorder {
    stream: Stream,
    channel: Channel,
    /// The unfinished line.
    partial: Vec<u8>,
    limit: usize,
}

impl Recorder {
    /// Creates a recorder for `stream` of `channel`. A line of more than `limit` bytes is recorded in pieces.
    pub fn new(stream: Stream, channel: Channel, limit: usize) -> Self {
        Self { stream, channel, partial: Vec::new(), limit: limit.max(1) }
    }

    /// Records the bytes of one read, and appends the entries that are complete to `out`.
    pub fn push(&mut self, mut bytes: &[u8], time: Option<Duration>, out: &mut Vec<Entry>) {
        while let Some(newline) = memchr::memchr(b'\n', bytes) {
            self.append(&bytes[..newline], time, out);
            bytes = &bytes[newline + 1..];
            let line = std::mem::take(&mut self.partial);
            out.push(match line.strip_suffix(b"\r") {
                Some(line) => self.entry(line.to_vec(), End::CrLf, time),
                None => self.entry(line, End::Lf, time),
            });
        }
        self.append(bytes, time, out);
    }

    /// Ends the stream: appends the remaining bytes, if any, as an entry without a line break.
    pub fn finish(&mut self, time: Option<Duration>, out: &mut Vec<Entry>) {
        if !self.partial.is_empty() {
            let rest = std::mem::take(&mut self.partial);
            out.push(self.entry(rest, End::None, time));
        }
    }

    fn append(&mut self, mut bytes: &[u8], time: Option<Duration>, out: &mut Vec<Entry>) {
        while self.partial.len() + bytes.len() > self.limit {
            let (piece, rest) = bytes.split_at(self.limit - self.partial.len());
            self.partial.extend_from_slice(piece);
            bytes = rest;
            let piece = std::mem::take(&mut self.partial);
            out.push(self.entry(piece, End::None, time));
        }
        self.partial.extend_from_slice(bytes);
    }

    fn entry(&self, payload: Vec<u8>, end: End, time: Option<Duration>) -> Entry {
        let marks = Marks::at(time);
        Entry::Bytes(Bytes { stream: self.stream, channel: self.channel.clone(), payload, end, marks })
    }
}

/// Returns the exact bytes of one stream, or an error if the transcript does not hold all of them.
pub fn restore(entries: &[Entry], stream: Stream, channel: &Channel) -> Result<Vec<u8>, RestoreError> {
    let mut out = Vec::new();
    for entry in entries {
        match entry {
            Entry::Bytes(bytes) if bytes.stream == stream && bytes.channel == *channel => {
                if bytes.marks.truncated.is_some() {
                    return Err(RestoreError::Truncated);
                }
                if bytes.marks.redacted {
                    return Err(RestoreError::Redacted);
                }
                out.extend_from_slice(&bytes.payload);
                out.extend_from_slice(bytes.end.as_bytes());
            }
            Entry::Event(Event { note: Note::Gap(gap, _), channel: gone, .. }) if *gap == stream && gone == channel => {
                return Err(RestoreError::Gap);
            }
            _ => {}
        }
    }
    Ok(out)
}

/// The reason why a transcript does not hold all bytes of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum RestoreError {
    /// A line was truncated when it was recorded.
    Truncated,
    /// A secret in a line was replaced.
    Redacted,
    /// Bytes were not recorded.
    Gap,
}

impl fmt::Display for RestoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Truncated => "a line of the stream is truncated in the transcript",
            Self::Redacted => "a line of the stream is redacted in the transcript",
            Self::Gap => "the transcript has a gap in the stream",
        })
    }
}

impl std::error::Error for RestoreError {}
