//! The times of a log -> the time since its first line.

use std::time::Duration;

/// Converts times. The result never decreases, because the order of the lines is the order of the messages.
#[derive(Default)]
pub(super) struct LogClock {
    first: Option<i64>,
    /// The nanoseconds that are added to the times since the clock was last set back.
    shift: i64,
    /// The nanoseconds since the first line.
    now: i64,
}

impl LogClock {
    /// Sets the time of the next line, in nanoseconds.
    pub(super) fn set(&mut self, nanos: i64) {
        let first = *self.first.get_or_insert(nanos);
        let time = nanos.saturating_sub(first).saturating_add(self.shift);
        // Lines of different servers can be out of order by a little. A time that is much earlier is from a clock that
        // was set back, as in autumn, or from an older log that was appended.
        if time.saturating_add(JITTER) < self.now {
            self.shift = self.shift.saturating_add(self.now - time);
        }
        self.now = self.now.max(time);
    }

    /// Returns the time since the first line; `None` before it.
    pub(super) fn time(&self) -> Option<Duration> {
        self.first.map(|_| Duration::from_nanos(u64::try_from(self.now).unwrap_or_default()))
    }
}

/// The maximum difference, in nanoseconds, by which lines of a log are out of order.
const JITTER: i64 = 2_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_never_goes_back() {
        let mut clock = LogClock::default();
        assert_eq!(clock.time(), None);
        let second = 1_000_000_000;
        // An hour back at the fourth line: the clock was set back.
        let times = [(100, 0), (103, 3), (102, 3), (104, 4), (104 - 3600, 4), (106 - 3600, 6)];
        for (written, expected) in times {
            clock.set(written * second);
            assert_eq!(clock.time(), Some(Duration::from_secs(expected)), "{written}");
        }
    }
}
