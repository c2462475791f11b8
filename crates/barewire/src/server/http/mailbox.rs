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

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use barewire_proto::http::EventId;
use bytes::Bytes;

use super::EventStore;
use super::sender::ExchangeGuard;
use crate::peer::{Exchange, MessageKind, Outlet, Permits, Room};
use crate::sync::atomic::{AtomicUsize, Ordering};
use crate::sync::{Mutex, MutexGuard};

/// A message that is queued for the response.
pub(super) struct MailboxMessage {
    pub(super) id: EventId,
    pub(super) message: Bytes,
    pub(super) sent: MessageKind,
    permits: Option<Permits>,
}

/// The queue of messages of one HTTP response.
pub(super) struct Mailbox {
    stream: u64,
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

/// A stream that another connection continues.
pub(super) struct ResumedStream {
    /// The reader, if messages can still be added to the stream.
    pub(super) reader: Option<StreamReader>,
    /// Stored events to send first. The reader can get the last ones again.
    pub(super) replay: Vec<(EventId, Bytes)>,
}

impl Mailbox {
    fn new(stream: u64, shared: MailboxShared, guard: Option<ExchangeGuard>) -> Arc<Self> {
        let phase = if stream == UNSOLICITED { ResponsePhase::Streaming } else { ResponsePhase::Pending };
        Arc::new(Self { stream, shared, state: Mutex::new(MailboxState { phase, guard, ..MailboxState::default() }) })
    }

    fn lock(&self) -> MutexGuard<'_, MailboxState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the client can still get messages that are added now.
    fn is_reachable(&self) -> bool {
        self.lock().phase != ResponsePhase::Gone
    }

    fn push(&self, message: Bytes, sent: MessageKind) {
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
        if is_read || self.stream == UNSOLICITED {
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
    fn attach_permits(&self, permits: Permits) {
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

    /// Closes the client's connection, if there is one, after all queued messages are written.
    fn hang_up(&self, retry: Duration) {
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
            self.shared.events.keep(&self.shared.session, first, Bytes::new());
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

    /// Returns the id of the priming event on the first call. Returns `None` on later calls, and if a message has
    /// already been taken.
    pub(super) fn take_priming_id(&self) -> Option<EventId> {
        let mut state = self.lock();
        let is_first = state.last_taken() == 0 && !std::mem::replace(&mut state.is_primed, true);
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
        if self.stream == UNSOLICITED {
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

/// The open mailboxes of a session: those to which messages can still be added.
pub(super) struct Mailboxes {
    open: Mutex<HashMap<u64, Arc<Mailbox>>>,
    /// The mailbox for messages that belong to no request: the stream that the client opens with GET.
    pub(super) unsolicited: Arc<Mailbox>,
    shared: MailboxShared,
}

impl Mailboxes {
    pub(super) fn new(shared: MailboxShared) -> Arc<Self> {
        Arc::new(Self { open: Mutex::default(), unsolicited: Mailbox::new(UNSOLICITED, shared.clone(), None), shared })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u64, Arc<Mailbox>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a mailbox for an exchange.
    pub(super) fn open(&self, exchange: Exchange, guard: Option<ExchangeGuard>) -> Arc<Mailbox> {
        let mailbox = Mailbox::new(exchange.0, self.shared.clone(), guard);
        self.lock().insert(exchange.0, Arc::clone(&mailbox));
        mailbox
    }

    /// Drops the stored events of the session.
    pub(super) fn forget(&self) {
        self.shared.events.forget(&self.shared.session);
    }

    /// Resumes a stream after the event `id`: fetches the stored events, and makes the caller the reader of the stream
    /// if it is still open. Returns `None` if some of the events are no longer stored.
    pub(super) async fn resume(&self, id: EventId) -> Option<ResumedStream> {
        let MailboxShared { session, events, .. } = &self.shared;
        // The events are fetched before the stream is taken over, because another connection may still be reading it.
        let before = events.after(session, id).await;
        let mailbox = self.find(id.stream).filter(|mailbox| mailbox.is_stream());
        let mut replay = match (before, &mailbox) {
            (Some(before), _) => before,
            // The client already has all events, so it does not matter that the store has none.
            (None, Some(mailbox)) if mailbox.last_taken() == id.sequence => Vec::new(),
            (None, _) => return None,
        };
        let reader = mailbox.map(|mailbox| {
            let number = mailbox.open_stream();
            StreamReader::attached(mailbox, number)
        });
        // Adds the events that were sent while the earlier events were fetched. The reader gets later events itself; if
        // there is no reader, there are none.
        let last = replay.last().map_or(id, |(last, _)| *last);
        replay.extend(events.after(session, last).await.unwrap_or_default());
        Some(ResumedStream { reader, replay })
    }

    /// Returns the mailbox of a stream, if messages can still be added to it.
    fn find(&self, stream: u64) -> Option<Arc<Mailbox>> {
        if stream == UNSOLICITED {
            return Some(Arc::clone(&self.unsolicited));
        }
        self.lock().get(&stream).cloned()
    }

    /// Marks all mailboxes of the session as finished.
    pub(super) fn finish(&self) {
        for mailbox in self.lock().drain().map(|(_, mailbox)| mailbox) {
            mailbox.finish();
        }
        self.unsolicited.finish();
    }
}

/// The outlet of a session: adds each outgoing message to the mailbox of its exchange.
pub(super) struct SessionOutlet {
    mailboxes: Arc<Mailboxes>,
    room: Room,
    last: Option<Arc<Mailbox>>,
}

impl SessionOutlet {
    pub(super) fn new(mailboxes: Arc<Mailboxes>, room: Room) -> Self {
        Self { mailboxes, room, last: None }
    }
}

impl Outlet for SessionOutlet {
    const WRITES_NULL_ID: bool = false;

    fn send(&mut self, exchange: Exchange, write: impl FnOnce(&mut Vec<u8>) -> MessageKind) {
        let mut message = Vec::with_capacity(USUAL_MESSAGE_BYTES);
        let sent = write(&mut message);
        let is_answer = sent.is_answer();
        let mailbox = self.mailboxes.lock().get(&exchange.0).cloned();
        let mailbox = match mailbox {
            Some(mailbox) if is_answer || mailbox.is_reachable() => mailbox,
            // A response without a mailbox is dropped. A notification about a request is dropped if the client
            // disconnected before the response started.
            _ if is_answer || (exchange != Exchange::NONE && sent == MessageKind::Notification) => {
                self.last = None;
                return;
            }
            _ => Arc::clone(&self.mailboxes.unsolicited),
        };
        mailbox.push(message.into(), sent);
        if is_answer {
            // Only now, so that a client which finds no mailbox finds the answer in the event store.
            self.mailboxes.lock().remove(&exchange.0);
        }
        self.last = Some(mailbox);
    }

    fn hold_permits(&mut self, permits: usize) {
        let permits = self.room.hold(permits);
        if let Some(mailbox) = self.last.take() {
            mailbox.attach_permits(permits);
        }
    }

    fn len(&self) -> usize {
        self.mailboxes.shared.waiting.load(Ordering::Relaxed)
    }

    fn end_exchange(&mut self, exchange: Exchange) {
        if let Some(mailbox) = self.mailboxes.lock().remove(&exchange.0) {
            mailbox.finish();
        }
    }

    fn hang_up(&mut self, exchange: Exchange, retry: Duration) {
        if let Some(mailbox) = self.mailboxes.lock().get(&exchange.0) {
            mailbox.hang_up(retry);
        }
    }
}

/// The number of the GET stream, for messages that belong to no request.
pub(super) const UNSOLICITED: u64 = 0;

/// The initial size of the buffer for a message, in bytes. Most messages are shorter.
const USUAL_MESSAGE_BYTES: usize = 256;

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
        let mailbox = Mailbox::new(UNSOLICITED, shared, None);
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
