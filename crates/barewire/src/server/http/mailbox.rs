//! Messages on their way to one HTTP response of a legacy session: gathered here, taken by whoever writes that response.
//!
//! ```text
//! pending ──── the answer is the first message ────▶ one JSON body
//!    │
//!    └── anything else is ──▶ streaming ──▶ events, each with an id and kept, until the answer
//!                                │  ▲
//!                      disconnect▼  │GET with Last-Event-ID
//!                             nobody reads
//! ```

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use barewire_proto::http::EventId;
use bytes::Bytes;

use super::EventStore;
use super::counter::Counted;
use crate::peer::{Exchange, MessageKind, Outlet, Permits, Room};

/// A message that waits to be taken.
pub(super) struct Letter {
    pub(super) id: EventId,
    pub(super) message: Bytes,
    pub(super) sent: MessageKind,
    permits: Option<Permits>,
}

/// What one HTTP response consists of.
pub(super) struct Mailbox {
    stream: u64,
    kept: Kept,
    inner: Mutex<Inner>,
}

/// Where events are kept.
#[derive(Clone)]
pub(super) struct Kept {
    pub(super) session: Arc<str>,
    pub(super) events: Arc<dyn EventStore>,
    /// Bytes that wait in all mailboxes of the session.
    pub(super) waiting: Arc<AtomicUsize>,
}

#[derive(Default)]
struct Inner {
    waiting: VecDeque<Letter>,
    phase: Phase,
    /// The number of the last message.
    last: u64,
    /// The client knows that there was a beginning.
    primed: bool,
    /// Nothing follows.
    is_over: bool,
    /// Who reads, if somebody does. Whoever came last does.
    reader: Option<u64>,
    readers: u64,
    /// The connection is to be closed, and the client to come back after this time.
    hang_up: Option<Duration>,
    waker: Option<Waker>,
    /// Counts as under way until nothing follows.
    counted: Option<Counted>,
}

impl Inner {
    fn last_taken(&self) -> u64 {
        self.waiting.front().map_or(self.last, |letter| letter.id.sequence - 1)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Phase {
    /// Nothing has been answered yet, not even a status.
    #[default]
    Pending,
    /// A stream of events.
    Streaming,
    /// The client left before it was either.
    Gone,
}

/// What a response is to be.
pub(super) enum First {
    /// One body.
    Answer(Letter),
    /// A stream, which is to be read by this reader.
    Stream(u64),
}

/// What comes next in a stream.
pub(super) enum Next {
    Letters(Vec<Letter>),
    /// The connection is to be closed; the client comes back after this time.
    HangUp(Duration),
    End,
}

impl Mailbox {
    fn new(stream: u64, kept: Kept, counted: Option<Counted>) -> Arc<Self> {
        let phase = if stream == UNASKED { Phase::Streaming } else { Phase::Pending };
        Arc::new(Self { stream, kept, inner: Mutex::new(Inner { phase, counted, ..Inner::default() }) })
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether what is put in can still be read by the client.
    fn is_reachable(&self) -> bool {
        self.lock().phase != Phase::Gone
    }

    fn put(&self, message: Bytes, sent: MessageKind) {
        let mut inner = self.lock();
        inner.last += 1;
        let id = EventId { stream: self.stream, sequence: inner.last };
        if sent.is_answer() {
            (inner.is_over, inner.counted) = (true, None);
        }
        if inner.phase == Phase::Streaming {
            self.kept.events.keep(&self.kept.session, id, message.clone());
        }
        let is_read = inner.reader.is_some() || inner.phase == Phase::Pending;
        if is_read || self.stream == UNASKED {
            self.kept.waiting.fetch_add(message.len(), Ordering::Relaxed);
            inner.waiting.push_back(Letter { id, message, sent, permits: None });
        }
        if !is_read {
            self.shorten(&mut inner);
        }
        wake(inner);
    }

    /// What nobody reads yet must not become too much: the oldest goes.
    fn shorten(&self, inner: &mut Inner) {
        let mut bytes: usize = inner.waiting.iter().map(|letter| letter.message.len()).sum();
        while inner.waiting.len() > MOST_UNREAD || (bytes > MOST_UNREAD_BYTES && inner.waiting.len() > 1) {
            let Some(letter) = inner.waiting.pop_front() else { break };
            bytes -= letter.message.len();
            self.kept.waiting.fetch_sub(letter.message.len(), Ordering::Relaxed);
        }
    }

    /// The message that was put in last holds these until it is taken.
    fn hold(&self, permits: Permits) {
        let mut inner = self.lock();
        if (inner.reader.is_some() || inner.phase == Phase::Pending)
            && let Some(letter) = inner.waiting.back_mut()
        {
            letter.permits = Some(permits);
        }
    }

    /// Nothing more is put in.
    pub(super) fn finish(&self) {
        let mut inner = self.lock();
        (inner.is_over, inner.counted) = (true, None);
        wake(inner);
    }

    /// Closes the connection, if there is one, as soon as all that waits is written.
    fn hang_up(&self, retry: Duration) {
        let mut inner = self.lock();
        inner.hang_up = Some(retry);
        wake(inner);
    }

    /// Waits for what the response is to be.
    pub(super) fn poll_first(&self, context: &mut Context<'_>) -> Poll<First> {
        let mut inner = self.lock();
        match inner.waiting.front() {
            Some(letter) if letter.sent.is_answer() && inner.hang_up.is_none() => {
                let letter = inner.waiting.pop_front().expect("it is there");
                inner.phase = Phase::Gone;
                self.kept.waiting.fetch_sub(letter.message.len(), Ordering::Relaxed);
                Poll::Ready(First::Answer(letter))
            }
            None if !inner.is_over && inner.hang_up.is_none() => {
                inner.waker = Some(context.waker().clone());
                Poll::Pending
            }
            _ => Poll::Ready(First::Stream(self.stream(&mut inner))),
        }
    }

    /// It becomes a stream, whatever comes first.
    pub(super) fn open(&self) -> u64 {
        self.stream(&mut self.lock())
    }

    fn stream(&self, inner: &mut Inner) -> u64 {
        if inner.phase != Phase::Streaming {
            inner.phase = Phase::Streaming;
            // The client is told that number 0 was there, so that it can come back for the rest.
            let first = EventId { stream: self.stream, sequence: 0 };
            self.kept.events.keep(&self.kept.session, first, Bytes::new());
            for letter in &inner.waiting {
                self.kept.events.keep(&self.kept.session, letter.id, letter.message.clone());
            }
        }
        inner.readers += 1;
        inner.reader = Some(inner.readers);
        inner.hang_up = inner.hang_up.filter(|_| inner.readers == 1);
        if let Some(waker) = inner.waker.take() {
            // Whoever read before finds that it is no longer the one.
            waker.wake();
        }
        inner.readers
    }

    /// The id of the event that the stream begins with. Once, and not if something has been taken already: an id is of one event.
    pub(super) fn prime(&self) -> Option<EventId> {
        let mut inner = self.lock();
        let is_first = inner.last_taken() == 0 && !std::mem::replace(&mut inner.primed, true);
        is_first.then_some(EventId { stream: self.stream, sequence: 0 })
    }

    /// Whether it is a stream, and something can have been taken.
    pub(super) fn is_stream(&self) -> bool {
        self.lock().phase == Phase::Streaming
    }

    /// The number of the last message that somebody has taken, or could have.
    pub(super) fn last_taken(&self) -> u64 {
        self.lock().last_taken()
    }

    /// Waits for what comes next in the stream.
    pub(super) fn poll_next(&self, reader: u64, context: &mut Context<'_>) -> Poll<Next> {
        let mut inner = self.lock();
        if inner.reader != Some(reader) {
            return Poll::Ready(Next::End);
        }
        if !inner.waiting.is_empty() {
            let letters: Vec<Letter> = inner.waiting.drain(..).collect();
            let bytes = letters.iter().map(|letter| letter.message.len()).sum();
            self.kept.waiting.fetch_sub(bytes, Ordering::Relaxed);
            return Poll::Ready(Next::Letters(letters));
        }
        if let Some(retry) = inner.hang_up.take() {
            return Poll::Ready(Next::HangUp(retry));
        }
        if inner.is_over {
            return Poll::Ready(Next::End);
        }
        inner.waker = Some(context.waker().clone());
        Poll::Pending
    }

    /// Whoever read no longer does. What waits for it is kept, as far as anything is.
    pub(super) fn leave(&self, reader: Option<u64>) {
        let mut inner = self.lock();
        if inner.reader != reader {
            return;
        }
        inner.reader = None;
        inner.waker = None;
        if inner.phase == Phase::Pending {
            inner.phase = Phase::Gone;
        }
        if self.stream == UNASKED {
            inner.waiting.iter_mut().for_each(|letter| letter.permits = None);
            self.shorten(&mut inner);
        } else {
            let bytes = inner.waiting.drain(..).map(|letter| letter.message.len()).sum();
            self.kept.waiting.fetch_sub(bytes, Ordering::Relaxed);
        }
    }
}

fn wake(mut inner: MutexGuard<'_, Inner>) {
    let waker = inner.waker.take();
    drop(inner);
    if let Some(waker) = waker {
        waker.wake();
    }
}

/// All mailboxes of a session that something may still be put into.
pub(super) struct Mailboxes {
    open: Mutex<HashMap<u64, Arc<Mailbox>>>,
    /// For what belongs to no request of the client's: the stream that it opens with GET.
    pub(super) unasked: Arc<Mailbox>,
    kept: Kept,
}

impl Mailboxes {
    pub(super) fn new(kept: Kept) -> Arc<Self> {
        Arc::new(Self { open: Mutex::default(), unasked: Mailbox::new(UNASKED, kept.clone(), None), kept })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u64, Arc<Mailbox>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One for another exchange.
    pub(super) fn open(&self, exchange: Exchange, counted: Counted) -> Arc<Mailbox> {
        let mailbox = Mailbox::new(exchange.0, self.kept.clone(), Some(counted));
        self.lock().insert(exchange.0, Arc::clone(&mailbox));
        mailbox
    }

    /// Nobody will come back for anything.
    pub(super) fn forget(&self) {
        self.kept.events.forget(&self.kept.session);
    }

    /// That of a stream, if something may still come on it.
    pub(super) fn find(&self, stream: u64) -> Option<Arc<Mailbox>> {
        if stream == UNASKED {
            return Some(Arc::clone(&self.unasked));
        }
        self.lock().get(&stream).cloned()
    }

    /// Nothing more is put into any.
    pub(super) fn finish(&self) {
        for mailbox in self.lock().drain().map(|(_, mailbox)| mailbox) {
            mailbox.finish();
        }
        self.unasked.finish();
    }
}

/// Puts the messages of a session into its mailboxes.
pub(super) struct Sorter {
    boxes: Arc<Mailboxes>,
    room: Room,
    last: Option<Arc<Mailbox>>,
}

impl Sorter {
    pub(super) fn new(boxes: Arc<Mailboxes>, room: Room) -> Self {
        Self { boxes, room, last: None }
    }
}

impl Outlet for Sorter {
    const WRITES_NULL_ID: bool = false;

    fn send(&mut self, exchange: Exchange, write: impl FnOnce(&mut Vec<u8>) -> MessageKind) {
        let mut message = Vec::with_capacity(USUAL);
        let sent = write(&mut message);
        let is_answer = sent.is_answer();
        let asked = match is_answer {
            true => self.boxes.lock().remove(&exchange.0),
            false => self.boxes.lock().get(&exchange.0).cloned(),
        };
        let mailbox = match asked {
            Some(mailbox) if is_answer || mailbox.is_reachable() => mailbox,
            // Nobody waits for an answer that has no place, nor for news of a request whose client left.
            _ if is_answer || (exchange != Exchange::NONE && sent == MessageKind::Notification) => {
                self.last = None;
                return;
            }
            _ => Arc::clone(&self.boxes.unasked),
        };
        mailbox.put(message.into(), sent);
        self.last = Some(mailbox);
    }

    fn hold_permits(&mut self, permits: usize) {
        let permits = self.room.hold(permits);
        if let Some(mailbox) = self.last.take() {
            mailbox.hold(permits);
        }
    }

    fn len(&self) -> usize {
        self.boxes.kept.waiting.load(Ordering::Relaxed)
    }

    fn end_exchange(&mut self, exchange: Exchange) {
        if let Some(mailbox) = self.boxes.lock().remove(&exchange.0) {
            mailbox.finish();
        }
    }

    fn hang_up(&mut self, exchange: Exchange, retry: Duration) {
        if let Some(mailbox) = self.boxes.lock().get(&exchange.0) {
            mailbox.hang_up(retry);
        }
    }
}

/// The stream of what belongs to no request.
pub(super) const UNASKED: u64 = 0;

/// Most answers are shorter.
const USUAL: usize = 256;

/// So much waits for a client that has opened no stream for what it has not asked for.
const MOST_UNREAD: usize = 256;
const MOST_UNREAD_BYTES: usize = 64 * 1024;
