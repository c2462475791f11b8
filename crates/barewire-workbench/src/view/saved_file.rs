//! What an export writes -> a private file without a name, which is then sent: it can be as long as the capture.

use std::fs::File;
use std::io::{self, BufWriter, Write};

use bytes::Bytes;
use tokio::sync::mpsc;

use crate::platform;

/// A file to save, while it is written.
pub(super) enum SavedFile {
    File(BufWriter<File>),
    /// Where there are no files without a name.
    Memory(Vec<u8>),
}

/// The content of a file to save.
#[derive(Debug)]
#[non_exhaustive]
pub enum SavedContent {
    /// A file, and its length.
    File(File, u64),
    /// The bytes.
    Memory(Vec<u8>),
}

impl SavedFile {
    pub(super) fn create() -> Self {
        match platform::nameless_file() {
            Ok(file) => Self::File(BufWriter::with_capacity(PART, file)),
            Err(_) => Self::Memory(Vec::new()),
        }
    }

    pub(super) fn finish(self) -> io::Result<SavedContent> {
        Ok(match self {
            Self::File(writer) => {
                let file = writer.into_inner().map_err(io::IntoInnerError::into_error)?;
                let length = file.metadata()?.len();
                SavedContent::File(file, length)
            }
            Self::Memory(bytes) => SavedContent::Memory(bytes),
        })
    }
}

impl Write for SavedFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::File(file) => file.write(bytes),
            Self::Memory(memory) => memory.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::File(file) => file.flush(),
            Self::Memory(_) => Ok(()),
        }
    }
}

/// Sends a file in parts, until its reader is gone. Blocks.
pub(super) fn send_file(file: &File, length: u64, parts: &mpsc::Sender<Bytes>) {
    let mut at = 0;
    while at < length {
        let count = usize::try_from(length - at).unwrap_or(PART).min(PART);
        let mut part = vec![0; count];
        // The answer has announced its length, so its reader notices that the rest is missing.
        if platform::read_at(file, &mut part, at).is_err() || parts.blocking_send(Bytes::from(part)).is_err() {
            return;
        }
        at += count as u64;
    }
}

/// The number of bytes that are written and sent at once.
const PART: usize = 64 * 1024;
