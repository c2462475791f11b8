//! A process whose pipes are lent to a client for the handshake and taken back for the load.
//!
//! The client finds out which revision the server speaks, and knows what to say when there is none. After that its
//! engine, which keeps the state of each call, would cost more than many a server.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use barewire::transport::{ExitFuture, Parts, Process, ProcessReader, Transport};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// What was lent, and can be taken back.
pub struct Loan(Shared);

/// The stdin of a process.
pub(super) type ProcessWriter = <Process as Transport>::Writer;

type Shared = Arc<Mutex<Pipes>>;

/// The pipes of a process.
#[derive(Default)]
pub struct Pipes {
    pub reader: Option<ProcessReader>,
    pub writer: Option<ProcessWriter>,
    pub ending: Option<ExitFuture>,
    /// So many lines were written: the ids of the requests among them are not larger.
    pub lines: u64,
    /// The last that was read ended in the middle of a line.
    pub in_a_line: bool,
}

/// What the client has of it. A half that it drops is closed, unless it was taken back.
pub struct Lent(Shared);

pub struct ReaderHalf(Shared);

pub struct WriterHalf(Shared);

pub fn lend(process: Process) -> (Loan, Lent) {
    let parts = process.into_parts();
    let pipes = Pipes {
        reader: Some(parts.reader),
        writer: Some(parts.writer),
        ending: parts.ending,
        ..Pipes::default()
    };
    let shared = Arc::new(Mutex::new(pipes));
    (Loan(Arc::clone(&shared)), Lent(shared))
}

impl Loan {
    /// Takes all of it. The client sees the end of the stream.
    pub fn take(self) -> Pipes {
        std::mem::take(&mut *lock(&self.0))
    }
}

impl Transport for Lent {
    type Reader = ReaderHalf;
    type Writer = WriterHalf;

    fn into_parts(self) -> Parts<ReaderHalf, WriterHalf> {
        let Self(shared) = self;
        let mut parts = Parts::new(ReaderHalf(Arc::clone(&shared)), WriterHalf(Arc::clone(&shared)));
        parts.opened_by_us = true;
        parts.ending = Some(Box::pin(async move {
            let ending = lock(&shared).ending.take();
            match ending {
                Some(ending) => ending.await,
                None => None,
            }
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
            pipes.in_a_line = *last != b'\n';
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
            pipes.lines += memchr::memchr_iter(b'\n', &buf[..count]).count() as u64;
        }
        wrote
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        // A pipe keeps nothing back.
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

fn lock(shared: &Shared) -> MutexGuard<'_, Pipes> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}
