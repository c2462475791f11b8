//! Threads that read and write files, terminals and anything else that the runtime cannot poll.
//!
//! These threads are not part of the runtime's blocking pool, because a read that never returns, such as from a
//! terminal, would block the runtime's shutdown.

use std::fs::File;
use std::io::{self, Read, Write};
use std::mem;
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker, ready};
use std::thread;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::mpsc;

use crate::platform::{wait_readable, wait_writable};

/// Reads a file on its own thread, which reads ahead by at most two chunks.
#[derive(Debug)]
pub(super) struct ThreadReader {
    chunks: mpsc::Receiver<io::Result<Vec<u8>>>,
    /// The current chunk. Its bytes before `taken` have already been returned.
    chunk: Vec<u8>,
    taken: usize,
}

impl ThreadReader {
    pub(super) fn start(file: File) -> io::Result<Self> {
        let (sender, chunks) = mpsc::channel(1);
        thread::Builder::new().name("barewire-stdin".to_owned()).spawn(move || read_chunks(&file, &sender))?;
        Ok(Self { chunks, chunk: Vec::new(), taken: 0 })
    }
}

impl AsyncRead for ThreadReader {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if self.taken == self.chunk.len() {
            match ready!(self.chunks.poll_recv(cx)) {
                Some(chunk) => (self.chunk, self.taken) = (chunk?, 0),
                None => return Poll::Ready(Ok(())),
            }
        }
        let rest = &self.chunk[self.taken..];
        let n = rest.len().min(buf.remaining());
        buf.put_slice(&rest[..n]);
        self.taken += n;
        Poll::Ready(Ok(()))
    }
}

/// Reads until the end of the file, or until the receiver is dropped.
fn read_chunks(file: &File, chunks: &mpsc::Sender<io::Result<Vec<u8>>>) {
    let mut buf = vec![0; CHUNK_SIZE];
    loop {
        let chunk = match retry(|| Read::read(&mut &*file, &mut buf), || wait_readable(file)) {
            Ok(0) => return,
            Ok(n) => Ok(buf[..n].to_vec()),
            Err(error) => Err(error),
        };
        let failed = chunk.is_err();
        if chunks.blocking_send(chunk).is_err() || failed {
            return;
        }
    }
}

/// Writes a file on its own thread. Up to one chunk is buffered while another chunk is being written. After the writer
/// is dropped, the thread still writes the buffered bytes.
#[derive(Debug)]
pub(super) struct ThreadWriter(Arc<WriterShared>);

#[derive(Debug)]
struct WriterShared {
    state: Mutex<WriterState>,
    /// Notified when there are bytes to write, or the writer is dropped.
    changed: Condvar,
}

#[derive(Debug)]
struct WriterState {
    waiting: Vec<u8>,
    thread: WriterThread,
    /// The waker of the task that waits for room in `waiting`, or for a write to finish.
    waker: Option<Waker>,
    dropped: bool,
}

#[derive(Debug)]
enum WriterThread {
    Idle,
    Writing,
    /// A write failed, and the thread has ended. The first call after that returns the error.
    Failed(Option<io::Error>),
}

impl ThreadWriter {
    pub(super) fn start(file: File) -> io::Result<Self> {
        let state = WriterState { waiting: Vec::new(), thread: WriterThread::Idle, waker: None, dropped: false };
        let shared = Arc::new(WriterShared { state: Mutex::new(state), changed: Condvar::new() });
        let for_thread = Arc::clone(&shared);
        thread::Builder::new().name("barewire-stdout".to_owned()).spawn(move || for_thread.write_chunks(&file))?;
        Ok(Self(shared))
    }
}

impl AsyncWrite for ThreadWriter {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let mut state = self.0.lock();
        state.check()?;
        let n = bytes.len().min(CHUNK_SIZE - state.waiting.len());
        if n == 0 && !bytes.is_empty() {
            return state.wait(cx);
        }
        state.waiting.extend_from_slice(&bytes[..n]);
        self.0.changed.notify_one();
        Poll::Ready(Ok(n))
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut state = self.0.lock();
        state.check()?;
        match state.thread {
            WriterThread::Idle if state.waiting.is_empty() => Poll::Ready(Ok(())),
            _ => state.wait(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_flush(cx)
    }
}

impl Drop for ThreadWriter {
    fn drop(&mut self) {
        self.0.lock().dropped = true;
        self.0.changed.notify_one();
    }
}

impl WriterShared {
    fn lock(&self) -> MutexGuard<'_, WriterState> {
        // The state is valid even after a panic, because no change of the state can panic halfway.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes chunks until the writer is dropped and nothing is left to write, or until a write fails.
    fn write_chunks(&self, file: &File) {
        let mut chunk = Vec::new();
        loop {
            let mut state = self
                .changed
                .wait_while(self.lock(), |state| state.waiting.is_empty() && !state.dropped)
                .unwrap_or_else(PoisonError::into_inner);
            if state.waiting.is_empty() {
                return;
            }
            mem::swap(&mut chunk, &mut state.waiting);
            state.thread = WriterThread::Writing;
            wake(state);

            let written = write_all(file, &chunk);
            chunk.clear();

            let mut state = self.lock();
            let failed = written.is_err();
            state.thread = written.map_or_else(|error| WriterThread::Failed(Some(error)), |()| WriterThread::Idle);
            wake(state);
            if failed {
                return;
            }
        }
    }
}

impl WriterState {
    fn check(&mut self) -> io::Result<()> {
        match &mut self.thread {
            WriterThread::Idle | WriterThread::Writing => Ok(()),
            WriterThread::Failed(error) => Err(error.take().unwrap_or_else(|| io::ErrorKind::BrokenPipe.into())),
        }
    }

    fn wait<T>(&mut self, cx: &Context<'_>) -> Poll<T> {
        self.waker = Some(cx.waker().clone());
        Poll::Pending
    }
}

/// Unlocks the state before it wakes the waiting task, because that task locks the state again.
fn wake(mut state: MutexGuard<'_, WriterState>) {
    let waker = state.waker.take();
    drop(state);
    if let Some(waker) = waker {
        waker.wake();
    }
}

fn write_all(file: &File, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match retry(|| Write::write(&mut &*file, bytes), || wait_writable(file))? {
            0 => return Err(io::ErrorKind::WriteZero.into()),
            n => bytes = &bytes[n..],
        }
    }
    Ok(())
}

/// Retries a read or a write that was interrupted or would block. A file that blocks by default can be non-blocking if
/// another process that shares it has changed it; `wait` is then called before the next attempt.
fn retry(mut attempt: impl FnMut() -> io::Result<usize>, wait: impl Fn() -> io::Result<()>) -> io::Result<usize> {
    loop {
        match attempt() {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => wait()?,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            done => return done,
        }
    }
}

/// The size of a chunk: the default capacity of a pipe on Linux.
const CHUNK_SIZE: usize = 64 * 1024;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;
    use crate::platform;

    #[tokio::test]
    async fn bytes_pass_through_pipes_unchanged_and_end() {
        let (near, mut far_writer) = io::pipe().unwrap();
        let (mut far_reader, far) = io::pipe().unwrap();
        let sent: Vec<u8> = (0..20 * CHUNK_SIZE).map(|n| n.to_le_bytes()[0]).collect();
        let expected = sent.clone();
        let feeder = thread::spawn(move || far_writer.write_all(&sent).unwrap());
        let taker = thread::spawn(move || {
            let mut taken = Vec::new();
            far_reader.read_to_end(&mut taken).unwrap();
            taken
        });
        let mut reader = ThreadReader::start(platform::file_of(near)).unwrap();
        let mut writer = ThreadWriter::start(platform::file_of(far)).unwrap();
        tokio::io::copy(&mut reader, &mut writer).await.unwrap();
        assert_eq!(reader.read(&mut [0]).await.unwrap(), 0);
        drop(writer);
        feeder.join().unwrap();
        assert!(taker.join().unwrap() == expected);
    }

    #[tokio::test]
    async fn flushed_means_written_and_no_more_than_two_chunks_wait() {
        let (mut far, near) = io::pipe().unwrap();
        let mut writer = ThreadWriter::start(platform::file_of(near)).unwrap();
        writer.write_all(b"x").await.unwrap();
        writer.flush().await.unwrap();
        assert_eq!(far.read(&mut [0; 8]).unwrap(), 1);

        let mut taken = 0;
        let fill = async {
            loop {
                taken += writer.write(&[b'x'; CHUNK_SIZE]).await.unwrap();
            }
        };
        assert!(tokio::time::timeout(Duration::from_millis(100), fill).await.is_err());
        // The pipe itself holds one or two chunks more, depending on the system.
        assert!((2 * CHUNK_SIZE..=4 * CHUNK_SIZE).contains(&taken), "{taken}");
        let flush = tokio::time::timeout(Duration::from_millis(50), writer.flush()).await;
        assert!(flush.is_err());
        drop(far);
        assert_eq!(writer.flush().await.unwrap_err().kind(), io::ErrorKind::BrokenPipe);
    }
}
