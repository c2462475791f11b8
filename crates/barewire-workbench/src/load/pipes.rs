//! Lends the pipes of a process to a client for the handshake, and takes them back for the load.
//!
//! The client negotiates the revision and explains failures. It is too slow for the load itself: it keeps state for
//! each call, which would cost more time than many servers need.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use barewire::transport::{ExitFuture, Parts, Process, ProcessReader, Transport};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// The right to take the lent pipes back.
pub(super) struct Loan(SharedPipes);

pub(super) type ProcessWriter = <Process as Transport>::Writer;

type SharedPipes = Arc<Mutex<Pipes>>;

#[derive(Default)]
pub(super) struct Pipes {
    pub(super) reader: Option<ProcessReader>,
    pub(super) writer: Option<ProcessWriter>,
    pub(super) ending: Option<ExitFuture>,
    /// The number of lines that the client wrote. All its request ids are at most this number.
    pub(super) lines_written: u64,
    /// Whether the client stopped reading in the middle of a line.
    pub(super) is_mid_line: bool,
}

/// The lent pipes as a transport of the client. If the client drops a half before the pipes are taken back, that half
/// is closed.
pub(super) struct BorrowedProcess(SharedPipes);

pub(super) struct ReaderHalf(SharedPipes);

pub(super) struct WriterHalf(SharedPipes);

pub(super) fn lend(process: Process) -> (Loan, BorrowedProcess) {
    let parts = process.into_parts();
    let pipes =
        Pipes { reader: Some(parts.reader), writer: Some(parts.writer), ending: parts.exit, ..Pipes::default() };
    let shared = Arc::new(Mutex::new(pipes));
    (Loan(Arc::clone(&shared)), BorrowedProcess(shared))
}

impl Loan {
    /// Takes the pipes back. The client then sees the end of the stream.
    pub(super) fn take(self) -> Pipes {
        std::mem::take(&mut *lock(&self.0))
    }
}

impl Transport for BorrowedProcess {
    type Reader = ReaderHalf;
    type Writer = WriterHalf;

    fn into_parts(self) -> Parts<ReaderHalf, WriterHalf> {
        let Self(shared) = self;
        let mut parts = Parts::new(ReaderHalf(Arc::clone(&shared)), WriterHalf(Arc::clone(&shared)));
        parts.opened_by_us = true;
        parts.exit = Some(Box::pin(async move {
            let ending = lock(&shared).ending.take();
            if let Some(ending) = ending { ending.await } else { None }
        }));
        parts
    }
}

impl AsyncRead for ReaderHalf {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let mut pipes = lock(&self.0);
        let Some(reader) = &mut pipes.reader else { return Poll::Ready(Ok(())) };
        let before = buf.filled().len();
        let read = Pin::new(reader).poll_read(cx, buf);
        if let Some(last) = buf.filled()[before..].last() {
            pipes.is_mid_line = *last != b'\n';
        }
        read
    }
}

impl AsyncWrite for WriterHalf {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let mut pipes = lock(&self.0);
        let Some(writer) = &mut pipes.writer else {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        };
        let wrote = Pin::new(writer).poll_write(cx, buf);
        if let Poll::Ready(Ok(count)) = wrote {
            pipes.lines_written += memchr::memchr_iter(b'\n', &buf[..count]).count() as u64;
        }
        wrote
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        // A pipe has no buffer that could be flushed.
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        lock(&self.0).writer = None;
        Poll::Ready(Ok(()))
    }
}

impl Drop for ReaderHalf {
    fn drop(&mut self) {
        lock(&self.0).reader = None;
    }
}

impl Drop for WriterHalf {
    fn drop(&mut self) {
        lock(&self.0).writer = None;
    }
}

fn lock(shared: &SharedPipes) -> MutexGuard<'_, Pipes> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}
