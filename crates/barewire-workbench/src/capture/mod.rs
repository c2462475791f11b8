//! Writes live bytes to a `.wire` file, without secrets and readable only by its owner.
//!
//! [`CaptureWriter::create`] creates the file and writes its header; [`CaptureWriter::write`] redacts entries and
//! writes them. A [`Pipeline`](crate::pipeline::Pipeline) turns live bytes and events into entries and passes them to a
//! writer. HTTP is recorded with one channel for each exchange: a `Note::Head` for each line of a head, and bytes for
//! each body. Both are redacted.

mod clock;
mod file;
mod writer;

pub use crate::secrets::Redactor;
pub use barewire_proto::transcript::{Bytes, Channel, End, Entry, Event, Framing, Header, Marks, Note, Stream};
pub use clock::CaptureClock;
pub(crate) use clock::rfc_3339;
pub use file::ExistingCapture;
pub use writer::{CaptureWriter, event};

/// A line of a stream that is longer than this many bytes is recorded in pieces of this size.
pub const PIECE: usize = 256 * 1024;
