//! Legacy sessions. A session is one MCP connection whose messages arrive in many HTTP requests.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::{Arc, OnceLock, PoisonError, Weak};
use std::task::{Context, Poll};

use barewire_proto::frame;
use barewire_proto::http::EventId;
use barewire_proto::mcp::{ParsedMessage, Revision};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use bytes::Bytes;
use tokio::time::Instant;

use super::body::{KeepAlive, event};
use super::capacity::Capacity;
use super::endpoint::HttpEndpoint;
use super::mailbox::{
    Mailbox, MailboxShared, Mailboxes, ResponseStart, ResumedStream, SessionOutlet, StreamItem, StreamReader,
    UNSOLICITED,
};
use super::sender::{ExchangeGuard, Sender};
use super::sessions::SessionEntry;
use super::{HttpLimits, Principal};
use crate::peer::{AnyCaller, Delivery, EndReason, Exchange, Exchanges, later};
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use crate::until::until;

/// One session.
pub(super) struct Session {
    pub(super) id: Arc<str>,
    exchanges: Exchanges<SessionOutlet>,
    mailboxes: Arc<Mailboxes>,
    /// The name of the principal that opened the session. Other principals cannot use the session.
    principal: Option<Arc<str>>,
    negotiated: Arc<OnceLock<Revision>>,
    last_exchange: AtomicU64,
    /// The number of HTTP exchanges of this session in progress.
    active_uses: AtomicUsize,
    last_used: Mutex<Instant>,
    /// Counts the requests that are not answered yet, even if their clients have disconnected, and the open streams.
    pub(super) running: Arc<Capacity>,
    /// The sender that opened the session.
    pub(super) sender: Arc<Sender>,
    /// The state that [`Sessions`](super::sessions::Sessions) keeps about the session.
    pub(super) entry: SessionEntry,
}

/// The response that a message of a client expects.
pub(super) enum ExpectedResponse<G = ExchangeGuard> {
    /// The message is a notification or a response.
    None,
    /// The message is a ping, which is answered at once. It does not count as a running request, so that a client can
    /// find out whether the server is alive when there is no room for requests.
    Ping,
    /// The message counts as a running request until it is answered.
    Counted(G),
}

/// Marks an HTTP exchange of a session as in progress. The session does not expire while such a mark exists.
pub(super) struct SessionUse(Arc<Session>);

impl Session {
    /// Creates a session that is not in [`Sessions`](super::sessions::Sessions) yet. Returns `None` if the system
    /// returns no random bytes for the id.
    pub(super) fn new(
        endpoint: &HttpEndpoint,
        principal: Option<&Principal>,
        sender: &Arc<Sender>,
    ) -> Option<Arc<Self>> {
        let mut random = [0; 24];
        getrandom::fill(&mut random).ok()?;
        let id: Arc<str> = BASE64.encode(random).into();
        let shared =
            MailboxShared { session: Arc::clone(&id), events: Arc::clone(&endpoint.events), waiting: Arc::default() };
        let (mailboxes, negotiated) = (Mailboxes::new(shared), Arc::<OnceLock<Revision>>::default());
        let settings = endpoint.session_settings(Arc::clone(&negotiated));
        let exchanges = Exchanges::new(settings, |room| SessionOutlet::new(Arc::clone(&mailboxes), room));
        Some(Arc::new(Self {
            id,
            exchanges,
            mailboxes,
            principal: principal.map(Principal::shared_name),
            negotiated,
            last_exchange: AtomicU64::new(UNSOLICITED),
            active_uses: AtomicUsize::new(0),
            last_used: Mutex::new(Instant::now()),
            running: Arc::new(Capacity::new(endpoint.limits.exchanges_per_session)),
            sender: Arc::clone(sender),
            entry: SessionEntry::default(),
        }))
    }

    /// Returns the revision that `initialize` negotiated, or `None` before `initialize`.
    pub(super) fn revision(&self) -> Option<Revision> {
        self.negotiated.get().copied()
    }

    /// Marks the session as in use until the returned value is dropped.
    pub(super) fn begin_use(self: &Arc<Self>) -> SessionUse {
        self.active_uses.fetch_add(1, Ordering::AcqRel);
        SessionUse(Arc::clone(self))
    }

    /// Passes a message to the session. If the message expects a response, the response is added to the returned
    /// mailbox.
    pub(super) fn post(
        &self,
        message: ParsedMessage<Bytes>,
        caller: Option<AnyCaller>,
        expected: ExpectedResponse,
    ) -> Option<Arc<Mailbox>> {
        let number = self.last_exchange.fetch_add(1, Ordering::Relaxed) + 1;
        let exchange = Exchange(number);
        let mailbox = match expected {
            ExpectedResponse::None => None,
            ExpectedResponse::Ping => Some(self.mailboxes.open(exchange, None)),
            ExpectedResponse::Counted(guard) => Some(self.mailboxes.open(exchange, Some(guard))),
        };
        self.exchanges.deliver(Delivery { exchange, caller, message });
        mailbox
    }

    /// Returns the mailbox for messages that belong to no request.
    pub(super) fn unsolicited(&self) -> Arc<Mailbox> {
        Arc::clone(&self.mailboxes.unsolicited)
    }

    /// Resumes the stream that the event `id` belongs to, after this event.
    pub(super) async fn resume(&self, id: EventId) -> Option<ResumedStream> {
        self.mailboxes.resume(id).await
    }

    /// Ends the session immediately, without waiting for running requests.
    pub(super) fn end(&self) {
        self.exchanges.end(EndReason::Shutdown);
        self.mailboxes.finish();
    }

    /// Starts the shutdown of the session: running requests may finish, and the GET stream ends.
    pub(super) fn begin_shutdown(&self) {
        self.exchanges.begin_end();
        self.mailboxes.unsolicited.finish();
    }

    /// Whether an HTTP exchange of this session is in progress.
    pub(super) fn is_in_use(&self) -> bool {
        self.active_uses.load(Ordering::Acquire) > 0
    }

    /// Whether no request of this session is running, even without its client, and no stream is open.
    pub(super) fn is_idle(&self) -> bool {
        !self.is_in_use() && self.running.used() == 0
    }

    /// Whether this principal may use the session, and the session has not ended.
    pub(super) fn is_open_to(&self, principal: Option<&Principal>) -> bool {
        self.principal.as_deref() == principal.map(Principal::name) && !self.exchanges.is_over()
    }

    /// Whether the session has been unused for longer than the limit.
    pub(super) fn is_expired(&self, limits: &HttpLimits) -> bool {
        !self.is_in_use() && self.expires_at(limits) <= Instant::now()
    }

    /// Returns the time at which the session expires if it is not used before.
    fn expires_at(&self, limits: &HttpLimits) -> Instant {
        let idle =
            if self.entry.is_silent() { limits.session_silent.min(limits.session_idle) } else { limits.session_idle };
        later(self.last_used(), idle)
    }

    pub(super) fn last_used(&self) -> Instant {
        *self.last_used.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs the session until it ends, or until it has been unused for longer than the limit.
    pub(super) async fn run(self: Arc<Self>, endpoint: Weak<HttpEndpoint>) {
        let expires = async {
            // The endpoint is not kept alive while this waits.
            while let Some(at) = endpoint.upgrade().map(|endpoint| self.expires_at(&endpoint.limits)) {
                tokio::time::sleep_until(at).await;
                let Some(endpoint) = endpoint.upgrade() else { return };
                if endpoint.sessions.remove_if_expired(&self, &endpoint.limits) {
                    return;
                }
                if self.is_in_use() {
                    let idle = endpoint.limits.session_idle;
                    drop(endpoint);
                    tokio::time::sleep(idle).await;
                }
            }
        };
        until(self.exchanges.drive(), expires).await;
        if let Some(endpoint) = endpoint.upgrade() {
            endpoint.sessions.remove(&self);
        }
        self.end();
    }
}

impl Drop for Session {
    /// Drops the stored events. They are not dropped when the session ends, because an exchange that is still in
    /// progress might store more events.
    fn drop(&mut self) {
        self.mailboxes.forget();
        self.entry.leave(&self.sender);
    }
}

impl SessionUse {
    pub(super) fn session(&self) -> &Arc<Session> {
        &self.0
    }
}

impl Drop for SessionUse {
    fn drop(&mut self) {
        *self.0.last_used.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
        self.0.active_uses.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Waits until it is known whether the response is one JSON body or a stream. If the client disconnects before that,
/// its request continues.
pub(super) async fn response_start(mailbox: &Arc<Mailbox>, endpoint: &HttpEndpoint) -> ResponseStart {
    struct DisconnectOnDrop<'a>(Option<&'a Mailbox>);
    impl Drop for DisconnectOnDrop<'_> {
        fn drop(&mut self) {
            if let Some(mailbox) = self.0 {
                mailbox.detach_reader(None);
            }
        }
    }
    let mut on_drop = DisconnectOnDrop(Some(mailbox));
    let mut keep_alive = KeepAlive::new(endpoint.limits.keep_alive);
    let first = poll_fn(|context| match mailbox.poll_start(context) {
        Poll::Ready(first) => Poll::Ready(first),
        // A slow response becomes a stream, so that keep-alive comments can be sent.
        Poll::Pending => keep_alive.poll(context).map(|_| ResponseStart::Stream(mailbox.open_stream())),
    })
    .await;
    on_drop.0 = None;
    first
}

/// The events of one stream of a session, as one connection reads them.
pub(super) struct SessionEvents {
    /// The reader, if messages can still be added to the stream.
    reader: Option<StreamReader>,
    /// Stored events that are sent again before any new event.
    replay: VecDeque<(EventId, Bytes)>,
    /// The sequence number of the last event sent on this connection.
    last: u64,
    /// The bytes that the stream starts with, if they have not been sent yet.
    first: Option<Bytes>,
    /// Whether all events have been sent, so that the connection closes.
    is_finished: bool,
    keep_alive: KeepAlive,
    session_use: SessionUse,
    /// Makes a GET stream count as a running request while it is open.
    _guard: Option<ExchangeGuard>,
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
        let has_priming = session.revision().is_some_and(Revision::has_polling);
        let first = has_priming.then(|| {
            let mut out = Vec::new();
            frame::sse_retry(&mut out, endpoint.limits.retry);
            match mailbox.take_priming_id() {
                Some(id) => event(&mut out, Some(id), b""),
                None => out.push(b'\n'),
            }
            out.into()
        });
        Self::new(Some(StreamReader::attached(mailbox, reader)), first, session, endpoint, guard)
    }

    /// Continues a stream after the event `last`.
    pub(super) fn resume(
        resumed: ResumedStream,
        last: EventId,
        session: &Arc<Session>,
        endpoint: &HttpEndpoint,
        guard: Option<ExchangeGuard>,
    ) -> Self {
        let mut events = Self::new(resumed.reader, None, session, endpoint, guard);
        (events.last, events.replay) = (last.sequence, resumed.replay.into());
        events
    }

    fn new(
        reader: Option<StreamReader>,
        first: Option<Bytes>,
        session: &Arc<Session>,
        endpoint: &HttpEndpoint,
        guard: Option<ExchangeGuard>,
    ) -> Self {
        Self {
            reader,
            replay: VecDeque::new(),
            last: 0,
            first,
            is_finished: false,
            keep_alive: KeepAlive::new(endpoint.limits.keep_alive),
            session_use: session.begin_use(),
            _guard: guard,
        }
    }

    pub(super) fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        if let Some(first) = self.first.take() {
            return Poll::Ready(Some(first));
        }
        if let Some((id, message)) = self.replay.pop_front() {
            self.last = id.sequence;
            let mut out = Vec::with_capacity(message.len() + EVENT_FIELDS_BYTES);
            event(&mut out, Some(id), &message);
            return Poll::Ready(Some(out.into()));
        }
        if self.is_finished {
            return Poll::Ready(None);
        }
        let Some(reader) = &self.reader else { return Poll::Ready(None) };
        match reader.poll_next(context) {
            Poll::Ready(StreamItem::Messages(messages)) => {
                let mut out = Vec::new();
                let last = self.last;
                for queued in messages.into_iter().filter(|queued| queued.id.sequence > last) {
                    self.last = queued.id.sequence;
                    event(&mut out, Some(queued.id), &queued.message);
                }
                self.keep_alive.reset();
                self.session_use.0.exchanges.wake_for_room();
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

/// The approximate number of bytes of an event besides its message.
const EVENT_FIELDS_BYTES: usize = 48;
