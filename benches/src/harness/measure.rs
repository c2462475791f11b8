//! One measurement of one contender under one workload: CPU time, latencies, instructions, memory.

use std::io;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use super::contender::Contender;
use super::era::Era;
use super::process::count;
use super::server::Server;
use super::workload::{AnswerMatch, Workload};

/// The result of one round of one contender, in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Round {
    /// The server's CPU time for one request.
    pub(crate) cpu: f64,
    /// Only for a ping-pong.
    pub(crate) latency: Option<Latency>,
    /// The weakest match of an answer with that of the floor.
    pub(crate) likeness: AnswerMatch,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Latency {
    pub(crate) p50: f64,
    pub(crate) p99: f64,
}

/// The times of one start of one contender, in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Start {
    /// The time until its first answer was read.
    pub(crate) wall: f64,
    /// The server's CPU time until then.
    pub(crate) cpu: f64,
}

/// Runs the workload with a fresh server, so that rounds do not depend on each other's memory layout.
pub(crate) fn round(contender: &Contender, workload: &Workload) -> io::Result<Round> {
    let _pinned = if workload.one_core { Some(Pinned::to_one_core()?) } else { None };
    let mut server = Server::start(contender, workload.era)?;
    let mut times = Vec::new();
    let mut burst = workload.burst();
    let warm_up = workload.bursts / WARM_UP_DIVISOR;
    let mut before = None;
    let mut likeness = AnswerMatch::Bytes;
    for turn in 0..warm_up + workload.bursts {
        if turn == warm_up {
            before = Some(server.cpu()?);
        }
        burst.next();
        let start = Instant::now();
        let answers = server.exchange(burst.requests(), workload.depth)?;
        let time = start.elapsed();
        let edge = turn == 0 || turn + 1 == warm_up + workload.bursts;
        if burst.check(answers, contender.protocol, edge).map_err(io::Error::other)? == AnswerMatch::Values {
            likeness = AnswerMatch::Values;
        }
        if turn >= warm_up {
            times.push(time);
        }
    }
    let before = before.expect("there is at least one burst after the warm-up");
    let cpu = server.cpu()?.since(&before);
    server.finish()?;
    let cpu = cpu as f64 / f64::from(workload.bursts * workload.depth);
    Ok(Round { cpu, latency: workload.is_ping_pong().then(|| latency(times)), likeness })
}

pub(crate) fn latency(mut times: Vec<Duration>) -> Latency {
    times.sort();
    let at = |percent: usize| times[(times.len() - 1) * percent / 100].as_secs_f64() * 1e9;
    Latency { p50: at(50), p99: at(99) }
}

/// The instructions of one request in user mode, of all threads: the difference between two runs, the second with twice
/// as many requests, so that the start and the warm-up are not included.
pub(crate) fn instructions(contender: &Contender, workload: &Workload) -> io::Result<f64> {
    let once = instructions_of(contender, workload, workload.counted)?;
    let twice = instructions_of(contender, workload, 2 * workload.counted)?;
    let more = twice.checked_sub(once).ok_or_else(|| io::Error::other("fewer instructions for more requests"))?;
    Ok(more as f64 / f64::from(workload.counted * workload.depth))
}

fn instructions_of(contender: &Contender, workload: &Workload, bursts: u32) -> io::Result<u64> {
    let counts = counts_file();
    let mut server = Server::start_counted(contender, workload.era, &counts)?;
    let mut burst = workload.burst();
    for turn in 0..=bursts {
        burst.next();
        let answers = server.exchange(burst.requests(), workload.depth)?;
        burst.check(answers, contender.protocol, turn == bursts).map_err(io::Error::other)?;
    }
    server.finish()?;
    count(&counts)
}

/// The file that valgrind writes its counts to.
pub(crate) fn counts_file() -> PathBuf {
    std::env::temp_dir().join(format!("barewire-benches-{}.callgrind", std::process::id()))
}

/// Measures the time from the start of a server until it has answered its first call, including the opening of the
/// connection.
pub(crate) fn start(contender: &Contender, first: &Workload) -> io::Result<Start> {
    let mut burst = first.burst();
    burst.next();
    let before = Instant::now();
    let mut server = Server::start(contender, first.era)?;
    let answers = server.exchange(burst.requests(), first.depth)?;
    let wall = before.elapsed();
    burst.check(answers, contender.protocol, true).map_err(io::Error::other)?;
    let cpu = server.cpu()?.total();
    server.finish()?;
    Ok(Start { wall: wall.as_secs_f64() * 1e9, cpu: cpu as f64 })
}

/// All instructions of a server that answers one call.
pub(crate) fn start_instructions(contender: &Contender, first: &Workload) -> io::Result<f64> {
    Ok(instructions_of(contender, first, 0)? as f64)
}

/// Whether valgrind is installed, which counts instructions.
pub(crate) fn has_valgrind() -> bool {
    let version = Command::new("valgrind").arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    version.is_ok_and(|status| status.success())
}

/// The resident memory of a server that has been idle for a second after its start, in KiB.
pub(crate) fn idle(contender: &Contender, era: Era) -> io::Result<u64> {
    let server = Server::start(contender, era)?;
    thread::sleep(Duration::from_secs(1));
    let resident = server.resident()?;
    server.finish()?;
    Ok(resident)
}

/// Keeps this thread and its children on one processor until it is dropped.
pub(crate) struct Pinned(CpuSet);

impl Pinned {
    pub(crate) fn to_one_core() -> io::Result<Self> {
        let allowed = sched_getaffinity(None)?;
        let first = (0..CpuSet::MAX_CPU).find(|&cpu| allowed.is_set(cpu));
        let mut one = CpuSet::new();
        one.set(first.ok_or_else(|| io::Error::other("no processor to run on"))?);
        sched_setaffinity(None, &one)?;
        Ok(Self(allowed))
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        // Restores the processors from before. If that fails, the next rounds are slower for all contenders alike.
        let _ = sched_setaffinity(None, &self.0);
    }
}

/// The warm-up has half as many bursts as the round. Buffers grow in it, and the allocator warms up.
const WARM_UP_DIVISOR: u32 = 2;
