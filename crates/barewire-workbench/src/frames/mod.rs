//! Files, transcripts and live bytes -> what went over a wire, in order: frames, events, and what was said on stderr.

mod capture;
mod frame;
mod source;
mod streams;

use barewire_proto::transcript::{Bytes, Event, Header, Note, Stream};

use crate::Error;

pub use capture::{FrameLimits, entries};
pub use frame::{FrameFacts, FramePosition, MessageResult, WireFrame};
pub use source::{Format, Reading};
pub use streams::Streams;

/// One thing that is told of a wire.
pub enum WireItem<'a> {
    /// The first line of a capture.
    Header(&'a Header),
    /// A frame, judged.
    Frame(&'a WireFrame<'a>),
    /// A line that the server wrote to stderr.
    Stderr(&'a Bytes),
    /// A stream of HTTP+SSE says where messages for it are to be posted.
    Endpoint { channel: &'a str, uri: &'a str },
    /// Something else that happened.
    Event(&'a Event),
}

/// Whoever is told.
pub trait Sink {
    /// Takes one thing; `false` if that is enough.
    fn take(&mut self, sight: &WireItem<'_>) -> Result<bool, Error>;

    /// All that has come so far is told: whoever looks on should see it.
    fn rest(&mut self) -> Result<(), Error> {
        Ok(())
    }

    /// What was told so far is over: something else stands in the file of this name now.
    fn anew(&mut self, _name: &str) -> Result<(), Error> {
        Ok(())
    }
}

/// The stream of which nothing more comes, if that is what is noted: it has ended, or what is left of it was not wanted or not
/// passed on.
pub fn ended(note: &Note) -> Option<Stream> {
    match note {
        Note::Eof(stream) => Some(*stream),
        Note::Closed(closed) => Some(closed.stream()),
        Note::Cut { stream, .. } => Some(*stream),
        _ => None,
    }
}
