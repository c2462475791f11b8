//! One of our own outputs -> one that can be written to without waiting.
//!
//! All directions are forwarded by one thread, so none may hold up another. But an output that we were given may be somebody else's as
//! well, a terminal or a pipe of a whole shell script: making it one that does not wait would make theirs such.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::process::ChildStdin;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FileType, Mode, OFlags, fstat, open};
use rustix::net::{SendFlags, send};

/// Something to write to.
pub(crate) struct Outward {
    pub(crate) file: File,
    how: How,
}

enum How {
    /// It is ours alone, and does not wait.
    Freely,
    /// A socket can be asked not to wait each time.
    Send,
    /// A pipe that has room at all has room for so much.
    Pieces,
    /// A file or a terminal: it takes what it is given.
    Plainly,
}

impl Outward {
    /// An end of a pipe that is ours alone.
    pub(crate) fn own(end: ChildStdin) -> io::Result<Self> {
        let fd = OwnedFd::from(end);
        rustix::io::ioctl_fionbio(&fd, true)?;
        Ok(Self { file: fd.into(), how: How::Freely })
    }

    /// A copy of one that others may have as well.
    pub(crate) fn shared(file: File) -> io::Result<Self> {
        let fd = OwnedFd::from(file);
        let how = match FileType::from_raw_mode(fstat(&fd)?.st_mode) {
            FileType::Socket => How::Send,
            FileType::Fifo => {
                if let Some(file) = again(&fd) {
                    return Ok(Self { file, how: How::Freely });
                }
                How::Pieces
            }
            _ => How::Plainly,
        };
        Ok(Self { file: fd.into(), how })
    }

    /// Writes as much as can be written without waiting.
    pub(crate) fn put(&mut self, bytes: &[u8]) -> io::Result<usize> {
        loop {
            let done = match self.how {
                How::Freely | How::Plainly => self.file.write(bytes),
                How::Send => send(&self.file, bytes, SendFlags::DONTWAIT).map_err(io::Error::from),
                How::Pieces => {
                    let mut fds = [PollFd::new(&self.file, PollFlags::OUT)];
                    match poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })) {
                        Ok(0) => Err(io::ErrorKind::WouldBlock.into()),
                        _ => self.file.write(&bytes[..bytes.len().min(PIECE)]),
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

/// The same pipe, opened once more: Linux can do that. What is set on it then is not set on the other.
fn again(fd: &OwnedFd) -> Option<File> {
    use std::os::fd::AsRawFd;
    let path = format!("/proc/self/fd/{}", fd.as_raw_fd());
    let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    open(path, flags, Mode::empty()).ok().map(File::from)
}

/// POSIX promises as much of every pipe.
const PIECE: usize = 512;
