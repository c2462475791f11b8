//! Operations -> lanes of a timeline, so that operations at the same time are not in the same lane.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

/// The lanes that are in use, and the unfinished operations of each conversation.
#[derive(Default)]
pub(super) struct Lanes {
    free: BinaryHeap<Reverse<u16>>,
    next: u16,
    /// Maps each conversation to the unanswered operations of its client, in their order.
    calls: HashMap<u32, Vec<u32>>,
}

impl Lanes {
    /// Returns the lowest free lane. If there are too many, the last lane is shared.
    pub(super) fn take(&mut self) -> u16 {
        if let Some(Reverse(lane)) = self.free.pop() {
            return lane;
        }
        let lane = self.next;
        self.next = (lane + 1).min(MAX_LANES - 1);
        lane
    }

    pub(super) fn give_back(&mut self, lane: u16) {
        if lane < MAX_LANES - 1 {
            self.free.push(Reverse(lane));
        }
    }

    /// Notes an operation of the client, which the server can ask questions for.
    pub(super) fn begin_call(&mut self, conversation: u32, operation: u32) {
        let calls = self.calls.entry(conversation).or_default();
        calls.push(operation);
        if calls.len() > MAX_CALLS {
            calls.remove(0);
        }
    }

    pub(super) fn end_call(&mut self, conversation: u32, operation: u32) {
        if let Some(calls) = self.calls.get_mut(&conversation) {
            calls.retain(|call| *call != operation);
            if calls.is_empty() {
                self.calls.remove(&conversation);
            }
        }
    }

    /// Returns the operation that a question of the server belongs to: the last that the client waits for.
    pub(super) fn waiting_call(&self, conversation: u32) -> Option<u32> {
        self.calls.get(&conversation)?.last().copied()
    }
}

/// The maximum number of lanes: more than a person can look at.
const MAX_LANES: u16 = 2000;
/// The maximum number of unanswered calls of a conversation that a question can belong to.
const MAX_CALLS: usize = 256;
