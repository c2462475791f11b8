//! A measured process: its CPU time, its memory, and a watchdog against stalls.

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

/// A running process, killed when dropped.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    watchdog: Watchdog,
}

impl Process {
    /// Starts the process with pipes for its stdin and stdout.
    pub(crate) fn start(mut command: Command) -> io::Result<(Self, ChildStdin, ChildStdout)> {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let stdin = child.stdin.take().expect("it is piped");
        let stdout = child.stdout.take().expect("it is piped");
        let watchdog = Watchdog::start(pidfd_open(Pid::from_child(&child), PidfdFlags::empty())?);
        Ok((Self { child, watchdog }, stdin, stdout))
    }

    /// Tells the watchdog that the process has answered.
    pub(crate) fn progress(&self) {
        self.watchdog.progress.fetch_add(1, Ordering::Relaxed);
    }

    /// The cause of an error: if the watchdog has ended the process, that it stalled.
    pub(crate) fn explain(&self, error: io::Error) -> io::Error {
        self.watchdog.explain(error)
    }

    /// The nanoseconds that each thread has run so far, in user and system mode.
    pub(crate) fn cpu(&self) -> io::Result<Cpu> {
        // The scheduler updates a thread's account when it stops running, so the server gets time to become idle.
        thread::sleep(REST_TIME);
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

    /// The resident memory in KiB.
    pub(crate) fn resident(&self) -> io::Result<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let size = line.and_then(|line| line.trim().strip_suffix(" kB")).and_then(|size| size.parse().ok());
        size.ok_or_else(|| io::Error::other("the process has ended: no VmRSS in its status"))
    }

    /// Waits until the process exits by itself, after its stdin was closed.
    pub(crate) fn finish(mut self) -> io::Result<()> {
        let status = self.child.wait()?;
        if status.success() { Ok(()) } else { Err(self.watchdog.explain(io::Error::other(format!("{status}")))) }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // After `finish` the process has exited, and both calls fail without harm.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A command that runs a program under valgrind, which writes its counts to `counts` when the program ends.
pub(crate) fn counted(program: &Path, counts: &Path) -> Command {
    let mut valgrind = Command::new("valgrind");
    valgrind.args(["--quiet", "--tool=callgrind"]);
    valgrind.arg(format!("--callgrind-out-file={}", counts.display())).arg(program);
    valgrind
}

/// The number of instructions that valgrind counted.
pub(crate) fn count(counts: &Path) -> io::Result<u64> {
    let text = fs::read_to_string(counts)?;
    fs::remove_file(counts)?;
    let total = text.lines().find_map(|line| line.strip_prefix("totals:"));
    let total = total.and_then(|total| total.trim().parse().ok());
    total.ok_or_else(|| io::Error::other("callgrind counted nothing"))
}

/// The CPU time of a process by thread.
#[derive(Debug)]
pub(crate) struct Cpu(BTreeMap<OsString, u64>);

impl Cpu {
    /// The nanoseconds since the process was started.
    pub(crate) fn total(&self) -> u64 {
        self.0.values().sum()
    }

    /// The nanoseconds since `before`. A thread that has ended in between is left out; no thread of the servers does.
    pub(crate) fn since(&self, before: &Self) -> u64 {
        let ran = |(thread, now): (_, &u64)| now - before.0.get(thread).copied().unwrap_or(0);
        self.0.iter().map(ran).sum()
    }
}

/// Kills a server that has not answered for [`STALL_TIMEOUT`], so that waiting for it ends as well.
#[derive(Debug)]
struct Watchdog {
    progress: Arc<AtomicU64>,
    barked: Arc<AtomicBool>,
    /// Dropped with the server, which ends the watchdog's thread.
    _stop: Sender<()>,
}

impl Watchdog {
    fn start(process: OwnedFd) -> Self {
        let (progress, barked) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let (stop, stopped) = mpsc::channel();
        let (watched, bark) = (Arc::clone(&progress), Arc::clone(&barked));
        thread::spawn(move || {
            let mut seen = 0;
            while let Err(RecvTimeoutError::Timeout) = stopped.recv_timeout(STALL_TIMEOUT) {
                let now = watched.load(Ordering::Relaxed);
                if now == seen {
                    bark.store(true, Ordering::Relaxed);
                    // The process may have ended just now.
                    let _ = pidfd_send_signal(&process, Signal::KILL);
                    return;
                }
                seen = now;
            }
        });
        Self { progress, barked, _stop: stop }
    }

    /// The cause of an error: if the watchdog has ended the server, that it stalled.
    fn explain(&self, error: io::Error) -> io::Error {
        if self.barked.load(Ordering::Relaxed) {
            io::Error::new(
                io::ErrorKind::TimedOut,
                format!("the server did not answer for {} s", STALL_TIMEOUT.as_secs()),
            )
        } else {
            error
        }
    }
}

/// Longer than any answer takes, also under valgrind.
const STALL_TIMEOUT: Duration = Duration::from_secs(30);

/// Longer than a scheduler tick.
const REST_TIME: Duration = Duration::from_millis(10);
