//! The platform layer for operating systems without a module of their own. All functions for child processes and stdio
//! return an error; the rest of the crate works.

#[cfg(feature = "oauth")]
mod private_file;

use std::convert::Infallible;
use std::fs::File;
use std::io;
use std::path::Path;
use std::process::{ChildStderr, ChildStdin, ChildStdout, Command, ExitStatus};

#[cfg(feature = "oauth")]
pub(crate) use private_file::{
    FileLock, create_private_file, create_private_folder, open_browser, open_private_file, state_folder, sync_folder,
    try_lock_file,
};

use super::{StartFault, StderrState, Stdin, Stdout};

/// Empty: these systems have no transports of their own.
pub(crate) mod transports {}

/// The reading end of a process's stdout.
pub(crate) type ChildReader = tokio::io::Empty;

/// The writing end of a process's stdin.
pub(crate) type ChildWriter = tokio::io::Sink;

/// A stdin that the runtime can poll.
pub(crate) type PolledReader = tokio::io::Empty;

/// A stdout that the runtime can poll.
pub(crate) type PolledWriter = tokio::io::Sink;

/// The id of a process. No value of this type exists.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ProcessId(Infallible);

impl ProcessId {
    /// The id as a number.
    pub(crate) fn number(self) -> u32 {
        match self.0 {}
    }
}

/// A process group. No value of this type exists.
#[derive(Debug)]
pub(crate) struct ProcessGroup(Infallible);

impl ProcessGroup {
    /// Always returns an error.
    pub(crate) fn spawn(_: &mut Command, _: bool) -> io::Result<Self> {
        Err(unsupported())
    }

    /// The process id of the group's leader.
    pub(crate) fn id(&self) -> ProcessId {
        match self.0 {}
    }

    /// Returns the stdin, stdout and stderr of the group's leader.
    pub(crate) fn pipes(&mut self) -> Option<(ChildStdin, ChildStdout, ChildStderr)> {
        match self.0 {}
    }

    /// Asks all processes of the group to exit.
    pub(crate) fn terminate(&self) {
        match self.0 {}
    }

    /// Kills all processes of the group.
    pub(crate) fn kill(&self) {
        match self.0 {}
    }

    /// Kills the remaining processes of the group, and returns the exit status of its leader.
    pub(crate) fn end(&mut self) -> Option<ExitStatus> {
        match self.0 {}
    }
}

/// Waits until the process has exited.
pub(crate) fn wait_for_exit(id: ProcessId) {
    match id.0 {}
}

/// Always returns an error.
pub(crate) fn pipe_reader(_: ChildStdout) -> io::Result<ChildReader> {
    Err(unsupported())
}

/// Always returns an error.
pub(crate) fn pipe_writer(_: ChildStdin) -> io::Result<ChildWriter> {
    Err(unsupported())
}

/// Always returns `None`: on these systems, no exit status contains a signal.
pub(crate) fn exit_signal(_: ExitStatus) -> Option<i32> {
    None
}

/// Whether `dir` is a directory. The permission to use it as a working directory is not checked.
pub(crate) fn can_enter(dir: &Path) -> bool {
    dir.is_dir()
}

/// Returns the cause of a failure to start a program, if a user can fix that cause.
pub(crate) fn start_fault(error: &io::Error) -> Option<StartFault> {
    match error.kind() {
        io::ErrorKind::NotFound => Some(StartFault::NoSuchFile),
        io::ErrorKind::PermissionDenied => Some(StartFault::NotExecutable),
        _ => None,
    }
}

/// Always returns an error.
pub(crate) fn open_stdin() -> io::Result<Stdin> {
    Err(unsupported())
}

/// Always returns an error.
pub(crate) fn open_stdout() -> io::Result<Stdout> {
    Err(unsupported())
}

/// Always returns an error.
pub(crate) fn redirect_stdio() -> io::Result<()> {
    Err(unsupported())
}

/// Always returns an error.
pub(crate) fn wait_readable(_: &File) -> io::Result<()> {
    Err(unsupported())
}

/// Always returns an error.
pub(crate) fn wait_writable(_: &File) -> io::Result<()> {
    Err(unsupported())
}

/// Always returns an error.
pub(crate) fn wait_for_bytes(_: &ChildStderr, _: &io::PipeReader) -> io::Result<StderrState> {
    Err(unsupported())
}

fn unsupported() -> io::Error {
    io::Error::new(io::ErrorKind::Unsupported, "barewire does not support child processes and stdio on this system yet")
}
