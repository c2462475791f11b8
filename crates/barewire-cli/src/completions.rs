//! `barewire completions`: the command line -> a script that a shell completes it with.

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
    clap_complete::generate(args.shell, &mut crate::command(), "barewire", &mut script);
    std::io::Write::write_all(output, &script)?;
    Ok(Exit::Clean)
}
