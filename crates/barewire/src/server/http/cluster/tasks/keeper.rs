//! Looks after the tasks of a cluster: a task whose node has died -> failed, or run again here; a task that something
//! here waits for -> the news that no message brought.

use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::time::Instant;

use super::super::node::ClusterNode;
use super::super::store::StoreError;
use super::store::{ClusterTaskStore, NODE_GONE, VersionedTask};
use crate::log::TARGET;
use crate::peer::later;
use crate::server::http::endpoint::HttpEndpoint;
use crate::server::task::{ChangedBy, TaskChange, TaskRunId, TaskStore, run_again};

/// The keeper of one node, for one pass.
struct Keeper<'a> {
    endpoint: &'a HttpEndpoint,
    store: ClusterTaskStore,
}

impl ClusterNode {
    /// Looks after the tasks until the server is dropped.
    pub(in super::super) async fn keep_tasks(self: Arc<Self>, endpoint: Weak<HttpEndpoint>) {
        loop {
            let _ = tokio::time::timeout(PASS_TIME, self.tasks.abandoned_notify.notified()).await;
            let Some(endpoint) = endpoint.upgrade() else { return };
            if self.has_left() {
                // The other nodes look after its tasks.
                return;
            }
            // A server without such tools asks the store nothing.
            if !endpoint.shared.registry.entries().has_tasks {
                continue;
            }
            let store = ClusterTaskStore::new(&self, endpoint.shared.settings.tasks.policy);
            // If the store is away, the next pass does what this one did not.
            let _ = Keeper { endpoint: &endpoint, store }.pass().await;
        }
    }

    /// Adds this node to the nodes that run tasks, before its first one.
    pub(super) async fn join_task_nodes_once(&self) -> Result<(), StoreError> {
        if !self.tasks.has_joined() {
            self.join_task_nodes().await?;
            self.tasks.set_joined(true);
        }
        Ok(())
    }
}

impl Keeper<'_> {
    async fn pass(&self) -> Result<(), StoreError> {
        let tasks = &self.store.node.tasks;
        for id in tasks.take_stillborn() {
            if self.store.remove(&id).await.is_err() {
                tasks.add_stillborn(&id);
            }
        }
        for id in tasks.take_due() {
            match self.store.read(&id).await? {
                None => tasks.gone(&id),
                Some(VersionedTask { task, .. }) => {
                    tasks.changed(&id, task.changes);
                    if task.is_over() {
                        tasks.set_settled(&id);
                    } else if self.store.is_abandoned(&task).await {
                        // The log of its node may be gone, or may have lost the entry to newer ones.
                        self.settle(&id, None).await?;
                    }
                }
            }
        }
        for id in tasks.take_abandoned() {
            self.settle(&id, None).await?;
        }
        self.sweep().await
    }

    /// Settles the tasks of nodes that are dead.
    async fn sweep(&self) -> Result<(), StoreError> {
        let node = &self.store.node;
        let known = node.task_nodes().await?;
        if node.tasks.has_joined() && !known.contains(&node.number) {
            // Other nodes have taken this one for dead, or the store has lost its data.
            node.tasks.set_joined(false);
            node.join_task_nodes_once().await?;
        }
        if known.iter().all(|it| *it == node.number) {
            return Ok(());
        }
        let alive = node.read_alive().await?;
        // This node runs its tasks, even if the store has forgotten its lease.
        for dead in known.into_iter().filter(|it| *it != node.number && !alive.contains(it)) {
            for task in node.logged_tasks(dead).await? {
                self.settle(&task.id, Some(dead)).await?;
            }
            node.leave_task_nodes(dead).await?;
        }
        Ok(())
    }

    /// Runs a task again, or ends it with an error, if it runs nowhere. `dead` is a node that is known to be dead: the
    /// list of the nodes that are alive is not read for each of its tasks.
    async fn settle(&self, id: &str, dead: Option<u32>) -> Result<(), StoreError> {
        let Some(found) = self.store.read(id).await? else { return Ok(()) };
        let is_of_dead = dead == Some(found.task.run.node) && !found.task.is_over();
        if !is_of_dead && !self.store.is_abandoned(&found.task).await {
            return Ok(());
        }
        let runs = found.task.run.number + 1;
        match found.task.call {
            Some(_) if runs < MAX_RUNS => self.run_again(found).await,
            Some(_) => self.store.fail(found.task, TOO_MANY_RUNS).await.map(drop),
            None => self.store.fail(found.task, NODE_GONE).await.map(drop),
        }
    }

    /// Takes a task over, if no other node does, and runs its handler here.
    async fn run_again(&self, VersionedTask { version, task: abandoned }: VersionedTask) -> Result<(), StoreError> {
        let node = &self.store.node;
        node.join_task_nodes_once().await?;
        let mut task = abandoned.clone();
        // If the node is not dead after all, it hears that the task is not its own any more.
        task.watchers.insert(task.run.node);
        task.run = TaskRunId { node: node.number, number: task.run.number + 1 };
        task.changes += 1;
        let expires = later(Instant::now(), task.time_left());
        if !node.tasks.begin(&task.id, task.run, task.bytes(), expires, self.store.room) {
            return self.store.fail(abandoned, NO_ROOM).await.map(drop);
        }
        let claimed = match node.log_task(&task, self.store.policy).await {
            Ok(()) => self.store.replace(version, &task).await,
            Err(error) => Err(error),
        };
        if !matches!(claimed, Ok(true)) {
            // If the claim has arrived all the same, the task is found in the log again.
            node.tasks.forget(&task.id);
            return claimed.map(drop);
        }
        tracing::info!(target: TARGET, run = task.run.number, "a task whose node has died runs again here");
        self.store.announce(&task, task.changes);
        if let Err(failure) = run_again(&self.endpoint.shared, &task) {
            node.tasks.run_ended(&task.id, task.run);
            let error = failure.error("tools/call");
            let by = ChangedBy::Run(task.run);
            let _ = self.store.change(&task.id, by, TaskChange::error(error.into())).await;
        }
        Ok(())
    }
}

/// The time between two passes.
const PASS_TIME: Duration = Duration::from_secs(1);

/// The maximum number of runs of one task: a task that ends its process would end one node after the other.
const MAX_RUNS: u32 = 3;

const NO_ROOM: &str =
    "The node that ran this task is gone, and another one has no room for it: call the tool again later";

const TOO_MANY_RUNS: &str = "Each node that ran this task has died: it does not run again";
