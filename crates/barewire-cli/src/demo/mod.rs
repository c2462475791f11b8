//! `barewire demo`: a one-minute tour of the program, without user input.

mod broken_server;
mod grammar;
mod tour;

use crate::output::{Output, Tone};
use crate::{Exit, Failure};

/// Take a one-minute tour: a recorded session, a broken server checked, the grammar of JSON-RPC.
///
/// Each line that begins with $ is a real command. The tour runs it in a temporary folder, shows what it prints, and
/// removes the folder at the end. Nothing is sent to other machines.
#[derive(clap::Args)]
#[command(before_help = EXAMPLES, after_help = NOTES)]
pub(crate) struct Args {
    /// Show this part only
    #[arg(value_enum)]
    part: Option<Part>,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Part {
    /// A tool call in both eras of MCP, recorded by a tap, and its frames with times
    Session,
    /// A broken server checked, and the finding explained
    Check,
    /// Every kind of JSON-RPC message and all five error codes
    Grammar,
    /// Be the server that `demo check` checks, on stdin and stdout
    #[value(hide = true)]
    BrokenServer,
}

const EXAMPLES: &str = "\
Examples:
  barewire demo                                          the whole tour
  barewire demo check                                    one part of it
  barewire demo grammar | barewire read --format wire    the output of this part is a transcript";

const NOTES: &str = "\
Exit codes: 0 the tour is complete, 2 a command of the tour could not run.";

pub(crate) fn run(args: &Args, output: &mut Output) -> Result<Exit, Failure> {
    match args.part {
        Some(Part::BrokenServer) => broken_server::run(),
        Some(Part::Grammar) => grammar::show(output),
        Some(Part::Session) => tour::show(&[tour::SESSION], output),
        Some(Part::Check) => tour::show(&[tour::CHECK], output),
        None => {
            writeln!(output, "A tour of barewire in one minute. Each line after $ is a real command, run now.\n")?;
            tour::show(&[tour::SESSION, tour::CHECK], output)?;
            heading(
                output,
                "The grammar: each line sent (>), how it is classified (=), each line of the response (<)",
            )?;
            writeln!(output)?;
            grammar::show(output)?;
            writeln!(output, "\n{}\n{NEXT}", output.paint(Tone::Strong, "Next:"))?;
            Ok(Exit::Clean)
        }
    }
}

fn heading(output: &mut Output, text: &str) -> Result<(), Failure> {
    writeln!(output, "{}", output.paint(Tone::Strong, format_args!("== {text}")))?;
    Ok(())
}

const NEXT: &str = "  \
  barewire check -- YOUR-SERVER ARGS…   find out what is wrong with your server, and how to fix it
  barewire call tools -- YOUR-SERVER    list its tools; then call one: barewire call NAME key=value -- YOUR-SERVER
  barewire attach vscode YOUR-SERVER    record what a host and your server send each other
  barewire --help                       see all commands";
