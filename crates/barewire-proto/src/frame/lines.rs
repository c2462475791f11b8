//! Newline-delimited JSON: one frame per line, ended by `\n` or `\r\n`. Blank lines are skipped, and so is a byte order
//! mark (BOM) at the start of the stream.

use super::outline::OutlineScanner;
use super::{BOM, Codec, DEFAULT_LIMIT, Frame, FrameError, append_bounded, release};
use crate::json::flatten;

/// The decoder and encoder for newline-delimited JSON.
#[derive(Debug)]
pub struct Lines {
    limit: usize,
    state: LinesState,
    /// The first bytes of an unfinished line; in [`LinesState::Delivered`], the line that was returned.
    partial: Vec<u8>,
    /// The offset in the stream at which the current line begins.
    start: u64,
}

#[derive(Debug)]
enum LinesState {
    /// At the start of the stream. The number counts the bytes of a byte order mark (BOM) matched so far.
    Start(usize),
    /// Reading a line.
    Line,
    /// Between two lines. The previous line was returned and is still in `partial`.
    Delivered,
    /// Reading a line that is too long. Its bytes are scanned for the id and method of the message, but not kept.
    Skip(Box<SkippedLine>),
}

#[derive(Debug)]
struct SkippedLine {
    scan: OutlineScanner,
    length: u64,
    /// Whether all bytes so far are white space.
    blank: bool,
    /// Whether the last byte was `\r`. This byte is part of the line break if `\n` follows, otherwise of the line.
    ends_in_cr: bool,
}

impl Default for Lines {
    fn default() -> Self {
        Self::new(DEFAULT_LIMIT)
    }
}

impl Lines {
    /// Creates a decoder for frames of at most `limit` bytes, not counting the line break.
    pub fn new(limit: usize) -> Self {
        Self { limit, state: LinesState::Start(0), partial: Vec::new(), start: 0 }
    }

    /// Skips a BOM at the start of the stream.
    fn skip_bom(&mut self, mut matched: usize, input: &mut &[u8]) {
        while matched < BOM.len() && input.first() == Some(&BOM[matched]) {
            *input = &input[1..];
            matched += 1;
        }
        if matched == BOM.len() {
            self.start = BOM.len() as u64;
            self.state = LinesState::Line;
        } else if input.is_empty() {
            self.state = LinesState::Start(matched);
        } else {
            self.no_bom(matched);
        }
    }

    /// Starts the first line with the `matched` bytes that looked like a BOM but were not one.
    fn no_bom(&mut self, matched: usize) {
        self.partial.extend_from_slice(&BOM[..matched]);
        self.state = LinesState::Line;
    }

    /// Switches from buffering the current line to scanning it without keeping it.
    fn start_skipping(&mut self) {
        let mut skip = Box::<SkippedLine>::default();
        skip.feed(&self.partial);
        release(&mut self.partial);
        self.state = LinesState::Skip(skip);
    }

    /// Returns the frame in `line`, or `None` if the line is blank.
    fn frame<'a>(&self, line: &'a [u8], offset: u64) -> Option<Result<Frame<'a>, FrameError>> {
        let bytes = line.strip_suffix(b"\r").unwrap_or(line);
        if bytes.len() > self.limit {
            let mut skip = SkippedLine::default();
            skip.feed(line);
            return self.too_long(skip, offset).map(Err);
        }
        (!is_blank(bytes)).then_some(Ok(Frame { offset, bytes, event: None }))
    }

    /// Returns the next frame when the fast path does not apply: the line spans several reads, is blank, is too long,
    /// or follows a BOM.
    fn assemble<'s, 'i: 's>(&'s mut self, input: &mut &'i [u8]) -> Option<Result<Frame<'s>, FrameError>> {
        loop {
            match self.state {
                LinesState::Delivered => {
                    release(&mut self.partial);
                    self.state = LinesState::Line;
                }
                LinesState::Start(matched) => self.skip_bom(matched, input),
                LinesState::Line | LinesState::Skip(_) => {}
            }
            let newline = memchr::memchr(b'\n', input);
            let (bytes, rest) = input.split_at(newline.unwrap_or(input.len()));
            *input = rest.get(1..).unwrap_or(rest);

            // One byte over the limit is buffered, because it can be the `\r` of a `\r\n`.
            let room = self.limit.saturating_add(1);
            if let LinesState::Line = self.state
                && self.partial.len() + bytes.len() > room
            {
                self.start_skipping();
            }
            let offset = self.start;
            if let LinesState::Skip(skip) = &mut self.state {
                skip.feed(bytes);
                newline?;
                let skip = std::mem::take(skip);
                self.state = LinesState::Line;
                self.start += skip.length + 1;
                match self.too_long(*skip, offset) {
                    Some(error) => return Some(Err(error)),
                    None => continue,
                }
            }
            if newline.is_none() {
                append_bounded(&mut self.partial, bytes, room);
                return None;
            }
            if self.partial.is_empty() {
                self.start += bytes.len() as u64 + 1;
                match self.frame(bytes, offset) {
                    Some(frame) => return Some(frame),
                    None => continue,
                }
            }
            append_bounded(&mut self.partial, bytes, room);
            self.start += self.partial.len() as u64 + 1;
            self.state = LinesState::Delivered;
            // `frame` also returns `None` for a blank line, but its result cannot be tested here: the borrow checker
            // lets a borrow that is returned on one path last until the end of the function.
            if !is_blank(&self.partial) {
                return self.frame(&self.partial, offset);
            }
        }
    }

    /// Returns the error for a skipped line, or `None` if the line was blank.
    fn too_long(&self, skip: SkippedLine, offset: u64) -> Option<FrameError> {
        let length = skip.length - u64::from(skip.ends_in_cr);
        (!skip.blank).then(|| skip.scan.finish(offset, length, self.limit))
    }
}

impl Codec for Lines {
    #[inline]
    fn next_frame<'s, 'i: 's>(&'s mut self, input: &mut &'i [u8]) -> Option<Result<Frame<'s>, FrameError>> {
        // The common case: the whole line is in the input, and the frame is borrowed from there.
        if let LinesState::Line = self.state
            && self.partial.is_empty()
            && let Some(end) = memchr::memchr(b'\n', input)
            && let bytes @ [b'!'..=0xff, .., b' '..=0xff] = &input[..end]
            && end <= self.limit
        {
            let offset = self.start;
            self.start += end as u64 + 1;
            *input = &input[end + 1..];
            return Some(Ok(Frame { offset, bytes, event: None }));
        }
        self.assemble(input)
    }

    fn finish(&mut self) -> Option<Result<Frame<'_>, FrameError>> {
        let offset = self.start;
        match &mut self.state {
            LinesState::Start(matched) => {
                let matched = *matched;
                self.no_bom(matched);
            }
            LinesState::Delivered => release(&mut self.partial),
            LinesState::Line => {}
            LinesState::Skip(skip) => {
                let skip = std::mem::take(skip);
                self.state = LinesState::Line;
                self.start += skip.length;
                return self.too_long(*skip, offset).map(Err);
            }
        }
        self.state = LinesState::Delivered;
        self.start += self.partial.len() as u64;
        self.frame(&self.partial, offset)
    }

    fn capacity(&self) -> usize {
        self.partial.capacity()
    }

    fn trim(&mut self) {
        match self.state {
            LinesState::Delivered => {
                self.partial = Vec::new();
                self.state = LinesState::Line;
            }
            LinesState::Line if self.partial.is_empty() => self.partial = Vec::new(),
            LinesState::Line | LinesState::Start(_) | LinesState::Skip(_) => {}
        }
    }

    fn encode(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
        let start = out.len();
        write(out);
        flatten(&mut out[start..]);
        out.push(b'\n');
    }
}

fn is_blank(line: &[u8]) -> bool {
    line.iter().all(|b| matches!(b, b' ' | b'\t' | b'\r'))
}

impl Default for SkippedLine {
    fn default() -> Self {
        Self { scan: OutlineScanner::default(), length: 0, blank: true, ends_in_cr: false }
    }
}

impl SkippedLine {
    fn feed(&mut self, bytes: &[u8]) {
        self.scan.feed(bytes);
        self.blank = self.blank && is_blank(bytes);
        self.length += bytes.len() as u64;
        if let Some(last) = bytes.last() {
            self.ends_in_cr = *last == b'\r';
        }
    }
}
