//! `barewire read`: what is in a stream, a line a frame.

mod apart;
mod capture;
mod json;
mod source;
mod text;
mod verdict;

use std::io::{self, Write};
use std::path::PathBuf;

use barewire::proto::frame::DEFAULT_LIMIT;
use barewire::proto::rpc::DEFAULT_DEPTH;

use crate::output::Output;
use crate::{Exit, Failure};

/// Show what is in a file or stream, a line a frame.
///
/// Reads newline-delimited JSON, or a .wire transcript, and prints for every frame its number, byte offset, kind, id,
/// method and size; for a bad frame the rule it breaks and the place. It streams: memory does not grow with the input.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
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
    #[arg(long, value_enum, default_value_t = Format::Auto)]
    format: Format,
    /// Skip frames of more than this many bytes
    #[arg(long, value_name = "BYTES", default_value_t = DEFAULT_LIMIT)]
    max_frame: usize,
    /// Note messages nested deeper than this
    #[arg(long, value_name = "LEVELS", default_value_t = DEFAULT_DEPTH)]
    max_depth: usize,
}

#[derive(Clone, Copy, PartialEq, clap::ValueEnum)]
enum Format {
    Auto,
    Lines,
    Wire,
    Sse,
    ContentLength,
}

const EXAMPLES: &str = "\
Examples:
  barewire read server.log               every line of a log of messages
  my-server < requests | barewire read   what a server answers
  barewire read --frame 3 capture.wire   one frame, member by member
  barewire read --json server.log        for scripts: one object a line

With --json every object has:
  frame, offset, length   its number from 1, where it begins in its stream, its bytes
  kind                    request, notification, result, error, batch or invalid
and where it applies:
  id                      as it was written
  method, code            the code of an error, or the one a bad frame is refused with
  reason, at, detail      the rule a bad frame breaks, where in the frame, in words
  elements                what is in a batch, in order
  note, deep_at           that it is nested deeper than --max-depth, and where in the frame
  stream, channel, time   where it stands in a transcript
  redacted                that something in it was replaced in the transcript

Exit codes: 0 every frame is well formed, 1 some are not, 2 the input cannot be read.";

pub(crate) fn run(args: &Args, output: &mut Output) -> Result<Exit, Failure> {
    let mut count = Count::default();
    let mut shown = false;
    source::each_frame(args, output, &mut |output, seen| {
        count.frames += 1;
        count.bad += u64::from(!seen.is_well_formed());
        match args.frame {
            None if args.json => json::line(output, seen)?,
            None => text::line(output, seen)?,
            Some(wanted) if wanted == seen.number => {
                shown = true;
                count.bad = u64::from(!seen.is_well_formed());
                if args.json {
                    json::members(output, seen)?;
                } else {
                    apart::show(output, seen)?;
                }
            }
            Some(_) => {}
        }
        Ok(!shown)
    })?;
    if let (Some(wanted), false) = (args.frame, shown) {
        let have = plural(count.frames, "frame");
        return Err(Failure::new(format!("there is no frame {wanted}: the input has {have}"))
            .hint("barewire read without --frame lists them"));
    }
    output.flush()?;
    if args.frame.is_none() && !args.json {
        // Talk goes to stderr; if that is closed there is nobody to tell.
        let bad = if count.bad == 0 { "all well formed".into() } else { format!("{} bad", count.bad) };
        let _ = writeln!(io::stderr(), "{}, {bad}", plural(count.frames, "frame"));
    }
    Ok(if count.bad == 0 { Exit::Clean } else { Exit::No })
}

#[derive(Default)]
struct Count {
    frames: u64,
    bad: u64,
}

fn plural(count: u64, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}
