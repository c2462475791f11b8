//! Collects the responses to the requests in a batch into one batch of responses.

use std::collections::HashMap;

/// The batches of requests that are not completely answered yet.
#[derive(Default)]
pub(super) struct Batches {
    pending: HashMap<u64, PendingBatch>,
    last_number: u64,
}

struct PendingBatch {
    /// The number of requests in the batch that are not finished yet.
    open: usize,
    responses: Vec<Vec<u8>>,
}

impl Batches {
    /// Adds a batch with this number of requests, and returns the number of the batch.
    pub(super) fn add(&mut self, requests: usize) -> u64 {
        self.last_number += 1;
        self.pending.insert(self.last_number, PendingBatch { open: requests, responses: Vec::new() });
        self.last_number
    }

    /// Finishes one request of a batch, with or without a response. After the last one, returns the batch of responses.
    pub(super) fn finish_request(&mut self, number: u64, response: Option<Vec<u8>>) -> Option<Vec<u8>> {
        let batch = self.pending.get_mut(&number)?;
        batch.open = batch.open.saturating_sub(1);
        batch.responses.extend(response);
        if batch.open > 0 {
            return None;
        }
        let PendingBatch { responses, .. } = self.pending.remove(&number)?;
        (!responses.is_empty()).then(|| [&b"["[..], &responses.join(&b','), b"]"].concat())
    }
}
