//! The supervisor of a process group. When the connection releases the group, the supervisor waits, sends SIGTERM,
//! waits, sends SIGKILL, and reaps the process.
//!
//! The supervisor runs on threads, not on the runtime, so that it also works when the runtime is shut down, busy, or
//! has its time paused.

use std::io;
use std::process::ChildStderr;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use super::stderr::{Stderr, StderrTail, follow_stderr};
use crate::platform::{ProcessGroup, exit_signal, wait_for_exit};
use crate::transport::Exit;

/// The supervisor of a process group: terminates the group, and reports its exit status.
pub(super) struct Supervisor {
    pub(super) group: ProcessGroup,
    pub(super) program: String,
    pub(super) grace: Duration,
    /// Dropped to end the stream of the process's stdout.
    pub(super) stdout_cut: oneshot::Sender<()>,
    pub(super) exit_sender: oneshot::Sender<Exit>,
}

/// Keeps the process group alive. Dropping this value terminates the group.
#[derive(Debug)]
pub(super) struct GroupKeepAlive(Sender<GroupEvent>);

/// An event of a process group.
#[derive(Debug, Clone, Copy)]
enum GroupEvent {
    /// The process is no longer needed.
    Released,
    /// The first process of the group has exited. Other processes of the group might still run.
    LeaderExited,
    /// No process has stderr open any more, so the whole group has probably exited.
    StderrClosed,
}

impl GroupKeepAlive {
    /// Creates a value that keeps no group alive.
    #[cfg(test)]
    pub(super) fn of_test() -> Self {
        Self(channel().0)
    }

    /// Begins to terminate the group. Further calls have no effect.
    pub(super) fn release(&self) {
        let _ = self.0.send(GroupEvent::Released);
    }
}

impl Drop for GroupKeepAlive {
    fn drop(&mut self) {
        self.release();
    }
}

impl Supervisor {
    /// Starts the supervisor's threads. If a thread cannot be started, the group is terminated.
    pub(super) fn start(self, stderr: ChildStderr, to: &Stderr) -> io::Result<GroupKeepAlive> {
        let (sender, events) = channel();
        let (stopped, stop) = io::pipe()?;
        let on_stderr = sender.clone();
        let tail = follow_stderr(stderr, stopped, to.clone(), move || {
            let _ = on_stderr.send(GroupEvent::StderrClosed);
        })?;
        let (leader, on_exit) = (self.group.id(), sender.clone());
        thread::Builder::new().name("barewire-wait".to_owned()).spawn(move || {
            wait_for_exit(leader);
            let _ = on_exit.send(GroupEvent::LeaderExited);
        })?;
        let monitor = GroupMonitor { events, leader_exited: false, stderr_closed: false };
        thread::Builder::new().name("barewire-child".to_owned()).spawn(move || {
            self.run(monitor, &tail, stop);
        })?;
        Ok(GroupKeepAlive(sender))
    }

    fn run(mut self, mut monitor: GroupMonitor, tail: &StderrTail, stop: io::PipeWriter) {
        let mut stdout_cut = Some(self.stdout_cut);
        monitor.wait_for_release(self.grace, &mut stdout_cut);
        // The writer is normally dropped by now, so the process has seen the end of its stdin.
        let mut by_us = false;
        if !monitor.is_gone_within(self.grace) {
            by_us = !monitor.leader_exited;
            self.group.terminate();
            if !monitor.is_gone_within(self.grace) {
                by_us |= !monitor.leader_exited;
                self.group.kill();
                monitor.wait_until(KILLED_EXIT_TIME, |monitor| monitor.leader_exited);
            }
        }
        let status = if monitor.leader_exited { self.group.end() } else { None };
        drop(stop);
        monitor.wait_until(STDERR_DRAIN_TIME, |monitor| monitor.stderr_closed);
        let exit = Exit {
            program: self.program,
            code: status.and_then(|status| status.code()),
            signal: status.and_then(exit_signal),
            by_us,
            stderr: tail.text(),
        };
        // Sending fails if no code waits for the exit status.
        let _ = self.exit_sender.send(exit);
    }
}

/// The state of a group, according to its events so far.
struct GroupMonitor {
    events: Receiver<GroupEvent>,
    leader_exited: bool,
    stderr_closed: bool,
}

impl GroupMonitor {
    /// Waits until the group is released. Ends the stream of stdout when `grace` has passed since the leader exited.
    fn wait_for_release(&mut self, grace: Duration, stdout_cut: &mut Option<oneshot::Sender<()>>) {
        let mut cut_time = None;
        loop {
            match self.next(cut_time) {
                Ok(GroupEvent::LeaderExited) => cut_time = Instant::now().checked_add(grace),
                Ok(GroupEvent::StderrClosed) => {}
                Ok(GroupEvent::Released) | Err(RecvTimeoutError::Disconnected) => return,
                Err(RecvTimeoutError::Timeout) => (*stdout_cut, cut_time) = (None, None),
            }
        }
    }

    fn is_gone_within(&mut self, time: Duration) -> bool {
        self.wait_until(time, |monitor| monitor.leader_exited && monitor.stderr_closed)
    }

    /// Waits until `until` returns true, for at most `time`. Returns whether `until` returned true.
    fn wait_until(&mut self, time: Duration, until: impl Fn(&Self) -> bool) -> bool {
        let deadline = Instant::now().checked_add(time);
        while !until(self) {
            if self.next(deadline).is_err() {
                return until(self);
            }
        }
        true
    }

    fn next(&mut self, deadline: Option<Instant>) -> Result<GroupEvent, RecvTimeoutError> {
        let event = match deadline {
            Some(deadline) => self.events.recv_timeout(deadline.saturating_duration_since(Instant::now()))?,
            None => self.events.recv().map_err(|_| RecvTimeoutError::Disconnected)?,
        };
        match event {
            GroupEvent::Released => {}
            GroupEvent::LeaderExited => self.leader_exited = true,
            GroupEvent::StderrClosed => self.stderr_closed = true,
        }
        Ok(event)
    }
}

/// The maximum time to wait for the exit after SIGKILL. A process that is blocked in the kernel does not exit even then;
/// any other exits at once, or as soon as a busy machine gets to it.
const KILLED_EXIT_TIME: Duration = Duration::from_secs(5);

/// The maximum time to wait for the rest of stderr, after which its end is missing. Reading the pipe takes far less time,
/// unless a callback is slow or the machine is busy.
const STDERR_DRAIN_TIME: Duration = Duration::from_secs(2);
