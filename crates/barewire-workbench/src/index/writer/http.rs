//! The lines of HTTP heads -> a row for each head, and the exchange that the frames of a channel are part of.

use std::sync::Arc;

use barewire_proto::transcript::{Entry, Event, Note, Stream};

use super::super::IndexData;
use super::super::conversations::move_rows;
use super::super::heads::{ChannelHeads, UnfinishedHead};
use super::super::names::beginning;
use super::super::record::{EntryKind, ExchangeRecord, OperationState, Time};
use super::events::EventFacts;
use super::{IndexWriter, MAX_NAME};
use crate::operations::OperationTracker;
use crate::rows::status;

impl IndexWriter {
    /// Adds a line to the head of an exchange.
    pub(super) fn head_line(
        &mut self,
        channel: &str,
        stream: Stream,
        time: Time,
        event: &Event,
        operations: &OperationTracker,
    ) {
        self.finish_head(channel, Some(stream));
        let mut clean = Vec::new();
        self.redactor.entry(Entry::Event(event.clone()), &mut clean);
        let lines = clean.into_iter().filter_map(|entry| match entry {
            Entry::Event(Event { note: Note::Head(_, line), marks, .. }) => Some((line, marks.redacted)),
            _ => None,
        });
        let index = Arc::clone(&self.index);
        let mut data = index.data_mut();
        let Self { heads, conversations, redactor, .. } = self;
        let begun = heads.begin(channel, || {
            let name = data.ids.add(&redactor.text(beginning(channel, MAX_NAME)));
            let record = ExchangeRecord::new(name);
            let exchange = u32::try_from(data.exchanges.push(record) + 1).unwrap_or_default();
            ChannelHeads { exchange, conversation: conversations.without_session(&mut data), ..ChannelHeads::default() }
        });
        let Some(channel_heads) = begun else { return };
        for (line, is_redacted) in lines {
            let new = || UnfinishedHead { stream, text: Vec::new(), time, is_redacted: false };
            channel_heads.unfinished.get_or_insert_with(new).push(&line, is_redacted);
        }
        // The first answer of a session names it, and what came before belongs to it too.
        if let Some(exchange) = operations.exchange(channel).filter(|exchange| exchange.session.is_some()) {
            let conversation = conversations.of_exchange(exchange, redactor, &mut data);
            if conversation != channel_heads.conversation {
                let from = std::mem::replace(&mut channel_heads.conversation, conversation);
                let participants = data.conversations.get(from as usize).map(|it| (it.client.clone(), it.is_over_http));
                move_rows(&channel_heads.rows, conversation, &mut data);
                if let (Some(to), Some((client, is_over_http))) =
                    (data.conversations.get_mut(conversation as usize), participants)
                {
                    to.client = to.client.take().or(client);
                    to.is_over_http |= is_over_http;
                }
            }
        }
    }

    /// Appends the row of a head of which no more lines follow: all lines, unless the head is of the stream `but`.
    pub(super) fn finish_head(&mut self, channel: &str, but: Option<Stream>) {
        let Some(heads) = self.heads.get(channel) else { return };
        if heads.unfinished.as_ref().is_none_or(|head| Some(head.stream) == but) {
            return;
        }
        let Some(UnfinishedHead { stream, text, time, is_redacted }) = heads.unfinished.take() else { return };
        let (exchange, operation) = (heads.exchange, heads.operation);
        heads.is_answered |= stream == Stream::ToClient;
        let is_failure = status(text.split(|byte| *byte == b'\n').next().unwrap_or_default()) >= Some(400);
        let facts = EventFacts { word: "http", text: &text, is_redacted, is_failure, operation };
        self.event(channel, Some(stream), time, facts);
        let mut data = self.index.data_mut();
        let row = data.entries.len() - 1;
        let span = data.entries[row].text;
        if let Some(record) = data.exchanges.get_mut((exchange as usize).saturating_sub(1)) {
            *(if stream == Stream::ToServer { &mut record.request } else { &mut record.response }) = span;
            if operation == 0 {
                let head = u32::try_from(row + 1).unwrap_or_default();
                let before = std::mem::replace(&mut record.last_head, head);
                record.heads += 1;
                data.entries[row].previous = before;
            }
        }
    }

    /// Ends an exchange. Operations that its status has refused get no response.
    pub(super) fn end_exchange(&mut self, channel: &str, time: Time, operations: &OperationTracker) {
        for refused in operations.refused() {
            self.settle(refused.number, OperationState::Failed, time);
            self.numbers.remove(&refused.number);
        }
        self.heads.end(channel);
    }
}

/// Lists the heads of an exchange below the row of what was sent, which is not part of an operation.
pub(super) fn list_heads_below(heads: &ChannelHeads, row: u32, data: &mut IndexData) {
    if let Some(record) = data.exchanges.get_mut((heads.exchange as usize).saturating_sub(1)) {
        record.message = row + 1;
    }
}

/// Notes an operation in its exchange, unless there is one.
pub(super) fn note_operation(heads: &ChannelHeads, operation: u32, data: &mut IndexData) {
    let record = data.exchanges.get_mut((heads.exchange as usize).saturating_sub(1));
    if let Some(record) = record.filter(|it| it.operation == 0) {
        record.operation = operation;
    }
}

/// Gives the heads of an exchange to the operation of its first message, which is in this row, after the heads.
pub(super) fn adopt_heads(heads: &ChannelHeads, first: u32, data: &mut IndexData) {
    let operation = data.entries[first as usize].operation;
    if let Some(record) = data.exchanges.get_mut((heads.exchange as usize).saturating_sub(1)) {
        record.operation = operation;
        (record.last_head, record.heads) = (0, 0);
    }
    for row in &heads.rows {
        let Some(entry) = data.entries.get_mut(*row as usize) else { continue };
        if entry.kind == EntryKind::Event && entry.operation == 0 {
            entry.operation = operation;
            let before = std::mem::replace(&mut data.entries[first as usize].previous, row + 1);
            data.entries[*row as usize].previous = before;
            if let Some(operation) = data.operation_mut(operation) {
                operation.children += 1;
            }
        }
    }
}
