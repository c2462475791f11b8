//! Items and tracked messages -> the records of an index, without secrets.
//!
//! The messages of a frame come before the frame: [`message`] keeps their facts, [`frame`] makes rows of them, and
//! [`operations`] notes what they change. [`events`] makes rows of everything else, and [`http`] of the heads of
//! exchanges.

mod events;
mod frame;
mod http;
mod message;
mod operations;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use barewire_proto::transcript::Header;

use super::IndexedCapture;
use super::conversations::ConversationNumbers;
use super::heads::OpenHeads;
use super::lanes::Lanes;
use super::names::beginning;
use crate::check::Inspector;
use crate::frames::WireItem;
use crate::operations::{OperationTracker, TrackedMessage};
use crate::pipeline::Observer;
use crate::secrets::Redactor;
pub(super) use frame::MAX_ELEMENTS;
use message::MessageFacts;

/// An observer that writes an index.
pub struct IndexWriter {
    index: Arc<IndexedCapture>,
    redactor: Redactor,
    inspector: Inspector,
    conversations: ConversationNumbers,
    heads: OpenHeads,
    lanes: Lanes,
    /// Maps the number that the tracker gives to an unfinished operation to its number in the index. They differ if
    /// there was no room for all messages of a batch.
    numbers: BTreeMap<u64, u32>,
    /// Maps names, as they were on the wire, to their numbers: of each, its beginning.
    names: HashMap<Box<str>, u32>,
    /// The messages of the current frame.
    messages: Vec<MessageFacts>,
    is_guessing: bool,
}

impl IndexWriter {
    /// Creates a writer. The redactor replaces the secrets in all texts before they are kept.
    pub fn new(index: Arc<IndexedCapture>, redactor: Redactor) -> Self {
        Self {
            index,
            redactor,
            inspector: Inspector::incremental(),
            conversations: ConversationNumbers::default(),
            heads: OpenHeads::default(),
            lanes: Lanes::default(),
            numbers: BTreeMap::new(),
            names: HashMap::new(),
            messages: Vec::new(),
            is_guessing: false,
        }
    }

    /// Notes that the input has no directions, so that those of the following frames are guessed.
    pub(super) fn guesses_directions(&mut self) {
        self.is_guessing = true;
    }

    /// Whether nothing more is to be read: the index is full, or was stopped.
    pub(super) fn is_finished(&self) -> bool {
        self.index.is_stopped() || self.index.data().totals.is_full
    }

    /// Returns the number of a name, in which secrets are replaced first.
    fn name(&mut self, name: &str) -> u32 {
        if name.is_empty() {
            return 0;
        }
        // A name can be as long as a frame, so only its beginning is looked at.
        let name = beginning(name, MAX_NAME);
        if let Some(number) = self.names.get(name) {
            return *number;
        }
        let clean = self.redactor.text(name);
        let number = self.index.data_mut().names.number(&clean);
        if self.names.len() < MAX_CACHED_NAMES {
            self.names.insert(name.into(), number);
        }
        number
    }

    fn header(&mut self, header: &Header) {
        let fact = |name| header.facts.iter().find(|(key, _)| key.as_str() == name);
        let text = |(_, value): &(_, Vec<u8>)| String::from_utf8_lossy(beginning_bytes(value)).into_owned();
        let (started, local) = (fact("started").map(text), fact("started-local").map(text));
        let is_unredacted = fact("redacted").is_some_and(|(_, value)| value == b"no");
        let mut data = self.index.data_mut();
        data.totals.has_secrets = is_unredacted && self.redactor.is_off();
        data.totals.is_started_local = started.is_none() && local.is_some();
        data.totals.started = started.or(local);
    }

    fn keep_findings(&mut self) {
        let findings = self.inspector.take_findings();
        if findings.is_empty() {
            return;
        }
        for mut finding in findings {
            finding.redact(&mut self.redactor);
            let mut data = self.index.data_mut();
            let row = finding.location.frame.and_then(|frame| data.frame(frame));
            let conversation = match row {
                Some(row) => data.entries[row as usize].conversation,
                None => self.conversations.named(&finding.location.channel, &mut data),
            };
            let name = data.conversations.get_mut(conversation as usize).map(|conversation| {
                conversation.findings += 1;
                conversation.name.clone()
            });
            data.findings.add(finding, name.unwrap_or_default());
        }
    }
}

impl Observer for IndexWriter {
    fn message(&mut self, tracked: &TrackedMessage<'_>) {
        self.inspector.message(tracked);
        if self.messages.len() < MAX_ELEMENTS {
            let facts = self.facts(tracked);
            self.messages.push(facts);
        }
    }

    fn item(&mut self, item: &WireItem<'_>, operations: &OperationTracker) {
        self.inspector.item(item, operations);
        if !self.is_finished() {
            match item {
                WireItem::Header(header) => self.header(header),
                WireItem::Frame(frame) => self.frame(frame),
                WireItem::Stderr(bytes) => self.stderr(bytes),
                WireItem::Event(event) => self.note(event, operations),
                WireItem::Endpoint { .. } => {}
            }
        }
        self.messages.clear();
        self.keep_findings();
    }

    fn end(&mut self, operations: &OperationTracker) {
        for channel in self.heads.channels() {
            self.finish_head(&channel, None);
        }
        self.inspector.end(operations);
        self.keep_findings();
        let omitted: u64 = self.inspector.omitted().map(|(_, count)| count).sum();
        self.index.data_mut().findings.total += omitted;
        self.index.complete();
    }
}

fn beginning_bytes(bytes: &[u8]) -> &[u8] {
    &bytes[..bytes.len().min(MAX_NAME)]
}

/// The maximum length of a name or of the beginning of an event, in bytes.
const MAX_NAME: usize = 512;
/// The maximum number of names that are found without redacting them again.
const MAX_CACHED_NAMES: usize = 100_000;
/// The maximum number of rows: they take half a gigabyte.
const MAX_ROWS: usize = 4_000_000;

#[cfg(test)]
mod tests {
    use super::super::tests::indexing;
    use super::*;

    /// The message of an error can be as long as a frame.
    #[test]
    fn long_names_take_no_memory() {
        let long = "x".repeat(1024 * 1024);
        let error = |id: u32| format!(r#"< {{"jsonrpc":"2.0","id":{id},"error":{{"code":1,"message":"{long}{id}"}}}}"#);
        let sink = indexing(&Arc::new(IndexedCapture::new()), &format!("wire 1\n{}\n{}\n", error(1), error(2)));
        let names = &sink.observer.names;
        assert!(names.keys().all(|name| name.len() <= MAX_NAME), "{:?}", names.keys().map(|name| name.len()).max());
    }
}
