//! `barewire replay`: replays a capture, as the client or as the server.

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

use crate::failure;
use crate::output::Output;
use crate::url_headers::UrlHeaders;
use crate::{Exit, Failure};
use barewire_workbench::duration;

/// Send the client's messages of a capture to a server again and show where the answers differ, or be the server.
///
/// A message is sent when every response and server request that came before it in the capture has come. Messages are
/// sent byte for byte as recorded, malformed ones too, with two exceptions: the ids of the server's requests, and
/// values that the server generates and the client returns, such as cursors, are those of this run. Answers are
/// compared as JSON values. The transport does not matter: a capture of stdin and stdout can be replayed to a URL, and
/// one of HTTP to a program.
///
/// With --serve it answers clients as the recorded server did, on stdin and stdout or with --http at a URL. A request
/// is answered like the recorded request with the same method and params, with the server's messages before the
/// response in the same order.
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
    url_headers: UrlHeaders,
    /// Be the server: answer the client on stdin and stdout from the capture
    #[arg(long, conflicts_with_all = ["program", "url", "map", "notifications", "timeout", "json"])]
    serve: bool,
    /// With --serve, listen at this address, on the path /mcp, instead of stdin and stdout
    #[arg(long, value_name = "ADDR", requires = "serve")]
    http: Option<String>,
    /// With --serve, answer a request only if it is the next one in the capture
    #[arg(long, requires = "serve")]
    in_order: bool,
    /// With --serve, answer a request only as often as in the capture; otherwise the last response is repeated
    #[arg(long, requires = "serve")]
    strict: bool,
    /// With --serve, write nothing about requests to stderr
    #[arg(long, short, requires = "serve")]
    quiet: bool,
    /// Do not compare this place in answers: a JSON Pointer with * for any step, after METHOD: to restrict it to one
    /// method; generated values there are still returned; can be given several times
    #[arg(long, value_name = "PATH")]
    ignore: Vec<PathPattern>,
    /// The server generates the strings and numbers at this place or below: they may differ, and later messages return
    /// the new ones; can be given several times
    #[arg(long, value_name = "PATH")]
    map: Vec<PathPattern>,
    /// Compare notifications too, in any order
    #[arg(long)]
    notifications: bool,
    /// Send nothing earlier than in the capture
    #[arg(long)]
    real_time: bool,
    /// Wait this long for the next expected message; 0 for no limit
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = duration::parse, allow_negative_numbers = true)]
    timeout: Duration,
    /// Replay the conversation of this channel; over HTTP, of any exchange of the session
    #[arg(long, value_name = "NAME")]
    channel: Option<String>,
    /// Accept frames with redacted secrets
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
  barewire tap --record good.wire -- my-server        first record a working session
  barewire replay good.wire -- my-server              are the answers still the same?
  barewire replay good.wire --ignore /result/time -- my-server
  barewire replay good.wire --ignore 'tools/call:/result/content/*/text' -- my-server
  barewire replay good.wire --url http://127.0.0.1:8808/mcp
  barewire replay --serve good.wire                   the server of the capture, for any client
  barewire call tools -- barewire replay --serve good.wire
  barewire replay --serve good.wire --http 127.0.0.1:8808";

const NOTES: &str = "\
A difference is one line with the request and the frames of the capture that hold the request and
the answer, numbered as by barewire read. Below it are the places, each with the recorded (-) and
the received (+) value. The order of members does not matter, and numbers are compared by their
exact value: 1 equals 1.0. The id of a response is the exception: it must be spelled as it was sent.

Never a difference: notifications, unless --notifications is given; the server's version, which is
noted; cursors, requestState, task ids and other values that only the server understands; strings
of 16 characters or more with a digit that the client returns later, unless they are names or URIs;
responses to cancelled requests; the ids of the server's requests; its pings. A request of the
server that is not in the capture is refused. With --allow-redacted anything matches a redacted
secret.

With --url every message is a Streamable HTTP request, with the headers of a client and with the
session and the version of this server. The headers of the capture are not sent again. A message
without a request must be accepted before the next is sent; a stream that ends before the response
is resumed. HTTP+SSE, the older transport, is not supported.

If nothing comes within --timeout, the expected messages are reported as missing and the rest is
sent; after the third timeout in a row the replay ends.

With --serve, params are compared without _meta, and --ignore takes places such as
/params/arguments/time; any initialize and server/discover match. Ids, progress tokens and
subscriptions are those of the client. A request that does not match gets an error with the nearest
recorded request: -32601 if its method is not in the capture, else -32603. stderr has a line for
each request. It ends with stdin, or with --http on Ctrl-C or SIGTERM. With --http every session
has the whole capture to itself, and all requests without a session share one; messages that belong
to no request go to the session's GET stream.

With --json every object has:
  kind             answer, unanswered, unexpected-answer, answered-again, answered-once,
                   answer-to-nobody, missing-answer-to-nobody, request, unexpected-request,
                   missing-request, notification, unexpected-notification,
                   missing-notification, no-message, missing-no-message, ended, exit; the last is
                   a summary
  detail           the same in words
and where it applies:
  method, name, id       the request, and its tool, prompt or resource
  frame, answer_frame    the frames of the capture that hold the request and its answer
  changes                path, recorded value and received value (came)
  came                   the received bytes, if there is no recorded message to compare with

Exit codes: 0 no difference, 1 differences, 2 it could not be replayed. With --serve: 0 every
request matched, 1 some did not.";

pub(crate) fn run(args: &Args, output: &mut Output) -> Result<Exit, Failure> {
    let script = Script::load(&args.file, args.script(), &failure::report)?;
    if args.program.is_empty() && args.url.is_none() && !args.serve {
        return Err(Failure::new("no server to replay to: give a program or --url")
            .with_hint("barewire replay FILE -- PROGRAM ARGS…, or --serve"));
    }
    let dialer = args.url.as_deref().map(dialer).transpose()?;
    let headers = args.url_headers.headers()?;
    let runtime = Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::new(format!("cannot start the runtime: {error}")))?;
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

/// Returns a writer for the program's stderr, which escapes it on a terminal and passes it on unchanged otherwise.
fn stderr() -> Stderr {
    if io::stderr().is_terminal() {
        return Stderr::inherit();
    }
    Stderr::lines(|line| {
        // Each line is one write, so that lines do not mix. Write errors are ignored, because there is no other place
        // to report them.
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
        let mut stderr = io::stderr().lock();
        for note in &report.notes {
            let _ = writeln!(stderr, "note: {note}");
        }
        let _ = writeln!(stderr, "{}", report::summary(report));
    }
    Ok(if report.differences.is_empty() { Exit::Clean } else { Exit::No })
}
