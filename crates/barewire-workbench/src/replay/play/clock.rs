//! Determines when a message is due, and when an answer is late.

use std::time::Duration;

use tokio::time::Instant;

use super::PlayOptions;
use crate::replay::script::Script;

/// The start of the replay, and the deadline for the next expected message.
pub(super) struct PlayClock {
    /// The time of the replay that corresponds to time 0 of the capture; `None` if recorded times are ignored.
    start: Option<Instant>,
    timeout: Option<Duration>,
    pub(super) deadline: Option<Instant>,
    /// The progress of the replay when the deadline was set.
    last_progress: (usize, usize),
    /// The number of missed deadlines in a row.
    pub(super) missed: usize,
}

impl PlayClock {
    pub(super) fn new(script: &Script, options: &PlayOptions) -> Self {
        let first = script.frames.iter().find_map(|frame| frame.time).unwrap_or_default();
        let now = Instant::now();
        let start = options.real_time.then(|| now.checked_sub(first).unwrap_or(now));
        let deadline = options.timeout.map(|timeout| now + timeout);
        Self { start, timeout: options.timeout, deadline, last_progress: (0, 0), missed: 0 }
    }

    pub(super) fn reset_deadline(&mut self) {
        self.deadline = self.timeout.map(|timeout| Instant::now() + timeout);
    }

    /// Resets the deadline if a message of the capture was sent, or an expected message was received. The capture has a
    /// limited number of both, and nothing else that the server does resets the deadline.
    pub(super) fn note_progress(&mut self, progress: (usize, usize)) {
        if self.last_progress.1 != progress.1 {
            self.missed = 0;
        }
        if self.last_progress != progress {
            self.last_progress = progress;
            self.reset_deadline();
        }
    }

    /// Whether the deadline has passed. A server that never stops sending is always ready to be read, so the deadline
    /// is checked before each wait and not only during it.
    pub(super) fn is_late(&self) -> bool {
        self.deadline.is_some_and(|deadline| deadline <= Instant::now())
    }

    /// Returns the time at which a message with this recorded time is due.
    pub(super) fn due(&self, time: Option<Duration>) -> Instant {
        if let (Some(start), Some(time)) = (self.start, time) { start + time } else { Instant::now() }
    }
}

/// The number of missed deadlines in a row after which the replay ends.
pub(super) const MAX_MISSES: usize = 3;
