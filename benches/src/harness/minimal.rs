//! The smallest MCP servers as packages: their crates, and the CPU time of their builds.

use std::collections::BTreeSet;
use std::error::Error;
use std::fmt::{self, Display, Formatter};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use serde::Serialize;

/// The packages: ours and that of the official SDK.
const PACKAGES: [&str; 2] = ["barewire", "rmcp"];

/// The results of a run.
#[derive(Debug, Serialize)]
pub(crate) struct Builds {
    rounds: usize,
    packages: Vec<Build>,
}

/// The results of one package. Times are medians, in seconds.
#[derive(Debug, Serialize)]
struct Build {
    package: &'static str,
    /// The number of crates that it depends on.
    crates: usize,
    /// User and system time of all processes that cargo starts.
    cpu: f64,
    wall: f64,
    /// The size of the program in bytes.
    size: u64,
}

/// Builds each package in a fresh target directory, in turns. All crates have been downloaded before.
pub(crate) fn build(rounds: usize, say: fn(&str)) -> Result<Builds, Box<dyn Error>> {
    for package in PACKAGES {
        run(cargo(package, "fetch"))?;
    }
    let mut results = PACKAGES.map(|_| Vec::new());
    for round in 1..=rounds {
        for (package, results) in PACKAGES.into_iter().zip(&mut results) {
            say(&format!("building {package}, round {round} of {rounds}"));
            results.push(build_once(package)?);
        }
    }
    let mut packages = Vec::new();
    for (package, mut results) in PACKAGES.into_iter().zip(results) {
        results.sort_by(|one, other| one.cpu.total_cmp(&other.cpu));
        let BuildResult { cpu, wall, size } = results[results.len() / 2];
        packages.push(Build { package, crates: crates(package)?, cpu, wall, size });
    }
    Ok(Builds { rounds, packages })
}

#[derive(Clone, Copy)]
struct BuildResult {
    cpu: f64,
    wall: f64,
    size: u64,
}

fn build_once(package: &str) -> io::Result<BuildResult> {
    let target = ScratchDir::new()?;
    let mut build = cargo(package, "build");
    build.args(["--quiet", "--release", "--target-dir"]).arg(&target.0);
    let (before, start) = (children_cpu()?, Instant::now());
    run(build)?;
    let (cpu, wall) = (children_cpu()? - before, start.elapsed().as_secs_f64());
    let program = target.0.join("release").join(format!("minimal-{package}"));
    Ok(BuildResult { cpu, wall, size: fs::metadata(program)?.len() })
}

fn crates(package: &str) -> io::Result<usize> {
    let mut tree = cargo(package, "tree");
    tree.args(["--prefix", "none", "--edges", "normal,build"]).stdout(Stdio::piped());
    let output = tree.spawn()?.wait_with_output()?;
    if !output.status.success() {
        return Err(failed(&tree));
    }
    let text = String::from_utf8_lossy(&output.stdout);
    // The lines are `name v1.2.3 (note)`. A crate is built once for each version. The first line is the package itself.
    let crates: BTreeSet<_> = text
        .lines()
        .skip(1)
        .filter(|line| !line.is_empty())
        .map(|line| line.splitn(3, ' ').take(2).collect::<Vec<_>>())
        .collect();
    Ok(crates.len())
}

fn cargo(package: &str, verb: &str) -> Command {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("minimal").join(package).join("Cargo.toml");
    cargo.args([verb, "--locked", "--manifest-path"]).arg(manifest);
    cargo
}

fn run(mut command: Command) -> io::Result<()> {
    if command.status()?.success() { Ok(()) } else { Err(failed(&command)) }
}

fn failed(command: &Command) -> io::Error {
    io::Error::other(format!("{command:?} failed"))
}

/// The CPU time of all children that have ended, and of their children, in seconds.
fn children_cpu() -> io::Result<f64> {
    let stat = fs::read_to_string("/proc/self/stat")?;
    // The name is in brackets and may contain any characters; `cutime` and `cstime` are the 14th and 15th fields after
    // it.
    let ticks = stat.rsplit(") ").next().map(|fields| fields.split(' ').skip(13).take(2));
    let ticks: Option<u64> = ticks.and_then(|ticks| ticks.map(|ticks| ticks.parse::<u64>().ok()).sum());
    let ticks = ticks.ok_or_else(|| io::Error::other("no times in /proc/self/stat"))?;
    Ok(ticks as f64 / rustix::param::clock_ticks_per_second() as f64)
}

/// A directory that is removed when dropped.
struct ScratchDir(PathBuf);

impl ScratchDir {
    fn new() -> io::Result<Self> {
        let path = std::env::temp_dir().join(format!("barewire-benches-{}", std::process::id()));
        fs::create_dir(&path)?;
        Ok(Self(path))
    }
}

impl Drop for ScratchDir {
    fn drop(&mut self) {
        // Leftovers in a temporary directory do no harm.
        let _ = fs::remove_dir_all(&self.0);
    }
}

impl Display for Builds {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(f, "A minimal server on stdio, built in release mode from scratch; median of {}.\n", self.rounds)?;
        writeln!(f, "{:<12} {:>7} {:>10} {:>10} {:>10}", "", "crates", "CPU", "time", "program")?;
        for Build { package, crates, cpu, wall, size } in &self.packages {
            let size = *size as f64 / f64::from(1 << 20);
            writeln!(f, "{package:<12} {crates:>7} {cpu:>8.1} s {wall:>8.1} s {size:>6.2} MiB")?;
        }
        if let [ours, theirs] = &self.packages[..] {
            let verdict = |holds| if holds { "holds" } else { "MISSED" };
            let ratio = ours.cpu / theirs.cpu;
            writeln!(f, "\n{} / {} crates {}", ours.crates, theirs.crates, verdict(ours.crates < theirs.crates))?;
            writeln!(f, "{ratio:.2} of the CPU {}", verdict(ratio < 1.0))?;
        }
        Ok(())
    }
}
