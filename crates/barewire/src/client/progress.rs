//! Passes the progress notifications of a call to a callback or a stream.

use std::sync::{Arc, Mutex, PoisonError};

use barewire_proto::mcp::ProgressParams;

use super::ring::{Ring, RingRead, RingReader};
use super::small::parse_small_raw;
use crate::peer::Raw;

/// A stream of the progress updates of a call. See [`Request::with_progress`](super::Request::with_progress).
pub struct ProgressUpdates(RingReader<ProgressParams>);

impl ProgressUpdates {
    /// Waits for the next update and returns it; `None` after the call has ended. If the reader is too slow, the oldest
    /// updates are dropped.
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

/// The receiver of a call's progress updates. All rounds of the call share one receiver.
#[derive(Clone)]
pub(super) struct ProgressSink(Arc<Mutex<dyn FnMut(ProgressParams) + Send>>);

impl ProgressSink {
    pub(super) fn new(handle: impl FnMut(ProgressParams) + Send + 'static) -> Self {
        Self(Arc::new(Mutex::new(handle)))
    }

    /// Returns a sink, and a stream of the updates that are reported to the sink.
    pub(super) fn channel() -> (Self, ProgressUpdates) {
        let ring = Ring::new(PROGRESS_BUFFER, PROGRESS_BUFFER_BYTES);
        let reader = ring.reader();
        let push = move |progress: ProgressParams| {
            let bytes = progress.message.as_ref().map_or(0, String::len) + size_of::<ProgressParams>();
            ring.push(progress, bytes);
        };
        (Self::new(push), ProgressUpdates(reader))
    }

    /// Passes the params of a progress notification to the receiver. Params that cannot be parsed are ignored.
    pub(super) fn report(&self, progress: &Raw) {
        if let Ok(progress) = parse_small_raw(progress) {
            self.0.lock().unwrap_or_else(PoisonError::into_inner)(progress);
        }
    }
}

/// The maximum number of updates that are stored for a reader. A reader that is so slow only needs the newest updates.
const PROGRESS_BUFFER: usize = 64;

/// The maximum number of bytes that are stored for a reader.
const PROGRESS_BUFFER_BYTES: usize = 64 * 1024;
