//! The base protocol of LSP: header lines, a blank line, and a body of as many bytes as `Content-Length` says.
//!
//! The length a peer announces is never believed for allocation: the body grows as it comes.

use std::fmt;

use super::outline::Scan;
use super::{BOM, Codec, DEFAULT_LIMIT, Frame, FrameError, hold, release};

/// The decoder and encoder of `Content-Length` framing.
#[derive(Debug)]
pub struct ContentLength {
    limit: usize,
    mode: Mode,
    /// The unfinished header line or body; in [`Mode::Given`], the body the last frame was borrowed from.
    partial: Vec<u8>,
    /// How many bytes of the stream have been taken.
    taken: u64,
    /// Where the header block of the current frame began in the stream.
    start: u64,
}

#[derive(Debug)]
enum Mode {
    /// In a header line.
    Headers(Headers),
    /// In a body that fits.
    Body { length: usize },
    /// In a body that does not.
    Skip { length: u64, left: u64, scan: Box<Scan> },
    /// Behind a body that was given out.
    Given,
    /// Behind a bad header, looking for the next `Content-Length:`, of which this many bytes are matched.
    Lost { matched: usize },
}

/// What the header lines so far have said.
#[derive(Debug, Default, Clone, Copy)]
struct Headers {
    length: Option<u64>,
    /// There was a line.
    any: bool,
}

/// Why a header block does not say how long its body is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum HeaderFault {
    /// A line without a colon.
    NotAHeader,
    /// A line that begins like a JSON message: the peer may be speaking newline-delimited JSON.
    Json,
    /// The block ended without a `Content-Length`.
    NoLength,
    /// A `Content-Length` that is no number, or no number this machine can count to.
    BadLength,
    /// Two `Content-Length`s that differ.
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
    /// Bodies of at most `limit` bytes.
    pub fn new(limit: usize) -> Self {
        Self { limit, mode: Mode::Headers(Headers::default()), partial: Vec::new(), taken: 0, start: 0 }
    }

    fn take<'i>(&mut self, input: &mut &'i [u8], count: usize) -> &'i [u8] {
        let (taken, rest) = input.split_at(count);
        *input = rest;
        self.taken += count as u64;
        taken
    }

    /// Between two frames: the next header block begins here.
    fn restart(&mut self) {
        release(&mut self.partial);
        self.mode = Mode::Headers(Headers::default());
        self.start = self.taken;
    }

    /// Takes bytes of a header line, up to its end if that is in `input`.
    fn header_bytes(&mut self, headers: Headers, input: &mut &[u8]) -> Result<(), HeaderFault> {
        let room = LONGEST_HEADER - self.partial.len();
        let newline = memchr::memchr(b'\n', &input[..room.min(input.len())]);
        // A peer that sends a message a line has a `{` where no header can have one. A line end would come too late.
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
            self.mode = next?;
        }
        Ok(())
    }

    /// What comes after a whole header line.
    fn header_line(&mut self, mut headers: Headers, line: &[u8]) -> Result<Mode, HeaderFault> {
        if line.is_empty() {
            let Some(length) = headers.length else {
                if headers.any {
                    return Err(HeaderFault::NoLength);
                }
                // A blank line between two frames does no harm.
                self.start = self.taken;
                return Ok(Mode::Headers(headers));
            };
            return Ok(match usize::try_from(length) {
                Ok(length) if length <= self.limit => Mode::Body { length },
                _ => Mode::Skip { length, left: length, scan: Box::default() },
            });
        }
        // A BOM at the start of the stream is tolerated.
        let line = if self.start == 0 && !headers.any { line.strip_prefix(BOM).unwrap_or(line) } else { line };
        headers.any = true;
        let colon = memchr::memchr(b':', line).ok_or(HeaderFault::NotAHeader)?;
        if line[..colon].eq_ignore_ascii_case(&MARK[..MARK.len() - 1]) {
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
        Ok(Mode::Headers(headers))
    }

    /// Looks for the next header that can be a frame's first.
    fn find_header(&mut self, mut matched: usize, input: &mut &[u8]) {
        while let [byte, ..] = **input {
            self.take(input, 1);
            // The first letter of the mark stands nowhere else in it, so a mismatch begins anew at most with this byte.
            matched = match byte.to_ascii_lowercase() {
                lower if lower == MARK[matched] => matched + 1,
                lower => usize::from(lower == MARK[0]),
            };
            if matched == MARK.len() {
                self.start = self.taken - MARK.len() as u64;
                self.partial.clear();
                self.partial.extend_from_slice(MARK);
                self.mode = Mode::Headers(Headers::default());
                return;
            }
        }
        self.mode = Mode::Lost { matched };
    }
}

impl Codec for ContentLength {
    fn next_frame<'s, 'i: 's>(&'s mut self, input: &mut &'i [u8]) -> Option<Result<Frame<'s>, FrameError>> {
        loop {
            match &mut self.mode {
                Mode::Given => self.restart(),
                Mode::Headers(headers) => {
                    if input.is_empty() {
                        return None;
                    }
                    let headers = *headers;
                    if let Err(fault) = self.header_bytes(headers, input) {
                        self.partial.clear();
                        self.mode = Mode::Lost { matched: 0 };
                        return Some(Err(FrameError::BadHeader { offset: self.start, fault }));
                    }
                }
                Mode::Body { length } => {
                    let length = *length;
                    let offset = self.taken - self.partial.len() as u64;
                    let left = length - self.partial.len();
                    if input.len() < left {
                        let bytes = self.take(input, input.len());
                        hold(&mut self.partial, bytes, length);
                        return None;
                    }
                    let bytes = self.take(input, left);
                    if self.partial.is_empty() {
                        self.restart();
                        return Some(Ok(Frame { offset, bytes, event: None }));
                    }
                    hold(&mut self.partial, bytes, length);
                    self.mode = Mode::Given;
                    return Some(Ok(Frame { offset, bytes: &self.partial, event: None }));
                }
                Mode::Skip { length, left, scan } => {
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
                Mode::Lost { matched } => {
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
        let whole = match &self.mode {
            Mode::Headers(headers) => !headers.any && self.partial.is_empty(),
            // What was lost has been reported.
            Mode::Given | Mode::Lost { .. } => true,
            Mode::Body { .. } | Mode::Skip { .. } => false,
        };
        let offset = self.start;
        self.restart();
        (!whole).then_some(Err(FrameError::Truncated { offset }))
    }

    fn capacity(&self) -> usize {
        self.partial.capacity()
    }

    fn trim(&mut self) {
        match self.mode {
            Mode::Given => {
                self.partial = Vec::new();
                self.restart();
            }
            Mode::Headers(_) if self.partial.is_empty() => self.partial = Vec::new(),
            Mode::Headers(_) | Mode::Body { .. } | Mode::Skip { .. } | Mode::Lost { .. } => {}
        }
    }

    fn encode(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
        let start = out.len();
        write(out);
        let header = format!("Content-Length: {}\r\n\r\n", out.len() - start);
        out.splice(start..start, header.into_bytes());
    }
}

/// What a frame's first header begins with, in lower case.
const MARK: &[u8] = b"content-length:";

/// No header of the base protocol comes near; what does is not one.
const LONGEST_HEADER: usize = 8 * 1024;
