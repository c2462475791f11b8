//! `barewire tap`: stands between a host and its server, passes everything on as it is, and writes down what it sees.
//!
//! One thread forwards all streams ([`pump`]), and puts a copy of what it forwards on the [`tape`]. The [`observer`] takes it from
//! there on another, and writes the capture and the log. So nobody who waits for a message waits for it to be understood.

mod findings;
mod http;
mod log;
mod outlet;

use std::ffi::OsString;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use barewire_proto::transcript::{Channel, Note};
use barewire_workbench::capture::{CaptureClock, CaptureWriter, Redactor, event};
use barewire_workbench::fault::{FaultInjector, FaultSpec};
use barewire_workbench::pipeline::Observer;
use barewire_workbench::platform::Signals;
use barewire_workbench::relay::{self, Observation, Program, STILL_RELAYED};

use crate::failure::report;
use crate::platform::{self, is_same_file};
use crate::{Exit, Failure};
use log::Log;
use outlet::{Outlet, Target};

/// Stand between a host and its server, and write down what goes over the wire.
///
/// Put it before the server's command in the host's configuration. It starts PROGRAM and passes everything on as it is: the bytes of
/// stdin, stdout and stderr, the end of each, signals, and how the program ends. The host cannot tell. If a file or a log cannot be
/// written, that is said on stderr, and everything is still passed on.
///
/// With --http and --to it stands in for a server at a URL instead: the host gets that URL with the tap's address in it.
#[derive(clap::Args)]
#[command(before_help = EXAMPLES, after_help = NOTES)]
pub(crate) struct Args {
    /// Write a capture to this file, which only you can read; in its name, %p is the process id and %t the time
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// Write a line for every message to stderr, to a file, or to whoever listens at a Unix socket
    #[arg(long, value_name = "stderr|FILE|unix:PATH", value_parser = Target::parse)]
    log: Option<Target>,
    /// Write secrets down as they are
    #[arg(long)]
    no_redact: bool,
    /// Do this to the bytes, as in "<:drop@3"; can be given several times
    #[arg(long, value_name = "SPEC", value_parser = FaultSpec::parse)]
    fault: Vec<FaultSpec>,
    /// What is left to chance in faults comes out the same for the same number
    #[arg(long, value_name = "N", requires = "fault")]
    seed: Option<u64>,
    #[command(flatten)]
    http: http::HttpArgs,
    /// The program to start, and its arguments
    #[arg(last = true, value_name = "PROGRAM", required_unless_present = "http", conflicts_with = "http")]
    program: Vec<OsString>,
}

const EXAMPLES: &str = "\
Examples:
  barewire tap --record s.wire -- my-server --stdio   everything; barewire read s.wire shows it
  barewire tap --log stderr -- my-server              a line a message, in the log of the host
  barewire tap --log unix:/tmp/tap.sock -- my-server  to a terminal: nc -lkU /tmp/tap.sock
  barewire tap --record 'logs/%t-%p.wire' -- server   a new file every time it is started
  barewire tap --fault '<:drop@3' -- my-server        the third message to the client gets lost
  barewire tap --http 127.0.0.1:8900 --to https://example.com/mcp --record s.wire
                                                      in the place of a URL";

const NOTES: &str = "\
The log also has what is found by those checks that only look on, a line with a * each: see
barewire check --list.

A capture is a .wire file. In it and in the log, secrets are replaced by <redacted-1>,
<redacted-2> and so on, equal ones by the same number: the values of headers, members, parameters,
arguments and variables whose names say that they are secret, those of the environment, and tokens
of well-known shapes. A file that is there is overwritten if it is empty or a capture, and left
alone if it is anything else. If another tap is writing to s.wire, this one writes to s-2.wire.
A log is appended to a file if it is empty or a log.

A SPEC is [DIRECTION:]WHAT[=VALUE][@WHICH][%PERCENT]. DIRECTION is > for what goes to the server,
< for what goes to the client; without one, both. WHICH is the number of a message in its
direction, from 1; a range as 3-5; every5; or a method: messages of that name, and the answers to
them. With PERCENT, chance decides, the same way for the same --seed and the same faults in the same
order. WHAT is:
  split=N          written in N pieces, 2 if nothing is said
  coalesce=N       N of them written at once, 2 if nothing is said
  dribble=TIME     written byte by byte, with so much time between: 1ms if nothing is said
  cut-utf8         written in two pieces, cut within a character that has several bytes
  crlf             ended with CRLF, unless it is already
  bom              with a byte order mark before it
  junk=TEXT        with a line before it that is no message; %% and @@ in it are % and @;
                   one that says so if nothing is said
  truncate=N       only the first N bytes of it; as many as chance wants if nothing is said
  delay=TIME       so much later, as 50ms or 2s, with all that is behind it
  drop             not at all
  duplicate=N      N times, 2 if nothing is said
  reorder          behind the next one, if that comes within 300ms
  half-close       and then nothing more in this direction: it is closed
  kill             half of it, and then the program is killed
Messages are lines. A line of more than 16 MiB is passed on as it is. In the capture is what was
passed on, and before it what was done to it, as in @ fault < 3 drop. What changes nothing, as to
truncate a message that is shorter, is not done.

Over HTTP everything is passed on but Host, which becomes the server's; docs/tap-http.md has the
rest. Ctrl-C or SIGTERM end it.

Exit codes: that of the program, or the signal that ended it. 127 if there is no such program,
126 if it cannot be run, 2 if the tap could not begin. Over HTTP 0, when a signal has ended it.";

pub(crate) fn run(args: &Args) -> Result<Exit, Failure> {
    http::check(args)?;
    let clock = CaptureClock::start();
    let redactor = || if args.no_redact { Redactor::off() } else { Redactor::new() };
    let capture = match &args.record {
        Some(path) => {
            or_without(is_free(path, None).and_then(|()| CaptureWriter::create(path, clock, redactor(), &[])))
        }
        None => None,
    };
    let free = match &args.log {
        Some(Target::File(path)) => is_free(path, capture.as_ref().map(CaptureWriter::path)),
        _ => Ok(()),
    };
    let outlet = args.log.clone().and_then(|log| or_without(free.and_then(|()| Outlet::open(log))));
    if args.http.http.is_some() {
        return http::run(args, clock, capture, outlet, redactor());
    }
    let signals = Signals::catch().map_err(|error| Failure::new(format!("cannot catch signals: {error}")))?;
    tap(args, clock, capture, outlet, redactor(), signals)
}

/// Whether nothing else goes to this file: stdout is for messages alone, and a capture is no log.
fn is_free(path: &Path, capture: Option<&Path>) -> Result<(), Failure> {
    // Where there is no file yet, nothing goes to it; and a device is there for everybody.
    let Some(there) = fs::metadata(path).ok().filter(|it| !platform::is_device(it)) else {
        return Ok(());
    };
    let is_capture = |capture: &Path| fs::metadata(capture).is_ok_and(|capture| is_same_file(&capture, &there));
    let why = match capture {
        _ if platform::is_stdout(&there) => "that is stdout, where only messages go",
        Some(capture) if is_capture(capture) => "the capture is written there",
        _ => return Ok(()),
    };
    Err(Failure::new(format!("cannot write to {}: {why}", path.display())))
}

/// What cannot be written down is still passed on: a host that gets no server is worse off than one that is not looked at.
fn or_without<T>(opened: Result<T, Failure>) -> Option<T> {
    opened.map_err(|failure| report(&failure.and(STILL_RELAYED))).ok()
}

fn tap(
    args: &Args,
    clock: CaptureClock,
    mut capture: Option<CaptureWriter>,
    outlet: Option<Outlet>,
    mut redactor: Redactor,
    signals: Signals,
) -> Result<Exit, Failure> {
    let argv = || args.program.iter().map(OsString::as_os_str);
    if let Some(capture) = &mut capture {
        capture.open(Channel::default(), argv(), clock.now());
        // A tap that is killed before anything is said has at least been started.
        relay::flush(capture, report);
        if capture.path() != args.record.as_deref().unwrap_or(capture.path()) {
            talk(&format!("recording to {}", capture.path().display()));
        }
    }
    if let Some(outlet) = &outlet {
        let (line, _) = redactor.argv(argv());
        let line = crate::output::shown(&line, 200);
        outlet.line(&outlet::first_line(&clock.started(), &line));
        outlet.flush();
    }
    let (name, words) = args.program.split_first().expect("clap asks for a program");
    let program = match Program::start(name, words) {
        Ok(program) => program,
        Err(error) => {
            let what = error.to_string();
            if let Some(capture) = &mut capture {
                capture.write(event(Channel::default(), Note::Failed(what.clone().into_bytes()), Some(clock.now())));
                relay::flush(capture, report);
            }
            if let Some(outlet) = &outlet {
                outlet.line(&format!("# {what}"));
                outlet.finish();
            }
            report(&Failure::new(what));
            // As a shell does.
            std::process::exit(if error.is_missing { 127 } else { 126 });
        }
    };
    let with_stderr = !matches!(args.log, Some(Target::Stderr));
    let observation = observe(clock, capture, outlet, redactor, with_stderr);
    let faults = FaultInjector::by_direction(&args.fault, args.seed);
    if let (Some(seed), None) = (faults.seed, args.seed) {
        talk(&format!("the seed of the faults is {seed}: --seed {seed} does the same again"));
    }
    let status = platform::take_stdio()
        .and_then(|host| program.relay(host, faults, signals, observation.as_ref(), talk))
        .map_err(|error| Failure::new(format!("cannot pass on what comes: {error}")))?;
    if let Some(observation) = observation {
        observation.finish();
    }
    platform::end_like(status)
}

/// Starts to look on, if there is a capture or a log.
fn observe(
    clock: CaptureClock,
    capture: Option<CaptureWriter>,
    outlet: Option<Outlet>,
    redactor: Redactor,
    with_stderr: bool,
) -> Option<Observation> {
    let log = outlet.map(|outlet| Box::new(Log::new(outlet, redactor, with_stderr)) as Box<dyn Observer + Send>);
    let is_observed = capture.is_some() || log.is_some();
    is_observed.then(|| Observation::start(clock, capture, log.into_iter().collect(), report))
}

/// To whoever reads stderr.
fn talk(what: &str) {
    let _ = writeln!(io::stderr(), "barewire: {what}");
}
