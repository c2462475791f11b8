//! Legacy sessions. A session is one MCP connection whose messages arrive in many HTTP requests.

use std::future::poll_fn;
use std::sync::{Arc, PoisonError, Weak};
use std::task::Poll;

use barewire_proto::http::EventId;
use barewire_proto::mcp::{ParsedMessage, Revision};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use bytes::Bytes;
use tokio::time::Instant;

use super::body::KeepAlive;
use super::capacity::Capacity;
use super::cluster::{SessionLink, task_owner};
use super::endpoint::HttpEndpoint;
use super::mailbox::{Mailbox, MailboxShared, ResponseStart, UNSOLICITED, UnsolicitedStart};
use super::mailboxes::{Mailboxes, ResumedStream, SessionOutlet};
use super::sender::{ExchangeGuard, Sender};
use super::sessions::SessionEntry;
use super::{HttpLimits, Principal};
use crate::peer::{AnyCaller, Delivery, EndReason, Exchange, Exchanges, later};
use crate::server::legacy_client::HandshakeFacts;
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use crate::until::until;

/// One session.
pub(super) struct Session {
    pub(super) id: Arc<str>,
    exchanges: Exchanges<SessionOutlet>,
    mailboxes: Arc<Mailboxes>,
    /// The name of the principal that opened the session. Other principals cannot use the session.
    pub(super) principal: Option<Arc<str>>,
    pub(super) facts: Arc<HandshakeFacts>,
    /// The session in the cluster, if the server is in one.
    pub(super) link: Option<Arc<SessionLink>>,
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
        let link = endpoint.cluster.as_ref().map(|node| node.new_link(&id));
        let stream = endpoint.cluster.as_ref().map_or(UNSOLICITED, |node| node.unsolicited_stream());
        let unsolicited = UnsolicitedStart::of_new(stream);
        Some(Self::with_id(endpoint, id, principal.map(Principal::shared_name), sender, link, unsolicited))
    }

    /// Creates a session with this id, which the cluster may know already.
    pub(super) fn with_id(
        endpoint: &HttpEndpoint,
        id: Arc<str>,
        principal: Option<Arc<str>>,
        sender: &Arc<Sender>,
        link: Option<Arc<SessionLink>>,
        unsolicited: UnsolicitedStart,
    ) -> Arc<Self> {
        let shared =
            MailboxShared { session: Arc::clone(&id), events: Arc::clone(&endpoint.events), waiting: Arc::default() };
        let node = endpoint.cluster.as_ref().filter(|_| link.is_some());
        let shared_owner = node.map(|_| task_owner(&id));
        let facts = Arc::new(HandshakeFacts { shared_owner, ..HandshakeFacts::default() });
        let mailboxes = Mailboxes::new(shared, unsolicited);
        let mut settings = endpoint.session_settings(Arc::clone(&facts));
        settings.calls_after = node.map_or(0, |node| node.calls_after());
        let outlet = |room| SessionOutlet::new(Arc::clone(&mailboxes), link.clone(), room);
        let exchanges = Exchanges::new(settings, outlet);
        Arc::new(Self {
            id,
            exchanges,
            mailboxes,
            principal,
            facts,
            link,
            last_exchange: AtomicU64::new(UNSOLICITED),
            active_uses: AtomicUsize::new(0),
            last_used: Mutex::new(Instant::now()),
            running: Arc::new(Capacity::new(endpoint.limits.exchanges_per_session)),
            sender: Arc::clone(sender),
            entry: SessionEntry::default(),
        })
    }

    /// Returns the revision that `initialize` negotiated, or `None` before `initialize`.
    pub(super) fn revision(&self) -> Option<Revision> {
        self.facts.revision.get().copied()
    }

    /// Marks the session as in use until the returned value is dropped.
    pub(super) fn begin_use(self: &Arc<Self>) -> SessionUse {
        self.active_uses.fetch_add(1, Ordering::AcqRel);
        SessionUse(Arc::clone(self))
    }

    /// Whether the client has confirmed the handshake.
    pub(super) fn is_handshake_complete(&self) -> bool {
        self.facts.is_complete.load(Ordering::Acquire)
    }

    /// Passes a message to the session. If the message expects a response, the response is added to the returned
    /// mailbox. `requests` are the ids of the requests in the message, for a server in a cluster.
    pub(super) fn post(
        &self,
        message: ParsedMessage<Bytes>,
        caller: Option<AnyCaller>,
        expected: ExpectedResponse,
        requests: Bytes,
    ) -> Option<Arc<Mailbox>> {
        let exchange = self.next_exchange();
        let mailbox = match expected {
            ExpectedResponse::None => None,
            ExpectedResponse::Ping => Some(self.mailboxes.open(exchange, requests, None)),
            ExpectedResponse::Counted(guard) => Some(self.mailboxes.open(exchange, requests, Some(guard))),
        };
        self.exchanges.deliver(Delivery { exchange, caller, message });
        mailbox
    }

    /// Passes a message to the session that another node of the cluster has received, or that it has handled before.
    /// Its response, if it has one, is dropped.
    pub(super) fn deliver(&self, frame: Bytes) {
        let message = ParsedMessage::read(frame, MAX_FORWARDED_DEPTH);
        self.exchanges.deliver(Delivery { exchange: self.next_exchange(), caller: None, message });
    }

    fn next_exchange(&self) -> Exchange {
        Exchange(match &self.link {
            Some(link) => link.response_stream(),
            None => self.last_exchange.fetch_add(1, Ordering::Relaxed) + 1,
        })
    }

    /// Adds a message that belongs to no request, and that another node of the cluster has sent here.
    pub(super) fn push_unsolicited(&self, message: Bytes) {
        self.mailboxes.push_unsolicited(message);
    }

    /// Whether messages can still be added to this stream.
    pub(super) fn has_stream(&self, stream: u64) -> bool {
        self.mailboxes.is_open(stream)
    }

    /// Wakes what waits for room in the output, after messages were written.
    pub(super) fn has_written(&self) {
        self.exchanges.wake_for_room();
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

    /// Whether the session has ended here.
    pub(super) fn is_over(&self) -> bool {
        self.exchanges.is_over()
    }

    /// Whether an HTTP exchange of this session is in progress.
    pub(super) fn is_in_use(&self) -> bool {
        self.active_uses.load(Ordering::Acquire) > 0
    }

    /// Whether no request of this session is running, even without its client, and no stream is open.
    pub(super) fn is_idle(&self) -> bool {
        !self.is_in_use() && self.running.used() == 0
    }

    /// Whether nothing of the session is left on this node but what a new copy would have too, besides the messages
    /// that its client has not read.
    pub(super) fn is_quiet(&self) -> bool {
        // The task that tells the client of changes has a handle.
        let handles = usize::from(self.is_handshake_complete());
        // The changes first: until the notification of one is among the messages, it is in flight.
        self.is_idle()
            && self.facts.client.get().is_none_or(|client| client.watch.is_quiet())
            && self.exchanges.is_quiet(handles)
    }

    /// Whether this principal may use the session, and the session has not ended.
    pub(super) fn is_open_to(&self, principal: Option<&Principal>) -> bool {
        self.principal.as_deref() == principal.map(Principal::name) && !self.is_over()
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
                if self.is_expired(&endpoint.limits) && self.is_needed_elsewhere(&endpoint).await {
                    self.touch();
                    continue;
                }
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
        until(until(self.exchanges.drive(), expires), self.keep_record(&endpoint)).await;
        if let Some(endpoint) = endpoint.upgrade() {
            endpoint.sessions.remove(&self);
        }
        self.end();
    }
}

impl Session {
    fn touch(&self) {
        *self.last_used.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    /// Whether a session that is not used here is used on other nodes, which send it what its client is told unasked.
    async fn is_needed_elsewhere(&self, endpoint: &HttpEndpoint) -> bool {
        match (&endpoint.cluster, &self.link) {
            (Some(node), Some(link)) if link.is_home() => node.exists(&self.id).await,
            _ => false,
        }
    }

    /// Keeps the record of the session while it is in use here. Returns if it is gone: another node may have ended the
    /// session before it knew of this copy.
    async fn keep_record(&self, endpoint: &Weak<HttpEndpoint>) {
        if self.link.is_none() {
            return std::future::pending().await;
        }
        while let Some(every) = endpoint.upgrade().map(|endpoint| endpoint.limits.session_idle / 3) {
            tokio::time::sleep(every).await;
            if let Some(endpoint) = endpoint.upgrade()
                && let Some(node) = &endpoint.cluster
                && !self.is_idle()
                && !node.keep(&endpoint, &self.id).await
            {
                return;
            }
        }
        std::future::pending().await
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
        self.0.touch();
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

/// Messages that another node has received are within its limits.
const MAX_FORWARDED_DEPTH: usize = 100_000;
