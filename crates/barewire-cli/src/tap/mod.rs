//! `barewire tap`: relays everything between a host and its server unchanged, and records it.
//!
//! One thread relays all streams and queues a copy of the bytes. Another thread takes the copies from the queue and
//! writes the capture and the log. So relaying never waits for recording.

mod findings;
mod http;
mod log;
mod outlet;
mod viewer;

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use barewire_proto::transcript::{Channel, Note};
use barewire_workbench::capture::{CaptureClock, CaptureWriter, ExistingCapture, Redactor, event};
use barewire_workbench::fault::{FaultInjector, FaultSpec};
use barewire_workbench::pipeline::Observer;
use barewire_workbench::platform::Signals;
use barewire_workbench::relay::live::{Announcement, RelayIdentity, RelayKind};
use barewire_workbench::relay::{self, Observation, Program, RelayCopies, STILL_RELAYED};

use crate::failure::report;
use crate::output::stderr;
use crate::platform::{self, is_same_file};
use crate::{Exit, Failure};
use log::Log;
use outlet::{LogTarget, Outlet};

/// Record the messages between a host and its server.
///
/// Put barewire tap before the server's command in the host's configuration. It starts PROGRAM and passes everything on
/// unchanged: the bytes of stdin, stdout and stderr, the end of each, signals, and the exit status. The host cannot
/// tell the difference. If a file or a log cannot be written, a warning goes to stderr, and everything is still passed
/// on.
///
/// With --http and --url, tap is a reverse proxy for a server at a URL: the host uses the same URL, but with the tap's
/// address.
#[derive(clap::Args)]
#[command(before_help = EXAMPLES, after_help = NOTES, override_usage = USAGE)]
pub(crate) struct Args {
    /// Write a capture to this file, which only you can read; in its name, %p is the process id and %t the start time
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// If there already is a capture with this name, overwrite it; otherwise the new one gets a number: s.2.wire
    #[arg(long, requires = "record")]
    overwrite: bool,
    /// Write a line for every message to stderr, to a file, or to a listener at a Unix socket
    #[arg(long, value_name = "stderr|FILE|unix:PATH", value_parser = LogTarget::parse)]
    log: Option<LogTarget>,
    /// Do not replace secrets in the capture and the log
    #[arg(long)]
    no_redact: bool,
    /// Inject a fault, such as "<:drop@3"; SPEC is explained below; can be given several times
    #[arg(long, value_name = "SPEC", value_parser = FaultSpec::parse)]
    fault: Vec<FaultSpec>,
    /// The seed for random choices in faults; the same seed makes the same choices
    #[arg(long, value_name = "N", requires = "fault")]
    seed: Option<u64>,
    /// Open a page that shows the messages as they pass, in a viewer that ends with the tap; its URL goes to stderr
    #[arg(long)]
    view: bool,
    /// Do not open the browser
    #[arg(long, requires = "view")]
    no_open: bool,
    /// Do not let barewire view find this tap
    #[arg(long, hide = true, conflicts_with = "view")]
    no_announce: bool,
    #[command(flatten)]
    http: http::HttpArgs,
    /// The program to start, and its arguments; the -- before it can be left out
    #[arg(last = true, value_name = "PROGRAM", required_unless_present = "http", conflicts_with = "http")]
    program: Vec<OsString>,
}

const USAGE: &str = "\
barewire tap [OPTIONS] [--] <PROGRAM>...\n       barewire tap [OPTIONS] --http <ADDR> --url <URL>";

const EXAMPLES: &str = "\
Examples:
  barewire tap --record s.wire -- my-server --stdio   record; then run barewire read s.wire
  barewire tap --log stderr -- my-server              a line per message, in the host's log
  barewire tap --log unix:/tmp/tap.sock -- my-server  log to the command nc -lkU /tmp/tap.sock
  barewire tap --record 'logs/%t-%p.wire' -- server   a new file every time it is started
  barewire tap --view -- my-server                    show the messages on a page, as they pass
  barewire tap --fault '<:drop@3' -- my-server        drop the third message to the client
  barewire tap --http 127.0.0.1:8900 --url https://example.com/mcp --record s.wire
                                                      for a server at a URL";

const NOTES: &str = "\
barewire view shows every running tap of the user. A tap that nobody looks at copies only the first
64 KiB, so that a later viewer knows the two sides.

The log also has the findings of the passive checks, on lines with a *; barewire check --list
names these checks.

A capture is a .wire file. In captures and logs, secrets are replaced by <redacted-1>,
<redacted-2> and so on; equal secrets get the same number. Secrets are: the values of headers,
members, parameters, arguments and variables with the name of a secret; secrets in the
environment; tokens of well-known shapes. A capture is never overwritten: if there already is a
s.wire, as after a restart of the server, this one is written to s.2.wire, the next one to s.3.wire,
and so on. With --overwrite only a capture that another tap is writing is kept. A file that is not a
capture is always kept. A log is appended to an existing file only if the file is empty or a log.

A SPEC is [DIRECTION:]FAULT[=VALUE][@WHICH][%PERCENT]. DIRECTION is > for messages to the server,
< for messages to the client; without it, both. WHICH is the number of a message in its direction,
from 1; a range such as 3-5; every5 for every fifth message; or a method, for its requests or
notifications and the responses to them. With PERCENT, the fault is applied at random to this share
of the messages; the same --seed and the same faults in the same order give the same choices. FAULT
is:
  split=N          write the message in N pieces; 2 by default
  coalesce=N       write N messages at once; 2 by default
  dribble=TIME     write byte by byte, with this pause after each byte; 1ms by default
  cut-utf8         write in two pieces, split within a multi-byte character
  crlf             end the line with CRLF
  bom              put a byte order mark before the message
  junk=TEXT        write a line that is not a message before the message; without TEXT, a default
                   line; write % and @ in TEXT as %% and @@
  truncate=N       keep only the first N bytes; a random number by default
  delay=TIME       delay the message and all that follow, by 50ms or 2s for example
  drop             drop the message
  duplicate=N      write the message N times; 2 by default
  reorder          write the message after the next one, if the next one arrives within 300ms
  half-close       close this direction after the message
  kill             write half of the message, and kill the program
A message is a line. A line of more than 16 MiB is passed on unchanged. The capture has the bytes
that were passed on, and before them an event for each fault, such as @ fault < 3 drop. A fault
that would change nothing, such as truncating a shorter message, is not applied.

Over HTTP, tap changes only the Host header, to that of the server; see docs/tap-http.md. Ctrl-C or
SIGTERM stops tap.

Exit codes: that of the program; if a signal ended the program, the same signal ends tap. 127 if
there is no such program, 126 if it cannot be run, 2 if tap could not start. Over HTTP, 0 when a
signal stops tap.";

pub(crate) fn run(args: &Args) -> Result<Exit, Failure> {
    http::check(args)?;
    let clock = CaptureClock::start();
    let redactor = || if args.no_redact { Redactor::off() } else { Redactor::new() };
    let capture = match &args.record {
        Some(path) => {
            let existing = if args.overwrite { ExistingCapture::Overwrite } else { ExistingCapture::Keep };
            let create = || CaptureWriter::create(path, existing, clock, redactor(), &[]);
            or_without(check_unused(path, None).and_then(|()| create()))
        }
        None => None,
    };
    if let Some(capture) = &capture {
        say_path(capture, args.record.as_deref());
    }
    let free = match &args.log {
        Some(LogTarget::File(path)) => check_unused(path, capture.as_ref().map(CaptureWriter::path)),
        _ => Ok(()),
    };
    let outlet = args.log.clone().and_then(|log| or_without(free.and_then(|()| Outlet::open(log))));
    if args.http.http.is_some() {
        return http::run(args, clock, capture, outlet, redactor());
    }
    let signals = Signals::catch().map_err(|error| Failure::new(format!("cannot catch signals: {error}")))?;
    tap(args, clock, capture, outlet, redactor(), signals)
}

/// Refuses to write to a file that is already used: as stdout, which is for messages only, or as the capture.
fn check_unused(path: &Path, capture: Option<&Path>) -> Result<(), Failure> {
    // A file that does not exist yet is unused, and devices may be used more than once.
    let Some(there) = fs::metadata(path).ok().filter(|it| !platform::is_device(it)) else {
        return Ok(());
    };
    let is_capture = |capture: &Path| fs::metadata(capture).is_ok_and(|capture| is_same_file(&capture, &there));
    let why = match capture {
        _ if platform::is_stdout(&there) => "it is stdout, which is for messages only",
        Some(capture) if is_capture(capture) => "the capture is written there",
        _ => return Ok(()),
    };
    Err(Failure::new(format!("cannot write to {}: {why}", path.display())))
}

/// Reports a failure to open a file and continues without the file, because the server has to work even if it cannot be
/// recorded.
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
        // Flushed now, so that the capture has at least this event if the tap is killed before the first message.
        relay::flush(capture, report);
    }
    if let Some(outlet) = &outlet {
        let (line, _) = redactor.argv(argv());
        let line = crate::output::shown(&line, 200);
        outlet.line(&outlet::first_line(&clock.started(), &line));
        outlet.flush();
    }
    let (name, words) = args.program.split_first().expect("clap requires a program");
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
            // The exit codes that a shell uses.
            std::process::exit(if error.is_missing { 127 } else { 126 });
        }
    };
    let with_stderr = !matches!(args.log, Some(LogTarget::Stderr));
    let server = String::from_utf8_lossy(&redactor.argv(argv()).0).into_owned();
    let announcement = announce(args, clock, capture.as_ref(), (RelayKind::Stdio, server), args.program.clone());
    let observation = observe(clock, capture, outlet, redactor, with_stderr);
    let viewer = start_viewer(args, announcement.as_ref());
    let faults = FaultInjector::by_direction(&args.fault, args.seed);
    if let (Some(seed), None) = (faults.seed, args.seed) {
        say(&format!("the seed of the faults is {seed}; use --seed {seed} to repeat them"));
    }
    let copies = RelayCopies::from(observation.as_ref()).announced(announcement.as_ref());
    let status = platform::take_stdio()
        .and_then(|host| program.relay(host, faults, signals, copies, say))
        .map_err(|error| Failure::new(format!("cannot relay: {error}")))?;
    if let Some(observation) = observation {
        observation.finish();
    }
    if let Some(announcement) = announcement {
        announcement.finish();
    }
    drop(viewer);
    platform::end_like(status)
}

/// Starts the thread that records, if there is a capture or a log.
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

/// Lets `barewire view` find this tap.
fn announce(
    args: &Args,
    clock: CaptureClock,
    capture: Option<&CaptureWriter>,
    (kind, server): (RelayKind, String),
    argv: Vec<OsString>,
) -> Option<Announcement> {
    if args.no_announce {
        return None;
    }
    let mut identity = RelayIdentity::new(kind, clock.started(), server);
    // A viewer reads the capture itself, if it is a file.
    let path = capture.map(CaptureWriter::path).and_then(|path| fs::canonicalize(path).ok());
    let path = path.filter(|path| fs::metadata(path).is_ok_and(|it| it.is_file()));
    identity.recording = path.and_then(|path| path.into_os_string().into_string().ok());
    identity.redacted = !args.no_redact;
    Some(Announcement::start(clock, identity, argv))
}

/// Starts the viewer of `--view`, which ends when the returned value is dropped. Everything is relayed without it too.
fn start_viewer(args: &Args, announcement: Option<&Announcement>) -> Option<viewer::Viewer> {
    let announcement = announcement.filter(|_| args.view)?;
    or_without(viewer::Viewer::start(announcement, args.no_open))
}

/// Tells the path of the capture, if it is not the path that was given.
fn say_path(capture: &CaptureWriter, given: Option<&Path>) {
    let path = capture.path().display();
    match capture.taken_path() {
        Some(taken) => say(&format!("recording to {path}, because {} is another capture", taken.display())),
        None if given != Some(capture.path()) => say(&format!("recording to {path}")),
        None => {}
    }
}

fn say(what: &str) {
    let _ = writeln!(stderr(), "barewire: {what}");
}
