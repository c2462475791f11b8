//! `barewire read`: a stream or file -> one line per frame, or a summary or diagram of all frames.

mod detail;
mod diagram;
mod direction;
mod event;
mod filter;
mod json;
mod link;
mod list;
mod summary;
mod text;

use std::path::PathBuf;

use barewire_proto::frame::DEFAULT_LIMIT;
use barewire_proto::rpc::DEFAULT_DEPTH;

use crate::failure::report;
use crate::input::{self, InputFormat};
use crate::output::Output;
use crate::{Exit, Failure};
use barewire_workbench::frames::{FrameLimits, FrameReader};
use filter::Filter;
use list::Listing;

/// Show the messages in a file or stream, one line per frame.
///
/// Reads newline-delimited JSON or a .wire transcript. Prints the number, byte offset, kind, id, method and size of
/// every frame. For an invalid frame, also prints the rule it breaks and the position of the error. For a transcript,
/// also prints which request each response answers, and its latency. Memory use does not grow with the input.
#[derive(clap::Args)]
#[command(before_help = EXAMPLES, after_help = NOTES)]
pub(crate) struct Args {
    /// The file to read; - or no file for stdin
    file: Option<PathBuf>,
    /// Show frame N in detail, member by member
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    frame: Option<u64>,
    /// Print one JSON object per line
    #[arg(long)]
    json: bool,
    /// The format of the input; auto recognizes a transcript by the extension .wire or by its header, and reads any
    /// other input as lines
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
    /// At the end of the file, wait for more, for example while a capture is still being written; stop with Ctrl-C
    #[arg(long)]
    follow: bool,
    /// Also show the events of a transcript: HTTP heads, stderr, the exit of the program
    #[arg(long)]
    events: bool,
    #[command(flatten)]
    filter: Filter,
}

const EXAMPLES: &str = "\
Examples:
  barewire read server.log                           list the messages of a log
  my-server < requests | barewire read               list the responses of a server
  barewire read --frame 3 capture.wire               show one frame, member by member
  barewire read --tool search capture.wire           list all calls of one tool, with responses
  barewire read --errors --follow capture.wire       list failures while the capture is written
  barewire read --summary capture.wire               count messages, latency and failures
  barewire read --diagram svg capture.wire > a.svg   draw a diagram
  barewire read --json server.log                    print one JSON object per frame, for scripts";

const NOTES: &str = "\
For a transcript, a line can show, after the size: the latency of a response; whether a response
is late, a second one, or matches no request; the request that a progress or cancel notification is
about; the round of an operation.

With --json every object has:
  frame, offset, length   its number from 1, its byte offset in its stream, its size in bytes
  kind                    request, notification, result, error, batch or invalid
and, depending on the frame:
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

Filters look at one message at a time, so they work in a pipe; only --unanswered waits for the end
of the input. --diagram draws every operation of which at least one message matches.

Exit codes: 0 every frame shown is well formed, 1 some are not, 2 the input cannot be read.";

pub(crate) fn run(args: &Args, output: &mut Output) -> Result<Exit, Failure> {
    if args.json {
        output.write_json();
    }
    let reading = FrameReader {
        file: input::file(args.file.as_deref()),
        format: args.format.into(),
        limits: FrameLimits { frame: args.max_frame, depth: args.max_depth },
        follow: args.follow,
        warn: &report,
    };
    if args.summary {
        return summary::run(args, &reading, output);
    }
    if let Some(format) = args.diagram {
        return diagram::run(args, format, &reading, output);
    }
    let mut listing = Listing::new(args, output);
    reading.each(&mut listing)?;
    listing.finish()
}

fn plural(count: u64, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}
