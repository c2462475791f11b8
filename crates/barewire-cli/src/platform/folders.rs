//! The folders that a system has for settings and for what programs keep.

use std::env;
use std::path::PathBuf;

/// The folder of the user.
pub(crate) fn home() -> Option<PathBuf> {
    env::home_dir().filter(|home| home.is_absolute())
}

/// The folder in which programs keep their settings.
pub(crate) fn settings() -> Option<PathBuf> {
    if cfg!(target_os = "macos") {
        return Some(home()?.join("Library/Application Support"));
    }
    absolute("XDG_CONFIG_HOME").or_else(|| Some(home()?.join(".config")))
}

/// The folder for captures if none is named.
pub(crate) fn captures() -> Option<PathBuf> {
    let state = absolute("XDG_STATE_HOME");
    let usual = if cfg!(target_os = "macos") { "Library/Application Support" } else { ".local/state" };
    Some(state.or_else(|| Some(home()?.join(usual)))?.join("barewire"))
}

/// A folder that a variable names. One that is not absolute is ignored, as the XDG specification has it.
fn absolute(variable: &str) -> Option<PathBuf> {
    env::var_os(variable).map(PathBuf::from).filter(|path| path.is_absolute())
}
