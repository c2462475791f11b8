//! One turn of a server: which request is to be sent now, how long to wait for the next, and when it is over.

use std::time::{Duration, Instant};

use super::load::{Amount, Load, Next, Pace};
use super::tally::Tally;

pub struct Slice {
    load: Load,
    pace: Pace,
    began: Instant,
    /// When the last answer came.
    last: Instant,
    /// Since when there is room for another request.
    room_since: Instant,
    /// When there is something to do even if nothing comes.
    wake: Instant,
    next_look: Instant,
}

/// How a slice ended.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum End {
    Done,
    /// By Ctrl-C or SIGTERM.
    Stopped,
    /// The connection is over.
    Broken,
}

impl Slice {
    pub fn new(load: &Load, amount: Amount) -> Self {
        let now = Instant::now();
        let next_look = now + look(load);
        Self {
            load: *load,
            pace: Pace::new(load, amount, now),
            began: now,
            last: now,
            room_since: now,
            wake: next_look,
            next_look,
        }
    }

    /// When the request was due that is to be sent now, if one is, with so many open.
    pub fn next(&mut self, now: Instant, open: usize, tally: &mut Tally) -> Option<Instant> {
        self.wake = self.next_look;
        if open >= self.load.in_flight || self.is_hopeless(now) {
            return None;
        }
        match self.pace.next(now) {
            Next::Due(due) => {
                self.pace.sent();
                tally.sent += 1;
                if self.load.rate.is_some() {
                    tally.lag.record(now.saturating_duration_since(due.max(self.room_since)));
                }
                Some(due)
            }
            Next::At(at) => {
                self.wake = self.next_look.min(at);
                None
            }
            Next::Over => None,
        }
    }

    /// Nothing is open and nothing more will be.
    pub fn is_over(&self, now: Instant, open: usize) -> bool {
        open == 0 && (self.is_hopeless(now) || self.pace.next(now) == Next::Over)
    }

    /// When to wake up, if nothing comes.
    pub fn wake(&self) -> Instant {
        self.wake
    }

    /// Whether it is time to look for what does not come, and to show how far it is.
    pub fn is_time_to_look(&mut self, now: Instant) -> bool {
        let is_time = now >= self.next_look;
        if is_time {
            self.next_look = now + look(&self.load);
        }
        is_time
    }

    /// Answers came, or were given up; so many were open before and so many are now.
    pub fn settled(&mut self, at: Instant, before: usize, now: usize) {
        if before >= self.load.in_flight && now < self.load.in_flight {
            self.room_since = at;
        }
    }

    pub fn received(&mut self, at: Instant) {
        self.last = self.last.max(at);
    }

    pub fn close(self, end: End, tally: &mut Tally) {
        let planned = self.pace.end().filter(|_| self.load.rate.is_some() && end == End::Done);
        let until = planned.map_or(self.last, |planned| self.last.max(planned));
        tally.time += until.saturating_duration_since(self.began);
        if end == End::Done {
            tally.unsent += self.pace.overdue(Instant::now());
        }
    }

    /// The server is behind by more than anybody waits for an answer: what is still due is not sent any more.
    fn is_hopeless(&self, now: Instant) -> bool {
        self.pace.end().is_some_and(|end| now > end + self.load.patience)
    }
}

fn look(load: &Load) -> Duration {
    (load.patience / 8).clamp(Duration::from_millis(1), LOOK)
}

/// So often at least it is looked for answers that do not come.
const LOOK: Duration = Duration::from_millis(100);
