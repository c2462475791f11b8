//! The parts of the crate that differ between operating systems: file descriptors, processes, signals, socket files.
//!
//! The rest of the crate uses only the functions and types that are listed here, and compiles on every system. Support
//! for another system is one more module beside [`unix`] with the same items. Until it is written, [`other`] returns
//! [`Unsupported`].
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
    ChildReader, ChildWriter, PolledReader, PolledWriter, ProcessGroup, can_enter, exit_signal, open_stdin,
    open_stdout, pipe_reader, pipe_writer, redirect_stdio, start_fault, wait_for_bytes, wait_for_exit, wait_readable,
    wait_writable,
};

/// The stdin of this process, in a form that can be read without blocking the runtime.
#[cfg_attr(not(unix), allow(dead_code, reason = "a system without a platform layer makes none"))]
pub(crate) enum Stdin {
    /// The runtime can poll it.
    Polled(PolledReader),
    /// It can only be read with blocking reads, on a thread.
    Blocking(File),
}

/// The stdout of this process, in a form that can be written without blocking the runtime.
#[cfg_attr(not(unix), allow(dead_code, reason = "a system without a platform layer makes none"))]
pub(crate) enum Stdout {
    /// The runtime can poll it.
    Polled(PolledWriter),
    /// It can only be written with blocking writes, on a thread.
    Blocking(File),
}

/// The reasons for not starting a program that a user can fix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StartFault {
    /// The file, or the interpreter that it names, does not exist.
    NoSuchFile,
    /// The file exists but cannot be run.
    NotExecutable,
}

/// The state of the stderr of a process after a wait. See [`wait_for_bytes`].
#[derive(Debug, Clone, Copy)]
pub(crate) struct StderrState {
    /// A read will not block: there are bytes, or it is the end.
    pub(crate) is_readable: bool,
    /// The reader should stop.
    pub(crate) is_stopped: bool,
}
