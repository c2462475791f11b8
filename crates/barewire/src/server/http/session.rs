//! Sessions of the legacy era: one connection each, whose messages come in many exchanges of HTTP.

use std::collections::{HashMap, VecDeque};
use std::future::poll_fn;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::task::{Context, Poll};

use barewire_proto::frame;
use barewire_proto::http::EventId;
use barewire_proto::mcp::{ParsedMessage, Revision};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use bytes::Bytes;
use tokio::time::Instant;

use super::Principal;
use super::body::{KeepAlive, event};
use super::counter::Counted;
use super::endpoint::Endpoint;
use super::mailbox::{First, Kept, Mailbox, Mailboxes, Next, Sorter, UNASKED};
use crate::peer::{AnyCaller, Delivery, EndReason, Exchange, Exchanges, later};
use crate::until::until;

/// All sessions of a server.
#[derive(Default)]
pub(super) struct Sessions {
    open: Mutex<HashMap<Arc<str>, Arc<Session>>>,
}

/// One session.
pub(super) struct Session {
    pub(super) id: Arc<str>,
    exchanges: Exchanges<Sorter>,
    boxes: Arc<Mailboxes>,
    /// Whose it is. Nobody else's requests are part of it.
    principal: Option<Arc<str>>,
    agreed: Arc<OnceLock<Revision>>,
    last_exchange: AtomicU64,
    /// How many exchanges are under way.
    busy: AtomicUsize,
    used: Mutex<Instant>,
    /// Counts among the sessions that there may be.
    _counted: Counted,
}

/// An exchange that is under way: its session does not expire.
pub(super) struct Busy(Arc<Session>);

impl Sessions {
    fn lock(&self) -> MutexGuard<'_, HashMap<Arc<str>, Arc<Session>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The session with this id, if it has not ended and is this principal's. To everybody else there is none.
    pub(super) fn find(&self, id: &str, principal: Option<&Principal>) -> Option<Arc<Session>> {
        let session = self.lock().get(id).cloned()?;
        let is_theirs = session.principal.as_deref() == principal.map(Principal::name);
        (is_theirs && !session.exchanges.is_over()).then_some(session)
    }

    pub(super) fn add(&self, session: &Arc<Session>) {
        self.lock().insert(Arc::clone(&session.id), Arc::clone(session));
    }

    fn remove(&self, id: &str) {
        self.lock().remove(id);
    }

    /// Ends one: from now on there is none of this id.
    pub(super) fn end(&self, session: &Session) {
        self.remove(&session.id);
        session.end();
    }

    /// All of them.
    pub(super) fn all(&self) -> Vec<Arc<Session>> {
        self.lock().values().cloned().collect()
    }
}

impl Session {
    /// A session that nobody knows of yet; `None` if there are too many, or no randomness for its name.
    pub(super) fn new(endpoint: &Arc<Endpoint>, principal: Option<&Principal>) -> Option<Arc<Self>> {
        let counted = endpoint.session_count.enter()?;
        let mut random = [0; 24];
        getrandom::fill(&mut random).ok()?;
        let id: Arc<str> = BASE64.encode(random).into();
        let kept = Kept { session: Arc::clone(&id), events: Arc::clone(&endpoint.events), waiting: Arc::default() };
        let (boxes, agreed) = (Mailboxes::new(kept), Arc::<OnceLock<Revision>>::default());
        let settings = endpoint.session(Arc::clone(&agreed));
        let exchanges = Exchanges::new(settings, |room| Sorter::new(Arc::clone(&boxes), room));
        Some(Arc::new(Self {
            id,
            exchanges,
            boxes,
            principal: principal.map(|principal| principal.name().into()),
            agreed,
            last_exchange: AtomicU64::new(UNASKED),
            busy: AtomicUsize::new(0),
            used: Mutex::new(Instant::now()),
            _counted: counted,
        }))
    }

    /// What was agreed on.
    pub(super) fn revision(&self) -> Option<Revision> {
        self.agreed.get().copied()
    }

    /// Something happens in it.
    pub(super) fn enter(self: &Arc<Self>) -> Busy {
        self.busy.fetch_add(1, Ordering::AcqRel);
        Busy(Arc::clone(self))
    }

    /// Handles a message. What comes of it is in the mailbox, if it expects something.
    pub(super) fn post(
        &self,
        message: ParsedMessage<Bytes>,
        caller: Option<AnyCaller>,
        expected: Option<Counted>,
    ) -> Option<Arc<Mailbox>> {
        let number = self.last_exchange.fetch_add(1, Ordering::Relaxed) + 1;
        let exchange = Exchange(number);
        let mailbox = expected.map(|counted| self.boxes.open(exchange, counted));
        self.exchanges.deliver(Delivery { exchange, caller, message });
        mailbox
    }

    /// The stream for what belongs to no request.
    pub(super) fn unasked(&self) -> Arc<Mailbox> {
        Arc::clone(&self.boxes.unasked)
    }

    /// The stream that an event belongs to, if something may still come on it.
    pub(super) fn stream(&self, stream: u64) -> Option<Arc<Mailbox>> {
        self.boxes.find(stream)
    }

    /// Ends it at once.
    pub(super) fn end(&self) {
        self.exchanges.end(EndReason::Shutdown);
        self.boxes.finish();
    }

    /// Lets what is in flight finish.
    pub(super) fn begin_end(&self) {
        self.exchanges.begin_end();
        self.boxes.unasked.finish();
    }

    /// Whether anything is under way.
    pub(super) fn is_busy(&self) -> bool {
        self.busy.load(Ordering::Acquire) > 0
    }

    fn used(&self) -> Instant {
        *self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does what there is to do in the session, until it ends or nobody has used it for too long.
    pub(super) async fn live(self: Arc<Self>, endpoint: Weak<Endpoint>) {
        let Some(idle) = endpoint.upgrade().map(|endpoint| endpoint.limits.session_idle) else { return };
        let expires = async {
            loop {
                tokio::time::sleep_until(later(self.used(), idle)).await;
                if self.is_busy() {
                    tokio::time::sleep(idle).await;
                } else if later(self.used(), idle) <= Instant::now() {
                    return;
                }
            }
        };
        until(self.exchanges.drive(), expires).await;
        if let Some(endpoint) = endpoint.upgrade() {
            endpoint.sessions.remove(&self.id);
        }
        self.end();
    }
}

impl Drop for Session {
    /// Not before: whoever still answers something in it may have something to keep.
    fn drop(&mut self) {
        self.boxes.forget();
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        *self.0.used.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
        self.0.busy.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Waits for what a response is to be. If the client leaves meanwhile, its request goes on, and nobody is told.
pub(super) async fn first(mailbox: &Arc<Mailbox>, endpoint: &Endpoint) -> First {
    struct Leaving<'a>(Option<&'a Mailbox>);
    impl Drop for Leaving<'_> {
        fn drop(&mut self) {
            if let Some(mailbox) = self.0 {
                mailbox.leave(None);
            }
        }
    }
    let mut leaving = Leaving(Some(mailbox));
    let mut quiet = KeepAlive::new(endpoint.limits.keep_alive);
    let first = poll_fn(|context| match mailbox.poll_first(context) {
        Poll::Ready(first) => Poll::Ready(first),
        // A stream is seen to be alive.
        Poll::Pending => quiet.poll(context).map(|_| First::Stream(mailbox.open())),
    })
    .await;
    leaving.0 = None;
    first
}

/// The events of a stream of a session.
pub(super) struct SessionEvents {
    mailbox: Option<Arc<Mailbox>>,
    reader: u64,
    /// What was sent before, and is sent again.
    again: VecDeque<(EventId, Bytes)>,
    /// The last event that this connection has been sent.
    last: u64,
    /// What it begins with.
    first: Option<Bytes>,
    /// All that there was has been sent, and the connection is closed.
    is_over: bool,
    keep_alive: KeepAlive,
    busy: Busy,
    /// What belongs to no request counts as long as it is open.
    _counted: Option<Counted>,
}

impl SessionEvents {
    /// A stream from its beginning: in a revision that has it, with an event that carries only an id.
    pub(super) fn begin(
        mailbox: Arc<Mailbox>,
        reader: u64,
        session: &Arc<Session>,
        endpoint: &Endpoint,
        counted: Option<Counted>,
    ) -> Self {
        let primes = session.revision().is_some_and(Revision::has_polling);
        let first = primes.then(|| {
            let mut out = Vec::new();
            frame::sse_retry(&mut out, endpoint.limits.retry);
            match mailbox.prime() {
                Some(id) => event(&mut out, Some(id), b""),
                None => out.push(b'\n'),
            }
            out.into()
        });
        Self::new(Some(mailbox), reader, first, session, endpoint, counted)
    }

    /// The rest of a stream, from behind this event on. What is sent from now on is part of it, so that nothing is missed
    /// while the rest is looked for.
    pub(super) fn resume(
        mailbox: Option<Arc<Mailbox>>,
        last: EventId,
        session: &Arc<Session>,
        endpoint: &Endpoint,
        counted: Option<Counted>,
    ) -> Self {
        let reader = mailbox.as_ref().map_or(0, |mailbox| mailbox.open());
        let mut events = Self::new(mailbox, reader, None, session, endpoint, counted);
        events.last = last.sequence;
        events
    }

    /// What was sent before, and is sent again.
    pub(super) fn again(mut self, events: Vec<(EventId, Bytes)>) -> Self {
        self.again = events.into();
        self
    }

    fn new(
        mailbox: Option<Arc<Mailbox>>,
        reader: u64,
        first: Option<Bytes>,
        session: &Arc<Session>,
        endpoint: &Endpoint,
        counted: Option<Counted>,
    ) -> Self {
        Self {
            mailbox,
            reader,
            again: VecDeque::new(),
            last: 0,
            first,
            is_over: false,
            keep_alive: KeepAlive::new(endpoint.limits.keep_alive),
            busy: session.enter(),
            _counted: counted,
        }
    }

    pub(super) fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        if let Some(first) = self.first.take() {
            return Poll::Ready(Some(first));
        }
        if let Some((id, message)) = self.again.pop_front() {
            self.last = id.sequence;
            let mut out = Vec::with_capacity(message.len() + FIELDS);
            event(&mut out, Some(id), &message);
            return Poll::Ready(Some(out.into()));
        }
        if self.is_over {
            return Poll::Ready(None);
        }
        let Some(mailbox) = &self.mailbox else { return Poll::Ready(None) };
        match mailbox.poll_next(self.reader, context) {
            Poll::Ready(Next::Letters(letters)) => {
                let mut out = Vec::new();
                let last = self.last;
                for letter in letters.into_iter().filter(|letter| letter.id.sequence > last) {
                    self.last = letter.id.sequence;
                    event(&mut out, Some(letter.id), &letter.message);
                }
                self.keep_alive.reset();
                self.busy.0.exchanges.has_room();
                if out.is_empty() {
                    context.waker().wake_by_ref();
                    return Poll::Pending;
                }
                Poll::Ready(Some(out.into()))
            }
            Poll::Ready(Next::HangUp(retry)) => {
                self.is_over = true;
                let mut out = Vec::new();
                frame::sse_retry(&mut out, retry);
                out.push(b'\n');
                Poll::Ready(Some(out.into()))
            }
            Poll::Ready(Next::End) => Poll::Ready(None),
            Poll::Pending => self.keep_alive.poll(context).map(Some),
        }
    }
}

impl Drop for SessionEvents {
    fn drop(&mut self) {
        if let Some(mailbox) = &self.mailbox {
            mailbox.leave(Some(self.reader));
        }
    }
}

/// What an event takes beside its message.
const FIELDS: usize = 48;
