//! A capture or live traffic -> an index: every frame, event, operation, conversation and finding, found without reading
//! all of it again.
//!
//! An [`IndexWriter`] is an [`Observer`](crate::pipeline::Observer), so files and live bytes are indexed by the pipeline
//! that everything else uses. It writes a record of fixed size for each frame, and the text of the frame, without
//! secrets, to a private file. Requests read the index while it grows; a lock is held only to append or copy records,
//! never to read a file or to parse.

mod candidate;
mod chunks;
mod conversations;
mod data;
mod exported;
mod findings;
mod heads;
mod lanes;
mod names;
mod observe;
mod read;
mod record;
mod selection;
mod spool;
#[cfg(test)]
pub(crate) mod tests;
mod wire_entries;
mod writer;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

pub(crate) use candidate::Candidate;
pub(crate) use data::IndexData;
pub(crate) use findings::KeptFinding;
pub(crate) use observe::observe_selection;
pub(crate) use record::{EntryKind, EntryRecord, Flags, OperationRecord, OperationState, RowOutcome, Time};
use selection::SelectionCache;
pub(crate) use selection::{Expanded, SelectionQuery};
pub(crate) use spool::Span;
use spool::Spool;
pub(crate) use wire_entries::wire_entries;

pub use observe::observe;
pub use read::read_file;
pub use writer::IndexWriter;

/// An index, which may still grow.
pub struct IndexedCapture {
    data: RwLock<IndexData>,
    spool: Spool,
    selections: SelectionCache,
    /// Whether nothing is added any more.
    is_complete: AtomicBool,
    /// Set to stop the reader.
    is_stopped: AtomicBool,
}

impl IndexedCapture {
    /// Creates an empty index.
    pub fn new() -> Self {
        Self {
            data: RwLock::default(),
            spool: Spool::create(),
            selections: SelectionCache::default(),
            is_complete: AtomicBool::new(false),
            is_stopped: AtomicBool::new(false),
        }
    }

    /// Returns the number of frames so far.
    pub fn frames(&self) -> u64 {
        self.data().totals.frames
    }

    /// Returns the text of a frame without its secrets; `None` if there is no such frame or if its text was not kept.
    pub fn frame_text(&self, number: u64) -> Option<Vec<u8>> {
        let text = {
            let data = self.data();
            data.entries[data.frame(number)? as usize].text
        };
        text.is_kept().then(|| self.spool.whole(text))
    }

    /// Whether frames have directions and times: a plain stream has neither.
    pub fn is_timed(&self) -> bool {
        self.data().totals.is_timed
    }

    /// Whether nothing is added any more.
    pub fn is_complete(&self) -> bool {
        self.is_complete.load(Ordering::Acquire)
    }

    /// Asks the reader to stop.
    pub fn stop(&self) {
        self.is_stopped.store(true, Ordering::Release);
    }

    /// Returns why the index does not have everything that was read, if so.
    pub fn shortage(&self) -> Option<String> {
        let is_full = self.data().totals.is_full;
        self.failure().or_else(|| is_full.then(|| "there is no room for more frames".to_owned()))
    }

    /// Returns why texts are not kept any more.
    pub(crate) fn failure(&self) -> Option<String> {
        self.spool.failure()
    }

    pub(crate) fn spool(&self) -> &Spool {
        &self.spool
    }

    pub(crate) fn data(&self) -> RwLockReadGuard<'_, IndexData> {
        self.data.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn data_mut(&self) -> RwLockWriteGuard<'_, IndexData> {
        self.data.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_stopped(&self) -> bool {
        self.is_stopped.load(Ordering::Acquire)
    }

    fn complete(&self) {
        self.is_complete.store(true, Ordering::Release);
    }
}

impl Default for IndexedCapture {
    fn default() -> Self {
        Self::new()
    }
}
