//! `barewire call`: one request to a program, a listener or a URL, and its answer.

mod answer;
mod console;
mod elicit;
mod mcp;
mod pages;
mod pretty;
mod progress;
mod raw;
mod save;
mod show;
mod talk;
mod target;
mod terminal;

use std::ffi::OsString;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use barewire::transport::Framing as WireFraming;
use barewire_proto::mcp::{LoggingLevel, Revision};
use serde_json::value::RawValue;
use tokio::runtime::Builder;

use crate::ask::no_answer::RequestContext;
use crate::ask::params;
use crate::ask::request::Naming;
use crate::failure::runtime_failure;
use crate::output::Output;
use crate::url_headers::UrlHeaders;
use crate::{Exit, Failure};
use barewire_workbench::duration;
use mcp::Wishes;
use target::{Address, Target};

/// Ask an MCP server one thing, and print the answer.
///
/// Starts PROGRAM, finds out which revision of MCP it speaks, asks, prints the answer, and ends it: its stdin is closed; if
/// it stays it gets a SIGTERM after two seconds, and a SIGKILL after two more. What it writes to stderr, its progress,
/// its log and its notifications are shown on stderr. What it asks the user is asked at the terminal. With --url the server is
/// asked over HTTP instead; which transport and revision it speaks is found out as well.
#[derive(clap::Args)]
#[command(before_help = EXAMPLES, after_help = NOTES)]
pub(crate) struct Args {
    /// tools, resources, templates or prompts; read URI; prompt NAME; a method of MCP, as tools/list; else the name of a tool
    what: String,
    /// Its arguments: key=value, or one JSON object; @FILE reads that from a file, - from stdin
    #[arg(value_name = "ARGUMENT")]
    arguments: Vec<OsString>,
    /// The program to start, and its arguments
    #[arg(last = true, value_name = "PROGRAM")]
    program: Vec<OsString>,
    /// Ask whoever listens there, instead of a program: unix:PATH or tcp:HOST:PORT
    #[arg(long, value_name = "ADDRESS", value_parser = Address::parse)]
    connect: Option<Address>,
    /// Ask the server at this URL, over HTTP
    #[arg(long, value_name = "URL", conflicts_with_all = ["raw", "framing"])]
    url: Option<String>,
    #[command(flatten)]
    url_headers: UrlHeaders,
    /// WHAT is the name of a tool, also if something else has this name
    #[arg(long, conflicts_with_all = ["method", "raw"])]
    tool: bool,
    /// WHAT is a method, also if MCP has none of this name
    #[arg(long, conflicts_with = "raw")]
    method: bool,
    /// Speak this revision of MCP and no other
    #[arg(long, value_name = "REVISION", value_parser = Revision::from_str, conflicts_with = "raw")]
    revision: Option<Revision>,
    /// Answer a form of the server with this; can be given several times
    #[arg(long, value_name = "KEY=VALUE", conflicts_with = "raw")]
    answer: Vec<String>,
    /// Tell the server that this folder is worked in; can be given several times
    #[arg(long, value_name = "PATH", conflicts_with = "raw")]
    root: Vec<PathBuf>,
    /// Ask for the server's log from this level on: debug, info, notice, warning, error, critical, alert or emergency
    #[arg(long, value_name = "LEVEL", value_parser = level, conflicts_with = "raw")]
    log_level: Option<LoggingLevel>,
    /// Put this into the _meta of the request; can be given several times
    #[arg(long, value_name = "KEY=VALUE", conflicts_with = "raw")]
    meta: Vec<String>,
    /// Write pictures, sound and resources to files in this folder
    #[arg(long, value_name = "DIR", conflicts_with_all = ["raw", "json", "pretty"])]
    save: Option<PathBuf>,
    /// Send also what the server has not declared, or its revision does not have
    #[arg(long, conflicts_with = "raw")]
    lenient: bool,
    /// Send one request of plain JSON-RPC and nothing before it: WHAT is its method, the argument its params
    #[arg(long)]
    raw: bool,
    /// Wait this long for an answer; 0 for ever. The time that the user takes to answer does not count
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = duration::parse, allow_negative_numbers = true)]
    timeout: Duration,
    /// How messages are told apart: one a line, or with Content-Length headers as language servers have them
    #[arg(long, value_enum, default_value_t = Framing::Lines)]
    framing: Framing,
    /// Print the result as JSON, indented
    #[arg(long, conflicts_with = "json")]
    pretty: bool,
    /// Print one JSON object, whatever comes of it
    #[arg(long)]
    json: bool,
    /// Show no progress, log, notifications and requests of the other side
    #[arg(long, short)]
    quiet: bool,
}

#[derive(Clone, Copy, PartialEq, clap::ValueEnum)]
enum Framing {
    Lines,
    ContentLength,
}

const EXAMPLES: &str = r#"Examples:
  barewire call tools -- my-server --stdio            the tools there are, and what they take
  barewire call echo text=hello -- my-server          a tool, with an argument
  barewire call add '{"a":19,"b":23}' -- my-server    with one JSON object, sent as it is
  barewire call read file:///notes.txt -- my-server   a resource
  barewire call prompt greet name=Ada -- my-server    a prompt
  barewire call tools/list --revision 2025-06-18 -- my-server
  barewire call tools --connect tcp:localhost:4000    to a listener; or unix:/run/my.sock
  barewire call tools --url https://example.com/mcp   to a server over HTTP
  barewire call tools --url https://example.com/mcp --bearer-env TOKEN
  barewire call echo text=hello --json -- my-server   for scripts
  barewire call --raw add @params.json -- my-server   plain JSON-RPC, without MCP"#;

const NOTES: &str = "\
A value is what the schema of the tool says: key=5 is a number or a text. key:=JSON gives it as
JSON, key=@FILE takes it from a file. Of several types that a schema allows it is the first that
fits of null, true or false, a number, an array, an object, a text.

With --json the object has:
  kind             result, error, sent (a notification), or failed: there is no answer
  elapsed          seconds since the program was started or connected to
and where it applies:
  revision, era    what is spoken, and whether that is legacy or modern
  server           the name and version of the server
  result, error    what the other side answered; all pages of a list in one
  reason           not-started, not-connected, unauthorized, http, no-handshake, no-revision,
                   closed, content-length, bad-answer, timed-out, cancelled, not-offered,
                   not-in-revision, no-such-name or bad-arguments
  detail, hint     why there is no answer, in words, and what to do about it

At a terminal, what the server asks is asked there: Enter takes what is in brackets, Ctrl-D or
!decline says no, !cancel goes away. Without one it is cancelled, unless --answer has all of it.

Ctrl-C and SIGTERM cancel the call, tell the other side so with notifications/cancelled (with --raw,
$/cancelRequest), and end the program; that is no answer. A second one does not wait for the end.

Exit codes: 0 a result, 1 an error or a tool that says isError, 2 no answer.";

pub(crate) fn run(args: &Args, output: &mut Output) -> Result<Exit, Failure> {
    let target = Target::of(args)?;
    // All that can be wrong with what was typed is found before anything is started.
    let asked = if args.raw { Asked::Raw(raw_params(args)?) } else { Asked::Mcp(Wishes::of(args)?) };
    let runtime = Builder::new_current_thread().enable_all().build().map_err(|error| runtime_failure(&error))?;
    let done = match asked {
        Asked::Raw(params) => runtime.block_on(raw::call(args, &target, params.as_deref(), output)),
        Asked::Mcp(wishes) => runtime.block_on(mcp::call(args, &target, wishes, output)),
    };
    // The name of a host that is still being looked up is not waited for, nor is somebody who was asked something.
    runtime.shutdown_background();
    done
}

enum Asked {
    Raw(Option<Box<RawValue>>),
    Mcp(Wishes),
}

fn raw_params(args: &Args) -> Result<Option<Box<RawValue>>, Failure> {
    match args.arguments.as_slice() {
        [] => Ok(None),
        [params] => params::read(params).map(Some),
        _ => Err(Failure::new("--raw sends one JSON object or array as params")
            .with_hint("without --raw, key=value is read")),
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
        }
    }

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

fn level(text: &str) -> Result<LoggingLevel, String> {
    let names = || LoggingLevel::ALL.map(LoggingLevel::as_str).join(", ");
    LoggingLevel::parse(text).ok_or_else(|| format!("expected one of {}", names()))
}
