//! The rate and the amount of a load -> the time when each request is due.

use std::time::{Duration, Instant};

use super::settings::{Amount, LoadSettings};

/// The times when the requests of a turn are due.
pub(super) struct Pace {
    began: Instant,
    /// The time between two requests at a fixed rate.
    interval: Option<Duration>,
    amount: Amount,
    /// The number of requests that were sent.
    sent: u64,
}

/// The time of the next request.
#[derive(Debug, PartialEq)]
pub(super) enum NextRequest {
    /// The request is due since this time. Its latency counts from then, however late it is sent.
    Due(Instant),
    /// The request is due at this time.
    Later(Instant),
    /// The turn has no more requests.
    None,
}

impl Pace {
    pub(super) fn new(settings: &LoadSettings, amount: Amount, now: Instant) -> Self {
        let interval = settings.rate.map(|rate| Duration::from_secs_f64(1.0 / rate));
        Self { began: now, interval, amount, sent: 0 }
    }

    pub(super) fn next(&self, now: Instant) -> NextRequest {
        let due = match self.interval {
            None => now,
            Some(interval) => self.began + times(interval, self.sent),
        };
        let is_over = match self.amount {
            Amount::Time(time) => due >= self.began + time,
            Amount::Count(count) => self.sent >= count,
        };
        match due {
            _ if is_over => NextRequest::None,
            due if due > now => NextRequest::Later(due),
            due => NextRequest::Due(due),
        }
    }

    /// Counts the request that was due as sent.
    pub(super) fn sent(&mut self) {
        self.sent += 1;
    }

    /// Returns the time when the last request is due, if that is known.
    pub(super) fn end(&self) -> Option<Instant> {
        match (self.amount, self.interval) {
            (Amount::Time(time), _) => Some(self.began + time),
            (Amount::Count(count), Some(interval)) => Some(self.began + times(interval, count)),
            (Amount::Count(_), None) => None,
        }
    }

    /// Returns the number of requests that are due and were not sent.
    pub(super) fn overdue(&self, now: Instant) -> u64 {
        let Some(interval) = self.interval else { return 0 };
        let until = self.end().map_or(now, |end| end.min(now));
        let due = until.saturating_duration_since(self.began).as_nanos().div_ceil(interval.as_nanos().max(1));
        u64::try_from(due).unwrap_or(u64::MAX).saturating_sub(self.sent)
    }
}

fn times(interval: Duration, count: u64) -> Duration {
    // `Duration * u32` would overflow after an hour at a million requests per second.
    let nanos = interval.as_nanos().saturating_mul(u128::from(count));
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX / 2))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn at_a_rate_a_late_request_keeps_its_due_time() {
        let began = Instant::now();
        let settings = LoadSettings { rate: Some(10.0), ..LoadSettings::default() };
        let mut pace = Pace::new(&settings, Amount::Count(3), began);
        assert_eq!(pace.next(began), NextRequest::Due(began));
        pace.sent();
        assert_eq!(pace.next(began), NextRequest::Later(began + Duration::from_millis(100)));
        let late = began + Duration::from_secs(1);
        assert_eq!(pace.next(late), NextRequest::Due(began + Duration::from_millis(100)));
        pace.sent();
        assert_eq!((pace.next(late), pace.overdue(late)), (NextRequest::Due(began + Duration::from_millis(200)), 1));
        pace.sent();
        assert_eq!((pace.next(late), pace.overdue(late)), (NextRequest::None, 0));
    }
}
