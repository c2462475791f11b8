//! A process and what it starts, as one group: signalled together, killed and reaped when dropped.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, ExitStatus};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

use super::watcher::Watcher;

/// A process group whose leader is a child of ours that is not reaped yet.
///
/// Until then its number belongs to nobody else, so a signal cannot reach the wrong processes.
#[derive(Debug)]
pub(super) struct Group {
    id: Pid,
    /// `None` once it is reaped.
    leader: Option<Child>,
    watcher: Option<Watcher>,
}

impl Group {
    pub(super) fn spawn(command: &mut Command, watched: bool) -> io::Result<Self> {
        // First, so that there is no time in which the group is there and nobody watches.
        let mut watcher = if watched { Watcher::start() } else { None };
        let leader = command.process_group(0).spawn()?;
        let id = Pid::from_child(&leader);
        if let Some(watcher) = &mut watcher {
            watcher.watch(id);
        }
        Ok(Self { id, leader: Some(leader), watcher })
    }

    pub(super) fn id(&self) -> Pid {
        self.id
    }

    /// The leader's stdin, stdout and stderr, once.
    pub(super) fn pipes(&mut self) -> Option<(ChildStdin, ChildStdout, ChildStderr)> {
        let leader = self.leader.as_mut()?;
        Some((leader.stdin.take()?, leader.stdout.take()?, leader.stderr.take()?))
    }

    pub(super) fn signal(&self, signal: Signal) {
        if self.leader.is_some() {
            // Nobody left to be told is as good as told.
            let _ = kill_process_group(self.id, signal);
        }
    }

    /// Kills what is left, and says how the leader ended. Waits for it.
    pub(super) fn end(&mut self) -> Option<ExitStatus> {
        self.signal(Signal::KILL);
        // Before the number of the group can be used again.
        self.watcher = None;
        self.leader.take()?.wait().ok()
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.end();
    }
}

/// Waits until the process has exited, and leaves it to be reaped.
pub(super) fn wait_for_exit(id: Pid) {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
    while let Err(rustix::io::Errno::INTR) = waitid(WaitId::Pid(id), options) {}
}
