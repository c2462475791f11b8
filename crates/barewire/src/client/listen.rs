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
use super::notifications::{KEPT, KEPT_BYTES, ServerNotification};
use super::params::{Members, Params};
use super::restart::{State, next_link};
use super::ring::{Read, Reader, Ring};
use super::{Client, ClientError, Shared};
use crate::peer::{CallError, Raw};

/// What a server tells of its own accord, since it was asked to. Dropping it tells the server that it is no longer wanted.
///
/// The same notifications come in [`Client::notifications`] as well.
pub struct Listen {
    listening: Listening,
    reader: Reader<ServerNotification>,
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
        self.listening.heard.progress.borrow().acknowledged.clone().unwrap_or_default()
    }

    /// The next notification; `None` once it has ended.
    pub async fn next(&mut self) -> Option<ServerNotification> {
        match self.reader.next().await? {
            Read::Next(notification) => Some(notification),
            Read::Missed(count) => Some(ServerNotification::Lagged(count)),
        }
    }

    /// How it ended, if it has.
    pub fn end(&self) -> Option<ListenEnd> {
        self.listening.heard.progress.borrow().end.clone()
    }

    /// Waits for the end.
    pub async fn ended(&self) -> ListenEnd {
        let mut progress = self.listening.heard.progress.subscribe();
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
pub(super) struct Listening {
    heard: Arc<Heard>,
    task: AbortHandle,
}

impl Listening {
    pub(super) fn has_ended(&self) -> bool {
        self.heard.progress.borrow().end.is_some()
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// What has come of a listen so far.
pub(super) struct Heard {
    ring: Ring<ServerNotification>,
    progress: watch::Sender<Progress>,
}

#[derive(Debug, Default)]
struct Progress {
    acknowledged: Option<SubscriptionFilter>,
    end: Option<ListenEnd>,
}

impl Heard {
    pub(super) fn acknowledge(&self, filter: SubscriptionFilter) {
        self.progress.send_modify(|progress| progress.acknowledged = Some(filter));
    }

    pub(super) fn put(&self, notification: ServerNotification, bytes: usize) {
        self.ring.put(notification, bytes);
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
        let (listening, reader, _) = self.0.listen(filter).await?;
        Ok(Listen { listening, reader, _client: self.clone() })
    }
}

impl Shared {
    /// Opens a listen, and gives what the server has acknowledged.
    pub(super) async fn listen(
        self: &Arc<Self>,
        filter: SubscriptionFilter,
    ) -> Result<(Listening, Reader<ServerNotification>, SubscriptionFilter), ClientError> {
        let link = self.allowed(LISTEN).await?;
        let (listening, reader) = self.begin_listen(link, filter, true)?;
        let acknowledged = listening.acknowledged();
        let acknowledged = match self.settings.timeout {
            None => acknowledged.await,
            Some(after) => match tokio::time::timeout(after, acknowledged).await {
                Ok(acknowledged) => acknowledged,
                // Dropped, it is cancelled.
                Err(_) => Err(ClientError::TimedOut { method: LISTEN.to_owned(), after: Some(after) }),
            },
        }?;
        Ok((listening, reader, acknowledged))
    }

    /// Opens a listen, and waits for nothing. If nobody else does either, a refusal is for the log.
    pub(super) fn begin_listen(
        self: &Arc<Self>,
        link: Arc<Link>,
        filter: SubscriptionFilter,
        is_awaited: bool,
    ) -> Result<(Listening, Reader<ServerNotification>), ClientError> {
        let heard = Arc::new(Heard { ring: Ring::new(KEPT, KEPT_BYTES), progress: watch::Sender::default() });
        let reader = heard.ring.reader();
        let params = Params::of(&SubscriptionParams::new(filter));
        let open = Open {
            shared: Arc::downgrade(self),
            state: self.state.subscribe(),
            params: params.map_err(ClientError::Params)?,
            heard: Arc::clone(&heard),
            is_awaited,
        };
        let task = tokio::spawn(open.run(link)).abort_handle();
        Ok((Listening { heard, task }, reader))
    }
}

impl Listening {
    /// Waits until the server says what it will tell.
    async fn acknowledged(&self) -> Result<SubscriptionFilter, ClientError> {
        let mut progress = self.heard.progress.subscribe();
        let begun = progress.wait_for(|progress| progress.acknowledged.is_some() || progress.end.is_some());
        let begun = begun.await.expect("what is held does not go away");
        let method = || LISTEN.to_owned();
        match (&begun.acknowledged, &begun.end) {
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
struct Open {
    /// Not the client itself: that ends when nobody holds it any more.
    shared: Weak<Shared>,
    state: watch::Receiver<State>,
    params: Params,
    heard: Arc<Heard>,
    /// Somebody waits for what the server says to it.
    is_awaited: bool,
}

impl Open {
    /// Until it is over, over as many connections as that takes.
    async fn run(mut self, mut link: Arc<Link>) {
        // How many times in a row it could not be opened again.
        #[cfg(feature = "http")]
        let mut failures = 0;
        loop {
            #[cfg(feature = "http")]
            let began = tokio::time::Instant::now();
            let end = match self.once(&link).await {
                Ok(_) => ListenEnd::Graceful,
                Err(CallError::Cancelled) => ListenEnd::Cancelled,
                Err(CallError::Refused(error)) => ListenEnd::Refused(error),
                Err(CallError::Closed(_)) => match next_link(&mut self.state, link.number).await {
                    Some(next) if next.server.revision.has_listen() => {
                        self.heard.put(ServerNotification::Restarted, 0);
                        link = next;
                        continue;
                    }
                    Some(next) => {
                        let revision = next.server.revision;
                        let method = LISTEN.to_owned();
                        ListenEnd::Lost(ClientError::NotInRevision { method, revision })
                    }
                    None => self.lost().await,
                },
                // What carries it broke, as proxies do to what takes long. Nothing is known of what was missed.
                #[cfg(feature = "http")]
                Err(error) if self.is_broken(&error) => {
                    failures = if began.elapsed() >= SETTLED { 0 } else { failures + 1 };
                    if self.pause(failures).await {
                        self.heard.put(ServerNotification::Restarted, 0);
                        continue;
                    }
                    self.lost().await
                }
                Err(error) => ListenEnd::Lost(ClientError::of(LISTEN, None, error)),
            };
            if let (ListenEnd::Refused(error), false, Some(shared)) = (&end, self.is_awaited, self.shared.upgrade()) {
                let why = CallError::Refused(error.clone());
                shared.report(format_args!("the server was started again, and {LISTEN} failed: {why}"));
            }
            return self.heard.end(end);
        }
    }

    /// Over one connection.
    async fn once(&mut self, link: &Link) -> Result<Raw, CallError> {
        let closed = |link: &Link| {
            let peer = link.peer.clone();
            async move { CallError::Closed(peer.ended().await) }
        };
        let Some(shared) = self.shared.upgrade() else { return Err(closed(link).await) };
        let meta = shared.meta(link, None, &Members::new());
        let params = self.params.with(Members::new(), meta).map_err(CallError::Params)?;
        // MCP 2026-07-28, basic/patterns/subscriptions: the stream stays open until it is cancelled.
        let call = link.peer.call::<Raw>(LISTEN, params).no_timeout();
        let _entered = shared.hub.enter(call.id(), Arc::clone(&self.heard));
        drop(shared);
        let mut call = call.into_future();
        let mut ending = pin!(ending(&mut self.state));
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
    fn is_broken(&self, error: &CallError) -> bool {
        let broken = super::http::HttpFailure::of(error).is_some_and(super::http::HttpFailure::is_broken);
        broken && self.heard.progress.borrow().acknowledged.is_some()
    }

    /// Waits before the next try, longer each time; `false` if there is to be none.
    #[cfg(feature = "http")]
    async fn pause(&mut self, failures: u32) -> bool {
        let pause = PAUSE.saturating_mul(1 << failures.min(8)).min(LONGEST);
        tokio::time::timeout(pause, ending(&mut self.state)).await.is_err() && self.shared.strong_count() > 0
    }

    /// Why there is no connection any more.
    async fn lost(&mut self) -> ListenEnd {
        let over = self.state.wait_for(|state| matches!(state, State::Over { .. })).await;
        match over.as_deref() {
            Ok(State::Over { error, .. }) => ListenEnd::Lost(error.clone()),
            _ => ListenEnd::Cancelled,
        }
    }
}

async fn ending(state: &mut watch::Receiver<State>) {
    if state.wait_for(State::is_ending).await.is_err() {
        // Nobody can say so any more.
        std::future::pending::<()>().await;
    }
}

/// How long to wait before a listen is opened again that has lost its stream, at first and at the most.
#[cfg(feature = "http")]
const PAUSE: Duration = Duration::from_millis(250);
#[cfg(feature = "http")]
const LONGEST: Duration = Duration::from_secs(30);

/// A stream that has lasted so long worked.
#[cfg(feature = "http")]
const SETTLED: Duration = Duration::from_secs(10);

pub(super) const LISTEN: &str = "subscriptions/listen";
