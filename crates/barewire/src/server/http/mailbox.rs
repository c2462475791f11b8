//! The messages of one HTTP response of a legacy session, queued for the task that writes the response.
//!
//! ```text
//! pending ── the response is the first message ──▶ one JSON body
//!    │
//!    └── any other message is first ──▶ streaming ──▶ events, each with an id and stored, until the response
//!                                         │   ▲
//!                              disconnect ▼   │ GET with Last-Event-ID
//!                                       no reader
//! ```

use std::collections::VecDeque;
use std::sync::{Arc, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use barewire_proto::http::EventId;
use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::EventStore;
use super::sender::ExchangeGuard;
use crate::peer::{MessageKind, Permits};
use crate::sync::atomic::{AtomicUsize, Ordering};
use crate::sync::{Mutex, MutexGuard};

/// A message that is queued for the response.
pub(super) struct MailboxMessage {
    pub(super) id: EventId,
    pub(super) message: Bytes,
    pub(super) sent: MessageKind,
    permits: Option<Permits>,
}

impl MailboxMessage {
    /// Returns a message of a stream that another node of the cluster sends here.
    pub(super) fn from_elsewhere(id: EventId, message: Bytes) -> Self {
        Self { id, message, sent: MessageKind::Notification, permits: None }
    }
}

/// The queue of messages of one HTTP response.
pub(super) struct Mailbox {
    pub(super) stream: u64,
    /// Whether this is the mailbox for messages that belong to no request.
    is_unsolicited: bool,
    /// The ids of the requests that the response answers, as a JSON array; empty if the server is not in a cluster.
    requests: Bytes,
    shared: MailboxShared,
    state: Mutex<MailboxState>,
}

/// The parts that all mailboxes of a session share.
#[derive(Clone)]
pub(super) struct MailboxShared {
    pub(super) session: Arc<str>,
    pub(super) events: Arc<dyn EventStore>,
    /// The number of bytes that are queued in all mailboxes of the session.
    pub(super) waiting: Arc<AtomicUsize>,
}

/// How far the stream for messages that belong to no request has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct StreamPosition {
    pub(super) stream: u64,
    /// The sequence number of the last message.
    pub(super) last: u64,
    /// The sequence number of the last message that a reader has taken, or that was dropped.
    pub(super) taken: u64,
}

/// Where the stream for messages that belong to no request begins, or goes on.
pub(super) struct UnsolicitedStart {
    pub(super) stream: u64,
    pub(super) last: u64,
    /// The last messages, which the client has not read.
    pub(super) unread: Vec<(EventId, Bytes)>,
}

impl UnsolicitedStart {
    /// Returns the start of a new stream.
    pub(super) fn of_new(stream: u64) -> Self {
        Self { stream, last: 0, unread: Vec::new() }
    }
}

#[derive(Default)]
struct MailboxState {
    waiting: VecDeque<MailboxMessage>,
    phase: ResponsePhase,
    /// The sequence number of the last message that was added.
    last: u64,
    /// Whether the priming event has been sent: an empty event whose id the client can resume from before it gets a
    /// message.
    is_primed: bool,
    /// Whether the mailbox is finished: no more messages will be added.
    is_finished: bool,
    /// The number of the current reader (the connection that gets the messages), if there is one. A new reader replaces
    /// it.
    reader: Option<u64>,
    last_reader: u64,
    /// If set, the connection must be closed, and the client is asked to reconnect after this time.
    hang_up: Option<Duration>,
    waker: Option<Waker>,
    /// Makes the mailbox count as a running request until it is finished.
    guard: Option<ExchangeGuard>,
}

impl MailboxState {
    fn last_taken(&self) -> u64 {
        self.waiting.front().map_or(self.last, |queued| queued.id.sequence - 1)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum ResponsePhase {
    /// The HTTP response has not started: not even its status has been sent.
    #[default]
    Pending,
    /// The response is a stream of events.
    Streaming,
    /// The response was one JSON body, or the client disconnected before the response started.
    Gone,
}

/// The form of a response.
pub(super) enum ResponseStart {
    /// One JSON body.
    Answer(MailboxMessage),
    /// A stream of events, read by the reader with this number.
    Stream(u64),
}

/// The next part of a stream.
pub(super) enum StreamItem {
    Messages(Vec<MailboxMessage>),
    /// The connection must be closed. The client is asked to reconnect after this time.
    HangUp(Duration),
    End,
}

/// The reader of a stream: the connection that gets the messages of a mailbox, until another one replaces it.
pub(super) struct StreamReader {
    mailbox: Arc<Mailbox>,
    number: u64,
}

impl StreamReader {
    /// Attaches a new reader to a mailbox. It replaces the one that reads it now.
    pub(super) fn open(mailbox: Arc<Mailbox>) -> Self {
        let number = mailbox.open_stream();
        Self::attached(mailbox, number)
    }

    /// Makes the number of a reader that was attached to this mailbox a value that detaches it when it is dropped.
    pub(super) fn attached(mailbox: Arc<Mailbox>, number: u64) -> Self {
        Self { mailbox, number }
    }

    /// Waits for the next part of the stream. Returns `End` if this reader was replaced.
    pub(super) fn poll_next(&self, context: &mut Context<'_>) -> Poll<StreamItem> {
        self.mailbox.poll_next(self.number, context)
    }
}

impl Drop for StreamReader {
    fn drop(&mut self) {
        self.mailbox.detach_reader(Some(self.number));
    }
}

impl Mailbox {
    pub(super) fn new(stream: u64, requests: Bytes, shared: MailboxShared, guard: Option<ExchangeGuard>) -> Arc<Self> {
        let state = Mutex::new(MailboxState { guard, ..MailboxState::default() });
        Arc::new(Self { stream, is_unsolicited: false, requests, shared, state })
    }

    pub(super) fn unsolicited(start: UnsolicitedStart, shared: MailboxShared) -> Arc<Self> {
        let UnsolicitedStart { stream, last, unread } = start;
        let waiting: VecDeque<_> = unread.into_iter().map(|(id, it)| MailboxMessage::from_elsewhere(id, it)).collect();
        shared.waiting.fetch_add(waiting.iter().map(|queued| queued.message.len()).sum(), Ordering::Relaxed);
        let phase = ResponsePhase::Streaming;
        let state = Mutex::new(MailboxState { phase, last, waiting, ..MailboxState::default() });
        Arc::new(Self { stream, is_unsolicited: true, requests: Bytes::new(), shared, state })
    }

    fn lock(&self) -> MutexGuard<'_, MailboxState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the client can still get messages that are added now.
    pub(super) fn is_reachable(&self) -> bool {
        self.lock().phase != ResponsePhase::Gone
    }

    pub(super) fn push(&self, message: Bytes, sent: MessageKind) {
        let mut state = self.lock();
        state.last += 1;
        let id = EventId { stream: self.stream, sequence: state.last };
        if sent.is_answer() {
            (state.is_finished, state.guard) = (true, None);
        }
        if state.phase == ResponsePhase::Streaming {
            self.shared.events.keep(&self.shared.session, id, message.clone());
        }
        let is_read = state.reader.is_some() || state.phase == ResponsePhase::Pending;
        if is_read || self.is_unsolicited {
            self.shared.waiting.fetch_add(message.len(), Ordering::Relaxed);
            state.waiting.push_back(MailboxMessage { id, message, sent, permits: None });
        }
        if !is_read {
            self.drop_oldest_unread(&mut state);
        }
        wake(state);
    }

    /// Drops the oldest messages while the queue exceeds the limits for messages without a reader.
    fn drop_oldest_unread(&self, state: &mut MailboxState) {
        let mut bytes: usize = state.waiting.iter().map(|queued| queued.message.len()).sum();
        while state.waiting.len() > MAX_UNREAD_MESSAGES || (bytes > MAX_UNREAD_BYTES && state.waiting.len() > 1) {
            let Some(queued) = state.waiting.pop_front() else { break };
            bytes -= queued.message.len();
            self.shared.waiting.fetch_sub(queued.message.len(), Ordering::Relaxed);
        }
    }

    /// Attaches permits to the last message that was added. They are released when that message has been written.
    pub(super) fn attach_permits(&self, permits: Permits) {
        let mut state = self.lock();
        if (state.reader.is_some() || state.phase == ResponsePhase::Pending)
            && let Some(queued) = state.waiting.back_mut()
        {
            queued.permits = Some(permits);
        }
    }

    /// Marks the mailbox as finished: no more messages will be added.
    pub(super) fn finish(&self) {
        let mut state = self.lock();
        (state.is_finished, state.guard) = (true, None);
        wake(state);
    }

    /// Marks the mailbox as finished without a response.
    pub(super) fn end_without_answer(&self) {
        {
            let state = self.lock();
            if state.phase == ResponsePhase::Streaming {
                let end = EventId { stream: self.stream, sequence: state.last + 1 };
                self.shared.events.end(&self.shared.session, end);
            }
        }
        self.finish();
    }

    /// Closes the client's connection, if there is one, after all queued messages are written.
    pub(super) fn hang_up(&self, retry: Duration) {
        let mut state = self.lock();
        state.hang_up = Some(retry);
        wake(state);
    }

    /// Waits until it is known whether the response is one JSON body or a stream.
    pub(super) fn poll_start(&self, context: &mut Context<'_>) -> Poll<ResponseStart> {
        let mut state = self.lock();
        match state.waiting.front() {
            Some(queued) if queued.sent.is_answer() && state.hang_up.is_none() => {
                let queued = state.waiting.pop_front().expect("`front` returned a message");
                state.phase = ResponsePhase::Gone;
                self.shared.waiting.fetch_sub(queued.message.len(), Ordering::Relaxed);
                Poll::Ready(ResponseStart::Answer(queued))
            }
            None if !state.is_finished && state.hang_up.is_none() => {
                state.waker = Some(context.waker().clone());
                Poll::Pending
            }
            _ => Poll::Ready(ResponseStart::Stream(self.start_stream(&mut state))),
        }
    }

    /// Makes the response a stream, and returns the number of its new reader.
    pub(super) fn open_stream(&self) -> u64 {
        self.start_stream(&mut self.lock())
    }

    fn start_stream(&self, state: &mut MailboxState) -> u64 {
        if state.phase != ResponsePhase::Streaming {
            state.phase = ResponsePhase::Streaming;
            // Event 0 is stored for a client that got no other event: such a client resumes after event 0.
            let first = EventId { stream: self.stream, sequence: 0 };
            self.shared.events.keep(&self.shared.session, first, self.requests.clone());
            for queued in &state.waiting {
                self.shared.events.keep(&self.shared.session, queued.id, queued.message.clone());
            }
        }
        state.last_reader += 1;
        state.reader = Some(state.last_reader);
        state.hang_up = state.hang_up.filter(|_| state.last_reader == 1);
        if let Some(waker) = state.waker.take() {
            // Wakes the previous reader, so that it notices that it was replaced.
            waker.wake();
        }
        state.last_reader
    }

    /// Returns the id of the priming event on the first call. Returns `None` on later calls, if a message has already
    /// been taken, and if there will be none.
    pub(super) fn take_priming_id(&self) -> Option<EventId> {
        let mut state = self.lock();
        // Nothing follows in a stream that has ended without a message.
        let is_empty = state.is_finished && state.last == 0;
        let is_first = state.last_taken() == 0 && !is_empty && !std::mem::replace(&mut state.is_primed, true);
        is_first.then_some(EventId { stream: self.stream, sequence: 0 })
    }

    /// Whether the response is a stream.
    pub(super) fn is_stream(&self) -> bool {
        self.lock().phase == ResponsePhase::Streaming
    }

    /// Returns the sequence number of the last message that is no longer in the queue: a reader took it, or it was
    /// dropped.
    pub(super) fn last_taken(&self) -> u64 {
        self.lock().last_taken()
    }

    /// Returns how far the stream has come.
    pub(super) fn position(&self) -> StreamPosition {
        self.position_in(&self.lock())
    }

    fn position_in(&self, state: &MailboxState) -> StreamPosition {
        StreamPosition { stream: self.stream, last: state.last, taken: state.last_taken() }
    }

    /// Ends the mailbox, so that nothing that is added later is stored. Returns `false`, and does nothing, if the
    /// stream is not at this position any more.
    pub(super) fn close_at(&self, position: StreamPosition) -> bool {
        let mut state = self.lock();
        let is_same = state.reader.is_none() && self.position_in(&state) == position;
        if is_same {
            state.phase = ResponsePhase::Gone;
        }
        is_same
    }

    /// Waits for the next part of the stream. Returns `End` to a reader that was replaced.
    fn poll_next(&self, reader: u64, context: &mut Context<'_>) -> Poll<StreamItem> {
        let mut state = self.lock();
        if state.reader != Some(reader) {
            return Poll::Ready(StreamItem::End);
        }
        if !state.waiting.is_empty() {
            let messages: Vec<MailboxMessage> = state.waiting.drain(..).collect();
            let bytes = messages.iter().map(|queued| queued.message.len()).sum();
            self.shared.waiting.fetch_sub(bytes, Ordering::Relaxed);
            return Poll::Ready(StreamItem::Messages(messages));
        }
        if let Some(retry) = state.hang_up.take() {
            return Poll::Ready(StreamItem::HangUp(retry));
        }
        if state.is_finished {
            return Poll::Ready(StreamItem::End);
        }
        state.waker = Some(context.waker().clone());
        Poll::Pending
    }

    /// Removes the reader, unless another reader has replaced it. Drops the queued messages, which a client that
    /// resumes gets from the event store. Only the GET stream keeps its queued messages.
    pub(super) fn detach_reader(&self, reader: Option<u64>) {
        let mut state = self.lock();
        if state.reader != reader {
            return;
        }
        state.reader = None;
        state.waker = None;
        if state.phase == ResponsePhase::Pending {
            state.phase = ResponsePhase::Gone;
        }
        if self.is_unsolicited {
            state.waiting.iter_mut().for_each(|queued| queued.permits = None);
            self.drop_oldest_unread(&mut state);
        } else {
            let bytes = state.waiting.drain(..).map(|queued| queued.message.len()).sum();
            self.shared.waiting.fetch_sub(bytes, Ordering::Relaxed);
        }
    }
}

fn wake(mut state: MutexGuard<'_, MailboxState>) {
    let waker = state.waker.take();
    drop(state);
    if let Some(waker) = waker {
        waker.wake();
    }
}

/// The number of the stream for messages that belong to no request, if the server is not in a cluster.
pub(super) const UNSOLICITED: u64 = 0;

/// The maximum number and total bytes of the messages that are queued until the client opens a stream with GET.
const MAX_UNREAD_MESSAGES: usize = 256;
const MAX_UNREAD_BYTES: usize = 64 * 1024;

#[cfg(all(test, not(barewire_loom)))]
mod tests {
    use super::*;
    use crate::server::http::events::MemoryEvents;

    #[test]
    fn messages_without_a_reader_are_limited() {
        let waiting = Arc::new(AtomicUsize::new(0));
        let shared = MailboxShared { session: "s".into(), events: Arc::new(MemoryEvents::default()), waiting };
        let mailbox = Mailbox::unsolicited(UnsolicitedStart::of_new(UNSOLICITED), shared);
        let push = |length: usize| mailbox.push(vec![b'x'; length].into(), MessageKind::Notification);
        let queued = || mailbox.lock().waiting.iter().map(|queued| queued.id.sequence).collect::<Vec<_>>();
        for _ in 0..300 {
            push(10);
        }
        assert_eq!(queued(), (45..=300).collect::<Vec<_>>(), "the last 256");
        for _ in 0..100 {
            push(1024);
        }
        assert_eq!(queued(), (337..=400).collect::<Vec<_>>(), "the last 64 KiB");
        assert_eq!(mailbox.shared.waiting.load(Ordering::Relaxed), 64 * 1024);
        push(1024 * 1024);
        assert_eq!(queued(), [401], "the last one, however long it is");
    }
}
