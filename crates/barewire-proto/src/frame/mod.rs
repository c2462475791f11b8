//! Bytes <-> frames: four codecs that find where one message ends and the next begins.
//!
//! | codec | a frame is | used by |
//! |---|---|---|
//! | [`Lines`] | a line | MCP on stdio and sockets |
//! | [`Sse`] | the data of a server-sent event | MCP over HTTP |
//! | [`Body`] | the whole stream | MCP over HTTP |
//! | [`ContentLength`] | a body, after headers that state its length | the Language Server Protocol |
//!
//! A decoder receives the bytes of each read and returns the frames that are complete. A line or body that lies
//! entirely within one read is borrowed from the input; only an unfinished line or body is copied into the decoder. The
//! frames do not depend on how the stream was cut into reads.

mod body;
mod content_length;
mod lines;
mod outline;
mod sse;

use std::fmt;

pub use body::Body;
pub use content_length::{ContentLength, HeaderFault};
pub use lines::Lines;
pub use outline::{Outline, OutlineMember};
pub use sse::{Sse, SseEvent, sse_comment, sse_event, sse_retry};

/// A framing: decodes a byte stream into frames, and encodes messages as frames.
pub trait Codec {
    /// Consumes bytes from the front of `input` up to the end of a frame, and returns the frame.
    ///
    /// `None` means that all of `input` was consumed and no frame is complete: call again with more bytes. `Some(Err)`
    /// means that this frame is lost; the next call continues after it.
    fn next_frame<'s, 'i: 's>(&'s mut self, input: &mut &'i [u8]) -> Option<Result<Frame<'s>, FrameError>>;

    /// Ends the stream. Returns the frame that the end of the stream completes, or an error if the stream ended inside
    /// a frame. Further calls return `None`.
    fn finish(&mut self) -> Option<Result<Frame<'_>, FrameError>>;

    /// Returns the memory that the decoder holds, in bytes: for an unfinished frame, for the last returned frame, or
    /// kept for the next frame.
    fn capacity(&self) -> usize;

    /// Frees memory that no unfinished frame needs, including the memory of the last frame returned.
    fn trim(&mut self);

    /// Appends one message as a frame: `write` appends the message, the codec adds the framing around it.
    fn encode(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>));
}

/// The bytes of one message and their position in the stream, borrowed from the input or from the decoder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Frame<'a> {
    /// The offset in the stream of the first byte of the message; for an SSE event, of its first field.
    pub offset: u64,
    /// The message, without its framing.
    pub bytes: &'a [u8],
    /// The type and id of an SSE event. `None` for the other framings.
    pub event: Option<SseEvent<'a>>,
}

impl<'a> Frame<'a> {
    /// Creates a frame that is not an SSE event.
    #[inline]
    pub const fn new(offset: u64, bytes: &'a [u8]) -> Self {
        Self { offset, bytes, event: None }
    }
}

setters! { Frame<'a> { event: Option<SseEvent<'a>> } }

/// An error that the decoder returns in place of a frame.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum FrameError {
    /// The frame is longer than the limit. It was skipped, and scanned for its id and method while it was skipped.
    TooLong(Box<TooLong>),
    /// The headers do not state the length of the body. The stream is skipped up to the next `Content-Length:`.
    BadHeader {
        /// The offset of the header block in the stream.
        offset: u64,
        /// The fault in the header block.
        fault: HeaderFault,
    },
    /// The stream ended inside a frame.
    Truncated {
        /// The offset of the frame in the stream.
        offset: u64,
    },
}

/// A frame that was skipped because it is too long.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TooLong {
    /// The offset in the stream at which the frame begins.
    pub offset: u64,
    /// The length of the frame in bytes.
    pub length: u64,
    /// The maximum length that the frame exceeds, in bytes.
    pub limit: usize,
    /// The id and method of the message, for the error response to its sender.
    pub outline: Outline,
    /// The first bytes of the frame, at most 80, for the log.
    pub prefix: Box<[u8]>,
}

impl FrameError {
    /// Returns the first bytes of the frame, or an empty slice if they were not kept.
    pub fn prefix(&self) -> &[u8] {
        match self {
            Self::TooLong(too_long) => &too_long.prefix,
            Self::BadHeader { .. } | Self::Truncated { .. } => b"",
        }
    }

    /// Returns the offset in the stream at which the frame begins.
    pub fn offset(&self) -> u64 {
        match self {
            Self::TooLong(too_long) => too_long.offset,
            Self::BadHeader { offset, .. } | Self::Truncated { offset } => *offset,
        }
    }
}

impl fmt::Display for FrameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLong(long) => {
                write!(f, "frame of {} bytes is longer than the limit of {} bytes", long.length, long.limit)
            }
            Self::BadHeader { fault, .. } => fault.fmt(f),
            Self::Truncated { .. } => f.write_str("the stream ended inside a frame"),
        }
    }
}

impl std::error::Error for FrameError {}

/// The error for a value that an SSE field cannot hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum EncodeError {
    /// The value contains a line break, which would end the field; the rest would be read as another field.
    LineBreak {
        /// The name of the field.
        field: &'static str,
    },
    /// The event id contains a NUL. Receivers must ignore such an id.
    Nul,
}

impl fmt::Display for EncodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LineBreak { field } => write!(f, "line break in the SSE field {field}"),
            Self::Nul => f.write_str("NUL in the SSE field id"),
        }
    }
}

impl std::error::Error for EncodeError {}

/// The default maximum length of a frame, in bytes. It is large enough for a file of 45 MiB in Base64, and larger than
/// the buffers of the official SDKs.
pub const DEFAULT_LIMIT: usize = 64 * 1024 * 1024;

/// The maximum capacity, in bytes, that a buffer keeps for the next message. A larger buffer is freed as soon as it is
/// empty. This capacity is enough for a message of 1 MiB, whose buffer can be twice as large because buffers grow by
/// doubling.
pub const MAX_KEPT_CAPACITY: usize = 2 * 1024 * 1024 + 1024;

/// The byte order mark, U+FEFF in UTF-8: some editors and shells write it at the start of a stream.
const BOM: &[u8] = b"\xef\xbb\xbf";

/// Appends `more` to `buffer`. A full buffer doubles its capacity, but not beyond `limit`, unless the bytes need more.
fn append_bounded(buffer: &mut Vec<u8>, more: &[u8], limit: usize) {
    let needed = buffer.len() + more.len();
    if needed > buffer.capacity() {
        let doubled = (buffer.capacity() * 2).min(limit).max(needed);
        buffer.reserve_exact(doubled - buffer.len());
    }
    buffer.extend_from_slice(more);
}

/// Clears `buffer`, and frees its memory if it has grown beyond [`MAX_KEPT_CAPACITY`].
fn release(buffer: &mut Vec<u8>) {
    if buffer.capacity() > MAX_KEPT_CAPACITY {
        *buffer = Vec::new();
    } else {
        buffer.clear();
    }
}
