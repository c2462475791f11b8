//! The start time of a capture, and the times relative to it.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The start of a capture, on the monotonic clock and on the wall clock.
#[derive(Clone, Copy, Debug)]
pub struct CaptureClock {
    start: Instant,
    wall: SystemTime,
}

impl CaptureClock {
    /// Starts a clock now.
    pub fn start() -> Self {
        Self { start: Instant::now(), wall: SystemTime::now() }
    }

    /// Returns the time since the start, in whole microseconds.
    pub fn now(self) -> Duration {
        let now = self.start.elapsed();
        Duration::new(now.as_secs(), now.subsec_micros() * 1000)
    }

    /// Returns the wall-clock time of the start, in the format of RFC 3339.
    pub fn started(self) -> String {
        self.wall_at(Duration::ZERO)
    }

    /// Returns the wall-clock time at `time` after the start, in the format of RFC 3339.
    pub fn wall_at(self, time: Duration) -> String {
        rfc_3339(self.wall.duration_since(UNIX_EPOCH).unwrap_or_default() + time)
    }
}

/// Returns a time since 1970 in the format of RFC 3339, with microseconds.
pub(crate) fn rfc_3339(since: Duration) -> String {
    let (days, second) = (since.as_secs() / 86_400, since.as_secs() % 86_400);
    let (year, month, day) = civil(days);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    let micros = since.subsec_micros();
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{micros:06}Z")
}

/// Returns the date that is `days` days after 1970-01-01, as year, month and day. In the calculation, years begin in
/// March, so that the leap day is the last day of a year; 400 years have 146097 days.
fn civil(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (month, next) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    (era * 400 + year + next, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_the_format_of_rfc_3339() {
        let start = Instant::now();
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00.000000Z"),
            (951_782_399, "2000-02-28T23:59:59.000000Z"),
            (951_782_400, "2000-02-29T00:00:00.000000Z"),
            (1_785_231_000, "2026-07-28T09:30:00.000000Z"),
            (4_107_542_400, "2100-03-01T00:00:00.000000Z"),
        ] {
            let wall = UNIX_EPOCH + Duration::from_secs(seconds);
            assert_eq!(CaptureClock { start, wall }.started(), text);
        }
        let wall = UNIX_EPOCH;
        assert_eq!(
            CaptureClock { start, wall }.wall_at(Duration::from_micros(61_000_001)),
            "1970-01-01T00:01:01.000001Z"
        );
    }
}
