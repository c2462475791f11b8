//! The operations of two captures -> pairs of operations that correspond to each other.

use std::collections::{HashMap, VecDeque};

use ring::digest::{SHA256, digest};

use super::collect::CollectedOperation;
use crate::replay::canonical_params;

/// The key that both operations of a pair have: the place of the conversation, who asks, the method and the name.
type OperationKey<'a> = (usize, bool, &'a str, Option<&'a str>);

/// Returns the indexes of each pair, in the order of the first capture. An operation without a counterpart is alone; those
/// of the second capture come last.
pub(super) fn pairs(
    first: &[CollectedOperation],
    second: &[CollectedOperation],
) -> Vec<(Option<usize>, Option<usize>)> {
    let conversations = (places(first), places(second));
    let mut groups: HashMap<OperationKey<'_>, Vec<usize>> = HashMap::new();
    for (at, operation) in second.iter().enumerate() {
        groups.entry(key(operation, &conversations.1)).or_default().push(at);
    }
    let mut partner: Vec<Option<usize>> = vec![None; first.len()];
    let mut is_taken = vec![false; second.len()];
    let params = |operation: &CollectedOperation| {
        canonical_params(&operation.request).map(|params| digest(&SHA256, &params).as_ref().to_vec())
    };
    // Operations with the same params belong together, in their order.
    let mut by_params: HashMap<(OperationKey<'_>, Option<Vec<u8>>), VecDeque<usize>> = HashMap::new();
    for (at, operation) in second.iter().enumerate() {
        by_params.entry((key(operation, &conversations.1), params(operation))).or_default().push_back(at);
    }
    for (at, operation) in first.iter().enumerate() {
        let group = by_params.get_mut(&(key(operation, &conversations.0), params(operation)));
        if let Some(other) = group.and_then(|group| group.pop_front()) {
            (partner[at], is_taken[other]) = (Some(other), true);
        }
    }
    for list in groups.values_mut() {
        list.retain(|at| !is_taken[*at]);
        list.reverse();
    }
    for (at, operation) in first.iter().enumerate() {
        if partner[at].is_some() {
            continue;
        }
        if let Some(other) = groups.get_mut(&key(operation, &conversations.0)).and_then(Vec::pop) {
            (partner[at], is_taken[other]) = (Some(other), true);
        }
    }
    let known = partner.into_iter().enumerate().map(|(at, other)| (Some(at), other));
    let rest = (0..second.len()).filter(|at| !is_taken[*at]).map(|at| (None, Some(at)));
    known.chain(rest).collect()
}

/// Numbers the conversations of a capture in the order in which they begin: sessions have other names in each capture.
fn places(operations: &[CollectedOperation]) -> HashMap<&str, usize> {
    let mut places = HashMap::new();
    for operation in operations {
        let next = places.len();
        places.entry(operation.side.conversation.as_str()).or_insert(next);
    }
    places
}

fn key<'a>(operation: &'a CollectedOperation, places: &HashMap<&str, usize>) -> OperationKey<'a> {
    let place = places.get(operation.side.conversation.as_str()).copied().unwrap_or_default();
    let is_client = operation.asker == barewire_proto::mcp::Side::Client;
    (place, is_client, &operation.method, operation.name.as_deref())
}
