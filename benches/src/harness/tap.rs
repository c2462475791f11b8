//! What `barewire tap` costs between a client and its server, beside the same without it, all on one processor.

use std::error::Error;
use std::fmt::{self, Display, Formatter};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use serde::Serialize;

use super::contender::{self, Contender, OUR_PACKAGE, Role, Speaks};
use super::era::Era;
use super::measure::{Pinned, latency};
use super::server::Server;
use super::workload::Workload;

/// The server that is tapped.
static SERVER: Contender = Contender {
    letter: 'a',
    name: "mcp-server",
    what: "barewire's server, one thread",
    role: Role::Floor,
    speaks: Speaks::Mcp,
    package: OUR_PACKAGE,
};

/// How it is reached, and what is written down on the way.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Way {
    Direct,
    /// Nothing is written down.
    Tap,
    Record,
    RecordAndLog,
}

const WAYS: [Way; 4] = [Way::Direct, Way::Tap, Way::Record, Way::RecordAndLog];

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

/// What a run has found.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    rounds: usize,
    rows: Vec<Row>,
    marks: Vec<Mark>,
}

/// One way under one workload: medians of the rounds, in nanoseconds and for one request.
#[derive(Debug, Serialize)]
struct Row {
    workload: &'static str,
    way: Way,
    /// From question to answer, half of the time. Only one at a time.
    p50: Option<f64>,
    /// More than without a tap in the same round.
    added: Option<f64>,
    /// Requests answered in a second, against those without a tap in the same round.
    throughput: f64,
    /// Processor time of the tap, all threads; of the server, if there is none.
    cpu: f64,
}

#[derive(Debug, Serialize)]
struct Mark {
    what: String,
    found: f64,
    limit: f64,
    kept: bool,
}

#[derive(Clone, Copy)]
struct Round {
    p50: f64,
    wall: f64,
    cpu: f64,
}

/// Measures all ways in turns, so that what disturbs the machine disturbs them alike.
pub(crate) fn run(rounds: usize, say: fn(&str)) -> Result<Report, Box<dyn Error>> {
    contender::build(&[&SERVER])?;
    let program = build()?;
    let scratch = std::env::temp_dir().join(format!("barewire-benches-tap-{}", std::process::id()));
    fs::create_dir_all(&scratch)?;
    let mut report = Report { rounds, rows: Vec::new(), marks: Vec::new() };
    for workload in &WORKLOADS {
        let mut results: [Vec<Round>; 4] = Default::default();
        for turn in 1..=rounds {
            say(&format!("tap, {}, round {turn} of {rounds}", workload.name));
            for offset in 0..WAYS.len() {
                let index = (turn + offset) % WAYS.len();
                results[index].push(round(WAYS[index], workload, &program, &scratch)?);
            }
        }
        report.add(workload, &results);
    }
    fs::remove_dir_all(&scratch)?;
    Ok(report)
}

fn round(way: Way, workload: &Workload, program: &Path, scratch: &Path) -> io::Result<Round> {
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
        burst.check(answers, SERVER.speaks, turn == 0).map_err(io::Error::other)?;
        if turn >= warm_up {
            times.push(time);
        }
    }
    let before = before.expect("there is a burst after the warm-up");
    let count = f64::from(workload.bursts * workload.depth);
    let cpu = server.cpu()?.since(&before) as f64 / count;
    server.finish()?;
    let wall = times.iter().map(|time| time.as_secs_f64()).sum::<f64>() * 1e9 / count;
    Ok(Round { p50: latency(times).p50, wall, cpu })
}

fn command(way: Way, program: &Path, scratch: &Path) -> io::Result<Command> {
    let server = SERVER.program()?;
    let mut command = match way {
        Way::Direct => return Ok(Command::new(server)),
        _ => Command::new(program),
    };
    command.arg("tap");
    if let Way::Record | Way::RecordAndLog = way {
        command.arg("--record").arg(scratch.join("tap.wire"));
    }
    if way == Way::RecordAndLog {
        command.arg("--log").arg(scratch.join("tap.log"));
    }
    command.arg("--").arg(server).stderr(Stdio::inherit());
    Ok(command)
}

/// Builds the program, if this was started by `cargo run`, and says where it is.
fn build() -> io::Result<PathBuf> {
    let own = std::env::current_exe()?;
    if let Some(cargo) = std::env::var_os("CARGO") {
        let target = own.ancestors().nth(2).ok_or_else(|| io::Error::other("not in a target directory"))?;
        let mut build = Command::new(cargo);
        build.args(["build", "--quiet", "--release", "--package", "barewire-cli", "--manifest-path"]);
        build.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/../Cargo.toml")).arg("--target-dir").arg(target);
        if !build.status()?.success() {
            return Err(io::Error::other("the program cannot be built"));
        }
    }
    Ok(own.with_file_name("barewire"))
}

impl Report {
    fn add(&mut self, workload: &Workload, results: &[Vec<Round>; 4]) {
        let direct = &results[0];
        for (way, rounds) in WAYS.into_iter().zip(results) {
            let of = |take: fn(&Round, &Round) -> f64| {
                median(rounds.iter().zip(direct).map(|(one, direct)| take(one, direct)).collect())
            };
            let one_at_a_time = workload.is_ping_pong();
            let row = Row {
                workload: workload.name,
                way,
                p50: one_at_a_time.then(|| of(|one, _| one.p50)),
                added: (one_at_a_time && way != Way::Direct).then(|| of(|one, direct| one.p50 - direct.p50)),
                throughput: of(|one, direct| direct.wall / one.wall),
                cpu: of(|one, _| one.cpu),
            };
            if let Some(added) = row.added
                && workload.text == 64
            {
                let what = format!("{}, {}: added at p50, us", workload.name, name(way));
                self.marks.push(Mark { what, found: added / 1e3, limit: 10.0, kept: added <= 10e3 });
            }
            if !one_at_a_time && way != Way::Direct {
                let what = format!("{}, {}: throughput, of direct", workload.name, name(way));
                let found = row.throughput;
                self.marks.push(Mark { what, found, limit: 0.8, kept: found >= 0.8 });
            }
            self.rows.push(row);
        }
    }
}

impl Display for Report {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} rounds, all processes on one processor\n", self.rounds)?;
        writeln!(f, "{:<22} {:<18} {:>9} {:>9} {:>11} {:>10}", "", "", "p50", "added", "throughput", "CPU")?;
        let micros = |time: Option<f64>| time.map_or(String::new(), |time| format!("{:.2} us", time / 1e3));
        for Row { workload, way, p50, added, throughput, cpu } in &self.rows {
            let (p50, added, cpu) = (micros(*p50), micros(*added), micros(Some(*cpu)));
            let name = name(*way);
            writeln!(f, "{workload:<22} {name:<18} {p50:>9} {added:>9} {throughput:>11.2} {cpu:>10}")?;
        }
        writeln!(f, "\nCPU is that of the tap for one request; of the server where there is no tap.\n")?;
        for Mark { what, found, limit, kept } in &self.marks {
            let verdict = if *kept { "kept" } else { "MISSED" };
            writeln!(f, "{verdict:<7} {what}: {found:.2} (mark {limit})")?;
        }
        Ok(())
    }
}

fn name(way: Way) -> &'static str {
    match way {
        Way::Direct => "direct",
        Way::Tap => "tap",
        Way::Record => "tap --record",
        Way::RecordAndLog => "tap --record --log",
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
