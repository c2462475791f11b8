//! Transports, which carry the bytes of a connection: stdio, a child process, a socket, memory.
//!
//! A transport is a reader, a writer, and a few properties of the stream. Any pair `(reader, writer)` that tokio can
//! read and write is a transport.

mod child;
mod exit;
mod memory;
mod socket;
mod stdio;
pub mod tcp;

use std::fmt;
use std::future::Future;
use std::pin::Pin;

use tokio::io::{AsyncRead, AsyncWrite};

pub use crate::platform::transports::*;
pub use child::{Child, Process, ProcessReader, SpawnError, Stderr};
pub use exit::Exit;
pub use memory::{Memory, memory};
pub use socket::Socket;
pub(crate) use socket::accept;
pub use stdio::{Stdio, StdioReader, StdioWriter, stdio};

/// A byte stream to a peer: a reader and a writer.
pub trait Transport: Send + 'static {
    /// The type of the reader.
    type Reader: AsyncRead + Unpin + Send + 'static;
    /// The type of the writer. Dropping the writer closes its half of the stream: the peer sees the end of its input.
    type Writer: AsyncWrite + Unpin + Send + 'static;

    /// Splits the transport into its parts.
    fn into_parts(self) -> Parts<Self::Reader, Self::Writer>;
}

/// The parts of a transport.
#[non_exhaustive]
pub struct Parts<R, W> {
    /// The reader.
    pub reader: R,
    /// The writer.
    pub writer: W,
    /// The framing of the messages.
    pub framing: Framing,
    /// Whether any program on this machine can open a stream of this kind, including a web page in a browser. If so, a
    /// stream whose first line is an HTTP request is closed without a response.
    pub open_to_all: bool,
    /// Whether this side opened the stream. If so, invalid frames without a usable id are logged and not answered.
    pub opened_by_us: bool,
    /// A future that returns the exit status of the peer's process, if the transport knows it. See [`ExitFuture`].
    pub exit: Option<ExitFuture>,
}

impl<R, W> Parts<R, W> {
    /// Creates the parts of a stream that has one message per line, was opened by the peer, and has no [`ExitFuture`].
    pub fn new(reader: R, writer: W) -> Self {
        Self { reader, writer, framing: Framing::Lines, open_to_all: false, opened_by_us: false, exit: None }
    }
}

/// A future that returns the exit status of the peer's process and the last lines of its stderr, for transports that
/// know them.
///
/// A connection drops the writer and then awaits this future. While it waits, it reads and discards the remaining
/// input. If the future is dropped instead, the transport terminates the process after the reader is dropped too.
pub type ExitFuture = Pin<Box<dyn Future<Output = Option<Exit>> + Send>>;

/// The framing of messages on a byte stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Framing {
    /// One message per line.
    #[default]
    Lines,
    /// The framing of the Language Server Protocol (LSP): a `Content-Length` header before each message.
    ContentLength,
}

impl<R, W> Transport for (R, W)
where
    R: AsyncRead + Unpin + Send + 'static,
    W: AsyncWrite + Unpin + Send + 'static,
{
    type Reader = R;
    type Writer = W;

    fn into_parts(self) -> Parts<R, W> {
        Parts::new(self.0, self.1)
    }
}

impl<R, W> Transport for Parts<R, W>
where
    R: AsyncRead + Unpin + Send + 'static,
    W: AsyncWrite + Unpin + Send + 'static,
{
    type Reader = R;
    type Writer = W;

    fn into_parts(self) -> Self {
        self
    }
}

impl<R: fmt::Debug, W: fmt::Debug> fmt::Debug for Parts<R, W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Parts")
            .field("reader", &self.reader)
            .field("writer", &self.writer)
            .field("framing", &self.framing)
            .field("open_to_all", &self.open_to_all)
            .field("opened_by_us", &self.opened_by_us)
            .finish_non_exhaustive()
    }
}
