//! One contender and one workload, once: processor time, latencies, instructions, memory.

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
use super::workload::{Likeness, Workload};

/// What one round of one contender gave, in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Round {
    /// Processor time of the server for one request.
    pub(crate) cpu: f64,
    /// Of a ping-pong only.
    pub(crate) latency: Option<Latency>,
    /// Of the answer that was least like the floor's.
    pub(crate) likeness: Likeness,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Latency {
    pub(crate) p50: f64,
    pub(crate) p99: f64,
}

/// One start of one contender, in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Start {
    /// Until its first answer was read.
    pub(crate) wall: f64,
    /// Processor time of the server up to then.
    pub(crate) cpu: f64,
}

/// Runs the workload against a fresh server, so that no round depends on where memory happened to be in another.
pub(crate) fn round(contender: &Contender, workload: &Workload) -> io::Result<Round> {
    let _pinned = if workload.one_core { Some(Pinned::to_one_core()?) } else { None };
    let mut server = Server::start(contender, workload.era)?;
    let mut times = Vec::new();
    let mut burst = workload.burst();
    let warm_up = workload.bursts / WARM_UP;
    let mut before = None;
    let mut likeness = Likeness::Bytes;
    for turn in 0..warm_up + workload.bursts {
        if turn == warm_up {
            before = Some(server.cpu()?);
        }
        burst.next();
        let start = Instant::now();
        let answers = server.exchange(burst.requests(), workload.depth)?;
        let time = start.elapsed();
        let edge = turn == 0 || turn + 1 == warm_up + workload.bursts;
        if burst.check(answers, contender.speaks, edge).map_err(io::Error::other)? == Likeness::Values {
            likeness = Likeness::Values;
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

/// Instructions for one request in user mode, of all threads: what twice as many requests cost more than once as many, so
/// that neither the start nor the warm-up is in it.
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
        burst.check(answers, contender.speaks, turn == bursts).map_err(io::Error::other)?;
    }
    server.finish()?;
    count(&counts)
}

/// Where valgrind writes what it has counted.
pub(crate) fn counts_file() -> PathBuf {
    std::env::temp_dir().join(format!("barewire-benches-{}.callgrind", std::process::id()))
}

/// From before a server is started until it has answered its first call, which follows on what opens a connection.
pub(crate) fn start(contender: &Contender, first: &Workload) -> io::Result<Start> {
    let mut burst = first.burst();
    burst.next();
    let before = Instant::now();
    let mut server = Server::start(contender, first.era)?;
    let answers = server.exchange(burst.requests(), first.depth)?;
    let wall = before.elapsed();
    burst.check(answers, contender.speaks, true).map_err(io::Error::other)?;
    let cpu = server.cpu()?.total();
    server.finish()?;
    Ok(Start { wall: wall.as_secs_f64() * 1e9, cpu: cpu as f64 })
}

/// Instructions from the first to the last of a server that answers one call.
pub(crate) fn start_instructions(contender: &Contender, first: &Workload) -> io::Result<f64> {
    Ok(instructions_of(contender, first, 0)? as f64)
}

/// Whether instructions can be counted here.
pub(crate) fn has_valgrind() -> bool {
    let version = Command::new("valgrind").arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    version.is_ok_and(|status| status.success())
}

/// Resident KiB of a server that has started and has had nothing to do for a second.
pub(crate) fn idle(contender: &Contender, era: Era) -> io::Result<u64> {
    let server = Server::start(contender, era)?;
    thread::sleep(Duration::from_secs(1));
    let resident = server.resident()?;
    server.finish()?;
    Ok(resident)
}

/// This thread, and what it starts, on one processor for as long as this lives.
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
        // What was allowed before is allowed again; if not, the next rounds are slower for everybody alike.
        let _ = sched_setaffinity(None, &self.0);
    }
}

/// The bursts of a round follow on half as many that nobody counts: buffers grow in them, and the allocator learns.
const WARM_UP: u32 = 2;
