//! Servers over HTTP: calls over many connections that are kept alive, and streams that say nothing.
//!
//! A round is a time, not a number of calls: one of the servers stalls for 40 ms with each answer. Each connection has one
//! call under way; when it is answered, the next follows at once.

mod load;
mod reply;
mod report;
mod requests;
mod server;
mod streams;

use std::error::Error;
use std::io;
use std::time::Duration;

use load::{Load, Until};
use report::{Report, Row, StreamRow};
use server::Server;

use super::contender::{Contender, HTTP_PACKAGE, OFFICIAL_HTTP_PACKAGE, Role, Speaks};
use super::era::Era;
use super::measure::{self, Latency};

/// All servers, in the order they take turns.
pub(crate) static CONTENDERS: [Contender; 4] = [
    Contender {
        letter: 'a',
        name: "http-floor",
        what: "hyper, which reads a body and answers the same to all",
        role: Role::Floor,
        speaks: Speaks::Bare,
        package: HTTP_PACKAGE,
    },
    Contender {
        letter: 'b',
        name: "http-server",
        what: "barewire's server; legacy with a session",
        role: Role::Ours,
        speaks: Speaks::Mcp,
        package: HTTP_PACKAGE,
    },
    Contender {
        letter: 'd',
        name: "http-rmcp-default",
        what: "rmcp 3.8.0, axum, default configuration, #[tool]",
        role: Role::Theirs,
        speaks: Speaks::Mcp,
        package: OFFICIAL_HTTP_PACKAGE,
    },
    Contender {
        letter: 'e',
        name: BEST,
        what: "rmcp 3.8.0, hyper, no delay, no session, JSON, call_tool by hand",
        role: Role::Theirs,
        speaks: Speaks::Mcp,
        package: OFFICIAL_HTTP_PACKAGE,
    },
];

/// The one of theirs that ours has to beat.
const BEST: &str = "http-rmcp-best";

/// What one round of one contender gave. Times are in nanoseconds.
#[derive(Clone, Copy, Debug)]
struct Round {
    /// Processor time of the server for one request.
    cpu: f64,
    /// Requests in a second.
    rate: f64,
    latency: Latency,
}

/// Runs all of it.
pub(crate) fn run(
    contenders: &[&'static Contender],
    rounds: usize,
    instructions: bool,
    say: fn(&str),
) -> Result<Report, Box<dyn Error>> {
    let mut report = Report::new(rounds);
    for era in ERAS {
        let results = race(contenders, rounds, &format!("{era:?}"), say, |one| round(one, era))?;
        for (contender, result) in contenders.iter().zip(&results) {
            let of =
                |role: fn(&Contender) -> bool| contenders.iter().position(|one| role(one)).map(|at| &results[at][..]);
            let (floor, best) = (of(|one| one.role == Role::Floor), of(|one| one.name == BEST));
            report.rows.push(Row::new(era, contender, result, floor, best));
        }
    }
    for era in ERAS {
        let what = format!("{era:?}, idle streams");
        let results = race(contenders, rounds.min(STREAM_ROUNDS), &what, say, |one| streams::measure(one, era))?;
        for (contender, result) in contenders.iter().zip(results) {
            report.streams.push(StreamRow::new(era, contender, result));
        }
    }
    if instructions && !measure::has_valgrind() {
        say("instructions are not counted: there is no valgrind on the PATH");
    } else if instructions {
        let pairs = ERAS.iter().flat_map(|era| contenders.iter().map(move |one| (*era, one)));
        for (row, (era, contender)) in report.rows.iter_mut().zip(pairs) {
            say(&format!("{era:?}, instructions of {}", contender.name));
            let counted = count(contender, era).map_err(|error| failed(contender, &error))?;
            row.instructions = Some(counted);
        }
    }
    report.judge();
    Ok(report)
}

/// All contenders, each once a round, another one first in each.
fn race<T>(
    contenders: &[&Contender],
    rounds: usize,
    what: &str,
    say: fn(&str),
    measure: impl Fn(&Contender) -> io::Result<T>,
) -> Result<Vec<Vec<T>>, Box<dyn Error>> {
    let mut results: Vec<Vec<T>> = contenders.iter().map(|_| Vec::new()).collect();
    for round in 1..=rounds {
        say(&format!("{what}, round {round} of {rounds}"));
        for turn in 0..contenders.len() {
            let turn = (round + turn) % contenders.len();
            let result = measure(contenders[turn]);
            results[turn].push(result.map_err(|error| failed(contenders[turn], &error))?);
        }
    }
    Ok(results)
}

fn failed(contender: &Contender, error: &io::Error) -> String {
    format!("{}: {error}", contender.title())
}

/// One round against a fresh server, so that no round depends on where memory happened to be in another.
fn round(contender: &Contender, era: Era) -> io::Result<Round> {
    let server = Server::start(contender, era)?;
    let mut load = Load::open(&server, contender, era, CONNECTIONS)?;
    load.run(&server, Until::Time(WARM_UP))?;
    let before = server.cpu()?;
    let run = load.run(&server, Until::Time(MEASURED))?;
    let cpu = server.cpu()?.since(&before);
    drop(load);
    server.finish()?;
    let count = run.latencies.len() as f64;
    Ok(Round {
        cpu: cpu as f64 / count,
        rate: count / run.time.as_secs_f64(),
        latency: measure::latency(run.latencies),
    })
}

/// Instructions for one request in user mode: what twice as many requests cost more than once as many.
fn count(contender: &Contender, era: Era) -> io::Result<f64> {
    let count = |requests| {
        let counts = measure::counts_file();
        let server = Server::start_counted(contender, era, &counts)?;
        let mut load = Load::open(&server, contender, era, CONNECTIONS)?;
        load.run(&server, Until::Count(COUNTED + requests))?;
        drop(load);
        server.finish()?;
        super::process::count(&counts)
    };
    let (once, twice) = (count(COUNTED)?, count(2 * COUNTED)?);
    let more = twice.checked_sub(once).ok_or_else(|| io::Error::other("fewer instructions for more requests"))?;
    Ok(more as f64 / COUNTED as f64)
}

const ERAS: [Era; 2] = [Era::Modern, Era::Legacy];

/// Connections at once.
const CONNECTIONS: usize = 32;

/// Before anything is counted: buffers grow, and the allocator learns.
const WARM_UP: Duration = Duration::from_millis(200);

/// Some ten thousands of requests of the fastest, and several hundreds of one that stalls with each answer.
const MEASURED: Duration = Duration::from_millis(800);

/// Requests whose instructions are counted; everything is some fifty times slower then.
const COUNTED: usize = 32 * 25;

/// How often the memory of streams is looked at: it hardly varies.
const STREAM_ROUNDS: usize = 3;
