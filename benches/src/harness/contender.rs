//! The servers that are measured, in the order they take turns.

use std::io;
use std::path::PathBuf;
use std::process::Command;

/// An echo server, a program beside this one.
#[derive(Debug)]
pub(crate) struct Contender {
    /// What it is called in ratios and in `--only`.
    pub(crate) letter: char,
    /// The name of its program.
    pub(crate) name: &'static str,
    pub(crate) what: &'static str,
    /// Whether there is such a program yet. One that is not built has a row that says so.
    pub(crate) built: bool,
    pub(crate) speaks: Speaks,
}

/// What a server expects before the first call, and what may be expected of its answers.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Speaks {
    /// Calls from the first line on. Answered with exactly the bytes of the floor, in the order of the requests.
    Bare,
    /// `initialize` first. The id and the text of an answer must be right, whatever else it holds and when it comes.
    Mcp,
}

impl Contender {
    /// `(a) floor`
    pub(crate) fn title(&self) -> String {
        format!("({}) {}", self.letter, self.name)
    }

    /// The package that its program is part of.
    fn package(&self) -> &'static str {
        match self.speaks {
            Speaks::Bare => OUR_PACKAGE,
            Speaks::Mcp => "barewire-benches-official",
        }
    }

    /// Where its program is: beside this one.
    pub(crate) fn program(&self) -> io::Result<PathBuf> {
        Ok(std::env::current_exe()?.with_file_name(self.name))
    }
}

/// The one all ratios are against.
pub(crate) const FLOOR: &Contender = &CONTENDERS[0];

/// The ones the marks are for.
pub(crate) const OURS: [&Contender; 2] = [&CONTENDERS[2], &CONTENDERS[1]];

/// The ones ours are compared with beside the floor.
pub(crate) const THEIRS: [&Contender; 2] = [&CONTENDERS[3], &CONTENDERS[4]];

pub(crate) const CONTENDERS: [Contender; 5] = [
    Contender {
        letter: 'a',
        name: "floor",
        what: "a hand-written loop on serde_json",
        built: true,
        speaks: Speaks::Bare,
    },
    Contender {
        letter: 'b',
        name: "blocking",
        what: "barewire without a runtime",
        built: true,
        speaks: Speaks::Bare,
    },
    Contender { letter: 'c', name: "engine", what: "barewire's engine", built: true, speaks: Speaks::Bare },
    Contender {
        letter: 'd',
        name: "rmcp-default",
        what: "rmcp 3.8.0, a thread a processor, stdio(), #[tool]",
        built: true,
        speaks: Speaks::Mcp,
    },
    Contender {
        letter: 'e',
        name: "rmcp-best",
        what: "rmcp 3.8.0, one thread, stdio_pipes(), call_tool by hand",
        built: true,
        speaks: Speaks::Mcp,
    },
];

/// Builds the servers, if this was started by `cargo run`, which builds no more than what it runs. A server that is older
/// than its source would be measured without a word.
pub(crate) fn build(contenders: &[&Contender]) -> io::Result<()> {
    let Some(cargo) = std::env::var_os("CARGO") else { return Ok(()) };
    let program = std::env::current_exe()?;
    let target = program.ancestors().nth(2).ok_or_else(|| io::Error::other("not in a target directory"))?;
    // One package after the other: built together, ours would have the features of tokio that the SDK asks for.
    for package in [OUR_PACKAGE, "barewire-benches-official"] {
        let of_it: Vec<_> = contenders.iter().filter(|one| one.package() == package).collect();
        if of_it.is_empty() {
            continue;
        }
        let mut build = Command::new(&cargo);
        build.args(["build", "--quiet", "--release", "--package", package, "--manifest-path"]);
        build.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml")).arg("--target-dir").arg(target);
        build.args(of_it.iter().flat_map(|one| ["--bin", one.name]));
        if !build.status()?.success() {
            return Err(io::Error::other("the servers cannot be built"));
        }
    }
    Ok(())
}

const OUR_PACKAGE: &str = env!("CARGO_PKG_NAME");
