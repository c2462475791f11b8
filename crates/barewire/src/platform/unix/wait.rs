//! Functions that block until a file descriptor is ready, for the transport's own threads.

use std::fs::File;
use std::io::{self, PipeReader};
use std::process::ChildStderr;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;

use crate::platform::StderrState;

/// Waits until a non-blocking file has bytes to read. Returns early if a signal interrupts the wait.
pub(crate) fn wait_readable(file: &File) -> io::Result<()> {
    wait(&mut [PollFd::new(file, PollFlags::IN)])
}

/// Waits until a non-blocking file can be written. Returns early if a signal interrupts the wait.
pub(crate) fn wait_writable(file: &File) -> io::Result<()> {
    wait(&mut [PollFd::new(file, PollFlags::OUT)])
}

/// Waits until `stderr` has bytes to read, or the other end of `stop` is dropped.
pub(crate) fn wait_for_bytes(stderr: &ChildStderr, stop: &PipeReader) -> io::Result<StderrState> {
    let mut fds = [PollFd::new(stderr, PollFlags::IN), PollFd::new(stop, PollFlags::IN)];
    loop {
        wait(&mut fds)?;
        let [is_readable, is_stopped] = [!fds[0].revents().is_empty(), !fds[1].revents().is_empty()];
        // A signal can interrupt the wait before either descriptor is ready.
        if is_readable || is_stopped {
            return Ok(StderrState { is_readable, is_stopped });
        }
    }
}

fn wait(fds: &mut [PollFd<'_>]) -> io::Result<()> {
    match poll(fds, None) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
