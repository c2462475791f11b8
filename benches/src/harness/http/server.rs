//! A server over HTTP as a process: it says its port, and ends when its stdin does.

use std::io::{self, BufRead, BufReader};
use std::net::{Ipv4Addr, SocketAddr};
use std::process::{ChildStdin, Command};

use crate::harness::contender::{Contender, Role};
use crate::harness::era::Era;
use crate::harness::process::{Cpu, Process, counted};
use crate::harness::workload::{FIRST_ID, text};

/// A running server. It does not outlive this value.
pub(super) struct Server {
    pub(super) process: Process,
    stdin: ChildStdin,
    pub(super) addr: SocketAddr,
}

impl Server {
    /// Starts it, found beside this program.
    pub(super) fn start(contender: &Contender, era: Era) -> io::Result<Self> {
        Self::run(Command::new(contender.program()?), contender, &[answer(era)])
    }

    /// The same under valgrind.
    pub(super) fn start_counted(contender: &Contender, era: Era, counts: &std::path::Path) -> io::Result<Self> {
        Self::run(counted(&contender.program()?, counts), contender, &[answer(era)])
    }

    /// The same, to hold streams open.
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
        let port = line.trim().parse().map_err(|_| process.explain(io::Error::other("it says no port")))?;
        Ok(Self { process, stdin, addr: (Ipv4Addr::LOCALHOST, port).into() })
    }

    pub(super) fn cpu(&self) -> io::Result<Cpu> {
        self.process.cpu()
    }

    /// Closes stdin and waits for the server to end by itself.
    pub(super) fn finish(self) -> io::Result<()> {
        drop(self.stdin);
        self.process.finish()
    }
}

/// What the floor answers: as long as the answer of ours.
fn answer(era: Era) -> String {
    era.answer(FIRST_ID, &text(super::requests::TEXT), false).trim_end().to_owned()
}
