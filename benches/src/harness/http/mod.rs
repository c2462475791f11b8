//! Servers over HTTP: calls over many persistent connections, and idle streams.
//!
//! A round has a fixed time and not a fixed number of calls, because one of the servers stalls for 40 ms with each
//! answer. Each connection has one call in flight, and sends the next as soon as it is answered.

mod load;
mod reply;
mod report;
mod requests;
mod server;
mod streams;

use std::error::Error;
use std::io;
use std::time::Duration;

use load::{Load, LoadEnd};
use report::{HttpReport, HttpRow, StreamRow};
use server::HttpServer;

use super::contender::{Contender, HTTP_PACKAGE, OFFICIAL_HTTP_PACKAGE, Protocol, Role};
use super::era::Era;
use super::measure::{self, Latency};

/// All servers, in the order they take turns.
pub(crate) static CONTENDERS: [Contender; 4] = [
    Contender {
        letter: 'a',
        name: "http-floor",
        what: "hyper with a constant answer",
        role: Role::Floor,
        protocol: Protocol::Bare,
        package: HTTP_PACKAGE,
    },
    Contender {
        letter: 'b',
        name: "http-server",
        what: "barewire's server; legacy with a session",
        role: Role::Ours,
        protocol: Protocol::Mcp,
        package: HTTP_PACKAGE,
    },
    Contender {
        letter: 'd',
        name: "http-rmcp-default",
        what: "rmcp 3.8.0, axum, default configuration, #[tool]",
        role: Role::Theirs,
        protocol: Protocol::Mcp,
        package: OFFICIAL_HTTP_PACKAGE,
    },
    Contender {
        letter: 'e',
        name: BEST_RMCP,
        what: "rmcp 3.8.0, hyper, no delay, no session, JSON, call_tool by hand",
        role: Role::Theirs,
        protocol: Protocol::Mcp,
        package: OFFICIAL_HTTP_PACKAGE,
    },
];

/// The fastest server of the official SDK, which ours has to beat.
const BEST_RMCP: &str = "http-rmcp-best";

/// The result of one round of one contender. Times are in nanoseconds.
#[derive(Clone, Copy, Debug)]
struct HttpRound {
    /// The server's CPU time for one request.
    cpu: f64,
    /// Requests a second.
    rate: f64,
    latency: Latency,
}

/// Runs all measurements over HTTP.
pub(crate) fn run(
    contenders: &[&'static Contender],
    rounds: usize,
    instructions: bool,
    say: fn(&str),
) -> Result<HttpReport, Box<dyn Error>> {
    let mut report = HttpReport::new(rounds);
    for era in ERAS {
        let results = race(contenders, rounds, &format!("{era:?}"), say, |one| round(one, era))?;
        for (contender, result) in contenders.iter().zip(&results) {
            let of =
                |role: fn(&Contender) -> bool| contenders.iter().position(|one| role(one)).map(|at| &results[at][..]);
            let (floor, best) = (of(|one| one.role == Role::Floor), of(|one| one.name == BEST_RMCP));
            report.rows.push(HttpRow::new(era, contender, result, floor, best));
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
        say("instructions are not counted: valgrind is not in PATH");
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

/// Measures all contenders once a round, each round in a different order.
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

/// Measures one round with a fresh server, so that rounds do not depend on each other's memory layout.
fn round(contender: &Contender, era: Era) -> io::Result<HttpRound> {
    let server = HttpServer::start(contender, era)?;
    let mut load = Load::open(&server, contender, era, CONNECTIONS)?;
    load.run(&server, LoadEnd::Time(WARM_UP))?;
    let before = server.cpu()?;
    let run = load.run(&server, LoadEnd::Time(MEASURED_TIME))?;
    let cpu = server.cpu()?.since(&before);
    drop(load);
    server.finish()?;
    let count = run.latencies.len() as f64;
    Ok(HttpRound {
        cpu: cpu as f64 / count,
        rate: count / run.time.as_secs_f64(),
        latency: measure::latency(run.latencies),
    })
}

/// The instructions of one request in user mode: the difference between two runs, the second with twice as many
/// requests.
fn count(contender: &Contender, era: Era) -> io::Result<f64> {
    let count = |requests| {
        let counts = measure::counts_file();
        let server = HttpServer::start_counted(contender, era, &counts)?;
        let mut load = Load::open(&server, contender, era, CONNECTIONS)?;
        load.run(&server, LoadEnd::Count(COUNTED_REQUESTS + requests))?;
        drop(load);
        server.finish()?;
        super::process::count(&counts)
    };
    let (once, twice) = (count(COUNTED_REQUESTS)?, count(2 * COUNTED_REQUESTS)?);
    let more = twice.checked_sub(once).ok_or_else(|| io::Error::other("fewer instructions for more requests"))?;
    Ok(more as f64 / COUNTED_REQUESTS as f64)
}

const ERAS: [Era; 2] = [Era::Modern, Era::Legacy];

/// The number of connections.
const CONNECTIONS: usize = 32;

/// The time before the measurement, in which buffers grow and the allocator warms up.
const WARM_UP: Duration = Duration::from_millis(200);

/// The time of a round: tens of thousands of requests for the fastest server, several hundred for one that stalls with
/// each answer.
const MEASURED_TIME: Duration = Duration::from_millis(800);

/// The requests whose instructions are counted. Under valgrind everything is about fifty times slower.
const COUNTED_REQUESTS: usize = 32 * 25;

/// The rounds for the memory of streams, which hardly varies.
const STREAM_ROUNDS: usize = 3;
