//! Watches over a process group, and ends it when it is let go: wait, SIGTERM, wait, SIGKILL, reap.
//!
//! On threads, not on the runtime: it works as well when the runtime is gone, busy, or has its time paused.

use std::io;
use std::process::ChildStderr;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use super::stderr::{Stderr, Tail, follow};
use crate::platform::{ProcessGroup, exit_signal, wait_for_exit};
use crate::transport::Exit;

/// What is needed to end a group and to tell how it went.
pub(super) struct Supervisor {
    pub(super) group: ProcessGroup,
    pub(super) program: String,
    pub(super) grace: Duration,
    /// Dropped when nothing more is to be waited for on stdout.
    pub(super) cut: oneshot::Sender<()>,
    pub(super) told: oneshot::Sender<Exit>,
}

/// Keeps the group alive. Dropped, it starts the end.
#[derive(Debug)]
pub(super) struct Leash(Sender<Event>);

#[derive(Debug, Clone, Copy)]
enum Event {
    /// The process is not wanted any more.
    LetGo,
    /// The leader has exited. Others of its group may be there.
    LeaderExited,
    /// Nobody holds stderr any more: as far as can be seen, none of the group is left.
    StderrClosed,
}

impl Leash {
    /// Starts the end. Once more does nothing.
    pub(super) fn let_go(&self) {
        let _ = self.0.send(Event::LetGo);
    }
}

impl Drop for Leash {
    fn drop(&mut self) {
        self.let_go();
    }
}

impl Supervisor {
    /// If it cannot start, the group is ended.
    pub(super) fn start(self, stderr: ChildStderr, to: &Stderr) -> io::Result<Leash> {
        let (sender, events) = channel();
        let (stopped, stop) = io::pipe()?;
        let on_stderr = sender.clone();
        let tail = follow(stderr, stopped, to.clone(), move || {
            let _ = on_stderr.send(Event::StderrClosed);
        })?;
        let (leader, on_exit) = (self.group.id(), sender.clone());
        thread::Builder::new().name("barewire-wait".to_owned()).spawn(move || {
            wait_for_exit(leader);
            let _ = on_exit.send(Event::LeaderExited);
        })?;
        let watch = Watch { events, leader_exited: false, stderr_closed: false };
        thread::Builder::new().name("barewire-child".to_owned()).spawn(move || {
            self.run(watch, &tail, stop);
        })?;
        Ok(Leash(sender))
    }

    fn run(mut self, mut watch: Watch, tail: &Tail, stop: io::PipeWriter) {
        let mut cut = Some(self.cut);
        watch.until_let_go(self.grace, &mut cut);
        // The halves are dropped: the process has seen the end of its stdin.
        let mut by_us = false;
        if !watch.is_gone_within(self.grace) {
            by_us = !watch.leader_exited;
            self.group.terminate();
            if !watch.is_gone_within(self.grace) {
                by_us |= !watch.leader_exited;
                self.group.kill();
                // Not by itself: a process that the kernel holds up does not even die of a SIGKILL.
                watch.waits_within(self.grace, |watch| watch.leader_exited);
            }
        }
        let status = if watch.leader_exited { self.group.end() } else { None };
        drop(stop);
        watch.waits_within(LAST_WORDS, |watch| watch.stderr_closed);
        let exit = Exit {
            program: self.program,
            code: status.and_then(|status| status.code()),
            signal: status.and_then(exit_signal),
            by_us,
            stderr: tail.text(),
        };
        // Whoever let go without waiting does not hear of it.
        let _ = self.told.send(exit);
    }
}

/// What has been seen of the group.
struct Watch {
    events: Receiver<Event>,
    leader_exited: bool,
    stderr_closed: bool,
}

impl Watch {
    /// Ends when the process is not wanted any more. Cuts stdout when the leader has been gone for `grace`.
    fn until_let_go(&mut self, grace: Duration, cut: &mut Option<oneshot::Sender<()>>) {
        let mut cut_at = None;
        loop {
            match self.next(cut_at) {
                Ok(Event::LeaderExited) => cut_at = Instant::now().checked_add(grace),
                Ok(Event::StderrClosed) => {}
                Ok(Event::LetGo) | Err(RecvTimeoutError::Disconnected) => return,
                Err(RecvTimeoutError::Timeout) => (*cut, cut_at) = (None, None),
            }
        }
    }

    fn is_gone_within(&mut self, time: Duration) -> bool {
        self.waits_within(time, |watch| watch.leader_exited && watch.stderr_closed)
    }

    /// Whether `until` holds before `time` is over.
    fn waits_within(&mut self, time: Duration, until: impl Fn(&Self) -> bool) -> bool {
        let deadline = Instant::now().checked_add(time);
        while !until(self) {
            if self.next(deadline).is_err() {
                return until(self);
            }
        }
        true
    }

    fn next(&mut self, deadline: Option<Instant>) -> Result<Event, RecvTimeoutError> {
        let event = match deadline {
            Some(deadline) => self.events.recv_timeout(deadline.saturating_duration_since(Instant::now()))?,
            None => self.events.recv().map_err(|_| RecvTimeoutError::Disconnected)?,
        };
        match event {
            Event::LetGo => {}
            Event::LeaderExited => self.leader_exited = true,
            Event::StderrClosed => self.stderr_closed = true,
        }
        Ok(event)
    }
}

/// What is in the pipe is read in no time; who takes the lines may need longer, and is not waited for.
const LAST_WORDS: Duration = Duration::from_millis(200);
