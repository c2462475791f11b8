//! A server as a process: bursts of requests are written to its stdin, and answers are read from its stdout.

use std::io::{self, Read, Write};
use std::path::Path;
use std::process::{ChildStdin, ChildStdout, Command};

use rustix::event::{PollFd, PollFlags, poll};

use super::contender::{Contender, Protocol};
use super::era::Era;
use super::process::{Cpu, Process, counted};

/// A running server, killed when dropped.
#[derive(Debug)]
pub(crate) struct Server {
    process: Process,
    /// Non-blocking: the server may stop reading until its answers are read.
    stdin: ChildStdin,
    stdout: ChildStdout,
    /// The buffer for stdout, of which the first `length` bytes are filled.
    answers: Vec<u8>,
    length: usize,
}

impl Server {
    /// Starts the server's program, and sends the opening of the era.
    pub(crate) fn start(contender: &Contender, era: Era) -> io::Result<Self> {
        Self::run(Command::new(contender.program()?), contender, era)
    }

    /// The same under valgrind, which writes its counts to `counts` when the server ends.
    pub(crate) fn start_counted(contender: &Contender, era: Era, counts: &Path) -> io::Result<Self> {
        Self::run(counted(&contender.program()?, counts), contender, era)
    }

    /// Starts another program with the protocol of the contender.
    pub(crate) fn run(command: Command, contender: &Contender, era: Era) -> io::Result<Self> {
        let (process, stdin, stdout) = Process::start(command)?;
        rustix::io::ioctl_fionbio(&stdin, true)?;
        let mut server = Self { process, stdin, stdout, answers: Vec::new(), length: 0 };
        if let Protocol::Mcp = contender.protocol {
            for (message, answers) in era.opening() {
                server.exchange(message.as_bytes(), answers)?;
            }
        }
        Ok(server)
    }

    /// Writes `requests` and reads until there are `count` lines of answers.
    pub(crate) fn exchange(&mut self, requests: &[u8], count: u32) -> io::Result<&[u8]> {
        self.transfer(requests, count).map_err(|error| self.process.explain(error))?;
        Ok(&self.answers[..self.length])
    }

    fn transfer(&mut self, mut requests: &[u8], count: u32) -> io::Result<()> {
        let mut waiting = usize::try_from(count).expect("a burst fits in memory");
        self.length = 0;
        while waiting > 0 || !requests.is_empty() {
            if !requests.is_empty() {
                match self.stdin.write(requests) {
                    Ok(written) => requests = &requests[written..],
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    Err(error) => return Err(error),
                }
            }
            // With nothing left to write, a blocking read is enough: no other system call is between a call and its
            // answer.
            if waiting > 0 && (requests.is_empty() || self.has_answers()?) {
                waiting =
                    waiting.checked_sub(self.read()?).ok_or_else(|| io::Error::other("more answers than requests"))?;
            }
        }
        Ok(())
    }

    /// Waits until bytes can be read or written. Returns whether they can be read.
    fn has_answers(&self) -> io::Result<bool> {
        let mut ends = [PollFd::new(&self.stdout, PollFlags::IN), PollFd::new(&self.stdin, PollFlags::OUT)];
        poll(&mut ends, None)?;
        Ok(!ends[0].revents().is_empty())
    }

    /// Reads once, and returns the number of complete lines.
    fn read(&mut self) -> io::Result<usize> {
        if self.answers.len() < self.length + PIPE_SIZE {
            self.answers.resize(2 * self.length + PIPE_SIZE, 0);
        }
        let read = self.stdout.read(&mut self.answers[self.length..])?;
        if read == 0 {
            return Err(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                "the server ended before all calls were answered",
            ));
        }
        self.process.progress();
        let lines = memchr::memchr_iter(b'\n', &self.answers[self.length..][..read]).count();
        self.length += read;
        Ok(lines)
    }

    /// The nanoseconds that each thread has run so far, in user and system mode.
    pub(crate) fn cpu(&self) -> io::Result<Cpu> {
        self.process.cpu()
    }

    /// The resident memory in KiB.
    pub(crate) fn resident(&self) -> io::Result<u64> {
        self.process.resident()
    }

    /// Closes stdin and waits until the server exits by itself.
    pub(crate) fn finish(self) -> io::Result<()> {
        drop(self.stdin);
        self.process.finish()
    }
}

/// The default capacity of a pipe on Linux.
const PIPE_SIZE: usize = 64 * 1024;
