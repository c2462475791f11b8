//! The lines of HTTP heads -> one row for each head, and the exchange that the frames of a channel are part of.

use std::collections::HashMap;

use barewire_proto::transcript::Stream;

use super::record::Time;

/// The HTTP exchanges that are not finished.
#[derive(Default)]
pub(super) struct OpenHeads(HashMap<String, ChannelHeads>);

/// The exchange of one channel.
#[derive(Default)]
pub(super) struct ChannelHeads {
    /// The number of the exchange, from 1.
    pub(super) exchange: u32,
    /// The rows of the exchange, which move when its session becomes known.
    pub(super) rows: Vec<u32>,
    /// The first operation whose request is in the exchange.
    pub(super) operation: u32,
    /// Whether the heads are listed below a message that is not part of an operation.
    pub(super) is_listed: bool,
    pub(super) conversation: u32,
    /// The head of which more lines can follow.
    pub(super) unfinished: Option<UnfinishedHead>,
    /// Whether the response's head has come.
    pub(super) is_answered: bool,
}

/// A head that more lines can be added to.
pub(super) struct UnfinishedHead {
    pub(super) stream: Stream,
    /// The lines so far, redacted.
    pub(super) text: Vec<u8>,
    pub(super) time: Time,
    pub(super) is_redacted: bool,
}

impl OpenHeads {
    pub(super) fn get(&mut self, channel: &str) -> Option<&mut ChannelHeads> {
        self.0.get_mut(channel)
    }

    /// Returns the exchange of a channel, which is begun if necessary; `None` if there are too many.
    pub(super) fn begin(&mut self, channel: &str, new: impl FnOnce() -> ChannelHeads) -> Option<&mut ChannelHeads> {
        if self.0.len() >= MAX_EXCHANGES && !self.0.contains_key(channel) {
            return None;
        }
        Some(self.0.entry(channel.to_owned()).or_insert_with(new))
    }

    pub(super) fn end(&mut self, channel: &str) {
        self.0.remove(channel);
    }

    pub(super) fn channels(&self) -> Vec<String> {
        self.0.keys().cloned().collect()
    }
}

impl ChannelHeads {
    pub(super) fn add_row(&mut self, row: u32) {
        if self.rows.len() < MAX_ROWS {
            self.rows.push(row);
        }
    }
}

impl UnfinishedHead {
    pub(super) fn push(&mut self, line: &[u8], is_redacted: bool) {
        self.is_redacted |= is_redacted;
        if self.text.len() + line.len() <= MAX_HEAD {
            if !self.text.is_empty() {
                self.text.push(b'\n');
            }
            self.text.extend_from_slice(line);
        }
    }
}

/// The maximum number of exchanges that are open at once: more than any host has.
const MAX_EXCHANGES: usize = 4096;
/// The maximum number of rows that move to the session of an exchange: `initialize` has few.
const MAX_ROWS: usize = 64;
/// The maximum length of a head, in bytes: more than any server accepts.
const MAX_HEAD: usize = 64 * 1024;
