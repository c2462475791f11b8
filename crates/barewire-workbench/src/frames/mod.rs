//! Reads captures, logs, HAR files and live bytes as a sequence of items: frames, events, and lines of stderr.

mod capture;
mod frame;
mod har;
mod host_log;
mod import;
mod json_text;
mod kind;
mod process_end;
mod recognize;
mod source;
mod streams;
mod text_lines;
mod timestamp;

use barewire_proto::transcript::{Bytes, Event, Header, Note, Stream};

use crate::Error;

pub use capture::{FrameLimits, read_entries};
pub use frame::{FrameFacts, FramePosition, MessageResult, WireFrame};
pub use import::EntryFilter;
pub use kind::FrameKind;
pub use process_end::ExitStatus;
pub(crate) use process_end::RecordedEnd;
pub use recognize::recognize_file;
pub use source::{Format, FrameReader, ReadNotice};
pub use streams::Streams;
pub(crate) use timestamp::started_nanos;

/// One item in a capture or on a live connection.
#[expect(clippy::exhaustive_enums, reason = "a transcript has no other kinds of lines")]
pub enum WireItem<'a> {
    /// The first line of a capture.
    Header(&'a Header),
    /// A frame.
    Frame(&'a WireFrame<'a>),
    /// A line that the server wrote to stderr.
    Stderr(&'a Bytes),
    /// The address for messages that a stream of HTTP+SSE announces in its `endpoint` event.
    Endpoint {
        /// The channel of the stream.
        channel: &'a str,
        /// The announced address.
        uri: &'a str,
    },
    /// An event.
    Event(&'a Event),
}

/// A consumer of items.
pub trait Sink {
    /// Takes one item. Returns `false` to stop the reading.
    fn take(&mut self, item: &WireItem<'_>) -> Result<bool, Error>;

    /// Called after all items that were read so far were taken.
    fn caught_up(&mut self) -> Result<(), Error> {
        Ok(())
    }

    /// Called with the number of bytes of the file that were read so far. HAR files are not read in order.
    fn read_so_far(&mut self, _bytes: u64) {}

    /// Called when the file with this name was replaced: the next item is the first of the new file.
    fn restarted(&mut self, _name: &str) -> Result<(), Error> {
        Ok(())
    }
}

/// Returns the stream that ended, if the event reports the end of a stream.
pub fn ended_stream(note: &Note) -> Option<Stream> {
    match note {
        Note::Eof(stream) => Some(*stream),
        Note::Closed(closed) => Some(closed.stream()),
        Note::Cut { stream, .. } => Some(*stream),
        _ => None,
    }
}
