//! `barewire`: read, debug and drive the wire of the Model Context Protocol. One file a verb.

mod ask;
mod attach;
mod bench;
mod call;
mod check;
mod completions;
mod demo;
mod excerpt;
mod explain;
mod failure;
mod input;
mod log;
mod man;
mod output;
mod platform;
mod read;
mod replay;
mod serve;
mod tap;
mod url_headers;

use std::io::{self, Write};
use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

use failure::Failure;
use output::Output;

/// Read, debug and drive the wire of the Model Context Protocol (MCP).
#[derive(Parser)]
#[command(name = "barewire", version, about, before_help = EXAMPLES, after_help = NOTES)]
#[command(arg_required_else_help = true)]
struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    Check(Box<check::Args>),
    Tap(tap::Args),
    Attach(attach::AttachArgs),
    Detach(attach::DetachArgs),
    Read(read::Args),
    Replay(replay::Args),
    Call(call::Args),
    Bench(bench::Args),
    Serve(serve::Args),
    Explain(explain::Args),
    Demo(demo::Args),
    Completions(completions::Args),
    Man(man::Args),
}

/// What `--help` shows, of the program and of every verb: what it is for, how it is typed, and only then all there is to know.
///
/// A verb says `#[command(before_help = EXAMPLES, after_help = NOTES)]`. `EXAMPLES` is a heading `Examples:` and a line each, what is
/// typed and what it is for; the most usual comes first. `NOTES` is what does not belong to one option, and ends with a paragraph
/// `Exit codes: …`. Both are written in lines of at most a hundred characters. The man page is made of the same texts: `man.rs`.
const HELP: &str = "\
{about-with-newline}
{before-help}{usage-heading} {usage}

{all-args}{after-help}";

const EXAMPLES: &str = "\
Examples:
  barewire check -- server             whether it keeps to MCP, and what to mend where it does not
  barewire demo                        see the grammar at work
  barewire read server.log             what is in it, a line a frame
  barewire read --frame 3 server.log   one frame, member by member
  barewire call tools -- server        ask an MCP server for its tools
  barewire call echo a=1 -- server     call the one that is named echo
  barewire call tools --url URL        ask one that is reached over HTTP
  barewire tap --log stderr -- server  stand between a host and its server, and look on
  barewire attach vscode files         record what a host and its server say to each other
  barewire bench -- server             how fast it answers
  barewire replay good.wire -- server  ask it again what was asked, and compare the answers
  barewire explain -32601              what a code means and who is at fault";

const NOTES: &str = "\
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
    /// Done in part: something that should have been looked at could not be.
    Incomplete = 3,
}

/// The command line as it is parsed, shown, completed and described in the man page.
fn command() -> clap::Command {
    // Prose reads best in lines of at most a hundred characters, however wide the terminal is.
    Args::command().max_term_width(100).help_template(HELP).mut_subcommands(|verb| verb.help_template(HELP))
}

fn main() -> ExitCode {
    let matches = command().get_matches();
    let args = Args::from_arg_matches(&matches).unwrap_or_else(|error| error.format(&mut command()).exit());
    let mut output = Output::stdout();
    let done = match args.verb {
        Verb::Read(args) => read::run(&args, &mut output),
        Verb::Call(args) => call::run(&args, &mut output),
        Verb::Check(args) => check::run(&args, &mut output),
        Verb::Bench(args) => bench::run(&args, &mut output),
        Verb::Serve(args) => serve::run(&args),
        Verb::Tap(args) => tap::run(&args),
        Verb::Replay(args) => replay::run(&args, &mut output),
        Verb::Attach(args) => attach::attach(&args, &mut output),
        Verb::Detach(args) => attach::detach(&args, &mut output),
        Verb::Explain(args) => explain::run(&args, &mut output),
        Verb::Demo(args) => demo::run(&args, &mut output),
        Verb::Completions(args) => completions::run(&args, &mut output),
        Verb::Man(args) => man::run(&args, &mut output),
    };
    let exit = match done.and_then(|exit| output.flush().map(|()| exit).map_err(Failure::from)) {
        Ok(exit) => exit,
        // Whoever reads our output has seen enough.
        Err(failure) if failure.output().is_some_and(|it| it.kind() == io::ErrorKind::BrokenPipe) => Exit::Clean,
        Err(failure) => {
            failure::report(&failure);
            Exit::Failed
        }
    };
    ExitCode::from(exit as u8)
}

#[cfg(test)]
mod tests {
    /// Longer lines are broken where the terminal ends, and their rest stands alone in the next one.
    #[test]
    fn no_line_of_a_help_text_is_longer_than_help_may_be_wide() {
        let program = super::command();
        for command in std::iter::once(&program).chain(program.get_subcommands()) {
            let texts = [command.get_before_help(), command.get_after_help()];
            for text in texts.into_iter().flatten().map(ToString::to_string) {
                for line in text.lines() {
                    assert!(line.chars().count() <= 100, "{}: {line}", command.get_name());
                }
            }
        }
    }
}
