//! `barewire completions`: the command line -> a script that a shell completes it with.

use barewire_proto::mcp::Revision;
use barewire_workbench::check::catalogue;
use clap::builder::PossibleValuesParser;
use clap_complete::Shell;

use crate::output::Output;
use crate::{Exit, Failure};

/// Print a script that completes barewire's command line in a shell.
#[derive(clap::Args)]
#[command(before_help = EXAMPLES)]
pub(crate) struct Args {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

const EXAMPLES: &str = "\
Examples:
  source <(barewire completions bash)    for this bash; put it into ~/.bashrc for every one
  barewire completions bash > ~/.local/share/bash-completion/completions/barewire
  barewire completions zsh > ~/.zfunc/_barewire    where fpath in ~/.zshrc has that folder
  barewire completions fish > ~/.config/fish/completions/barewire.fish";

pub(crate) fn run(args: &Args, output: &mut Output) -> Result<Exit, Failure> {
    // `generate` panics when its output cannot be written, as into a pipe that is closed: it writes into memory.
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command(), "barewire", &mut script);
    std::io::Write::write_all(output, &script)?;
    Ok(Exit::Clean)
}

/// The command line with the words that there are for some values. When it is parsed they are not needed: whoever takes such a value
/// says in better words what is wrong with it.
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
        let of = |(name, ..): &&(&str, &str, _)| *name == verb.get_name();
        let options: Vec<_> = known.iter().filter(of).collect();
        options.into_iter().fold(verb, |verb, (_, option, words)| {
            verb.mut_arg(option, |arg| arg.value_parser(PossibleValuesParser::new(words.iter().copied())))
        })
    })
}
