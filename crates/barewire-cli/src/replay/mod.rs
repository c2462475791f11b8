//! `barewire replay`: a capture again, as the client or as the server.

mod report;
mod serve;

use std::ffi::OsString;
use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;
use std::time::Duration;

use barewire::client::http::{Dialer, Endpoint, FetchError};
use barewire::transport::{Child, Stderr};
use barewire_proto::frame::DEFAULT_LIMIT;
use barewire_workbench::replay::{
    PathPattern, PlayOptions, PlayReport, Script, ScriptOptions, ServeOptions, play, play_http,
};
use tokio::runtime::Builder;

use crate::along::Along;
use crate::failure;
use crate::output::Output;
use crate::{Exit, Failure};
use barewire_workbench::duration;

/// Send what the client said in a capture to a server again, and show where the answers differ; or be the server.
///
/// A message is sent when all has come that had come before it in the capture: answers, and requests of the server. Messages
/// go out byte for byte as they were recorded, malformed ones too, but for the ids of the server's own requests and for
/// values that the server makes up and the client gives back, as cursors: there stands what the server has made up this time.
/// Answers are compared as JSON values. What carried a message does not matter: a capture of stdin and stdout can be replayed to a
/// URL, and one of HTTP to a program.
///
/// With --serve it is the other way round: on stdin and stdout, or with --http at a URL, it answers clients as the server did in the
/// capture. A request is answered as the one with the same method and params was, with what the server said before the answer, in
/// the same order.
#[derive(clap::Args)]
#[command(before_help = EXAMPLES, after_help = NOTES)]
pub(crate) struct Args {
    /// The capture, a .wire file
    file: PathBuf,
    /// The program to start, and its arguments
    #[arg(last = true, value_name = "PROGRAM", conflicts_with = "url")]
    program: Vec<OsString>,
    /// Replay it to the server at this URL, over HTTP
    #[arg(long, value_name = "URL")]
    url: Option<String>,
    #[command(flatten)]
    along: Along,
    /// Be the server: answer whoever is on stdin and stdout from the capture
    #[arg(long, conflicts_with_all = ["program", "url", "map", "notifications", "timeout", "json"])]
    serve: bool,
    /// With --serve, be it at this address, on the path /mcp, instead of on stdin and stdout
    #[arg(long, value_name = "ADDR", requires = "serve")]
    http: Option<String>,
    /// With --serve, answer a request only if it is the next one in the capture
    #[arg(long, requires = "serve")]
    in_order: bool,
    /// With --serve, answer a request as often as it is in the capture; without, the last answer is given again
    #[arg(long, requires = "serve")]
    strict: bool,
    /// With --serve, do not tell on stderr what matches
    #[arg(long, short, requires = "serve")]
    quiet: bool,
    /// Do not compare what stands here in answers: a JSON Pointer with * for any step, and a method before it if only its answers
    /// are meant; cursors are given back all the same; can be given several times
    #[arg(long, value_name = "PATH")]
    ignore: Vec<PathPattern>,
    /// The server makes up the strings and numbers that stand here or below: they may differ, and are given back as they are this
    /// time; can be given several times
    #[arg(long, value_name = "PATH")]
    map: Vec<PathPattern>,
    /// Compare notifications too, in any order
    #[arg(long)]
    notifications: bool,
    /// Say nothing earlier than it was said in the capture
    #[arg(long)]
    real_time: bool,
    /// Wait this long for what comes next; 0 for ever
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = duration::parse, allow_negative_numbers = true)]
    timeout: Duration,
    /// Replay the conversation of this channel; over HTTP, of any exchange of a session
    #[arg(long, value_name = "NAME")]
    channel: Option<String>,
    /// Replay also frames in which something was replaced to keep a secret
    #[arg(long)]
    allow_redacted: bool,
    /// Refuse frames of more than this many bytes
    #[arg(long, value_name = "BYTES", default_value_t = DEFAULT_LIMIT)]
    max_frame: usize,
    /// Print one JSON object a line: the differences, and a summary
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  barewire tap --record good.wire -- my-server        first a capture, from a host that works
  barewire replay good.wire -- my-server              the same again: are the answers the same?
  barewire replay good.wire --ignore /result/time -- my-server
  barewire replay good.wire --ignore 'tools/call:/result/content/*/text' -- my-server
  barewire replay good.wire --url http://127.0.0.1:8808/mcp
  barewire replay --serve good.wire                   the server of the capture, for any client
  barewire call tools -- barewire replay --serve good.wire
  barewire replay --serve good.wire --http 127.0.0.1:8808";

const NOTES: &str = "\
A difference has a line with what was asked and the frames of the capture in which that and its
answer stand, as barewire read numbers them; below it the places, with what is in the capture (-)
and what came (+). Answers are compared whatever the order of their members, and numbers by their
exact value: 1 and 1.0 are the same, but not as the id of an answer, which has to be what was sent.

Never a difference: notifications, unless --notifications is given; the server's version, which is
noted; cursors, requestState, the ids of tasks and other values that mean something only to the
server, and long ones with a digit that the client gives back, unless they are names or URIs; an
answer to what the client had cancelled; the ids of the server's own requests; its pings. What the
server asks and did not ask in the capture is refused. With --allow-redacted anything matches what
was replaced.

With --url every message is a request of Streamable HTTP, with the headers of a client and with the
session and the version that this server gives. The headers of the capture, broken ones too, are
not sent again. One that nobody answers is taken before the next is sent; a stream that ends before
its answer is asked for again. HTTP+SSE, the older transport, is not spoken.

If nothing comes for --timeout, what was waited for is missing, and the rest is still sent;
the third time in a row that is the end.

With --serve, params are compared without _meta, and --ignore has places as /params/arguments/time;
any initialize and server/discover match. Ids, progress tokens and subscriptions are those of the
client. A request that does not match gets an error that says what is nearest: -32601 if its method
is not in the capture, else -32603. What a request is answered with is said on stderr. It ends when
stdin does, or with --http by Ctrl-C or SIGTERM. With --http every session has the whole capture to
itself, and all that are in none have it together; what the server said unasked goes to whoever
listens.

With --json every object has:
  kind             answer, unanswered, unexpected-answer, answered-again, answered-once,
                   answer-to-nobody, missing-answer-to-nobody, request, unexpected-request,
                   missing-request, notification, unexpected-notification,
                   missing-notification, no-message, missing-no-message, ended, exit; the last is
                   a summary
  detail           the same in words
and where it applies:
  method, name, id       what was asked, and for which tool, prompt or resource
  frame, answer_frame    where that and its answer stand in the capture
  changes                path, and what is recorded there and what came
  came                   what came, where nothing in the capture can be set beside it

Exit codes: 0 no difference, 1 differences, 2 it could not be replayed. With --serve: 0 every
request was matched, 1 some were not.";

pub(crate) fn run(args: &Args, output: &mut Output) -> Result<Exit, Failure> {
    let script = Script::load(&args.file, args.script(), &failure::report)?;
    if args.program.is_empty() && args.url.is_none() && !args.serve {
        return Err(Failure::new("nobody to replay it to: neither a program nor --url")
            .with_hint("barewire replay FILE -- PROGRAM ARGS…, or --serve"));
    }
    let dialer = args.url.as_deref().map(dialer).transpose()?;
    let headers = args.along.headers()?;
    let runtime = Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::new(format!("cannot wait for anything here: {error}")))?;
    if args.serve {
        let (options, addr) = (args.serve_options(), args.http.as_deref());
        let report = runtime.block_on(serve::serve(&script, &options, addr, args.quiet));
        runtime.shutdown_background();
        return report;
    }
    let options = args.play_options();
    let report = runtime.block_on(async {
        match dialer {
            Some(dialer) => play_http(&script, dialer, headers, &options).await,
            None => {
                let child = Child::new(&args.program[0]).args(&args.program[1..]).stderr(stderr());
                let server = child.spawn().map_err(|error| Failure::new(error.to_string()))?;
                Ok(play(&script, server, &options).await)
            }
        }
    });
    runtime.shutdown_background();
    show(args, &report?, output)
}

impl Args {
    fn script(&self) -> ScriptOptions<'_> {
        let mut options = ScriptOptions::default();
        options.channel = self.channel.as_deref();
        options.allow_redacted = self.allow_redacted;
        options.max_frame = self.max_frame;
        options
    }

    fn play_options(&self) -> PlayOptions {
        let mut options = PlayOptions::default();
        options.ignore.clone_from(&self.ignore);
        options.generated.clone_from(&self.map);
        options.compare_notifications = self.notifications;
        options.timeout = (!self.timeout.is_zero()).then_some(self.timeout);
        options.real_time = self.real_time;
        options.max_frame = self.max_frame;
        options
    }

    fn serve_options(&self) -> ServeOptions {
        let mut options = ServeOptions::default();
        options.in_order = self.in_order;
        options.strict = self.strict;
        options.real_time = self.real_time;
        options.ignore.clone_from(&self.ignore);
        options.max_frame = self.max_frame;
        options
    }
}

fn dialer(url: &str) -> Result<Dialer, Failure> {
    Dialer::new(&Endpoint::new(url)).map_err(|error| match error {
        FetchError::Url(what) => Failure::new(format!("cannot replay it: the URL {what}")),
        error => Failure::new(format!("cannot replay it: {error}")),
    })
}

/// The stderr of the program: to a terminal escaped, to anything else as it is.
fn stderr() -> Stderr {
    if io::stderr().is_terminal() {
        return Stderr::inherit();
    }
    Stderr::lines(|line| {
        // In one piece, so that lines of several programs do not mix. If stderr is closed nothing can be said.
        let _ = io::stderr().write_all(&[line, b"\n"].concat());
    })
}

fn show(args: &Args, report: &PlayReport, output: &mut Output) -> Result<Exit, Failure> {
    for difference in &report.differences {
        if args.json {
            report::json(output, difference)?;
        } else {
            report::text(output, difference)?;
        }
    }
    if args.json {
        report::json_summary(output, report)?;
    }
    output.flush()?;
    if !args.json {
        // If stderr is closed nothing can be said.
        let mut stderr = io::stderr().lock();
        for note in &report.notes {
            let _ = writeln!(stderr, "note: {note}");
        }
        let _ = writeln!(stderr, "{}", report::summary(report));
    }
    Ok(if report.differences.is_empty() { Exit::Clean } else { Exit::No })
}
