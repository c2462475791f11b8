//! The platform layer for Unix, based on rustix. It contains no unsafe code.

mod inherited_socket;
#[cfg(feature = "oauth")]
mod private_file;
mod process;
pub mod socket_file;
mod stdio;
mod wait;
mod watcher;

#[cfg(feature = "oauth")]
pub(crate) use private_file::{
    FileLock, create_private_file, create_private_folder, open_browser, open_private_file, state_folder, sync_folder,
    try_lock_file,
};
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
