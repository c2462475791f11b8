//! Captures, logs and live bytes -> what happened on a wire, in order: frames, events, and lines of stderr.

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

/// One thing that happened on a wire.
#[expect(clippy::exhaustive_enums, reason = "a transcript has no other kinds of lines")]
pub enum WireItem<'a> {
    /// The first line of a capture.
    Header(&'a Header),
    /// A frame.
    Frame(&'a WireFrame<'a>),
    /// A line that the server wrote to stderr.
    Stderr(&'a Bytes),
    /// The address that messages for a stream of HTTP+SSE are posted to, as the stream names it.
    Endpoint {
        /// The channel of the stream.
        channel: &'a str,
        /// The address.
        uri: &'a str,
    },
    /// An event.
    Event(&'a Event),
}

/// A consumer of what happened on a wire.
pub trait Sink {
    /// Takes one thing; `false` ends the reading.
    fn take(&mut self, item: &WireItem<'_>) -> Result<bool, Error>;

    /// Called when everything that has come so far was handed over.
    fn caught_up(&mut self) -> Result<(), Error> {
        Ok(())
    }

    /// Called when the file of this name was replaced: what comes next is the beginning of something else.
    fn restarted(&mut self, _name: &str) -> Result<(), Error> {
        Ok(())
    }
}

/// The stream that an event ends: nothing more comes of it, or is wanted, or is passed on.
pub fn ended(note: &Note) -> Option<Stream> {
    match note {
        Note::Eof(stream) => Some(*stream),
        Note::Closed(closed) => Some(closed.stream()),
        Note::Cut { stream, .. } => Some(*stream),
        _ => None,
    }
}
