//! Replaces the secrets in a stream of bytes.

use std::io::{self, Write};

use barewire_proto::transcript::{Channel, Entry, Event, Marks, Note, Recorder, Stream};

use super::Redactor;

/// A writer that replaces secrets, including those that span several writes or lines.
///
/// Text that may be the start of a secret is held back until more text is written; [`Self::finish`] writes the rest.
pub struct RedactingWriter<W> {
    to: W,
    redactor: Redactor,
    recorder: Recorder,
    entries: Vec<Entry>,
    redacted: Vec<Entry>,
}

impl<W: Write> RedactingWriter<W> {
    /// Creates a writer that passes everything through a redactor first.
    pub fn new(to: W, redactor: Redactor) -> Self {
        let recorder = Recorder::new(Stream::Stderr, Channel::default(), MAX_PIECE);
        Self { to, redactor, recorder, entries: Vec::new(), redacted: Vec::new() }
    }

    /// Writes the text that was held back, and returns the inner writer.
    pub fn finish(mut self) -> io::Result<W> {
        self.recorder.finish(None, &mut self.entries);
        let (channel, note, marks) = (Channel::default(), Note::Eof(Stream::Stderr), Marks::default());
        self.entries.push(Entry::Event(Event { channel, note, marks }));
        self.pass_on()?;
        Ok(self.to)
    }

    fn pass_on(&mut self) -> io::Result<()> {
        for entry in self.entries.drain(..) {
            self.redactor.entry(entry, &mut self.redacted);
        }
        for entry in self.redacted.drain(..) {
            if let Entry::Bytes(bytes) = entry {
                self.to.write_all(&bytes.payload)?;
                self.to.write_all(bytes.end.as_bytes())?;
            }
        }
        Ok(())
    }
}

impl<W: Write> Write for RedactingWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.recorder.push(bytes, None, &mut self.entries);
        self.pass_on()?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

/// The maximum size of a piece: longer lines are redacted in pieces of this many bytes.
const MAX_PIECE: usize = 256 * 1024;
