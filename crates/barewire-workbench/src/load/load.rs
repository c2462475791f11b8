//! What the command line says about the load -> when which request is due.

use std::time::{Duration, Instant};

/// How much is asked, how fast, and how long an answer is waited for.
#[derive(Clone, Copy)]
pub struct Load {
    pub in_flight: usize,
    /// Requests a second; as fast as answers come if there is none.
    pub rate: Option<f64>,
    pub amount: Amount,
    pub warm_up: Duration,
    pub patience: Duration,
}

/// When it is enough.
#[derive(Clone, Copy)]
pub enum Amount {
    For(Duration),
    Count(u64),
}

impl Amount {
    /// The parts that it is taken in: one if there is nobody to take turns with.
    pub fn slices(self, servers: usize) -> Vec<Self> {
        if servers < 2 {
            return vec![self];
        }
        match self {
            Self::For(whole) => {
                let parts = (whole.as_millis() / SLICE.as_millis()).clamp(FEWEST, MOST);
                let parts = u32::try_from(parts).expect("no more than MOST");
                vec![Self::For(whole / parts); parts as usize]
            }
            Self::Count(whole) => {
                let parts = u64::try_from(FEWEST).expect("a small number").min(whole);
                let part = |at: u64| Self::Count(whole / parts + u64::from(at < whole % parts));
                (0..parts).map(part).collect()
            }
        }
    }
}

/// When the requests of a slice are due.
pub struct Pace {
    began: Instant,
    /// Between two requests.
    interval: Option<Duration>,
    amount: Amount,
    /// So many were sent or given up.
    sent: u64,
}

/// What the pace says about the next request.
#[derive(Debug, PartialEq)]
pub enum Next {
    /// It is due, since then. Its latency counts from there, however late it is sent.
    Due(Instant),
    /// Not before.
    At(Instant),
    /// There is none.
    Over,
}

impl Pace {
    pub fn new(load: &Load, amount: Amount, now: Instant) -> Self {
        let interval = load.rate.map(|rate| Duration::from_secs_f64(1.0 / rate));
        Self { began: now, interval, amount, sent: 0 }
    }

    pub fn next(&self, now: Instant) -> Next {
        let due = match self.interval {
            None => now,
            Some(interval) => self.began + times(interval, self.sent),
        };
        let is_over = match self.amount {
            Amount::For(time) => due >= self.began + time,
            Amount::Count(count) => self.sent >= count,
        };
        match () {
            () if is_over => Next::Over,
            () if due > now => Next::At(due),
            () => Next::Due(due),
        }
    }

    /// The one that is due has been sent.
    pub fn sent(&mut self) {
        self.sent += 1;
    }

    /// When the last request should have been sent, if that is known.
    pub fn end(&self) -> Option<Instant> {
        match (self.amount, self.interval) {
            (Amount::For(time), _) => Some(self.began + time),
            (Amount::Count(count), Some(interval)) => Some(self.began + times(interval, count)),
            (Amount::Count(_), None) => None,
        }
    }

    /// How many are due by now or were to be, and were not sent.
    pub fn overdue(&self, now: Instant) -> u64 {
        let Some(interval) = self.interval else { return 0 };
        let until = self.end().map_or(now, |end| end.min(now));
        let due = until.saturating_duration_since(self.began).as_nanos().div_ceil(interval.as_nanos().max(1));
        u64::try_from(due).unwrap_or(u64::MAX).saturating_sub(self.sent)
    }
}

fn times(interval: Duration, count: u64) -> Duration {
    // A multiplication by u32 would end after an hour at a million a second.
    let nanos = interval.as_nanos().saturating_mul(u128::from(count));
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX / 2))
}

/// Long against a request, short against what disturbs a machine for a while.
const SLICE: Duration = Duration::from_millis(200);

/// So often everybody has a turn, at the least and at the most.
const FEWEST: u128 = 8;
const MOST: u128 = 1000;

#[cfg(test)]
mod tests {
    use super::*;

    fn load(rate: Option<f64>) -> Load {
        let amount = Amount::Count(3);
        Load { in_flight: 1, rate, amount, warm_up: Duration::ZERO, patience: Duration::from_secs(1) }
    }

    #[test]
    fn at_a_rate_a_request_is_due_when_it_was_planned_and_not_when_there_is_time() {
        let began = Instant::now();
        let mut pace = Pace::new(&load(Some(10.0)), Amount::Count(3), began);
        assert_eq!(pace.next(began), Next::Due(began));
        pace.sent();
        assert_eq!(pace.next(began), Next::At(began + Duration::from_millis(100)));
        let late = began + Duration::from_secs(1);
        assert_eq!(pace.next(late), Next::Due(began + Duration::from_millis(100)));
        pace.sent();
        assert_eq!((pace.next(late), pace.overdue(late)), (Next::Due(began + Duration::from_millis(200)), 1));
        pace.sent();
        assert_eq!((pace.next(late), pace.overdue(late)), (Next::Over, 0));
    }

    #[test]
    fn slices_add_up() {
        for count in [1, 7, 8, 1003] {
            let sum: u64 = Amount::Count(count).slices(2).iter().fold(0, |sum, slice| match slice {
                Amount::Count(part) => sum + part,
                Amount::For(_) => unreachable!("a count is cut into counts"),
            });
            assert_eq!(sum, count);
        }
        assert_eq!(Amount::For(Duration::from_secs(4)).slices(2).len(), 20);
        assert_eq!(Amount::For(Duration::from_secs(4)).slices(1).len(), 1);
    }
}
