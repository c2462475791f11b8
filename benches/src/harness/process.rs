//! A process that is measured: its processor time, its memory, and that it does not stall.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread;
use std::time::Duration;

use rustix::fd::OwnedFd;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

/// A running process. It does not outlive this value.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    watchdog: Watchdog,
}

impl Process {
    /// Starts it, with both ends of its pipes.
    pub(crate) fn start(mut command: Command) -> io::Result<(Self, ChildStdin, ChildStdout)> {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let stdin = child.stdin.take().expect("it is piped");
        let stdout = child.stdout.take().expect("it is piped");
        let watchdog = Watchdog::start(pidfd_open(Pid::from_child(&child), PidfdFlags::empty())?);
        Ok((Self { child, watchdog }, stdin, stdout))
    }

    /// It has answered something.
    pub(crate) fn progress(&self) {
        self.watchdog.progress.fetch_add(1, Ordering::Relaxed);
    }

    /// What was behind an error: a process that we have ended did not die by itself.
    pub(crate) fn explain(&self, error: io::Error) -> io::Error {
        self.watchdog.explain(error)
    }

    /// Nanoseconds each thread has run so far, in user and system mode.
    pub(crate) fn cpu(&self) -> io::Result<Cpu> {
        // The scheduler brings a thread's account up to date when it stops running: let the server come to rest.
        thread::sleep(REST);
        let mut threads = BTreeMap::new();
        for task in fs::read_dir(format!("/proc/{}/task", self.child.id()))? {
            let task = task?;
            let schedstat = fs::read_to_string(task.path().join("schedstat"))?;
            let ran = schedstat.split(' ').next().and_then(|ran| ran.parse().ok());
            let ran = ran.ok_or_else(|| io::Error::other("schedstat has no number in it"))?;
            threads.insert(task.file_name(), ran);
        }
        Ok(Cpu(threads))
    }

    /// Resident memory in KiB.
    pub(crate) fn resident(&self) -> io::Result<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let size = line.and_then(|line| line.trim().strip_suffix(" kB")).and_then(|size| size.parse().ok());
        size.ok_or_else(|| io::Error::other("it has ended: no VmRSS in its status"))
    }

    /// Waits for it to end by itself, after its stdin was closed.
    pub(crate) fn finish(mut self) -> io::Result<()> {
        let status = self.child.wait()?;
        if status.success() { Ok(()) } else { Err(self.watchdog.explain(io::Error::other(format!("{status}")))) }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // After `finish` there is nothing left to end, and neither call minds.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A program under valgrind, which writes what it counted to `counts` when the program ends.
pub(crate) fn counted(program: &Path, counts: &Path) -> Command {
    let mut valgrind = Command::new("valgrind");
    valgrind.args(["--quiet", "--tool=callgrind"]);
    valgrind.arg(format!("--callgrind-out-file={}", counts.display())).arg(program);
    valgrind
}

/// What it counted.
pub(crate) fn count(counts: &Path) -> io::Result<u64> {
    let text = fs::read_to_string(counts)?;
    fs::remove_file(counts)?;
    let total = text.lines().find_map(|line| line.strip_prefix("totals:"));
    let total = total.and_then(|total| total.trim().parse().ok());
    total.ok_or_else(|| io::Error::other("callgrind counted nothing"))
}

/// The processor time of a process by thread.
#[derive(Debug)]
pub(crate) struct Cpu(BTreeMap<OsString, u64>);

impl Cpu {
    /// Nanoseconds since it was started.
    pub(crate) fn total(&self) -> u64 {
        self.0.values().sum()
    }

    /// Nanoseconds since `before`. A thread that has ended in between is left out: none of the servers ends any.
    pub(crate) fn since(&self, before: &Self) -> u64 {
        let ran = |(thread, now): (_, &u64)| now - before.0.get(thread).copied().unwrap_or(0);
        self.0.iter().map(ran).sum()
    }
}

/// Ends a server that has not answered anything for a while, so that waiting for it ends as well.
#[derive(Debug)]
struct Watchdog {
    progress: Arc<AtomicU64>,
    barked: Arc<AtomicBool>,
    /// Dropped with the server, which ends the thread.
    _stop: Sender<()>,
}

impl Watchdog {
    fn start(process: OwnedFd) -> Self {
        let (progress, barked) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let (stop, stopped) = mpsc::channel();
        let (watched, bark) = (Arc::clone(&progress), Arc::clone(&barked));
        thread::spawn(move || {
            let mut seen = 0;
            while let Err(RecvTimeoutError::Timeout) = stopped.recv_timeout(STALL) {
                let now = watched.load(Ordering::Relaxed);
                if now == seen {
                    bark.store(true, Ordering::Relaxed);
                    // It may have ended just now.
                    let _ = pidfd_send_signal(&process, Signal::KILL);
                    return;
                }
                seen = now;
            }
        });
        Self { progress, barked, _stop: stop }
    }

    /// What was behind an error: a server that we have ended did not die by itself.
    fn explain(&self, error: io::Error) -> io::Error {
        if self.barked.load(Ordering::Relaxed) {
            io::Error::new(io::ErrorKind::TimedOut, format!("it stalled for {} s", STALL.as_secs()))
        } else {
            error
        }
    }
}

/// Longer than any answer takes, also under valgrind.
const STALL: Duration = Duration::from_secs(30);

/// More than a scheduler tick.
const REST: Duration = Duration::from_millis(10);
