//! A process and what it starts, as one group: signalled together, killed and reaped when dropped.

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

/// Our end of the stdout of a process.
pub(crate) type PipeReader = pipe::Receiver;

/// Our end of the stdin of a process.
pub(crate) type PipeWriter = pipe::Sender;

/// The number of a process.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ProcessId(pub(super) Pid);

impl ProcessId {
    /// Returns the number itself.
    pub(crate) fn number(self) -> u32 {
        self.0.as_raw_pid().cast_unsigned()
    }
}

/// A process group whose leader is a child of ours that is not reaped yet.
///
/// Until then its number belongs to nobody else, so a signal cannot reach the wrong processes.
#[derive(Debug)]
pub(crate) struct ProcessGroup {
    id: ProcessId,
    /// `None` once it is reaped.
    leader: Option<Child>,
    watcher: Option<Watcher>,
}

impl ProcessGroup {
    /// Starts the program in a group of its own; if `watched`, a watcher ends the group should this process be killed.
    pub(crate) fn spawn(command: &mut Command, watched: bool) -> io::Result<Self> {
        // First, so that there is no time in which the group is there and nobody watches.
        let mut watcher = if watched { Watcher::start() } else { None };
        let leader = command.process_group(0).spawn()?;
        let id = ProcessId(Pid::from_child(&leader));
        if let Some(watcher) = &mut watcher {
            watcher.watch(id);
        }
        Ok(Self { id, leader: Some(leader), watcher })
    }

    /// The number of the leader, which is that of the group as well.
    pub(crate) fn id(&self) -> ProcessId {
        self.id
    }

    /// The leader's stdin, stdout and stderr, once.
    pub(crate) fn pipes(&mut self) -> Option<(ChildStdin, ChildStdout, ChildStderr)> {
        let leader = self.leader.as_mut()?;
        Some((leader.stdin.take()?, leader.stdout.take()?, leader.stderr.take()?))
    }

    /// Asks all processes of the group to end.
    pub(crate) fn terminate(&self) {
        self.signal(Signal::TERM);
    }

    /// Ends all processes of the group.
    pub(crate) fn kill(&self) {
        self.signal(Signal::KILL);
    }

    fn signal(&self, signal: Signal) {
        if self.leader.is_some() {
            // Nobody left to be told is as good as told.
            let _ = kill_process_group(self.id.0, signal);
        }
    }

    /// Kills what is left, and says how the leader ended. Waits for it.
    pub(crate) fn end(&mut self) -> Option<ExitStatus> {
        self.kill();
        // Before the number of the group can be used again.
        self.watcher = None;
        self.leader.take()?.wait().ok()
    }
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        self.end();
    }
}

/// Waits until the process has exited, and leaves it to be reaped.
pub(crate) fn wait_for_exit(id: ProcessId) {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
    while let Err(Errno::INTR) = waitid(WaitId::Pid(id.0), options) {}
}

/// Makes our end of the stdout of a process one that the runtime waits for.
pub(crate) fn pipe_reader(stdout: ChildStdout) -> io::Result<PipeReader> {
    // Ours is another end than the child's, so making it non-blocking changes nothing for it.
    pipe::Receiver::from_owned_fd(OwnedFd::from(stdout))
}

/// Makes our end of the stdin of a process one that the runtime waits for.
pub(crate) fn pipe_writer(stdin: ChildStdin) -> io::Result<PipeWriter> {
    pipe::Sender::from_owned_fd(OwnedFd::from(stdin))
}

/// The signal that ended a process, if one did.
pub(crate) fn exit_signal(status: ExitStatus) -> Option<i32> {
    status.signal()
}

/// Whether a process may have this directory as its working directory.
pub(crate) fn can_enter(dir: &Path) -> bool {
    dir.is_dir() && access(dir, Access::EXEC_OK).is_ok()
}

/// The reason why a program was not started, if it is one of those that a user can do something about.
pub(crate) fn start_fault(error: &io::Error) -> Option<StartFault> {
    match Errno::from_io_error(error)? {
        Errno::NOENT | Errno::NOTDIR => Some(StartFault::NoSuchFile),
        Errno::ACCESS | Errno::ISDIR | Errno::NOEXEC => Some(StartFault::NotExecutable),
        _ => None,
    }
}
