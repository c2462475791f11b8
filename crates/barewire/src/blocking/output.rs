//! Messages on their way out, gathered until it is time to write.

use std::io::{self, Write};

use barewire_proto::frame::{Codec, Lines, MAX_KEPT_CAPACITY};

/// The writing half of a connection.
#[derive(Debug)]
pub(super) struct Output<W> {
    writer: W,
    waiting: Vec<u8>,
}

impl<W: Write> Output<W> {
    pub(super) fn new(writer: W) -> Self {
        Self { writer, waiting: Vec::new() }
    }

    /// Adds one message. It is written at the next flush, or now if much is waiting.
    pub(super) fn message(&mut self, write: impl FnOnce(&mut Vec<u8>)) -> io::Result<()> {
        Lines::encode(&mut self.waiting, write);
        if self.waiting.len() >= MUCH { self.flush() } else { Ok(()) }
    }

    /// Writes all that waits.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        if self.waiting.is_empty() {
            return Ok(());
        }
        let written = self.writer.write_all(&self.waiting).and_then(|()| self.writer.flush());
        self.waiting.clear();
        if self.waiting.capacity() > MAX_KEPT_CAPACITY {
            self.waiting = Vec::new();
        }
        written
    }
}

/// Half of a pipe's default capacity on Linux would do; a whole one saves a system call for a burst of answers.
const MUCH: usize = 64 * 1024;
