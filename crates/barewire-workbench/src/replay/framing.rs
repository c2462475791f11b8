//! Splits the bytes of a stream into frames, and turns messages into frames, in the framing of a script.

use barewire_proto::frame::{Codec, ContentLength, Frame, FrameError, Lines};
use barewire_proto::transcript::Framing;

/// Splits the bytes from the peer into frames.
pub(super) enum StreamDecoder {
    Lines(Lines),
    ContentLength(ContentLength),
}

impl StreamDecoder {
    pub(super) fn new(framing: Framing, max_frame: usize) -> Self {
        match framing {
            Framing::ContentLength => Self::ContentLength(ContentLength::new(max_frame)),
            _ => Self::Lines(Lines::new(max_frame)),
        }
    }

    /// Calls `each` with every complete frame.
    pub(super) fn push(&mut self, mut bytes: &[u8], each: &mut dyn FnMut(Result<Frame<'_>, FrameError>)) {
        while self.push_until_frame(&mut bytes, each) {}
    }

    /// Removes bytes from the input up to the end of the next complete frame, and calls `each` with that frame. Without
    /// a complete frame, removes all bytes, and returns `false`.
    pub(super) fn push_until_frame(
        &mut self,
        input: &mut &[u8],
        each: &mut dyn FnMut(Result<Frame<'_>, FrameError>),
    ) -> bool {
        let frame = match self {
            Self::Lines(codec) => codec.next_frame(input),
            Self::ContentLength(codec) => codec.next_frame(input),
        };
        frame.map(each).is_some()
    }

    /// Calls `each` with the frames that are complete because the stream has ended.
    pub(super) fn finish(&mut self, each: &mut dyn FnMut(Result<Frame<'_>, FrameError>)) {
        while let Some(frame) = match self {
            Self::Lines(codec) => codec.finish(),
            Self::ContentLength(codec) => codec.finish(),
        } {
            each(frame);
        }
    }
}

pub(super) fn framed(framing: Framing, text: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    match framing {
        Framing::ContentLength => ContentLength::encode(&mut out, |out| out.extend_from_slice(text)),
        Framing::Body => out.extend_from_slice(text),
        // In JSON, a line break outside strings has the same meaning as a space, and strings contain no line breaks.
        _ => Lines::encode(&mut out, |out| {
            out.extend(text.iter().map(|byte| if matches!(byte, b'\n' | b'\r') { b' ' } else { *byte }));
        }),
    }
    out
}
