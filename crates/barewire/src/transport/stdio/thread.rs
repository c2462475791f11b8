//! A file, a terminal or anything else that cannot be waited for, read and written on a thread of its own.
//!
//! Not on the runtime's blocking pool: a read that nobody ends, as of a terminal, would hold up the end of the runtime.

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

/// Reads ahead by two chunks at most.
#[derive(Debug)]
pub(super) struct ThreadReader {
    chunks: mpsc::Receiver<io::Result<Vec<u8>>>,
    /// The chunk being handed out, from `taken` on.
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

/// Ends when the file does, or when nobody wants the next chunk.
fn read_chunks(file: &File, chunks: &mpsc::Sender<io::Result<Vec<u8>>>) {
    let mut buf = vec![0; CHUNK];
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

/// Holds up to a chunk while another is being written. What is left when it is dropped is still written.
#[derive(Debug)]
pub(super) struct ThreadWriter(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    /// There is something to write, or the writer is dropped.
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    waiting: Vec<u8>,
    thread: Progress,
    /// The task that waits for room or for the end of a write.
    waker: Option<Waker>,
    dropped: bool,
}

#[derive(Debug)]
enum Progress {
    Idle,
    Writing,
    /// The thread has ended. The error is there until it is told.
    Failed(Option<io::Error>),
}

impl ThreadWriter {
    pub(super) fn start(file: File) -> io::Result<Self> {
        let state = State { waiting: Vec::new(), thread: Progress::Idle, waker: None, dropped: false };
        let shared = Arc::new(Shared { state: Mutex::new(state), changed: Condvar::new() });
        let ours = Arc::clone(&shared);
        thread::Builder::new().name("barewire-stdout".to_owned()).spawn(move || ours.write_chunks(&file))?;
        Ok(Self(shared))
    }
}

impl AsyncWrite for ThreadWriter {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let mut state = self.0.lock();
        state.check()?;
        let n = bytes.len().min(CHUNK - state.waiting.len());
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
            Progress::Idle if state.waiting.is_empty() => Poll::Ready(Ok(())),
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

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // No step between two valid states can panic.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends when the writer is dropped and nothing is left, or when a write fails.
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
            state.thread = Progress::Writing;
            wake(state);

            let written = write_all(file, &chunk);
            chunk.clear();

            let mut state = self.lock();
            let failed = written.is_err();
            state.thread = written.map_or_else(|error| Progress::Failed(Some(error)), |()| Progress::Idle);
            wake(state);
            if failed {
                return;
            }
        }
    }
}

impl State {
    fn check(&mut self) -> io::Result<()> {
        match &mut self.thread {
            Progress::Idle | Progress::Writing => Ok(()),
            Progress::Failed(error) => Err(error.take().unwrap_or_else(|| io::ErrorKind::BrokenPipe.into())),
        }
    }

    fn wait<T>(&mut self, cx: &Context<'_>) -> Poll<T> {
        self.waker = Some(cx.waker().clone());
        Poll::Pending
    }
}

/// Wakes the task that waits, without the lock: it may want it at once.
fn wake(mut state: MutexGuard<'_, State>) {
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

/// Repeats a read or a write until it is done. The file may be non-blocking, if a process that shares it has made it so; then
/// `wait` is called in between.
fn retry(mut once: impl FnMut() -> io::Result<usize>, wait: impl Fn() -> io::Result<()>) -> io::Result<usize> {
    loop {
        match once() {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => wait()?,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            done => return done,
        }
    }
}

/// As much as a pipe holds.
const CHUNK: usize = 64 * 1024;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;
    use crate::platform;

    #[tokio::test]
    async fn what_goes_through_pipes_comes_out_whole_and_ends() {
        let (near, mut far_writer) = io::pipe().unwrap();
        let (mut far_reader, far) = io::pipe().unwrap();
        let sent: Vec<u8> = (0..20 * CHUNK).map(|n| n.to_le_bytes()[0]).collect();
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
                taken += writer.write(&[b'x'; CHUNK]).await.unwrap();
            }
        };
        assert!(tokio::time::timeout(Duration::from_millis(100), fill).await.is_err());
        // A pipe holds one or two more, by system.
        assert!((2 * CHUNK..=4 * CHUNK).contains(&taken), "{taken}");
        let flush = tokio::time::timeout(Duration::from_millis(50), writer.flush()).await;
        assert!(flush.is_err());
        drop(far);
        assert_eq!(writer.flush().await.unwrap_err().kind(), io::ErrorKind::BrokenPipe);
    }
}
