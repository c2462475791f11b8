//! A server as a process: bursts go into its stdin and come back from its stdout.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::io::{self, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fd::OwnedFd;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use super::contender::{Contender, Speaks};
use super::era::Era;

/// A running server. It does not outlive this value.
#[derive(Debug)]
pub(crate) struct Server {
    child: Child,
    /// Never blocks on a write: the server may be unable to read on before its answers are taken.
    stdin: Option<ChildStdin>,
    stdout: ChildStdout,
    /// What has been read from stdout; only the first `length` bytes count.
    answers: Vec<u8>,
    length: usize,
    watchdog: Watchdog,
}

impl Server {
    /// Starts the server, found beside this program, and brings it to where it can be called.
    pub(crate) fn start(contender: &Contender, era: Era) -> io::Result<Self> {
        Self::run(Command::new(contender.program()?), contender, era)
    }

    /// The same under valgrind, which writes what it counted to `counts` when the server ends.
    pub(crate) fn start_counted(contender: &Contender, era: Era, counts: &Path) -> io::Result<Self> {
        let mut valgrind = Command::new("valgrind");
        valgrind.args(["--quiet", "--tool=callgrind"]);
        valgrind.arg(format!("--callgrind-out-file={}", counts.display())).arg(contender.program()?);
        Self::run(valgrind, contender, era)
    }

    fn run(mut command: Command, contender: &Contender, era: Era) -> io::Result<Self> {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let stdin = child.stdin.take().expect("it is piped");
        let stdout = child.stdout.take().expect("it is piped");
        let watchdog = Watchdog::start(pidfd_open(Pid::from_child(&child), PidfdFlags::empty())?);
        rustix::io::ioctl_fionbio(&stdin, true)?;
        let mut server = Self { child, stdin: Some(stdin), stdout, answers: Vec::new(), length: 0, watchdog };
        if let Speaks::Mcp = contender.speaks {
            for (message, answers) in era.opening() {
                server.exchange(message.as_bytes(), answers)?;
            }
        }
        Ok(server)
    }

    /// Writes `requests` and reads until there are `count` lines of answers.
    pub(crate) fn exchange(&mut self, requests: &[u8], count: u32) -> io::Result<&[u8]> {
        self.transfer(requests, count).map_err(|error| self.watchdog.explain(error))?;
        Ok(&self.answers[..self.length])
    }

    fn transfer(&mut self, mut requests: &[u8], count: u32) -> io::Result<()> {
        let mut waiting = usize::try_from(count).expect("a burst fits in memory");
        self.length = 0;
        while waiting > 0 || !requests.is_empty() {
            if !requests.is_empty() {
                match self.stdin.as_ref().expect("it is open until the end").write(requests) {
                    Ok(written) => requests = &requests[written..],
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    Err(error) => return Err(error),
                }
            }
            // With nothing left to write a read may wait: no other system call stands between a call and its answer.
            if waiting > 0 && (requests.is_empty() || self.has_answers()?) {
                waiting = waiting
                    .checked_sub(self.read()?)
                    .ok_or_else(|| io::Error::other("more answers than requests"))?;
            }
        }
        Ok(())
    }

    /// Waits until something can be read or written, and says whether it can be read.
    fn has_answers(&self) -> io::Result<bool> {
        let stdin = self.stdin.as_ref().expect("it is open until the end");
        let mut ends = [PollFd::new(&self.stdout, PollFlags::IN), PollFd::new(stdin, PollFlags::OUT)];
        poll(&mut ends, None)?;
        Ok(!ends[0].revents().is_empty())
    }

    /// Reads once, and says how many lines ended in it.
    fn read(&mut self) -> io::Result<usize> {
        if self.answers.len() < self.length + PIPE {
            self.answers.resize(2 * self.length + PIPE, 0);
        }
        let read = self.stdout.read(&mut self.answers[self.length..])?;
        if read == 0 {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "it ended with calls unanswered"));
        }
        self.watchdog.progress.fetch_add(1, Ordering::Relaxed);
        let lines = memchr::memchr_iter(b'\n', &self.answers[self.length..][..read]).count();
        self.length += read;
        Ok(lines)
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

    /// Closes stdin and waits for the server to end by itself.
    pub(crate) fn finish(mut self) -> io::Result<()> {
        self.stdin = None;
        let status = self.child.wait()?;
        if status.success() {
            Ok(())
        } else {
            Err(self.watchdog.explain(io::Error::other(format!("{status}"))))
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // After `finish` there is nothing left to end, and neither call minds.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
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

/// The default capacity of a pipe on Linux.
const PIPE: usize = 64 * 1024;

/// Longer than any answer takes, also under valgrind.
const STALL: Duration = Duration::from_secs(30);

/// More than a scheduler tick.
const REST: Duration = Duration::from_millis(10);
