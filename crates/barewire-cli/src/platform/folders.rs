//! The standard folders of the operating system for settings and data.

use std::env;
use std::path::PathBuf;

/// The name of the operating system.
pub(crate) const NAME: &str = env::consts::OS;

pub(crate) fn home() -> Option<PathBuf> {
    env::home_dir().filter(|home| home.is_absolute())
}

pub(crate) fn captures() -> Option<PathBuf> {
    let state = absolute("XDG_STATE_HOME");
    let default = if cfg!(target_os = "macos") { "Library/Application Support" } else { ".local/state" };
    Some(state.or_else(|| Some(home()?.join(default)))?.join("barewire"))
}

/// Returns the folder named by an environment variable. A relative path is ignored, as the XDG specification requires.
fn absolute(variable: &str) -> Option<PathBuf> {
    env::var_os(variable).map(PathBuf::from).filter(|path| path.is_absolute())
}
