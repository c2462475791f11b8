//! The parts of the crate that differ between operating systems: file descriptors, processes, signals, socket files.
//!
//! The rest of the crate uses only the functions and types that are listed here, and compiles on every system. To
//! support another system, add a module beside [`unix`] with the same items. On systems without such a module, the
//! functions of [`other`] return the error [`Unsupported`].
//!
//! [`Unsupported`]: std::io::ErrorKind::Unsupported

#[cfg(not(unix))]
mod other;
#[cfg(unix)]
mod unix;

use std::fs::File;

#[cfg(not(unix))]
use other as system;
#[cfg(unix)]
use unix as system;

#[cfg(test)]
pub(crate) use system::file_of;
/// Transports that exist only on the operating system that the crate is compiled for.
pub(crate) use system::transports;
pub(crate) use system::{
    ChildReader, ChildWriter, PolledReader, PolledWriter, ProcessGroup, can_enter, exit_signal, open_stdin,
    open_stdout, pipe_reader, pipe_writer, redirect_stdio, start_fault, wait_for_bytes, wait_for_exit, wait_readable,
    wait_writable,
};

#[cfg(feature = "oauth")]
pub(crate) use system::{
    FileLock, create_private_file, create_private_folder, open_browser, open_private_file, state_folder, sync_folder,
    try_lock_file,
};

/// The stdin of this process, in a form that can be read without blocking the runtime.
#[cfg_attr(not(unix), allow(dead_code, reason = "nothing creates this type on systems without a platform module"))]
pub(crate) enum Stdin {
    /// A pipe or socket that the runtime can poll.
    Polled(PolledReader),
    /// A file that can only be read with blocking reads, on a thread.
    Blocking(File),
}

/// The stdout of this process, in a form that can be written without blocking the runtime.
#[cfg_attr(not(unix), allow(dead_code, reason = "nothing creates this type on systems without a platform module"))]
pub(crate) enum Stdout {
    /// A pipe or socket that the runtime can poll.
    Polled(PolledWriter),
    /// A file that can only be written with blocking writes, on a thread.
    Blocking(File),
}

/// The cause of a failure to start a program. A user can fix each of these causes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StartFault {
    /// The program file does not exist, or the interpreter that its first line names does not exist.
    NoSuchFile,
    /// The program file exists but cannot be executed.
    NotExecutable,
}

/// The result of [`wait_for_bytes`]: the state of a child process's stderr.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StderrState {
    /// Whether a read will not block, because bytes are available or the stream is at its end.
    pub(crate) is_readable: bool,
    /// Whether the thread that reads stderr should stop.
    pub(crate) is_stopped: bool,
}
