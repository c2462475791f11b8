//! Opens file descriptors 0 and 1 as the streams of the transport, and puts `/dev/null` and stderr in their place.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::pin::Pin;
use std::task::{Context, Poll};

use rustix::fs::{FileType, OFlags, fcntl_getfl, fstat};
use rustix::stdio::{dup2_stdin, dup2_stdout, stderr, stdin, stdout};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::unix::pipe;

use super::inherited_socket::{SocketReader, SocketWriter};
use crate::platform::{Stdin, Stdout};

/// A pipe or a socket that was file descriptor 0.
#[derive(Debug)]
pub(crate) enum PolledReader {
    Pipe(pipe::Receiver),
    Socket(SocketReader),
}

/// A pipe or a socket that was file descriptor 1.
#[derive(Debug)]
pub(crate) enum PolledWriter {
    Pipe(pipe::Sender),
    Socket(SocketWriter),
}

/// Opens file descriptor 0 for the transport.
pub(crate) fn open_stdin() -> io::Result<Stdin> {
    let fd = stdin().try_clone_to_owned()?;
    match file_type(&fd)? {
        FileType::Fifo => match reopen(&fd, OFlags::RDONLY).and_then(pipe::Receiver::from_file) {
            Ok(pipe) => Ok(Stdin::Polled(PolledReader::Pipe(pipe))),
            Err(_) => Ok(Stdin::Blocking(fd.into())),
        },
        FileType::Socket => Ok(Stdin::Polled(PolledReader::Socket(SocketReader::new(fd)?))),
        _ => Ok(Stdin::Blocking(fd.into())),
    }
}

/// Opens file descriptor 1 for the transport.
pub(crate) fn open_stdout() -> io::Result<Stdout> {
    let fd = stdout().try_clone_to_owned()?;
    match file_type(&fd)? {
        FileType::Fifo => match reopen(&fd, OFlags::WRONLY).and_then(pipe::Sender::from_file) {
            Ok(pipe) => Ok(Stdout::Polled(PolledWriter::Pipe(pipe))),
            Err(_) => Ok(Stdout::Blocking(fd.into())),
        },
        FileType::Socket => {
            let is_stdin_too = same_stream(stdin(), &fd);
            Ok(Stdout::Polled(PolledWriter::Socket(SocketWriter::new(fd, is_stdin_too)?)))
        }
        _ => Ok(Stdout::Blocking(fd.into())),
    }
}

/// Redirects file descriptor 0 to `/dev/null` and file descriptor 1 to stderr, so that other output of this process no
/// longer reaches the transport's stream.
pub(crate) fn redirect_stdio() -> io::Result<()> {
    let null = OpenOptions::new().read(true).write(true).open("/dev/null")?;
    let stderr_is_the_wire = same_stream(stderr(), stdout());
    dup2_stdin(&null)?;
    if stderr_is_the_wire || dup2_stdout(stderr()).is_err() {
        dup2_stdout(&null)?;
    }
    Ok(())
}

impl AsyncRead for PolledReader {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match &mut *self {
            Self::Pipe(pipe) => Pin::new(pipe).poll_read(cx, buf),
            Self::Socket(socket) => Pin::new(socket).poll_read(cx, buf),
        }
    }
}

impl AsyncWrite for PolledWriter {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.stream().poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream().poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream().poll_shutdown(cx)
    }
}

impl PolledWriter {
    fn stream(&mut self) -> Pin<&mut (dyn AsyncWrite + Unpin)> {
        match self {
            Self::Pipe(pipe) => Pin::new(pipe),
            Self::Socket(socket) => Pin::new(socket),
        }
    }
}

fn file_type(fd: impl AsFd) -> io::Result<FileType> {
    Ok(FileType::from_raw_mode(fstat(fd)?.st_mode))
}

/// Whether both descriptors refer to the same pipe, socket or file. Returns `false` for a terminal or another device,
/// because sharing a device does no harm.
fn same_stream(one: impl AsFd, other: impl AsFd) -> bool {
    match (fstat(one), fstat(other)) {
        (Ok(one), Ok(other)) => {
            FileType::from_raw_mode(one.st_mode) != FileType::CharacterDevice
                && (one.st_dev, one.st_ino) == (other.st_dev, other.st_ino)
        }
        _ => false,
    }
}

/// Opens the pipe again, as a separate file that can be made non-blocking. Other processes might share the inherited
/// file and expect it to block.
fn reopen(pipe: &OwnedFd, access: OFlags) -> io::Result<File> {
    let inherited = fcntl_getfl(pipe)? & OFlags::RWMODE;
    // The access mode is checked, because reopening would also succeed for the wrong end of the pipe.
    if !(inherited == access || inherited == OFlags::RDWR) || !cfg!(any(target_os = "linux", target_os = "android")) {
        return Err(io::ErrorKind::Unsupported.into());
    }
    OpenOptions::new()
        .read(access == OFlags::RDONLY)
        .write(access == OFlags::WRONLY)
        // Without this flag, opening blocks until another process opens the other end.
        .custom_flags(OFlags::NONBLOCK.bits().cast_signed())
        .open(format!("/proc/self/fd/{}", pipe.as_raw_fd()))
}
