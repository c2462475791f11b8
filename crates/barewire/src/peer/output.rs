//! Messages on their way out: gathered in one buffer while another is being written.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use barewire_proto::frame::KEPT;
use tokio::io::AsyncWrite;
use tokio::sync::Semaphore;

/// What waits to be written. Whole messages go in at one end; whatever the writer takes goes out at the other.
#[derive(Debug, Default)]
pub(super) struct Output {
    /// What is gathered.
    next: Buffer,
    /// What is being written, and how much of it has been.
    now: Buffer,
    written: usize,
}

#[derive(Debug, Default)]
struct Buffer {
    bytes: Vec<u8>,
    /// How much of it we sent by ourselves, to be given back once it is written.
    permits: usize,
}

impl Output {
    /// Where the next message is appended.
    pub(super) fn next(&mut self) -> &mut Vec<u8> {
        &mut self.next.bytes
    }

    /// What was appended holds this many permits.
    pub(super) fn holds(&mut self, permits: usize) {
        self.next.permits += permits;
    }

    /// How many bytes wait.
    pub(super) fn len(&self) -> usize {
        self.next.bytes.len() + self.now.bytes.len() - self.written
    }

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
                if self.now.bytes.capacity() > KEPT {
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
