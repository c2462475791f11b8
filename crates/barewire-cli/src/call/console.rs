//! Lines about a running call -> stderr. On a terminal, there is also one status line that is redrawn.

use std::io::{self, IsTerminal, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use barewire::transport::Stderr;
use barewire_proto::transcript::escape;

use crate::output::shown;

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
        Arc::new(Self { is_terminal: io::stderr().is_terminal(), state: Mutex::default() })
    }

    /// Writes a line. The caller must escape any text that came from a peer.
    pub(super) fn line(&self, line: impl AsRef<[u8]>) {
        self.redraw(|_, bytes| {
            bytes.extend_from_slice(line.as_ref());
            bytes.push(b'\n');
        });
    }

    /// Shows progress: in the status line on a terminal, otherwise as a line of its own.
    pub(super) fn status(&self, text: String) {
        if !self.is_terminal {
            return self.line(text);
        }
        self.redraw(|state, _| state.text = text);
    }

    /// Removes the status line.
    pub(super) fn clear(&self) {
        self.redraw(|state, _| state.text.clear());
    }

    /// Hides the status line until the returned guard is dropped.
    pub(super) fn pause(self: &Arc<Self>) -> StatusPause {
        self.redraw(|state, _| state.is_paused = true);
        StatusPause(Arc::clone(self))
    }

    /// Returns a writer for a program's stderr, which escapes it on a terminal and passes it on unchanged otherwise.
    pub(super) fn program_stderr(self: &Arc<Self>) -> Stderr {
        let console = Arc::clone(self);
        Stderr::lines(move |line| {
            if !console.is_terminal {
                return console.line(line);
            }
            // A tab is shown as four spaces instead of an escape, because stack traces are indented with tabs.
            let parts: Vec<_> = line.split(|byte| *byte == b'\t').map(escape).collect();
            console.line(parts.join("    "));
        })
    }

    /// Erases the status line, applies `change`, which may write lines, and draws the status line again. Everything is
    /// one write, so that lines of different tasks do not mix.
    fn redraw(&self, change: impl FnOnce(&mut StatusLine, &mut Vec<u8>)) {
        let mut state = self.state();
        let mut bytes = Vec::new();
        if std::mem::take(&mut state.is_drawn) {
            bytes.extend_from_slice(b"\r\x1b[K");
        }
        change(&mut state, &mut bytes);
        if self.is_terminal && !state.is_paused && !state.text.is_empty() {
            let columns = terminal_size::terminal_size_of(io::stderr()).map_or(80, |(width, _)| usize::from(width.0));
            // The last column stays empty, because some terminals wrap when it is written.
            bytes.extend_from_slice(shown(state.text.as_bytes(), columns.saturating_sub(1)).as_bytes());
            state.is_drawn = true;
        }
        let _ = io::stderr().write_all(&bytes);
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
