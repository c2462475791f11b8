//! `barewire bench`: a load test for servers on stdio or over HTTP.

mod progress_line;
mod report;
mod request_plan;
mod targets;

use std::ffi::OsString;
use std::str::FromStr;
use std::time::Duration;

use barewire_proto::mcp::Revision;
use barewire_workbench::load::{
    self, Amount, BadFirstAnswer, ConnectError, ConnectFailure, LoadEnd, LoadSettings, LoadTarget, MeasuredServer,
    StopHandle,
};
use tokio::runtime::Builder;
use tokio::sync::watch;

use crate::ask::no_answer::{NoAnswer, RequestContext};
use crate::ask::request::{Naming, PlannedRequest};
use crate::failure::runtime_failure;
use crate::output::Output;
use crate::platform::Signals;
use crate::renewals::shut_down;
use crate::url_headers::UrlHeaders;
use crate::{Exit, Failure};
use barewire_workbench::duration;
use progress_line::ProgressLine;
use report::BenchReport;
use request_plan::{Payload, RequestPlan, no_answer};

/// Load an MCP server with requests, and measure throughput, latency and wrong answers.
///
/// Starts PROGRAM, or connects to a URL, negotiates a revision of MCP, and sends one request repeatedly: a ping or its
/// equivalent, or the request that WHAT names. A tool is only called if WHAT names it. Later answers are compared with
/// the first one, and lost, duplicate and wrong answers are counted.
#[derive(clap::Args)]
#[command(before_help = EXAMPLES, after_help = NOTES, override_usage = USAGE)]
pub(crate) struct Args {
    /// The name of a tool, or another request as in `barewire call`: a method such as tools/list, tools, read URI,
    /// prompt NAME. Default: ping, or server/discover in the modern era
    what: Option<String>,
    /// The arguments: key=value, or one JSON object; @FILE reads the object from a file, - from
    /// stdin
    #[arg(value_name = "ARGUMENT")]
    arguments: Vec<OsString>,
    /// The program to start, and its arguments; the -- before it can be left out, unless a word before it is also the
    /// name of a program
    #[arg(last = true, value_name = "PROGRAM")]
    program: Vec<OsString>,
    /// Load the server at this URL, over HTTP
    #[arg(long, value_name = "URL")]
    url: Option<String>,
    #[command(flatten)]
    url_headers: UrlHeaders,
    /// The process id of the server at --url, to measure its CPU time and memory
    #[arg(long, value_name = "PID", requires = "url")]
    pid: Option<u32>,
    /// Also load this server, in turns with the first, and compare: a program or a URL; can be given several times
    #[arg(long, value_name = "NAME=PROGRAM")]
    against: Vec<String>,
    /// Keep at most this many requests in flight [default: 1; with --rate 1000]
    #[arg(long, short = 'n', value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    in_flight: Option<u32>,
    /// Send this many requests per second. Default: as fast as answers arrive
    #[arg(long, value_name = "PER-SECOND", value_parser = rate)]
    rate: Option<f64>,
    /// Add a text of this many bytes, different in every request: in the first unused text argument, in KEY, or in
    /// _meta if there are no arguments
    #[arg(long, value_name = "[KEY=]BYTES", value_parser = Payload::parse)]
    payload: Option<Payload>,
    /// Load each server for this long
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = duration::parse_nonzero)]
    duration: Duration,
    /// Send this many requests to each server, however long it takes
    #[arg(long, value_name = "N", conflicts_with = "duration", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// First send requests to each server for this long, without counting them
    #[arg(long, value_name = "TIME", default_value = "500ms", value_parser = duration::parse)]
    warm_up: Duration,
    /// Count a request without an answer after this time as lost
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = duration::parse_nonzero)]
    timeout: Duration,
    /// Use only this revision of MCP
    #[arg(long, value_name = "REVISION", value_parser = Revision::from_str)]
    revision: Option<Revision>,
    /// Treat WHAT as the name of a tool, even if it is also a method or a word such as tools
    #[arg(long, conflicts_with = "method", requires = "what")]
    tool: bool,
    /// Treat WHAT as a method, even if MCP has no such method
    #[arg(long, requires = "what")]
    method: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

const USAGE: &str = "\
barewire bench [OPTIONS] [WHAT] [ARGUMENT]... [--] <PROGRAM>...\n       barewire bench [OPTIONS] [WHAT] [ARGUMENT]... --url <URL>";

const EXAMPLES: &str = "\
Examples:
  barewire bench -- my-server                             one request at a time
  barewire bench --in-flight 64 -- my-server              64 requests in flight
  barewire bench echo --payload 4096 -- my-server         a tool, with 4 KiB of text
  barewire bench add a=19 b=23 --count 10000 -- my-server
  barewire bench --rate 2000 --duration 30 -- my-server   at a fixed rate
  barewire bench --url http://127.0.0.1:8808/mcp --in-flight 8
  barewire bench echo --payload 64 --against old='./server-1 --stdio' -- ./server-2 --stdio
  barewire bench --json -- my-server                      for scripts";

const NOTES: &str = "\
At a fixed rate, latency counts from the time when a request was due, even if it was sent later. A
stall of one second therefore shows in all requests of that second, not only in one.

Several servers take turns of about 200 ms, in alternating order, so that a disturbance of the
machine affects all of them. Ratios are relative to the first server. All get the same request:
without WHAT, if one server speaks only the legacy era, the others get a ping in that era too.

An answer is wrong if it is an error or has isError, if its id matches no request or is spelled
differently than in the request (1.0 for 1; checked on stdio only), if its kind is not that of the
first answer, or if it does not repeat the text that was sent although the first answer did.

CPU time is counted in ticks of the system's clock, usually 10 ms: less than one tick is reported
as unknown, not as 0.

With --json the object has `stopped` (a signal ended the load early) and `servers`. Each server has:
  name, server, transport, revision, era
  request          method, name, bytes
  load             in_flight, rate, payload, duration, count, warm_up, timeout
  seconds          the time spent sending requests or waiting for answers
  sent, answered   requests, and good answers
  lost, late       requests without an answer within --timeout, or whose connection was refused
                   or cut; answers that came after the timeout
  duplicated       duplicate answers
  wrong            by kind: unknown_id, id, no_message, error, kind, echo, http
  unsent           requests not sent at a fixed rate, because too many were in flight
  throughput       good answers per second
  latency_us       min, mean, p50, p90, p99, p999, max
  histogram        up_to_us and count, row by row
  lag_us           p50, p99 and max of the load generator's own delay, at a fixed rate
  usage            of the server: cpu_seconds, cpu_us_per_request, memory, peak_memory, processes
  generator        of this program: cpu_us_per_request
  ratio            to the first server: throughput, p50, p99, cpu
  broken           why the connection ended early

Ctrl-C and SIGTERM end the load early and print the measurements so far. A server that ends or
cannot be reached any more is measured up to that point.

Exit codes: 0 all answers were good, 1 some were lost, duplicated or wrong, 2 nothing was measured.";

pub(crate) fn run(args: &Args, output: &mut Output) -> Result<Exit, Failure> {
    if args.json {
        output.write_json();
    }
    let targets = targets::targets(args)?;
    let plan = args.request_plan()?;
    if let Some(pid) = args.pid.filter(|pid| load::usage(*pid).is_none()) {
        return Err(Failure::new(format!("--pid {pid}: no such process in /proc")));
    }
    let runtime = Builder::new_current_thread().enable_all().build().map_err(|error| runtime_failure(&error))?;
    let done = runtime.block_on(bench(args, &targets, &plan, output));
    shut_down(runtime);
    done
}

async fn bench(
    args: &Args,
    targets: &[LoadTarget],
    plan: &RequestPlan<'_>,
    output: &mut Output,
) -> Result<Exit, Failure> {
    // Signals are caught before a program is started, so that a signal cannot leave the program running.
    let stop = StopHandle::new();
    let mut signals = count_signals(&stop).map_err(|error| runtime_failure(&error))?;
    let settings = args.settings();
    let mut servers = tokio::select! {
        servers = load::connect(targets, plan, &settings) => {
            servers.map_err(|error| args.cannot_connect(error, targets))?
        }
        () = signalled(&mut signals, 1) => return Err(Failure::new(STOPPED)),
    };
    let mut progress_line = ProgressLine::stderr();
    let ending = load::measure(&mut servers, &settings, &stop, &mut |progress| progress_line.show(progress)).await;
    progress_line.clear();
    let is_stopped = ending.map_err(|error| runtime_failure(&error))? == LoadEnd::Stopped;
    let is_measured = servers.iter().any(|server| server.tally.sent > 0);
    if is_measured {
        BenchReport { args, settings: &settings, servers: &servers, is_stopped }.print(output)?;
        // The report is printed before the programs have exited, so that the user does not wait for their exit.
        output.flush()?;
    }
    let finish = async {
        for server in &mut servers {
            server.close().await;
        }
    };
    tokio::select! {
        () = finish => {}
        // After another signal we do not wait any longer; the watcher process of each program ends that program.
        () = signalled(&mut signals, 1 + u32::from(is_stopped)) => {}
    }
    if !is_measured {
        return Err(unmeasured(&servers));
    }
    Ok(if servers.iter().all(MeasuredServer::is_clean) { Exit::Clean } else { Exit::No })
}

/// Counts signals, and ends the load at the first one.
fn count_signals(stop: &StopHandle) -> std::io::Result<watch::Receiver<u32>> {
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

/// Waits until `times` signals have arrived.
async fn signalled(signals: &mut watch::Receiver<u32>, times: u32) {
    if signals.wait_for(|count| *count >= times).await.is_err() {
        // The sender is dropped only when the runtime shuts down, so there is nothing to return.
        std::future::pending().await
    }
}

/// Returns the failure for a run without any measurement, because all servers disconnected or a signal arrived first.
fn unmeasured(servers: &[MeasuredServer]) -> Failure {
    let reasons: Vec<String> = match servers {
        [server] => server.disconnect.iter().map(ToString::to_string).collect(),
        several => several.iter().filter_map(|it| Some(format!("{}: {}", it.name, it.disconnect.as_ref()?))).collect(),
    };
    match reasons.len() == servers.len() {
        true => Failure::new(format!("nothing was measured: {}", reasons.join("; "))),
        false => Failure::new(STOPPED),
    }
}

const STOPPED: &str = "stopped before anything was measured";

impl Args {
    fn settings(&self) -> LoadSettings {
        let default = if self.rate.is_some() { 1000 } else { 1 };
        let in_flight = self.in_flight.unwrap_or(default);
        let mut settings = LoadSettings::default();
        settings.in_flight = usize::try_from(in_flight).expect("the option allows at most 100,000");
        settings.rate = self.rate;
        settings.amount = self.count.map_or(Amount::Time(self.duration), Amount::Count);
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

    fn context(&self, target: &LoadTarget) -> RequestContext {
        RequestContext {
            revision: self.revision,
            timeout: self.timeout,
            over_http: target.is_url(),
            with_bearer: self.url_headers.has_bearer() && target.name() == targets::URL_NAME,
            url: self.url.clone().filter(|_| target.name() == targets::URL_NAME),
        }
    }

    fn cannot_connect(&self, error: ConnectError, targets: &[LoadTarget]) -> Failure {
        let target = targets.iter().find(|target| target.name() == error.server);
        let context = self.context(target.expect("the error is about one of the targets"));
        let what = error.reason.to_string();
        let failure = match error.reason {
            ConnectFailure::Spawn(error) => NoAnswer::not_started(&error).into(),
            ConnectFailure::Client(error) => no_answer(&error, &context),
            ConnectFailure::Request(failure) => failure,
            ConnectFailure::TimedOut { method, .. } => NoAnswer::timed_out(&method, &context).into(),
            ConnectFailure::BadFirstAnswer { answer: BadFirstAnswer::InputRequired, .. } => {
                Failure::new(what).with_hint("a benchmark has no user to ask; barewire call asks at the terminal")
            }
            ConnectFailure::BadFirstAnswer { .. } => {
                Failure::new(what).with_hint("only successful requests are measured; barewire call shows the answer")
            }
            _ => Failure::new(what),
        };
        self.named(failure, &error.server)
    }

    /// Adds the server's name to a failure, if there are several servers.
    fn named(&self, failure: Failure, server: &str) -> Failure {
        if self.against.is_empty() { failure } else { failure.about(server) }
    }
}

fn rate(text: &str) -> Result<f64, &'static str> {
    match text.parse() {
        Ok(rate) if (0.001..=10_000_000.0).contains(&rate) => Ok(rate),
        _ => Err("expected a number of requests per second, up to ten million"),
    }
}
