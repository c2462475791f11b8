//! A pipe in memory, for tests and examples.

use std::io::{self, Read, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// Creates a pipe that holds at most `capacity` bytes. Writing blocks while the pipe is full, reading blocks while the
/// pipe is empty.
pub fn pipe(capacity: usize) -> (PipeReader, PipeWriter) {
    let shared = Arc::new(PipeShared { capacity: capacity.max(1), ..PipeShared::default() });
    (PipeReader(Arc::clone(&shared)), PipeWriter(shared))
}

/// The reading end of a pipe. After the writer is dropped and all bytes are read, reading returns 0 bytes.
#[derive(Debug)]
pub struct PipeReader(Arc<PipeShared>);

/// The writing end of a pipe. Writing fails after the reader is dropped.
#[derive(Debug)]
pub struct PipeWriter(Arc<PipeShared>);

#[derive(Debug, Default)]
struct PipeShared {
    state: Mutex<PipeState>,
    changed: Condvar,
    capacity: usize,
}

#[derive(Debug, Default)]
struct PipeState {
    bytes: Vec<u8>,
    writer_gone: bool,
    reader_gone: bool,
    /// Whether a call of `read` is waiting for bytes.
    reader_waits: bool,
}

impl PipeShared {
    fn lock(&self) -> MutexGuard<'_, PipeState> {
        // The state is valid even if a thread panicked while it held the lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes the thread at the other end of the pipe, and waits until `ready` returns true.
    fn wait_until<'a>(
        &'a self,
        mut state: MutexGuard<'a, PipeState>,
        ready: impl Fn(&PipeState) -> bool,
    ) -> MutexGuard<'a, PipeState> {
        self.changed.notify_all();
        while !ready(&state) {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state
    }
}

impl PipeWriter {
    /// Blocks until the reader is dropped, or has read all bytes and waits for more. A reader that waits for more has
    /// handled everything that was written so far.
    pub fn wait_until_idle(&self) {
        let state = self.0.lock();
        drop(self.0.wait_until(state, |state| state.reader_gone || (state.reader_waits && state.bytes.is_empty())));
    }
}

impl PipeReader {
    /// Returns the number of bytes that can be read without blocking.
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
