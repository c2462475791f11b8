//! A connection over HTTP: each outgoing message becomes an HTTP request, and the responses are passed to the engine.
//!
//! ```text
//! engine ── outbox ── commands ──┬─ post::call ────────── a call and its response stream (resumed in the legacy era)
//!    ▲                           ├─ post::send_one_way ── messages without a response; notifications stay in order
//!    │                           └─ get_stream ────────── the stream for unsolicited messages of a legacy server
//!    └── deliver ◀── messages ──────┘
//! ```
//!
//! One task owns all other tasks of the connection, and ends them when it ends.

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

use super::events::EventStream;
use super::failure::{HttpFailure, origin};
use super::fetch::{Fetch, FetchError, FetchResponse, HttpUrl};
use super::outbox::{Backlog, Outbox, OutboxCommand, OutgoingMessage};
use super::tool_headers::ToolHeaders;
use super::{get_stream, http_sse, post};
use crate::client::service::AgreedRevision;
use crate::log::{Log, quoted};
use crate::peer::{CallError, ConnectionSettings, Delivery, Exchange, Exchanges, MessageKind, Peer};

/// The state that the tasks of a connection share.
pub(in crate::client) struct HttpConnection {
    pub(super) fetch: Fetch,
    pub(super) log: Log,
    pub(super) exchanges: Exchanges<Outbox>,
    /// The maximum size of a message in bytes.
    pub(super) limit: usize,
    /// The maximum nesting depth of a message.
    depth: usize,
    pub(super) tool_headers: ToolHeaders,
    revision: AgreedRevision,
    /// The id of the legacy session, if the server has sent one.
    session: OnceLock<HeaderValue>,
    /// The URL for messages in HTTP+SSE; empty in Streamable HTTP.
    pub(super) message_url: OnceLock<HttpUrl>,
    backlog: Arc<Backlog>,
    /// The number of notifications that the server has accepted or refused.
    notifications_sent: watch::Sender<u64>,
    /// Whether the server has answered the GET request for the stream of unsolicited messages.
    get_stream_answered: watch::Sender<bool>,
    /// Whether the server has ended the session, so that a new session is needed.
    session_ended: watch::Sender<bool>,
    /// The next step of the negotiation, as decided from the last response to `server/discover` or `initialize`.
    next_step: Mutex<Option<NextStep>>,
    tasks: mpsc::UnboundedSender<BackgroundTask>,
}

/// A task that reads a stream of the server. No command of the engine starts it, unlike the other tasks.
pub(super) enum BackgroundTask {
    /// Read the stream of unsolicited messages.
    GetStream,
    /// Read the HTTP+SSE stream, which carries all messages of the server.
    HttpSse(Box<EventStream>),
}

impl HttpConnection {
    /// Opens a connection to the server of `fetch`. Returns the connection and the future that drives it.
    pub(in crate::client) fn open(
        fetch: Fetch,
        settings: ConnectionSettings,
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

    /// Returns the handle for calls to the server. Call this only once: dropping the handle ends the connection.
    pub(in crate::client) fn peer(&self) -> Peer {
        self.exchanges.peer()
    }

    /// Returns a receiver whose value becomes true when the session ends. Its channel closes when the connection's
    /// tasks have finished.
    pub(in crate::client) fn session_ended(&self) -> watch::Receiver<bool> {
        self.session_ended.subscribe()
    }

    /// Passes a message of the server to the engine, and waits until the engine can accept the next message.
    pub(super) async fn deliver(&self, message: Bytes) {
        self.deliver_parsed(self.parse(message)).await;
    }

    /// Parses a message of the server.
    pub(super) fn parse(&self, message: Bytes) -> ParsedFrame<Bytes> {
        ParsedFrame::parse(message, self.depth)
    }

    /// Passes a parsed message of the server to the engine, and waits until the engine can accept the next message.
    pub(super) async fn deliver_parsed(&self, message: ParsedFrame<Bytes>) {
        let message = message.into();
        self.exchanges.deliver(Delivery { exchange: Exchange::NONE, caller: None, message });
        self.exchanges.inbox_drained().await;
        self.backlog.wait_until_low().await;
    }

    /// Logs an event that was skipped because it is longer than the limit. Unless the event is a request or a
    /// notification, fails the call whose id is in the event, if the id could be read, and returns the call's error.
    pub(super) fn report_skipped_event(&self, response: &FetchResponse, error: &FrameError) -> Option<CallError> {
        let invalid = Invalid::from_frame(error);
        self.log.report(format_args!("skipped an event: {error}: {}", quoted(error.prefix())));
        if let Shape::Request | Shape::Notification = invalid.shape {
            return None;
        }
        let too_long: CallError = FetchError::TooLong { origin: origin(response), limit: self.limit }.into();
        if let Some(call) = invalid.id.as_ref().and_then(CallId::from_id) {
            self.exchanges.fail(call, too_long.clone());
        }
        Some(too_long)
    }

    fn is_modern(&self) -> bool {
        self.revision.get().is_some_and(|revision| revision.is_modern())
    }

    /// Whether the negotiated revision allows batches.
    pub(super) fn has_batches(&self) -> bool {
        self.revision.get().is_some_and(|revision| revision.has_batches())
    }

    /// Reads the session id from the response to `initialize`, and stores it.
    pub(super) fn store_session(&self, response: &FetchResponse) {
        let Some(id) = response.headers.get(header::SESSION_ID) else { return };
        // MCP 2025-11-25, basic/transports: "MUST only contain visible ASCII characters".
        if !response.same_origin || id.is_empty() || !id.as_bytes().iter().all(u8::is_ascii_graphic) {
            return self
                .log
                .report("ignored the server's session id: it is empty, not visible ASCII, or from another origin");
        }
        let mut id = id.clone();
        id.set_sensitive(true);
        let _ = self.session.set(id);
    }

    /// Marks the session as ended. The client sends no more messages in this session, and opens a new session.
    pub(super) fn end_session(&self) {
        self.session_ended.send_replace(true);
    }

    pub(super) fn is_session_ended(&self) -> bool {
        *self.session_ended.borrow()
    }

    /// Adds the headers for the legacy session and revision. Returns whether a session id was added.
    pub(super) fn add_session_headers(&self, headers: &mut HeaderMap) -> bool {
        if let Some(revision) = self.revision.get().filter(|revision| !revision.is_modern()) {
            headers.insert(header::PROTOCOL_VERSION, HeaderValue::from_static(revision.as_str()));
        }
        // HTTP+SSE has no session id: the session lasts as long as the stream.
        if self.message_url.get().is_some() {
            return false;
        }
        let Some(session) = self.session.get() else { return false };
        headers.insert(header::SESSION_ID, session.clone());
        true
    }

    /// Returns the URL to which messages are sent.
    pub(super) fn url(&self) -> &HttpUrl {
        self.message_url.get().unwrap_or_else(|| self.fetch.url())
    }

    /// Sets the next step of the negotiation after a response to `server/discover` or `initialize`.
    pub(super) fn set_next_step(&self, next: NextStep) {
        *self.next_step.lock().unwrap_or_else(PoisonError::into_inner) = Some(next);
    }

    pub(super) fn take_next_step(&self) -> Option<NextStep> {
        self.next_step.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Starts a task, which ends when the connection ends.
    pub(super) fn start(&self, task: BackgroundTask) {
        let _ = self.tasks.send(task);
    }

    /// Opens the stream for unsolicited messages, and waits up to one second until the stream is open. Many servers
    /// send requests and notifications on this stream during a call. Until the stream is open, these messages are lost.
    pub(super) async fn open_get_stream(&self) {
        self.start(BackgroundTask::GetStream);
        let _ = timeout(GET_STREAM_TIMEOUT, self.get_stream_answered.subscribe().wait_for(|answered| *answered)).await;
    }

    /// Records that the server has answered the GET request.
    pub(super) fn mark_get_stream_answered(&self) {
        self.get_stream_answered.send_replace(true);
    }

    /// Waits until the server has accepted or refused this many notifications.
    pub(super) async fn wait_for_notifications(&self, count: u64) {
        let _ = self.notifications_sent.subscribe().wait_for(|sent| *sent >= count).await;
    }

    /// Ends the session with DELETE. Errors are ignored.
    async fn delete_session(&self) {
        let mut headers = HeaderMap::new();
        if !self.is_session_ended() && self.add_session_headers(&mut headers) {
            let delete = self.fetch.send(Method::DELETE, self.fetch.url(), &headers, Bytes::new(), None);
            let _ = timeout(FAREWELL_TIMEOUT, delete).await;
        }
    }
}

/// The running tasks of a connection.
struct ConnectionTasks {
    connection: Arc<HttpConnection>,
    /// Tasks for calls and streams. They are aborted when the connection ends.
    tasks: JoinSet<Option<CallId>>,
    calls: HashMap<CallId, AbortHandle>,
    /// Tasks that send messages without a response. They have two seconds to finish after the connection has ended.
    one_way: JoinSet<()>,
    notifications: mpsc::UnboundedSender<OutgoingMessage>,
    /// The number of notifications sent so far.
    notification_count: u64,
}

impl ConnectionTasks {
    /// Runs until the connection ends.
    async fn run(
        connection: Arc<HttpConnection>,
        mut commands: mpsc::UnboundedReceiver<OutboxCommand>,
        mut background: mpsc::UnboundedReceiver<BackgroundTask>,
    ) {
        let (notifications, queue) = mpsc::unbounded_channel();
        let mut running = Self {
            connection: Arc::clone(&connection),
            tasks: JoinSet::new(),
            calls: HashMap::new(),
            one_way: JoinSet::new(),
            notifications,
            notification_count: 0,
        };
        running.one_way.spawn(send_notifications(Arc::clone(&connection), queue));
        let mut engine = pin!(connection.exchanges.drive());
        poll_fn(|context| {
            while let Poll::Ready(Some(done)) = running.tasks.poll_join_next(context) {
                running.task_finished(done);
            }
            while let Poll::Ready(Some(_)) = running.one_way.poll_join_next(context) {}
            // The engine is polled first, because it fills the command queue.
            let driven = engine.as_mut().poll(context);
            while let Poll::Ready(Some(command)) = commands.poll_recv(context) {
                running.handle_command(command);
            }
            while let Poll::Ready(Some(task)) = background.poll_recv(context) {
                running.start_task(task);
            }
            // `tasks` must be polled again after a task was started, so that this future is woken when the task
            // finishes.
            match driven {
                Poll::Ready(_) => Poll::Ready(()),
                Poll::Pending => {
                    while let Poll::Ready(Some(done)) = running.tasks.poll_join_next(context) {
                        running.task_finished(done);
                    }
                    Poll::Pending
                }
            }
        })
        .await;
        running.end().await;
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
            MessageKind::Call(Some(call)) => {
                let post = post::call(connection, call, message, self.notification_count);
                let task = self.tasks.spawn(async move {
                    post.await;
                    Some(call)
                });
                self.calls.insert(call, task);
            }
            MessageKind::Call(None) => {
                let post = post::batch(connection, message, self.notification_count);
                self.tasks.spawn(async move {
                    post.await;
                    None
                });
            }
            MessageKind::Notification => {
                self.notification_count += 1;
                let _ = self.notifications.send(message);
            }
            MessageKind::Answer(_) | MessageKind::AnswerWithoutId => {
                self.one_way.spawn(async move { post::send_one_way(&connection, message).await });
            }
            MessageKind::Cancel(call) => {
                // A cancelled call waits for no response, so its HTTP request is aborted. A legacy server does not take
                // the end of an HTTP connection as a cancellation, so it also gets a notification.
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
                BackgroundTask::GetStream => get_stream::read_messages(&connection).await,
                BackgroundTask::HttpSse(events) => http_sse::read_messages(&connection, *events).await,
            }
            None
        });
    }

    /// Aborts the HTTP request of a call. In the modern era, aborting the request cancels the call.
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
                // The user's token provider or challenge handler has panicked; the call fails.
                let call = self.calls.iter().find(|(_, task)| task.id() == error.id()).map(|(call, _)| *call);
                if let Some(call) = call {
                    self.calls.remove(&call);
                    let why = FetchError::Token("the token provider panicked".to_owned());
                    self.connection.exchanges.fail(call, why.into());
                }
            }
            Err(_) => {}
        }
    }

    /// Waits up to two seconds until the messages without a response have been sent, then ends the session.
    async fn end(mut self) {
        self.tasks.abort_all();
        let Self { connection, mut one_way, notifications, .. } = self;
        drop(notifications);
        let _ = timeout(FAREWELL_TIMEOUT, async { while one_way.join_next().await.is_some() {} }).await;
        connection.delete_session().await;
    }
}

/// Sends notifications one after the other.
async fn send_notifications(connection: Arc<HttpConnection>, mut queue: mpsc::UnboundedReceiver<OutgoingMessage>) {
    while let Some(message) = queue.recv().await {
        post::send_one_way(&connection, message).await;
        connection.notifications_sent.send_modify(|sent| *sent += 1);
    }
}

/// The stream that a GET request has opened; `Ok(None)` if the server offers no such stream.
pub(super) type GetStreamResult = Result<Option<EventStream>, HttpFailure>;

/// The maximum time to wait until the GET stream is open: long enough for a TLS connection around the world. The time
/// is limited because some servers send no response headers until they have a message.
const GET_STREAM_TIMEOUT: Duration = Duration::from_secs(1);

/// The maximum time for the last messages to be sent, and for the session to be deleted: long enough for a server that
/// responds, short enough for a user who waits for the program to end.
pub(in crate::client) const FAREWELL_TIMEOUT: Duration = Duration::from_secs(2);
