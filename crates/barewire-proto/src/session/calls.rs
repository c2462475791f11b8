//! What we asked: our calls that wait for an answer, and when each runs out of time.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use super::Effect;
use crate::rpc::Id;

/// The id of a call of ours: a number that is minted once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CallId(i64);

impl CallId {
    /// The id as it goes over the wire.
    pub fn id(self) -> Id<'static> {
        Id::from(self.0)
    }

    /// The call of ours that `id` would name. Whether there ever was one is another question.
    pub fn from_id(id: &Id<'_>) -> Option<Self> {
        id.integer().map(Self)
    }
}

/// A batch of ours, by a number that whoever sends it gives it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[expect(clippy::exhaustive_structs, reason = "a number and nothing else")]
pub struct BatchId(pub u64);

/// How long we wait for an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct CallTimeout {
    /// How long without a sign of life. `None`: for ever.
    pub timeout: Option<Duration>,
    /// Whether progress is one.
    pub reset_by_progress: bool,
    /// How long at the most, whatever progress there is.
    pub at_most: Option<Duration>,
}

setters! { CallTimeout { timeout: Option<Duration>, reset_by_progress: bool, at_most: Option<Duration> } }

#[derive(Debug, Default)]
pub(super) struct OutstandingCalls {
    waiting: HashMap<CallId, OutstandingCall>,
    /// When each of them runs out of time, soonest first.
    deadlines: BTreeSet<(Duration, CallId)>,
    /// Those we gave up, to tell a late answer from one that nobody asked for. Bounded: the oldest are forgotten.
    abandoned: BTreeSet<CallId>,
    /// Batches of which an answer has come in the array that is being read; `None` between two arrays.
    answered: Option<BTreeSet<BatchId>>,
    minted: i64,
}

#[derive(Debug)]
struct OutstandingCall {
    timeout: CallTimeout,
    deadline: Option<Duration>,
    /// When it is over in any case.
    end: Option<Duration>,
    batch: Option<BatchId>,
}

impl OutstandingCalls {
    pub(super) fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    pub(super) fn expects_late_response(&self) -> bool {
        !self.abandoned.is_empty()
    }

    pub(super) fn next_deadline(&self) -> Option<Duration> {
        self.deadlines.first().map(|(at, _)| *at)
    }

    pub(super) fn start(&mut self, now: Duration, timeout: CallTimeout, batch: Option<BatchId>) -> CallId {
        self.minted += 1;
        let id = CallId(self.minted);
        let end = timeout.at_most.map(|most| now.saturating_add(most));
        let call = OutstandingCall { deadline: deadline(now, timeout, end), timeout, end, batch };
        if let Some(at) = call.deadline {
            self.deadlines.insert((at, id));
        }
        self.waiting.insert(id, call);
        id
    }

    pub(super) fn settle(&mut self, id: &Id<'_>) -> Effect {
        let Some(id) = CallId::from_id(id) else { return Effect::Unknown };
        match self.remove(id) {
            Some(call) => {
                if let Some(answered) = &mut self.answered {
                    answered.extend(call.batch);
                }
                Effect::Settle(id)
            }
            None if self.abandoned.remove(&id) => Effect::Late,
            None => Effect::Unknown,
        }
    }

    /// Answers that come one by one say nothing about what is missing in an array.
    pub(super) fn start_of_batch(&mut self) {
        self.answered = Some(BTreeSet::new());
    }

    /// A call that was in one batch with one that has been answered, and was not answered itself.
    pub(super) fn take_missing(&mut self) -> Option<CallId> {
        // Without one, there is nothing to look for among all that wait.
        let answered = self.answered.take().filter(|answered| !answered.is_empty())?;
        let missing = self
            .waiting
            .iter()
            .filter(|(_, call)| call.batch.is_some_and(|batch| answered.contains(&batch)))
            .map(|(id, _)| *id)
            .min();
        if let Some(id) = missing {
            self.remove(id);
            // It may come after all, from a peer that answers one by one.
            self.abandon(id);
            // There may be more.
            self.answered = Some(answered);
        }
        missing
    }

    pub(super) fn progress(&mut self, id: CallId, now: Duration) -> Effect {
        let Some(call) = self.waiting.get_mut(&id) else { return Effect::Unknown };
        if call.timeout.reset_by_progress {
            let next = deadline(now, call.timeout, call.end);
            if let Some(at) = std::mem::replace(&mut call.deadline, next) {
                self.deadlines.remove(&(at, id));
            }
            if let Some(at) = next {
                self.deadlines.insert((at, id));
            }
        }
        Effect::Nothing
    }

    pub(super) fn abandon_call(&mut self, id: CallId) -> Effect {
        match self.remove(id) {
            Some(_) => {
                self.abandon(id);
                Effect::SendCancel(id)
            }
            None => Effect::Nothing,
        }
    }

    pub(super) fn take_timed_out(&mut self, now: Duration) -> Option<CallId> {
        let (at, id) = *self.deadlines.first()?;
        if now < at {
            return None;
        }
        self.remove(id);
        self.abandon(id);
        Some(id)
    }

    fn remove(&mut self, id: CallId) -> Option<OutstandingCall> {
        let call = self.waiting.remove(&id)?;
        if let Some(at) = call.deadline {
            self.deadlines.remove(&(at, id));
        }
        Some(call)
    }

    fn abandon(&mut self, id: CallId) {
        self.abandoned.insert(id);
        if self.abandoned.len() > MAX_ABANDONED_CALLS {
            self.abandoned.pop_first();
        }
    }
}

fn deadline(now: Duration, timeout: CallTimeout, end: Option<Duration>) -> Option<Duration> {
    let next = timeout.timeout.map(|idle| now.saturating_add(idle));
    match (next, end) {
        (Some(next), Some(end)) => Some(next.min(end)),
        (next, end) => next.or(end),
    }
}

/// How many calls that we gave up are remembered. An answer to one before them is reported as unknown, which costs a line
/// in the log.
const MAX_ABANDONED_CALLS: usize = 1024;
