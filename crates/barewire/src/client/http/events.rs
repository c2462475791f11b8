//! Reads the events of a response, and keeps the position to resume from if the stream breaks off.

use std::time::Duration;

use barewire_proto::frame::{Codec, FrameError, Sse};
use bytes::{Buf, Bytes};

use super::fetch::{FetchError, FetchResponse};

/// A stream of events that is being read.
pub(super) struct EventStream {
    pub(super) response: FetchResponse,
    sse: Sse,
    chunk: Bytes,
    /// Whether an event has been received.
    received: bool,
}

pub(super) struct SseEvent {
    pub(super) name: String,
    pub(super) data: Bytes,
}

/// The position at which a stream broke off, and the pause before it is resumed.
#[derive(Debug, Clone, Default)]
pub(super) struct ResumePoint {
    /// The id of the last event; empty if no event had an id.
    pub(super) id: String,
    retry: Option<Duration>,
    /// The number of consecutive attempts in which nothing was received.
    failures: u32,
}

impl EventStream {
    pub(super) fn new(response: FetchResponse, limit: usize) -> Self {
        Self { response, sse: Sse::new(limit), chunk: Bytes::new(), received: false }
    }

    /// Waits for the next event and returns it; `None` at the end of the stream. For an event that is too long, returns
    /// a `FrameError`, and the next call continues after that event.
    pub(super) async fn next(&mut self) -> Result<Option<Result<SseEvent, FrameError>>, FetchError> {
        loop {
            let mut input = &self.chunk[..];
            let before = input.len();
            let event = self.sse.next_frame(&mut input).map(|frame| {
                frame.map(|frame| SseEvent {
                    name: frame.event.map_or(MESSAGE_EVENT, |event| event.name).to_owned(),
                    data: Bytes::copy_from_slice(frame.bytes),
                })
            });
            let taken = before - input.len();
            self.chunk.advance(taken);
            if let Some(event) = event {
                self.received = true;
                return Ok(Some(event));
            }
            match self.response.chunk().await? {
                Some(chunk) => self.chunk = chunk,
                None => return Ok(None),
            }
        }
    }

    /// Stores in `point` the position at which the stream ended.
    pub(super) fn save_position(&self, point: &mut ResumePoint) {
        let received = self.received || !self.sse.last_event_id().is_empty() || self.sse.retry().is_some();
        if !self.sse.last_event_id().is_empty() {
            self.sse.last_event_id().clone_into(&mut point.id);
        }
        point.retry = self.sse.retry().or(point.retry);
        point.failures = if received { 0 } else { point.failures.saturating_add(1) };
    }
}

impl SseEvent {
    /// Whether the event holds a message. An event with empty data only sets the last event id.
    pub(super) fn is_message(&self) -> bool {
        self.name == MESSAGE_EVENT && !self.data.is_empty()
    }
}

impl ResumePoint {
    /// Counts an attempt in which nothing was received.
    pub(super) fn record_failure(&mut self) {
        self.failures = self.failures.saturating_add(1);
    }

    /// Whether another attempt is made for a call that waits.
    pub(super) fn may_try_again(&self) -> bool {
        self.failures < MAX_RESUME_FAILURES
    }

    /// Returns the pause before the stream is resumed: the server's `retry` value, or more after several consecutive
    /// attempts in which nothing was received.
    pub(super) fn pause(&self) -> Duration {
        let requested = self.retry.unwrap_or(DEFAULT_RETRY).max(MIN_RETRY);
        match self.failures {
            0 => requested,
            failures => requested.max(DEFAULT_RETRY.saturating_mul(1 << (failures - 1).min(8)).min(MAX_RETRY)),
        }
    }
}

/// The number of consecutive failed attempts to resume a stream after which the call fails. With the pauses between
/// them, these attempts take about a minute.
const MAX_RESUME_FAILURES: u32 = 6;

/// The name of an event that holds a message.
const MESSAGE_EVENT: &str = "message";

/// The pause before a stream is resumed, if the server sends no `retry` value.
const DEFAULT_RETRY: Duration = Duration::from_secs(1);

/// The minimum pause before a stream is resumed. Even for `retry: 0` the client must not reconnect in a tight loop.
const MIN_RETRY: Duration = Duration::from_millis(10);

/// The maximum pause after failures, because a user might be waiting. A longer `retry` value of the server is used.
const MAX_RETRY: Duration = Duration::from_secs(30);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_follow_retry_and_grow_with_failures_and_attempts_end() {
        let mut point = ResumePoint::default();
        assert_eq!(point.pause(), DEFAULT_RETRY);
        point.retry = Some(Duration::from_millis(500));
        assert_eq!(point.pause(), Duration::from_millis(500));
        let pauses: Vec<u64> = (0..7)
            .map(|_| {
                point.record_failure();
                point.pause().as_secs()
            })
            .collect();
        assert_eq!(pauses, [1, 2, 4, 8, 16, 30, 30]);
        let mut point = ResumePoint::default();
        let failures = std::iter::repeat_with(|| point.may_try_again().then(|| point.record_failure()));
        assert_eq!(failures.take_while(Option::is_some).count() + 1, 7, "attempts for a call");
        point.retry = Some(Duration::ZERO);
        point.failures = 0;
        assert_eq!(point.pause(), MIN_RETRY);
        point.retry = Some(Duration::from_secs(120));
        point.failures = 40;
        assert_eq!(point.pause(), Duration::from_secs(120));
    }
}
