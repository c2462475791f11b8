//! The framing of an HTTP body that is not an event stream: the whole stream, up to its end, is one frame.

use super::outline::OutlineScanner;
use super::{Codec, Frame, FrameError, append_bounded, release};

/// The decoder for an HTTP body. A body that holds only white space yields no frame.
#[derive(Debug)]
pub struct Body {
    limit: usize,
    state: BodyState,
    /// The bytes received so far; in [`BodyState::Delivered`], the frame that was returned.
    buffer: Vec<u8>,
    /// The offset in the stream at which the current body begins.
    start: u64,
}

#[derive(Debug)]
enum BodyState {
    /// Reading the body.
    Body,
    /// The body is complete and was returned. Its bytes are still in `buffer`.
    Delivered,
    /// Reading a body that is too long. Its bytes are scanned for the id and method of the message, but not kept.
    Skip { scan: Box<OutlineScanner>, length: u64 },
}

impl Body {
    /// Creates a decoder for bodies of at most `limit` bytes.
    pub fn new(limit: usize) -> Self {
        Self { limit, state: BodyState::Body, buffer: Vec::new(), start: 0 }
    }
}

impl Codec for Body {
    fn next_frame<'s, 'i: 's>(&'s mut self, input: &mut &'i [u8]) -> Option<Result<Frame<'s>, FrameError>> {
        let bytes = std::mem::take(input);
        self.release_delivered();
        match &mut self.state {
            BodyState::Body if self.buffer.len() + bytes.len() > self.limit => {
                let mut scan = Box::<OutlineScanner>::default();
                scan.feed(&self.buffer);
                scan.feed(bytes);
                let length = (self.buffer.len() + bytes.len()) as u64;
                release(&mut self.buffer);
                self.state = BodyState::Skip { scan, length };
            }
            BodyState::Body | BodyState::Delivered => append_bounded(&mut self.buffer, bytes, self.limit),
            BodyState::Skip { scan, length } => {
                scan.feed(bytes);
                *length += bytes.len() as u64;
            }
        }
        None
    }

    fn finish(&mut self) -> Option<Result<Frame<'_>, FrameError>> {
        self.release_delivered();
        let offset = self.start;
        match std::mem::replace(&mut self.state, BodyState::Delivered) {
            BodyState::Skip { scan, length } => {
                self.start += length;
                Some(Err(scan.finish(offset, length, self.limit)))
            }
            BodyState::Body | BodyState::Delivered => {
                self.start += self.buffer.len() as u64;
                let blank = self.buffer.iter().all(u8::is_ascii_whitespace);
                (!blank).then_some(Ok(Frame { offset, bytes: &self.buffer, event: None }))
            }
        }
    }

    fn capacity(&self) -> usize {
        self.buffer.capacity()
    }

    fn trim(&mut self) {
        self.release_delivered();
        if self.buffer.is_empty() {
            self.buffer = Vec::new();
        }
    }

    /// Appends only the message, because a body has no framing around it.
    fn encode(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
        write(out);
    }
}

impl Body {
    fn release_delivered(&mut self) {
        if let BodyState::Delivered = self.state {
            release(&mut self.buffer);
            self.state = BodyState::Body;
        }
    }
}
