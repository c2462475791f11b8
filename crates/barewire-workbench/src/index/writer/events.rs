//! Events and lines of stderr -> their rows.

use std::sync::Arc;

use barewire_proto::transcript::{Bytes, Entry, Event, Note, Stream};

use super::super::record::{EntryRecord, Flags, Time};
use super::{IndexWriter, MAX_ROWS};
use crate::operations::OperationTracker;
use crate::rows::event_parts;

/// What a row shows about an event.
pub(super) struct EventFacts<'a> {
    pub(super) word: &'static str,
    pub(super) text: &'a [u8],
    pub(super) is_redacted: bool,
    pub(super) is_failure: bool,
    pub(super) operation: u32,
}

impl IndexWriter {
    /// Appends the row of a line of stderr or of an event.
    pub(super) fn event(&mut self, channel: &str, stream: Option<Stream>, time: Time, event: EventFacts<'_>) {
        let EventFacts { word, text, is_redacted, is_failure, operation } = event;
        let index = Arc::clone(&self.index);
        let exchange = self.heads.get(channel).map_or(0, |heads| heads.exchange);
        let channel_number = self.channel(channel, exchange);
        let span = index.spool.add(text);
        let mut data = index.data_mut();
        let heads = self.heads.get(channel);
        let conversation = match &heads {
            Some(heads) => heads.conversation,
            None => self.conversations.named(channel, &mut data),
        };
        let entry = EntryRecord {
            text: span,
            length: text.len() as u64,
            time,
            method: data.names.word(word),
            channel: channel_number,
            conversation,
            exchange,
            operation,
            flags: Flags::on(stream).with(Flags::REDACTED, is_redacted).with(Flags::FAILURE, is_failure),
            ..EntryRecord::blank()
        };
        data.totals.is_redacted |= is_redacted;
        let row = data.push(entry);
        data.totals.is_full = data.entries.len() >= MAX_ROWS;
        if let Some(heads) = heads {
            heads.add_row(row);
        }
        if word == "exit" {
            let end = String::from_utf8_lossy(text).into_owned();
            if let Some(conversation) = data.conversations.get_mut(conversation as usize) {
                conversation.end = Some(end.clone());
            }
            data.totals.end = Some(end);
        }
        if word == "open" {
            data.totals.program.get_or_insert_with(|| String::from_utf8_lossy(text).into_owned());
        }
    }

    pub(super) fn note(&mut self, event: &Event, operations: &OperationTracker) {
        let channel = event.channel.as_str();
        let time = Time::of(event.marks.time);
        if let Note::Head(stream, _) = event.note {
            return self.head_line(channel, stream, time, event, operations);
        }
        self.finish_head(channel, None);
        let is_http = self.heads.get(channel).is_some();
        if let (Note::Eof(Stream::ToClient), true) = (&event.note, is_http) {
            self.end_exchange(channel, time, operations);
        }
        if let Note::Closed(_) | Note::Cut { .. } = event.note {
            self.cancelled(channel, time, operations);
        }
        // Each HTTP exchange has two ends, which say nothing more.
        if matches!(event.note, Note::Eof(_)) && is_http {
            return;
        }
        let mut clean = Vec::new();
        self.redactor.entry(Entry::Event(event.clone()), &mut clean);
        for entry in clean {
            match entry {
                Entry::Event(Event { note, marks, .. }) => {
                    let Some((stream, word, text)) = event_parts(&note) else { continue };
                    let is_failure = word == "exit" && text != "code 0";
                    let (text, is_redacted) = (text.as_bytes(), marks.redacted);
                    self.event(channel, stream, time, EventFacts { word, text, is_redacted, is_failure, operation: 0 });
                }
                Entry::Bytes(bytes) => self.stderr_row(&bytes),
                _ => {}
            }
        }
    }

    pub(super) fn stderr(&mut self, bytes: &Bytes) {
        let mut clean = Vec::new();
        self.redactor.entry(Entry::Bytes(bytes.clone()), &mut clean);
        for entry in clean {
            if let Entry::Bytes(bytes) = entry {
                self.stderr_row(&bytes);
            }
        }
    }

    fn stderr_row(&mut self, bytes: &Bytes) {
        if bytes.stream == Stream::Stderr {
            let (text, is_redacted) = (&bytes.payload[..], bytes.marks.redacted);
            let facts = EventFacts { word: "stderr", text, is_redacted, is_failure: false, operation: 0 };
            self.event(bytes.channel.as_str(), Some(Stream::Stderr), Time::of(bytes.marks.time), facts);
        }
    }
}
