//! Files -> which of them can be read or written, or are gone.

use std::fs::File;
use std::io;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

/// What is waited for.
#[derive(Clone, Copy)]
pub(crate) enum Interest {
    Read,
    Write,
    /// Only that the other end is gone.
    Gone,
}

/// What has happened.
#[derive(Clone, Copy, Default)]
pub(crate) struct Ready {
    /// Anything at all.
    pub(crate) is_ready: bool,
    /// The other end is gone, or the file is.
    pub(crate) is_gone: bool,
}

/// Waits until one of these is ready, or for so long; for ever if there is no time. At most `N` files are looked at.
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

/// How many bytes can be read at once; 0 where that cannot be asked.
pub(crate) fn unread(file: &File) -> u64 {
    rustix::io::ioctl_fionread(file).unwrap_or(0)
}
