//! Byte streams -> entries, and back.

use std::time::Duration;

use super::entry::{Bytes, Channel, End, Entry, Marks, Stream};

/// Writes one byte stream down: every line of it becomes an entry, and no byte is lost.
#[derive(Debug)]
pub struct Recorder {
    stream: Stream,
    channel: Channel,
    /// The unfinished line.
    partial: Vec<u8>,
    limit: usize,
}

impl Recorder {
    /// Records `stream` of `channel`; a line of more than `limit` bytes is written in pieces.
    pub fn new(stream: Stream, channel: Channel, limit: usize) -> Self {
        Self { stream, channel, partial: Vec::new(), limit: limit.max(1) }
    }

    /// Takes the bytes of one read, and appends the entries they complete.
    pub fn push(&mut self, mut bytes: &[u8], time: Option<Duration>, out: &mut Vec<Entry>) {
        while let Some(newline) = memchr::memchr(b'\n', bytes) {
            self.hold(&bytes[..newline], time, out);
            bytes = &bytes[newline + 1..];
            let line = std::mem::take(&mut self.partial);
            out.push(match line.strip_suffix(b"\r") {
                Some(line) => self.entry(line.to_vec(), End::CrLf, time),
                None => self.entry(line, End::Lf, time),
            });
        }
        self.hold(bytes, time, out);
    }

    /// The stream has ended: what is left is a line without an end.
    pub fn finish(&mut self, time: Option<Duration>, out: &mut Vec<Entry>) {
        if !self.partial.is_empty() {
            let rest = std::mem::take(&mut self.partial);
            out.push(self.entry(rest, End::None, time));
        }
    }

    fn hold(&mut self, mut bytes: &[u8], time: Option<Duration>, out: &mut Vec<Entry>) {
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
        let marks = Marks { time, ..Marks::default() };
        Entry::Bytes(Bytes { stream: self.stream, channel: self.channel.clone(), payload, end, marks })
    }
}

/// The bytes of one stream, as they were.
pub fn restore(entries: &[Entry], stream: Stream, channel: &Channel) -> Vec<u8> {
    let mut out = Vec::new();
    for entry in entries {
        if let Entry::Bytes(bytes) = entry
            && bytes.stream == stream
            && bytes.channel == *channel
        {
            out.extend_from_slice(&bytes.payload);
            out.extend_from_slice(bytes.end.as_bytes());
        }
    }
    out
}
