//! What a connection may hold, and how long it waits.

use std::time::Duration;

use barewire_proto::frame::DEFAULT_LIMIT;
use barewire_proto::rpc::DEFAULT_DEPTH;
use barewire_proto::session::SessionLimits;

/// Every bound of a connection. `docs/limits.md` has the reasons for the numbers.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ConnectionLimits {
    /// Bytes of a frame.
    pub frame: usize,
    /// Levels of nesting.
    pub depth: usize,
    /// Elements of a batch; `None` where batches are not allowed at all.
    pub batch: Option<usize>,
    /// Requests of theirs in flight.
    pub requests: usize,
    /// Bytes of requests in flight, together.
    pub request_bytes: usize,
    /// Bytes that may wait to be written before nothing new is begun. Half of it is for what we send by ourselves, so that
    /// our calls never take what is reserved for answers.
    pub output: usize,
    /// How long the other side may take no byte of what we write.
    pub write_timeout: Option<Duration>,
    /// How long the other side may be silent while nothing is in flight.
    pub idle_timeout: Option<Duration>,
}

impl Default for ConnectionLimits {
    fn default() -> Self {
        let session = SessionLimits::default();
        Self {
            frame: DEFAULT_LIMIT,
            depth: DEFAULT_DEPTH,
            batch: Some(1000),
            requests: session.requests,
            request_bytes: session.bytes,
            output: 2 * 1024 * 1024,
            write_timeout: Some(Duration::from_secs(30)),
            idle_timeout: None,
        }
    }
}

impl ConnectionLimits {
    /// With room for one of each: with less nothing would ever move.
    pub(super) fn with_room(mut self) -> Self {
        (self.requests, self.output) = (self.requests.max(1), self.output.max(1));
        self
    }

    pub(super) fn session(&self) -> SessionLimits {
        SessionLimits::default().requests(self.requests).bytes(self.request_bytes).parked(self.output)
    }

    /// What of the output is for what we send by ourselves.
    pub(super) fn own_share(&self) -> usize {
        (self.output / 2).clamp(1, MOST_PERMITS)
    }

    /// Beyond this not even refusals are written: nothing is read any more.
    pub(super) fn hard(&self) -> usize {
        self.output.saturating_mul(4)
    }
}

/// As many as tokio's semaphore can count in one request.
const MOST_PERMITS: usize = u32::MAX as usize >> 3;
