//! A server that is measured, and how it is built.

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
    pub(crate) role: Role,
    pub(crate) speaks: Speaks,
    /// The package that its program is part of.
    pub(crate) package: &'static str,
}

/// What a contender is measured for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Role {
    /// The one all ratios are against.
    Floor,
    /// The limits are for it.
    Ours,
    /// Ours on a runtime that somebody else has chosen: told, not judged.
    Aside,
    /// The official SDK, which ours is compared with beside the floor.
    Theirs,
}

/// What a server expects before the first call, and what may be expected of its answers.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Speaks {
    /// Calls from the first line on. Answered with exactly the bytes of the floor, in the order of the requests.
    Bare,
    /// What opens a connection in its era. The id and the text of an answer must be right, whatever else it holds and when
    /// it comes.
    Mcp,
}

impl Contender {
    /// `(a) floor`
    pub(crate) fn title(&self) -> String {
        format!("({}) {}", self.letter, self.name)
    }

    /// Where its program is: beside this one.
    pub(crate) fn program(&self) -> io::Result<PathBuf> {
        Ok(std::env::current_exe()?.with_file_name(self.name))
    }
}

/// Builds the servers, if this was started by `cargo run`, which builds no more than what it runs. A server that is older
/// than its source would be measured without a word.
pub(crate) fn build(contenders: &[&Contender]) -> io::Result<()> {
    let Some(cargo) = std::env::var_os("CARGO") else { return Ok(()) };
    let program = std::env::current_exe()?;
    let target = program.ancestors().nth(2).ok_or_else(|| io::Error::other("not in a target directory"))?;
    // One package after the other: built together, ours would have the features of tokio that the SDK asks for.
    for package in PACKAGES {
        let of_it: Vec<_> = contenders.iter().filter(|one| one.package == package).collect();
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

/// What the servers on pipes are part of.
pub(crate) const OUR_PACKAGE: &str = env!("CARGO_PKG_NAME");
pub(crate) const THREADS_PACKAGE: &str = "barewire-benches-threads";
pub(crate) const OFFICIAL_PACKAGE: &str = "barewire-benches-official";

/// What those over HTTP are part of.
pub(crate) const HTTP_PACKAGE: &str = "barewire-benches-http";
pub(crate) const OFFICIAL_HTTP_PACKAGE: &str = "barewire-benches-official-http";

const PACKAGES: [&str; 5] = [OUR_PACKAGE, THREADS_PACKAGE, OFFICIAL_PACKAGE, HTTP_PACKAGE, OFFICIAL_HTTP_PACKAGE];
