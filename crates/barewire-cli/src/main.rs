//! The program `barewire`: parses the command line and runs one verb. Each verb has its own file or folder.

// Text from a peer reaches a terminal only through `output`, which escapes it.
#![deny(clippy::disallowed_methods)]

mod ask;
mod attach;
mod bench;
mod call;
mod check;
mod check_entry;
mod completions;
mod demo;
mod explain;
mod failure;
mod input;
mod input_files;
mod log;
mod login;
mod man;
mod output;
mod platform;
mod probe;
mod probe_folder;
mod program_word;
mod read;
mod renewals;
mod replay;
mod serve;
mod tap;
mod url_headers;
mod view;

use std::io;
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
    View(view::Args),
    Replay(replay::Args),
    Call(call::Args),
    Login(Box<login::LoginArgs>),
    Logout(login::LogoutArgs),
    Bench(bench::Args),
    Serve(serve::Args),
    Probe(probe::Args),
    Explain(explain::Args),
    Demo(demo::Args),
    Completions(completions::Args),
    Man(man::Args),
}

/// The layout of a verb's `--help`: purpose, examples, usage, arguments, options, notes.
///
/// A verb sets `#[command(before_help = EXAMPLES, after_help = NOTES)]`. `EXAMPLES` is the heading `Examples:` and one
/// line per example, with the command and its purpose, the most common first. `NOTES` is text about more than one
/// option, and ends with a paragraph `Exit codes: …`. Lines of both constants have at most 100 characters. `man.rs`
/// puts the same texts into the man page.
const VERB_HELP: &str = "\
{about-with-newline}
{before-help}{usage-heading} {usage}

{all-args}{after-help}";

/// The layout of `barewire --help` itself. The help must fit on a terminal with 24 lines of 80 characters.
const PROGRAM_HELP: &str = "\
{about}

{usage-heading} {usage}
Start with:
  demo         Take a one-minute tour
  check        Find out what is wrong with a server, and how to fix it
  call         Call a tool of a server, or list what it offers
  tap          Record every byte between a client and its server
  read         Show a recording or a log, one line per frame
  view         Show recordings in the browser
Then:
  login        Sign in to a server over HTTP, with OAuth
  logout       Forget a sign-in
  attach       Make a host start one of its servers through tap
  detach       Undo attach
  replay       Send a recorded session to a server again, and compare
  bench        Measure a server under load
  serve        Run a small MCP server to test clients with
  probe        Put a host to the test: be its server
  explain      Explain an error code, a rule, a method or a revision
  completions  Print a completion script for a shell
  man          Print the man page of barewire or of a command
`barewire COMMAND --help` shows examples and options.
Exit codes: 0 success, 1 problems found, 2 could not run, 3 check incomplete.";

const EXAMPLES: &str = "\
Examples:
  barewire demo                        take a one-minute tour
  barewire check -- server             find out what is wrong with a server
  barewire call tools -- server        list the tools of a server
  barewire call echo a=1 -- server     call its tool echo
  barewire call tools --url URL        list the tools of a server over HTTP
  barewire login URL                   sign in to a server over HTTP
  barewire tap --log stderr -- server  show the messages between a host and its server
  barewire attach vscode files         record what VS Code and its server files send each other
  barewire read server.log             show what is in a log, one line per frame
  barewire read --frame 3 server.log   show one frame, member by member
  barewire view capture.wire           look at a capture in the browser
  barewire replay good.wire -- server  send a recorded session again, and compare the responses
  barewire bench -- server             measure how fast a server answers
  barewire explain -32601              explain an error code";

const NOTES: &str = "\
Exit codes: 0 success, 1 problems were found, 2 the command could not run, 3 some checks of
barewire check could not run.";

/// The exit code of the program.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Exit {
    /// The command ran and found no problem.
    Clean = 0,
    /// The command ran and found a problem: a finding, a difference, an invalid frame or an error response.
    No = 1,
    /// The command could not run.
    Failed = 2,
    /// Only for `check`: a check that should have run could not.
    Incomplete = 3,
}

/// Returns the definition of the command line, for the parser, `--help`, shell completions and the man pages.
fn command() -> clap::Command {
    // Help lines have at most 100 characters, because longer lines are hard to read.
    let program = Args::command().max_term_width(100).help_template(PROGRAM_HELP);
    program.mut_subcommands(|verb| verb.help_template(VERB_HELP))
}

fn main() -> ExitCode {
    let words = program_word::with_separator(std::env::args_os().collect(), &command());
    let matches = command().get_matches_from(words);
    let args = Args::from_arg_matches(&matches).unwrap_or_else(|error| error.format(&mut command()).exit());
    let mut output = Output::stdout();
    let done = match args.verb {
        Verb::Read(args) => read::run(&args, explain::plain_text, &mut output),
        Verb::Call(args) => call::run(&args, &mut output),
        Verb::Login(args) => login::login(&args, &mut output),
        Verb::Logout(args) => login::logout(&args, &mut output),
        Verb::Check(args) => check::run(&args, &mut output),
        Verb::Bench(args) => bench::run(&args, &mut output),
        Verb::Serve(args) => serve::run(&args),
        Verb::Probe(args) => probe::run(&args),
        Verb::Tap(args) => tap::run(&args),
        Verb::View(args) => view::run(&args, explain::plain_text, &mut output),
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
        // The reader of our output closed the pipe, as `head` does. This is not an error.
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
    #[test]
    fn help_fits_a_screen_and_lists_every_command() {
        let help = super::command().render_help().to_string();
        assert!(help.trim_end().lines().count() <= 24, "{help}");
        assert!(help.lines().all(|line| line.chars().count() <= 80), "{help}");
        let listed = |line: &str| line.strip_prefix("  ").and_then(|line| line.split(' ').next()).map(str::to_owned);
        let mut listed: Vec<_> = help.lines().filter_map(listed).collect();
        let program = super::command();
        let mut commands: Vec<_> = program.get_subcommands().map(|verb| verb.get_name()).collect();
        listed.sort_unstable();
        commands.sort_unstable();
        assert_eq!(listed, commands);
    }

    /// A longer line would wrap at the edge of the terminal, and its end would be alone on the next line.
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
