//! The tables of an index. The writer appends to them; the page's requests read them.

use std::borrow::Cow;

use super::chunks::Chunks;
use super::findings::KeptFindings;
use super::names::{Ids, Names};
use super::record::{EntryKind, EntryRecord, ExchangeRecord, OperationRecord, Time};
use crate::rows::Role;

/// Everything that is known about a capture, except the texts of its frames.
#[derive(Default)]
pub(crate) struct IndexData {
    pub(crate) entries: Chunks<EntryRecord>,
    /// Maps the number of each frame, less 1, to its row.
    pub(crate) frames: Chunks<u32>,
    pub(crate) operations: Chunks<OperationRecord>,
    pub(crate) exchanges: Chunks<ExchangeRecord>,
    pub(crate) conversations: Vec<ConversationRecord>,
    pub(crate) names: Names,
    pub(crate) ids: Ids,
    pub(crate) findings: KeptFindings,
    /// The rows of the results that list tools, in their order.
    pub(crate) tool_lists: Vec<u32>,
    pub(crate) totals: Totals,
    /// The maximum number of lanes that operations took at the same time.
    pub(crate) lanes: u16,
}

/// Figures of a whole capture.
#[derive(Debug, Default, Clone)]
pub(crate) struct Totals {
    pub(crate) frames: u64,
    pub(crate) bytes: u64,
    pub(crate) failures: u64,
    /// The start of the capture on the wall clock, in RFC 3339.
    pub(crate) started: Option<String>,
    /// Whether that clock has no time zone.
    pub(crate) is_started_local: bool,
    /// The command line of the program, redacted, as the capture has it.
    pub(crate) program: Option<String>,
    pub(crate) first: Option<Time>,
    pub(crate) last: Option<Time>,
    /// Whether frames have directions and times.
    pub(crate) is_timed: bool,
    /// How the program ended.
    pub(crate) end: Option<String>,
    /// Whether a secret was replaced, here or in the capture.
    pub(crate) is_redacted: bool,
    /// Whether secrets are as they were sent: the capture says that it does not replace them, and nothing does here.
    pub(crate) has_secrets: bool,
    /// Whether the capture has more frames than can be shown.
    pub(crate) is_full: bool,
}

/// A conversation.
#[derive(Debug, Default, Clone)]
pub(crate) struct ConversationRecord {
    pub(crate) name: String,
    /// The name and the version of the client.
    pub(crate) client: Option<(String, String)>,
    /// The name and the version of the server.
    pub(crate) server: Option<(String, String)>,
    pub(crate) era: Option<&'static str>,
    pub(crate) revision: Option<String>,
    pub(crate) is_over_http: bool,
    pub(crate) frames: u64,
    pub(crate) failures: u64,
    pub(crate) findings: u64,
    pub(crate) end: Option<String>,
    pub(crate) first: Option<Time>,
    pub(crate) last: Option<Time>,
}

impl IndexData {
    /// Appends a row, and counts it.
    pub(crate) fn push(&mut self, entry: EntryRecord) -> u32 {
        let time = (entry.time != Time::NONE).then_some(entry.time);
        let conversation = self.conversations.get_mut(entry.conversation as usize);
        if let Some(time) = time {
            self.totals.first.get_or_insert(time);
            self.totals.last = self.totals.last.max(Some(time));
        }
        let is_frame = entry.kind != EntryKind::Event && entry.element == 0;
        let is_failure = entry.outcome.is_failure();
        self.totals.failures += u64::from(is_failure);
        if let Some(conversation) = conversation {
            conversation.frames += u64::from(is_frame);
            conversation.failures += u64::from(is_failure);
            conversation.first = conversation.first.or(time);
            conversation.last = conversation.last.max(time);
        }
        let index = u32::try_from(self.entries.len()).unwrap_or(u32::MAX);
        if is_frame {
            self.totals.frames += 1;
            self.totals.bytes += entry.length;
            self.frames.push(index);
        }
        let mut entry = entry;
        let above = self.above(&entry);
        if let Some(operation) = self.operation_mut(entry.operation) {
            entry.previous = operation.last.wrapping_add(1);
            operation.last = index;
            // An element is below its batch.
            operation.children += u32::from(above == Some(operation.first));
        }
        self.entries.push(entry);
        index
    }

    /// Returns the row of a frame.
    pub(crate) fn frame(&self, number: u64) -> Option<u32> {
        self.frames.get(usize::try_from(number.checked_sub(1)?).ok()?).copied()
    }

    /// Returns the event at a row, with the row.
    pub(crate) fn event(&self, row: u64) -> Option<(u32, &EntryRecord)> {
        let row = u32::try_from(row).ok()?;
        let entry = self.entries.get(row as usize).filter(|entry| entry.kind == EntryKind::Event)?;
        Some((row, entry))
    }

    pub(crate) fn operation(&self, number: u32) -> Option<&OperationRecord> {
        self.operations.get((number as usize).checked_sub(1)?)
    }

    pub(crate) fn operation_mut(&mut self, number: u32) -> Option<&mut OperationRecord> {
        self.operations.get_mut((number as usize).checked_sub(1)?)
    }

    pub(crate) fn exchange(&self, number: u32) -> Option<&ExchangeRecord> {
        self.exchanges.get((number as usize).checked_sub(1)?)
    }

    /// Returns the name of the channel of a row.
    pub(crate) fn channel(&self, entry: &EntryRecord) -> Option<Cow<'_, str>> {
        match self.exchange(entry.exchange) {
            Some(exchange) => self.ids.text(exchange.channel).map(Cow::Owned),
            None => self.names.get(entry.channel).map(Cow::Borrowed),
        }
    }

    /// Returns the row that this one is below in a folded list, which leaves it out: that of its batch, of the first
    /// request of its operation, or, for an HTTP head, of the message of its exchange.
    pub(crate) fn above(&self, entry: &EntryRecord) -> Option<u32> {
        if entry.element > 0 {
            return self.frame(u64::from(entry.frame));
        }
        if entry.operation == 0 {
            return self.message_of_head(entry);
        }
        let is_below = match entry.role {
            Role::Progress => true,
            Role::Request { .. } | Role::Response { .. } => entry.round > 1,
            // The heads of an exchange in which an operation was asked.
            Role::None => entry.kind == EntryKind::Event,
            _ => false,
        };
        self.operation(entry.operation).filter(|_| is_below).map(|it| it.first)
    }

    /// Returns the row of the message that an HTTP head came with, if neither is part of an operation.
    pub(crate) fn message_of_head(&self, entry: &EntryRecord) -> Option<u32> {
        let is_head = entry.kind == EntryKind::Event && self.names.get(entry.method) == Some("http");
        self.exchange(entry.exchange).filter(|_| is_head)?.message.checked_sub(1)
    }

    /// Returns the rows below the row of a frame, other than those of its operation: the messages of a batch, and the
    /// HTTP heads.
    pub(crate) fn rows_below(&self, row: u32) -> Vec<u32> {
        let Some(entry) = self.entries.get(row as usize) else { return Vec::new() };
        let mut rows: Vec<u32> = (row + 1..=row + u32::from(entry.elements)).collect();
        let exchange = self.exchange(entry.exchange).filter(|it| it.message == row + 1);
        let mut next = exchange.and_then(|it| it.last_head.checked_sub(1));
        while let Some(head) = next
            && rows.len() < MAX_ROWS_OF_OPERATION
        {
            rows.push(head);
            next = self.entries.get(head as usize).and_then(|entry| entry.previous.checked_sub(1));
        }
        rows.sort_unstable();
        rows
    }

    /// Returns the rows of an operation, in their order.
    pub(crate) fn rows_of(&self, operation: u32) -> Vec<u32> {
        let mut rows = Vec::new();
        let mut next = self.operation(operation).map(|it| it.last);
        while let Some(row) = next
            && rows.len() < MAX_ROWS_OF_OPERATION
        {
            rows.push(row);
            next = self.entries.get(row as usize).and_then(|entry| entry.previous.checked_sub(1));
        }
        rows.reverse();
        rows
    }

    /// Returns the conversations with this name.
    pub(crate) fn conversation(&self, name: &str) -> Option<u32> {
        let at = self.conversations.iter().position(|it| it.name == name)?;
        u32::try_from(at).ok()
    }
}

/// The maximum number of rows of one operation that are listed: more than a person looks at.
const MAX_ROWS_OF_OPERATION: usize = 2000;
