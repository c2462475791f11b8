//! What a response consists of: nothing, one message, or events.

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

use super::alone::AloneEvents;
use super::session::SessionEvents;
use crate::peer::later;

/// The body of a response.
pub struct Body(Kind);

enum Kind {
    Whole(Option<Bytes>),
    Alone(Box<AloneEvents>),
    Session(Box<SessionEvents>),
}

impl Body {
    pub(super) fn empty() -> Self {
        Self(Kind::Whole(None))
    }

    pub(super) fn whole(bytes: Bytes) -> Self {
        Self(Kind::Whole(Some(bytes).filter(|bytes| !bytes.is_empty())))
    }

    pub(super) fn alone(events: Box<AloneEvents>) -> Self {
        Self(Kind::Alone(events))
    }

    pub(super) fn session(events: SessionEvents) -> Self {
        Self(Kind::Session(Box::new(events)))
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let bytes = match &mut self.0 {
            Kind::Whole(bytes) => Poll::Ready(bytes.take()),
            Kind::Alone(events) => events.poll(context),
            Kind::Session(events) => events.poll(context),
        };
        bytes.map(|bytes| bytes.map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        matches!(self.0, Kind::Whole(None))
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Kind::Whole(bytes) => {
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

/// Appends a message as an event. Messages are on one line, so that nothing can be wrong with it.
pub(super) fn event(out: &mut Vec<u8>, id: Option<EventId>, message: &[u8]) {
    let id = id.map(|id| id.to_string());
    let message = std::str::from_utf8(message).expect("messages are JSON");
    frame::sse_event(out, None, id.as_deref(), message).expect("messages are on one line");
}

/// Says now and then that a quiet connection is still there, so that nobody between us and the client closes it.
pub(super) struct KeepAlive {
    every: Duration,
    timer: Pin<Box<Sleep>>,
}

impl KeepAlive {
    pub(super) fn new(every: Duration) -> Self {
        Self { every, timer: Box::pin(tokio::time::sleep_until(later(Instant::now(), every))) }
    }

    /// Something was sent.
    pub(super) fn reset(&mut self) {
        self.timer.as_mut().reset(later(Instant::now(), self.every));
    }

    /// A comment, when it is time for one.
    pub(super) fn poll(&mut self, context: &mut Context<'_>) -> Poll<Bytes> {
        std::task::ready!(self.timer.as_mut().poll(context));
        self.reset();
        // So that it is polled at that time.
        let _ = self.timer.as_mut().poll(context);
        Poll::Ready(Bytes::from_static(b": keep-alive\n\n"))
    }
}
