//! `FILE`, `-` or no argument on the command line -> a file, or stdin.

use std::io::{self, IsTerminal};
use std::path::Path;

use barewire_workbench::frames::Format;

use crate::output::stderr;

/// The value of `--format`: the format of the input.
#[derive(Clone, Copy, PartialEq, clap::ValueEnum)]
pub(crate) enum InputFormat {
    Auto,
    Lines,
    Wire,
    Sse,
    ContentLength,
    HostLog,
    Har,
}

impl From<InputFormat> for Format {
    fn from(format: InputFormat) -> Self {
        match format {
            InputFormat::Auto => Self::Auto,
            InputFormat::Lines => Self::Lines,
            InputFormat::Wire => Self::Wire,
            InputFormat::Sse => Self::Sse,
            InputFormat::ContentLength => Self::ContentLength,
            InputFormat::HostLog => Self::HostLog,
            InputFormat::Har => Self::Har,
        }
    }
}

/// Returns the named file, or `None` for stdin. If stdin is a terminal, tells the user to type the input.
pub(crate) fn file(named: Option<&Path>) -> Option<&Path> {
    let file = named.filter(|path| path.as_os_str() != "-");
    if file.is_none() && io::stdin().is_terminal() {
        let _ = writeln!(stderr(), "reading from the terminal: end the input with Ctrl-D, or name a file");
    }
    file
}
