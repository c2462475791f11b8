//! The output of a blocking connection: messages are gathered and written together.

use std::io::{self, Write};

use barewire_proto::frame::{Codec, Lines, MAX_KEPT_CAPACITY};

/// The writing half of a connection.
#[derive(Debug)]
pub(super) struct MessageWriter<W> {
    writer: W,
    waiting: Vec<u8>,
}

impl<W: Write> MessageWriter<W> {
    pub(super) fn new(writer: W) -> Self {
        Self { writer, waiting: Vec::new() }
    }

    /// Adds one message. The message is written at the next flush, or immediately if at least 64 KiB are waiting.
    pub(super) fn message(&mut self, write: impl FnOnce(&mut Vec<u8>)) -> io::Result<()> {
        Lines::encode(&mut self.waiting, write);
        if self.waiting.len() >= FLUSH_SIZE { self.flush() } else { Ok(()) }
    }

    /// Writes all waiting messages.
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

/// The number of waiting bytes that triggers a write: the default capacity of a pipe on Linux. Writing many answers
/// together saves system calls.
const FLUSH_SIZE: usize = 64 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_written_together_when_they_reach_64_kib() {
        let mut output = MessageWriter::new(Vec::new());
        let message = [b'x'; 1023];
        for _ in 0..63 {
            output.message(|out| out.extend_from_slice(&message)).expect("memory");
        }
        assert_eq!(output.writer.len(), 0, "63 KiB wait");
        output.message(|out| out.extend_from_slice(&message)).expect("memory");
        assert_eq!((output.writer.len(), output.waiting.len()), (64 * 1024, 0));
    }
}
