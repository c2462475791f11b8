//! How far a call has come -> a stream of it, for who would rather read than be called.

use std::sync::{Arc, Mutex, PoisonError};

use barewire_proto::mcp::ProgressParams;

use super::ring::{Ring, RingRead, RingReader};
use crate::peer::Raw;

/// The progress of a call. See [`Request::with_progress`](super::Request::with_progress).
pub struct ProgressUpdates(RingReader<ProgressParams>);

impl ProgressUpdates {
    /// How far it has come by now; `None` once the call is over. Who reads too slowly misses older reports: the newer ones
    /// say more.
    pub async fn next(&mut self) -> Option<ProgressParams> {
        loop {
            match self.0.next().await? {
                RingRead::Next(progress) => return Some(progress),
                RingRead::Missed(_) => {}
            }
        }
    }
}

impl std::fmt::Debug for ProgressUpdates {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ProgressUpdates")
    }
}

/// Who is told how far a call has come. The same for all rounds of it.
#[derive(Clone)]
pub(super) struct ProgressSink(Arc<Mutex<dyn FnMut(ProgressParams) + Send>>);

impl ProgressSink {
    pub(super) fn new(handle: impl FnMut(ProgressParams) + Send + 'static) -> Self {
        Self(Arc::new(Mutex::new(handle)))
    }

    /// Somebody who reads.
    pub(super) fn channel() -> (Self, ProgressUpdates) {
        let ring = Ring::new(PROGRESS_BUFFER, PROGRESS_BUFFER_BYTES);
        let reader = ring.reader();
        let push = move |progress: ProgressParams| {
            let bytes = progress.message.as_ref().map_or(0, String::len) + size_of::<ProgressParams>();
            ring.push(progress, bytes);
        };
        (Self::new(push), ProgressUpdates(reader))
    }

    /// What came in a notification. What cannot be read tells nothing.
    pub(super) fn report(&self, progress: &Raw) {
        if let Ok(progress) = progress.to() {
            self.0.lock().unwrap_or_else(PoisonError::into_inner)(progress);
        }
    }
}

/// So many reports wait for a reader. Nobody draws a bar more often before they are outdated.
const PROGRESS_BUFFER: usize = 64;

/// And so many bytes of them.
const PROGRESS_BUFFER_BYTES: usize = 64 * 1024;
