//! `barewire completions`: the definition of the command line -> a completion script for a shell.

use barewire_proto::mcp::Revision;
use barewire_workbench::check::catalogue;
use clap::ValueHint;
use clap::builder::PossibleValuesParser;
use clap_complete::Shell;

use crate::output::Output;
use crate::{Exit, Failure};

/// Print a completion script for a shell.
#[derive(clap::Args)]
#[command(before_help = EXAMPLES, after_help = NOTES)]
pub(crate) struct Args {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

const EXAMPLES: &str = "\
Examples:
  source <(barewire completions bash)             for the current shell; or add it to ~/.bashrc
  barewire completions bash > ~/.local/share/bash-completion/completions/barewire
  barewire completions zsh > ~/.zfunc/_barewire   if ~/.zfunc is in the fpath of ~/.zshrc
  barewire completions fish > ~/.config/fish/completions/barewire.fish";

const NOTES: &str = "Exit codes: 0 the script is printed, 2 it cannot be written.";

pub(crate) fn run(args: &Args, output: &mut Output) -> Result<Exit, Failure> {
    // `generate` panics if writing fails, for example to a closed pipe, so the script is generated in memory first.
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command(), "barewire", &mut script);
    write!(output, "{}", String::from_utf8_lossy(&script))?;
    Ok(Exit::Clean)
}

/// Returns the definition of the command line, with possible values added to some options. These values are for
/// completion only: the verbs report bad values with better messages than the parser would.
fn command() -> clap::Command {
    let ids: Vec<&str> = catalogue::all().map(|check| check.id).collect();
    let revisions: Vec<&str> = Revision::ALL.iter().map(|revision| revision.as_str()).collect();
    let known = [
        ("check", "only", &ids),
        ("check", "skip", &ids),
        ("check", "explain", &ids),
        ("call", "revision", &revisions),
        ("bench", "revision", &revisions),
        ("serve", "revision", &revisions),
    ];
    crate::command().mut_subcommands(|verb| {
        // After these words a shell completes the name of a program, with or without a `--` before it.
        let verb = match verb.get_name() {
            "tap" | "replay" => verb.mut_arg("program", |program| {
                program.last(false).trailing_var_arg(true).value_hint(ValueHint::CommandWithArguments)
            }),
            _ => verb,
        };
        let of = |(name, ..): &&(&str, &str, _)| *name == verb.get_name();
        let options: Vec<_> = known.iter().filter(of).collect();
        options.into_iter().fold(verb, |verb, (_, option, words)| {
            verb.mut_arg(option, |arg| arg.value_parser(PossibleValuesParser::new(words.iter().copied())))
        })
    })
}
