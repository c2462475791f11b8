//! Live bytes -> a `.wire` file that only its owner can read, without the secrets in it.
//!
//! [`CaptureWriter::create`] makes the file and writes its header; [`CaptureWriter::write`] redacts entries and writes them. Bytes
//! and events as they happen become entries in a [`Pipeline`](crate::pipeline::Pipeline), which records to a writer. HTTP is
//! recorded with a channel for each exchange: `Note::Head` for the lines of a head, and bytes for each body; both are redacted on
//! the way.

mod clock;
mod file;
mod writer;

pub use crate::secrets::Redactor;
pub use barewire_proto::transcript::{Bytes, Channel, End, Entry, Event, Framing, Header, Marks, Note, Stream};
pub use clock::CaptureClock;
pub use writer::{CaptureWriter, event};

/// A line of more bytes than this is written in pieces.
pub const PIECE: usize = 256 * 1024;
