//! A cluster in one process: several servers that share their sessions.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::store::{ClusterFuture, ClusterStore, LogEntry, MAX_LOG_BYTES, MAX_UNREAD_MESSAGES, Record, StoreError};
use crate::peer::later;

/// The memory that the nodes of a cluster in one process share, for tests and examples. [`Self::join`] adds a node.
#[derive(Clone, Default)]
pub struct MemoryCluster(Arc<Mutex<SharedMemory>>);

#[derive(Default)]
struct SharedMemory {
    records: HashMap<String, Expiring<Record>>,
    logs: HashMap<String, Expiring<MemoryLog>>,
    inboxes: BTreeMap<u32, Inbox>,
    /// The nodes that do not reach the store.
    cut_off: BTreeSet<u32>,
    last_version: u64,
    last_node: u32,
}

#[derive(Default)]
struct MemoryLog {
    entries: VecDeque<Bytes>,
    bytes: usize,
}

struct Expiring<T> {
    value: T,
    expires: Instant,
}

#[derive(Default)]
struct Inbox {
    messages: VecDeque<Bytes>,
    arrived: Arc<Notify>,
}

/// A node of a [`MemoryCluster`]. It is alive until it leaves or this value is dropped.
pub struct MemoryNode {
    shared: Arc<Mutex<SharedMemory>>,
    number: u32,
}

impl MemoryCluster {
    /// Adds a node to the cluster.
    pub fn join(&self) -> MemoryNode {
        let mut shared = lock(&self.0);
        shared.last_node += 1;
        let number = shared.last_node;
        shared.inboxes.insert(number, Inbox::default());
        MemoryNode { shared: Arc::clone(&self.0), number }
    }

    /// Sets whether a node reaches the memory. To the others, one that does not is dead.
    pub fn cut_off(&self, node: u32, is_cut_off: bool) {
        let mut shared = lock(&self.0);
        match is_cut_off {
            true => shared.cut_off.insert(node),
            false => shared.cut_off.remove(&node),
        };
        shared.inboxes.values().for_each(|inbox| inbox.arrived.notify_one());
    }
}

impl fmt::Debug for MemoryCluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryCluster").field("records", &lock(&self.0).records.len()).finish_non_exhaustive()
    }
}

fn lock(shared: &Mutex<SharedMemory>) -> MutexGuard<'_, SharedMemory> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the value of this name, if it has not expired.
fn live<'a, T>(all: &'a mut HashMap<String, Expiring<T>>, name: &str) -> Option<&'a mut Expiring<T>> {
    if all.get(name).is_some_and(|it| it.expires <= Instant::now()) {
        all.remove(name);
    }
    all.get_mut(name)
}

impl SharedMemory {
    fn set(&mut self, name: &str, value: Bytes, lifetime: Duration) -> u64 {
        self.last_version += 1;
        let value = Record { version: self.last_version, value };
        self.records.insert(name.to_owned(), Expiring { value, expires: later(Instant::now(), lifetime) });
        self.last_version
    }

    fn append(&mut self, LogEntry { name, entry, keep, lifetime }: LogEntry) {
        live(&mut self.logs, &name);
        let expires = later(Instant::now(), lifetime);
        let log = self.logs.entry(name).or_insert(Expiring { value: MemoryLog::default(), expires });
        log.expires = expires;
        let log = &mut log.value;
        log.bytes += entry.len();
        log.entries.push_back(entry);
        while log.entries.len() > keep.max(1) || (log.bytes > MAX_LOG_BYTES && log.entries.len() > 1) {
            log.bytes -= log.entries.pop_front().map_or(0, |entry| entry.len());
        }
    }
}

impl MemoryNode {
    /// Locks the memory, if this node reaches it.
    fn reach(&self) -> Result<MutexGuard<'_, SharedMemory>, StoreError> {
        let shared = lock(&self.shared);
        match shared.cut_off.contains(&self.number) {
            true => Err(StoreError::Away("this node is cut off".to_owned())),
            false => Ok(shared),
        }
    }

    fn with<'a, T: Send + 'a>(&self, work: impl FnOnce(&mut SharedMemory) -> T) -> ClusterFuture<'a, T> {
        Box::pin(std::future::ready(self.reach().map(|mut shared| work(&mut shared))))
    }
}

impl ClusterStore for MemoryNode {
    fn node(&self) -> u32 {
        self.number
    }

    fn nodes(&self) -> ClusterFuture<'_, Vec<u32>> {
        self.with(|shared| shared.inboxes.keys().copied().filter(|node| !shared.cut_off.contains(node)).collect())
    }

    fn create<'a>(&'a self, name: &'a str, value: Bytes, lifetime: Duration) -> ClusterFuture<'a, Option<u64>> {
        self.with(|shared| {
            let is_free = live(&mut shared.records, name).is_none();
            is_free.then(|| shared.set(name, value, lifetime))
        })
    }

    fn read<'a>(&'a self, name: &'a str, lifetime: Option<Duration>) -> ClusterFuture<'a, Option<Record>> {
        self.with(|shared| {
            let record = live(&mut shared.records, name)?;
            if let Some(lifetime) = lifetime {
                record.expires = later(Instant::now(), lifetime);
            }
            Some(record.value.clone())
        })
    }

    fn replace<'a>(
        &'a self,
        name: &'a str,
        version: u64,
        value: Bytes,
        lifetime: Duration,
    ) -> ClusterFuture<'a, Option<u64>> {
        self.with(|shared| {
            let is_same = live(&mut shared.records, name).is_some_and(|record| record.value.version == version);
            is_same.then(|| shared.set(name, value, lifetime))
        })
    }

    fn remove<'a>(&'a self, name: &'a str) -> ClusterFuture<'a, bool> {
        self.with(|shared| {
            let is_known = live(&mut shared.records, name).is_some() | live(&mut shared.logs, name).is_some();
            shared.records.remove(name);
            shared.logs.remove(name);
            is_known
        })
    }

    fn append(&self, entries: Vec<LogEntry>) -> ClusterFuture<'_, ()> {
        self.with(|shared| entries.into_iter().for_each(|entry| shared.append(entry)))
    }

    fn log<'a>(&'a self, name: &'a str) -> ClusterFuture<'a, Vec<Bytes>> {
        self.with(|shared| {
            live(&mut shared.logs, name).map(|log| log.value.entries.iter().cloned().collect()).unwrap_or_default()
        })
    }

    fn send(&self, to: u32, message: Bytes) -> ClusterFuture<'_, ()> {
        self.with(|shared| {
            if let Some(inbox) = shared.inboxes.get_mut(&to) {
                inbox.messages.push_back(message);
                if inbox.messages.len() > MAX_UNREAD_MESSAGES {
                    inbox.messages.pop_front();
                }
                inbox.arrived.notify_one();
            }
        })
    }

    fn receive(&self) -> ClusterFuture<'_, Vec<Bytes>> {
        Box::pin(async move {
            loop {
                let arrived = {
                    let mut shared = self.reach()?;
                    match shared.inboxes.get_mut(&self.number) {
                        Some(inbox) if !inbox.messages.is_empty() => return Ok(inbox.messages.drain(..).collect()),
                        Some(inbox) => Some(Arc::clone(&inbox.arrived)),
                        None => None,
                    }
                };
                match arrived {
                    Some(arrived) => arrived.notified().await,
                    // Nothing is sent to a node that has left.
                    None => std::future::pending().await,
                }
            }
        })
    }

    fn leave(&self) -> ClusterFuture<'_, ()> {
        self.with(|shared| drop(shared.inboxes.remove(&self.number)))
    }
}

impl Drop for MemoryNode {
    fn drop(&mut self) {
        lock(&self.shared).inboxes.remove(&self.number);
    }
}

impl fmt::Debug for MemoryNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryNode").field("number", &self.number).finish_non_exhaustive()
    }
}
