//! Stdin and stdout -> a transport that nothing else in the process can write to.

mod thread;

use std::io::{self, Write};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::runtime::Handle;

use super::{Framing, Parts, Transport};
use crate::platform::{self, PolledReader, PolledWriter, Stdin, Stdout};
use thread::{ThreadReader, ThreadWriter};

/// Takes stdin and stdout for a connection, once in a process.
///
/// From then on the process reads nothing from stdin, and what it prints goes to stderr: a stray `println!` cannot
/// corrupt the stream. What was read from `std::io::stdin` before is lost to the connection.
///
/// Pipes and sockets are waited for by the runtime, anything else by a thread. No flag is set on what may be shared with
/// other processes.
///
/// # Panics
///
/// In a runtime whose IO driver is off.
pub fn stdio() -> io::Result<Stdio> {
    static TAKEN: AtomicBool = AtomicBool::new(false);
    Handle::try_current().map_err(io::Error::other)?;
    if TAKEN.swap(true, Ordering::Relaxed) {
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, "stdin and stdout are already taken"));
    }
    take().inspect_err(|_| TAKEN.store(false, Ordering::Relaxed))
}

fn take() -> io::Result<Stdio> {
    // What was printed so far was meant for stdout.
    io::stdout().flush()?;
    let reader = StdioReader(match platform::open_stdin()? {
        Stdin::Polled(reader) => Input::Polled(reader),
        Stdin::Blocking(file) => Input::Thread(ThreadReader::start(file)?),
    });
    let writer = StdioWriter(match platform::open_stdout()? {
        Stdout::Polled(writer) => Output::Polled(writer),
        Stdout::Blocking(file) => Output::Thread(ThreadWriter::start(file)?),
    });
    platform::redirect_stdio()?;
    Ok(Stdio { reader, writer, framing: Framing::Lines })
}

/// Stdin and stdout of this process, taken.
#[derive(Debug)]
pub struct Stdio {
    reader: StdioReader,
    writer: StdioWriter,
    framing: Framing,
}

impl Stdio {
    /// How messages are told apart; one a line unless told otherwise.
    pub fn framing(mut self, framing: Framing) -> Self {
        self.framing = framing;
        self
    }
}

impl Transport for Stdio {
    type Reader = StdioReader;
    type Writer = StdioWriter;

    fn into_parts(self) -> Parts<StdioReader, StdioWriter> {
        Parts { framing: self.framing, ..Parts::new(self.reader, self.writer) }
    }
}

/// What was file descriptor 0.
#[derive(Debug)]
pub struct StdioReader(Input);

/// What was file descriptor 1. All that was written is with the system once it is flushed.
#[derive(Debug)]
pub struct StdioWriter(Output);

#[derive(Debug)]
enum Input {
    Polled(PolledReader),
    Thread(ThreadReader),
}

#[derive(Debug)]
enum Output {
    Polled(PolledWriter),
    Thread(ThreadWriter),
}

impl AsyncRead for StdioReader {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match &mut self.0 {
            Input::Polled(reader) => Pin::new(reader).poll_read(cx, buf),
            Input::Thread(thread) => Pin::new(thread).poll_read(cx, buf),
        }
    }
}

impl AsyncWrite for StdioWriter {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.half().poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.half().poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.half().poll_shutdown(cx)
    }
}

impl StdioWriter {
    fn half(&mut self) -> Pin<&mut (dyn AsyncWrite + Unpin)> {
        match &mut self.0 {
            Output::Polled(writer) => Pin::new(writer),
            Output::Thread(thread) => Pin::new(thread),
        }
    }
}
