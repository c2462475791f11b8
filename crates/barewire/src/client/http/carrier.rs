//! A connection over HTTP: each message of ours becomes a request of its own, and what comes back goes into the engine.
//!
//! ```text
//! engine ── outbox ── jobs ──┬─ post ───── one call, and the stream of its answer (taken up again in the legacy era)
//!    ▲                       ├─ tell ───── what nobody answers, in order
//!    │                       └─ unasked ── the stream that a legacy server tells things on
//!    └── deliver ◀── messages ──┘
//! ```
//!
//! One task owns all the others, and with it they end.

use std::collections::HashMap;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::task::Poll;
use std::time::Duration;

use barewire_proto::frame::FrameError;
use barewire_proto::http::{NextStep, header};
use barewire_proto::rpc::{Invalid, ParsedFrame, Shape};
use barewire_proto::session::CallId;
use bytes::Bytes;
use http::Method;
use http::header::{HeaderMap, HeaderValue};
use tokio::sync::{mpsc, watch};
use tokio::task::{AbortHandle, JoinError, JoinSet};
use tokio::time::timeout;

use super::events::Events;
use super::failure::{HttpFailure, origin};
use super::fetch::{Fetch, FetchError, Response, Url};
use super::outbox::{Backlog, Job, Letter, Outbox};
use super::tools::Tools;
use super::{old, post, unasked};
use crate::client::service::Agreed;
use crate::log::{Log, quoted};
use crate::peer::{CallError, Delivery, Exchange, Exchanges, Peer, Sent, Settings};

/// What the tasks of a connection share.
pub(in crate::client) struct Carrier {
    pub(super) fetch: Fetch,
    pub(super) log: Log,
    pub(super) exchanges: Exchanges<Outbox>,
    /// Bytes of a message.
    pub(super) limit: usize,
    /// The limit of nesting in a message.
    depth: usize,
    pub(super) tools: Tools,
    agreed: Agreed,
    /// The session of the legacy era, if the server has given one.
    session: OnceLock<HeaderValue>,
    /// Where messages go in HTTP+SSE.
    pub(super) elsewhere: OnceLock<Url>,
    backlog: Arc<Backlog>,
    /// How many notifications the server has taken, or refused.
    told: watch::Sender<u64>,
    /// Whether the server has answered the question for a stream of what it tells unasked.
    listening: watch::Sender<bool>,
    /// The session is over, and another is wanted.
    gone: watch::Sender<bool>,
    /// What the answer to the last question about the era means.
    judged: Mutex<Option<NextStep>>,
    tasks: mpsc::UnboundedSender<Task>,
}

/// What is to be run besides what the engine wants.
pub(super) enum Task {
    /// Listen to what the server tells unasked.
    Unasked,
    /// The stream that all messages come on in HTTP+SSE.
    Old(Box<Events>),
}

impl Carrier {
    /// A connection to the server that `fetch` leads to, and what drives it.
    pub(in crate::client) fn open(
        fetch: Fetch,
        settings: Settings,
        agreed: Agreed,
        log: Log,
    ) -> (Arc<Self>, impl Future<Output = ()> + Send + 'static) {
        let (jobs, wanted) = mpsc::unbounded_channel();
        let (tasks, more) = mpsc::unbounded_channel();
        let backlog = Arc::<Backlog>::default();
        let (limit, depth) = (settings.limits.frame, settings.limits.depth);
        let exchanges = Exchanges::new(settings, |room| Outbox::new(room, jobs, Arc::clone(&backlog)));
        let carrier = Arc::new(Self {
            fetch,
            log,
            exchanges,
            limit,
            depth,
            tools: Tools::default(),
            agreed,
            session: OnceLock::new(),
            elsewhere: OnceLock::new(),
            backlog,
            told: watch::Sender::new(0),
            listening: watch::Sender::new(false),
            gone: watch::Sender::new(false),
            judged: Mutex::default(),
            tasks,
        });
        let running = Work::run(Arc::clone(&carrier), wanted, more);
        (carrier, running)
    }

    /// The server, as those see it who ask it something. Once: the connection ends when it is dropped.
    pub(in crate::client) fn peer(&self) -> Peer {
        self.exchanges.peer()
    }

    /// Says when the session is over; and, when it can no longer be said, that so is all else.
    pub(in crate::client) fn gone(&self) -> watch::Receiver<bool> {
        self.gone.subscribe()
    }

    /// Puts a message of the server's into the engine, and waits until more may follow.
    pub(super) async fn deliver(&self, message: Bytes) {
        self.deliver_parsed(self.parse(message)).await;
    }

    /// Parses a message of the server's.
    pub(super) fn parse(&self, message: Bytes) -> ParsedFrame<Bytes> {
        ParsedFrame::parse(message, self.depth)
    }

    /// Puts a message of the server's that has been parsed into the engine, and waits until more may follow.
    pub(super) async fn deliver_parsed(&self, message: ParsedFrame<Bytes>) {
        let message = message.into();
        self.exchanges.deliver(Delivery { exchange: Exchange::NONE, caller: None, message });
        self.exchanges.caught_up().await;
        self.backlog.settle().await;
    }

    /// An event was too long to be kept. If it was an answer, whoever waits for it is told; and if so, or if it may have been
    /// one, that is what comes back.
    pub(super) fn skipped(&self, response: &Response, error: &FrameError) -> Option<CallError> {
        let invalid = Invalid::from_frame(error);
        self.log.report(format_args!("an event was skipped: {error}: {}", quoted(error.prefix())));
        if let Shape::Request | Shape::Notification = invalid.shape {
            return None;
        }
        let too_long: CallError = FetchError::TooLong { origin: origin(response), limit: self.limit }.into();
        if let Some(call) = invalid.id.as_ref().and_then(CallId::from_id) {
            self.exchanges.fail(call, too_long.clone());
        }
        Some(too_long)
    }

    /// Whether what was agreed on is modern.
    fn is_modern(&self) -> bool {
        self.agreed.get().is_some_and(|revision| revision.is_modern())
    }

    /// Whether what was agreed on has arrays of messages.
    pub(super) fn has_batches(&self) -> bool {
        self.agreed.get().is_some_and(|revision| revision.has_batches())
    }

    /// Takes the session that the answer to `initialize` gives.
    pub(super) fn enter(&self, response: &Response) {
        let Some(id) = response.headers.get(header::SESSION_ID) else { return };
        // MCP 2025-11-25, basic/transports: "MUST only contain visible ASCII characters".
        if !response.at_home || id.is_empty() || !id.as_bytes().iter().all(u8::is_ascii_graphic) {
            return self.log.report("the server's session id cannot be sent back and is ignored");
        }
        let mut id = id.clone();
        id.set_sensitive(true);
        let _ = self.session.set(id);
    }

    /// The server has said that the session is over. The client is told, and nothing more is sent in it.
    pub(super) fn leave(&self) {
        self.gone.send_replace(true);
    }

    /// Whether the session is over.
    pub(super) fn is_gone(&self) -> bool {
        *self.gone.borrow()
    }

    /// Adds what says which session and revision of the legacy era a request belongs to. Says whether there is a session.
    pub(super) fn in_session(&self, headers: &mut HeaderMap) -> bool {
        if let Some(revision) = self.agreed.get().filter(|revision| !revision.is_modern()) {
            headers.insert(header::PROTOCOL_VERSION, HeaderValue::from_static(revision.as_str()));
        }
        // HTTP+SSE has no sessions but its stream.
        if self.elsewhere.get().is_some() {
            return false;
        }
        let Some(session) = self.session.get() else { return false };
        headers.insert(header::SESSION_ID, session.clone());
        true
    }

    /// Where messages go.
    pub(super) fn url(&self) -> &Url {
        self.elsewhere.get().unwrap_or_else(|| self.fetch.url())
    }

    /// What the answer to a question about the era means.
    pub(super) fn judge(&self, next: NextStep) {
        *self.judged.lock().unwrap_or_else(PoisonError::into_inner) = Some(next);
    }

    pub(super) fn judged(&self) -> Option<NextStep> {
        self.judged.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Has something run as long as the connection lasts.
    pub(super) fn start(&self, task: Task) {
        let _ = self.tasks.send(task);
    }

    /// Opens the stream of what the server tells unasked, and waits a moment until it is there: many servers ask and tell
    /// things there in the course of a call, and lose them if nobody listens.
    pub(super) async fn listen(&self) {
        self.start(Task::Unasked);
        let _ = timeout(LISTENING, self.listening.subscribe().wait_for(|listening| *listening)).await;
    }

    /// The server has answered the question for the stream.
    pub(super) fn listens(&self) {
        self.listening.send_replace(true);
    }

    /// Waits until so many notifications have been taken.
    pub(super) async fn told(&self, count: u64) {
        let _ = self.told.subscribe().wait_for(|told| *told >= count).await;
    }

    /// Tells the server that the session is no longer needed. Nothing depends on it.
    async fn farewell(&self) {
        let mut headers = HeaderMap::new();
        if !self.is_gone() && self.in_session(&mut headers) {
            let bye = self.fetch.send(Method::DELETE, self.fetch.url(), &headers, Bytes::new(), None);
            let _ = timeout(FAREWELL, bye).await;
        }
    }
}

/// All that is under way for a connection.
struct Work {
    carrier: Arc<Carrier>,
    /// What is awaited, and streams: over when the connection is.
    tasks: JoinSet<Option<CallId>>,
    calls: HashMap<CallId, AbortHandle>,
    /// What is told: has a moment to arrive.
    telling: JoinSet<()>,
    notifications: mpsc::UnboundedSender<Letter>,
    /// How many notifications have been sent.
    notified: u64,
}

impl Work {
    /// Until the connection is over.
    async fn run(
        carrier: Arc<Carrier>,
        mut wanted: mpsc::UnboundedReceiver<Job>,
        mut more: mpsc::UnboundedReceiver<Task>,
    ) {
        let (notifications, lane) = mpsc::unbounded_channel();
        let mut work = Self {
            carrier: Arc::clone(&carrier),
            tasks: JoinSet::new(),
            calls: HashMap::new(),
            telling: JoinSet::new(),
            notifications,
            notified: 0,
        };
        work.telling.spawn(in_order(Arc::clone(&carrier), lane));
        let mut driven = pin!(carrier.exchanges.drive());
        poll_fn(|context| {
            while let Poll::Ready(Some(done)) = work.tasks.poll_join_next(context) {
                work.finished(done);
            }
            while let Poll::Ready(Some(_)) = work.telling.poll_join_next(context) {}
            // The engine first: what it wants is in the list then.
            let driven = driven.as_mut().poll(context);
            while let Poll::Ready(Some(job)) = wanted.poll_recv(context) {
                work.job(job);
            }
            while let Poll::Ready(Some(task)) = more.poll_recv(context) {
                work.task(task);
            }
            // What has just been started has to be polled once, to be waited for.
            match driven {
                Poll::Ready(_) => Poll::Ready(()),
                Poll::Pending => {
                    while let Poll::Ready(Some(done)) = work.tasks.poll_join_next(context) {
                        work.finished(done);
                    }
                    Poll::Pending
                }
            }
        })
        .await;
        work.end().await;
    }

    fn job(&mut self, job: Job) {
        match job {
            Job::Send(letter) => self.send(letter),
            Job::Forget(call) => self.stop(call),
        }
    }

    fn send(&mut self, letter: Letter) {
        let carrier = Arc::clone(&self.carrier);
        match letter.sent {
            Sent::Call(Some(call)) => {
                let posted = post::call(carrier, call, letter, self.notified);
                let task = self.tasks.spawn(async move {
                    posted.await;
                    Some(call)
                });
                self.calls.insert(call, task);
            }
            Sent::Call(None) => {
                let posted = post::batch(carrier, letter, self.notified);
                self.tasks.spawn(async move {
                    posted.await;
                    None
                });
            }
            Sent::Notification => {
                self.notified += 1;
                let _ = self.notifications.send(letter);
            }
            Sent::Answer(_) | Sent::Unnamed => {
                self.telling.spawn(async move { post::tell(&carrier, letter).await });
            }
            Sent::Cancel(call) => {
                // Whatever else comes on its stream is for nobody. A legacy server that takes the end of a connection for no
                // cancelling, as it should, is told; a cancelled request is not answered, so there is nothing to wait for.
                self.stop(call);
                if !carrier.is_modern() {
                    self.telling.spawn(async move { post::tell(&carrier, letter).await });
                }
            }
        }
    }

    fn task(&mut self, task: Task) {
        let carrier = Arc::clone(&self.carrier);
        self.tasks.spawn(async move {
            match task {
                Task::Unasked => unasked::listen(&carrier).await,
                Task::Old(events) => old::listen(&carrier, *events).await,
            }
            None
        });
    }

    /// Closes what carries a call. In the modern era that cancels it.
    fn stop(&mut self, call: CallId) {
        if let Some(task) = self.calls.remove(&call) {
            task.abort();
        }
    }

    fn finished(&mut self, done: Result<Option<CallId>, JoinError>) {
        match done {
            Ok(Some(call)) => {
                self.calls.remove(&call);
            }
            Ok(None) => {}
            Err(error) if error.is_panic() => {
                // What the user gave us to get tokens has panicked; whoever waits is told.
                let call = self.calls.iter().find(|(_, task)| task.id() == error.id()).map(|(call, _)| *call);
                if let Some(call) = call {
                    self.calls.remove(&call);
                    let why = FetchError::Token("what was to get one panicked".to_owned());
                    self.carrier.exchanges.fail(call, why.into());
                }
            }
            Err(_) => {}
        }
    }

    /// What is told has a moment to arrive; then the server is told that it was all.
    async fn end(mut self) {
        self.tasks.abort_all();
        let Self { carrier, mut telling, notifications, .. } = self;
        drop(notifications);
        let _ = timeout(FAREWELL, async { while telling.join_next().await.is_some() {} }).await;
        carrier.farewell().await;
    }
}

/// Tells the server one thing after the other.
async fn in_order(carrier: Arc<Carrier>, mut letters: mpsc::UnboundedReceiver<Letter>) {
    while let Some(letter) = letters.recv().await {
        post::tell(&carrier, letter).await;
        carrier.told.send_modify(|told| *told += 1);
    }
}

/// The answer to a GET, or why there is none: `Ok(None)` if the server offers no stream.
pub(super) type Opened = Result<Option<Events>, HttpFailure>;

/// A round trip to the other end of the world, with TLS. There are servers that say nothing on a stream until they have
/// something to tell.
const LISTENING: Duration = Duration::from_secs(1);

/// Long enough for a server that is there, short enough for a person who waits for the program to end.
pub(in crate::client) const FAREWELL: Duration = Duration::from_secs(2);
