//! The clocks of a dispatcher: the time of the session, the running time of handlers, and whether the peer reads its
//! input.

use std::time::Duration;

use tokio::time::Instant;

/// The clocks of a dispatcher.
pub(super) struct Timing {
    /// The start of the session's time.
    session_start: Instant,
    /// The end of this slice. Kept as an instant: comparing two instants costs less than subtracting them, and a slice is
    /// asked about with every request.
    slice_end: std::time::Instant,
    /// The return of the last handler, or the start of this slice.
    last_return: std::time::Instant,
    /// The peer has read no output for a while.
    write_stalled: bool,
}

impl Timing {
    pub(super) fn new() -> Self {
        let now = std::time::Instant::now();
        Self { session_start: Instant::now(), slice_end: now + HANDLER_SLICE, last_return: now, write_stalled: false }
    }

    /// The current time of the session.
    pub(super) fn session_now(&self) -> Duration {
        self.session_start.elapsed()
    }

    /// Converts a time of the session to an instant.
    pub(super) fn at(&self, time: Duration) -> Instant {
        later(self.session_start, time)
    }

    /// Starts a time slice: the running time of handlers is counted from now on.
    pub(super) fn start_slice(&mut self) {
        let now = std::time::Instant::now();
        (self.slice_end, self.last_return) = (now + HANDLER_SLICE, now);
    }

    /// Whether handlers have used up this slice.
    pub(super) fn is_slice_over(&self) -> bool {
        self.last_return > self.slice_end
    }

    /// Notes that a handler has returned, and returns how long it ran.
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

/// `time` after `from`. If the clock cannot represent that, an instant that is as good as never.
pub(crate) fn later(from: Instant, time: Duration) -> Instant {
    from.checked_add(time).unwrap_or_else(|| from + THIRTY_YEARS)
}

/// Longer than any process runs.
const THIRTY_YEARS: Duration = Duration::from_secs(30 * 365 * 24 * 60 * 60);

/// The time that handlers may run before their answers are written and other tasks get a turn. A fixed number of frames
/// would not do: it would cause needless system calls where a request takes half a microsecond, and delay answers where
/// it takes a millisecond.
const HANDLER_SLICE: Duration = Duration::from_micros(500);
