//! The output of a byte stream: messages are gathered in one buffer while another buffer is being written.

use std::io;
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context, Poll};

use barewire_proto::frame::{Codec, MAX_KEPT_CAPACITY};
use tokio::io::AsyncWrite;
use tokio::sync::Semaphore;

use super::outlet::{Exchange, MessageKind, Outlet};

/// The output that is not written yet. Messages are added as a whole, and written in pieces of any size.
pub(super) struct StreamOutput<C> {
    /// The messages that are gathered for the next write.
    gathering: OutputBuffer,
    /// The bytes that are being written.
    writing: OutputBuffer,
    /// The number of bytes of `writing` that are already written.
    written: usize,
    codec: PhantomData<fn() -> C>,
}

#[derive(Debug, Default)]
struct OutputBuffer {
    bytes: Vec<u8>,
    /// The permits of the calls and notifications in the buffer. They are returned after the buffer is written.
    permits: usize,
}

impl<C> Default for StreamOutput<C> {
    fn default() -> Self {
        Self { gathering: OutputBuffer::default(), writing: OutputBuffer::default(), written: 0, codec: PhantomData }
    }
}

impl<C: Codec> Outlet for StreamOutput<C> {
    const WRITES_NULL_ID: bool = true;

    #[inline]
    fn send(&mut self, _: Exchange, write: impl FnOnce(&mut Vec<u8>) -> MessageKind) {
        C::encode(&mut self.gathering.bytes, |out| {
            write(out);
        });
    }

    fn hold_permits(&mut self, permits: usize) {
        self.gathering.permits += permits;
    }

    fn len(&self) -> usize {
        self.gathering.bytes.len() + self.writing.bytes.len() - self.written
    }
}

impl<C: Codec> StreamOutput<C> {
    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The size of the buffers in memory, in bytes.
    pub(super) fn capacity(&self) -> usize {
        self.writing.bytes.capacity() + self.gathering.bytes.capacity()
    }

    /// Frees the memory of empty buffers.
    pub(super) fn trim(&mut self) {
        for buffer in [&mut self.writing.bytes, &mut self.gathering.bytes] {
            if buffer.is_empty() {
                *buffer = Vec::new();
            }
        }
    }

    /// Drops all pending output, because the peer no longer reads.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Writes until everything is written or the writer accepts no more bytes. Returns the number of bytes written.
    pub(super) fn poll_write(
        &mut self,
        context: &mut Context<'_>,
        writer: &mut (impl AsyncWrite + Unpin),
        room: &Semaphore,
    ) -> Poll<io::Result<usize>> {
        let mut taken = 0;
        loop {
            if self.written == self.writing.bytes.len() {
                room.add_permits(std::mem::take(&mut self.writing.permits));
                self.writing.bytes.clear();
                if self.writing.bytes.capacity() > MAX_KEPT_CAPACITY {
                    self.writing.bytes = Vec::new();
                }
                self.written = 0;
                if self.gathering.bytes.is_empty() {
                    return Poll::Ready(Ok(taken));
                }
                std::mem::swap(&mut self.writing, &mut self.gathering);
            }
            match Pin::new(&mut *writer).poll_write(context, &self.writing.bytes[self.written..]) {
                Poll::Ready(Ok(0)) => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                Poll::Ready(Ok(count)) => {
                    self.written += count;
                    taken += count;
                }
                Poll::Ready(Err(error)) if error.kind() == io::ErrorKind::Interrupted => {}
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending if taken > 0 => return Poll::Ready(Ok(taken)),
                Poll::Pending => return Poll::Pending,
            }
        }
    }
}
