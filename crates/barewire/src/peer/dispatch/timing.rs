//! The clocks of a dispatcher: the time since the start of the session, the running time of handlers, and whether the
//! peer reads our output.

use std::time::Duration;

use tokio::time::Instant;

/// The clocks of a dispatcher.
pub(super) struct Timing {
    /// The instant from which session times count.
    session_start: Instant,
    /// The end of the current time slice. An instant, not a duration, because it is checked for every request, and
    /// comparing two instants is cheaper than subtracting them.
    slice_end: std::time::Instant,
    /// The time at which the last handler returned, or at which the current time slice started.
    last_return: std::time::Instant,
    /// Whether the peer has read no output for a while.
    write_stalled: bool,
}

impl Timing {
    pub(super) fn new() -> Self {
        let now = std::time::Instant::now();
        Self { session_start: Instant::now(), slice_end: now + HANDLER_SLICE, last_return: now, write_stalled: false }
    }

    /// The time since the start of the session.
    pub(super) fn session_now(&self) -> Duration {
        self.session_start.elapsed()
    }

    /// Converts a session time, which counts from the start of the session, to an instant.
    pub(super) fn at(&self, time: Duration) -> Instant {
        later(self.session_start, time)
    }

    /// Starts a time slice, which limits how long handlers run before output is written.
    pub(super) fn start_slice(&mut self) {
        let now = std::time::Instant::now();
        (self.slice_end, self.last_return) = (now + HANDLER_SLICE, now);
    }

    /// Whether handlers have used up this time slice.
    pub(super) fn is_slice_over(&self) -> bool {
        self.last_return > self.slice_end
    }

    /// Records that a handler has returned, and returns how long it ran.
    pub(super) fn handler_returned(&mut self) -> Duration {
        let now = std::time::Instant::now();
        now.duration_since(std::mem::replace(&mut self.last_return, now))
    }

    pub(super) fn is_write_stalled(&self) -> bool {
        self.write_stalled
    }

    pub(super) fn set_write_stalled(&mut self, stalled: bool) {
        self.write_stalled = stalled;
    }
}

/// Returns the instant `time` after `from`. If the clock cannot represent it, returns an instant 30 years after `from`.
pub(crate) fn later(from: Instant, time: Duration) -> Instant {
    from.checked_add(time).unwrap_or_else(|| from + THIRTY_YEARS)
}

/// A timeout that is longer than any process runs.
const THIRTY_YEARS: Duration = Duration::from_secs(30 * 365 * 24 * 60 * 60);

/// The maximum time that handlers run before their answers are written and other tasks get a turn. With a fixed number
/// of frames instead, requests of half a microsecond would cause needless system calls, and requests of a millisecond
/// would delay answers.
const HANDLER_SLICE: Duration = Duration::from_micros(500);
