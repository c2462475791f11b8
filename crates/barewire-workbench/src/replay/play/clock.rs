//! A script and the time -> when a message is due, and when an answer is late.

use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use super::PlayOptions;
use crate::replay::script::Script;

/// The time at which messages are due and answers are late.
pub(super) struct Clock {
    /// Time 0 of the capture, if messages keep its times.
    start: Option<Instant>,
    timeout: Option<Duration>,
    pub(super) deadline: Option<Instant>,
    /// The progress when the deadline was set.
    seen: ((usize, usize), usize),
    /// The number of times in a row that nothing came.
    pub(super) missed: usize,
}

impl Clock {
    pub(super) fn new(script: &Script, options: &PlayOptions) -> Self {
        let first = script.frames.iter().find_map(|frame| frame.time).unwrap_or_default();
        let now = Instant::now();
        let start = options.real_time.then(|| now.checked_sub(first).unwrap_or(now));
        let mut clock = Self { start, timeout: options.timeout, deadline: None, seen: ((0, 0), 0), missed: 0 };
        clock.begin();
        clock
    }

    pub(super) fn begin(&mut self) {
        self.deadline = self.timeout.map(|timeout| Instant::now() + timeout);
    }

    /// Sets the deadline anew if something was sent, or something expected came. Notifications alone are not enough.
    pub(super) fn look(&mut self, progress: (usize, usize), unwritten: usize) {
        if self.seen.0.1 != progress.1 {
            self.missed = 0;
        }
        if self.seen != (progress, unwritten) {
            self.seen = (progress, unwritten);
            self.begin();
        }
    }

    pub(super) fn due(&self, time: Option<Duration>) -> Instant {
        match (self.start, time) {
            (Some(start), Some(time)) => start + time,
            _ => Instant::now(),
        }
    }
}

pub(super) async fn wait_until(when: Option<Instant>) {
    match when {
        Some(when) => sleep_until(when).await,
        None => std::future::pending().await,
    }
}

/// Misses in a row after which the server is given up.
pub(super) const MAX_MISSES: usize = 3;
