//! The subject of the current probe -> a line on the terminal that is overwritten each time.

use std::io::IsTerminal;

use crate::output::{draw_status, raw_stderr, shown};

/// Shows the progress as a line on stderr, if stderr is a terminal.
pub(super) struct Progress {
    is_shown: bool,
    width: usize,
}

impl Progress {
    pub(super) fn new(quiet: bool) -> Self {
        let stderr = raw_stderr();
        let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        let width = terminal_size::terminal_size_of(&stderr).map_or(80, |(width, _)| usize::from(width.0));
        Self { is_shown: !quiet && !dumb && stderr.is_terminal(), width }
    }

    /// Shows the subject of the current probe.
    pub(super) fn show(&self, subject: &str, started: u32) {
        if self.is_shown {
            let line = format!("checking {subject} ({started} started)");
            draw_status(&shown(line.as_bytes(), self.width.saturating_sub(1)));
        }
    }
}

/// Erases the line.
impl Drop for Progress {
    fn drop(&mut self) {
        if self.is_shown {
            draw_status("");
        }
    }
}
