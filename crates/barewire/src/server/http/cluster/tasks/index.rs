//! Which tasks there are: the list of each legacy client, the log of each node, and the list of the nodes that run
//! tasks.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use bytes::Bytes;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use super::super::node::ClusterNode;
use super::super::store::{LogEntry, Record, StoreError};
use crate::server::task::{TaskOwner, TaskPolicy, TaskRecord, now_ms};

/// The tasks of a legacy client, in the order of their creation.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct OwnedTasks {
    /// The number of the last task.
    last: u64,
    pub(super) tasks: Vec<ListedTask>,
}

/// A task in a list or a log.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct ListedTask {
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(super) number: u64,
    pub(super) id: String,
    expires_ms: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl ListedTask {
    fn is_expired(&self) -> bool {
        self.expires_ms <= now_ms()
    }
}

impl ClusterNode {
    /// Adds a task to the list of its owner. Returns `false` if the list is full.
    pub(super) async fn list_task(&self, record: &TaskRecord, max_tasks: usize) -> Result<bool, StoreError> {
        let name = owner_name(&record.owner);
        let added = self.change_list(&name, |owned: &mut OwnedTasks| {
            owned.tasks.retain(|task| !task.is_expired());
            if owned.tasks.len() >= max_tasks {
                return None;
            }
            owned.last += 1;
            let task = ListedTask { number: owned.last, id: record.id.to_string(), expires_ms: record.expires_ms() };
            owned.tasks.push(task);
            let left = owned.tasks.iter().map(|task| task.expires_ms).max().unwrap_or_default();
            Some(Duration::from_millis(left.saturating_sub(now_ms()).max(1)))
        });
        added.await
    }

    /// Returns the tasks of a legacy client that have not expired.
    pub(super) async fn tasks_of(&self, owner: &TaskOwner) -> Result<Vec<ListedTask>, StoreError> {
        let record = self.watch(self.store.read(&owner_name(owner), None).await)?;
        let owned: OwnedTasks = record.map(|record| read(&record)).unwrap_or_default();
        Ok(owned.tasks.into_iter().filter(|task| !task.is_expired()).collect())
    }

    pub(super) async fn remove_list_of(&self, owner: &TaskOwner) -> Result<(), StoreError> {
        self.watch(self.store.remove(&owner_name(owner)).await).map(drop)
    }

    /// Notes that this node is about to run a task, so that others find it if this node dies.
    pub(super) async fn log_task(&self, record: &TaskRecord, policy: TaskPolicy) -> Result<(), StoreError> {
        let task = ListedTask { number: 0, id: record.id.to_string(), expires_ms: record.expires_ms() };
        let entry = LogEntry {
            name: log_name(self.number),
            entry: serde_json::to_vec(&task).expect("numbers and text are JSON").into(),
            keep: policy.max_tasks.clamp(1, MAX_LOGGED),
            // The log lives on from its last entry. It must outlive the tasks before that too.
            lifetime: record.time_left().max(policy.ttl).max(MIN_LOG_TIME),
        };
        self.watch(self.store.append(vec![entry]).await)
    }

    /// Returns the tasks that a node has begun to run and that have not expired.
    pub(super) async fn logged_tasks(&self, node: u32) -> Result<Vec<ListedTask>, StoreError> {
        let log = self.watch(self.store.log(&log_name(node)).await)?;
        let tasks = log.iter().filter_map(|entry| serde_json::from_slice::<ListedTask>(entry).ok());
        Ok(tasks.filter(|task| !task.is_expired()).collect())
    }

    /// Returns the nodes that run tasks, or did when they died.
    pub(super) async fn task_nodes(&self) -> Result<Vec<u32>, StoreError> {
        let record = self.watch(self.store.read(NODES_NAME, None).await)?;
        Ok(record.map(|record| read(&record)).unwrap_or_default())
    }

    /// Adds this node to the nodes that run tasks.
    pub(super) async fn join_task_nodes(&self) -> Result<(), StoreError> {
        let joined = self.change_list(NODES_NAME, |nodes: &mut Vec<u32>| {
            let is_new = !nodes.contains(&self.number);
            is_new.then(|| {
                nodes.push(self.number);
                NODES_TIME
            })
        });
        joined.await.map(drop)
    }

    /// Removes a node whose tasks have all been dealt with.
    pub(super) async fn leave_task_nodes(&self, node: u32) -> Result<(), StoreError> {
        let left = self.change_list(NODES_NAME, |nodes: &mut Vec<u32>| {
            let before = nodes.len();
            nodes.retain(|known| *known != node);
            (nodes.len() < before).then_some(NODES_TIME)
        });
        left.await.map(drop)
    }

    /// Changes a record that is a list. If another node has changed it since it was read, it is read and changed again.
    /// `change` returns the lifetime of the new record, or `None` if nothing is to change. Returns whether it was
    /// changed.
    async fn change_list<T: Default + Serialize + DeserializeOwned>(
        &self,
        name: &str,
        change: impl Fn(&mut T) -> Option<Duration>,
    ) -> Result<bool, StoreError> {
        let start = Instant::now();
        let mut pause = FIRST_PAUSE;
        loop {
            let record = self.watch(self.store.read(name, None).await)?;
            let mut list: T = record.as_ref().map(read).unwrap_or_default();
            let Some(lifetime) = change(&mut list) else { return Ok(false) };
            let value: Bytes = serde_json::to_vec(&list).expect("numbers and text are JSON").into();
            let written = match record {
                Some(record) => self.store.replace(name, record.version, value, lifetime).await,
                None => self.store.create(name, value, lifetime).await,
            };
            if self.watch(written)?.is_some() {
                return Ok(true);
            }
            if start.elapsed() >= MAX_CHANGE_TIME {
                return Err(StoreError::Away(format!("{name:?} changes all the time")));
            }
            // Of several that change it again and again, each soon finds a moment at which no other one does.
            tokio::time::sleep(vary(pause)).await;
            pause = (pause * 2).min(MAX_PAUSE);
        }
    }
}

/// Returns a random time up to this one.
fn vary(time: Duration) -> Duration {
    let mut random = [0];
    // Without random bytes, all wait for the same time, and try again.
    let _ = getrandom::fill(&mut random);
    time * (u32::from(random[0]) + 1) / 256
}

/// Reads a list. One that this version does not understand is empty.
fn read<T: Default + DeserializeOwned>(record: &Record) -> T {
    serde_json::from_slice(&record.value).unwrap_or_default()
}

fn owner_name(owner: &TaskOwner) -> String {
    format!("tasks-of/{}", BASE64.encode(owner.as_str()))
}

fn log_name(node: u32) -> String {
    format!("tasks/{node}")
}

const NODES_NAME: &str = "tasks/nodes";

/// The time for which the list of the nodes that run tasks is kept if it does not change. A node that finds itself
/// missing adds itself again.
const NODES_TIME: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// The minimum time for which the log of a node is kept: other nodes have to read it after the lease of the node.
const MIN_LOG_TIME: Duration = Duration::from_secs(60);

/// The maximum number of tasks in the log of a node.
const MAX_LOGGED: usize = 10_000;

/// The longest pause before the second attempt to change a list that others change at the same time, and before any.
const FIRST_PAUSE: Duration = Duration::from_millis(2);
const MAX_PAUSE: Duration = Duration::from_millis(100);

/// The time after which a list is not tried again that others change all the time: a client waits for an answer.
const MAX_CHANGE_TIME: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    use barewire_proto::mcp::Era;

    use super::super::super::store::{ClusterFuture, ClusterStore};
    use super::super::super::{MemoryCluster, MemoryNode};
    use super::*;

    fn task(id: &str, ttl: Duration) -> TaskRecord {
        let ttl_ms = u64::try_from(ttl.as_millis()).expect("a small number");
        TaskRecord::new(id.into(), TaskOwner::connection("c"), Era::Legacy, Arc::default(), ttl_ms, 1000)
    }

    #[tokio::test(start_paused = true)]
    async fn a_short_task_does_not_end_the_log_of_a_long_one() {
        let cluster = MemoryCluster::default();
        let (node, other) = (ClusterNode::new(Arc::new(cluster.join())), cluster.join());
        let policy = TaskPolicy::default();
        node.log_task(&task("long", policy.ttl), policy).await.expect("it is there");
        node.log_task(&task("short", Duration::from_secs(1)), policy).await.expect("it is there");
        tokio::time::advance(policy.ttl - Duration::from_secs(1)).await;
        assert_eq!(other.log(&log_name(node.number)).await.map(|log| log.len()), Ok(2));
        tokio::time::advance(Duration::from_secs(2)).await;
        assert_eq!(other.log(&log_name(node.number)).await, Ok(Vec::new()), "it expires");
    }

    /// A store in which another node changes each record this often before a change succeeds.
    struct BusyStore {
        node: MemoryNode,
        refusals: AtomicU32,
    }

    impl ClusterStore for BusyStore {
        fn node(&self) -> u32 {
            self.node.node()
        }

        fn nodes(&self) -> ClusterFuture<'_, Vec<u32>> {
            self.node.nodes()
        }

        fn create<'a>(&'a self, name: &'a str, value: Bytes, lifetime: Duration) -> ClusterFuture<'a, Option<u64>> {
            let left = self.refusals.load(Ordering::Relaxed);
            if left > 0 {
                self.refusals.store(left - 1, Ordering::Relaxed);
                return Box::pin(std::future::ready(Ok(None)));
            }
            self.node.create(name, value, lifetime)
        }

        fn read<'a>(&'a self, name: &'a str, lifetime: Option<Duration>) -> ClusterFuture<'a, Option<Record>> {
            self.node.read(name, lifetime)
        }

        fn replace<'a>(
            &'a self,
            name: &'a str,
            version: u64,
            value: Bytes,
            lifetime: Duration,
        ) -> ClusterFuture<'a, Option<u64>> {
            self.node.replace(name, version, value, lifetime)
        }

        fn remove<'a>(&'a self, name: &'a str) -> ClusterFuture<'a, bool> {
            self.node.remove(name)
        }

        fn append(&self, entries: Vec<LogEntry>) -> ClusterFuture<'_, ()> {
            self.node.append(entries)
        }

        fn log<'a>(&'a self, name: &'a str) -> ClusterFuture<'a, Vec<Bytes>> {
            self.node.log(name)
        }

        fn send(&self, to: u32, message: Bytes) -> ClusterFuture<'_, ()> {
            self.node.send(to, message)
        }

        fn receive(&self) -> ClusterFuture<'_, Vec<Bytes>> {
            self.node.receive()
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_list_that_others_change_is_changed_again_for_some_time() {
        let cluster = MemoryCluster::default();
        let list = async |refusals: u32| {
            let store = BusyStore { node: cluster.join(), refusals: refusals.into() };
            let node = ClusterNode::new(Arc::new(store));
            let listed = node.list_task(&task("a", Duration::from_secs(60)), 10).await;
            let _ = node.remove_list_of(&TaskOwner::connection("c")).await;
            listed
        };
        assert_eq!(list(80).await, Ok(true), "a hundred calls at the same time");
        assert!(list(u32::MAX).await.is_err(), "not for ever");
    }
}
