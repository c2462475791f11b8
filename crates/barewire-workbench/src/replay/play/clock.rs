//! A script and the time -> the time when a message is due, and when an answer is late.

use std::time::Duration;

use tokio::time::Instant;

use super::PlayOptions;
use crate::replay::script::Script;

/// The start of the replay, and the deadline for the next expected message.
pub(super) struct PlayClock {
    /// Time 0 of the capture, if messages keep its times.
    start: Option<Instant>,
    timeout: Option<Duration>,
    pub(super) deadline: Option<Instant>,
    /// The progress and the number of unwritten bytes when the deadline was set.
    last_progress: ((usize, usize), usize),
    /// The number of missed deadlines in a row.
    pub(super) missed: usize,
}

impl PlayClock {
    pub(super) fn new(script: &Script, options: &PlayOptions) -> Self {
        let first = script.frames.iter().find_map(|frame| frame.time).unwrap_or_default();
        let now = Instant::now();
        let start = options.real_time.then(|| now.checked_sub(first).unwrap_or(now));
        let deadline = options.timeout.map(|timeout| now + timeout);
        Self { start, timeout: options.timeout, deadline, last_progress: ((0, 0), 0), missed: 0 }
    }

    pub(super) fn reset_deadline(&mut self) {
        self.deadline = self.timeout.map(|timeout| Instant::now() + timeout);
    }

    /// Resets the deadline if a message was sent or an expected one was received. Notifications alone do not count.
    pub(super) fn note_progress(&mut self, progress: (usize, usize), unwritten: usize) {
        if self.last_progress.0.1 != progress.1 {
            self.missed = 0;
        }
        if self.last_progress != (progress, unwritten) {
            self.last_progress = (progress, unwritten);
            self.reset_deadline();
        }
    }

    /// Returns the time when a message with this time in the capture is due.
    pub(super) fn due(&self, time: Option<Duration>) -> Instant {
        if let (Some(start), Some(time)) = (self.start, time) { start + time } else { Instant::now() }
    }
}

/// The number of missed deadlines in a row after which the replay ends.
pub(super) const MAX_MISSES: usize = 3;
