//! One turn of a server: the request that is to be sent now, the wait for the next, and the end.

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
    /// The time since which fewer requests are open than may be.
    room_since: Instant,
    /// The time when there is something to do even if no answer comes.
    wake: Instant,
    /// The time of the next search for lost requests.
    next_look: Instant,
}

/// The end of a slice.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum TurnEnd {
    Done,
    /// A stop was requested.
    Stopped,
    /// The connection is over.
    Disconnected,
}

impl Turn {
    pub(super) fn new(settings: &LoadSettings, amount: Amount) -> Self {
        let now = Instant::now();
        let next_look = now + look_interval(settings);
        Self {
            settings: *settings,
            pace: Pace::new(settings, amount, now),
            began: now,
            last_answer: now,
            room_since: now,
            wake: next_look,
            next_look,
        }
    }

    /// Returns the time when the request was due that is to be sent now, if there is one. `open` requests are open.
    pub(super) fn next(&mut self, now: Instant, open: usize, tally: &mut Tally) -> Option<Instant> {
        self.wake = self.next_look;
        if open >= self.settings.in_flight || self.is_hopeless(now) {
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
            NextRequest::At(at) => {
                self.wake = self.next_look.min(at);
                None
            }
            NextRequest::Over => None,
        }
    }

    /// Whether no request is open and no more will be sent.
    pub(super) fn is_over(&self, now: Instant, open: usize) -> bool {
        open == 0 && (self.is_hopeless(now) || self.pace.next(now) == NextRequest::Over)
    }

    /// The time to wake up if no answer comes.
    pub(super) fn wake(&self) -> Instant {
        self.wake
    }

    /// Whether it is time to look for lost requests and to report the progress.
    pub(super) fn is_time_to_look(&mut self, now: Instant) -> bool {
        let is_time = now >= self.next_look;
        if is_time {
            self.next_look = now + look_interval(&self.settings);
        }
        is_time
    }

    /// Notes that requests were answered or lost: `before` were open, and `now` are.
    pub(super) fn settled(&mut self, at: Instant, before: usize, now: usize) {
        if before >= self.settings.in_flight && now < self.settings.in_flight {
            self.room_since = at;
        }
    }

    /// Notes that an answer came.
    pub(super) fn received(&mut self, at: Instant) {
        self.last_answer = self.last_answer.max(at);
    }

    /// Adds the time of the slice, and the requests that were due and not sent.
    pub(super) fn close(self, end: TurnEnd, tally: &mut Tally) {
        let planned = self.pace.end().filter(|_| self.settings.rate.is_some() && end == TurnEnd::Done);
        let until = planned.map_or(self.last_answer, |planned| self.last_answer.max(planned));
        tally.time += until.saturating_duration_since(self.began);
        if end == TurnEnd::Done {
            tally.unsent += self.pace.overdue(Instant::now());
        }
    }

    /// Whether the server is behind by more than the timeout: requests that are still due are not sent any more.
    fn is_hopeless(&self, now: Instant) -> bool {
        self.pace.end().is_some_and(|end| now > end + self.settings.timeout)
    }
}

fn look_interval(settings: &LoadSettings) -> Duration {
    (settings.timeout / 8).clamp(Duration::from_millis(1), MAX_LOOK_INTERVAL)
}

/// The longest time between two searches for lost requests.
const MAX_LOOK_INTERVAL: Duration = Duration::from_millis(100);
