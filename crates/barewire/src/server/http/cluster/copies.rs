//! Copies of sessions that this node does not use -> the store, from which the next request makes a copy again.
//!
//! A copy is dropped if its session does nothing here: no request, no stream, no question, no task, and no handle that
//! a handler has kept. All but the home of a session have nothing that the store has not. The home also has the stream
//! for messages that belong to no request, and tells the client of changes. It writes to the store how far it has come,
//! and goes on from there.

use std::sync::{Arc, Weak};
use std::time::Duration;

use barewire_proto::http::EventId;
use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::link::record_lifetime;
use super::node::ClusterNode;
use super::store::{LogEntry, StoreError};
use crate::server::http::endpoint::HttpEndpoint;
use crate::server::http::mailbox::{StreamPosition, UnsolicitedStart};
use crate::server::http::session::{Session, SessionUse};

/// What the home of a session writes to the store when it drops its copy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct HomeState {
    /// The node. What another one has written before it is out of date.
    node: u32,
    #[serde(flatten)]
    position: StreamPosition,
    /// The number of changes of the entries on the node that its client has been told of.
    changes: u64,
}

/// What the home of a session has read of it.
pub(super) struct SavedHome {
    pub(super) unsolicited: UnsolicitedStart,
    /// The number of changes of the entries that the client has been told of.
    pub(super) seen_changes: u64,
}

/// What must be done before a copy is dropped.
enum BeforeDrop {
    Nothing,
    Save(HomeState),
    /// The copy cannot be dropped now.
    Wait,
}

impl ClusterNode {
    /// Drops copies that are not used, until the server is dropped.
    pub(super) async fn drop_idle_copies(self: Arc<Self>, endpoint: Weak<HttpEndpoint>) {
        while let Some(idle) = endpoint.upgrade().map(|endpoint| endpoint.limits.session_copy_idle) {
            tokio::time::sleep((idle / CHECKS).max(MIN_CHECK_TIME)).await;
            let Some(endpoint) = endpoint.upgrade() else { return };
            if self.is_away() && !self.store.is_away() {
                // Nothing else may ask the store, if no client sends anything.
                let _ = self.read_alive().await;
            }
            while self.drop_copies(&endpoint, endpoint.sessions.idle_copies(idle, MAX_AT_ONCE)).await > 0 {}
        }
    }

    /// Calls `admit` until it returns a session. As long as there is no room, copies that are idle make room for it.
    /// Returns `None` if there are none.
    pub(in super::super) async fn with_room(
        &self,
        endpoint: &HttpEndpoint,
        admit: impl Fn() -> Option<SessionUse>,
    ) -> Option<SessionUse> {
        if let Some(admitted) = admit() {
            return Some(admitted);
        }
        // One makes room for several, which takes a look at all copies.
        let _turn = self.making_room.lock().await;
        let mut at_once = (endpoint.limits.sessions / ROOM_PARTS).clamp(1, MAX_AT_ONCE / 4);
        loop {
            if let Some(admitted) = admit() {
                return Some(admitted);
            }
            if self.drop_copies(endpoint, endpoint.sessions.idle_copies(Duration::ZERO, at_once)).await == 0 {
                if at_once == MAX_AT_ONCE {
                    return admit();
                }
                // Others may have dropped or used these copies at the same moment, or they cannot be saved.
                at_once = (at_once * 4).min(MAX_AT_ONCE);
                tokio::time::sleep(ROOM_PAUSE).await;
            }
        }
    }

    /// Drops those of these copies that are not used in the meantime. Returns how many these are. While the store is
    /// away, none is dropped: sessions that are known here go on without it.
    async fn drop_copies(&self, endpoint: &HttpEndpoint, copies: Vec<Arc<Session>>) -> usize {
        if copies.is_empty() || self.is_away() {
            return 0;
        }
        let (mut dropped, mut saved, mut entries) = (0, Vec::new(), Vec::new());
        for copy in copies {
            match self.before_drop(endpoint, &copy) {
                BeforeDrop::Nothing => dropped += usize::from(endpoint.sessions.drop_copy(&copy, None)),
                BeforeDrop::Save(state) => {
                    entries.push(LogEntry {
                        name: home_name(&copy.id),
                        entry: serde_json::to_vec(&state).expect("numbers are JSON").into(),
                        keep: 1,
                        lifetime: record_lifetime(endpoint.limits.session_idle),
                    });
                    saved.push((copy, state.position));
                }
                BeforeDrop::Wait => {}
            }
        }
        if !entries.is_empty() && self.watch(self.store.append(entries).await).is_ok() {
            for (copy, position) in saved {
                dropped += usize::from(endpoint.sessions.drop_copy(&copy, Some(position)));
            }
        }
        dropped
    }

    fn before_drop(&self, endpoint: &HttpEndpoint, copy: &Session) -> BeforeDrop {
        let is_home = copy.link.as_ref().is_some_and(|link| link.is_home());
        // Before the handshake is complete, the client is told nothing.
        if !is_home || !copy.is_handshake_complete() {
            return BeforeDrop::Nothing;
        }
        // The notifications of these changes are among the messages, and those of others are not.
        let changes = endpoint.shared.registry.settled_changes();
        let is_quiet = copy.is_quiet();
        let position = copy.unsolicited().position();
        match changes.filter(|_| is_quiet && changes == endpoint.shared.registry.settled_changes()) {
            Some(changes) => BeforeDrop::Save(HomeState { node: self.number, position, changes }),
            None => BeforeDrop::Wait,
        }
    }

    /// Returns what this node, which is the home of a session, has written when it dropped its copy.
    pub(super) async fn read_home(&self, session: &str) -> Result<SavedHome, StoreError> {
        let entries = self.watch(self.store.log(&home_name(session)).await)?;
        let state = entries.last().and_then(|entry| serde_json::from_slice::<HomeState>(entry).ok());
        let Some(HomeState { position, changes, .. }) = state.filter(|state| state.node == self.number) else {
            // It is not known what the client has been told, so it is told of all changes.
            let unsolicited = UnsolicitedStart::of_new(self.unsolicited_stream());
            return Ok(SavedHome { unsolicited, seen_changes: 0 });
        };
        let StreamPosition { stream, last, taken } = position;
        let unread = match last > taken {
            true => self.unread(session, EventId { stream, sequence: taken }).await?,
            false => Vec::new(),
        };
        Ok(SavedHome { unsolicited: UnsolicitedStart { stream, last, unread }, seen_changes: changes })
    }

    /// Returns the messages of a stream of this node that no client has read, unless some of them are no longer stored.
    async fn unread(&self, session: &str, after: EventId) -> Result<Vec<(EventId, Bytes)>, StoreError> {
        if !self.outbox.flush_session(session).await {
            return Err(StoreError::Away("events of this node are not written yet".to_owned()));
        }
        Ok(self.logged_stream(session, after).await?.map(|stream| stream.events).unwrap_or_default())
    }
}

/// The name of the log whose last entry the home of a session has written.
pub(super) fn home_name(session: &str) -> String {
    format!("session/{session}/home")
}

/// The number of times that copies are checked while one may be idle.
const CHECKS: u32 = 4;

const MIN_CHECK_TIME: Duration = Duration::from_millis(10);

/// The maximum number of copies that are dropped with one round trip.
const MAX_AT_ONCE: usize = 256;

/// The part of all copies that is dropped at once to make room.
const ROOM_PARTS: usize = 64;

/// The pause before another attempt to make room.
const ROOM_PAUSE: Duration = Duration::from_millis(2);
