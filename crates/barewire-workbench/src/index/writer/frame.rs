//! A frame and the facts of its messages -> its rows: its own, and those of the elements of a batch.

use std::sync::Arc;

use barewire_proto::rpc::{Parsed, parse};
use barewire_proto::transcript::Stream;

use super::super::IndexData;
use super::super::record::{EntryKind, EntryRecord, Flags, RowOutcome, Time};
use super::super::spool::Span;
use super::http::{adopt_heads, list_heads_below, note_operation};
use super::{IndexWriter, MAX_ROWS};
use crate::frames::{FrameKind, WireFrame};
use crate::rows::Role;

impl IndexWriter {
    /// Appends the rows of a frame: its own, and those of the elements of a batch.
    pub(super) fn frame(&mut self, frame: &WireFrame<'_>) {
        let stream = frame.place.map(|place| place.stream);
        let channel_name = frame.place.map_or("", |place| place.channel);
        self.finish_head(channel_name, None);
        let clean = match (frame.bytes, stream) {
            (Some(bytes), Some(stream)) => self.redactor.frame(stream, channel_name, bytes),
            _ => None,
        };
        let text = clean.as_deref().or(frame.bytes);
        let span = text.map_or(Span::NONE, |text| self.index.spool.add(text));
        let messages = std::mem::take(&mut self.messages);
        let is_batch = matches!(frame.parsed, Parsed::Batch(_));
        // The elements of a frame in which something was replaced are at other places.
        let element_spans = clean.as_deref().filter(|_| is_batch).map(element_places);
        let is_redacted = clean.is_some() || frame.place.is_some_and(|place| place.redacted);
        let exchange = self.heads.get(channel_name).map_or(0, |heads| heads.exchange);
        let channel = self.channel(channel_name, exchange);
        let flags = Flags::on(stream)
            .with(Flags::REDACTED, is_redacted)
            .with(Flags::GUESSED, self.is_guessing)
            .with(Flags::BAD, !frame.is_well_formed() && !frame.is_cut());
        let base = EntryRecord {
            text: span,
            frame: u32::try_from(frame.number).unwrap_or(u32::MAX),
            offset: frame.offset,
            length: frame.length,
            time: Time::of(frame.place.and_then(|place| place.time)),
            channel,
            exchange,
            flags,
            ..EntryRecord::blank()
        };
        let index = Arc::clone(&self.index);
        let mut data = index.data_mut();
        data.totals.is_redacted |= is_redacted;
        data.totals.is_timed |= !self.is_guessing && stream.is_some();
        let mut rows = Vec::new();
        if is_batch {
            let elements = u16::try_from(messages.len()).unwrap_or(u16::MAX);
            let conversation = messages.first().map_or(0, |message| message.conversation);
            let outcome = if flags.has(Flags::BAD) { RowOutcome::Invalid } else { RowOutcome::None };
            rows.push(data.push(EntryRecord {
                kind: EntryKind::Frame(FrameKind::Batch),
                elements,
                conversation,
                outcome,
                ..base.clone()
            }));
        }
        for (number, message) in messages.into_iter().enumerate() {
            let place = match &element_spans {
                Some(places) => places.get(number).copied(),
                None => Some((message.at, usize::try_from(message.length).unwrap_or(usize::MAX))),
            };
            let text = match (is_batch, place) {
                (false, _) => span,
                (true, Some((at, length))) => span.part(at, length),
                (true, None) => Span::NONE,
            };
            let has_bad = flags.with(Flags::OTHER_ID, message.has_other_id);
            let mut entry = EntryRecord {
                text,
                length: if is_batch { message.length } else { base.length },
                id: message.id.as_deref().map(|id| data.ids.add(id)).unwrap_or_default(),
                method: message.method,
                detail: message.detail,
                code: message.code,
                element: message.element,
                kind: message.kind,
                role: message.role,
                outcome: message.outcome,
                conversation: message.conversation,
                flags: has_bad,
                ..base.clone()
            };
            if let Some(operation) = &message.operation {
                self.update_operation(operation, &mut entry, &mut data);
            }
            let row = data.push(entry);
            begin(message.role, row, &mut data);
            note_tool_list(message.kind, row, &mut data);
            rows.push(row);
        }
        if let Some(heads) = self.heads.get(channel_name) {
            for row in rows {
                let operation = data.entries[row as usize].operation;
                let is_sent = stream == Some(Stream::ToServer);
                match (heads.is_listed || heads.operation > 0, operation) {
                    (false, _) if is_sent && (is_batch || operation == 0) => {
                        heads.is_listed = true;
                        list_heads_below(heads, row, &mut data);
                    }
                    (_, 0) => {}
                    (false, _) => {
                        heads.operation = operation;
                        adopt_heads(heads, row, &mut data);
                    }
                    // The first request of a batch is the one that questions in the answer belong to.
                    (true, _) => note_operation(heads, operation, &mut data),
                }
                heads.conversation = data.entries[row as usize].conversation;
                heads.add_row(row);
            }
        }
        data.totals.is_full = data.entries.len() >= MAX_ROWS;
    }

    /// Returns the number of the name of a channel. The name of an exchange is kept with the exchange, because there
    /// can be as many as frames.
    pub(super) fn channel(&mut self, name: &str, exchange: u32) -> u32 {
        if exchange == 0 { self.name(name) } else { 0 }
    }
}

/// Notes the row of a request in its operation.
fn begin(role: Role, row: u32, data: &mut IndexData) {
    let number = data.entries[row as usize].operation;
    if let (Role::Request { .. }, Some(operation)) = (role, data.operation_mut(number)) {
        operation.open_request = row + 1;
        if operation.first == u32::MAX {
            operation.first = row;
        }
    }
}

/// Notes the row of a result that lists tools.
fn note_tool_list(kind: EntryKind, row: u32, data: &mut IndexData) {
    let entry = &data.entries[row as usize];
    if kind != EntryKind::Frame(FrameKind::Result) || !matches!(entry.role, Role::Response { .. }) {
        return;
    }
    let method = data.operation(entry.operation).and_then(|it| data.names.get(it.method));
    if method == Some("tools/list") && data.tool_lists.len() < MAX_TOOL_LISTS {
        data.tool_lists.push(row);
    }
}

/// Returns the place of each element of a batch: its offset and its length.
fn element_places(text: &[u8]) -> Vec<(usize, usize)> {
    let Parsed::Batch(batch) = parse(text, usize::MAX) else { return Vec::new() };
    let place = |element: &[u8]| (element.as_ptr().addr() - text.as_ptr().addr(), element.len());
    batch.texts().take(MAX_ELEMENTS).map(place).collect()
}

/// The maximum number of elements of a batch that get a row of their own.
pub(in crate::index) const MAX_ELEMENTS: usize = 1000;
/// The maximum number of results that list tools: more than any session has.
const MAX_TOOL_LISTS: usize = 65_536;
