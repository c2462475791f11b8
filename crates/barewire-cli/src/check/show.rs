//! The catalogue -> the list of checks, or the explanation of one check; as text or JSON.

use barewire_workbench::check::catalogue::{all, resolve};

use crate::check_entry::{show, value};
use crate::output::Output;
use crate::{Exit, Failure};

/// Prints the output of `check --list`.
pub(super) fn list(output: &mut Output, as_json: bool) -> Result<Exit, Failure> {
    for check in all() {
        if as_json {
            writeln!(output, "{}", value(check))?;
        } else {
            let (severity, level) = (check.severity.as_str(), check.level.as_str());
            writeln!(output, "{:<30} {severity:<8} {level:<6} {}", check.id, check.title)?;
        }
    }
    Ok(Exit::Clean)
}

/// Prints the output of `check --explain ID`.
pub(super) fn explain(output: &mut Output, id: &str, as_json: bool) -> Result<Exit, Failure> {
    show(output, resolve(id)?, as_json)?;
    Ok(Exit::Clean)
}
