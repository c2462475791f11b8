//! `barewire read`: what is in a stream, a line a frame; or all of it in a summary or a picture.

mod apart;
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

/// Show what is in a file or stream, a line a frame.
///
/// Reads newline-delimited JSON, or a .wire transcript, and prints for every frame its number, byte offset, kind, id,
/// method and size; for a bad frame the rule it breaks and the place; of a transcript, what answers what and after how
/// long. It streams: memory does not grow with the input.
#[derive(clap::Args)]
#[command(before_help = EXAMPLES, after_help = NOTES)]
pub(crate) struct Args {
    /// The file to read; - or nothing for stdin
    file: Option<PathBuf>,
    /// Take frame N apart, member by member
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    frame: Option<u64>,
    /// Print one JSON object a line
    #[arg(long)]
    json: bool,
    /// What the input is: auto takes .wire files and what begins with their header as transcripts, else lines
    #[arg(long, value_enum, default_value_t = InputFormat::Auto)]
    format: InputFormat,
    /// Skip frames of more than this many bytes
    #[arg(long, value_name = "BYTES", default_value_t = DEFAULT_LIMIT)]
    max_frame: usize,
    /// Note messages nested deeper than this
    #[arg(long, value_name = "LEVELS", default_value_t = DEFAULT_DEPTH)]
    max_depth: usize,
    /// Say in a page what there was: who spoke, counts, latency, failures; with --json in one object
    #[arg(long, conflicts_with_all = ["frame", "follow", "events"])]
    summary: bool,
    /// Draw it: every message an arrow, or every operation a bar if there are very many
    #[arg(long, value_enum, value_name = "FORM", conflicts_with_all = ["frame", "follow", "summary", "json"])]
    diagram: Option<diagram::Form>,
    /// At the end of the file wait for more, as of a capture that is being written; Ctrl-C ends it
    #[arg(long)]
    follow: bool,
    /// Of a transcript, show also what is no frame: HTTP heads, stderr, the end of the program
    #[arg(long)]
    events: bool,
    #[command(flatten)]
    filter: Filter,
}

const EXAMPLES: &str = "\
Examples:
  barewire read server.log                           every line of a log of messages
  my-server < requests | barewire read               what a server answers
  barewire read --frame 3 capture.wire               one frame, member by member
  barewire read --tool search capture.wire           all calls of one tool, with their answers
  barewire read --errors --follow capture.wire       what fails, while it is being captured
  barewire read --summary capture.wire               who spoke, how much, how long, what failed
  barewire read --diagram svg capture.wire > a.svg   a picture of it
  barewire read --json server.log                    for scripts: one object a line";

const NOTES: &str = "\
Behind the size, of a transcript: how long an answer took; that it came late, for the second time,
or to nobody; what a progress or cancel is about; which round of an operation it is.

With --json every object has:
  frame, offset, length   its number from 1, where it begins in its stream, its bytes
  kind                    request, notification, result, error, batch or invalid
and where it applies:
  id                      as it was written
  method, code            the code of an error, or the one a bad frame is refused with
  message                 what an error says
  reason, at, detail      the rule a bad frame breaks, where in the frame, in words
  elements                what is in a batch, in order
  note, deep_at           that it is nested deeper than --max-depth, and where in the frame
  stream, channel, time   where it stands in a transcript
  redacted                that something in it was replaced in the transcript
  tie                     asks, answers, progress, cancels, refuses, again or nobody
  operation               what it is part of: number, first frame, method, name, round
  latency, late           of an answer, in seconds; that what it answers was cancelled
  is_error, input_required, id_in_use
With --events there are also objects with event, stream, channel, time and text.

Filters look at one message at a time, as it comes, and so work in a pipe; only what is
--unanswered is held back until the end. --diagram draws every operation of which a message is
wanted.

Exit codes: 0 every frame that is shown is well formed, 1 some are not, 2 the input cannot be read.";

pub(crate) fn run(args: &Args, output: &mut Output) -> Result<Exit, Failure> {
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
    if let Some(form) = args.diagram {
        return diagram::run(args, form, &reading, output);
    }
    let mut listing = Listing::new(args, output);
    reading.each(&mut listing)?;
    listing.finish()
}

/// A plain stream says neither who has sent what nor when.
fn refuse_without_places(filter: &Filter) -> Result<(), Failure> {
    let Some(option) = filter.needs_a_transcript() else { return Ok(()) };
    Err(Failure::new(format!("{option} needs a transcript: this input says neither who has sent what nor when"))
        .with_hint("docs/wire-format.md describes what a transcript is"))
}

fn plural(count: u64, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}
