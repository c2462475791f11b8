//! `barewire read`: a stream or file -> one line per frame, or a summary or diagram of all frames.

mod compare;
mod detail;
mod diagram;
mod direction;
mod event;
mod export;
mod filter;
mod json;
mod list;
mod summary;
mod text;
mod wire;

use std::cell::RefCell;
use std::path::{Path, PathBuf};

use barewire_proto::frame::DEFAULT_LIMIT;
use barewire_proto::rpc::DEFAULT_DEPTH;

use crate::failure::report;
use crate::input::{self, InputFormat};
use crate::input_files::InputFiles;
use crate::output::{Output, stderr};
use crate::{Exit, Failure};
use barewire_workbench::capture::Redactor;
use barewire_workbench::filter::Filter;
use barewire_workbench::frames::{Format, FrameLimits, FrameReader, ReadNotice};
use diagram::DiagramFormat;
use filter::FilterOptions;
use list::Listing;

/// Show the messages in files or a stream, one line per frame.
///
/// Reads newline-delimited JSON, .wire transcripts, the logs of hosts (Claude Desktop, VS Code and others), and HAR
/// files of browsers and proxies. Prints the number, byte offset, kind, id, method and size of
/// every frame. For an invalid frame, also prints the rule it breaks and the position of the error. For a transcript,
/// also prints which request each response answers, and its latency. Memory use does not grow with the input.
#[derive(clap::Args)]
#[command(before_help = EXAMPLES, after_help = NOTES)]
pub(crate) struct Args {
    /// The files to read: paths, patterns such as 'logs/*.wire', or folders; - or no file for stdin
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Show frame N in detail, member by member
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    frame: Option<u64>,
    /// With --frame, show whole values, however long they are
    #[arg(long, requires = "frame")]
    full: bool,
    /// Print one JSON object per line
    #[arg(long)]
    json: bool,
    /// The format of the input; auto recognizes a transcript by the extension .wire or by its header, a HAR file by the
    /// extension .har or by its beginning, and the log of a host by its first lines, and reads any other input as lines
    #[arg(long, value_enum, default_value_t = InputFormat::Auto)]
    format: InputFormat,
    /// Skip frames of more than this many bytes
    #[arg(long, value_name = "BYTES", default_value_t = DEFAULT_LIMIT)]
    max_frame: usize,
    /// Add a note to messages that are nested deeper than this
    #[arg(long, value_name = "LEVELS", default_value_t = DEFAULT_DEPTH)]
    max_depth: usize,
    /// Print a summary: participants, counts, latency, failures; with --json as one object
    #[arg(long, conflicts_with_all = ["frame", "follow", "events"])]
    summary: bool,
    /// Draw a diagram: one arrow per message, or one bar per operation if there are very many
    #[arg(long, value_enum, value_name = "FORMAT", conflicts_with_all = ["frame", "follow", "summary", "json"])]
    diagram: Option<diagram::DiagramFormat>,
    /// Print the log of a host or a HAR file as a .wire transcript, for check and replay
    #[arg(long, conflicts_with_all = ["frame", "follow", "events", "summary", "json", "diagram", "filters"])]
    wire: bool,
    /// Print a HAR 1.2 file, for tools that show HTTP: one entry for each request with its response
    #[arg(long, conflicts_with_all = OTHER_OUTPUT)]
    har: bool,
    /// Print traces as OTLP/JSON, for tools of OpenTelemetry: one span for each operation
    #[arg(long, conflicts_with_all = OTHER_OUTPUT, conflicts_with = "har")]
    otlp: bool,
    /// Print a web page, as one file, that shows the messages as barewire view does, anywhere and without barewire
    #[arg(long, conflicts_with_all = OTHER_OUTPUT, conflicts_with = "har", conflicts_with = "otlp")]
    html: bool,
    /// Compare the operations of FILE with those of this file, and print what differs: the exit code is 1 if anything does
    #[arg(long, value_name = "OTHER", conflicts_with_all = ["har", "otlp", "html"])]
    #[arg(conflicts_with_all = ["frame", "follow", "events", "summary", "diagram", "wire", "filters"])]
    compare: Option<PathBuf>,
    /// Do not redact secrets in the log of a host, in a HAR file, or in what is exported
    #[arg(long)]
    no_redact: bool,
    /// At the end of the file, wait for more, for example while a capture is still being written; stop with Ctrl-C
    #[arg(long)]
    follow: bool,
    /// Also show the events of a transcript: HTTP heads, stderr, the exit of the program
    #[arg(long)]
    events: bool,
    #[command(flatten)]
    filter: FilterOptions,
}

/// The options and groups that an exported file cannot be combined with.
const OTHER_OUTPUT: [&str; 7] = ["frame", "follow", "events", "summary", "json", "diagram", "wire"];

const EXAMPLES: &str = "\
Examples:
  barewire read server.log                           list the messages of a log
  my-server < requests | barewire read               list the responses of a server
  barewire read --frame 3 capture.wire               show one frame, member by member
  barewire read --frame 3 --full capture.wire        and every value as a whole
  barewire read --tool search capture.wire           list all calls of one tool, with responses
  barewire read --errors --follow capture.wire       list failures while the capture is written
  barewire read --summary capture.wire               count messages, latency and failures
  barewire read --diagram svg capture.wire > a.svg   draw a diagram
  barewire read --json server.log                    print one JSON object per frame, for scripts
  barewire read --errors 'logs/*.wire'               list the failures of several captures
  barewire read mcp-server-files.log                 read the log that Claude Desktop writes
  barewire read --wire session.har > session.wire    convert what a browser has recorded
  barewire read --har capture.wire > a.har           export for tools that show HTTP
  barewire read --otlp capture.wire > traces.json    export for tools that show traces
  barewire read --html capture.wire > a.html         a page that shows the capture in any browser
  barewire read --compare new.wire old.wire          show which operations differ, and where";

const NOTES: &str = "\
For a transcript, a line can show, after the size: the latency of a response; whether a response
is late, a second one, or matches no request; the request that a progress or cancel notification is
about; the round of an operation.

With --json every object has:
  frame, offset, length   its number from 1, its byte offset in its stream, its size in bytes
  kind                    request, notification, result, error, batch, invalid, or cut if only the
                          beginning of the frame was recorded
and, depending on the frame:
  file                    the name of its file, if there are several
  id                      as the sender wrote it
  method, code            the method; the code of an error, or of the error for an invalid frame
  message                 the message of an error
  reason, at, detail      the rule an invalid frame breaks, the offset of the error, a description
  elements                the messages of a batch, in order
  note, deep_at           a note that it is nested deeper than --max-depth, and the offset where
  stream, channel, time   its place in a transcript
  redacted                true if a secret in it was replaced in the transcript
  tie                     its role: asks, answers, progress, cancels, refuses, again (a second
                          response) or nobody (a response without a request)
  operation               the operation it is part of: number, first frame, method, name, round
  latency, late           of a response: seconds; true if its request was cancelled before
  is_error, input_required, id_in_use
With --events there are also objects with event, stream, channel, time and text.

A log of a host says who sent each message, and when. Lines of the server's stderr and other lines
of the log are events. Secrets in logs and HAR files are shown as <redacted-1>, <redacted-2> and so
on, as in captures, unless --no-redact is given.

Each of several files is read by itself, in the given order. If one cannot be read, the others are
still shown, and the exit code is 2.

Filters look at one message at a time, so they work in a pipe; only --unanswered waits for the end
of the input. --diagram, --har and --otlp have every operation of which at least one message
matches; --html has the messages that match.

Exit codes: 0 every frame shown is well formed, 1 some are not, 2 the input cannot be read.";

/// Explains a word of the protocol, for the page of `--html`.
pub(crate) type Explain = fn(&str) -> Option<String>;

pub(crate) fn run(args: &Args, explain: Explain, output: &mut Output) -> Result<Exit, Failure> {
    if args.json {
        output.write_json();
    }
    let InputFiles { files, is_named } = InputFiles::find(&args.files)?;
    if let (true, Some(option)) = (is_named, args.option_for_one_file()) {
        return Err(Failure::new(format!("{option} needs a single file")).with_hint("name one file, without a pattern"));
    }
    let filter = args.filter.filter();
    let mut worst = Exit::Clean;
    for (index, file) in files.iter().enumerate() {
        let name = file.as_ref().map_or("stdin".into(), |file| file.display().to_string());
        if is_named && !args.json {
            writeln!(output, "{}==> {name} <==", if index > 0 { "\n" } else { "" })?;
            output.flush()?;
        }
        match args.read(file.as_deref(), is_named.then_some(&name), (&filter, explain), output) {
            Ok(exit) => worst = if worst as u8 >= exit as u8 { worst } else { exit },
            // The other files are still shown.
            Err(failure) if is_named && failure.output().is_none() => {
                output.flush()?;
                report(&failure);
                worst = Exit::Failed;
            }
            Err(failure) => return Err(failure),
        }
        // The lines on stderr about this file come before the next file.
        output.flush()?;
    }
    Ok(worst)
}

impl Args {
    /// Returns the option that cannot be used with several files, if there is one.
    fn option_for_one_file(&self) -> Option<&'static str> {
        let exported =
            [("--har", self.har), ("--otlp", self.otlp), ("--html", self.html), ("--compare", self.compare.is_some())];
        if let Some((option, _)) = exported.into_iter().find(|(_, is_set)| *is_set) {
            return Some(option);
        }
        match (self.frame, self.follow, self.wire, self.diagram) {
            // Frames are numbered in each file.
            (Some(_), ..) => Some("--frame"),
            (_, true, ..) => Some("--follow"),
            (_, _, true, _) => Some("--wire"),
            (.., Some(DiagramFormat::Svg)) => Some("--diagram svg"),
            (.., Some(DiagramFormat::Mermaid)) => Some("--diagram mermaid"),
            (.., Some(DiagramFormat::Text) | None) => None,
        }
    }

    /// Reads one file, or stdin. `name` is the name of the file, if the output has to say it.
    fn read(
        &self,
        file: Option<&Path>,
        name: Option<&String>,
        (filter, explain): (&Filter, Explain),
        output: &mut Output,
    ) -> Result<Exit, Failure> {
        let mut redactor = if self.no_redact { Redactor::off() } else { Redactor::new() };
        let redact = move |entry, out: &mut Vec<_>| redactor.entry(entry, out);
        let reading = |filter| FrameReader {
            file: input::file(file),
            format: self.format.into(),
            limits: FrameLimits { frame: self.max_frame, depth: self.max_depth },
            follow: self.follow,
            warn: &report,
            notice: &tell,
            filter,
        };
        if self.wire {
            return wire::run(reading(None), redact, output);
        }
        let redacting = RefCell::new(redact);
        let (reading, name) = (reading(Some(&redacting)), name.map(String::as_str));
        if let Some(other) = &self.compare {
            return compare::run(other, &reading, self.json, output);
        }
        let redactor = || if self.no_redact { Redactor::off() } else { Redactor::new() };
        if self.har {
            return export::har(&reading, filter, redactor(), output);
        }
        if self.html {
            return export::html(&reading, filter, redactor(), explain, output);
        }
        if self.otlp {
            return export::otlp(&reading, filter, redactor(), output);
        }
        if self.summary {
            return summary::run(self, filter, &reading, name, output);
        }
        if let Some(format) = self.diagram {
            return diagram::run(self, format, filter, &reading, output);
        }
        let mut listing = Listing::new(self, filter, name, output);
        reading.each(&mut listing)?;
        listing.finish()
    }
}

/// Writes a fact about the input to stderr.
fn tell(notice: ReadNotice) {
    let _ = match notice {
        ReadNotice::Recognized(Format::HostLog) => {
            writeln!(stderr(), "reading the log of a host; --format lines reads it as messages")
        }
        ReadNotice::Recognized(Format::Har) => writeln!(stderr(), "reading a HAR file"),
        ReadNotice::OtherExchanges(count) => {
            let are = if count == 1 { "is not MCP and is" } else { "are not MCP and are" };
            writeln!(stderr(), "{} in the HAR file {are} left out", plural(count, "exchange"))
        }
        ReadNotice::MissingBodies(count) => {
            let bodies = if count == 1 { "1 body is".to_owned() } else { format!("{count} bodies are") };
            writeln!(stderr(), "{bodies} missing or cut in the HAR file, by the program that wrote it")
        }
        _ => Ok(()),
    };
}

fn plural(count: u64, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}
