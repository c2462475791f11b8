//! Captures, logs and live bytes -> the items on a wire, in order: frames, events, and lines of stderr.

mod capture;
mod frame;
mod source;
mod streams;

use barewire_proto::transcript::{Bytes, Event, Header, Note, Stream};

use crate::Error;

pub use capture::{FrameLimits, read_entries};
pub use frame::{FrameFacts, FramePosition, MessageResult, WireFrame};
pub use source::{Format, FrameReader};
pub use streams::Streams;

/// One item on a wire.
#[expect(clippy::exhaustive_enums, reason = "a transcript has no other kinds of lines")]
pub enum WireItem<'a> {
    /// The first line of a capture.
    Header(&'a Header),
    /// A frame.
    Frame(&'a WireFrame<'a>),
    /// A line that the server wrote to stderr.
    Stderr(&'a Bytes),
    /// The address that a stream of HTTP+SSE names for messages to it.
    Endpoint {
        /// The channel of the stream.
        channel: &'a str,
        /// The address.
        uri: &'a str,
    },
    /// An event.
    Event(&'a Event),
}

/// A consumer of the items on a wire.
pub trait Sink {
    /// Takes one item; `false` ends the reading.
    fn take(&mut self, item: &WireItem<'_>) -> Result<bool, Error>;

    /// Called when everything read so far was handed over.
    fn caught_up(&mut self) -> Result<(), Error> {
        Ok(())
    }

    /// Called when the file of this name was replaced: the next item is the first of the new file.
    fn restarted(&mut self, _name: &str) -> Result<(), Error> {
        Ok(())
    }
}

/// Returns the stream that an event ends.
pub fn ended_stream(note: &Note) -> Option<Stream> {
    match note {
        Note::Eof(stream) => Some(*stream),
        Note::Closed(closed) => Some(closed.stream()),
        Note::Cut { stream, .. } => Some(*stream),
        _ => None,
    }
}
