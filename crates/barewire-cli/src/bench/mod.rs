//! `barewire bench`: load for a server on stdio or over HTTP, and how it bears it.

mod live;
mod report;
mod request_plan;
mod targets;

use std::ffi::OsString;
use std::io::Write;
use std::str::FromStr;
use std::time::Duration;

use barewire_proto::mcp::Revision;
use barewire_workbench::load::{
    self, Amount, ConnectError, ConnectFailure, Ending, LoadSettings, MeasuredServer, Stop, Target, UnfitAnswer,
};
use tokio::runtime::Builder;
use tokio::sync::watch;

use crate::along::Along;
use crate::ask::no_answer::{NoAnswer, RequestContext};
use crate::ask::request::{Naming, PlannedRequest};
use crate::failure::cannot_begin;
use crate::output::Output;
use crate::platform::Signals;
use crate::{Exit, Failure};
use barewire_workbench::duration;
use live::Live;
use request_plan::{Payload, RequestPlan, no_answer};

/// Load an MCP server with requests, and measure how it bears it.
///
/// Starts PROGRAM, or goes to a URL, finds out which revision of MCP the server speaks, and sends one request again and again:
/// what the server has for a ping, or what WHAT names. No tool is called that is not named. It is sent once before
/// everything else, to see what a good answer looks like; from then on, answers that are lost, come twice or
/// differ are counted.
#[derive(clap::Args)]
#[command(before_help = EXAMPLES, after_help = NOTES)]
pub(crate) struct Args {
    /// The name of a tool; or what `barewire call` takes: a method as tools/list, tools, read URI, prompt NAME. Without it, ping
    /// or in the modern era server/discover
    what: Option<String>,
    /// Its arguments: key=value, or one JSON object; @FILE reads that from a file, - from stdin
    #[arg(value_name = "ARGUMENT")]
    arguments: Vec<OsString>,
    /// The program to start, and its arguments
    #[arg(last = true, value_name = "PROGRAM")]
    program: Vec<OsString>,
    /// Load the server at this URL, over HTTP
    #[arg(long, value_name = "URL")]
    url: Option<String>,
    #[command(flatten)]
    along: Along,
    /// The process of the server at --url, if its CPU time and memory are to be measured
    #[arg(long, value_name = "PID", requires = "url")]
    pid: Option<u32>,
    /// Load this server too, in turns with the first, and compare: a program or a URL; can be given several times
    #[arg(long, value_name = "NAME=PROGRAM")]
    against: Vec<String>,
    /// Have at most so many requests open at once [default: 1; with --rate 1000]
    #[arg(long, short = 'n', value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    in_flight: Option<u32>,
    /// Send so many requests a second, whatever comes back; without it, as fast as answers come
    #[arg(long, value_name = "PER-SECOND", value_parser = rate)]
    rate: Option<f64>,
    /// Send a text of so many bytes along, each time another one: in the first text argument that is free, in KEY, or in _meta
    /// where there are no arguments
    #[arg(long, value_name = "[KEY=]BYTES", value_parser = Payload::parse)]
    payload: Option<Payload>,
    /// Go on for so long, for each server
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = duration::parse_nonzero)]
    duration: Duration,
    /// Send so many requests to each server, however long it takes
    #[arg(long, value_name = "N", conflicts_with = "duration", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// Go on for so long before anything is counted
    #[arg(long, value_name = "TIME", default_value = "500ms", value_parser = duration::parse)]
    warm_up: Duration,
    /// Take a request for lost that has no answer after this
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = duration::parse_nonzero)]
    timeout: Duration,
    /// Speak this revision of MCP and no other
    #[arg(long, value_name = "REVISION", value_parser = Revision::from_str)]
    revision: Option<Revision>,
    /// WHAT is the name of a tool, also if something else has this name
    #[arg(long, conflicts_with = "method", requires = "what")]
    tool: bool,
    /// WHAT is a method, also if MCP has none of this name
    #[arg(long, requires = "what")]
    method: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  barewire bench -- my-server                             round trips, one after the other
  barewire bench --in-flight 64 -- my-server              as many as it can, 64 at a time
  barewire bench echo --payload 4096 -- my-server         a tool, with 4 KiB of text
  barewire bench add a=19 b=23 --count 10000 -- my-server
  barewire bench --rate 2000 --duration 30 -- my-server   at a fixed rate
  barewire bench --url http://127.0.0.1:8808/mcp --in-flight 8
  barewire bench echo --payload 64 --against old='./server-1 --stdio' -- ./server-2 --stdio
  barewire bench --json -- my-server                      for scripts";

const NOTES: &str = "\
At a fixed rate latency counts from when a request was due, not from when it could be sent: a
server that stalls for a second is seen to do so by all that were due in that second, not by one.

Several servers take turns of some 200 ms, in changing order, so that what disturbs the machine
disturbs all of them. Ratios are those to the first. All are sent the same request: without WHAT,
those that speak both eras are asked with a ping as soon as one of them speaks only the older.

An answer is wrong if it is an error or says isError, if nobody asked under its id, if the id is
written otherwise than it was asked (1.0 for 1; on stdio, over HTTP that is not seen), if it is of
another kind than the first, and, if the first repeated the text that was sent, if it does not.

CPU time is counted in ticks of the system's clock, mostly 10 ms: less than one is unknown, not 0.

With --json the object has `stopped`, whether a signal ended it early, and `servers`. Each has:
  name, server, transport, revision, era
  request          method, name, bytes
  load             in_flight, rate, payload, duration, count, warm_up, timeout
  seconds          how long there was something to send or to wait for
  sent, answered   requests, and good answers
  lost, late       without an answer within --timeout or because the connection was refused or
                   cut, and answers after that
  duplicated       second answers
  wrong            by kind: unknown_id, id, no_message, error, kind, echo, http
  unsent           due at a fixed rate, and not sent for want of room in flight
  throughput       good answers a second
  latency_us       min, mean, p50, p90, p99, p999, max
  histogram        up_to_us and count, row by row
  lag_us           p50, p99 and max of how late we were ourselves, at a fixed rate
  usage            of the server: cpu_seconds, cpu_us_per_request, memory, peak_memory, processes
  generator        of this program: cpu_us_per_request
  ratio            to the first server: throughput, p50, p99, cpu
  broken           why it ended before its time

Ctrl-C and SIGTERM end it early; what was measured until then is printed. A server that has gone
away, so that it cannot be reached any more, is measured up to there.

Exit codes: 0 all answers were good, 1 some were lost, duplicated or wrong, 2 nothing was measured.";

pub(crate) fn run(args: &Args, output: &mut Output) -> Result<Exit, Failure> {
    let targets = targets::targets(args)?;
    let plan = args.request_plan()?;
    if let Some(pid) = args.pid.filter(|pid| load::usage(*pid).is_none()) {
        return Err(Failure::new(format!("--pid {pid}: there is no such process in /proc")));
    }
    let runtime = Builder::new_current_thread().enable_all().build().map_err(|error| cannot_begin(&error))?;
    let done = runtime.block_on(bench(args, &targets, &plan, output));
    runtime.shutdown_background();
    done
}

async fn bench(args: &Args, targets: &[Target], plan: &RequestPlan<'_>, output: &mut Output) -> Result<Exit, Failure> {
    // Before anything is started that a signal could leave behind.
    let stop = Stop::new();
    let mut signals = count_signals(&stop).map_err(|error| cannot_begin(&error))?;
    let settings = args.settings();
    let mut servers = tokio::select! {
        servers = load::connect(targets, plan, &settings) => {
            servers.map_err(|error| args.cannot_connect(error, targets))?
        }
        () = signalled(&mut signals, 1) => return Err(Failure::new(STOPPED)),
    };
    let mut live = Live::stderr();
    let ending = load::measure(&mut servers, &settings, &stop, &mut |progress| live.show(progress)).await;
    live.clear();
    let is_stopped = ending.map_err(|error| cannot_begin(&error))? == Ending::Stopped;
    let is_measured = servers.iter().any(|server| server.tally().sent > 0);
    if is_measured {
        report::print(output, args, &settings, &servers, is_stopped)?;
        // The numbers are there before the programs have ended.
        output.flush()?;
    }
    let finish = async {
        for server in &mut servers {
            server.close().await;
        }
    };
    tokio::select! {
        () = finish => {}
        // Their watchers end the programs without us.
        () = signalled(&mut signals, 1 + u32::from(is_stopped)) => {}
    }
    if !is_measured {
        return Err(unmeasured(&servers));
    }
    Ok(if servers.iter().all(MeasuredServer::is_clean) { Exit::Clean } else { Exit::No })
}

/// Ends the load at the first signal, and counts them all.
fn count_signals(stop: &Stop) -> std::io::Result<watch::Receiver<u32>> {
    let mut signals = Signals::catch()?;
    let (count, counted) = watch::channel(0);
    let stop = stop.clone();
    tokio::spawn(async move {
        loop {
            signals.next().await;
            stop.stop();
            count.send_modify(|count| *count += 1);
        }
    });
    Ok(counted)
}

/// Waits until there were so many signals.
async fn signalled(signals: &mut watch::Receiver<u32>, times: u32) {
    if signals.wait_for(|count| *count >= times).await.is_err() {
        // The counting task ends with the runtime only.
        std::future::pending().await
    }
}

/// Returns the reason why there are no numbers: the servers are gone, or a signal came first.
fn unmeasured(servers: &[MeasuredServer]) -> Failure {
    let broken: Vec<String> = match servers {
        [server] => server.broken().iter().map(ToString::to_string).collect(),
        several => several.iter().filter_map(|it| Some(format!("{}: {}", it.name(), it.broken()?))).collect(),
    };
    match broken.len() == servers.len() {
        true => Failure::new(format!("nothing was measured: {}", broken.join("; "))),
        false => Failure::new(STOPPED),
    }
}

const STOPPED: &str = "stopped before anything was measured";

impl Args {
    fn settings(&self) -> LoadSettings {
        let usual = if self.rate.is_some() { 1000 } else { 1 };
        let in_flight = self.in_flight.unwrap_or(usual);
        let mut settings = LoadSettings::default();
        settings.in_flight = usize::try_from(in_flight).expect("no more than 100,000");
        settings.rate = self.rate;
        settings.amount = self.count.map_or(Amount::For(self.duration), Amount::Count);
        settings.warm_up = self.warm_up;
        settings.timeout = self.timeout;
        settings.revision = self.revision;
        settings
    }

    fn request_plan(&self) -> Result<RequestPlan<'_>, Failure> {
        let naming = match (self.tool, self.method) {
            (true, _) => Naming::Tool,
            (false, true) => Naming::Method,
            (false, false) => Naming::Any,
        };
        let ask = self.what.as_ref().map(|what| PlannedRequest::read(what, &self.arguments, naming)).transpose()?;
        let plan = RequestPlan { args: self, ask };
        plan.check()?;
        Ok(plan)
    }

    fn context(&self, target: &Target) -> RequestContext {
        RequestContext {
            revision: self.revision,
            timeout: self.timeout,
            over_http: target.is_url(),
            with_bearer: self.along.has_bearer() && target.name() == targets::URL_NAME,
        }
    }

    /// Returns the failure for a server that cannot be loaded.
    fn cannot_connect(&self, error: ConnectError, targets: &[Target]) -> Failure {
        let target = targets.iter().find(|target| target.name() == error.server);
        let context = self.context(target.expect("the error is about one of the targets"));
        let what = error.reason.to_string();
        let failure = match error.reason {
            ConnectFailure::Spawn(error) => NoAnswer::not_started(&error).into(),
            ConnectFailure::Client(error) => no_answer(&error, &context),
            ConnectFailure::Request(failure) => failure,
            ConnectFailure::TimedOut { method, .. } => NoAnswer::timed_out(&method, &context).into(),
            ConnectFailure::Unfit { answer: UnfitAnswer::InputRequired, .. } => Failure::new(what)
                .with_hint("there is nobody to ask in a benchmark; barewire call asks at the terminal"),
            ConnectFailure::Unfit { .. } => {
                Failure::new(what).with_hint("barewire call shows the answer; only what succeeds is measured")
            }
            _ => Failure::new(what),
        };
        self.named(failure, &error.server)
    }

    /// Adds the name of the server to a failure, if there are several servers.
    fn named(&self, failure: Failure, server: &str) -> Failure {
        match self.against.is_empty() {
            true => failure,
            false => failure.about(server),
        }
    }
}

fn rate(text: &str) -> Result<f64, &'static str> {
    match text.parse() {
        Ok(rate) if (0.001..=10_000_000.0).contains(&rate) => Ok(rate),
        _ => Err("a number of requests a second is expected, up to ten million"),
    }
}
