//! The requests that we have sent and that wait for a response, with their timeouts.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use super::Effect;
use crate::rpc::Id;

/// The id of one of our calls: a number that is never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CallId(i64);

impl CallId {
    /// Returns the id as it is sent on the wire.
    pub fn id(self) -> Id<'static> {
        Id::from(self.0)
    }

    /// Returns the call id that `id` represents, or `None` if `id` is not an integer. A call with the returned id need
    /// not exist.
    pub fn from_id(id: &Id<'_>) -> Option<Self> {
        id.integer().map(Self)
    }
}

/// The number of a batch that we send. The driver, which does the I/O for the session, chooses it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[expect(clippy::exhaustive_structs, reason = "a batch id is only a number")]
pub struct BatchId(pub u64);

/// The timeouts of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct CallTimeout {
    /// The maximum time to wait for the response. `None` means no limit.
    pub timeout: Option<Duration>,
    /// Whether a progress notification restarts `timeout`.
    pub reset_by_progress: bool,
    /// The maximum total time, regardless of progress. `None` means no limit.
    pub at_most: Option<Duration>,
}

setters! { CallTimeout { timeout: Option<Duration>, reset_by_progress: bool, at_most: Option<Duration> } }

#[derive(Debug, Default)]
pub(super) struct OutstandingCalls {
    waiting: HashMap<CallId, OutstandingCall>,
    /// The deadlines of the outstanding calls, soonest first.
    deadlines: BTreeSet<(Duration, CallId)>,
    /// The abandoned calls, remembered to tell a late response from a response that matches no call. The oldest are
    /// dropped when there are more than [`MAX_ABANDONED_CALLS`].
    abandoned: BTreeSet<CallId>,
    /// While a batch from the peer is being read: our batches to which it contains a response. `None` at other times.
    answered: Option<BTreeSet<BatchId>>,
    minted: i64,
}

#[derive(Debug)]
struct OutstandingCall {
    timeout: CallTimeout,
    deadline: Option<Duration>,
    /// The latest possible deadline, regardless of progress.
    end: Option<Duration>,
    batch: Option<BatchId>,
}

impl OutstandingCalls {
    /// Creates calls of which the first has the number after `number`.
    pub(super) fn after(number: i64) -> Self {
        Self { minted: number, ..Self::default() }
    }

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

    /// Starts to record which of our batches the peer's batch answers. Only a batch can show that responses are
    /// missing; a single response cannot.
    pub(super) fn start_of_batch(&mut self) {
        self.answered = Some(BTreeSet::new());
    }

    /// Removes and returns one call that has no response, although the peer's batch, which has ended, answered other
    /// calls of the same batch of ours.
    pub(super) fn take_missing(&mut self) -> Option<CallId> {
        // If no batch of ours was answered, there is no need to search the outstanding calls.
        let answered = self.answered.take().filter(|answered| !answered.is_empty())?;
        let missing = self
            .waiting
            .iter()
            .filter(|(_, call)| call.batch.is_some_and(|batch| answered.contains(&batch)))
            .map(|(id, _)| *id)
            .min();
        if let Some(id) = missing {
            self.remove(id);
            // The response can still arrive, from a peer that answers the requests of a batch one by one.
            self.abandon(id);
            // Keep the record, because the responses to more calls can be missing.
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

/// The maximum number of abandoned calls that are remembered. A late response to an older call is reported as unknown,
/// which only adds a line to the log.
const MAX_ABANDONED_CALLS: usize = 1024;
