//! `barewire call`: one request to a program or a listener, and its answer.

mod answer;
mod missed;
mod params;
mod pretty;
mod signals;
mod talk;
mod target;

use std::ffi::OsString;
use std::io;
use std::time::{Duration, Instant};

use barewire::peer::{CallError, Raw};
use barewire::transport::Framing as WireFraming;
use serde_json::value::RawValue;
use tokio::runtime::Builder;

use crate::output::Output;
use crate::{Exit, Failure};
use answer::{Answer, Form};
use missed::Missed;
use signals::Signals;
use target::{Address, Target};

/// Ask a program or a listener one thing, and print the answer.
///
/// Starts PROGRAM, sends it one request over its stdin, prints the result as it was written, and ends it: its stdin is
/// closed; if it stays it gets a SIGTERM after two seconds, and a SIGKILL after two more. What it writes to stderr, and
/// the notifications and requests that it sends meanwhile, are shown on stderr. Its requests are refused.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The method
    method: String,
    /// Its params, a JSON object or array; @FILE reads them from a file, - from stdin
    params: Option<OsString>,
    /// The program to start, and its arguments
    #[arg(last = true, value_name = "PROGRAM")]
    program: Vec<OsString>,
    /// Ask whoever listens there, instead of a program: unix:PATH or tcp:HOST:PORT
    #[arg(long, value_name = "ADDRESS", value_parser = Address::parse)]
    connect: Option<Address>,
    /// Send the request and nothing before it. Needed for now: the handshake of MCP is not there yet
    #[arg(long)]
    raw: bool,
    /// Wait this long for the answer; 0 for ever
    #[arg(long, value_name = "SECONDS", default_value = "60", value_parser = seconds, allow_negative_numbers = true)]
    timeout: Duration,
    /// How messages are told apart: one a line, or with Content-Length headers as language servers have them
    #[arg(long, value_enum, default_value_t = Framing::Lines)]
    framing: Framing,
    /// Indent the result
    #[arg(long, conflicts_with = "json")]
    pretty: bool,
    /// Print one JSON object, whatever comes of it
    #[arg(long)]
    json: bool,
    /// Show no notifications and requests of the other side
    #[arg(long, short)]
    quiet: bool,
}

#[derive(Clone, Copy, PartialEq, clap::ValueEnum)]
enum Framing {
    Lines,
    ContentLength,
}

const EXAMPLES: &str = r#"Examples:
  barewire call --raw ping -- my-server --stdio           a request without params
  barewire call --raw add '{"a":19,"b":23}' -- my-server  with params
  barewire call --raw add @params.json -- my-server       from a file; - reads them from stdin
  barewire call --raw ping --connect tcp:localhost:4000   to a listener; or unix:/run/my.sock
  barewire call --raw shutdown --framing content-length -- my-language-server
  barewire call --raw --json ping -- my-server            for scripts

With --json the object has:
  kind             result, error, or failed: there is no answer
  elapsed          seconds since the program was started or connected to
and where it applies:
  result, error    what the other side answered
  reason           not-started, not-connected, closed, content-length, bad-answer, timed-out
                   or cancelled
  detail, hint     why there is no answer, in words, and what to do about it

Ctrl-C and SIGTERM cancel the call, tell the other side so with $/cancelRequest, and end the
program; that is no answer. A second one does not wait for the end.

Exit codes: 0 a result, 1 an error, 2 no answer."#;

pub(crate) fn run(args: &Args, output: &mut Output) -> Result<Exit, Failure> {
    if !args.raw {
        return Err(Failure::new("call does not do the handshake of MCP yet")
            .hint("--raw sends the request and nothing before it"));
    }
    let target = Target::of(&args.program, args.connect.as_ref())?;
    let params = args.params.as_deref().map(params::read).transpose()?;
    let runtime = Builder::new_current_thread().enable_all().build().map_err(|error| cannot_begin(&error))?;
    let done = runtime.block_on(call(args, &target, params.as_deref(), output));
    // The name of a host that is still being looked up is not waited for.
    runtime.shutdown_background();
    done
}

async fn call(
    args: &Args,
    target: &Target<'_>,
    params: Option<&RawValue>,
    output: &mut Output,
) -> Result<Exit, Failure> {
    // Before anything is started that a signal could leave behind.
    let mut signals = Signals::catch().map_err(|error| cannot_begin(&error))?;
    let form = Form::of(args);
    let began = Instant::now();
    let peer = match signals.or(target.open(args)).await {
        Ok(peer) => peer,
        Err(missed) => return answer::print(output, form, Err(missed), began.elapsed()),
    };
    let call = peer.call::<Raw>(&args.method, params);
    let call = match args.patience() {
        Some(patience) => call.timeout(patience),
        None => call.no_timeout(),
    };
    let asked = async {
        match call.await {
            Ok(result) => Ok(Answer::Result(result)),
            Err(CallError::Refused(error)) => Ok(Answer::Refused(error)),
            Err(error) => Err(Missed::unanswered(&error, args)),
        }
    };
    let answer = signals.or(asked).await;
    // Whoever waits for the answer does not wait for the end of the program.
    let done = answer::print(output, form, answer, began.elapsed());
    tokio::select! {
        _ = peer.shutdown() => {}
        // The program's watcher ends it without us.
        _ = signals.next() => {}
    }
    done
}

impl Args {
    /// How long to wait, if not for ever.
    fn patience(&self) -> Option<Duration> {
        (!self.timeout.is_zero()).then_some(self.timeout)
    }
}

impl Framing {
    fn on_the_wire(self) -> WireFraming {
        match self {
            Self::Lines => WireFraming::Lines,
            Self::ContentLength => WireFraming::ContentLength,
        }
    }
}

fn cannot_begin(error: &io::Error) -> Failure {
    Failure::new(format!("cannot wait for anything here: {error}"))
}

fn seconds(text: &str) -> Result<Duration, &'static str> {
    match text.parse() {
        Ok(seconds) if (0.0..=YEAR).contains(&seconds) => Ok(Duration::from_secs_f64(seconds)),
        Ok(seconds) if seconds > YEAR => Err("more than a year: 0 waits for ever"),
        _ => Err("a number of seconds is expected, 0 or more"),
    }
}

/// Far from what a clock can hold, and longer than anybody waits.
const YEAR: f64 = 365.0 * 24.0 * 60.0 * 60.0;
