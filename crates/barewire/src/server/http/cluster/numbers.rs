//! Numbers that contain the number of the node that gave them: of streams, and of the calls that a node sends to a
//! client. They lead an event id or an answer to its node.

use std::collections::BTreeSet;

use super::store::MAX_NODE;
use crate::sync::atomic::{AtomicU64, Ordering};

/// The source of the numbers of one node.
///
/// ```text
/// stream   node (20 bits), count (43 bits), 1 if it is a response and 0 if it is the stream for unsolicited messages
/// call     node (20 bits), copy of a session on this node (21 bits), count (12 bits): exact in every JSON reader
/// ```
#[derive(Debug)]
pub(super) struct Numbers {
    node: u32,
    streams: AtomicU64,
    sessions: AtomicU64,
}

impl Numbers {
    pub(super) fn of_node(node: u32) -> Self {
        Self { node: node.min(MAX_NODE), streams: AtomicU64::new(0), sessions: AtomicU64::new(0) }
    }

    /// Returns the number of a new response.
    pub(super) fn response_stream(&self) -> u64 {
        self.unsolicited_stream() | IS_RESPONSE
    }

    /// Returns the number of a new stream for unsolicited messages.
    pub(super) fn unsolicited_stream(&self) -> u64 {
        let count = self.streams.fetch_add(1, Ordering::Relaxed) + 1;
        u64::from(self.node) << STREAM_BITS | (count << 1 & ((1 << STREAM_BITS) - 1))
    }

    /// Returns the number before the first call of a copy of a session on this node. Calls of the same session on other
    /// nodes have other numbers, and so have those of its earlier copies on this node.
    pub(super) fn calls_after(&self) -> i64 {
        let session = self.sessions.fetch_add(1, Ordering::Relaxed) & ((1 << SESSION_BITS) - 1);
        i64::from(self.node) << (SESSION_BITS + CALL_BITS) | i64::try_from(session << CALL_BITS).unwrap_or_default()
    }
}

/// The numbers of the latest messages of one node, some of which were sent twice. They need not arrive in order:
/// messages of different sessions can take different ways.
#[derive(Debug, Default)]
pub(super) struct ArrivedNumbers {
    latest: BTreeSet<u64>,
    /// The last number that is no longer among the latest. It and those before it count as arrived.
    forgotten: u64,
}

impl ArrivedNumbers {
    /// Adds a number. Returns `false` if it has arrived before.
    pub(super) fn add(&mut self, number: u64) -> bool {
        let is_new = number > self.forgotten && self.latest.insert(number);
        if self.latest.len() > MAX_ARRIVED {
            self.forgotten = self.latest.pop_first().unwrap_or(self.forgotten);
        }
        is_new
    }
}

/// Returns the node that has given a stream its number.
pub(super) fn node_of_stream(stream: u64) -> u32 {
    u32::try_from(stream >> STREAM_BITS).unwrap_or(MAX_NODE)
}

/// Whether a stream is a response, and not the stream for unsolicited messages.
pub(super) fn is_response(stream: u64) -> bool {
    stream & IS_RESPONSE != 0
}

/// Returns the node that has sent the call with this id; `None` if no node can have.
pub(super) fn node_of_call(id: i64) -> Option<u32> {
    u32::try_from(id >> (SESSION_BITS + CALL_BITS)).ok().filter(|node| (1..=MAX_NODE).contains(node))
}

/// The number of messages of a node that are remembered: more than it sends while one of them is sent again.
const MAX_ARRIVED: usize = 4096;

const STREAM_BITS: u32 = 44;
const IS_RESPONSE: u64 = 1;
const SESSION_BITS: u32 = 21;
const CALL_BITS: u32 = 12;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_arrives_once_in_any_order() {
        let mut arrived = ArrivedNumbers::default();
        assert_eq!([2, 1, 2, 1, 3].map(|number| arrived.add(number)), [true, true, false, false, true]);
        for number in 10..10 + 2 * MAX_ARRIVED as u64 {
            assert!(arrived.add(number) && !arrived.add(number));
        }
        assert!(arrived.latest.len() <= MAX_ARRIVED && !arrived.add(1));
    }

    #[test]
    fn numbers_lead_back_to_their_node() {
        for node in [1, 2, MAX_NODE] {
            let numbers = Numbers::of_node(node);
            for _ in 0..3 {
                let (response, unsolicited) = (numbers.response_stream(), numbers.unsolicited_stream());
                assert_ne!(response & !IS_RESPONSE, unsolicited);
                assert!(is_response(response) && !is_response(unsolicited));
                assert_eq!([response, unsolicited].map(node_of_stream), [node; 2]);
                let (first, second) = (numbers.calls_after(), numbers.calls_after());
                assert_ne!(first, second);
                assert_eq!([first + 1, first + 65_535, second].map(node_of_call), [Some(node); 3]);
                assert!(second < 1 << 53, "every JSON reader has it exactly");
            }
        }
        assert_eq!([0, 7, -1, i64::MAX, i64::MIN].map(node_of_call), [None; 5]);
    }
}
