//! The cost of `barewire tap` between a client and its server, compared with a direct connection, all on one processor.

use std::error::Error;
use std::fmt::{self, Display, Formatter};
use std::fs;
use std::io;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use serde::Serialize;

use super::contender::{self, Contender, OUR_PACKAGE, Protocol, Role};
use super::era::Era;
use super::measure::{Pinned, latency};
use super::program;
use super::server::Server;
use super::workload::Workload;

/// The server behind the tap.
pub(super) static SERVER: Contender = Contender {
    letter: 'a',
    name: "mcp-server",
    what: "barewire's server, one thread",
    role: Role::Floor,
    protocol: Protocol::Mcp,
    package: OUR_PACKAGE,
};

/// The connection to the server: direct, or through a tap that records or not.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
enum TapMode {
    Direct,
    /// A tap that records nothing.
    Tap,
    Record,
    RecordAndLog,
}

const TAP_MODES: [TapMode; 4] = [TapMode::Direct, TapMode::Tap, TapMode::Record, TapMode::RecordAndLog];

static WORKLOADS: [Workload; 3] = [
    Workload { name: "ping-pong 64 B", ..PING_PONG },
    Workload { name: "ping-pong 4 KiB", text: 4 << 10, ..PING_PONG },
    Workload { name: "64 at a time, 4 KiB", text: 4 << 10, depth: 64, bursts: 64, ..PING_PONG },
];

const PING_PONG: Workload = Workload {
    name: "",
    era: Era::Legacy,
    text: 64,
    is_error: false,
    depth: 1,
    bursts: 4000,
    counted: 0,
    one_core: true,
};

/// The results of a run.
#[derive(Debug, Serialize)]
pub(crate) struct TapReport {
    rounds: usize,
    rows: Vec<TapRow>,
    marks: Vec<TapTarget>,
}

/// The results of one mode under one workload: medians of the rounds, in nanoseconds, for one request.
#[derive(Debug, Serialize)]
struct TapRow {
    workload: &'static str,
    way: TapMode,
    /// The median latency. Only for a ping-pong.
    p50: Option<f64>,
    /// The latency that the tap adds to a direct round trip in the same round.
    added: Option<f64>,
    /// The requests a second, relative to a direct connection in the same round.
    throughput: f64,
    /// The CPU time of the tap, all threads; without a tap, that of the server.
    cpu: f64,
}

#[derive(Debug, Serialize)]
struct TapTarget {
    what: String,
    found: f64,
    limit: f64,
    kept: bool,
}

#[derive(Clone, Copy)]
struct TapRound {
    p50: f64,
    wall: f64,
    cpu: f64,
}

/// Measures all modes in turns, so that disturbances of the machine affect them alike.
pub(crate) fn run(rounds: usize, say: fn(&str)) -> Result<TapReport, Box<dyn Error>> {
    contender::build(&[&SERVER])?;
    let program = program::build()?;
    let scratch = std::env::temp_dir().join(format!("barewire-benches-tap-{}", std::process::id()));
    fs::create_dir_all(&scratch)?;
    let mut report = TapReport { rounds, rows: Vec::new(), marks: Vec::new() };
    for workload in &WORKLOADS {
        let mut results: [Vec<TapRound>; 4] = Default::default();
        for turn in 1..=rounds {
            say(&format!("tap, {}, round {turn} of {rounds}", workload.name));
            for offset in 0..TAP_MODES.len() {
                let index = (turn + offset) % TAP_MODES.len();
                results[index].push(round(TAP_MODES[index], workload, &program, &scratch)?);
            }
        }
        report.add(workload, &results);
    }
    fs::remove_dir_all(&scratch)?;
    Ok(report)
}

fn round(way: TapMode, workload: &Workload, program: &Path, scratch: &Path) -> io::Result<TapRound> {
    let _pinned = Pinned::to_one_core()?;
    let mut server = Server::run(command(way, program, scratch)?, &SERVER, workload.era)?;
    let mut burst = workload.burst();
    let (mut times, mut before) = (Vec::new(), None);
    let warm_up = workload.bursts / 4;
    for turn in 0..warm_up + workload.bursts {
        if turn == warm_up {
            before = Some(server.cpu()?);
        }
        burst.next();
        let start = Instant::now();
        let answers = server.exchange(burst.requests(), workload.depth)?;
        let time = start.elapsed();
        burst.check(answers, SERVER.protocol, turn == 0).map_err(io::Error::other)?;
        if turn >= warm_up {
            times.push(time);
        }
    }
    let before = before.expect("there is a burst after the warm-up");
    let count = f64::from(workload.bursts * workload.depth);
    let cpu = server.cpu()?.since(&before) as f64 / count;
    server.finish()?;
    let wall = times.iter().map(|time| time.as_secs_f64()).sum::<f64>() * 1e9 / count;
    Ok(TapRound { p50: latency(times).p50, wall, cpu })
}

fn command(way: TapMode, program: &Path, scratch: &Path) -> io::Result<Command> {
    let server = SERVER.program()?;
    let mut command = match way {
        TapMode::Direct => return Ok(Command::new(server)),
        _ => Command::new(program),
    };
    command.arg("tap");
    if let TapMode::Record | TapMode::RecordAndLog = way {
        command.arg("--overwrite").arg("--record").arg(scratch.join("tap.wire"));
    }
    if way == TapMode::RecordAndLog {
        command.arg("--log").arg(scratch.join("tap.log"));
    }
    command.arg("--").arg(server).stderr(Stdio::inherit());
    Ok(command)
}

impl TapReport {
    fn add(&mut self, workload: &Workload, results: &[Vec<TapRound>; 4]) {
        let direct = &results[0];
        for (way, rounds) in TAP_MODES.into_iter().zip(results) {
            let of = |take: fn(&TapRound, &TapRound) -> f64| {
                median(rounds.iter().zip(direct).map(|(one, direct)| take(one, direct)).collect())
            };
            let one_at_a_time = workload.is_ping_pong();
            let row = TapRow {
                workload: workload.name,
                way,
                p50: one_at_a_time.then(|| of(|one, _| one.p50)),
                added: (one_at_a_time && way != TapMode::Direct).then(|| of(|one, direct| one.p50 - direct.p50)),
                throughput: of(|one, direct| direct.wall / one.wall),
                cpu: of(|one, _| one.cpu),
            };
            if let Some(added) = row.added
                && workload.text == 64
            {
                let what = format!("{}, {}: added at p50, us", workload.name, name(way));
                self.marks.push(TapTarget { what, found: added / 1e3, limit: 10.0, kept: added <= 10e3 });
            }
            if !one_at_a_time && way != TapMode::Direct {
                let what = format!("{}, {}: throughput, of direct", workload.name, name(way));
                let found = row.throughput;
                self.marks.push(TapTarget { what, found, limit: 0.8, kept: found >= 0.8 });
            }
            self.rows.push(row);
        }
    }
}

impl Display for TapReport {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} rounds, all processes on one processor\n", self.rounds)?;
        writeln!(f, "{:<22} {:<18} {:>9} {:>9} {:>11} {:>10}", "", "", "p50", "added", "throughput", "CPU")?;
        let micros = |time: Option<f64>| time.map_or(String::new(), |time| format!("{:.2} us", time / 1e3));
        for TapRow { workload, way, p50, added, throughput, cpu } in &self.rows {
            let (p50, added, cpu) = (micros(*p50), micros(*added), micros(Some(*cpu)));
            let name = name(*way);
            writeln!(f, "{workload:<22} {name:<18} {p50:>9} {added:>9} {throughput:>11.2} {cpu:>10}")?;
        }
        writeln!(f, "\nCPU is that of the tap for one request; of the server where there is no tap.\n")?;
        for TapTarget { what, found, limit, kept } in &self.marks {
            let verdict = if *kept { "kept" } else { "MISSED" };
            writeln!(f, "{verdict:<7} {what}: {found:.2} (mark {limit})")?;
        }
        Ok(())
    }
}

fn name(way: TapMode) -> &'static str {
    match way {
        TapMode::Direct => "direct",
        TapMode::Tap => "tap",
        TapMode::Record => "tap --record",
        TapMode::RecordAndLog => "tap --record --log",
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
