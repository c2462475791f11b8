//! Ids that were asked -> whether an answer under one is the first, a second, a late one or nobody's.

use std::collections::{BTreeSet, HashMap};
use std::time::{Duration, Instant};

/// What is asked and not answered yet. As large as what is in flight, and a memory of what was given up.
pub struct Outstanding {
    next: u64,
    open: HashMap<u64, Asked>,
    /// Given up; an answer to one of them is late and no second one.
    gone: BTreeSet<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Asked {
    /// When it was due.
    pub due: Instant,
    pub sent: Instant,
}

#[derive(Debug, PartialEq)]
pub enum Settled {
    First(Asked),
    Again,
    Late,
    Nobody,
}

impl Outstanding {
    pub fn new() -> Self {
        Self { next: FIRST_ID, open: HashMap::new(), gone: BTreeSet::new() }
    }

    /// The id of the next request.
    pub fn ask(&mut self, asked: Asked) -> u64 {
        let id = self.next;
        self.next += 1;
        self.open.insert(id, asked);
        id
    }

    pub fn answer(&mut self, id: u64) -> Settled {
        if let Some(asked) = self.open.remove(&id) {
            return Settled::First(asked);
        }
        match id {
            id if self.gone.remove(&id) => Settled::Late,
            id if (FIRST_ID..self.next).contains(&id) => Settled::Again,
            _ => Settled::Nobody,
        }
    }

    /// Gives up what was sent before `patience` ago, and says how many that were.
    pub fn expire(&mut self, now: Instant, patience: Duration) -> u64 {
        let old = |asked: &Asked| now.saturating_duration_since(asked.sent) >= patience;
        let lost: Vec<u64> = self.open.iter().filter(|(_, asked)| old(asked)).map(|(id, _)| *id).collect();
        for id in &lost {
            self.open.remove(id);
            self.gone.insert(*id);
        }
        while self.gone.len() > MOST_GONE {
            self.gone.pop_first();
        }
        lost.len() as u64
    }

    /// Gives up everything.
    pub fn give_up(&mut self) -> u64 {
        self.expire(Instant::now(), Duration::ZERO)
    }

    pub fn len(&self) -> usize {
        self.open.len()
    }
}

/// Ids have ten digits, so that a request is made by writing over ten bytes of the one before; and as long as they can they
/// fit the 32 bits that some keep them in.
pub const FIRST_ID: u64 = 1_000_000_000;

/// How many digits an id has.
pub const DIGITS: usize = 10;

/// A late answer to one that was given up before these is taken for a second one.
const MOST_GONE: usize = 65_536;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_second_late_and_nobodys_answers_are_told_apart() {
        let mut outstanding = Outstanding::new();
        let now = Instant::now();
        let asked = Asked { due: now, sent: now };
        let (a, b) = (outstanding.ask(asked), outstanding.ask(asked));
        assert_eq!(outstanding.answer(a), Settled::First(asked));
        assert_eq!(outstanding.answer(a), Settled::Again);
        assert_eq!(outstanding.expire(now, Duration::from_secs(1)), 0);
        assert_eq!(outstanding.expire(now + Duration::from_secs(1), Duration::from_secs(1)), 1);
        assert_eq!(outstanding.answer(b), Settled::Late);
        assert_eq!(outstanding.answer(b), Settled::Again);
        assert_eq!((outstanding.answer(b + 1), outstanding.answer(7)), (Settled::Nobody, Settled::Nobody));
        assert_eq!(outstanding.len(), 0);
    }
}
