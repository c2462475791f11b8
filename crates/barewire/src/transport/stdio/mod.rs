//! File descriptors 0 and 1 -> a transport that nothing else in the process can write to.

mod socket;
mod thread;

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use rustix::fs::{FileType, OFlags};
use rustix::stdio::{dup2_stdin, dup2_stdout, stderr, stdin, stdout};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::unix::pipe;
use tokio::runtime::Handle;

use super::{Framing, Parts, Transport};
use socket::{SocketReader, SocketWriter};
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
    let input = stdin().try_clone_to_owned()?;
    let output = stdout().try_clone_to_owned()?;
    let null = OpenOptions::new().read(true).write(true).open("/dev/null")?;
    let is_one_socket = same_stream(&input, &output);
    let stderr_is_the_wire = same_stream(stderr(), &output);

    let reader = StdioReader(Input::new(input)?);
    let writer = StdioWriter(Output::new(output, is_one_socket)?);

    dup2_stdin(&null)?;
    if stderr_is_the_wire || dup2_stdout(stderr()).is_err() {
        dup2_stdout(&null)?;
    }
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
    Pipe(pipe::Receiver),
    Socket(SocketReader),
    Thread(ThreadReader),
}

#[derive(Debug)]
enum Output {
    Pipe(pipe::Sender),
    Socket(SocketWriter),
    Thread(ThreadWriter),
}

impl Input {
    fn new(fd: OwnedFd) -> io::Result<Self> {
        match file_type(&fd)? {
            FileType::Fifo => match reopen(&fd, OFlags::RDONLY).and_then(pipe::Receiver::from_file) {
                Ok(pipe) => Ok(Self::Pipe(pipe)),
                Err(_) => Ok(Self::Thread(ThreadReader::start(fd)?)),
            },
            FileType::Socket => Ok(Self::Socket(SocketReader::new(fd)?)),
            _ => Ok(Self::Thread(ThreadReader::start(fd)?)),
        }
    }
}

impl Output {
    fn new(fd: OwnedFd, is_stdin_too: bool) -> io::Result<Self> {
        match file_type(&fd)? {
            FileType::Fifo => match reopen(&fd, OFlags::WRONLY).and_then(pipe::Sender::from_file) {
                Ok(pipe) => Ok(Self::Pipe(pipe)),
                Err(_) => Ok(Self::Thread(ThreadWriter::start(fd)?)),
            },
            FileType::Socket => Ok(Self::Socket(SocketWriter::new(fd, is_stdin_too)?)),
            _ => Ok(Self::Thread(ThreadWriter::start(fd)?)),
        }
    }
}

impl AsyncRead for StdioReader {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match &mut self.0 {
            Input::Pipe(pipe) => Pin::new(pipe).poll_read(cx, buf),
            Input::Socket(socket) => Pin::new(socket).poll_read(cx, buf),
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
            Output::Pipe(pipe) => Pin::new(pipe),
            Output::Socket(socket) => Pin::new(socket),
            Output::Thread(thread) => Pin::new(thread),
        }
    }
}

fn file_type(fd: impl AsFd) -> io::Result<FileType> {
    Ok(FileType::from_raw_mode(rustix::fs::fstat(fd)?.st_mode))
}

/// Whether both lead to the same place, unless that is a terminal or another device, where nothing is mixed up by it.
fn same_stream(one: impl AsFd, other: impl AsFd) -> bool {
    match (rustix::fs::fstat(one), rustix::fs::fstat(other)) {
        (Ok(one), Ok(other)) => {
            FileType::from_raw_mode(one.st_mode) != FileType::CharacterDevice
                && (one.st_dev, one.st_ino) == (other.st_dev, other.st_ino)
        }
        _ => false,
    }
}

/// The same pipe as an open file of our own, which may be made non-blocking: the one that was inherited may be shared,
/// and the others do not expect it.
fn reopen(pipe: &OwnedFd, access: OFlags) -> io::Result<File> {
    let inherited = rustix::fs::fcntl_getfl(pipe)? & OFlags::RWMODE;
    // Reopened, the wrong end of a pipe would turn into the right one.
    if !(inherited == access || inherited == OFlags::RDWR)
        || !cfg!(any(target_os = "linux", target_os = "android"))
    {
        return Err(io::ErrorKind::Unsupported.into());
    }
    OpenOptions::new()
        .read(access == OFlags::RDONLY)
        .write(access == OFlags::WRONLY)
        // Without it, a pipe without anybody at its other end would be waited for.
        .custom_flags(OFlags::NONBLOCK.bits().cast_signed())
        .open(format!("/proc/self/fd/{}", pipe.as_raw_fd()))
}
