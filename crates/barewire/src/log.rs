//! What is refused or fails, a line each on stderr.

use std::fmt;
use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use barewire_proto::rpc::Invalid;
use barewire_proto::transcript::escape;

use crate::Failure;

/// Where a connection's troubles are written down. Nothing that goes wrong with it reaches the connection. Clones write to
/// the same place, and together no more than one would.
#[derive(Clone)]
pub(crate) struct Log(Arc<Mutex<Lines>>);

struct Lines {
    sink: Box<dyn Write + Send>,
    window: Option<Instant>,
    written: u32,
    dropped: u64,
}

impl Log {
    pub(crate) fn stderr() -> Self {
        Self::to(io::stderr())
    }

    pub(crate) fn to(sink: impl Write + Send + 'static) -> Self {
        let lines = Lines { sink: Box::new(sink), window: None, written: 0, dropped: 0 };
        Self(Arc::new(Mutex::new(lines)))
    }

    /// Writes a line about a frame that is no message.
    pub(crate) fn refused(&self, offset: u64, bytes: &[u8], invalid: &Invalid<'_>) {
        let (rule, code) = (invalid.rule.name(), invalid.rule.code());
        self.frame(offset, bytes, format_args!("refused, {rule}: {invalid} ({code})"));
    }

    /// Writes a line about a frame, with what the frame begins with.
    pub(crate) fn frame(&self, offset: u64, bytes: &[u8], what: impl fmt::Display) {
        self.line(format_args!("barewire: frame at byte {offset}: {what}: {}", quoted(bytes)));
    }

    /// Writes a line about a handler, if its failure has more to say than the answer.
    pub(crate) fn failed(&self, method: &str, failure: &Failure) {
        if let Some(what) = failure.log() {
            let (method, what) = (quoted(method.as_bytes()), quoted(what.as_bytes()));
            self.line(format_args!("barewire: handler of {method} failed: {what}"));
        }
    }

    /// Writes a line.
    pub(crate) fn line(&self, line: fmt::Arguments<'_>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).line(line);
    }
}

impl Lines {
    fn line(&mut self, line: fmt::Arguments<'_>) {
        let now = Instant::now();
        if self.window.is_none_or(|start| now.duration_since(start) >= WINDOW) {
            self.catch_up();
            self.window = Some(now);
        }
        if self.written == MOST {
            self.dropped += 1;
            return;
        }
        self.written += 1;
        self.write(line);
    }

    /// Says how much was left out, and starts counting anew.
    fn catch_up(&mut self) {
        self.written = 0;
        match std::mem::take(&mut self.dropped) {
            0 => {}
            dropped => self.write(format_args!("barewire: {dropped} more like these were not logged")),
        }
    }

    /// A log that cannot be written to is no reason to stop, nor is one that panics.
    fn write(&mut self, line: fmt::Arguments<'_>) {
        let line = format!("{line}\n");
        let _ = Failure::catch(|| self.sink.write_all(line.as_bytes()));
    }
}

/// What a peer or a handler wrote, for a line of the log: escaped, and only the beginning of it.
pub(crate) fn quoted(bytes: &[u8]) -> String {
    let more = if bytes.len() > QUOTED { "…" } else { "" };
    format!("{}{more}", escape(&bytes[..bytes.len().min(QUOTED)]))
}

impl Drop for Lines {
    fn drop(&mut self) {
        self.catch_up();
    }
}

impl fmt::Debug for Log {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Log").finish_non_exhaustive()
    }
}

/// How much of a frame is quoted: enough to recognise it, little enough for one line of a terminal or two.
const QUOTED: usize = 80;

/// At most this many lines in a window. A peer that sends rubbish at full speed must not fill the disk.
const MOST: u32 = 100;
const WINDOW: Duration = Duration::from_secs(1);
