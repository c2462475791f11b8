//! What is refused or fails -> events of `tracing`, at most a hundred a second.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use barewire_proto::rpc::Invalid;
use barewire_proto::transcript::escape;
use tracing::{Level, error, event_enabled, warn};

use crate::Failure;

/// The log of a connection. A subscriber that fails does not reach the connection. Clones count together against the limit on
/// events a second.
#[derive(Debug, Clone, Default)]
pub(crate) struct Log(Arc<Mutex<Window>>);

/// The second that events are counted in.
#[derive(Debug, Default)]
struct Window {
    start: Option<Instant>,
    sent: u32,
    dropped: u64,
}

impl Log {
    /// Reports a frame that is no message.
    pub(crate) fn refused(&self, offset: u64, bytes: &[u8], invalid: &Invalid<'_>) {
        let (rule, code) = (invalid.rule.name(), invalid.rule.code().get());
        self.send(|| {
            warn!(target: TARGET, offset, rule, code, frame = %quoted(bytes), "refused: {invalid}");
        });
    }

    /// Reports something about a frame, with the beginning of the frame.
    pub(crate) fn frame(&self, offset: u64, bytes: &[u8], what: impl fmt::Display) {
        self.send(|| warn!(target: TARGET, offset, frame = %quoted(bytes), "{what}"));
    }

    /// Reports a handler that failed, if its failure has more to say than the answer.
    pub(crate) fn failed(&self, method: &str, failure: &Failure) {
        if let Some(what) = failure.log() {
            self.send(|| {
                let (method, error) = (quoted(method.as_bytes()), quoted(what.as_bytes()));
                error!(target: TARGET, %method, %error, "handler failed");
            });
        }
    }

    /// Reports something about a connection or a client. Text of a peer in it must be [`quoted`].
    pub(crate) fn report(&self, what: impl fmt::Display) {
        self.send(|| warn!(target: TARGET, "{what}"));
    }

    /// Sends an event, unless there have been too many in this second.
    fn send(&self, event: impl FnOnce()) {
        // Nothing is escaped, and no clock is asked, where no subscriber listens.
        if !event_enabled!(target: TARGET, Level::ERROR) {
            return;
        }
        // Not while the window is locked: a subscriber may take its time.
        let (may_send, dropped) = self.window().count(Instant::now());
        tell_dropped(dropped);
        if may_send {
            // A subscriber that panics is no reason to stop.
            let _ = Failure::catch(event);
        }
    }

    fn window(&self) -> MutexGuard<'_, Window> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Window {
    /// Counts one more event: whether it may be sent, and how many before it were not, if that is to be told now.
    fn count(&mut self, now: Instant) -> (bool, u64) {
        let mut dropped = 0;
        if self.start.is_none_or(|start| now.duration_since(start) >= WINDOW) {
            dropped = std::mem::take(&mut self.dropped);
            (self.start, self.sent) = (Some(now), 0);
        }
        let may_send = self.sent < EVENTS_PER_WINDOW;
        if may_send {
            self.sent += 1;
        } else {
            self.dropped += 1;
        }
        (may_send, dropped)
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        tell_dropped(self.dropped);
    }
}

/// Reports how many events were not sent.
fn tell_dropped(dropped: u64) {
    if dropped > 0 {
        let _ = Failure::catch(|| warn!(target: TARGET, dropped, "{dropped} more like these were not logged"));
    }
}

/// The beginning of what a peer or a handler wrote, escaped, for the log and for error messages.
pub(crate) fn quoted(bytes: &[u8]) -> String {
    let more = if bytes.len() > QUOTED { "…" } else { "" };
    format!("{}{more}", escape(&bytes[..bytes.len().min(QUOTED)]))
}

/// What a subscriber can tell these events from others by.
const TARGET: &str = "barewire";

/// How much of a frame is quoted: enough to recognise it, little enough for one line of a terminal or two.
const QUOTED: usize = 80;

/// A peer that sends rubbish at full speed must not fill the disk.
const EVENTS_PER_WINDOW: u32 = 100;
const WINDOW: Duration = Duration::from_secs(1);
