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
use barewire_proto::http::{Next, header};
use barewire_proto::rpc::{Invalid, KeptFrame, Shape};
use barewire_proto::session::CallId;
use bytes::Bytes;
use http::Method;
use http::header::{HeaderMap, HeaderValue};
use tokio::sync::{mpsc, watch};
use tokio::task::{AbortHandle, JoinError, JoinSet};
use tokio::time::timeout;

use super::events::EventStream;
use super::failure::{HttpFailure, origin};
use super::fetch::{Fetch, FetchError, Response, Url};
use super::outbox::{Backlog, Outbox, OutboxCommand, OutgoingMessage};
use super::tool_headers::ToolHeaders;
use super::{get_stream, http_sse, post};
use crate::client::service::AgreedRevision;
use crate::log::{Log, quoted};
use crate::peer::{CallError, Delivery, Exchange, Exchanges, Peer, Sent, Settings};

/// What the tasks of a connection share.
pub(in crate::client) struct HttpConnection {
    pub(super) fetch: Fetch,
    pub(super) log: Log,
    pub(super) exchanges: Exchanges<Outbox>,
    /// Bytes of a message.
    pub(super) limit: usize,
    /// The limit of nesting in a message.
    depth: usize,
    pub(super) tool_headers: ToolHeaders,
    revision: AgreedRevision,
    /// The session of the legacy era, if the server has given one.
    session: OnceLock<HeaderValue>,
    /// Where messages go in HTTP+SSE.
    pub(super) message_url: OnceLock<Url>,
    backlog: Arc<Backlog>,
    /// How many notifications the server has taken, or refused.
    notifications_sent: watch::Sender<u64>,
    /// Whether the server has answered the question for a stream of what it tells unasked.
    get_stream_answered: watch::Sender<bool>,
    /// The session is over, and another is wanted.
    session_ended: watch::Sender<bool>,
    /// What the answer to the last question about the era means.
    next_step: Mutex<Option<Next>>,
    tasks: mpsc::UnboundedSender<BackgroundTask>,
}

/// What is to be run besides what the engine wants.
pub(super) enum BackgroundTask {
    /// Listen to what the server tells unasked.
    GetStream,
    /// The stream that all messages come on in HTTP+SSE.
    HttpSse(Box<EventStream>),
}

impl HttpConnection {
    /// A connection to the server that `fetch` leads to, and what drives it.
    pub(in crate::client) fn open(
        fetch: Fetch,
        settings: Settings,
        revision: AgreedRevision,
        log: Log,
    ) -> (Arc<Self>, impl Future<Output = ()> + Send + 'static) {
        let (command_sender, commands) = mpsc::unbounded_channel();
        let (tasks, background) = mpsc::unbounded_channel();
        let backlog = Arc::<Backlog>::default();
        let (limit, depth) = (settings.limits.frame, settings.limits.depth);
        let exchanges = Exchanges::new(settings, |room| Outbox::new(room, command_sender, Arc::clone(&backlog)));
        let connection = Arc::new(Self {
            fetch,
            log,
            exchanges,
            limit,
            depth,
            tool_headers: ToolHeaders::default(),
            revision,
            session: OnceLock::new(),
            message_url: OnceLock::new(),
            backlog,
            notifications_sent: watch::Sender::new(0),
            get_stream_answered: watch::Sender::new(false),
            session_ended: watch::Sender::new(false),
            next_step: Mutex::default(),
            tasks,
        });
        let driver = ConnectionTasks::run(Arc::clone(&connection), commands, background);
        (connection, driver)
    }

    /// The server, as those see it who ask it something. Once: the connection ends when it is dropped.
    pub(in crate::client) fn peer(&self) -> Peer {
        self.exchanges.peer()
    }

    /// Says when the session is over; and, when it can no longer be said, that so is all else.
    pub(in crate::client) fn session_ended(&self) -> watch::Receiver<bool> {
        self.session_ended.subscribe()
    }

    /// Puts a message of the server's into the engine, and waits until more may follow.
    pub(super) async fn deliver(&self, message: Bytes) {
        self.deliver_parsed(self.parse(message)).await;
    }

    /// Parses a message of the server's.
    pub(super) fn parse(&self, message: Bytes) -> KeptFrame<Bytes> {
        KeptFrame::parse(message, self.depth)
    }

    /// Puts a message of the server's that has been parsed into the engine, and waits until more may follow.
    pub(super) async fn deliver_parsed(&self, message: KeptFrame<Bytes>) {
        let message = message.into();
        self.exchanges.deliver(Delivery { exchange: Exchange::NONE, caller: None, message });
        self.exchanges.caught_up().await;
        self.backlog.wait_until_low().await;
    }

    /// An event was too long to be kept. If it was an answer, whoever waits for it is told; and if so, or if it may have been
    /// one, that is what comes back.
    pub(super) fn report_skipped_event(&self, response: &Response, error: &FrameError) -> Option<CallError> {
        let invalid = Invalid::from_frame(error);
        self.log.report(format_args!("an event was skipped: {error}: {}", quoted(error.begins())));
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
        self.revision.get().is_some_and(|revision| revision.is_modern())
    }

    /// Whether what was agreed on has arrays of messages.
    pub(super) fn has_batches(&self) -> bool {
        self.revision.get().is_some_and(|revision| revision.has_batches())
    }

    /// Takes the session that the answer to `initialize` gives.
    pub(super) fn store_session(&self, response: &Response) {
        let Some(id) = response.headers.get(header::SESSION_ID) else { return };
        // MCP 2025-11-25, basic/transports: "MUST only contain visible ASCII characters".
        if !response.same_origin || id.is_empty() || !id.as_bytes().iter().all(u8::is_ascii_graphic) {
            return self.log.report("the server's session id cannot be sent back and is ignored");
        }
        let mut id = id.clone();
        id.set_sensitive(true);
        let _ = self.session.set(id);
    }

    /// The server has said that the session is over. The client is told, and nothing more is sent in it.
    pub(super) fn end_session(&self) {
        self.session_ended.send_replace(true);
    }

    /// Whether the session is over.
    pub(super) fn is_session_ended(&self) -> bool {
        *self.session_ended.borrow()
    }

    /// Adds what says which session and revision of the legacy era a request belongs to. Says whether there is a session.
    pub(super) fn add_session_headers(&self, headers: &mut HeaderMap) -> bool {
        if let Some(revision) = self.revision.get().filter(|revision| !revision.is_modern()) {
            headers.insert(header::PROTOCOL_VERSION, HeaderValue::from_static(revision.as_str()));
        }
        // HTTP+SSE has no sessions but its stream.
        if self.message_url.get().is_some() {
            return false;
        }
        let Some(session) = self.session.get() else { return false };
        headers.insert(header::SESSION_ID, session.clone());
        true
    }

    /// Where messages go.
    pub(super) fn url(&self) -> &Url {
        self.message_url.get().unwrap_or_else(|| self.fetch.url())
    }

    /// What the answer to a question about the era means.
    pub(super) fn set_next_step(&self, next: Next) {
        *self.next_step.lock().unwrap_or_else(PoisonError::into_inner) = Some(next);
    }

    pub(super) fn take_next_step(&self) -> Option<Next> {
        self.next_step.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Has something run as long as the connection lasts.
    pub(super) fn start(&self, task: BackgroundTask) {
        let _ = self.tasks.send(task);
    }

    /// Opens the stream of what the server tells unasked, and waits a moment until it is there: many servers ask and tell
    /// things there in the course of a call, and lose them if nobody listens.
    pub(super) async fn open_get_stream(&self) {
        self.start(BackgroundTask::GetStream);
        let _ = timeout(GET_STREAM_TIMEOUT, self.get_stream_answered.subscribe().wait_for(|answered| *answered)).await;
    }

    /// The server has answered the question for the stream.
    pub(super) fn get_stream_answered(&self) {
        self.get_stream_answered.send_replace(true);
    }

    /// Waits until so many notifications have been taken.
    pub(super) async fn wait_for_notifications(&self, count: u64) {
        let _ = self.notifications_sent.subscribe().wait_for(|sent| *sent >= count).await;
    }

    /// Tells the server that the session is no longer needed. Nothing depends on it.
    async fn delete_session(&self) {
        let mut headers = HeaderMap::new();
        if !self.is_session_ended() && self.add_session_headers(&mut headers) {
            let delete = self.fetch.send(Method::DELETE, self.fetch.url(), &headers, Bytes::new(), None);
            let _ = timeout(FAREWELL_TIMEOUT, delete).await;
        }
    }
}

/// All that is under way for a connection.
struct ConnectionTasks {
    connection: Arc<HttpConnection>,
    /// What is awaited, and streams: over when the connection is.
    tasks: JoinSet<Option<CallId>>,
    calls: HashMap<CallId, AbortHandle>,
    /// What is told: has a moment to arrive.
    one_way: JoinSet<()>,
    notifications: mpsc::UnboundedSender<OutgoingMessage>,
    /// How many notifications have been sent.
    notification_count: u64,
}

impl ConnectionTasks {
    /// Until the connection is over.
    async fn run(
        connection: Arc<HttpConnection>,
        mut commands: mpsc::UnboundedReceiver<OutboxCommand>,
        mut background: mpsc::UnboundedReceiver<BackgroundTask>,
    ) {
        let (notifications, queue) = mpsc::unbounded_channel();
        let mut work = Self {
            connection: Arc::clone(&connection),
            tasks: JoinSet::new(),
            calls: HashMap::new(),
            one_way: JoinSet::new(),
            notifications,
            notification_count: 0,
        };
        work.one_way.spawn(send_notifications(Arc::clone(&connection), queue));
        let mut engine = pin!(connection.exchanges.drive());
        poll_fn(|context| {
            while let Poll::Ready(Some(done)) = work.tasks.poll_join_next(context) {
                work.task_finished(done);
            }
            while let Poll::Ready(Some(_)) = work.one_way.poll_join_next(context) {}
            // The engine first: what it wants is in the list then.
            let driven = engine.as_mut().poll(context);
            while let Poll::Ready(Some(command)) = commands.poll_recv(context) {
                work.handle_command(command);
            }
            while let Poll::Ready(Some(task)) = background.poll_recv(context) {
                work.start_task(task);
            }
            // What has just been started has to be polled once, to be waited for.
            match driven {
                Poll::Ready(_) => Poll::Ready(()),
                Poll::Pending => {
                    while let Poll::Ready(Some(done)) = work.tasks.poll_join_next(context) {
                        work.task_finished(done);
                    }
                    Poll::Pending
                }
            }
        })
        .await;
        work.end().await;
    }

    fn handle_command(&mut self, command: OutboxCommand) {
        match command {
            OutboxCommand::Send(message) => self.send(message),
            OutboxCommand::Forget(call) => self.stop(call),
        }
    }

    fn send(&mut self, message: OutgoingMessage) {
        let connection = Arc::clone(&self.connection);
        match message.sent {
            Sent::Call(Some(call)) => {
                let post = post::call(connection, call, message, self.notification_count);
                let task = self.tasks.spawn(async move {
                    post.await;
                    Some(call)
                });
                self.calls.insert(call, task);
            }
            Sent::Call(None) => {
                let post = post::batch(connection, message, self.notification_count);
                self.tasks.spawn(async move {
                    post.await;
                    None
                });
            }
            Sent::Notification => {
                self.notification_count += 1;
                let _ = self.notifications.send(message);
            }
            Sent::Answer(_) | Sent::Unnamed => {
                self.one_way.spawn(async move { post::send_one_way(&connection, message).await });
            }
            Sent::Cancel(call) => {
                // Whatever else comes on its stream is for nobody. A legacy server that takes the end of a connection for no
                // cancelling, as it should, is told; a cancelled request is not answered, so there is nothing to wait for.
                self.stop(call);
                if !connection.is_modern() {
                    self.one_way.spawn(async move { post::send_one_way(&connection, message).await });
                }
            }
        }
    }

    fn start_task(&mut self, task: BackgroundTask) {
        let connection = Arc::clone(&self.connection);
        self.tasks.spawn(async move {
            match task {
                BackgroundTask::GetStream => get_stream::listen(&connection).await,
                BackgroundTask::HttpSse(events) => http_sse::listen(&connection, *events).await,
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

    fn task_finished(&mut self, done: Result<Option<CallId>, JoinError>) {
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
                    self.connection.exchanges.fail(call, why.into());
                }
            }
            Err(_) => {}
        }
    }

    /// What is told has a moment to arrive; then the server is told that it was all.
    async fn end(mut self) {
        self.tasks.abort_all();
        let Self { connection, mut one_way, notifications, .. } = self;
        drop(notifications);
        let _ = timeout(FAREWELL_TIMEOUT, async { while one_way.join_next().await.is_some() {} }).await;
        connection.delete_session().await;
    }
}

/// Tells the server one thing after the other.
async fn send_notifications(connection: Arc<HttpConnection>, mut queue: mpsc::UnboundedReceiver<OutgoingMessage>) {
    while let Some(message) = queue.recv().await {
        post::send_one_way(&connection, message).await;
        connection.notifications_sent.send_modify(|sent| *sent += 1);
    }
}

/// The answer to a GET, or why there is none: `Ok(None)` if the server offers no stream.
pub(super) type GetStreamResult = Result<Option<EventStream>, HttpFailure>;

/// A round trip to the other end of the world, with TLS. There are servers that say nothing on a stream until they have
/// something to tell.
const GET_STREAM_TIMEOUT: Duration = Duration::from_secs(1);

/// Long enough for a server that is there, short enough for a person who waits for the program to end.
pub(in crate::client) const FAREWELL_TIMEOUT: Duration = Duration::from_secs(2);
