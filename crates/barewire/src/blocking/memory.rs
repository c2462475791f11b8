//! A pipe in memory: what is written at one end is read at the other. For tests and demonstrations.

use std::io::{self, Read, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// A pipe that holds at most `capacity` bytes; a writer waits for room and a reader for bytes.
pub fn pipe(capacity: usize) -> (PipeReader, PipeWriter) {
    let shared = Arc::new(Shared { capacity: capacity.max(1), ..Shared::default() });
    (PipeReader(Arc::clone(&shared)), PipeWriter(shared))
}

/// The end to read from. At the end of the stream once the writer is dropped and all is read.
#[derive(Debug)]
pub struct PipeReader(Arc<Shared>);

/// The end to write to. Broken once the reader is dropped.
#[derive(Debug)]
pub struct PipeWriter(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    capacity: usize,
}

#[derive(Debug, Default)]
struct State {
    bytes: Vec<u8>,
    writer_gone: bool,
    reader_gone: bool,
    /// The reader has taken everything and waits for more.
    reader_waits: bool,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // A thread that panicked with the lock held has left whole bytes behind: there is no half of one.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells the other end that something has changed, and waits until `ready`.
    fn wait_until<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
        ready: impl Fn(&State) -> bool,
    ) -> MutexGuard<'a, State> {
        self.changed.notify_all();
        while !ready(&state) {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state
    }
}

impl PipeWriter {
    /// Waits until the reader has taken all that was written and has come back for more, or is gone: then it is done with it.
    pub fn wait_until_idle(&self) {
        let state = self.0.lock();
        drop(self.0.wait_until(state, |state| state.reader_gone || (state.reader_waits && state.bytes.is_empty())));
    }
}

impl PipeReader {
    /// How many bytes can be read without waiting.
    pub fn available(&self) -> usize {
        self.0.lock().bytes.len()
    }
}

impl Read for PipeReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut state = self.0.lock();
        state.reader_waits = true;
        state = self.0.wait_until(state, |state| !state.bytes.is_empty() || state.writer_gone);
        state.reader_waits = false;
        let count = buffer.len().min(state.bytes.len());
        buffer[..count].copy_from_slice(&state.bytes[..count]);
        state.bytes.drain(..count);
        self.0.changed.notify_all();
        Ok(count)
    }
}

impl Write for PipeWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let state = self.0.lock();
        let mut state = self.0.wait_until(state, |state| state.bytes.len() < self.0.capacity || state.reader_gone);
        if state.reader_gone {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        let count = bytes.len().min(self.0.capacity - state.bytes.len());
        state.bytes.extend_from_slice(&bytes[..count]);
        self.0.changed.notify_all();
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for PipeReader {
    fn drop(&mut self) {
        self.0.lock().reader_gone = true;
        self.0.changed.notify_all();
    }
}

impl Drop for PipeWriter {
    fn drop(&mut self) {
        self.0.lock().writer_gone = true;
        self.0.changed.notify_all();
    }
}
