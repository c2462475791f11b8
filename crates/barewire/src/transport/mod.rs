//! What carries the bytes of a connection: stdio, a child process, a socket, memory.
//!
//! A transport is two halves, one to read and one to write, and a few facts about the stream between them. Anything
//! that tokio can read and write is one: `(reader, writer)`.

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

/// Two halves of a connection, ready to be driven.
pub trait Transport: Send + 'static {
    /// Where bytes come from.
    type Reader: AsyncRead + Unpin + Send + 'static;
    /// Where bytes go. Dropping it tells the other side that there will be no more.
    type Writer: AsyncWrite + Unpin + Send + 'static;

    /// Takes the transport apart.
    fn into_parts(self) -> Parts<Self::Reader, Self::Writer>;
}

/// What a transport is made of.
#[non_exhaustive]
pub struct Parts<R, W> {
    /// Where bytes come from.
    pub reader: R,
    /// Where bytes go.
    pub writer: W,
    /// How messages are told apart on it.
    pub framing: Framing,
    /// Whether anybody on this machine, a web page in a browser included, can open such a stream. If so, one whose first
    /// line is an HTTP request is closed without an answer.
    pub open_to_all: bool,
    /// Whether we opened it to them, and not they to us. If so, what they send that names nobody to answer is only reported.
    pub opened_by_us: bool,
    /// What is to be done when the writer is dropped. See [`ExitFuture`].
    pub exit: Option<ExitFuture>,
}

impl<R, W> Parts<R, W> {
    /// Halves that carry one message a line and need nothing done at their end.
    pub fn new(reader: R, writer: W) -> Self {
        Self { reader, writer, framing: Framing::Lines, open_to_all: false, opened_by_us: false, exit: None }
    }
}

/// Runs after the writer is dropped, while what still comes is read and forgotten, and says what became of the other side, if the transport knows more than the end
/// of a stream: how a process exited and what it complained about.
///
/// Dropped without being run, it leaves the end to the transport: a process is ended all the same, once nobody reads
/// from it.
pub type ExitFuture = Pin<Box<dyn Future<Output = Option<Exit>> + Send>>;

/// How messages are told apart on a byte stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Framing {
    /// One message a line.
    #[default]
    Lines,
    /// The base protocol of LSP: `Content-Length` headers before each message.
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
