//! Sends `subscriptions/listen` requests of the modern era ("listen requests"), and reads their notifications.

use std::fmt;
use std::future::{Future, IntoFuture, poll_fn};
use std::pin::pin;
use std::sync::{Arc, Weak};
use std::task::Poll;
#[cfg(feature = "http")]
use std::time::Duration;

use barewire_proto::mcp::{SubscriptionFilter, SubscriptionParams};
use barewire_proto::rpc::ErrorObject;
use tokio::sync::watch;
use tokio::task::AbortHandle;

use super::link::Link;
use super::notifications::{NOTIFICATION_BUFFER, NOTIFICATION_BUFFER_BYTES, ServerNotification};
use super::params::{CallParams, Members};
use super::restart::{LinkState, next_link};
use super::ring::{Ring, RingRead, RingReader};
use super::{Client, ClientError, ClientShared};
use crate::peer::{CallError, Raw};

/// An open `subscriptions/listen` request and the notifications that belong to it. Dropping this value cancels the
/// request.
///
/// The stream of [`Client::notifications`] also yields these notifications.
pub struct Listen {
    handle: ListenHandle,
    reader: RingReader<ServerNotification>,
    _client: Client,
}

/// The reason why a listen request ended.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum ListenEnd {
    /// The server ended the listen request normally, with a response.
    Graceful,
    /// The server cancelled the listen request without a response.
    Cancelled,
    /// The server refused the listen request, for example when the client sent it again after a restart.
    Refused(ErrorObject),
    /// The connection ended, or the listen request could not be sent again on the next connection.
    Lost(ClientError),
}

impl Listen {
    /// Returns the notifications that the server has agreed to send: the requested filter or a part of it. After a
    /// restart, the server can agree to another part.
    pub fn acknowledged(&self) -> SubscriptionFilter {
        self.handle.state.progress.borrow().acknowledged.clone().unwrap_or_default()
    }

    /// Waits for the next notification and returns it; `None` after the listen request has ended.
    pub async fn next(&mut self) -> Option<ServerNotification> {
        match self.reader.next().await? {
            RingRead::Next(notification) => Some(notification),
            RingRead::Missed(count) => Some(ServerNotification::Lagged(count)),
        }
    }

    /// Returns the reason why the listen request ended; `None` while the request is open.
    pub fn end(&self) -> Option<ListenEnd> {
        self.handle.state.progress.borrow().end.clone()
    }

    /// Waits until the listen request ends, and returns the reason.
    pub async fn ended(&self) -> ListenEnd {
        let mut progress = self.handle.state.progress.subscribe();
        let ended = progress.wait_for(|progress| progress.end.is_some()).await;
        ended.ok().and_then(|progress| progress.end.clone()).expect("`self` owns the sender")
    }
}

impl fmt::Debug for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Listen")
            .field("acknowledged", &self.acknowledged())
            .field("end", &self.end())
            .finish_non_exhaustive()
    }
}

/// Keeps a listen request open. Dropping the handle cancels the request.
pub(super) struct ListenHandle {
    state: Arc<ListenState>,
    task: AbortHandle,
}

impl ListenHandle {
    pub(super) fn has_ended(&self) -> bool {
        self.state.progress.borrow().end.is_some()
    }
}

impl Drop for ListenHandle {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The notifications of a listen request, and whether the request has been acknowledged or has ended. The request's
/// task and its readers share this state.
pub(super) struct ListenState {
    ring: Ring<ServerNotification>,
    progress: watch::Sender<ListenProgress>,
}

#[derive(Debug, Default)]
struct ListenProgress {
    acknowledged: Option<SubscriptionFilter>,
    end: Option<ListenEnd>,
}

impl ListenState {
    pub(super) fn acknowledge(&self, filter: SubscriptionFilter) {
        self.progress.send_modify(|progress| progress.acknowledged = Some(filter));
    }

    pub(super) fn push(&self, notification: ServerNotification, bytes: usize) {
        self.ring.push(notification, bytes);
    }

    fn end(&self, end: ListenEnd) {
        self.progress.send_modify(|progress| progress.end = Some(end));
        self.ring.close();
    }
}

impl Client {
    /// Subscribes to notifications of a modern server, and waits for the server's acknowledgement.
    ///
    /// Legacy servers send list changes without a request, and resource changes after [`Self::subscribe`].
    pub async fn listen(&self, filter: SubscriptionFilter) -> Result<Listen, ClientError> {
        let (handle, reader, _) = self.0.listen(filter).await?;
        Ok(Listen { handle, reader, _client: self.clone() })
    }
}

impl ClientShared {
    /// Sends a listen request, waits for the acknowledgement, and returns the handle, the notifications and the
    /// acknowledged filter.
    pub(super) async fn listen(
        self: &Arc<Self>,
        filter: SubscriptionFilter,
    ) -> Result<(ListenHandle, RingReader<ServerNotification>, SubscriptionFilter), ClientError> {
        let link = self.link_for(LISTEN).await?;
        let (handle, reader) = self.spawn_listen(link, filter, true)?;
        let acknowledged = handle.wait_for_acknowledgement();
        let acknowledged = match self.settings.timeout {
            None => acknowledged.await,
            Some(after) => match tokio::time::timeout(after, acknowledged).await {
                Ok(acknowledged) => acknowledged,
                // Dropping the handle cancels the listen request.
                Err(_) => Err(ClientError::TimedOut { method: LISTEN.to_owned(), after: Some(after) }),
            },
        }?;
        Ok((handle, reader, acknowledged))
    }

    /// Starts the task of a listen request without waiting for the acknowledgement. If `is_awaited` is false, no caller
    /// waits for the acknowledgement, so the task logs a refusal.
    pub(super) fn spawn_listen(
        self: &Arc<Self>,
        link: Arc<Link>,
        filter: SubscriptionFilter,
        is_awaited: bool,
    ) -> Result<(ListenHandle, RingReader<ServerNotification>), ClientError> {
        let state = Arc::new(ListenState {
            ring: Ring::new(NOTIFICATION_BUFFER, NOTIFICATION_BUFFER_BYTES),
            progress: watch::Sender::default(),
        });
        let reader = state.ring.reader();
        let params = CallParams::from_value(&SubscriptionParams::new(filter));
        let listen = ListenTask {
            shared: Arc::downgrade(self),
            link_state: self.state.subscribe(),
            params: params.map_err(ClientError::Params)?,
            state: Arc::clone(&state),
            is_awaited,
        };
        let task = tokio::spawn(listen.run(link)).abort_handle();
        Ok((ListenHandle { state, task }, reader))
    }
}

impl ListenHandle {
    /// Waits for the server's acknowledgement.
    async fn wait_for_acknowledgement(&self) -> Result<SubscriptionFilter, ClientError> {
        let mut progress = self.state.progress.subscribe();
        let acknowledged_or_ended =
            progress.wait_for(|progress| progress.acknowledged.is_some() || progress.end.is_some());
        let progress = acknowledged_or_ended.await.expect("`self` owns the sender");
        let method = || LISTEN.to_owned();
        match (&progress.acknowledged, &progress.end) {
            (Some(filter), _) => Ok(filter.clone()),
            (None, Some(ListenEnd::Refused(error))) => {
                Err(ClientError::Refused { method: method(), error: error.clone() })
            }
            (None, Some(ListenEnd::Lost(error))) => Err(error.clone()),
            (None, _) => Err(ClientError::fault(LISTEN, "the request ended before it was acknowledged")),
        }
    }
}

/// The task that keeps a listen request open.
struct ListenTask {
    /// A weak reference, because an open listen request must not keep the client alive.
    shared: Weak<ClientShared>,
    link_state: watch::Receiver<LinkState>,
    params: CallParams,
    state: Arc<ListenState>,
    /// Whether a caller waits for the acknowledgement.
    is_awaited: bool,
}

impl ListenTask {
    /// Runs the listen request until it ends, and sends it again on each new connection.
    async fn run(mut self, mut link: Arc<Link>) {
        // The number of consecutive failed attempts.
        #[cfg(feature = "http")]
        let mut failures = 0;
        loop {
            #[cfg(feature = "http")]
            let began = tokio::time::Instant::now();
            let end = match self.run_once(&link).await {
                Ok(_) => ListenEnd::Graceful,
                Err(CallError::Cancelled) => ListenEnd::Cancelled,
                Err(CallError::Refused(error)) => ListenEnd::Refused(error),
                Err(CallError::Closed(_)) => match next_link(&mut self.link_state, link.number).await {
                    Some(next) if next.server.revision.has_listen() => {
                        self.state.push(ServerNotification::Restarted, 0);
                        link = next;
                        continue;
                    }
                    Some(next) => {
                        let revision = next.server.revision;
                        let method = LISTEN.to_owned();
                        ListenEnd::Lost(ClientError::NotInRevision { method, revision })
                    }
                    None => self.wait_for_loss().await,
                },
                // The HTTP stream broke off; proxies often close long-lived streams. Notifications might have been
                // missed.
                #[cfg(feature = "http")]
                Err(error) if self.has_lost_stream(&error) => {
                    failures = if began.elapsed() >= STABLE_AFTER { 0 } else { failures + 1 };
                    if self.wait_before_retry(failures).await {
                        self.state.push(ServerNotification::Restarted, 0);
                        continue;
                    }
                    self.wait_for_loss().await
                }
                Err(error) => ListenEnd::Lost(ClientError::from_call(LISTEN, None, error)),
            };
            if let (ListenEnd::Refused(error), false, Some(shared)) = (&end, self.is_awaited, self.shared.upgrade()) {
                let why = CallError::Refused(error.clone());
                shared.log(format_args!("{LISTEN} failed after the server was restarted: {why}"));
            }
            return self.state.end(end);
        }
    }

    /// Sends the listen request over one connection, and waits for its end.
    async fn run_once(&mut self, link: &Link) -> Result<Raw, CallError> {
        let closed = |link: &Link| {
            let peer = link.peer.clone();
            async move { CallError::Closed(peer.ended().await) }
        };
        let Some(shared) = self.shared.upgrade() else { return Err(closed(link).await) };
        let meta = shared.meta(link, None, &Members::new());
        let params = self.params.with(Members::new(), meta).map_err(CallError::Params)?;
        // MCP 2026-07-28, basic/patterns/subscriptions: the stream stays open until it is cancelled.
        let call = link.peer.call::<Raw>(LISTEN, params).no_timeout();
        let _registration = shared.hub.register(call.id(), Arc::clone(&self.state));
        drop(shared);
        let mut call = call.into_future();
        let mut ending = pin!(wait_until_ending(&mut self.link_state));
        let ended = poll_fn(|context| match call.as_mut().poll(context) {
            Poll::Ready(ended) => Poll::Ready(Some(ended)),
            Poll::Pending => ending.as_mut().poll(context).map(|()| None),
        });
        match ended.await {
            Some(ended) => ended,
            // The client is shutting down, and the shutdown must not wait for the listen request.
            None => {
                drop(call);
                Err(closed(link).await)
            }
        }
    }

    /// Whether an acknowledged listen request has lost its HTTP stream and can be sent again.
    #[cfg(feature = "http")]
    fn has_lost_stream(&self, error: &CallError) -> bool {
        let is_lost =
            super::http::HttpFailure::from_call_error(error).is_some_and(super::http::HttpFailure::is_stream_loss);
        is_lost && self.state.progress.borrow().acknowledged.is_some()
    }

    /// Waits before the next attempt, longer after each failure. Returns false if the client is shutting down or was
    /// dropped.
    #[cfg(feature = "http")]
    async fn wait_before_retry(&mut self, failures: u32) -> bool {
        let pause = FIRST_RETRY_PAUSE.saturating_mul(1 << failures.min(8)).min(MAX_RETRY_PAUSE);
        tokio::time::timeout(pause, wait_until_ending(&mut self.link_state)).await.is_err()
            && self.shared.strong_count() > 0
    }

    /// Waits until the client has ended, and returns the reason.
    async fn wait_for_loss(&mut self) -> ListenEnd {
        let ended = self.link_state.wait_for(|state| matches!(state, LinkState::Ended { .. })).await;
        match ended.as_deref() {
            Ok(LinkState::Ended { error, .. }) => ListenEnd::Lost(error.clone()),
            _ => ListenEnd::Cancelled,
        }
    }
}

async fn wait_until_ending(state: &mut watch::Receiver<LinkState>) {
    if state.wait_for(LinkState::is_ending).await.is_err() {
        // The client was dropped. The functions that wait here notice that in another way: their call ends, or their
        // weak reference is dead.
        std::future::pending::<()>().await;
    }
}

/// The first pause before a listen request that lost its stream is sent again. The pause doubles with each consecutive
/// failure, up to [`MAX_RETRY_PAUSE`].
#[cfg(feature = "http")]
const FIRST_RETRY_PAUSE: Duration = Duration::from_millis(250);
#[cfg(feature = "http")]
const MAX_RETRY_PAUSE: Duration = Duration::from_secs(30);

/// A stream that was open for at least this long resets the count of failures.
#[cfg(feature = "http")]
const STABLE_AFTER: Duration = Duration::from_secs(10);

pub(super) const LISTEN: &str = "subscriptions/listen";
