//! Writes to an output without blocking, if that is possible.
//!
//! One thread relays all streams, so no stream may block another. But other processes may share an output that we were
//! given, such as a terminal or the pipe of a shell script, and making it non-blocking would also affect those
//! processes.

use std::fs::File;
use std::io::{self, PipeWriter, Write};
use std::os::fd::OwnedFd;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FileType, Mode, OFlags, fstat, open};
use rustix::net::{SendFlags, send};

/// A file that is written without blocking, if possible.
pub(crate) struct NonBlockingOutput {
    pub(crate) file: File,
    mode: WriteMode,
}

enum WriteMode {
    /// The file is used by us alone and is set to non-blocking.
    NonBlocking,
    /// A socket, which is written with a non-blocking flag for each write.
    Send,
    /// A shared pipe, which is written in small pieces: a pipe that is writable has room for one piece.
    Pieces,
    /// A file or a terminal, for which each write may block.
    Blocking,
}

impl NonBlockingOutput {
    /// Takes the writing end of a pipe that no other process writes to.
    pub(crate) fn own(end: PipeWriter) -> io::Result<Self> {
        let fd = OwnedFd::from(end);
        rustix::io::ioctl_fionbio(&fd, true)?;
        Ok(Self { file: fd.into(), mode: WriteMode::NonBlocking })
    }

    /// Takes a file that other processes may also use.
    pub(crate) fn shared(file: File) -> io::Result<Self> {
        let fd = OwnedFd::from(file);
        let mode = match FileType::from_raw_mode(fstat(&fd)?.st_mode) {
            FileType::Socket => WriteMode::Send,
            FileType::Fifo => {
                if let Some(file) = reopen(&fd) {
                    return Ok(Self { file, mode: WriteMode::NonBlocking });
                }
                WriteMode::Pieces
            }
            _ => WriteMode::Blocking,
        };
        Ok(Self { file: fd.into(), mode })
    }

    /// Writes as much as possible without blocking.
    pub(crate) fn put(&mut self, bytes: &[u8]) -> io::Result<usize> {
        loop {
            let done = match self.mode {
                WriteMode::NonBlocking | WriteMode::Blocking => self.file.write(bytes),
                WriteMode::Send => send(&self.file, bytes, SendFlags::DONTWAIT).map_err(io::Error::from),
                WriteMode::Pieces => {
                    let mut fds = [PollFd::new(&self.file, PollFlags::OUT)];
                    match poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })) {
                        Ok(0) => Err(io::ErrorKind::WouldBlock.into()),
                        _ => self.file.write(&bytes[..bytes.len().min(PIPE_PIECE)]),
                    }
                }
            };
            match done {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                done => return done,
            }
        }
    }
}

/// Opens the same pipe again, which Linux allows. The flags of the new file are independent of the original file.
fn reopen(fd: &OwnedFd) -> Option<File> {
    use std::os::fd::AsRawFd;
    let path = format!("/proc/self/fd/{}", fd.as_raw_fd());
    let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    open(path, flags, Mode::empty()).ok().map(File::from)
}

/// The number of bytes that a writable pipe accepts without blocking, as POSIX guarantees.
const PIPE_PIECE: usize = 512;
