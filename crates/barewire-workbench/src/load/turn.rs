//! One turn of a server: the request to send now, the wait for the next, and the end.

use std::time::{Duration, Instant};

use super::pace::{NextRequest, Pace};
use super::settings::{Amount, LoadSettings};
use super::tally::Tally;

/// The state of one turn of a server.
pub(super) struct Turn {
    settings: LoadSettings,
    pace: Pace,
    began: Instant,
    /// The time of the last answer.
    last_answer: Instant,
    /// The time since which another request could be in flight.
    room_since: Instant,
    /// The time of the next action if no answer comes.
    wake: Instant,
    /// The time of the next check for lost requests.
    next_check: Instant,
}

/// The end of a turn.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum TurnEnd {
    Done,
    /// A stop was requested.
    Stopped,
    /// The connection has ended.
    Disconnected,
}

impl Turn {
    pub(super) fn new(settings: &LoadSettings, amount: Amount) -> Self {
        let now = Instant::now();
        let next_check = now + check_interval(settings);
        Self {
            settings: *settings,
            pace: Pace::new(settings, amount, now),
            began: now,
            last_answer: now,
            room_since: now,
            wake: next_check,
            next_check,
        }
    }

    /// Returns the due time of the request to send now, if there is one. `open` is the number of open requests.
    pub(super) fn next(&mut self, now: Instant, open: usize, tally: &mut Tally) -> Option<Instant> {
        self.wake = self.next_check;
        if open >= self.settings.in_flight || self.is_too_late(now) {
            return None;
        }
        match self.pace.next(now) {
            NextRequest::Due(due) => {
                self.pace.sent();
                tally.sent += 1;
                if self.settings.rate.is_some() {
                    tally.lag.record(now.saturating_duration_since(due.max(self.room_since)));
                }
                Some(due)
            }
            NextRequest::Later(at) => {
                self.wake = self.next_check.min(at);
                None
            }
            NextRequest::None => None,
        }
    }

    /// Whether no request is open and no more are sent.
    pub(super) fn is_over(&self, now: Instant, open: usize) -> bool {
        open == 0 && (self.is_too_late(now) || self.pace.next(now) == NextRequest::None)
    }

    /// The time to wake up if no answer comes.
    pub(super) fn wake(&self) -> Instant {
        self.wake
    }

    /// Whether it is time to check for lost requests and to report the progress.
    pub(super) fn is_check_due(&mut self, now: Instant) -> bool {
        let is_time = now >= self.next_check;
        if is_time {
            self.next_check = now + check_interval(&self.settings);
        }
        is_time
    }

    /// Notes that requests were answered or lost: `before` were open, `now` are.
    pub(super) fn settled(&mut self, at: Instant, before: usize, now: usize) {
        if before >= self.settings.in_flight && now < self.settings.in_flight {
            self.room_since = at;
        }
    }

    /// Notes that an answer came.
    pub(super) fn received(&mut self, at: Instant) {
        self.last_answer = self.last_answer.max(at);
    }

    /// Adds the time of the turn, and the requests that were due and not sent.
    pub(super) fn close(self, end: TurnEnd, tally: &mut Tally) {
        let planned = self.pace.end().filter(|_| self.settings.rate.is_some() && end == TurnEnd::Done);
        let until = planned.map_or(self.last_answer, |planned| self.last_answer.max(planned));
        tally.time += until.saturating_duration_since(self.began);
        if end == TurnEnd::Done {
            tally.unsent += self.pace.overdue(Instant::now());
        }
    }

    /// Whether the server is behind by more than the timeout. Requests that are still due are then not sent.
    fn is_too_late(&self, now: Instant) -> bool {
        self.pace.end().is_some_and(|end| now > end + self.settings.timeout)
    }
}

fn check_interval(settings: &LoadSettings) -> Duration {
    (settings.timeout / 8).clamp(Duration::from_millis(1), MAX_CHECK_INTERVAL)
}

/// The longest time between two checks for lost requests.
const MAX_CHECK_INTERVAL: Duration = Duration::from_millis(100);
