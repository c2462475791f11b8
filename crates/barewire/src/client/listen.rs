//! `subscriptions/listen` of the modern era -> a stream of notifications, from its acknowledgement to its end.

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

/// What a server tells of its own accord, since it was asked to. Dropping it tells the server that it is no longer wanted.
///
/// The same notifications come in [`Client::notifications`] as well.
pub struct Listen {
    handle: ListenHandle,
    reader: RingReader<ServerNotification>,
    _client: Client,
}

/// How a listen ended.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum ListenEnd {
    /// The server has ended it, in order: it answered the request.
    Graceful,
    /// The server has ended it without an answer.
    Cancelled,
    /// The server did not want it any more: after it was started again, for example.
    Refused(ErrorObject),
    /// The connection is over.
    Lost(ClientError),
}

impl Listen {
    /// What the server tells: what it was asked for, or less. After a restart it may be something else.
    pub fn acknowledged(&self) -> SubscriptionFilter {
        self.handle.state.progress.borrow().acknowledged.clone().unwrap_or_default()
    }

    /// The next notification; `None` once it has ended.
    pub async fn next(&mut self) -> Option<ServerNotification> {
        match self.reader.next().await? {
            RingRead::Next(notification) => Some(notification),
            RingRead::Missed(count) => Some(ServerNotification::Lagged(count)),
        }
    }

    /// How it ended, if it has.
    pub fn end(&self) -> Option<ListenEnd> {
        self.handle.state.progress.borrow().end.clone()
    }

    /// Waits for the end.
    pub async fn ended(&self) -> ListenEnd {
        let mut progress = self.handle.state.progress.subscribe();
        let ended = progress.wait_for(|progress| progress.end.is_some()).await;
        ended.ok().and_then(|progress| progress.end.clone()).expect("what is held does not go away")
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

/// A listen that is open until this is dropped.
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

/// What has come of a listen so far.
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
    /// Asks a modern server to tell of changes, and waits until it says of which it will.
    ///
    /// In the legacy era servers tell of lists unasked, and of resources after [`Self::subscribe`].
    pub async fn listen(&self, filter: SubscriptionFilter) -> Result<Listen, ClientError> {
        let (handle, reader, _) = self.0.listen(filter).await?;
        Ok(Listen { handle, reader, _client: self.clone() })
    }
}

impl ClientShared {
    /// Opens a listen, and gives what the server has acknowledged.
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
                // Dropped, it is cancelled.
                Err(_) => Err(ClientError::TimedOut { method: LISTEN.to_owned(), after: Some(after) }),
            },
        }?;
        Ok((handle, reader, acknowledged))
    }

    /// Opens a listen, and waits for nothing. If nobody else does either, a refusal is for the log.
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
    /// Waits until the server says what it will tell.
    async fn wait_for_acknowledgement(&self) -> Result<SubscriptionFilter, ClientError> {
        let mut progress = self.state.progress.subscribe();
        let progress_or_end = progress.wait_for(|progress| progress.acknowledged.is_some() || progress.end.is_some());
        let progress = progress_or_end.await.expect("what is held does not go away");
        let method = || LISTEN.to_owned();
        match (&progress.acknowledged, &progress.end) {
            (Some(filter), _) => Ok(filter.clone()),
            (None, Some(ListenEnd::Refused(error))) => {
                Err(ClientError::Refused { method: method(), error: error.clone() })
            }
            (None, Some(ListenEnd::Lost(error))) => Err(error.clone()),
            (None, _) => Err(ClientError::fault(LISTEN, "it ended before it was acknowledged")),
        }
    }
}

/// What keeps a listen open.
struct ListenTask {
    /// Not the client itself: that ends when nobody holds it any more.
    shared: Weak<ClientShared>,
    link_state: watch::Receiver<LinkState>,
    params: CallParams,
    state: Arc<ListenState>,
    /// Somebody waits for what the server says to it.
    is_awaited: bool,
}

impl ListenTask {
    /// Until it is over, over as many connections as that takes.
    async fn run(mut self, mut link: Arc<Link>) {
        // How many times in a row it could not be opened again.
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
                // What carries it broke, as proxies do to what takes long. Nothing is known of what was missed.
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
                shared.log(format_args!("the server was started again, and {LISTEN} failed: {why}"));
            }
            return self.state.end(end);
        }
    }

    /// Over one connection.
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
            // The connection is shut down, and must not wait for this.
            None => {
                drop(call);
                Err(closed(link).await)
            }
        }
    }

    /// Whether a listen that was acknowledged has lost its stream, and may get another.
    #[cfg(feature = "http")]
    fn has_lost_stream(&self, error: &CallError) -> bool {
        let is_lost =
            super::http::HttpFailure::from_call_error(error).is_some_and(super::http::HttpFailure::is_stream_loss);
        is_lost && self.state.progress.borrow().acknowledged.is_some()
    }

    /// Waits before the next try, longer each time; `false` if there is to be none.
    #[cfg(feature = "http")]
    async fn wait_before_retry(&mut self, failures: u32) -> bool {
        let pause = FIRST_RETRY_PAUSE.saturating_mul(1 << failures.min(8)).min(MAX_RETRY_PAUSE);
        tokio::time::timeout(pause, wait_until_ending(&mut self.link_state)).await.is_err()
            && self.shared.strong_count() > 0
    }

    /// Why there is no connection any more.
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
        // Nobody can say so any more.
        std::future::pending::<()>().await;
    }
}

/// How long to wait before a listen is opened again that has lost its stream, at first and at the most.
#[cfg(feature = "http")]
const FIRST_RETRY_PAUSE: Duration = Duration::from_millis(250);
#[cfg(feature = "http")]
const MAX_RETRY_PAUSE: Duration = Duration::from_secs(30);

/// A stream that has lasted so long worked.
#[cfg(feature = "http")]
const STABLE_AFTER: Duration = Duration::from_secs(10);

pub(super) const LISTEN: &str = "subscriptions/listen";
