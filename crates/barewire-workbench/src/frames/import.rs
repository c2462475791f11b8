//! Entries that are made from the files of other programs, such as logs and HAR files -> items, after a filter.

use std::cell::RefCell;
use std::time::Duration;

use barewire_proto::transcript::{Bytes, Channel, Entry, Event, Header, Marks, Note, VERSION, Word};

use super::{FrameLimits, Sink, Streams};
use crate::Error;

/// A function that takes each entry made from the file of another program, and appends the entries to be read instead.
pub type EntryFilter<'a> = dyn FnMut(Entry, &mut Vec<Entry>) + 'a;

/// Passes entries through a filter and decodes them.
pub(super) struct Importer<'a> {
    streams: Streams,
    filter: Option<&'a RefCell<EntryFilter<'a>>>,
    filtered: Vec<Entry>,
}

impl<'a> Importer<'a> {
    pub(super) fn new(limits: FrameLimits, filter: Option<&'a RefCell<EntryFilter<'a>>>) -> Self {
        Self { streams: Streams::new(limits), filter, filtered: Vec::new() }
    }

    /// Takes one entry, and passes the items in it to the sink. Returns `false` if the sink did.
    pub(super) fn entry(&mut self, entry: Entry, sink: &mut dyn Sink) -> Result<bool, Error> {
        match self.filter {
            None => return self.streams.entry(&entry, sink),
            Some(filter) => (filter.borrow_mut())(entry, &mut self.filtered),
        }
        for entry in self.filtered.drain(..) {
            if !self.streams.entry(&entry, sink)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Passes on all unfinished frames.
    pub(super) fn finish(&mut self, sink: &mut dyn Sink) -> Result<(), Error> {
        self.streams.finish(sink)
    }
}

pub(super) fn event(channel: &Channel, note: Note, time: Option<Duration>) -> Entry {
    Entry::Event(Event { channel: channel.clone(), note, marks: Marks::at(time) })
}

/// Returns the header of a transcript that begins at the time `started`, as the file wrote it.
pub(super) fn header(started: Option<(&[u8], bool)>) -> Entry {
    let Some((started, has_zone)) = started else {
        return Entry::Header(Header { version: VERSION, facts: Vec::new() });
    };
    let mut started = started.to_vec();
    if let Some(separator) = started.get_mut(10) {
        *separator = b'T';
    }
    let key = if has_zone { "started" } else { "started-local" };
    let fact = Word::new(key).map(|key| (key, started));
    Entry::Header(Header { version: VERSION, facts: fact.into_iter().collect() })
}

/// Marks bytes as the beginning of a longer line.
pub(super) fn mark_cut(bytes: &mut Bytes, length: u64) {
    bytes.marks.truncated = Some(barewire_proto::transcript::Truncated { length, sha256: "0".repeat(64) });
}
