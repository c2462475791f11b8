//! Logs refused frames and failed handlers as `tracing` events, at most 100 per second.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use barewire_proto::rpc::Invalid;
use barewire_proto::transcript::{Escaped, escape};
use tracing::{Level, error, event_enabled, warn};

use crate::Failure;

/// The log of a connection. A `tracing` subscriber that panics does not affect the connection. Clones share one limit
/// on events per second.
#[derive(Debug, Clone, Default)]
pub(crate) struct Log(Arc<Mutex<RateWindow>>);

/// Counts the events of the current second.
#[derive(Debug, Default)]
struct RateWindow {
    start: Option<Instant>,
    sent: u32,
    dropped: u64,
}

impl Log {
    /// Logs an invalid frame.
    pub(crate) fn refused(&self, offset: u64, bytes: &[u8], invalid: &Invalid<'_>) {
        let (rule, code) = (invalid.rule.name(), invalid.rule.code().get());
        self.send(|| {
            warn!(target: TARGET, offset, rule, code, frame = %quoted(bytes), "refused: {}", Escaped::new(invalid));
        });
    }

    /// Logs a message about a frame, with the beginning of the frame.
    pub(crate) fn frame(&self, offset: u64, bytes: &[u8], what: impl fmt::Display) {
        self.send(|| warn!(target: TARGET, offset, frame = %quoted(bytes), "{}", Escaped::new(what)));
    }

    /// Logs the failure of a handler, if the failure has more details than the error response.
    pub(crate) fn failed(&self, method: &str, failure: &Failure) {
        if let Some(what) = failure.log() {
            self.send(|| {
                let (method, error) = (quoted(method.as_bytes()), quoted(what.as_bytes()));
                error!(target: TARGET, %method, %error, "handler failed");
            });
        }
    }

    /// Logs a message about a connection or a client. Long text from a peer in the message must be cut with [`quoted`].
    pub(crate) fn report(&self, what: impl fmt::Display) {
        self.send(|| warn!(target: TARGET, "{}", Escaped::new(what)));
    }

    /// Calls `event`, which sends one event, unless the limit of events in this second is reached.
    fn send(&self, event: impl FnOnce()) {
        // Without a subscriber, no time is spent on escaping text and reading the clock.
        if !event_enabled!(target: TARGET, Level::ERROR) {
            return;
        }
        // The event is sent after the lock on the window is released, because a subscriber can be slow.
        let (may_send, dropped) = self.window().count(Instant::now());
        report_dropped(dropped);
        if may_send {
            // A panic in the subscriber must not end the connection.
            let _ = Failure::catch(event);
        }
    }

    fn window(&self) -> MutexGuard<'_, RateWindow> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RateWindow {
    /// Counts one more event. Returns whether the limit allows the event to be sent, and the number of dropped events
    /// to report now. That number is 0 unless the event starts a new second.
    fn count(&mut self, now: Instant) -> (bool, u64) {
        let mut dropped = 0;
        if self.start.is_none_or(|start| now.duration_since(start) >= RATE_WINDOW) {
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

impl Drop for RateWindow {
    fn drop(&mut self) {
        report_dropped(self.dropped);
    }
}

/// Logs how many events were dropped.
fn report_dropped(dropped: u64) {
    if dropped > 0 {
        let _ = Failure::catch(
            || warn!(target: TARGET, dropped, "{dropped} more events were not logged: the limit is 100 per second"),
        );
    }
}

/// Returns the first 80 bytes of a text from a peer or a handler, escaped for the log and for error messages.
pub(crate) fn quoted(bytes: &[u8]) -> String {
    let more = if bytes.len() > MAX_QUOTED_BYTES { "…" } else { "" };
    format!("{}{more}", escape(&bytes[..bytes.len().min(MAX_QUOTED_BYTES)]))
}

/// The `tracing` target of all events for users, by which a subscriber can filter them.
pub(crate) const TARGET: &str = "barewire";

/// The maximum number of bytes of a text that are quoted: enough to recognise the text, and about two lines of a
/// terminal.
const MAX_QUOTED_BYTES: usize = 80;

/// The maximum number of events per second: a peer that sends invalid frames at full speed must not fill the disk.
const EVENTS_PER_WINDOW: u32 = 100;
const RATE_WINDOW: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quotation_has_at_most_80_bytes() {
        assert_eq!(quoted(&[b'x'; 80]), "x".repeat(80));
        assert_eq!(quoted(&[b'x'; 1000]), format!("{}…", "x".repeat(80)));
    }
}
