//! Everything that is said while a call runs -> our stderr: lines, and on a terminal one more that is drawn again and again.

use std::io::{self, IsTerminal, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use barewire::transport::Stderr;
use barewire_proto::transcript::escape;

use crate::output::shown;

/// Our stderr, shared by all who have something to say. If it is closed there is nobody to tell, and nothing is.
pub(super) struct Console {
    is_terminal: bool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// What is drawn on the line where the cursor is.
    drawn: bool,
    status: String,
    /// Somebody is asked something there: only whole lines are written, and nothing is drawn.
    held: bool,
}

impl Console {
    pub(super) fn stderr() -> Arc<Self> {
        Arc::new(Self { is_terminal: io::stderr().is_terminal(), state: Mutex::default() })
    }

    pub(super) fn is_terminal(&self) -> bool {
        self.is_terminal
    }

    /// Says a line. What a peer has written of it must have been escaped.
    pub(super) fn say(&self, line: impl AsRef<[u8]>) {
        let mut state = self.state();
        let mut bytes = Vec::new();
        state.erase(&mut bytes);
        bytes.extend_from_slice(line.as_ref());
        bytes.push(b'\n');
        self.draw(&mut state, &mut bytes);
        write(&bytes);
    }

    /// Says how far something has come: a line of its own, or the one that is drawn again.
    pub(super) fn status(&self, text: String) {
        if !self.is_terminal {
            return self.say(text);
        }
        let mut state = self.state();
        let mut bytes = Vec::new();
        state.erase(&mut bytes);
        state.status = text;
        self.draw(&mut state, &mut bytes);
        write(&bytes);
    }

    /// There is nothing more to draw.
    pub(super) fn clear(&self) {
        let mut state = self.state();
        let mut bytes = Vec::new();
        state.erase(&mut bytes);
        state.status.clear();
        write(&bytes);
    }

    /// Draws nothing until what comes back is dropped.
    pub(super) fn hold(self: &Arc<Self>) -> Held {
        let mut state = self.state();
        let mut bytes = Vec::new();
        state.erase(&mut bytes);
        state.held = true;
        write(&bytes);
        Held(Arc::clone(self))
    }

    /// Where the stderr of a program goes: to a terminal escaped, to anything else as it is.
    pub(super) fn program(self: &Arc<Self>) -> Stderr {
        let console = Arc::clone(self);
        Stderr::lines(move |line| {
            if !console.is_terminal {
                return console.say(line);
            }
            // Stack traces are indented with tabs.
            let parts: Vec<_> = line.split(|byte| *byte == b'\t').map(escape).collect();
            console.say(parts.join("    "));
        })
    }

    fn draw(&self, state: &mut State, bytes: &mut Vec<u8>) {
        if !self.is_terminal || state.held || state.status.is_empty() {
            return;
        }
        let columns = terminal_size::terminal_size_of(io::stderr()).map_or(80, |(width, _)| usize::from(width.0));
        // The last column stays empty: some terminals go on to the next line with it.
        bytes.extend_from_slice(shown(state.status.as_bytes(), columns.saturating_sub(1)).as_bytes());
        state.drawn = true;
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn erase(&mut self, bytes: &mut Vec<u8>) {
        if std::mem::take(&mut self.drawn) {
            bytes.extend_from_slice(b"\r\x1b[K");
        }
    }
}

/// In one piece, so that lines of several do not mix.
fn write(bytes: &[u8]) {
    let _ = io::stderr().write_all(bytes);
}

/// The terminal is somebody else's until this is dropped.
pub(super) struct Held(Arc<Console>);

impl Drop for Held {
    fn drop(&mut self) {
        self.0.state().held = false;
    }
}
