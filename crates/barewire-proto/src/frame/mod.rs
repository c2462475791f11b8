//! Bytes <-> frames: where one message ends and the next prefix, for four ways of saying so.
//!
//! | codec | a frame is | used by |
//! |---|---|---|
//! | [`Lines`] | a line | MCP on stdio and sockets |
//! | [`Sse`] | the data of a server-sent event | MCP over HTTP |
//! | [`Body`] | the whole stream | MCP over HTTP |
//! | [`ContentLength`] | a counted body behind headers | the Language Server Protocol |
//!
//! A decoder is handed the bytes of each read and gives out the frames that are complete. A line or body that lies whole
//! in the bytes of one read is borrowed from there; only an unfinished one is copied, into the decoder. However the
//! stream is cut into reads, the frames are the same.

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

/// One way of cutting a byte stream into frames, and of putting frames on a byte stream.
pub trait Codec {
    /// Takes bytes from the front of `input` up to the end of a frame.
    ///
    /// `None`: all of `input` is taken and the decoder keeps what it needs of it; come back with more. `Some(Err)`: this
    /// frame is lost, the next call says what follows it.
    fn next_frame<'s, 'i: 's>(&'s mut self, input: &mut &'i [u8]) -> Option<Result<Frame<'s>, FrameError>>;

    /// The stream has ended: the frame that its end completes, or that it broke off. Then `None`.
    fn finish(&mut self) -> Option<Result<Frame<'_>, FrameError>>;

    /// How much memory the decoder holds: for an unfinished frame, for the one it gave out last, or for the next.
    fn capacity(&self) -> usize;

    /// Gives back memory that no unfinished frame needs, the frame that was given out last included.
    fn trim(&mut self);

    /// Puts one message on the wire: `write` appends it to what it is given, the codec adds what makes it a frame.
    fn encode(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>));
}

/// A frame: the bytes of one message, and where in the stream they stand. Borrowed from the input or from the decoder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Frame<'a> {
    /// Where the first of `bytes` stands in the stream; of an SSE event, where its first field does.
    pub offset: u64,
    /// The message, without what framed it.
    pub bytes: &'a [u8],
    /// What an SSE event says besides its data.
    pub event: Option<SseEvent<'a>>,
}

impl<'a> Frame<'a> {
    /// A frame that is its bytes and no more.
    #[inline]
    pub const fn new(offset: u64, bytes: &'a [u8]) -> Self {
        Self { offset, bytes, event: None }
    }
}

setters! { Frame<'a> { event: Option<SseEvent<'a>> } }

/// A frame that could not be given out.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum FrameError {
    /// Longer than the limit. It was skipped, and looked over on the way.
    TooLong(Box<TooLong>),
    /// Headers that do not say how long the body is. Skipped up to the next `Content-Length:`.
    BadHeader {
        /// Where the header block began in the stream.
        offset: u64,
        /// What is wrong with it.
        fault: HeaderFault,
    },
    /// The stream ended inside a frame.
    Truncated {
        /// Where the frame began in the stream.
        offset: u64,
    },
}

/// What is known of a frame that was skipped because of its length.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TooLong {
    /// Where the frame began in the stream.
    pub offset: u64,
    /// Its length in bytes.
    pub length: u64,
    /// The limit it broke.
    pub limit: usize,
    /// What it was, as far as its sender needs an answer.
    pub outline: Outline,
    /// Its first bytes, at most 80, for the log.
    pub prefix: Box<[u8]>,
}

impl FrameError {
    /// How the frame began, as far as that is known.
    pub fn prefix(&self) -> &[u8] {
        match self {
            Self::TooLong(too_long) => &too_long.prefix,
            Self::BadHeader { .. } | Self::Truncated { .. } => b"",
        }
    }

    /// Where the frame began in the stream.
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
            Self::TooLong(long) => write!(f, "frame of {} bytes is longer than {}", long.length, long.limit),
            Self::BadHeader { fault, .. } => fault.fmt(f),
            Self::Truncated { .. } => f.write_str("the stream ended inside a frame"),
        }
    }
}

impl std::error::Error for FrameError {}

/// What no SSE field can hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum EncodeError {
    /// A line break in the named SSE field would end the field, and what follows would be read as another.
    LineBreak {
        /// The field.
        field: &'static str,
    },
    /// An event id with a NUL in it is ignored by every receiver.
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

/// The default limit of a frame. A file of 45 MiB still fits as Base64, and the official SDKs' buffers end below it.
pub const DEFAULT_LIMIT: usize = 64 * 1024 * 1024;

/// What a buffer keeps for the next message while it is used; one that has held more gives the memory back at once. Half of it
/// holds a message of a mebibyte, and what holds that grows by doubling.
pub const MAX_KEPT_CAPACITY: usize = 2 * 1024 * 1024 + 1024;

/// U+FEFF in UTF-8: some editors and shells put it before the first byte of a stream.
const BOM: &[u8] = b"\xef\xbb\xbf";

/// Appends `more` to `held`, doubling its room but never beyond what `limit` lets it hold.
fn hold(held: &mut Vec<u8>, more: &[u8], limit: usize) {
    let needed = held.len() + more.len();
    if needed > held.capacity() {
        let doubled = (held.capacity() * 2).min(limit).max(needed);
        held.reserve_exact(doubled - held.len());
    }
    held.extend_from_slice(more);
}

/// Empties `held`, and lets go of its memory if that was for one large frame.
fn release(held: &mut Vec<u8>) {
    if held.capacity() > MAX_KEPT_CAPACITY {
        *held = Vec::new();
    } else {
        held.clear();
    }
}
