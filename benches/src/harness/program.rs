//! The program `barewire`, built as it is shipped.

use std::io;
use std::path::PathBuf;
use std::process::Command;

/// Builds the program, if this was started by `cargo run`, and returns its path.
pub(super) fn build() -> io::Result<PathBuf> {
    let own = std::env::current_exe()?;
    let target = own.ancestors().nth(2).ok_or_else(|| io::Error::other("not in a target directory"))?;
    if let Some(cargo) = std::env::var_os("CARGO") {
        let mut build = Command::new(cargo);
        build.args(["build", "--quiet", "--profile", "dist", "--package", "barewire-cli", "--manifest-path"]);
        build.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/../Cargo.toml")).arg("--target-dir").arg(target);
        if !build.status()?.success() {
            return Err(io::Error::other("the program cannot be built"));
        }
    }
    Ok(target.join("dist/barewire"))
}
