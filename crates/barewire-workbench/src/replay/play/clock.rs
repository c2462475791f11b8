//! A script and the time -> when what is sent, and when it is too late for an answer.

use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use super::PlayOptions;
use crate::replay::script::Script;

/// When what is sent, and when it is too late.
pub(super) struct Clock {
    /// Time 0 of the capture, where that matters.
    start: Option<Instant>,
    patience: Option<Duration>,
    pub(super) deadline: Option<Instant>,
    /// How far it was when the deadline was set.
    seen: ((usize, usize), usize),
    /// How often in a row nothing came.
    pub(super) missed: usize,
}

impl Clock {
    pub(super) fn new(script: &Script, options: &PlayOptions) -> Self {
        let first = script.frames.iter().find_map(|frame| frame.time).unwrap_or_default();
        let now = Instant::now();
        let start = options.real_time.then(|| now.checked_sub(first).unwrap_or(now));
        let mut clock =
            Self { start, patience: options.timeout, deadline: None, seen: ((0, 0), 0), missed: 0 };
        clock.begin();
        clock
    }

    pub(super) fn begin(&mut self) {
        self.deadline = self.patience.map(|patience| Instant::now() + patience);
    }

    /// Time begins anew when something was sent, or came that is waited for. Talk alone is not enough.
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

/// A server that misses so many times in a row will not come back.
pub(super) const MOST_MISSED: usize = 3;
