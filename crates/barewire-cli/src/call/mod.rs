//! `barewire call`: one request to a program, a listener or a URL -> its answer.

mod answer;
mod console;
mod elicit;
mod mcp;
mod notification;
mod pretty;
mod progress;
mod raw;
mod save;
mod show;
mod target;
mod terminal;
mod time_limit;

use std::ffi::OsString;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use barewire::transport::Framing;
use barewire_proto::mcp::{LoggingLevel, Revision};
use serde_json::value::RawValue;
use tokio::runtime::Builder;

use crate::ask::no_answer::RequestContext;
use crate::ask::params;
use crate::ask::request::Naming;
use crate::failure::runtime_failure;
use crate::output::Output;
use crate::renewals::shut_down;
use crate::url_headers::UrlHeaders;
use crate::{Exit, Failure};
use barewire_workbench::duration;
use mcp::McpCall;
use target::{Address, CallTarget};

/// Send one request to an MCP server, and print the answer.
///
/// Starts PROGRAM, finds out which revision of MCP it speaks, sends the request, prints the answer, and ends the
/// program: closes its stdin, sends SIGTERM after two seconds and SIGKILL after two more. The program's stderr,
/// progress, log messages and notifications are shown on stderr. If the server asks for user input, its questions are
/// shown on the terminal. With --url the request goes over HTTP instead; barewire finds out the transport and the
/// revision.
#[derive(clap::Args)]
#[command(before_help = EXAMPLES, after_help = NOTES, override_usage = USAGE)]
pub(crate) struct Args {
    /// The request: tools, resources, templates or prompts for a list; read URI; prompt NAME; task ID to wait for a
    /// task; a method such as tools/list; or the name of a tool
    what: String,
    /// The arguments: key=value, or one JSON object; @FILE reads the object from a file, - from stdin
    #[arg(value_name = "ARGUMENT")]
    arguments: Vec<OsString>,
    /// The program to start, and its arguments; the -- before it can be left out, unless a word before it is also the
    /// name of a program
    #[arg(last = true, value_name = "PROGRAM")]
    program: Vec<OsString>,
    /// Connect to this address instead of starting a program: unix:PATH or tcp:HOST:PORT
    #[arg(long, value_name = "ADDRESS", value_parser = Address::parse)]
    connect: Option<Address>,
    /// Connect to the server at this URL, over HTTP
    #[arg(long, value_name = "URL", conflicts_with_all = ["raw", "framing"])]
    url: Option<String>,
    #[command(flatten)]
    url_headers: UrlHeaders,
    /// Treat WHAT as the name of a tool, even if it is also a method or a word such as tools
    #[arg(long, conflicts_with_all = ["method", "raw"])]
    tool: bool,
    /// Treat WHAT as a method, even if MCP has no such method
    #[arg(long, conflicts_with = "raw")]
    method: bool,
    /// Speak only this revision of MCP
    #[arg(long, value_name = "REVISION", value_parser = Revision::from_str, conflicts_with = "raw")]
    revision: Option<Revision>,
    /// When the server asks for input with a form, fill in field KEY with VALUE; can be given several times
    #[arg(long, value_name = "KEY=VALUE", conflicts_with = "raw")]
    answer: Vec<String>,
    /// Offer this folder to the server as a root; can be given several times
    #[arg(long, value_name = "PATH", conflicts_with = "raw")]
    root: Vec<PathBuf>,
    /// Show log messages of this level and above: debug, info, notice, warning, error, critical, alert or emergency
    #[arg(long, value_name = "LEVEL", value_parser = level, conflicts_with = "raw")]
    log_level: Option<LoggingLevel>,
    /// Add this member to the _meta of the request; can be given several times
    #[arg(long, value_name = "KEY=VALUE", conflicts_with = "raw")]
    meta: Vec<String>,
    /// If the server runs the call as a task, print the id of the task, and do not wait for its result
    #[arg(long, conflicts_with = "raw")]
    detach: bool,
    /// Write images, audio and resources to files in this folder
    #[arg(long, value_name = "DIR", conflicts_with_all = ["raw", "json", "pretty"])]
    save: Option<PathBuf>,
    /// Send the request even if the server did not declare the capability for it, or the revision in use does not have
    /// the method
    #[arg(long, conflicts_with = "raw")]
    lenient: bool,
    /// Send one plain JSON-RPC request without a handshake: WHAT is the method, and the argument is the params
    #[arg(long)]
    raw: bool,
    /// Wait at most this long for the handshake, and then for the whole answer; 0 waits forever. Nothing that the
    /// server sends extends the time, not even progress. The time that the user takes to fill in a form does not count
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = duration::parse, allow_negative_numbers = true)]
    timeout: Duration,
    /// The framing of messages: one per line, or with Content-Length headers like language servers
    #[arg(long, value_enum, default_value_t = CallFraming::Lines)]
    framing: CallFraming,
    /// Print the result as indented JSON
    #[arg(long, conflicts_with = "json")]
    pretty: bool,
    /// Print one JSON object, whatever the outcome
    #[arg(long)]
    json: bool,
    /// Do not show progress, log messages, notifications and requests of the server
    #[arg(long, short)]
    quiet: bool,
}

#[derive(Clone, Copy, PartialEq, clap::ValueEnum)]
enum CallFraming {
    Lines,
    ContentLength,
}

const USAGE: &str = "\
barewire call [OPTIONS] <WHAT> [ARGUMENT]... [--] <PROGRAM>...\n       barewire call [OPTIONS] <WHAT> [ARGUMENT]... --url <URL>";

const EXAMPLES: &str = r#"Examples:
  barewire call tools -- my-server --stdio            list the tools and their arguments
  barewire call echo text=hello -- my-server          call a tool
  barewire call add '{"a":19,"b":23}' -- my-server    send one JSON object, unchanged
  barewire call read file:///notes.txt -- my-server   read a resource
  barewire call prompt greet name=Ada -- my-server    get a prompt
  barewire call tools/list --revision 2025-06-18 -- my-server
  barewire call tools --connect tcp:localhost:4000    connect to an address; or unix:/run/my.sock
  barewire call tools --url https://example.com/mcp   connect over HTTP
  barewire call tools --url https://example.com/mcp --bearer-env TOKEN
  barewire call report --detach --url https://example.com/mcp    start a task, and print its id
  barewire call task ID --url https://example.com/mcp            wait for its result
  barewire call echo text=hello --json -- my-server   print JSON for scripts
  barewire call --raw add @params.json -- my-server   send plain JSON-RPC, without MCP"#;

const NOTES: &str = "\
The tool's schema decides whether key=5 is sent as a number or as a string. key:=JSON gives the
value as JSON, and key=@FILE reads it from a file. If the schema allows several types, the first
type that fits is used, in this order: null, boolean, number, array, object, string.

With --json the object has:
  kind             result, error, sent (a notification), task (--detach), or failed (no answer)
  elapsed          seconds since the program was started or the connection was opened
and, depending on the outcome:
  revision, era    the revision in use, and its era: legacy or modern
  server           the name and version of the server
  result, error    the response of the server; the pages of a list are joined into one result
  task             its taskId
  reason           not-started, not-connected, unauthorized, http, no-handshake, no-revision,
                   closed, content-length, bad-answer, timed-out, cancelled, not-offered,
                   not-in-revision, no-such-name or bad-arguments
  detail, hint     why there is no answer, and what to do about it

If the server asks for user input, its questions are shown on the terminal: Enter accepts the value
in brackets, Ctrl-D or !decline declines, !cancel cancels. Without a terminal a question is
cancelled, unless --answer gives all required values.

If the server runs the call as a task, barewire waits for its result, within --timeout, and shows
the status on stderr. barewire call task ID does the same for a task that was started earlier.

Ctrl-C and SIGTERM cancel the call with notifications/cancelled (with --raw, $/cancelRequest), and
end the program; that counts as no answer. After a second signal, barewire exits without waiting
for the program.

Exit codes: 0 a result, 1 an error or a tool result with isError, 2 no answer.";

pub(crate) fn run(args: &Args, output: &mut Output) -> Result<Exit, Failure> {
    if args.json || args.pretty {
        output.write_json();
    }
    let target = CallTarget::of(args)?;
    let runtime = Builder::new_current_thread().enable_all().build().map_err(|error| runtime_failure(&error))?;
    // The whole command line is checked before a program is started.
    let done = if args.raw {
        let params = raw_params(args)?;
        runtime.block_on(raw::call(args, &target, params.as_deref(), output))
    } else {
        let call = McpCall::of(args)?;
        runtime.block_on(call.run(args, &target, output))
    };
    shut_down(runtime);
    done
}

fn raw_params(args: &Args) -> Result<Option<Box<RawValue>>, Failure> {
    match args.arguments.as_slice() {
        [] => Ok(None),
        [params] => params::read(params).map(Some),
        _ => Err(Failure::new("--raw takes one JSON object or array as params")
            .with_hint("without --raw, arguments can be key=value")),
    }
}

impl Args {
    fn naming(&self) -> Naming {
        match (self.tool, self.method) {
            (true, _) => Naming::Tool,
            (false, true) => Naming::Method,
            (false, false) => Naming::Any,
        }
    }

    fn context(&self) -> RequestContext {
        RequestContext {
            revision: self.revision,
            timeout: self.timeout,
            over_http: self.url.is_some(),
            with_bearer: self.url_headers.has_bearer(),
            url: self.url.clone(),
        }
    }

    /// Returns the value of `--timeout`, or `None` to wait forever.
    fn patience(&self) -> Option<Duration> {
        (!self.timeout.is_zero()).then_some(self.timeout)
    }
}

impl From<CallFraming> for Framing {
    fn from(framing: CallFraming) -> Self {
        match framing {
            CallFraming::Lines => Self::Lines,
            CallFraming::ContentLength => Self::ContentLength,
        }
    }
}

fn level(text: &str) -> Result<LoggingLevel, String> {
    let names = || LoggingLevel::ALL.map(LoggingLevel::as_str).join(", ");
    LoggingLevel::parse(text).ok_or_else(|| format!("expected one of {}", names()))
}
