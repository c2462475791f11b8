//! Live bytes -> a `.wire` file that only its owner can read, without the secrets in it.
//!
//! How it is used: [`CaptureWriter::create`] makes the file and writes its header; bytes of a stream go through a
//! [`Recorder`](barewire_proto::transcript::Recorder) with [`PIECE`] as its limit, which makes entries of them; entries go to
//! [`Capture::write`], which redacts and writes them. What could not be written becomes a gap. Who wants to judge what goes over the wire does so before
//! the entries are handed over. HTTP is written down with a channel for each exchange: `Note::Head` for the lines of a head, and a
//! `Recorder` for each body; both are redacted on the way.

mod clock;
mod file;
mod writer;

pub use crate::secrets::Redactor;
pub use clock::CaptureClock;
pub use writer::{CaptureWriter, event};

/// A line of more bytes than this is written in pieces.
pub const PIECE: usize = 256 * 1024;
