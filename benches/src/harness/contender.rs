//! The servers that are measured, and their build.

use std::io;
use std::path::PathBuf;
use std::process::Command;

/// An echo server, a program in the same directory as this one.
#[derive(Debug)]
pub(crate) struct Contender {
    /// Its short name in ratios and in `--only`.
    pub(crate) letter: char,
    /// The name of its program.
    pub(crate) name: &'static str,
    pub(crate) what: &'static str,
    pub(crate) role: Role,
    pub(crate) protocol: Protocol,
    /// The package that its program is part of.
    pub(crate) package: &'static str,
}

/// The role of a contender in a table.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Role {
    /// All ratios are relative to this one.
    Floor,
    /// A server of ours, to which the limits apply.
    Ours,
    /// A server of ours on another runtime: shown, but without limits.
    Aside,
    /// The official SDK, for comparison.
    Theirs,
}

/// The protocol of a server: its opening, and the form of its answers.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Protocol {
    /// Calls without an opening. The answers must have exactly the bytes of the floor, in the order of the requests.
    Bare,
    /// The opening of the era, then calls. The id and the text of each answer must be right; other members and the
    /// order may differ.
    Mcp,
}

impl Contender {
    /// `(a) floor`
    pub(crate) fn title(&self) -> String {
        format!("({}) {}", self.letter, self.name)
    }

    /// The path of its program, in the directory of this one.
    pub(crate) fn program(&self) -> io::Result<PathBuf> {
        Ok(std::env::current_exe()?.with_file_name(self.name))
    }
}

/// Builds the servers, if this was started by `cargo run`, which only builds this program. Otherwise outdated servers
/// could be measured by mistake.
pub(crate) fn build(contenders: &[&Contender]) -> io::Result<()> {
    let Some(cargo) = std::env::var_os("CARGO") else { return Ok(()) };
    let program = std::env::current_exe()?;
    let target = program.ancestors().nth(2).ok_or_else(|| io::Error::other("not in a target directory"))?;
    // One package after the other: built together, ours would get the features of tokio that the SDK enables.
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

/// The packages of the servers on pipes.
pub(crate) const OUR_PACKAGE: &str = env!("CARGO_PKG_NAME");
pub(crate) const THREADS_PACKAGE: &str = "barewire-benches-threads";
pub(crate) const OFFICIAL_PACKAGE: &str = "barewire-benches-official";

/// The packages of the servers over HTTP.
pub(crate) const HTTP_PACKAGE: &str = "barewire-benches-http";
pub(crate) const OFFICIAL_HTTP_PACKAGE: &str = "barewire-benches-official-http";

const PACKAGES: [&str; 5] = [OUR_PACKAGE, THREADS_PACKAGE, OFFICIAL_PACKAGE, HTTP_PACKAGE, OFFICIAL_HTTP_PACKAGE];
