//! A node of a cluster, and the task that keeps it alive: renews its lease, and connects again.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use barewire::server::http::cluster::StoreError;
use tokio::sync::Mutex;
use tokio::task::JoinHandle;

use crate::inbox::Inbox;
use crate::keys::Keys;
use crate::lease::Leases;
use crate::links::Links;
use crate::script::Script;
use crate::store::{APPEND, REPLACE};
use crate::{RedisBuilder, RedisError};

/// A node of a cluster whose store is Redis or Valkey.
///
/// It is alive until the server stops that it belongs to, or it is dropped. Then a task removes it from the store, if
/// the runtime still runs; [`leave`](Self::leave) waits for that.
pub struct Redis {
    pub(crate) shared: Arc<Shared>,
    /// The task that keeps the node alive, until it was waited for.
    keeper: Mutex<Option<JoinHandle<Result<(), StoreError>>>>,
}

/// What the calls and the task share.
pub(crate) struct Shared {
    pub(crate) number: u32,
    pub(crate) links: Links,
    pub(crate) keys: Keys,
    pub(crate) leases: Leases,
    pub(crate) inbox: Inbox,
    pub(crate) replace: Script,
    pub(crate) append: Script,
    is_leaving: AtomicBool,
}

impl Redis {
    /// Connects to the server at a URL with the default settings: see [`RedisBuilder::connect`].
    ///
    /// # Errors
    /// If the server cannot be used. The error says what to do.
    pub async fn connect(url: &str) -> Result<Self, RedisError> {
        Self::builder().connect(url).await
    }

    /// Returns the default settings, to be changed.
    pub fn builder() -> RedisBuilder {
        RedisBuilder::new()
    }

    /// Leaves the cluster: ends the lease, and removes the messages that were not read.
    pub async fn leave(self) {
        // Without an answer, the lease ends.
        let _ = self.end_lease().await;
    }

    pub(crate) async fn end_lease(&self) -> Result<(), StoreError> {
        let mut keeper = self.keeper.lock().await;
        self.shared.start_leaving();
        let Some(running) = keeper.as_mut() else { return Ok(()) };
        // The task ends within two response timeouts and a second. It does not panic, and nothing is left to do if it
        // did.
        let left = running.await.unwrap_or(Ok(()));
        *keeper = None;
        left
    }

    pub(crate) async fn join(links: Links, keys: Keys) -> Result<Self, StoreError> {
        let leases = Leases::new();
        let number = leases.claim(&links, &keys).await?;
        let inbox = Inbox::new(keys.inbox(number));
        // Before others can see the node, so that no message is sent to an inbox that does not exist.
        inbox.create(&links).await?;
        leases.renew(&links, &keys, number).await?;
        let is_leaving = AtomicBool::new(false);
        let (replace, append) = (Script::new(REPLACE), Script::new(APPEND));
        let shared = Arc::new(Shared { number, links, keys, leases, inbox, replace, append, is_leaving });
        let keeper = Mutex::new(Some(tokio::spawn(keep_alive(Arc::clone(&shared)))));
        Ok(Self { shared, keeper })
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        self.shared.start_leaving();
    }
}

impl fmt::Debug for Redis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Shared { number, links, keys, .. } = &*self.shared;
        f.debug_struct("Redis").field("node", number).field("links", links).field("keys", keys).finish_non_exhaustive()
    }
}

impl Shared {
    fn start_leaving(&self) {
        self.is_leaving.store(true, Ordering::Release);
        self.links.lost.notify_one();
    }

    fn is_leaving(&self) -> bool {
        self.is_leaving.load(Ordering::Acquire)
    }

    async fn renew(&self) -> Result<(), StoreError> {
        self.leases.renew(&self.links, &self.keys, self.number).await?;
        self.inbox.keep(&self.links).await
    }

    async fn leave(&self) -> Result<(), StoreError> {
        // Without an answer, the lease ends and the inbox expires.
        self.leases.leave(&self.links, &self.keys, self.number).await?;
        self.inbox.remove(&self.links).await
    }
}

/// Renews the lease every second, and connects again when the connection is lost, until the node leaves.
async fn keep_alive(shared: Arc<Shared>) -> Result<(), StoreError> {
    let (mut pause, mut next_pause) = (RENEWAL_INTERVAL, FIRST_PAUSE);
    let mut is_refused = false;
    loop {
        // Woken if the connection is lost or the node leaves.
        let _ = tokio::time::timeout(pause, shared.links.lost.notified()).await;
        if shared.is_leaving() {
            return shared.leave().await;
        }
        if shared.links.reconnect(&shared.keys.nodes()).await.is_err() {
            pause = vary(next_pause);
            next_pause = (next_pause * 2).min(MAX_PAUSE);
            continue;
        }
        (pause, next_pause) = (RENEWAL_INTERVAL, FIRST_PAUSE);
        match shared.renew().await {
            // The link has woken us already.
            Err(StoreError::Away(_)) => {}
            renewed => {
                is_refused = note_refusal(renewed, is_refused);
                if is_refused {
                    // The name of the server may mean another server by now, which is not a replica.
                    let _ = shared.links.replace(&shared.keys.nodes()).await;
                }
            }
        }
    }
}

/// Writes a line to the log when the server begins or ceases to refuse, and returns whether it does.
fn note_refusal(renewed: Result<(), StoreError>, was_refused: bool) -> bool {
    match renewed {
        Err(error) => {
            if !was_refused {
                tracing::warn!("{error}");
            }
            true
        }
        Ok(()) => {
            if was_refused {
                tracing::info!("the store of the cluster accepts changes again");
            }
            false
        }
    }
}

/// Returns a time that is up to a quarter shorter, so that not all nodes connect at the same moment.
fn vary(time: Duration) -> Duration {
    let random = getrandom::u32().unwrap_or(0) % 256;
    time - time * random / 1024
}

/// A lease of five seconds survives three renewals that fail.
const RENEWAL_INTERVAL: Duration = Duration::from_secs(1);

/// The pause after the first attempt to connect that fails, and the longest one.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const MAX_PAUSE: Duration = Duration::from_secs(1);
