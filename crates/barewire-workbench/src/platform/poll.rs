//! Waits until one of several files can be read or written, or is closed.

use std::fs::File;
use std::io;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

/// The condition to wait for.
#[derive(Clone, Copy)]
pub(crate) enum Interest {
    Read,
    Write,
    /// Wait only until the other end is closed.
    Gone,
}

/// The state of a file.
#[derive(Clone, Copy, Default)]
pub(crate) struct Ready {
    /// Whether the condition is met or the file is closed.
    pub(crate) is_ready: bool,
    /// Whether the file or its other end is closed.
    pub(crate) is_gone: bool,
}

/// Waits until one of at most `N` files is ready, or until `time` has passed; without a time, indefinitely.
pub(crate) fn wait<const N: usize>(files: &[(&File, Interest)], time: Option<Duration>) -> io::Result<[Ready; N]> {
    let Some((first, _)) = files.first() else { return Ok([Ready::default(); N]) };
    let mut fds: [PollFd<'_>; N] = std::array::from_fn(|at| {
        let (file, interest) = files.get(at).copied().unwrap_or((first, Interest::Gone));
        PollFd::new(
            file,
            match interest {
                Interest::Read => PollFlags::IN,
                Interest::Write => PollFlags::OUT,
                Interest::Gone => PollFlags::empty(),
            },
        )
    });
    let time = time.map(|time| Timespec::try_from(time).unwrap_or_default());
    let count = files.len().min(N);
    while let Err(error) = poll(&mut fds[..count], time.as_ref()) {
        if error != Errno::INTR {
            return Err(error.into());
        }
    }
    Ok(std::array::from_fn(|at| match fds.get(at).filter(|_| at < count) {
        Some(fd) => Ready {
            is_ready: !fd.revents().is_empty(),
            is_gone: fd.revents().intersects(PollFlags::ERR | PollFlags::HUP | PollFlags::NVAL),
        },
        None => Ready::default(),
    }))
}

/// Returns the number of bytes that can be read without blocking; 0 if the system does not report it.
pub(crate) fn unread(file: &File) -> u64 {
    rustix::io::ioctl_fionread(file).unwrap_or(0)
}
