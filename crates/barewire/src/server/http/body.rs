//! The body of a response: empty, one message, or a stream of events.

use std::convert::Infallible;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use barewire_proto::frame;
use barewire_proto::http::EventId;
use bytes::Bytes;
use http_body::{Frame, SizeHint};
use tokio::time::{Instant, Sleep};

use super::metrics::StreamMeasure;
use super::session_events::SessionEvents;
use super::standalone::StandaloneEvents;
use crate::peer::later;

/// The body of a response.
pub struct Body {
    kind: BodyKind,
    /// The measurement of a stream of events, if the server has metrics. Boxed, because most bodies are no streams, and
    /// a response is moved several times.
    measure: Option<Box<StreamMeasure>>,
}

enum BodyKind {
    Whole(Option<Bytes>),
    Standalone(Box<StandaloneEvents>),
    Session(Box<SessionEvents>),
}

impl Body {
    pub(super) fn empty() -> Self {
        Self::from(BodyKind::Whole(None))
    }

    pub(super) fn whole(bytes: Bytes) -> Self {
        Self::from(BodyKind::Whole(Some(bytes).filter(|bytes| !bytes.is_empty())))
    }

    pub(super) fn standalone(events: Box<StandaloneEvents>) -> Self {
        Self::from(BodyKind::Standalone(events))
    }

    pub(super) fn session(events: SessionEvents) -> Self {
        Self::from(BodyKind::Session(Box::new(events)))
    }

    pub(super) fn is_stream(&self) -> bool {
        !matches!(self.kind, BodyKind::Whole(_))
    }

    /// Makes the stream count as open until the body is dropped.
    pub(super) fn measured(&mut self, measure: Option<StreamMeasure>) {
        self.measure = measure.map(Box::new);
    }
}

impl From<BodyKind> for Body {
    fn from(kind: BodyKind) -> Self {
        Self { kind, measure: None }
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let Self { kind, measure } = &mut *self;
        let (bytes, answer) = match kind {
            BodyKind::Whole(bytes) => (Poll::Ready(bytes.take()), None),
            BodyKind::Standalone(events) => (events.poll(context), events.answer()),
            BodyKind::Session(events) => (events.poll(context), events.answer()),
        };
        if let (Poll::Ready(None), Some(measure)) = (&bytes, measure) {
            measure.end(answer);
        }
        bytes.map(|bytes| bytes.map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        matches!(self.kind, BodyKind::Whole(None))
    }

    fn size_hint(&self) -> SizeHint {
        match &self.kind {
            BodyKind::Whole(bytes) => {
                SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| u64::try_from(bytes.len()).unwrap_or(u64::MAX)))
            }
            _ => SizeHint::default(),
        }
    }
}

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Body")
    }
}

/// Appends a message to `out` as a server-sent event. A message is one line of JSON, so this cannot fail.
pub(super) fn event(out: &mut Vec<u8>, id: Option<EventId>, message: &[u8]) {
    let id = id.map(|id| id.to_string());
    let message = std::str::from_utf8(message).expect("messages are JSON");
    frame::sse_event(out, None, id.as_deref(), message).expect("messages are on one line");
}

/// A timer for keep-alive comments. A comment is sent when a stream has been silent for a while, so that no proxy
/// closes the connection as idle.
pub(super) struct KeepAlive {
    every: Duration,
    timer: Pin<Box<Sleep>>,
}

impl KeepAlive {
    pub(super) fn new(every: Duration) -> Self {
        Self { every, timer: Box::pin(tokio::time::sleep_until(later(Instant::now(), every))) }
    }

    /// Restarts the timer. Called after something was sent.
    pub(super) fn reset(&mut self) {
        self.timer.as_mut().reset(later(Instant::now(), self.every));
    }

    /// Returns a comment when the timer expires.
    pub(super) fn poll(&mut self, context: &mut Context<'_>) -> Poll<Bytes> {
        std::task::ready!(self.timer.as_mut().poll(context));
        self.reset();
        // The restarted timer must be polled once, so that it wakes this task.
        let _ = self.timer.as_mut().poll(context);
        Poll::Ready(Bytes::from_static(b": keep-alive\n\n"))
    }
}
