//! `barewire`: read, debug and drive the wire of the Model Context Protocol. One file a verb.

#[cfg(unix)]
mod bearer;
#[cfg(unix)]
mod call;
mod demo;
mod excerpt;
mod explain;
mod failure;
mod nearest;
mod output;
mod read;
#[cfg(unix)]
mod serve;

use std::io::{self, Write};
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use failure::Failure;
use output::Output;

/// Read, debug and drive the wire of the Model Context Protocol (MCP).
#[derive(Parser)]
#[command(name = "barewire", version, about, after_help = EXAMPLES, arg_required_else_help = true)]
struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    Read(read::Args),
    #[cfg(unix)]
    Call(call::Args),
    #[cfg(unix)]
    Serve(serve::Args),
    Explain(explain::Args),
    Demo(demo::Args),
}

const EXAMPLES: &str = "\
Examples:
  barewire demo                        see the grammar at work
  barewire read server.log             what is in it, a line a frame
  barewire read --frame 3 server.log   one frame, member by member
  barewire call tools -- server        ask an MCP server for its tools
  barewire call echo a=1 -- server     call the one that is named echo
  barewire call tools --url URL        ask one that is reached over HTTP
  barewire explain -32601              what a code means and who is at fault

Exit codes: 0 fine, 1 the answer is no, 2 it could not be done.";

/// What the exit code says.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Exit {
    /// Done, and all is well.
    Clean = 0,
    /// Done, and the answer is no.
    No = 1,
    /// Not done.
    Failed = 2,
}

fn main() -> ExitCode {
    let args = Args::parse();
    let mut output = Output::stdout();
    let done = match args.verb {
        Verb::Read(args) => read::run(&args, &mut output),
        #[cfg(unix)]
        Verb::Call(args) => call::run(&args, &mut output),
        #[cfg(unix)]
        Verb::Serve(args) => serve::run(&args),
        Verb::Explain(args) => explain::run(&args, &mut output),
        Verb::Demo(args) => demo::run(&args, &mut output),
    };
    let exit = match done.and_then(|exit| output.flush().map(|()| exit).map_err(Failure::from)) {
        Ok(exit) => exit,
        // Whoever reads our output has seen enough.
        Err(Failure::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => Exit::Clean,
        Err(failure) => {
            failure.report();
            Exit::Failed
        }
    };
    ExitCode::from(exit as u8)
}
