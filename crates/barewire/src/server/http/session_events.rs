//! One stream of a legacy session, as one connection reads it: stored events first, then those that follow, from a
//! mailbox on this node or from another node of the cluster.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::{Context, Poll};

use barewire_proto::frame;
use barewire_proto::http::EventId;
use barewire_proto::mcp::Revision;
use bytes::Bytes;

use super::body::{KeepAlive, event};
use super::cluster::RemoteStream;
use super::endpoint::HttpEndpoint;
use super::mailbox::{Mailbox, StreamItem, StreamReader};
use super::mailboxes::ResumedStream;
use super::sender::ExchangeGuard;
use super::session::{Session, SessionUse};
use crate::peer::MessageKind;

/// The events of one stream of a session, as one connection reads them.
pub(super) struct SessionEvents {
    /// Where further messages come from, if messages can still be added to the stream.
    source: Option<StreamSource>,
    /// Stored events that are sent again before any new event.
    replay: VecDeque<(EventId, Bytes)>,
    /// The last event sent on this connection.
    last: EventId,
    /// The response, after it was sent on this connection.
    answer: Option<MessageKind>,
    /// The bytes that the stream starts with, if they have not been sent yet.
    first: Option<Bytes>,
    /// Whether all events have been sent, so that the connection closes.
    is_finished: bool,
    keep_alive: KeepAlive,
    session_use: SessionUse,
    /// Makes a GET stream count as a running request while it is open.
    _guard: Option<ExchangeGuard>,
}

/// Where the messages of a stream come from.
enum StreamSource {
    /// A mailbox on this node.
    Mailbox(StreamReader),
    /// Another node of the cluster.
    Node(RemoteStream),
}

impl StreamSource {
    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<StreamItem> {
        match self {
            Self::Mailbox(reader) => reader.poll_next(context),
            Self::Node(stream) => stream.poll_next(context),
        }
    }
}

impl SessionEvents {
    /// Starts a stream from its beginning. In revisions with priming events the stream starts with an event that has
    /// only an id, from which the client can resume.
    pub(super) fn begin(
        mailbox: Arc<Mailbox>,
        reader: u64,
        session: &Arc<Session>,
        endpoint: &HttpEndpoint,
        guard: Option<ExchangeGuard>,
    ) -> Self {
        let priming = if has_priming(session) { mailbox.take_priming_id() } else { None };
        let first = first_bytes(session, endpoint, priming);
        let source = StreamSource::Mailbox(StreamReader::attached(mailbox, reader));
        Self::new(Some(source), first, session, endpoint, guard)
    }

    /// Continues a stream after the event `last`.
    pub(super) fn resume(
        resumed: ResumedStream,
        last: EventId,
        session: &Arc<Session>,
        endpoint: &HttpEndpoint,
        guard: Option<ExchangeGuard>,
    ) -> Self {
        let mut events = Self::new(resumed.reader.map(StreamSource::Mailbox), None, session, endpoint, guard);
        (events.last, events.replay) = (last, resumed.replay.into());
        events
    }

    /// Reads a stream of another node of the cluster, from its beginning or after the event `last`.
    pub(super) fn remote(
        stream: RemoteStream,
        priming: Option<EventId>,
        last: Option<EventId>,
        session: &Arc<Session>,
        endpoint: &HttpEndpoint,
        guard: Option<ExchangeGuard>,
    ) -> Self {
        let first = if last.is_none() { first_bytes(session, endpoint, priming) } else { None };
        let mut events = Self::new(Some(StreamSource::Node(stream)), first, session, endpoint, guard);
        events.last = last.unwrap_or(NO_EVENT);
        events
    }

    /// Sends stored events first.
    pub(super) fn after(mut self, stored: Vec<(EventId, Bytes)>) -> Self {
        self.replay = stored.into();
        self
    }

    fn new(
        source: Option<StreamSource>,
        first: Option<Bytes>,
        session: &Arc<Session>,
        endpoint: &HttpEndpoint,
        guard: Option<ExchangeGuard>,
    ) -> Self {
        Self {
            source,
            replay: VecDeque::new(),
            last: NO_EVENT,
            answer: None,
            first,
            is_finished: false,
            keep_alive: KeepAlive::new(endpoint.limits.keep_alive),
            session_use: session.begin_use(),
            _guard: guard,
        }
    }

    /// Returns the response, if the stream has contained it.
    pub(super) fn answer(&self) -> Option<MessageKind> {
        self.answer
    }

    pub(super) fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        if let Some(first) = self.first.take() {
            return Poll::Ready(Some(first));
        }
        if let Some((id, message)) = self.replay.pop_front() {
            self.last = id;
            let mut out = Vec::with_capacity(message.len() + EVENT_FIELDS_BYTES);
            event(&mut out, Some(id), &message);
            return Poll::Ready(Some(out.into()));
        }
        if self.is_finished {
            return Poll::Ready(None);
        }
        let Some(source) = &mut self.source else { return Poll::Ready(None) };
        match source.poll_next(context) {
            Poll::Ready(StreamItem::Messages(messages)) => {
                let mut out = Vec::new();
                for queued in messages {
                    if queued.id.stream == self.last.stream && queued.id.sequence <= self.last.sequence {
                        continue;
                    }
                    self.last = queued.id;
                    self.answer = self.answer.or(Some(queued.sent).filter(|sent| sent.is_answer()));
                    event(&mut out, Some(queued.id), &queued.message);
                }
                self.keep_alive.reset();
                self.session_use.session().has_written();
                if out.is_empty() {
                    context.waker().wake_by_ref();
                    return Poll::Pending;
                }
                Poll::Ready(Some(out.into()))
            }
            Poll::Ready(StreamItem::HangUp(retry)) => {
                self.is_finished = true;
                let mut out = Vec::new();
                frame::sse_retry(&mut out, retry);
                out.push(b'\n');
                Poll::Ready(Some(out.into()))
            }
            Poll::Ready(StreamItem::End) => Poll::Ready(None),
            Poll::Pending => self.keep_alive.poll(context).map(Some),
        }
    }
}

/// Whether streams of the session start with an event that has only an id, from which the client can resume.
fn has_priming(session: &Session) -> bool {
    session.revision().is_some_and(Revision::has_polling)
}

/// Returns the bytes that a stream starts with, if it has any.
fn first_bytes(session: &Session, endpoint: &HttpEndpoint, priming: Option<EventId>) -> Option<Bytes> {
    has_priming(session).then(|| {
        let mut out = Vec::new();
        frame::sse_retry(&mut out, endpoint.limits.retry);
        match priming {
            Some(id) => event(&mut out, Some(id), b""),
            None => out.push(b'\n'),
        }
        out.into()
    })
}

/// The id before the first event of any stream.
const NO_EVENT: EventId = EventId { stream: 0, sequence: 0 };

/// The approximate number of bytes of an event besides its message.
const EVENT_FIELDS_BYTES: usize = 48;
