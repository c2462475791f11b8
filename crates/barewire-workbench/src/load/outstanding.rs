//! Tracks the ids of requests, to tell whether an answer is the first one, a duplicate, late, or matches no request.

use std::collections::{BTreeSet, HashMap};
use std::time::{Duration, Instant};

/// The open requests, and the ids of lost requests.
pub(super) struct OutstandingRequests {
    next: u64,
    open: HashMap<u64, SentRequest>,
    /// The ids of lost requests: an answer to one of them is late, not a duplicate.
    lost: BTreeSet<u64>,
}

/// The times of a sent request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct SentRequest {
    pub(super) due: Instant,
    pub(super) sent: Instant,
}

#[derive(Debug, PartialEq)]
pub(super) enum AnswerStatus {
    First(SentRequest),
    Duplicate,
    /// The request already counts as lost.
    Late,
    /// The id matches no request.
    Unknown,
}

impl OutstandingRequests {
    pub(super) fn new() -> Self {
        Self { next: FIRST_ID, open: HashMap::new(), lost: BTreeSet::new() }
    }

    pub(super) fn add(&mut self, request: SentRequest) -> u64 {
        let id = self.next;
        self.next += 1;
        self.open.insert(id, request);
        id
    }

    pub(super) fn answer(&mut self, id: u64) -> AnswerStatus {
        if let Some(request) = self.open.remove(&id) {
            return AnswerStatus::First(request);
        }
        match id {
            id if self.lost.remove(&id) => AnswerStatus::Late,
            id if (FIRST_ID..self.next).contains(&id) => AnswerStatus::Duplicate,
            _ => AnswerStatus::Unknown,
        }
    }

    /// Marks the open requests whose timeout has passed as lost, and returns their number.
    pub(super) fn expire(&mut self, now: Instant, timeout: Duration) -> u64 {
        let is_old = |request: &SentRequest| now.saturating_duration_since(request.sent) >= timeout;
        let lost: Vec<u64> = self.open.iter().filter(|(_, request)| is_old(request)).map(|(id, _)| *id).collect();
        for id in &lost {
            self.open.remove(id);
            self.lost.insert(*id);
        }
        while self.lost.len() > MAX_LOST_IDS {
            self.lost.pop_first();
        }
        lost.len() as u64
    }

    /// Marks all open requests as lost, and returns their number.
    pub(super) fn expire_all(&mut self) -> u64 {
        self.expire(Instant::now(), Duration::ZERO)
    }

    pub(super) fn len(&self) -> usize {
        self.open.len()
    }
}

/// The first id. Every id has ten digits, so that it can be overwritten in place to make the next request; and the
/// first billion ids fit into 32 bits, which is all that some servers have for an id.
pub(super) const FIRST_ID: u64 = 1_000_000_000;

pub(super) const DIGITS: usize = 10;

/// The maximum number of ids of lost requests that are kept. A late answer to an older request counts as a duplicate.
const MAX_LOST_IDS: usize = 65_536;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_duplicate_late_and_unknown_answers_are_told_apart() {
        let mut outstanding = OutstandingRequests::new();
        let now = Instant::now();
        let request = SentRequest { due: now, sent: now };
        let (a, b) = (outstanding.add(request), outstanding.add(request));
        assert_eq!(outstanding.answer(a), AnswerStatus::First(request));
        assert_eq!(outstanding.answer(a), AnswerStatus::Duplicate);
        assert_eq!(outstanding.expire(now, Duration::from_secs(1)), 0);
        assert_eq!(outstanding.expire(now + Duration::from_secs(1), Duration::from_secs(1)), 1);
        assert_eq!(outstanding.answer(b), AnswerStatus::Late);
        assert_eq!(outstanding.answer(b), AnswerStatus::Duplicate);
        assert_eq!((outstanding.answer(b + 1), outstanding.answer(7)), (AnswerStatus::Unknown, AnswerStatus::Unknown));
        assert_eq!(outstanding.len(), 0);
    }
}
