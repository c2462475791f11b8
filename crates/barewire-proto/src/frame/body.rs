//! A stream that is one frame, from its first byte to its end: the body of an HTTP message that is no event stream.

use super::outline::Scan;
use super::{Codec, Frame, FrameError, hold, release};

/// The decoder of a body. A body of nothing but white space is no frame.
#[derive(Debug)]
pub struct Body {
    limit: usize,
    mode: Mode,
    /// What has come; in [`Mode::Given`], what the frame was borrowed from.
    held: Vec<u8>,
    /// Where what is being read began in the stream.
    start: u64,
}

#[derive(Debug)]
enum Mode {
    /// In the body.
    Body,
    /// Behind its end, with it still in `held`.
    Given,
    /// In a body that is too long, and is looked over instead of kept.
    Skip { scan: Box<Scan>, length: u64 },
}

impl Body {
    /// Bodies of at most `limit` bytes.
    pub fn new(limit: usize) -> Self {
        Self { limit, mode: Mode::Body, held: Vec::new(), start: 0 }
    }
}

impl Codec for Body {
    fn next_frame<'s, 'i: 's>(&'s mut self, input: &mut &'i [u8]) -> Option<Result<Frame<'s>, FrameError>> {
        let bytes = std::mem::take(input);
        self.trim_given();
        match &mut self.mode {
            Mode::Body if self.held.len() + bytes.len() > self.limit => {
                let mut scan = Box::<Scan>::default();
                scan.feed(&self.held);
                scan.feed(bytes);
                let length = (self.held.len() + bytes.len()) as u64;
                release(&mut self.held);
                self.mode = Mode::Skip { scan, length };
            }
            Mode::Body | Mode::Given => hold(&mut self.held, bytes, self.limit),
            Mode::Skip { scan, length } => {
                scan.feed(bytes);
                *length += bytes.len() as u64;
            }
        }
        None
    }

    fn finish(&mut self) -> Option<Result<Frame<'_>, FrameError>> {
        self.trim_given();
        let offset = self.start;
        match std::mem::replace(&mut self.mode, Mode::Given) {
            Mode::Skip { scan, length } => {
                self.start += length;
                Some(Err(scan.finish(offset, length, self.limit)))
            }
            Mode::Body | Mode::Given => {
                self.start += self.held.len() as u64;
                let blank = self.held.iter().all(u8::is_ascii_whitespace);
                (!blank).then_some(Ok(Frame { offset, bytes: &self.held, event: None }))
            }
        }
    }

    fn capacity(&self) -> usize {
        self.held.capacity()
    }

    fn trim(&mut self) {
        self.trim_given();
        if self.held.is_empty() {
            self.held = Vec::new();
        }
    }

    /// A body needs nothing around it.
    fn encode(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
        write(out);
    }
}

impl Body {
    fn trim_given(&mut self) {
        if let Mode::Given = self.mode {
            release(&mut self.held);
            self.mode = Mode::Body;
        }
    }
}
