//! Newline-delimited JSON: one frame a line, `\n` or `\r\n`, blank lines skipped, a BOM at the start tolerated.

use super::outline::Scan;
use super::{BOM, Codec, DEFAULT_LIMIT, Frame, FrameError, hold, release};
use crate::json::flatten;

/// The decoder and encoder of newline-delimited JSON.
#[derive(Debug)]
pub struct Lines {
    limit: usize,
    mode: Mode,
    /// The first bytes of an unfinished line; in [`Mode::Given`], the line the last frame was borrowed from.
    partial: Vec<u8>,
    /// Where the line that is being read began in the stream.
    start: u64,
}

#[derive(Debug)]
enum Mode {
    /// At the start of the stream, after this many bytes of a BOM.
    Start(usize),
    /// In a line.
    Line,
    /// Between two lines, with the one before still in `partial`.
    Given,
    /// In a line that is too long, and is looked over instead of kept.
    Skip(Box<Skip>),
}

#[derive(Debug)]
struct Skip {
    scan: Scan,
    length: u64,
    /// There was nothing but white space so far.
    blank: bool,
    /// The last byte was `\r`, which is part of the line only if more of it follows.
    ends_in_cr: bool,
}

impl Default for Lines {
    fn default() -> Self {
        Self::new(DEFAULT_LIMIT)
    }
}

impl Lines {
    /// Frames of at most `limit` bytes, the line break not counted.
    pub fn new(limit: usize) -> Self {
        Self { limit, mode: Mode::Start(0), partial: Vec::new(), start: 0 }
    }

    /// Steps over a BOM if the stream begins with one.
    fn start(&mut self, mut seen: usize, input: &mut &[u8]) {
        while seen < BOM.len() && input.first() == Some(&BOM[seen]) {
            *input = &input[1..];
            seen += 1;
        }
        if seen == BOM.len() {
            self.start = BOM.len() as u64;
            self.mode = Mode::Line;
        } else if input.is_empty() {
            self.mode = Mode::Start(seen);
        } else {
            self.end_start(seen);
        }
    }

    /// What looked like a BOM was none.
    fn end_start(&mut self, seen: usize) {
        self.partial.extend_from_slice(&BOM[..seen]);
        self.mode = Mode::Line;
    }

    /// Goes over from keeping the line to looking it over.
    fn skip(&mut self) {
        let mut skip = Box::<Skip>::default();
        skip.feed(&self.partial);
        release(&mut self.partial);
        self.mode = Mode::Skip(skip);
    }

    /// The frame in `line`, or `None` if it is blank.
    fn frame<'a>(&self, line: &'a [u8], offset: u64) -> Option<Result<Frame<'a>, FrameError>> {
        let bytes = line.strip_suffix(b"\r").unwrap_or(line);
        if bytes.len() > self.limit {
            let mut skip = Skip::default();
            skip.feed(line);
            return self.too_long(skip, offset).map(Err);
        }
        (!is_blank(bytes)).then_some(Ok(Frame { offset, bytes, event: None }))
    }

    /// The general case: lines cut across reads, blank, too long, or behind a BOM.
    fn assemble<'s, 'i: 's>(&'s mut self, input: &mut &'i [u8]) -> Option<Result<Frame<'s>, FrameError>> {
        loop {
            match self.mode {
                Mode::Given => {
                    release(&mut self.partial);
                    self.mode = Mode::Line;
                }
                Mode::Start(seen) => self.start(seen, input),
                Mode::Line | Mode::Skip(_) => {}
            }
            let newline = memchr::memchr(b'\n', input);
            let (bytes, rest) = input.split_at(newline.unwrap_or(input.len()));
            *input = rest.get(1..).unwrap_or(rest);

            // One byte more than the limit may be the `\r` of a `\r\n`.
            let room = self.limit.saturating_add(1);
            if let Mode::Line = self.mode
                && self.partial.len() + bytes.len() > room
            {
                self.skip();
            }
            let offset = self.start;
            if let Mode::Skip(skip) = &mut self.mode {
                skip.feed(bytes);
                newline?;
                let skip = std::mem::take(skip);
                self.mode = Mode::Line;
                self.start += skip.length + 1;
                match self.too_long(*skip, offset) {
                    Some(error) => return Some(Err(error)),
                    None => continue,
                }
            }
            if newline.is_none() {
                hold(&mut self.partial, bytes, room);
                return None;
            }
            if self.partial.is_empty() {
                self.start += bytes.len() as u64 + 1;
                match self.frame(bytes, offset) {
                    Some(frame) => return Some(frame),
                    None => continue,
                }
            }
            hold(&mut self.partial, bytes, room);
            self.start += self.partial.len() as u64 + 1;
            self.mode = Mode::Given;
            // Asked before, because a borrow that may be returned lasts to the end of the function.
            if !is_blank(&self.partial) {
                return self.frame(&self.partial, offset);
            }
        }
    }

    /// What is said of a line that was skipped; nothing if it was blank.
    fn too_long(&self, skip: Skip, offset: u64) -> Option<FrameError> {
        let length = skip.length - u64::from(skip.ends_in_cr);
        (!skip.blank).then(|| skip.scan.finish(offset, length, self.limit))
    }
}

impl Codec for Lines {
    #[inline]
    fn next_frame<'s, 'i: 's>(&'s mut self, input: &mut &'i [u8]) -> Option<Result<Frame<'s>, FrameError>> {
        // A line that lies whole in the input, as almost all do, is given out from there.
        if let Mode::Line = self.mode
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
        match &mut self.mode {
            Mode::Start(seen) => {
                let seen = *seen;
                self.end_start(seen);
            }
            Mode::Given => release(&mut self.partial),
            Mode::Line => {}
            Mode::Skip(skip) => {
                let skip = std::mem::take(skip);
                self.mode = Mode::Line;
                self.start += skip.length;
                return self.too_long(*skip, offset).map(Err);
            }
        }
        self.mode = Mode::Given;
        self.start += self.partial.len() as u64;
        self.frame(&self.partial, offset)
    }

    fn capacity(&self) -> usize {
        self.partial.capacity()
    }

    fn trim(&mut self) {
        match self.mode {
            Mode::Given => {
                self.partial = Vec::new();
                self.mode = Mode::Line;
            }
            Mode::Line if self.partial.is_empty() => self.partial = Vec::new(),
            Mode::Line | Mode::Start(_) | Mode::Skip(_) => {}
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

impl Default for Skip {
    fn default() -> Self {
        Self { scan: Scan::default(), length: 0, blank: true, ends_in_cr: false }
    }
}

impl Skip {
    fn feed(&mut self, bytes: &[u8]) {
        self.scan.feed(bytes);
        self.blank = self.blank && is_blank(bytes);
        self.length += bytes.len() as u64;
        if let Some(last) = bytes.last() {
            self.ends_in_cr = *last == b'\r';
        }
    }
}
