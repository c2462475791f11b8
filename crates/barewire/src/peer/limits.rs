//! The limits of a connection: sizes, counts and timeouts.

use std::time::Duration;

use barewire_proto::frame::DEFAULT_LIMIT;
use barewire_proto::rpc::DEFAULT_DEPTH;
use barewire_proto::session::SessionLimits;

/// The limits of a connection. `docs/limits.md` explains the default values.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ConnectionLimits {
    /// The maximum number of bytes in a frame.
    pub frame: usize,
    /// The maximum nesting depth of a message.
    pub depth: usize,
    /// The maximum number of elements in a batch; `None` if batches are not allowed.
    pub batch: Option<usize>,
    /// The maximum number of requests from the peer that are in flight at the same time.
    pub requests: usize,
    /// The maximum total size of the peer's requests in flight, in bytes.
    pub request_bytes: usize,
    /// The number of pending output bytes at which no new work is started. This side's own calls and notifications can
    /// use half of this number; the other half is reserved for answers.
    pub output: usize,
    /// The maximum time that the peer may read nothing while output is pending; `None` for no limit.
    pub write_timeout: Option<Duration>,
    /// The maximum time with nothing in flight and nothing received; `None` for no limit.
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
    /// Raises limits of zero to one. With a limit of zero, no work would ever be started.
    pub(super) fn with_minimums(mut self) -> Self {
        (self.requests, self.output) = (self.requests.max(1), self.output.max(1));
        self
    }

    pub(super) fn session(&self) -> SessionLimits {
        SessionLimits::default().requests(self.requests).bytes(self.request_bytes).parked(self.output)
    }

    /// The maximum number of output bytes that this side's own calls and notifications may use.
    pub(super) fn own_share(&self) -> usize {
        (self.output / 2).clamp(1, MAX_PERMITS)
    }

    /// The number of pending output bytes at which reading stops entirely, so that not even refusals are written.
    pub(super) fn hard_output_limit(&self) -> usize {
        self.output.saturating_mul(4)
    }
}

/// The maximum number of permits. It fits into the `u32` that tokio's `acquire_many` takes, and into a semaphore on
/// 32-bit systems.
const MAX_PERMITS: usize = u32::MAX as usize >> 3;
