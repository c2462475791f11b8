//! A transport over stdin and stdout. No other code in the process can write to the transport.

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

/// Takes over stdin and stdout for a connection. This is possible only once per process.
///
/// After that, stdin is empty for all other code in the process, and output to stdout goes to stderr, so a stray
/// `println!` cannot corrupt the stream. Bytes that `std::io::stdin` has already read do not reach the connection.
///
/// The runtime polls pipes and sockets; threads read and write anything else. Files that other processes might share
/// are not made non-blocking.
///
/// # Panics
///
/// If the runtime's IO driver is not enabled.
pub fn stdio() -> io::Result<Stdio> {
    static TAKEN: AtomicBool = AtomicBool::new(false);
    Handle::try_current().map_err(io::Error::other)?;
    if TAKEN.swap(true, Ordering::Relaxed) {
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, "stdin and stdout are already taken"));
    }
    take().inspect_err(|_| TAKEN.store(false, Ordering::Relaxed))
}

fn take() -> io::Result<Stdio> {
    // Output that was printed before this call is still meant for stdout.
    io::stdout().flush()?;
    let reader = StdioReader(match platform::open_stdin()? {
        Stdin::Polled(reader) => StdioInput::Polled(reader),
        Stdin::Blocking(file) => StdioInput::Thread(ThreadReader::start(file)?),
    });
    let writer = StdioWriter(match platform::open_stdout()? {
        Stdout::Polled(writer) => StdioOutput::Polled(writer),
        Stdout::Blocking(file) => StdioOutput::Thread(ThreadWriter::start(file)?),
    });
    platform::redirect_stdio()?;
    Ok(Stdio { reader, writer, framing: Framing::Lines })
}

/// The stdin and stdout of this process.
#[derive(Debug)]
pub struct Stdio {
    reader: StdioReader,
    writer: StdioWriter,
    framing: Framing,
}

impl Stdio {
    /// Sets the framing of the messages. The default is one message per line.
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

/// Reads from the original file descriptor 0.
#[derive(Debug)]
pub struct StdioReader(StdioInput);

/// Writes to the original file descriptor 1. After a flush, all bytes are passed to the operating system.
#[derive(Debug)]
pub struct StdioWriter(StdioOutput);

#[derive(Debug)]
enum StdioInput {
    Polled(PolledReader),
    Thread(ThreadReader),
}

#[derive(Debug)]
enum StdioOutput {
    Polled(PolledWriter),
    Thread(ThreadWriter),
}

impl AsyncRead for StdioReader {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match &mut self.0 {
            StdioInput::Polled(reader) => Pin::new(reader).poll_read(cx, buf),
            StdioInput::Thread(thread) => Pin::new(thread).poll_read(cx, buf),
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
            StdioOutput::Polled(writer) => Pin::new(writer),
            StdioOutput::Thread(thread) => Pin::new(thread),
        }
    }
}
