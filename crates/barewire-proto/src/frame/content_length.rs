//! The framing of the Language Server Protocol: header lines, a blank line, and a body whose length in bytes is the
//! value of `Content-Length`.
//!
//! An announced length allocates no memory: the buffer grows as the bytes of the body arrive.

use std::fmt;

use super::outline::OutlineScanner;
use super::{BOM, Codec, DEFAULT_LIMIT, Frame, FrameError, append_bounded, release};

/// The decoder and encoder for `Content-Length` framing.
#[derive(Debug)]
pub struct ContentLength {
    limit: usize,
    state: ContentLengthState,
    /// The unfinished header line or body; in [`ContentLengthState::Delivered`], the body that was returned.
    partial: Vec<u8>,
    /// The number of bytes of the stream consumed so far.
    taken: u64,
    /// The offset in the stream at which the current frame's header block begins.
    start: u64,
}

#[derive(Debug)]
enum ContentLengthState {
    /// Reading a header line.
    Headers(HeaderBlock),
    /// Reading a body within the limit.
    Body { length: usize },
    /// Reading a body over the limit. Its bytes are scanned for the id and method of the message, but not kept.
    Skip { length: u64, left: u64, scan: Box<OutlineScanner> },
    /// The body is complete and was returned. Its bytes are still in `partial`.
    Delivered,
    /// Searching for the next `Content-Length:` after a bad header. `matched` is the number of bytes of this name that
    /// were matched so far.
    Lost { matched: usize },
}

/// The content of the header lines of the current frame that were read so far.
#[derive(Debug, Default, Clone, Copy)]
struct HeaderBlock {
    length: Option<u64>,
    /// Whether at least one header line was read.
    any: bool,
}

/// A fault in the headers that leaves the length of the body unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum HeaderFault {
    /// A line without a colon.
    NotAHeader,
    /// A line that begins like a JSON message: the peer probably uses newline-delimited JSON.
    Json,
    /// The header block ended without a `Content-Length`.
    NoLength,
    /// A `Content-Length` that is not a number, or does not fit in 64 bits.
    BadLength,
    /// Two `Content-Length` headers with different values.
    TwoLengths,
    /// A header line of 8 KiB or more.
    TooLong,
}

impl fmt::Display for HeaderFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotAHeader => "expected a header line with a colon",
            Self::Json => "expected a Content-Length header, found what looks like newline-delimited JSON",
            Self::NoLength => "headers without Content-Length",
            Self::BadLength => "Content-Length is not a number of bytes",
            Self::TwoLengths => "two different Content-Length headers",
            Self::TooLong => "header line of 8192 bytes or more",
        })
    }
}

impl Default for ContentLength {
    fn default() -> Self {
        Self::new(DEFAULT_LIMIT)
    }
}

impl ContentLength {
    /// Creates a decoder for bodies of at most `limit` bytes.
    pub fn new(limit: usize) -> Self {
        Self {
            limit,
            state: ContentLengthState::Headers(HeaderBlock::default()),
            partial: Vec::new(),
            taken: 0,
            start: 0,
        }
    }

    fn take<'i>(&mut self, input: &mut &'i [u8], count: usize) -> &'i [u8] {
        let (taken, rest) = input.split_at(count);
        *input = rest;
        self.taken += count as u64;
        taken
    }

    /// Starts the next header block at the current position.
    fn restart(&mut self) {
        release(&mut self.partial);
        self.state = ContentLengthState::Headers(HeaderBlock::default());
        self.start = self.taken;
    }

    /// Consumes bytes of a header line, up to the end of the line if `input` holds it.
    fn header_bytes(&mut self, headers: HeaderBlock, input: &mut &[u8]) -> Result<(), HeaderFault> {
        let room = MAX_HEADER_LINE - self.partial.len();
        let newline = memchr::memchr(b'\n', &input[..room.min(input.len())]);
        // A peer that uses newline-delimited JSON sends `{` or `[` here. Report it at once: the line can be very long.
        if self.partial.is_empty() && matches!(input.first(), Some(b'{' | b'[')) {
            return Err(HeaderFault::Json);
        }
        let count = newline.unwrap_or(input.len());
        let bytes = self.take(input, count.min(room));
        self.partial.extend_from_slice(bytes);
        if count >= room {
            return Err(HeaderFault::TooLong);
        }
        if newline.is_some() {
            self.take(input, 1);
            let mut line = std::mem::take(&mut self.partial);
            let next = self.header_line(headers, line.strip_suffix(b"\r").unwrap_or(&line));
            line.clear();
            self.partial = line;
            self.state = next?;
        }
        Ok(())
    }

    /// Parses a complete header line and returns the next state.
    fn header_line(&mut self, mut headers: HeaderBlock, line: &[u8]) -> Result<ContentLengthState, HeaderFault> {
        if line.is_empty() {
            let Some(length) = headers.length else {
                if headers.any {
                    return Err(HeaderFault::NoLength);
                }
                // A blank line between two frames is tolerated.
                self.start = self.taken;
                return Ok(ContentLengthState::Headers(headers));
            };
            return Ok(match usize::try_from(length) {
                Ok(length) if length <= self.limit => ContentLengthState::Body { length },
                _ => ContentLengthState::Skip { length, left: length, scan: Box::default() },
            });
        }
        // A BOM at the start of the stream is tolerated.
        let line = if self.start == 0 && !headers.any { line.strip_prefix(BOM).unwrap_or(line) } else { line };
        headers.any = true;
        let colon = memchr::memchr(b':', line).ok_or(HeaderFault::NotAHeader)?;
        if line[..colon].eq_ignore_ascii_case(&CONTENT_LENGTH[..CONTENT_LENGTH.len() - 1]) {
            let digits = line[colon + 1..].trim_ascii();
            let length = Some(digits)
                .filter(|digits| digits.iter().all(u8::is_ascii_digit))
                .and_then(|digits| std::str::from_utf8(digits).ok()?.parse().ok())
                .ok_or(HeaderFault::BadLength)?;
            if headers.length.is_some_and(|before| before != length) {
                return Err(HeaderFault::TwoLengths);
            }
            headers.length = Some(length);
        }
        Ok(ContentLengthState::Headers(headers))
    }

    /// Searches for the next `Content-Length:`, where a new header block can begin.
    fn find_header(&mut self, mut matched: usize, input: &mut &[u8]) {
        while let [byte, ..] = **input {
            self.take(input, 1);
            // After a mismatch only this byte can start a new match, because `c`, the first letter of the name, does
            // not occur again in the name.
            matched = match byte.to_ascii_lowercase() {
                lower if lower == CONTENT_LENGTH[matched] => matched + 1,
                lower => usize::from(lower == CONTENT_LENGTH[0]),
            };
            if matched == CONTENT_LENGTH.len() {
                self.start = self.taken - CONTENT_LENGTH.len() as u64;
                self.partial.clear();
                self.partial.extend_from_slice(CONTENT_LENGTH);
                self.state = ContentLengthState::Headers(HeaderBlock::default());
                return;
            }
        }
        self.state = ContentLengthState::Lost { matched };
    }
}

impl Codec for ContentLength {
    fn next_frame<'s, 'i: 's>(&'s mut self, input: &mut &'i [u8]) -> Option<Result<Frame<'s>, FrameError>> {
        loop {
            match &mut self.state {
                ContentLengthState::Delivered => self.restart(),
                ContentLengthState::Headers(headers) => {
                    if input.is_empty() {
                        return None;
                    }
                    let headers = *headers;
                    if let Err(fault) = self.header_bytes(headers, input) {
                        self.partial.clear();
                        self.state = ContentLengthState::Lost { matched: 0 };
                        return Some(Err(FrameError::BadHeader { offset: self.start, fault }));
                    }
                }
                ContentLengthState::Body { length } => {
                    let length = *length;
                    let offset = self.taken - self.partial.len() as u64;
                    let left = length - self.partial.len();
                    if input.len() < left {
                        let bytes = self.take(input, input.len());
                        append_bounded(&mut self.partial, bytes, length);
                        return None;
                    }
                    let bytes = self.take(input, left);
                    if self.partial.is_empty() {
                        self.restart();
                        return Some(Ok(Frame { offset, bytes, event: None }));
                    }
                    append_bounded(&mut self.partial, bytes, length);
                    self.state = ContentLengthState::Delivered;
                    return Some(Ok(Frame { offset, bytes: &self.partial, event: None }));
                }
                ContentLengthState::Skip { length, left, scan } => {
                    let count = usize::try_from(*left).map_or(input.len(), |left| left.min(input.len()));
                    let (bytes, rest) = input.split_at(count);
                    scan.feed(bytes);
                    *left -= count as u64;
                    self.taken += count as u64;
                    *input = rest;
                    if *left > 0 {
                        return None;
                    }
                    let (length, scan) = (*length, std::mem::take(scan));
                    let offset = self.taken - length;
                    self.restart();
                    return Some(Err(scan.finish(offset, length, self.limit)));
                }
                ContentLengthState::Lost { matched } => {
                    let matched = *matched;
                    if input.is_empty() {
                        return None;
                    }
                    self.find_header(matched, input);
                }
            }
        }
    }

    fn finish(&mut self) -> Option<Result<Frame<'_>, FrameError>> {
        let whole = match &self.state {
            ContentLengthState::Headers(headers) => !headers.any && self.partial.is_empty(),
            // No error here: the skipped bytes were already reported with the bad header.
            ContentLengthState::Delivered | ContentLengthState::Lost { .. } => true,
            ContentLengthState::Body { .. } | ContentLengthState::Skip { .. } => false,
        };
        let offset = self.start;
        self.restart();
        (!whole).then_some(Err(FrameError::Truncated { offset }))
    }

    fn capacity(&self) -> usize {
        self.partial.capacity()
    }

    fn trim(&mut self) {
        match self.state {
            ContentLengthState::Delivered => {
                self.partial = Vec::new();
                self.restart();
            }
            ContentLengthState::Headers(_) if self.partial.is_empty() => self.partial = Vec::new(),
            ContentLengthState::Headers(_)
            | ContentLengthState::Body { .. }
            | ContentLengthState::Skip { .. }
            | ContentLengthState::Lost { .. } => {}
        }
    }

    fn encode(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
        let start = out.len();
        write(out);
        let header = format!("Content-Length: {}\r\n\r\n", out.len() - start);
        out.splice(start..start, header.into_bytes());
    }
}

/// The header name with its colon, in lower case.
const CONTENT_LENGTH: &[u8] = b"content-length:";

/// A header line of this many bytes or more is refused. Real headers of this framing are far shorter.
const MAX_HEADER_LINE: usize = 8 * 1024;
