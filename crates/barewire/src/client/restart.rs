//! Reconnects after a server or its session has ended: decides when and how often, and restores the state.

use std::sync::{Arc, Weak};
use std::time::Duration;

use barewire_proto::mcp::{Era, ServerCapability, SetLevelParams, SubscriptionFilter};
use serde_json::json;
use tokio::sync::watch;
use tokio::time::Instant;

use super::era::RevisionPreference;
use super::link::Link;
use super::listen::LISTEN;
use super::{ClientError, ClientShared, ServerNotification};
use crate::peer::Raw;

/// The policy for starting a server again after it has ended.
///
/// The first restart is immediate. Before each further restart there is a pause, which doubles each time. If a server
/// has run for a minute, the count of restarts is reset to zero. After too many restarts in a row the client gives up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Restart {
    pub(super) at_once: bool,
    max_starts: u32,
    first_pause: Duration,
    max_pause: Duration,
}

impl Restart {
    /// Restarts the server when the next call is made.
    pub const fn at_next_call() -> Self {
        Self {
            at_once: false,
            max_starts: DEFAULT_MAX_STARTS,
            first_pause: DEFAULT_FIRST_PAUSE,
            max_pause: DEFAULT_MAX_PAUSE,
        }
    }

    /// Restarts the server as soon as it has ended, so that few of its notifications are missed.
    pub const fn at_once() -> Self {
        Self { at_once: true, ..Self::at_next_call() }
    }

    /// The policy for servers at a URL. The client never gives up, because such a server can become reachable again at
    /// any time.
    #[cfg(feature = "http")]
    pub(super) const FOR_URLS: Self = Self {
        at_once: false,
        max_starts: u32::MAX,
        first_pause: DEFAULT_FIRST_PAUSE,
        max_pause: Duration::from_secs(2),
    };

    /// Gives up after this many starts in a row; the default is 5.
    #[must_use]
    pub const fn give_up_after(mut self, starts: u32) -> Self {
        self.max_starts = starts;
        self
    }

    /// Sets the pause before the second restart and the maximum pause; the defaults are 250 ms and 30 s.
    #[must_use]
    pub const fn pauses(mut self, first: Duration, longest: Duration) -> Self {
        (self.first_pause, self.max_pause) = (first, longest);
        self
    }

    /// Returns the pause before the next start, after this many starts in a row.
    fn pause_after(&self, starts: u32) -> Duration {
        match starts.checked_sub(1) {
            None => Duration::ZERO,
            Some(doublings) => {
                let factor = 1u32.checked_shl(doublings).unwrap_or(u32::MAX);
                self.first_pause.saturating_mul(factor).min(self.max_pause)
            }
        }
    }
}

/// The state of a client's connection.
#[derive(Clone)]
pub(super) enum LinkState {
    /// The first connection is being opened.
    Opening,
    /// The client has a connection. The connection can have ended without having been replaced yet.
    Open(Arc<Link>),
    /// The connection is being shut down.
    Closing(Arc<Link>),
    /// The last connection has ended, and the client opens no new connection.
    Ended { error: ClientError, link: Arc<Link> },
}

impl LinkState {
    pub(super) fn link(&self) -> Option<&Arc<Link>> {
        match self {
            Self::Open(link) | Self::Closing(link) | Self::Ended { link, .. } => Some(link),
            Self::Opening => None,
        }
    }

    /// Whether the client is shutting down or has ended, so that it accepts no new calls.
    pub(super) fn is_ending(&self) -> bool {
        matches!(self, Self::Closing(_) | Self::Ended { .. })
    }
}

/// The number of starts in a row, and the time of the last start.
#[derive(Debug, Default)]
pub(super) struct RestartCount {
    count: u32,
    last: Option<Instant>,
}

impl ClientShared {
    /// Returns the restart policy; `None` if an ended connection is not reopened.
    pub(super) fn restart(&self) -> Option<Restart> {
        self.settings.restart.filter(|_| self.source.can_reconnect()).or_else(|| self.source.default_restart())
    }

    /// Returns the connection. If the connection has ended and there is a restart policy, reopens it first.
    pub(super) async fn link(self: &Arc<Self>) -> Result<Arc<Link>, ClientError> {
        if let Some(link) = self.usable_link()? {
            return Ok(link);
        }
        // The connection is reopened in a separate task, because this future can be dropped while other callers wait
        // for the same connection.
        match tokio::spawn(reopen(Arc::downgrade(self))).await {
            Ok(Some(reopened)) => reopened,
            Ok(None) => unreachable!("self keeps the client alive"),
            Err(error) => match error.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                // The runtime is shutting down.
                Err(_) => std::future::pending().await,
            },
        }
    }

    /// Returns the connection; `None` if it must be reopened.
    fn usable_link(&self) -> Result<Option<Arc<Link>>, ClientError> {
        match &*self.state.borrow() {
            LinkState::Open(link) if link.is_over() && self.restart().is_some() => Ok(None),
            // If this connection has ended, calls on it fail with the reason.
            LinkState::Open(link) | LinkState::Closing(link) => Ok(Some(Arc::clone(link))),
            LinkState::Opening => Ok(None),
            LinkState::Ended { error, .. } => Err(error.clone()),
        }
    }

    /// Returns the next step for a connection that has ended, or an error if the client has ended or gives up.
    async fn next_start(&self, starts: &mut RestartCount) -> Result<NextStart, ClientError> {
        if let Some(link) = self.usable_link()? {
            return Ok(NextStart::AlreadyOpen(link));
        }
        let ended = self.state.borrow().link().map(Arc::clone);
        let (Some(ended), Some(restart)) = (ended, self.restart()) else {
            unreachable!("only an ended connection with a restart policy is reopened")
        };
        if ended.since.elapsed() >= STABLE_AFTER && starts.last.is_none_or(|last| last <= ended.since) {
            starts.count = 0;
        }
        if starts.count >= restart.max_starts {
            let last = Box::new(ClientError::Closed(ended.peer.shut_down().await));
            return Err(self.give_up(ClientError::GaveUp { starts: starts.count, last }));
        }
        Ok(NextStart::Start { after: restart.pause_after(starts.count), era: ended.server.revision.era() })
    }

    async fn reconnect(self: &Arc<Self>, starts: &mut RestartCount, era: Era) -> Result<Arc<Link>, ClientError> {
        starts.count += 1;
        starts.last = Some(Instant::now());
        let preference = match self.settings.preference {
            exactly @ RevisionPreference::Exactly(_) => exactly,
            RevisionPreference::Any | RevisionPreference::LastKnownEra(_) => RevisionPreference::LastKnownEra(era),
        };
        let max_starts = self.restart().map_or(0, |restart| restart.max_starts);
        match self.open(preference).await {
            Ok(link) => {
                self.restore_legacy_state(&link).await;
                if !self.install(&link) {
                    return Err(ClientError::Closed(link.peer.shut_down().await));
                }
                self.restore_subscriptions(&link);
                self.hub.push(ServerNotification::Restarted, 0);
                Ok(link)
            }
            Err(error) if starts.count >= max_starts => {
                let (starts, last) = (starts.count, Box::new(error));
                Err(self.give_up(ClientError::GaveUp { starts, last }))
            }
            Err(error) => Err(error),
        }
    }

    /// Makes `link` the current connection. Returns false if the client is shutting down or has ended.
    pub(super) fn install(self: &Arc<Self>, link: &Arc<Link>) -> bool {
        let installed = self.state.send_if_modified(|state| {
            // A concurrent shutdown takes precedence.
            let open = !state.is_ending();
            if open {
                *state = LinkState::Open(Arc::clone(link));
            }
            open
        });
        if link.peer.is_closed() {
            self.connection_ended(link.number);
        }
        installed
    }

    /// Ends the client with this error, and returns the error.
    pub(super) fn give_up(&self, error: ClientError) -> ClientError {
        self.state.send_if_modified(|state| match state {
            LinkState::Open(link) | LinkState::Closing(link) => {
                *state = LinkState::Ended { error: error.clone(), link: Arc::clone(link) };
                true
            }
            LinkState::Opening | LinkState::Ended { .. } => false,
        });
        self.hub.close();
        error
    }

    /// Handles the end of the connection with this number: reopens it now, lets the next call reopen it, or ends the
    /// client.
    pub(super) fn connection_ended(self: &Arc<Self>, number: u64) {
        let (link, restart) = match self.state.borrow().clone() {
            LinkState::Open(link) => (link, self.restart()),
            // Ends the client, because the future of `Client::shutdown` might have been dropped before it could do so.
            LinkState::Closing(link) => (link, None),
            LinkState::Opening | LinkState::Ended { .. } => return,
        };
        if link.number != number {
            return;
        }
        let shared = Arc::downgrade(self);
        match restart {
            None => {
                tokio::spawn(async move {
                    let closed = link.peer.ended().await;
                    if let Some(shared) = shared.upgrade() {
                        shared.give_up(ClientError::Closed(closed));
                    }
                });
            }
            Some(Restart { at_once: true, .. }) => {
                tokio::spawn(async move {
                    // Repeats until the connection is open again, the client gives up, or the client is dropped.
                    while let Some(Err(_)) = reopen(Weak::clone(&shared)).await {
                        if shared.upgrade().is_none_or(|shared| shared.state.borrow().is_ending()) {
                            return;
                        }
                    }
                });
            }
            Some(_) => {}
        }
    }

    /// Sends the log level and the subscriptions to a restarted legacy server. A modern server does not store them: its
    /// listen requests are sent again by their own tasks or by [`Self::restore_subscriptions`].
    async fn restore_legacy_state(&self, link: &Link) {
        if link.server.revision.is_modern() {
            return;
        }
        if let Some(level) = self.log_level() {
            self.resend(link, "logging/setLevel", SetLevelParams::new(level)).await;
        }
        let uris: Vec<String> = self.subscriptions().keys().cloned().collect();
        for uri in uris {
            self.resend(link, "resources/subscribe", json!({ "uri": uri })).await;
        }
    }

    /// If the server is modern, sends a listen request for each subscription that has no open listen request, for
    /// example because the server was legacy before. Open listen requests are sent again by their own tasks.
    fn restore_subscriptions(self: &Arc<Self>, link: &Arc<Link>) {
        if !link.server.revision.has_listen() {
            return;
        }
        let can_subscribe = self.settings.lenient || link.server.capabilities.has(ServerCapability::ResourcesSubscribe);
        for (uri, handle) in self.subscriptions().iter_mut() {
            if handle.as_ref().is_some_and(|handle| !handle.has_ended()) {
                continue;
            }
            if !can_subscribe {
                self.log(format_args!(
                    "the server was restarted and no longer declares resources.subscribe; subscriptions are lost"
                ));
                return;
            }
            let filter = SubscriptionFilter::default().resource_subscriptions([uri.clone()]);
            match self.spawn_listen(Arc::clone(link), filter, false) {
                Ok((new, _)) => *handle = Some(new),
                Err(error) => self.log(format_args!("{LISTEN} failed after the server was restarted: {error}")),
            }
        }
    }

    async fn resend(&self, link: &Link, method: &'static str, params: impl serde::Serialize) {
        let call = link.peer.call::<Raw>(method, params);
        let call = match self.settings.timeout {
            Some(timeout) => call.timeout(timeout),
            None => call.no_timeout(),
        };
        if let Err(error) = call.await {
            self.log(format_args!("{method} failed after the server was restarted: {error}"));
        }
    }
}

/// The next step for a connection that has ended.
enum NextStart {
    /// Another task has already reopened the connection.
    AlreadyOpen(Arc<Link>),
    Start {
        after: Duration,
        era: Era,
    },
}

/// Reopens the connection and returns it; `None` if the client has been dropped. A lock lets only one task at a time
/// reopen the connection; tasks that waited for the lock find the new connection.
pub(super) async fn reopen(shared: Weak<ClientShared>) -> Option<Result<Arc<Link>, ClientError>> {
    let starts = Arc::clone(&shared.upgrade()?.restart_count);
    let mut starts = starts.lock_owned().await;
    let next = shared.upgrade()?.next_start(&mut starts).await;
    let (after, era) = match next {
        Ok(NextStart::AlreadyOpen(link)) => return Some(Ok(link)),
        Ok(NextStart::Start { after, era }) => (after, era),
        Err(error) => return Some(Err(error)),
    };
    // The pause does not keep the client alive, and ends with it.
    let mut state = shared.upgrade()?.state.subscribe();
    let dropped = async { while state.changed().await.is_ok() {} };
    let _ = tokio::time::timeout(after, dropped).await;
    let shared = shared.upgrade()?;
    Some(shared.reconnect(&mut starts, era).await)
}

/// Waits until the connection with the number `ended` has been replaced, and returns the new connection; `None` if the
/// client ends instead.
pub(super) async fn next_link(state: &mut watch::Receiver<LinkState>, ended: u64) -> Option<Arc<Link>> {
    let next = state.wait_for(|state| match state {
        LinkState::Open(link) => link.number != ended,
        state => state.is_ending(),
    });
    match next.await.as_deref() {
        Ok(LinkState::Open(link)) => Some(Arc::clone(link)),
        _ => None,
    }
}

/// The default maximum number of starts in a row: more than three, because three crashes in a row can be a coincidence.
const DEFAULT_MAX_STARTS: u32 = 5;

/// The default pause before the second restart: long enough for the system to clean up after a crash.
const DEFAULT_FIRST_PAUSE: Duration = Duration::from_millis(250);

/// The default maximum pause, limited because a user might be waiting for the server.
const DEFAULT_MAX_PAUSE: Duration = Duration::from_secs(30);

/// A server that ran at least this long is considered working, so the count of starts is reset.
const STABLE_AFTER: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_longest() {
        let restart = Restart::at_once().pauses(Duration::from_secs(1), Duration::from_secs(5));
        let pauses: Vec<u64> = (0..6).map(|starts| restart.pause_after(starts).as_secs()).collect();
        assert_eq!(pauses, [0, 1, 2, 4, 5, 5]);
        assert_eq!(restart.pause_after(u32::MAX).as_secs(), 5);
    }
}
