//! Lines about a running call -> stderr. On a terminal, there is also one status line that is redrawn.

use std::fmt;
use std::io::{self, IsTerminal, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use barewire::transport::Stderr;
use barewire_proto::transcript::escape;

use crate::output::{ERASE_LINE, ErrorOutput, raw_stderr, shown, stderr};

/// The stderr of this process, shared by all tasks of a call. Write errors are ignored.
pub(super) struct Console {
    pub(super) is_terminal: bool,
    state: Mutex<StatusLine>,
}

#[derive(Default)]
struct StatusLine {
    /// Whether the status line is currently on the screen.
    is_drawn: bool,
    text: String,
    /// Whether a question is shown on the terminal. Meanwhile the status line is not drawn.
    is_paused: bool,
}

impl Console {
    pub(super) fn stderr() -> Arc<Self> {
        Arc::new(Self { is_terminal: raw_stderr().is_terminal(), state: Mutex::default() })
    }

    pub(super) fn line(&self, line: impl fmt::Display) {
        self.redraw(|_, stderr| writeln!(stderr, "{line}"));
    }

    /// Shows progress: in the status line on a terminal, otherwise as a line of its own.
    pub(super) fn status(&self, text: String) {
        if !self.is_terminal {
            return self.line(text);
        }
        self.redraw(|state, _| {
            state.text = text;
            Ok(())
        });
    }

    /// Removes the status line.
    pub(super) fn clear(&self) {
        self.redraw(|state, _| {
            state.text.clear();
            Ok(())
        });
    }

    /// Hides the status line until the returned guard is dropped.
    pub(super) fn pause(self: &Arc<Self>) -> StatusPause {
        self.redraw(|state, _| {
            state.is_paused = true;
            Ok(())
        });
        StatusPause(Arc::clone(self))
    }

    /// Returns a writer for a program's stderr, which escapes it on a terminal and passes it on unchanged otherwise.
    pub(super) fn program_stderr(self: &Arc<Self>) -> Stderr {
        let console = Arc::clone(self);
        Stderr::lines(move |line| {
            if !console.is_terminal {
                return console.redraw(|_, stderr| stderr.unescaped().write_all(&[line, b"\n"].concat()));
            }
            // A tab is shown as four spaces instead of an escape, because stack traces are indented with tabs.
            let parts: Vec<_> = line.split(|byte| *byte == b'\t').map(escape).collect();
            console.line(parts.join("    "));
        })
    }

    /// Erases the status line, applies `change`, which may write lines, and draws the status line again. Everything is
    /// one write, so that lines of different tasks do not mix.
    fn redraw(&self, change: impl FnOnce(&mut StatusLine, &mut ErrorOutput) -> io::Result<()>) {
        let mut state = self.state();
        let mut stderr = stderr();
        let erased = match std::mem::take(&mut state.is_drawn) {
            true => stderr.unescaped().write_all(ERASE_LINE),
            false => Ok(()),
        };
        let changed = change(&mut state, &mut stderr);
        if self.is_terminal && !state.is_paused && !state.text.is_empty() {
            let columns = terminal_size::terminal_size_of(raw_stderr()).map_or(80, |(width, _)| usize::from(width.0));
            // The last column stays empty, because some terminals wrap when it is written.
            let _ = write!(stderr, "{}", shown(state.text.as_bytes(), columns.saturating_sub(1)));
            state.is_drawn = true;
        }
        let _ = erased.and(changed).and_then(|()| stderr.flush());
    }

    fn state(&self) -> MutexGuard<'_, StatusLine> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Hides the status line while it exists.
pub(super) struct StatusPause(Arc<Console>);

impl Drop for StatusPause {
    fn drop(&mut self) {
        self.0.state().is_paused = false;
    }
}
