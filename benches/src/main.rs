//! The cost of a request: echo servers on pipes and over HTTP, measured in turns, in one table; and the cost of
//! building a server.
//!
//! Every server is a separate program, answers the same `tools/call`, and gets the same bursts of requests. See
//! [`USAGE`].

mod harness {
    pub(crate) mod contender;
    pub(crate) mod era;
    pub(crate) mod http;
    pub(crate) mod measure;
    pub(crate) mod minimal;
    pub(crate) mod process;
    mod program;
    pub(crate) mod server;
    pub(crate) mod suite;
    pub(crate) mod table;
    pub(crate) mod tap;
    pub(crate) mod verbs;
    pub(crate) mod workload;
}

use std::error::Error;
use std::fmt::Display;
use std::io::{self, Write};
use std::process::ExitCode;

use harness::contender::{self, Contender, Role};
use harness::http;
use harness::measure;
use harness::minimal;
use harness::suite::{SUITES, Suite};
use harness::table::{Idle, Report, Row, StartRow};
use harness::tap;
use harness::verbs;
use harness::workload::Workload;
use serde::Serialize;

const USAGE: &str = "\
cargo run --release --manifest-path benches/Cargo.toml -- [SUBJECT] [OPTIONS]

  wire             the cost of a request in the engine (the default)
  mcp              the cost of a tool call in an MCP server, legacy and modern, and the time of its start
  http             the cost of a tool call in an MCP server over HTTP, legacy and modern, and of an idle stream
  tap              the cost of barewire tap between a client and its server
  verbs            the instructions of read, check, tap and replay for a frame, with valgrind
  build            the number of crates of a minimal MCP server, and the CPU time to build them

  --quick          5 rounds instead of 21
  --rounds N       N rounds; the default of build is 1
  --only a,b       only these servers, by letter or by name
  --instructions   also count instructions, with valgrind; takes minutes
  --json           print JSON, with times in nanoseconds
";

fn main() -> ExitCode {
    match Options::parse(std::env::args().skip(1)).and_then(|options| run(&options)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say(&format!("barewire-benches: {error}"));
            ExitCode::from(2)
        }
    }
}

struct Options {
    what: Subject,
    rounds: Option<usize>,
    only: Option<Vec<String>>,
    instructions: bool,
    json: bool,
    help: bool,
}

enum Subject {
    Race(&'static Suite),
    Http,
    Tap,
    Verbs,
    Build,
}

impl Options {
    fn parse(mut args: impl Iterator<Item = String>) -> Result<Self, Box<dyn Error>> {
        let mut options = Self {
            what: Subject::Race(&SUITES[0]),
            rounds: None,
            only: None,
            instructions: false,
            json: false,
            help: false,
        };
        while let Some(arg) = args.next() {
            let mut value = || args.next().ok_or_else(|| format!("{arg} needs a value"));
            match &*arg {
                "--quick" => options.rounds = Some(5),
                "--rounds" => options.rounds = Some(value()?.parse::<std::num::NonZeroUsize>()?.get()),
                "--only" => options.only = Some(value()?.split(',').map(str::to_owned).collect()),
                "--instructions" => options.instructions = true,
                "--json" => options.json = true,
                "--help" | "-h" => options.help = true,
                "http" => options.what = Subject::Http,
                "tap" => options.what = Subject::Tap,
                "verbs" => options.what = Subject::Verbs,
                "build" => options.what = Subject::Build,
                word => match SUITES.iter().find(|suite| suite.name == word) {
                    Some(suite) => options.what = Subject::Race(suite),
                    None => return Err(format!("unknown option {arg}\nhint: --help").into()),
                },
            }
        }
        Ok(options)
    }

    /// The contenders that run, in their order.
    fn contenders(&self, all: &'static [Contender]) -> Result<Vec<&'static Contender>, String> {
        let named = |name: &str, contender: &Contender| name == contender.name || name.chars().eq([contender.letter]);
        let only = self.only.as_deref().unwrap_or_default();
        if let Some(stranger) = only.iter().find(|name| !all.iter().any(|one| named(name, one))) {
            return Err(format!("unknown server {stranger}\nhint: --only takes letters or names of the table"));
        }
        let chosen = |one: &&Contender| self.only.is_none() || only.iter().any(|name| named(name, one));
        Ok(all.iter().filter(chosen).collect())
    }
}

fn run(options: &Options) -> Result<(), Box<dyn Error>> {
    if options.help {
        return Ok(io::stdout().write_all(USAGE.as_bytes())?);
    }
    if cfg!(debug_assertions) {
        return Err("a debug build cannot be measured\nhint: cargo run --release".into());
    }
    match options.what {
        Subject::Race(suite) => {
            let report = race_all(suite, options)?;
            print(&report, options.json)
        }
        Subject::Http => {
            let contenders = options.contenders(&http::CONTENDERS)?;
            contender::build(&contenders)?;
            let rounds = options.rounds.unwrap_or(DEFAULT_ROUNDS);
            let report = http::run(&contenders, rounds, options.instructions, say)?;
            print(&report, options.json)
        }
        Subject::Tap => {
            let report = tap::run(options.rounds.unwrap_or(DEFAULT_ROUNDS), say)?;
            print(&report, options.json)
        }
        Subject::Verbs => print(&verbs::run(say)?, options.json),
        Subject::Build => {
            let report = minimal::build(options.rounds.unwrap_or(1), say)?;
            print(&report, options.json)
        }
    }
}

fn print(report: &(impl Serialize + Display), json: bool) -> Result<(), Box<dyn Error>> {
    let mut out = io::stdout().lock();
    if json {
        serde_json::to_writer_pretty(&mut out, report)?;
        writeln!(out)?;
    } else {
        write!(out, "{report}")?;
    }
    Ok(())
}

fn race_all(suite: &'static Suite, options: &Options) -> Result<Report, Box<dyn Error>> {
    let contenders = options.contenders(suite.contenders)?;
    contender::build(&contenders)?;
    let rounds = options.rounds.unwrap_or(DEFAULT_ROUNDS);
    let mut report = Report::new(suite, rounds);
    for contender in &contenders {
        let resident_kib =
            measure::idle(contender, suite.workloads[0].era).map_err(|error| failed(contender, "idle", &error))?;
        report.idle.push(Idle { contender: contender.name, resident_kib });
    }
    let floor = contenders.iter().position(|one| one.role == Role::Floor);
    for workload in suite.workloads {
        let results = race(workload, &contenders, rounds, measure::round)?;
        let floor = floor.map(|at| &results[at][..]);
        for (contender, rounds) in contenders.iter().zip(&results) {
            report.rows.push(Row::new(workload, contender, rounds, floor));
        }
    }
    for first in suite.starts {
        let results = race(first, &contenders, rounds * STARTS_PER_ROUND, measure::start)?;
        let floor = floor.map(|at| &results[at][..]);
        for (contender, starts) in contenders.iter().zip(&results) {
            report.starts.push(StartRow::new(first, contender, starts, floor));
        }
    }
    if options.instructions {
        count_instructions(suite, &mut report, &contenders)?;
    }
    report.judge();
    Ok(report)
}

/// Measures all contenders under one workload, each once a round, so that disturbances of the machine affect them
/// alike. Each round starts with another contender, so that none always follows the same one.
fn race<T>(
    workload: &Workload,
    contenders: &[&Contender],
    rounds: usize,
    measure: fn(&Contender, &Workload) -> io::Result<T>,
) -> Result<Vec<Vec<T>>, Box<dyn Error>> {
    let mut results: Vec<Vec<T>> = contenders.iter().map(|_| Vec::new()).collect();
    for round in 1..=rounds {
        say(&format!("{}, round {round} of {rounds}", workload.name));
        for turn in 0..contenders.len() {
            let turn = (round + turn) % contenders.len();
            let result = measure(contenders[turn], workload);
            results[turn].push(result.map_err(|error| failed(contenders[turn], workload.name, &error))?);
        }
    }
    Ok(results)
}

fn count_instructions(suite: &Suite, report: &mut Report, contenders: &[&Contender]) -> Result<(), Box<dyn Error>> {
    if !measure::has_valgrind() {
        say("instructions are not counted: valgrind is not in PATH");
        return Ok(());
    }
    let count = |workload: &Workload, contender: &Contender, measure: fn(&Contender, &Workload) -> io::Result<f64>| {
        say(&format!("{}, instructions of {}", workload.name, contender.name));
        measure(contender, workload).map_err(|error| failed(contender, workload.name, &error))
    };
    // The rows are in this order.
    let pairs = suite.workloads.iter().flat_map(|workload| contenders.iter().map(move |one| (workload, one)));
    for (row, (workload, contender)) in report.rows.iter_mut().zip(pairs) {
        row.instructions = Some(count(workload, contender, measure::instructions)?);
    }
    let pairs = suite.starts.iter().flat_map(|first| contenders.iter().map(move |one| (first, one)));
    for (row, (first, contender)) in report.starts.iter_mut().zip(pairs) {
        row.instructions = Some(count(first, contender, measure::start_instructions)?);
    }
    Ok(())
}

fn failed(contender: &Contender, what: &str, error: &io::Error) -> String {
    format!("{}: {what}: {error}", contender.title())
}

/// Prints a progress message to stderr. An error of that is ignored.
fn say(what: &str) {
    let _ = writeln!(io::stderr(), "{what}");
}

/// The default number of rounds.
const DEFAULT_ROUNDS: usize = 21;

/// The starts in each round. Their times vary more than all others, and each takes a few milliseconds.
const STARTS_PER_ROUND: usize = 5;
