//! One node of a cluster: the store, and what this process keeps to take part.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use barewire_proto::http::{Rejection, RejectionRule};
use tokio::sync::{Notify, OnceCell};
use tokio::time::Instant;

use super::follow::Follows;
use super::keys::KeyRing;
use super::message::NodeMessage;
use super::numbers::{ArrivedNumbers, Numbers};
use super::outbox::Outbox;
use super::store::{ClusterStore, StoreError};
use super::tasks::NodeTasks;
use crate::log::TARGET;
use crate::server::http::endpoint::HttpEndpoint;
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// A node of a cluster.
pub(in super::super) struct ClusterNode {
    pub(super) store: Arc<dyn ClusterStore>,
    pub(super) number: u32,
    pub(super) numbers: Numbers,
    pub(super) outbox: Outbox,
    pub(super) follows: Follows,
    pub(super) tasks: NodeTasks,
    /// The latest unsolicited messages that arrived from each node.
    pub(super) arrived: Mutex<HashMap<u32, ArrivedNumbers>>,
    last_message: AtomicU64,
    alive: Mutex<Option<(Instant, Arc<[u32]>)>>,
    is_away: AtomicBool,
    /// Whether the log was told that the store is away, and not yet that it is back.
    is_away_logged: AtomicBool,
    away_lines: LogLimit,
    refusal_lines: LogLimit,
    has_started: AtomicBool,
    has_left: AtomicBool,
    /// Notified when the sealing keys are to be read again.
    pub(super) keys_due: Notify,
    /// The sealing keys, as they were read last.
    pub(super) known_keys: Mutex<KeyRing>,
    /// Held while copies of sessions are dropped to make room for others.
    pub(super) making_room: tokio::sync::Mutex<()>,
    /// Set when the sealing keys are there, without which no request is served.
    pub(super) has_keys: OnceCell<()>,
}

impl ClusterNode {
    pub(in super::super) fn new(store: Arc<dyn ClusterStore>) -> Arc<Self> {
        let number = store.node();
        Arc::new(Self {
            store,
            number,
            numbers: Numbers::of_node(number),
            outbox: Outbox::default(),
            follows: Follows::default(),
            tasks: NodeTasks::default(),
            arrived: Mutex::default(),
            last_message: AtomicU64::new(0),
            alive: Mutex::default(),
            is_away: AtomicBool::new(false),
            is_away_logged: AtomicBool::new(false),
            away_lines: LogLimit::default(),
            refusal_lines: LogLimit::default(),
            has_started: AtomicBool::new(false),
            has_left: AtomicBool::new(false),
            keys_due: Notify::default(),
            known_keys: Mutex::default(),
            making_room: tokio::sync::Mutex::default(),
            has_keys: OnceCell::new(),
        })
    }

    /// Prepares the node for a request: starts its tasks and gets the sealing keys, if that has not happened yet.
    pub(in super::super) async fn prepare(self: &Arc<Self>, endpoint: &Arc<HttpEndpoint>) -> Result<(), Rejection> {
        self.start(endpoint);
        self.load_keys(endpoint).await.map_err(|error| unavailable(&error))
    }

    /// Returns the number of a new stream for unsolicited messages.
    pub(in super::super) fn unsolicited_stream(&self) -> u64 {
        self.numbers.unsolicited_stream()
    }

    /// Returns the number before the first call of a session on this node.
    pub(in super::super) fn calls_after(&self) -> i64 {
        self.numbers.calls_after()
    }

    /// Starts the tasks of the node, if they are not running yet.
    pub(in super::super) fn start(self: &Arc<Self>, endpoint: &Arc<HttpEndpoint>) {
        if self.has_started.swap(true, Ordering::AcqRel) {
            return;
        }
        tokio::spawn(Outbox::run(Arc::downgrade(self)));
        tokio::spawn(Arc::clone(self).receive(Arc::downgrade(endpoint)));
        tokio::spawn(Arc::clone(self).refresh_keys(Arc::downgrade(endpoint)));
        tokio::spawn(Arc::clone(self).keep_tasks(Arc::downgrade(endpoint)));
        tokio::spawn(Arc::clone(self).drop_idle_copies(Arc::downgrade(endpoint)));
        let (node, registry) = (Arc::downgrade(self), endpoint.shared.registry.name().to_owned());
        endpoint.shared.registry.announce_to(move |change| {
            if let Some(node) = node.upgrade() {
                let message = NodeMessage::Change { registry: registry.clone(), change }.write(b"");
                node.outbox.send_to_others(message);
            }
        });
    }

    /// Handles the messages of other nodes until the server is dropped.
    async fn receive(self: Arc<Self>, endpoint: Weak<HttpEndpoint>) {
        let mut was_away = false;
        while endpoint.strong_count() > 0 {
            let received = tokio::time::timeout(RECEIVE_TIME, self.store.receive()).await;
            let Ok(received) = received else { continue };
            match self.watch(received) {
                Ok(messages) => {
                    let Some(endpoint) = endpoint.upgrade() else { return };
                    if std::mem::take(&mut was_away) {
                        // A store that was restarted may have lost messages, and the keys.
                        self.follows.cut_off(None);
                        self.keys_due.notify_one();
                    }
                    for (message, body) in messages.iter().filter_map(NodeMessage::read) {
                        self.handle(&endpoint, message, body);
                    }
                }
                Err(_) => {
                    was_away = true;
                    tokio::time::sleep(RETRY_TIME).await;
                }
            }
        }
    }

    /// Waits until what this node has to tell others is in the store, but not longer than some seconds.
    pub(in super::super) async fn flush(&self) {
        let _ = self.outbox.flush().await;
    }

    /// Leaves the cluster, so that the other nodes take over at once what this one did for sessions and tasks.
    pub(in super::super) async fn leave(&self) {
        self.has_left.store(true, Ordering::Release);
        // If the store is away, the lease ends.
        let _ = self.watch(self.store.leave().await);
    }

    /// Whether the node has left the cluster, or is about to.
    pub(super) fn has_left(&self) -> bool {
        self.has_left.load(Ordering::Acquire)
    }

    /// Returns a number for a message, which is greater than all before.
    pub(super) fn next_message(&self) -> u64 {
        self.last_message.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Returns the nodes that are alive, as of at most a second ago.
    pub(super) async fn alive(&self) -> Result<Arc<[u32]>, StoreError> {
        if let Some((at, nodes)) = self.lock_alive().as_ref()
            && at.elapsed() < ALIVE_TIME
        {
            return Ok(Arc::clone(nodes));
        }
        self.read_alive().await
    }

    /// Returns the nodes that are alive, as of this time at the earliest.
    pub(super) async fn alive_since(&self, time: Instant) -> Result<Arc<[u32]>, StoreError> {
        if let Some((at, nodes)) = self.lock_alive().as_ref()
            && *at >= time
        {
            return Ok(Arc::clone(nodes));
        }
        self.read_alive().await
    }

    /// Returns the nodes that are alive now.
    pub(super) async fn read_alive(&self) -> Result<Arc<[u32]>, StoreError> {
        // A node that joins while the store answers may be missing.
        let asked = Instant::now();
        let nodes: Arc<[u32]> = self.watch(self.store.nodes().await)?.into();
        *self.lock_alive() = Some((asked, Arc::clone(&nodes)));
        Ok(nodes)
    }

    /// Whether a node is alive. If the store is away, it counts as alive.
    pub(super) async fn is_alive(&self, node: u32) -> bool {
        let contains = |nodes: Arc<[u32]>| nodes.contains(&node);
        // A node that is not in a list that is a little older may have joined since.
        node == self.number
            || self.alive().await.map_or(true, contains)
            || self.read_alive().await.map_or(true, contains)
    }

    /// Returns the nodes that were alive when the store was last asked.
    pub(super) fn last_alive(&self) -> Option<Arc<[u32]>> {
        self.lock_alive().as_ref().map(|(_, nodes)| Arc::clone(nodes))
    }

    fn lock_alive(&self) -> MutexGuard<'_, Option<(Instant, Arc<[u32]>)>> {
        self.alive.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the store is away, as far as is known.
    pub(in super::super) fn is_away(&self) -> bool {
        self.is_away.load(Ordering::Acquire) || self.store.is_away()
    }

    /// Notes whether the store is there, from the result of a command. Logs when that changes, but not each time: a
    /// store that is spread over several servers may do some commands and not others.
    pub(super) fn watch<T>(&self, result: Result<T, StoreError>) -> Result<T, StoreError> {
        match &result {
            Ok(_) if self.is_away.load(Ordering::Acquire) && !self.store.is_away() => {
                self.is_away.store(false, Ordering::Release);
                if self.is_away_logged.swap(false, Ordering::AcqRel) {
                    tracing::warn!(target: TARGET, "the store of the cluster is back");
                }
            }
            Err(error @ StoreError::Away(_))
                if !self.is_away.swap(true, Ordering::AcqRel) && self.away_lines.is_due(AWAY_LOG_TIME) =>
            {
                self.is_away_logged.store(true, Ordering::Release);
                let meanwhile = "sessions that are not known here and new tasks are refused until it is back";
                tracing::error!(target: TARGET, "{error}: {meanwhile}");
            }
            // Such a store still reads, so it is not away.
            Err(error @ StoreError::Refused(_)) if self.refusal_lines.is_due(REFUSAL_LOG_TIME) => {
                let meanwhile = "new sessions are refused, and streams cannot be resumed as a whole";
                tracing::error!(target: TARGET, "{error}: {meanwhile}");
            }
            _ => {}
        }
        result
    }
}

/// Limits how often one kind of line is written to the log.
#[derive(Default)]
struct LogLimit {
    last: Mutex<Option<Instant>>,
}

impl LogLimit {
    /// Whether a line may be written, because the last one was written at least this time ago.
    fn is_due(&self, pause: Duration) -> bool {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let is_due = last.is_none_or(|at| at.elapsed() >= pause);
        if is_due {
            *last = Some(Instant::now());
        }
        is_due
    }
}

/// Returns the refusal of a request that needs the store. Clients are not told where the store is; the log has that.
pub(super) fn unavailable(error: &StoreError) -> Rejection {
    let why = match error {
        StoreError::Away(_) => "This server cannot reach the store of its sessions: try again later",
        StoreError::Refused(_) => "The store of this server's sessions accepts nothing new: try again later",
    };
    Rejection::new(RejectionRule::Busy, why)
}

impl fmt::Debug for ClusterNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClusterNode").field("number", &self.number).finish_non_exhaustive()
    }
}

/// The time for which a list of the nodes that are alive is used.
const ALIVE_TIME: Duration = Duration::from_secs(1);

/// The time after which a receiver looks whether its server still exists.
const RECEIVE_TIME: Duration = Duration::from_secs(30);

/// The minimum time between two lines of the log that say that the store is away.
const AWAY_LOG_TIME: Duration = Duration::from_secs(10);

/// The minimum time between two lines of the log about a store that refuses to write.
const REFUSAL_LOG_TIME: Duration = Duration::from_secs(60);

const RETRY_TIME: Duration = Duration::from_millis(200);
