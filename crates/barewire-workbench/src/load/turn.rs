//! One turn of a server: decides when to send the next request, how long to wait, and when the turn ends.

use std::time::{Duration, Instant};

use super::settings::{Amount, LoadSettings};
use super::tally::Tally;

/// The state of one turn of a server.
pub(super) struct Turn {
    settings: LoadSettings,
    amount: Amount,
    /// The time between two requests at a fixed rate.
    interval: Option<Duration>,
    began: Instant,
    sent: u64,
    last_answer: Instant,
    /// The time since which fewer than the maximum number of requests are open.
    room_since: Instant,
    /// The time of the next action, unless an answer arrives earlier.
    pub(super) wake: Instant,
    /// The time of the next check for lost requests.
    next_check: Instant,
}

#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum TurnEnd {
    Done,
    Stopped,
    Disconnected,
}

impl Turn {
    pub(super) fn new(settings: &LoadSettings, amount: Amount, now: Instant) -> Self {
        let next_check = now + check_interval(settings);
        Self {
            settings: *settings,
            amount,
            interval: settings.rate.map(|rate| Duration::from_secs_f64(1.0 / rate)),
            began: now,
            sent: 0,
            last_answer: now,
            room_since: now,
            wake: next_check,
            next_check,
        }
    }

    /// Returns the due time of the request to send now, or `None` if no request is due. `open` is the number of open
    /// requests.
    ///
    /// At a fixed rate, the latency of a request is measured from its due time, however late it is sent.
    pub(super) fn next(&mut self, now: Instant, open: usize, tally: &mut Tally) -> Option<Instant> {
        self.wake = self.next_check;
        if open >= self.settings.in_flight || self.has_sent_all(now) {
            return None;
        }
        let due = self.next_due(now);
        if due > now {
            self.wake = self.next_check.min(due);
            return None;
        }
        self.sent += 1;
        tally.sent += 1;
        if self.interval.is_some() {
            tally.lag.record(now.saturating_duration_since(due.max(self.room_since)));
        }
        Some(due)
    }

    fn next_due(&self, now: Instant) -> Instant {
        self.interval.map_or(now, |interval| self.began + times(interval, self.sent))
    }

    /// Whether no more requests will be sent: all were sent, or the turn has exceeded its planned end by more than the
    /// timeout.
    fn has_sent_all(&self, now: Instant) -> bool {
        let is_complete = match self.amount {
            Amount::Time(time) => self.next_due(now) >= self.began + time,
            Amount::Count(count) => self.sent >= count,
        };
        is_complete || self.end().is_some_and(|end| now > end + self.settings.timeout)
    }

    /// Returns the planned end of the turn, if it is known.
    fn end(&self) -> Option<Instant> {
        match (self.amount, self.interval) {
            (Amount::Time(time), _) => Some(self.began + time),
            (Amount::Count(count), Some(interval)) => Some(self.began + times(interval, count)),
            (Amount::Count(_), None) => None,
        }
    }

    /// Returns the number of requests that are due but were not sent.
    fn overdue(&self, now: Instant) -> u64 {
        let Some(interval) = self.interval else { return 0 };
        let until = self.end().map_or(now, |end| end.min(now));
        let due = until.saturating_duration_since(self.began).as_nanos().div_ceil(interval.as_nanos().max(1));
        u64::try_from(due).unwrap_or(u64::MAX).saturating_sub(self.sent)
    }

    /// Whether no request is open and no more will be sent.
    pub(super) fn is_over(&self, now: Instant, open: usize) -> bool {
        open == 0 && self.has_sent_all(now)
    }

    /// Whether it is time to check for lost requests and to report the progress.
    pub(super) fn is_check_due(&mut self, now: Instant) -> bool {
        let is_due = now >= self.next_check;
        if is_due {
            self.next_check = now + check_interval(&self.settings);
        }
        is_due
    }

    /// Notes that requests were answered or lost at this time. `before` is the number of open requests before that
    /// time, and `now` the number after it.
    pub(super) fn settled(&mut self, at: Instant, before: usize, now: usize) {
        if before >= self.settings.in_flight && now < self.settings.in_flight {
            self.room_since = at;
        }
    }

    pub(super) fn received(&mut self, at: Instant) {
        self.last_answer = self.last_answer.max(at);
    }

    /// Adds the time of the turn, and the number of requests that were due but not sent, to the tally.
    pub(super) fn close(self, end: TurnEnd, tally: &mut Tally) {
        let planned = self.end().filter(|_| self.interval.is_some() && end == TurnEnd::Done);
        let until = planned.map_or(self.last_answer, |planned| self.last_answer.max(planned));
        tally.time += until.saturating_duration_since(self.began);
        if end == TurnEnd::Done {
            tally.unsent += self.overdue(Instant::now());
        }
    }
}

fn times(interval: Duration, count: u64) -> Duration {
    // `Duration * u32` would overflow after an hour at a million requests per second.
    let nanos = interval.as_nanos().saturating_mul(u128::from(count));
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX / 2))
}

fn check_interval(settings: &LoadSettings) -> Duration {
    (settings.timeout / 8).clamp(Duration::from_millis(1), MAX_CHECK_INTERVAL)
}

/// The maximum time between two checks for lost requests.
const MAX_CHECK_INTERVAL: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn at_a_rate_a_late_request_keeps_its_due_time() {
        let began = Instant::now();
        let settings = LoadSettings { rate: Some(10.0), ..LoadSettings::default() };
        let (mut turn, mut tally) = (Turn::new(&settings, Amount::Count(3), began), Tally::default());
        let at = |millis| began + Duration::from_millis(millis);
        assert_eq!(turn.next(began, 0, &mut tally), Some(began));
        assert_eq!((turn.next(began, 0, &mut tally), turn.wake), (None, at(100)));
        let late = at(1000);
        assert_eq!(turn.next(late, 0, &mut tally), Some(at(100)));
        assert_eq!((turn.overdue(late), turn.is_over(late, 0)), (1, false));
        assert_eq!(turn.next(late, 0, &mut tally), Some(at(200)));
        assert_eq!((turn.next(late, 0, &mut tally), turn.overdue(late), turn.is_over(late, 0)), (None, 0, true));
        assert_eq!(tally.sent, 3);
    }
}
