//! What a message changes in its operation: its state, its lane in the timeline, the call that waits for it.

use std::sync::Arc;

use super::super::IndexData;
use super::super::record::{EntryRecord, OperationRecord, OperationState, RowOutcome, Time};
use super::IndexWriter;
use super::message::OperationFacts;
use crate::operations::OperationTracker;
use crate::rows::Role;

impl IndexWriter {
    /// Sets the operation of a row, and what the row says about it.
    pub(super) fn update_operation(&mut self, facts: &OperationFacts, entry: &mut EntryRecord, data: &mut IndexData) {
        let OperationFacts { number: tracked, rounds, .. } = *facts;
        let known = self.numbers.get(&tracked).copied();
        let number = known.unwrap_or_else(|| u32::try_from(data.operations.len() + 1).unwrap_or(u32::MAX));
        if let (Role::Request { .. }, None) = (entry.role, known) {
            self.numbers.insert(tracked, number);
            if self.numbers.len() > MAX_OPEN {
                self.numbers.pop_first();
            }
            let parent = match (facts.is_of_server, facts.is_ping) {
                (true, false) => {
                    let of_exchange = self.exchange_call(entry.exchange, data);
                    of_exchange.or_else(|| self.lanes.waiting_call(entry.conversation)).unwrap_or_default()
                }
                _ => 0,
            };
            let above = data.operation(parent).map(|parent| (parent.lane, parent.depth));
            let (lane, depth) = match above {
                Some((lane, depth)) => (lane, depth.saturating_add(1)),
                None => (self.lanes.take(), 0),
            };
            data.lanes = data.lanes.max(lane + 1);
            if !facts.is_of_server && !facts.is_listen && !facts.is_ping {
                self.lanes.begin_call(entry.conversation, number);
            }
            data.operations.push(OperationRecord {
                first: u32::MAX,
                last: u32::MAX,
                open_request: 0,
                method: facts.method,
                name: facts.name,
                conversation: entry.conversation,
                start: entry.time,
                end: Time::NONE,
                parent,
                children: 0,
                lane,
                depth,
                rounds,
                is_of_server: facts.is_of_server,
                released: None,
                state: if facts.is_listen { OperationState::Listening } else { OperationState::Open },
            });
        }
        let Some(operation) = data.operation_mut(number) else { return };
        (entry.operation, entry.round) = (number, rounds);
        operation.rounds = rounds;
        match entry.role {
            Role::Response { .. } => {
                entry.request = operation.open_request;
                operation.open_request = 0;
                operation.end = entry.time;
                operation.state = match entry.outcome {
                    RowOutcome::Error | RowOutcome::Invalid => OperationState::Failed,
                    RowOutcome::ToolError => OperationState::ToolFailed,
                    RowOutcome::InputRequired => OperationState::Suspended,
                    _ => OperationState::Done,
                };
                if operation.state != OperationState::Suspended {
                    self.numbers.remove(&tracked);
                    self.release(number, entry.time, data);
                }
            }
            Role::Cancellation if operation.state.is_open() => {
                operation.state = OperationState::Cancelled;
                operation.end = entry.time;
                self.release(number, entry.time, data);
            }
            Role::Request { .. } if operation.state == OperationState::Suspended => {
                operation.state = OperationState::Open;
                operation.end = Time::NONE;
            }
            _ => {}
        }
    }

    /// Frees the lane of an operation, unless a cancellation has freed it before: a late response, and whatever follows
    /// it, may then be at the same time as another operation in this lane.
    fn release(&mut self, number: u32, time: Time, data: &mut IndexData) {
        let Some(operation) = data.operation_mut(number).filter(|it| it.released.is_none()) else { return };
        operation.released = Some(time);
        self.lanes.end_call(operation.conversation, number);
        if operation.depth == 0 {
            self.lanes.give_back(operation.lane);
        }
    }

    /// Returns the operation of an exchange that is not answered yet.
    fn exchange_call(&self, exchange: u32, data: &IndexData) -> Option<u32> {
        let operation = data.exchange(exchange)?.operation;
        data.operation(operation).filter(|it| it.state.is_open() && !it.is_of_server).map(|_| operation)
    }

    /// Notes the operations that the tracker has taken for cancelled when a connection was closed.
    pub(super) fn cancelled(&mut self, channel: &str, time: Time, operations: &OperationTracker) {
        let cancelled = operations.open().filter(|it| it.channel == channel && it.cancelled.is_some());
        let numbers: Vec<u64> = cancelled.map(|it| it.number).collect();
        for number in numbers {
            self.settle(number, OperationState::Cancelled, time);
        }
    }

    pub(super) fn settle(&mut self, tracked: u64, state: OperationState, time: Time) {
        let Some(number) = self.numbers.get(&tracked).copied() else { return };
        let index = Arc::clone(&self.index);
        let mut data = index.data_mut();
        let Some(operation) = data.operation_mut(number).filter(|it| it.state.is_open()) else { return };
        (operation.state, operation.end, operation.open_request) = (state, time, 0);
        self.release(number, time, &mut data);
    }
}

/// The maximum number of unfinished operations; the tracker keeps as many.
const MAX_OPEN: usize = 66_000;
