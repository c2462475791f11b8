//! The platform layer for Unix, based on rustix. It contains no unsafe code.

mod inherited_socket;
mod process;
pub mod socket_file;
mod stdio;
mod wait;
mod watcher;

pub(crate) use process::{
    ChildReader, ChildWriter, ProcessGroup, can_enter, exit_signal, pipe_reader, pipe_writer, start_fault,
    wait_for_exit,
};
pub(crate) use stdio::{PolledReader, PolledWriter, open_stdin, open_stdout, redirect_stdio};
pub(crate) use wait::{wait_for_bytes, wait_readable, wait_writable};

/// Transports that exist only on Unix.
pub(crate) mod transports {
    pub use super::socket_file as unix;
}

/// Converts one end of a pipe to a file.
#[cfg(test)]
pub(crate) fn file_of(pipe: impl Into<std::os::fd::OwnedFd>) -> std::fs::File {
    pipe.into().into()
}
