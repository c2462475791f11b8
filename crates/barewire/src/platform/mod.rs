//! The parts of the crate that differ between operating systems: file descriptors, processes, signals, socket files.
//!
//! Everything else calls the plain functions and types that are listed here and compiles everywhere. Another system is one more
//! module beside [`unix`] with the same items; until it is written, [`other`] refuses with [`Unsupported`].
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
/// Transports that only this system has.
pub(crate) use system::transports;
pub(crate) use system::{
    PipeReader, PipeWriter, PolledReader, PolledWriter, ProcessGroup, can_enter, exit_signal, open_stdin, open_stdout,
    pipe_reader, pipe_writer, redirect_stdio, start_fault, wait_for_bytes, wait_for_exit, wait_readable, wait_writable,
};

/// The stdin of this process, as it can be read without blocking the runtime.
#[cfg_attr(not(unix), allow(dead_code, reason = "a system without a platform layer makes none"))]
pub(crate) enum Stdin {
    /// The runtime is told when there is something to read.
    Polled(PolledReader),
    /// Only a blocking read will do, on a thread.
    Blocking(File),
}

/// The stdout of this process, as it can be written without blocking the runtime.
#[cfg_attr(not(unix), allow(dead_code, reason = "a system without a platform layer makes none"))]
pub(crate) enum Stdout {
    /// The runtime is told when there is room.
    Polled(PolledWriter),
    /// Only a blocking write will do, on a thread.
    Blocking(File),
}

/// The reason of the system for not starting a program, as far as it is one that a user can do something about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StartFault {
    /// The file, or the interpreter that it names, is not there.
    NoSuchFile,
    /// The file is there and cannot be run.
    NotExecutable,
}

/// The state of the stderr of a process after a wait. See [`wait_for_bytes`].
#[derive(Debug, Clone, Copy)]
pub(crate) struct StderrState {
    /// A read will not block: there are bytes, or the end.
    pub(crate) is_readable: bool,
    /// The reader was told to stop.
    pub(crate) is_stopped: bool,
}
