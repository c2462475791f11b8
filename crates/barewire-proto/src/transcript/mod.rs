//! `.wire` text <-> entries: a transcript of a connection, one frame per line, for people, diffs, captures and tests.
//!
//! `docs/wire-format.md` describes the format. Every byte stream can be recorded and restored exactly, even if it is
//! not UTF-8: see [`Recorder`] and [`restore`].

mod entry;
mod note;
mod note_text;
mod read;
mod record;
mod write;

pub use crate::escape::{escape, is_clean};
pub use crate::safe_text::{EscapeWriter, Escaped, SafeText};
pub use entry::{Bytes, Channel, End, Entry, Event, Framing, Header, Marks, Stream, Truncated, Word};
pub use note::{CutReason, InjectedFault, Note, Party, StreamClose, UnknownNote, UnreadReason};
pub use read::{WireError, WireFault, read, read_line};
pub use record::{Recorder, RestoreError, restore};

/// The version of the format that this crate writes, and the newest that it reads.
pub const VERSION: u32 = 1;
