//! What an answer costs: echo servers on pipes, measured in turns, in one table.
//!
//! Every server is a program of its own beside this one, answers the same `tools/call` with the same bytes, and is asked in
//! the same bursts. See [`USAGE`].

mod harness {
    pub(crate) mod contender;
    pub(crate) mod measure;
    pub(crate) mod server;
    pub(crate) mod table;
    pub(crate) mod workload;
}

use std::error::Error;
use std::io::{self, Write};
use std::process::ExitCode;

use harness::contender::{self, CONTENDERS, Contender, FLOOR};
use harness::measure::{self, Round};
use harness::table::{Idle, Report, Row};
use harness::workload::{WORKLOADS, Workload};

const USAGE: &str = "\
cargo run --release --manifest-path benches/Cargo.toml -- [OPTIONS]

  --quick          5 rounds instead of 21
  --rounds N       N rounds
  --only a,b       only these, by letter or by name
  --instructions   count instructions as well, with valgrind; takes minutes
  --json           the same as JSON, times in nanoseconds
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
    rounds: usize,
    only: Option<Vec<String>>,
    instructions: bool,
    json: bool,
    help: bool,
}

impl Options {
    fn parse(mut args: impl Iterator<Item = String>) -> Result<Self, Box<dyn Error>> {
        let mut options = Self { rounds: 21, only: None, instructions: false, json: false, help: false };
        while let Some(arg) = args.next() {
            let mut value = || args.next().ok_or_else(|| format!("{arg} needs a value"));
            match &*arg {
                "--quick" => options.rounds = 5,
                "--rounds" => options.rounds = value()?.parse::<std::num::NonZeroUsize>()?.get(),
                "--only" => options.only = Some(value()?.split(',').map(str::to_owned).collect()),
                "--instructions" => options.instructions = true,
                "--json" => options.json = true,
                "--help" | "-h" => options.help = true,
                _ => return Err(format!("unknown option {arg}\nhint: --help").into()),
            }
        }
        Ok(options)
    }

    /// The contenders that run, in their order.
    fn contenders(&self) -> Result<Vec<&'static Contender>, String> {
        let named =
            |name: &str, contender: &Contender| name == contender.name || name.chars().eq([contender.letter]);
        let only = self.only.as_deref().unwrap_or_default();
        if let Some(stranger) = only.iter().find(|name| !CONTENDERS.iter().any(|one| named(name, one))) {
            return Err(format!("no contender is called {stranger}"));
        }
        let chosen = |one: &&Contender| self.only.is_none() || only.iter().any(|name| named(name, one));
        Ok(CONTENDERS.iter().filter(|one| one.built).filter(chosen).collect())
    }
}

fn run(options: &Options) -> Result<(), Box<dyn Error>> {
    if options.help {
        return Ok(io::stdout().write_all(USAGE.as_bytes())?);
    }
    if cfg!(debug_assertions) {
        return Err("there is nothing to learn from a debug build\nhint: cargo run --release".into());
    }
    let contenders = options.contenders()?;
    contender::build(&contenders)?;
    let mut report = Report { rounds: options.rounds, ..Report::default() };
    for contender in &contenders {
        let resident_kib = measure::idle(contender).map_err(|error| failed(contender, "idle", &error))?;
        report.idle.push(Idle { contender: contender.name, resident_kib });
    }
    for workload in &WORKLOADS {
        report.rows.extend(race(workload, &contenders, options.rounds)?);
    }
    if options.instructions {
        count_instructions(&mut report, &contenders)?;
    }
    report.judge();
    let mut out = io::stdout().lock();
    if options.json {
        serde_json::to_writer_pretty(&mut out, &report)?;
        writeln!(out)?;
    } else {
        write!(out, "{report}")?;
    }
    Ok(())
}

/// All contenders under one workload, each once a round: what disturbs the machine disturbs them alike. Another one begins
/// each round, so that nobody always comes after the same.
fn race(workload: &Workload, contenders: &[&Contender], rounds: usize) -> Result<Vec<Row>, Box<dyn Error>> {
    let mut results: Vec<Vec<Round>> = vec![Vec::new(); contenders.len()];
    for round in 1..=rounds {
        say(&format!("{}, round {round} of {rounds}", workload.name));
        for turn in 0..contenders.len() {
            let turn = (round + turn) % contenders.len();
            let result = measure::round(contenders[turn], workload);
            results[turn].push(result.map_err(|error| failed(contenders[turn], workload.name, &error))?);
        }
    }
    let floor = contenders.iter().position(|one| one.name == FLOOR.name).map(|floor| &results[floor][..]);
    let rows = contenders.iter().zip(&results);
    Ok(rows.map(|(contender, rounds)| Row::new(workload, contender, rounds, floor)).collect())
}

fn count_instructions(report: &mut Report, contenders: &[&Contender]) -> Result<(), Box<dyn Error>> {
    if !measure::has_valgrind() {
        say("instructions are not counted: there is no valgrind on the PATH");
        return Ok(());
    }
    // The rows stand in this order.
    let pairs = WORKLOADS.iter().flat_map(|workload| contenders.iter().map(move |one| (workload, one)));
    for (row, (workload, contender)) in report.rows.iter_mut().zip(pairs) {
        say(&format!("{}, instructions of {}", workload.name, contender.name));
        let count = measure::instructions(contender, workload);
        row.instructions = Some(count.map_err(|error| failed(contender, workload.name, &error))?);
    }
    Ok(())
}

fn failed(contender: &Contender, what: &str, error: &io::Error) -> String {
    format!("{}: {what}: {error}", contender.title())
}

/// Talk goes to stderr, and is not worth failing for.
fn say(what: &str) {
    let _ = writeln!(io::stderr(), "{what}");
}
