//! Messages on their way out: gathered in one buffer while another is being written.

use std::io;
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context, Poll};

use barewire_proto::frame::{Codec, MAX_KEPT_CAPACITY};
use tokio::io::AsyncWrite;
use tokio::sync::Semaphore;

use super::outlet::{Exchange, Outlet, Sent};

/// What waits to be written. Whole messages go in at one end; whatever the writer takes goes out at the other.
pub(super) struct Output<C> {
    /// What is gathered.
    next: Buffer,
    /// What is being written, and how much of it has been.
    now: Buffer,
    written: usize,
    codec: PhantomData<fn() -> C>,
}

#[derive(Debug, Default)]
struct Buffer {
    bytes: Vec<u8>,
    /// How much of it we sent by ourselves, to be given back once it is written.
    permits: usize,
}

impl<C> Default for Output<C> {
    fn default() -> Self {
        Self { next: Buffer::default(), now: Buffer::default(), written: 0, codec: PhantomData }
    }
}

impl<C: Codec> Outlet for Output<C> {
    const NULL_ID: bool = true;

    #[inline]
    fn send(&mut self, _: Exchange, write: impl FnOnce(&mut Vec<u8>) -> Sent) {
        C::encode(&mut self.next.bytes, |out| {
            write(out);
        });
    }

    fn holds(&mut self, permits: usize) {
        self.next.permits += permits;
    }

    fn len(&self) -> usize {
        self.next.bytes.len() + self.now.bytes.len() - self.written
    }
}

impl<C: Codec> Output<C> {
    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How much memory it holds.
    pub(super) fn capacity(&self) -> usize {
        self.now.bytes.capacity() + self.next.bytes.capacity()
    }

    /// Gives back memory that is not needed now.
    pub(super) fn trim(&mut self) {
        for buffer in [&mut self.now.bytes, &mut self.next.bytes] {
            if buffer.is_empty() {
                *buffer = Vec::new();
            }
        }
    }

    /// Forgets all that waits: nobody will read it.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Writes until everything is written or the writer takes no more. Gives how much it took.
    pub(super) fn poll_write(
        &mut self,
        context: &mut Context<'_>,
        writer: &mut (impl AsyncWrite + Unpin),
        room: &Semaphore,
    ) -> Poll<io::Result<usize>> {
        let mut taken = 0;
        loop {
            if self.written == self.now.bytes.len() {
                room.add_permits(std::mem::take(&mut self.now.permits));
                self.now.bytes.clear();
                if self.now.bytes.capacity() > MAX_KEPT_CAPACITY {
                    self.now.bytes = Vec::new();
                }
                self.written = 0;
                if self.next.bytes.is_empty() {
                    return Poll::Ready(Ok(taken));
                }
                std::mem::swap(&mut self.now, &mut self.next);
            }
            match Pin::new(&mut *writer).poll_write(context, &self.now.bytes[self.written..]) {
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
