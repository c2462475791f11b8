//! A child process and the processes that it starts, as one process group. Signals are sent to the whole group.
//! Dropping a [`ProcessGroup`] kills all its processes and reaps the child.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, ExitStatus};

use rustix::fs::{Access, access};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use tokio::net::unix::pipe;

use super::watcher::Watcher;
use crate::platform::StartFault;

/// The reading end of a process's stdout.
pub(crate) type ChildReader = pipe::Receiver;

/// The writing end of a process's stdin.
pub(crate) type ChildWriter = pipe::Sender;

/// The id of a process.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ProcessId(pub(super) Pid);

impl ProcessId {
    /// The id as a number.
    pub(crate) fn number(self) -> u32 {
        self.0.as_raw_pid().cast_unsigned()
    }
}

/// A process group whose leader is a child of this process.
///
/// The system does not reuse the leader's id until the leader is reaped, so a signal cannot reach the wrong processes.
#[derive(Debug)]
pub(crate) struct ProcessGroup {
    id: ProcessId,
    /// The first process of the group; `None` after it is reaped.
    leader: Option<Child>,
    watcher: Option<Watcher>,
}

impl ProcessGroup {
    /// Starts the program in its own group. If `watched`, a [`Watcher`] terminates the group when this process is
    /// killed.
    pub(crate) fn spawn(command: &mut Command, watched: bool) -> io::Result<Self> {
        // The watcher is started first, so that the group is watched from its start.
        let mut watcher = if watched { Watcher::start() } else { None };
        let leader = command.process_group(0).spawn()?;
        let id = ProcessId(Pid::from_child(&leader));
        if let Some(watcher) = &mut watcher {
            watcher.watch(id);
        }
        Ok(Self { id, leader: Some(leader), watcher })
    }

    /// The process id of the leader, which is also the id of the group.
    pub(crate) fn id(&self) -> ProcessId {
        self.id
    }

    /// Takes the leader's stdin, stdout and stderr out of the group. Returns `None` on the second call.
    pub(crate) fn pipes(&mut self) -> Option<(ChildStdin, ChildStdout, ChildStderr)> {
        let leader = self.leader.as_mut()?;
        Some((leader.stdin.take()?, leader.stdout.take()?, leader.stderr.take()?))
    }

    /// Asks all processes of the group to exit, with SIGTERM.
    pub(crate) fn terminate(&self) {
        self.signal(Signal::TERM);
    }

    /// Kills all processes of the group, with SIGKILL.
    pub(crate) fn kill(&self) {
        self.signal(Signal::KILL);
    }

    fn signal(&self, signal: Signal) {
        if self.leader.is_some() {
            // An error means that no process of the group is left.
            let _ = kill_process_group(self.id.0, signal);
        }
    }

    /// Kills the remaining processes of the group, waits for the leader to exit, and returns the leader's exit status.
    pub(crate) fn end(&mut self) -> Option<ExitStatus> {
        self.kill();
        // The watcher is stopped first, because the system can reuse the id of the group after the leader is reaped.
        self.watcher = None;
        self.leader.take()?.wait().ok()
    }
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        self.end();
    }
}

/// Waits until the process has exited, without reaping it.
pub(crate) fn wait_for_exit(id: ProcessId) {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
    while let Err(Errno::INTR) = waitid(WaitId::Pid(id.0), options) {}
}

/// Converts a process's stdout to a reader that the runtime can poll.
pub(crate) fn pipe_reader(stdout: ChildStdout) -> io::Result<ChildReader> {
    // The child has the other end of the pipe, so making this end non-blocking does not affect the child.
    pipe::Receiver::from_owned_fd(OwnedFd::from(stdout))
}

/// Converts a process's stdin to a writer that the runtime can poll.
pub(crate) fn pipe_writer(stdin: ChildStdin) -> io::Result<ChildWriter> {
    pipe::Sender::from_owned_fd(OwnedFd::from(stdin))
}

/// Returns the signal that terminated a process, if there was one.
pub(crate) fn exit_signal(status: ExitStatus) -> Option<i32> {
    status.signal()
}

/// Whether a process can use `dir` as its working directory.
pub(crate) fn can_enter(dir: &Path) -> bool {
    dir.is_dir() && access(dir, Access::EXEC_OK).is_ok()
}

/// Returns the cause of a failure to start a program, if a user can fix that cause.
pub(crate) fn start_fault(error: &io::Error) -> Option<StartFault> {
    match Errno::from_io_error(error)? {
        Errno::NOENT | Errno::NOTDIR => Some(StartFault::NoSuchFile),
        Errno::ACCESS | Errno::ISDIR | Errno::NOEXEC => Some(StartFault::NotExecutable),
        _ => None,
    }
}
