//! The texts of frames -> a private file without a name, and back.
//!
//! A capture that changes while it is shown does no harm, a live connection is treated like a file, and frames of any
//! length take no memory.

use std::fs::File;
use std::io;
use std::sync::{Mutex, PoisonError};

use crate::platform;

/// The place of a text in a [`Spool`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) at: u64,
    pub(crate) length: u32,
}

impl Span {
    /// The place of a text that was not kept.
    pub(crate) const NONE: Self = Self { at: u64::MAX, length: 0 };

    /// Whether the text was kept.
    pub(crate) fn is_kept(self) -> bool {
        self.at != u64::MAX
    }

    /// Returns the place of a part of the text.
    pub(crate) fn part(self, at: usize, length: usize) -> Self {
        let length = u32::try_from(length).unwrap_or(u32::MAX);
        if self.is_kept() { Self { at: self.at + at as u64, length } } else { Self::NONE }
    }
}

/// A file that keeps texts.
pub(crate) struct Spool {
    file: Option<File>,
    state: Mutex<SpoolState>,
}

struct SpoolState {
    /// The number of bytes in the file.
    written: u64,
    /// The bytes that are not in the file yet.
    pending: Vec<u8>,
    /// Why nothing is kept any more.
    failure: Option<String>,
}

impl Spool {
    /// Creates the file. Without one, nothing is kept, and [`Self::failure`] says why.
    pub(crate) fn create() -> Self {
        let (file, failure) = match platform::nameless_file() {
            Ok(file) => (Some(file), None),
            Err(error) => (None, Some(format!("the texts of frames cannot be kept: {error}"))),
        };
        Self { file, state: Mutex::new(SpoolState { written: 0, pending: Vec::new(), failure }) }
    }

    /// Keeps a text, and returns its place.
    pub(crate) fn add(&self, text: &[u8]) -> Span {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let (Some(file), Ok(length)) = (&self.file, u32::try_from(text.len())) else { return Span::NONE };
        if state.failure.is_some() {
            return Span::NONE;
        }
        let at = state.written + state.pending.len() as u64;
        state.pending.extend_from_slice(text);
        if state.pending.len() >= BUFFER
            && let Err(error) = state.flush(file)
        {
            // What was written so far stays readable.
            state.pending = Vec::new();
            state.failure = Some(format!("the texts of later frames are not kept: {error}"));
            return Span::NONE;
        }
        Span { at, length }
    }

    /// Returns a part of a text: at most `most` bytes from `from` on. Empty if the text was not kept.
    pub(crate) fn read(&self, span: Span, from: usize, most: usize) -> Vec<u8> {
        let length = (span.length as usize).saturating_sub(from).min(most);
        let at = span.at.saturating_add(from as u64);
        if !span.is_kept() || length == 0 {
            return Vec::new();
        }
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let written = state.written;
        let in_memory = |at: u64| usize::try_from(at.saturating_sub(written)).unwrap_or(usize::MAX);
        let (start, end) = (in_memory(at), in_memory(at.saturating_add(length as u64)));
        let tail = state.pending.get(start..end).unwrap_or_default().to_vec();
        drop(state);
        let Some(file) = &self.file else { return Vec::new() };
        let mut text = vec![0; length - tail.len().min(length)];
        if platform::read_at(file, &mut text, at).is_err() {
            return Vec::new();
        }
        text.extend_from_slice(&tail);
        text
    }

    /// Returns the whole text.
    pub(crate) fn whole(&self, span: Span) -> Vec<u8> {
        self.read(span, 0, usize::MAX)
    }

    /// Returns why texts are not kept any more.
    pub(crate) fn failure(&self) -> Option<String> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).failure.clone()
    }
}

impl SpoolState {
    fn flush(&mut self, file: &File) -> io::Result<()> {
        platform::write_at(file, &self.pending, self.written)?;
        self.written += self.pending.len() as u64;
        self.pending.clear();
        self.pending.shrink_to(2 * BUFFER);
        Ok(())
    }
}

/// The number of bytes that are written at once.
const BUFFER: usize = 256 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_read_from_the_file_and_from_memory() {
        let spool = Spool::create();
        let long = vec![b'x'; BUFFER - 3];
        let (a, b, c) = (spool.add(&long), spool.add(b"abcdef"), spool.add(b"ghi"));
        assert_eq!(spool.whole(a), long);
        assert_eq!(spool.read(b, 1, 3), b"bcd");
        assert_eq!(spool.whole(c), b"ghi");
        assert_eq!(spool.whole(b.part(2, 2)), b"cd");
        assert_eq!(spool.read(c, 3, 10), b"");
        assert_eq!(spool.whole(Span::NONE), b"");
        assert_eq!(spool.failure(), None);
    }
}
