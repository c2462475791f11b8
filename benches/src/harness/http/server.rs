//! A server over HTTP as a process: it prints its port, and exits at the end of its stdin.

use std::io::{self, BufRead, BufReader};
use std::net::{Ipv4Addr, SocketAddr};
use std::process::{ChildStdin, Command};

use crate::harness::contender::{Contender, Role};
use crate::harness::era::Era;
use crate::harness::process::{Cpu, Process, counted};
use crate::harness::workload::{FIRST_ID, text};

/// A running server, killed when dropped.
pub(super) struct HttpServer {
    pub(super) process: Process,
    stdin: ChildStdin,
    pub(super) addr: SocketAddr,
}

impl HttpServer {
    /// Starts the server's program.
    pub(super) fn start(contender: &Contender, era: Era) -> io::Result<Self> {
        Self::run(Command::new(contender.program()?), contender, &[answer(era)])
    }

    /// The same under valgrind.
    pub(super) fn start_counted(contender: &Contender, era: Era, counts: &std::path::Path) -> io::Result<Self> {
        Self::run(counted(&contender.program()?, counts), contender, &[answer(era)])
    }

    /// Starts the server for measuring idle streams.
    pub(super) fn start_streaming(contender: &Contender) -> io::Result<Self> {
        let first = "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/acknowledged\"}\n\n".to_owned();
        Self::run(Command::new(contender.program()?), contender, &["--stream".to_owned(), first])
    }

    fn run(mut command: Command, contender: &Contender, to_floor: &[String]) -> io::Result<Self> {
        if contender.role == Role::Floor {
            command.args(to_floor);
        }
        let (process, stdin, stdout) = Process::start(command)?;
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line)?;
        let port = line.trim().parse().map_err(|_| process.explain(io::Error::other("the server printed no port")))?;
        Ok(Self { process, stdin, addr: (Ipv4Addr::LOCALHOST, port).into() })
    }

    pub(super) fn cpu(&self) -> io::Result<Cpu> {
        self.process.cpu()
    }

    /// Closes stdin and waits until the server exits by itself.
    pub(super) fn finish(self) -> io::Result<()> {
        drop(self.stdin);
        self.process.finish()
    }
}

/// The floor's answer, as long as that of our server.
fn answer(era: Era) -> String {
    era.answer(FIRST_ID, &text(super::requests::TEXT_BYTES), false).trim_end().to_owned()
}
