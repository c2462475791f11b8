//! Reads and writes an inherited socket without blocking. The socket itself is not made non-blocking, because other
//! processes might share it.

use std::io;
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use rustix::net::{RecvFlags, SendFlags, Shutdown, recv, send, shutdown};
use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};

#[derive(Debug)]
pub(crate) struct SocketReader(AsyncFd<OwnedFd>);

#[derive(Debug)]
pub(crate) struct SocketWriter {
    socket: AsyncFd<OwnedFd>,
    /// Whether a [`SocketReader`] has the same socket open. If so, dropping this descriptor does not end the stream, so
    /// `shutdown` is called.
    is_shared: bool,
}

impl SocketReader {
    pub(super) fn new(socket: OwnedFd) -> io::Result<Self> {
        Ok(Self(register(socket, Interest::READABLE)?))
    }
}

impl SocketWriter {
    pub(super) fn new(socket: OwnedFd, is_shared: bool) -> io::Result<Self> {
        Ok(Self { socket: register(socket, Interest::WRITABLE)?, is_shared })
    }

    fn close(&self) -> io::Result<()> {
        match shutdown(&self.socket, Shutdown::Write) {
            Ok(()) | Err(rustix::io::Errno::NOTCONN) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

impl AsyncRead for SocketReader {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        loop {
            let mut guard = ready!(self.0.poll_read_ready(cx))?;
            let received = guard
                .try_io(|socket| Ok(recv(socket, buf.initialize_unfilled(), RecvFlags::DONTWAIT).map(|(n, _)| n)?));
            match received {
                Ok(Ok(n)) => {
                    buf.advance(n);
                    return Poll::Ready(Ok(()));
                }
                Ok(Err(error)) => return Poll::Ready(Err(error)),
                Err(_would_block) => {}
            }
        }
    }
}

impl AsyncWrite for SocketWriter {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        loop {
            let mut guard = ready!(self.socket.poll_write_ready(cx))?;
            if let Ok(sent) = guard.try_io(|socket| Ok(send(socket, bytes, SEND_FLAGS)?)) {
                return Poll::Ready(sent);
            }
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(if self.is_shared { self.close() } else { Ok(()) })
    }
}

impl Drop for SocketWriter {
    fn drop(&mut self) {
        if self.is_shared {
            let _ = self.close();
        }
    }
}

#[allow(
    deprecated,
    reason = "the replacement is unsafe, because some types can change their descriptor; an `OwnedFd` cannot"
)]
fn register(socket: OwnedFd, interest: Interest) -> io::Result<AsyncFd<OwnedFd>> {
    AsyncFd::with_interest(socket, interest)
}

/// With these flags, writing to a closed socket returns an error instead of raising SIGPIPE, even in a program that
/// restored the default SIGPIPE handler.
#[cfg(not(target_vendor = "apple"))]
const SEND_FLAGS: SendFlags = SendFlags::DONTWAIT.union(SendFlags::NOSIGNAL);
#[cfg(target_vendor = "apple")]
const SEND_FLAGS: SendFlags = SendFlags::DONTWAIT;
