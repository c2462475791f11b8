//! The body of an answer -> the messages in its events, and where to go on when it breaks off.

use std::time::Duration;

use barewire_proto::frame::{Codec, FrameError, Sse};
use bytes::{Buf, Bytes};

use super::fetch::{FetchError, Response};

/// A stream of events that is being read.
pub(super) struct Events {
    pub(super) response: Response,
    sse: Sse,
    chunk: Bytes,
    /// Something has come.
    heard: bool,
}

/// One event.
pub(super) struct Event {
    pub(super) name: String,
    pub(super) data: Bytes,
}

/// Where a stream broke off, and when to take it up again.
#[derive(Debug, Clone, Default)]
pub(super) struct Place {
    /// The id of the last event; empty if there was none.
    pub(super) id: String,
    retry: Option<Duration>,
    /// How many times in a row nothing came.
    idle: u32,
}

impl Events {
    pub(super) fn new(response: Response, limit: usize) -> Self {
        Self { response, sse: Sse::new(limit), chunk: Bytes::new(), heard: false }
    }

    /// The next event with data; `None` at the end. One that is too long is lost, and the next one follows it.
    pub(super) async fn next(&mut self) -> Result<Option<Result<Event, FrameError>>, FetchError> {
        loop {
            let mut input = &self.chunk[..];
            let before = input.len();
            let event = self.sse.next_frame(&mut input).map(|frame| {
                frame.map(|frame| Event {
                    name: frame.event.map_or(MESSAGE, |event| event.name).to_owned(),
                    data: Bytes::copy_from_slice(frame.bytes),
                })
            });
            let taken = before - input.len();
            self.chunk.advance(taken);
            if let Some(event) = event {
                self.heard = true;
                return Ok(Some(event));
            }
            match self.response.chunk().await? {
                Some(chunk) => self.chunk = chunk,
                None => return Ok(None),
            }
        }
    }

    /// It has ended: this is where it is to be taken up again.
    pub(super) fn leave(&self, place: &mut Place) {
        let heard = self.heard || !self.sse.last_event_id().is_empty() || self.sse.retry().is_some();
        if !self.sse.last_event_id().is_empty() {
            self.sse.last_event_id().clone_into(&mut place.id);
        }
        place.retry = self.sse.retry().or(place.retry);
        place.idle = if heard { 0 } else { place.idle.saturating_add(1) };
    }
}

impl Event {
    /// Whether it holds a message. An event without data is there for its id.
    pub(super) fn is_message(&self) -> bool {
        self.name == MESSAGE && !self.data.is_empty()
    }
}

impl Place {
    /// Nothing came of it.
    pub(super) fn failed(&mut self) {
        self.idle = self.idle.saturating_add(1);
    }

    /// How many times in a row nothing came of it.
    pub(super) fn failures(&self) -> u32 {
        self.idle
    }

    /// How long to wait before the stream is taken up again: as long as the server said. If nothing came of it the last time,
    /// longer each time.
    pub(super) fn pause(&self) -> Duration {
        let asked = self.retry.unwrap_or(RETRY).max(SHORTEST);
        match self.idle {
            0 => asked,
            idle => asked.max(RETRY.saturating_mul(1 << (idle - 1).min(8)).min(LONGEST)),
        }
    }
}

/// The name of an event that holds a message.
const MESSAGE: &str = "message";

/// If the server does not say how long to wait.
const RETRY: Duration = Duration::from_secs(1);

/// A server that says 0 does not want to be asked as fast as we can.
const SHORTEST: Duration = Duration::from_millis(10);

/// Somebody may be waiting.
const LONGEST: Duration = Duration::from_secs(30);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_are_as_asked_and_grow_when_nothing_comes() {
        let mut place = Place::default();
        assert_eq!(place.pause(), RETRY);
        place.retry = Some(Duration::from_millis(500));
        assert_eq!(place.pause(), Duration::from_millis(500));
        let pauses: Vec<u64> = (0..7)
            .map(|_| {
                place.failed();
                place.pause().as_secs()
            })
            .collect();
        assert_eq!(pauses, [1, 2, 4, 8, 16, 30, 30]);
        place.retry = Some(Duration::ZERO);
        place.idle = 0;
        assert_eq!(place.pause(), SHORTEST);
        place.retry = Some(Duration::from_secs(120));
        place.idle = 40;
        assert_eq!(place.pause(), Duration::from_secs(120));
    }
}
