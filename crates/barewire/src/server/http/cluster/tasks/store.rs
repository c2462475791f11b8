//! The tasks of a server in the store of its cluster: each change is a read and a replace of the record, which is
//! repeated if another node was faster.

use std::sync::Arc;

use barewire_proto::mcp::Era;
use barewire_proto::mcp::task_rules::TaskEffect;
use barewire_proto::rpc::{Code, ErrorObject};
use tokio::time::Instant;

use super::super::message::NodeMessage;
use super::super::node::ClusterNode;
use super::super::store::{Record, StoreError};
use super::local::{GONE, TaskRoom};
use crate::Failure;
use crate::peer::later;
use crate::server::task::{
    ChangedBy, StoreFuture, TaskChange, TaskChanged, TaskOwner, TaskPolicy, TaskRecord, TaskRunId, TaskStore, TaskWatch,
};

/// The tasks of a server that is a node of a cluster.
pub(in super::super::super) struct ClusterTaskStore {
    pub(super) node: Arc<ClusterNode>,
    pub(super) policy: TaskPolicy,
    pub(super) room: TaskRoom,
}

/// A task with the version of its record.
pub(super) struct VersionedTask {
    pub(super) version: u64,
    pub(super) task: TaskRecord,
}

/// What is to happen to a record that was read.
enum Decision<T> {
    Keep(T),
    /// Replace the record. `T` is returned if no other node was faster.
    Replace(T),
}

impl ClusterTaskStore {
    pub(in super::super::super) fn new(node: &Arc<ClusterNode>, policy: TaskPolicy) -> Self {
        let room = TaskRoom { max_tasks: policy.max_tasks, max_bytes: policy.max_bytes };
        Self { node: Arc::clone(node), policy, room }
    }

    /// Reads a task.
    pub(super) async fn read(&self, id: &str) -> Result<Option<VersionedTask>, StoreError> {
        let record = self.node.watch(self.node.store.read(&record_name(id), None).await)?;
        let Some(Record { version, value }) = record else { return Ok(None) };
        let task = TaskRecord::read(id, &value).map(|task| VersionedTask { version, task });
        if let Some(VersionedTask { task, .. }) = &task {
            self.node.tasks.count(id, task.bytes());
        }
        Ok(task)
    }

    /// Writes a task that was read in this version. Returns `false` if another node has changed it since.
    pub(super) async fn replace(&self, version: u64, task: &TaskRecord) -> Result<bool, StoreError> {
        let (name, lifetime) = (record_name(&task.id), task.time_left());
        if lifetime.is_zero() {
            return Ok(false);
        }
        let replaced = self.node.watch(self.node.store.replace(&name, version, task.write(), lifetime).await)?;
        if replaced.is_some() {
            self.node.tasks.count(&task.id, task.bytes());
        }
        Ok(replaced.is_some())
    }

    /// Changes a task as `decide` says. Returns `None` if there is no such task.
    async fn modify<T>(
        &self,
        id: &str,
        decide: impl Fn(&mut TaskRecord) -> Decision<T>,
    ) -> Result<Option<(T, TaskRecord)>, StoreError> {
        for _ in 0..MAX_ATTEMPTS {
            let Some(VersionedTask { version, mut task }) = self.read(id).await? else { return Ok(None) };
            match decide(&mut task) {
                Decision::Keep(kept) => return Ok(Some((kept, task))),
                Decision::Replace(done) if self.replace(version, &task).await? => return Ok(Some((done, task))),
                // Another node was faster, or the task has expired.
                Decision::Replace(_) => tokio::task::yield_now().await,
            }
        }
        Err(StoreError::Away("the task changes all the time".to_owned()))
    }

    async fn apply(&self, id: &str, by: ChangedBy, change: TaskChange) -> Result<Option<TaskChanged>, StoreError> {
        let modified = self.modify(id, |task| {
            let (before, old) = (task.bytes(), task.changes);
            let effect = task.apply(by, change.clone());
            let after = task.bytes();
            match effect {
                TaskEffect::Changed if after > before && !self.node.tasks.has_room(id, after, self.room) => {
                    Decision::Keep(None)
                }
                TaskEffect::Changed => {
                    debug_assert!(task.changes > old, "a change is counted");
                    Decision::Replace(Some(effect))
                }
                TaskEffect::Ignored | TaskEffect::Over => Decision::Keep(Some(effect)),
            }
        });
        let Some((effect, task)) = modified.await? else { return Ok(None) };
        let Some(effect) = effect else { return Ok(Some(TaskChanged::TooLarge)) };
        if effect == TaskEffect::Changed {
            self.announce(&task, task.changes);
        }
        Ok(Some(TaskChanged::Applied(effect, task)))
    }

    /// Tells what waits for a task, here and on other nodes, that it has changed.
    pub(super) fn announce(&self, task: &TaskRecord, changes: u64) {
        self.node.tasks.changed(&task.id, changes);
        let message = NodeMessage::Task { task: task.id.to_string(), changes }.write(b"");
        let mut nodes = task.watchers.clone();
        nodes.insert(task.run.node);
        for node in nodes.into_iter().filter(|node| *node != self.node.number) {
            self.node.outbox.send(node, message.clone());
        }
    }

    /// Whether a task runs nowhere, because its node is dead or did not begin to run it.
    pub(super) async fn is_abandoned(&self, task: &TaskRecord) -> bool {
        !task.is_over()
            && match task.run.node == self.node.number {
                true => !self.node.tasks.is_running(&task.id, task.run),
                false => !self.node.is_alive(task.run.node).await,
            }
    }

    /// Ends a task that runs nowhere with an error. Returns its new record.
    pub(super) async fn fail(&self, task: TaskRecord, why: &str) -> Result<Option<TaskRecord>, StoreError> {
        let error = TaskChange::error(ErrorObject::new(Code::INTERNAL_ERROR, why).into());
        // If another node runs it in the meantime, this run is not the one that ends.
        let changed = self.apply(&task.id, ChangedBy::Run(task.run), error).await?;
        Ok(match changed {
            Some(TaskChanged::Applied(_, task)) => Some(task),
            Some(TaskChanged::TooLarge) => Some(task),
            None => None,
        })
    }

    /// Returns a task. One whose node is dead has failed, or is about to run again.
    async fn find(&self, id: &str) -> Result<Option<TaskRecord>, StoreError> {
        let Some(VersionedTask { task, .. }) = self.read(id).await? else { return Ok(None) };
        if !self.is_abandoned(&task).await {
            return Ok(Some(task));
        }
        if task.call.is_some() {
            self.node.tasks.add_abandoned(&task.id);
            return Ok(Some(task));
        }
        self.fail(task, NODE_GONE).await
    }

    async fn add(&self, task: &TaskRecord) -> Result<bool, StoreError> {
        self.node.join_task_nodes_once().await?;
        self.node.log_task(task, self.policy).await?;
        // Only a legacy client can list its tasks.
        if task.era == Era::Legacy && !self.node.list_task(task, self.room.max_tasks).await? {
            return Ok(false);
        }
        let created = self.node.store.create(&record_name(&task.id), task.write(), task.time_left()).await;
        self.node.watch(created).map(|version| version.is_some())
    }

    async fn remove_record(&self, id: &str) -> Result<(), StoreError> {
        let task = self.read(id).await?;
        self.node.watch(self.node.store.remove(&record_name(id)).await)?;
        self.node.tasks.gone(id);
        if let Some(VersionedTask { task, .. }) = task {
            self.announce(&task, GONE);
        }
        Ok(())
    }
}

impl TaskStore for ClusterTaskStore {
    fn first_run(&self) -> TaskRunId {
        TaskRunId { node: self.node.number, number: 0 }
    }

    fn keeps_calls(&self) -> bool {
        true
    }

    fn create(&self, task: TaskRecord) -> StoreFuture<'_, bool> {
        Box::pin(async move {
            let expires = later(Instant::now(), task.time_left());
            if !self.node.tasks.begin(&task.id, task.run, task.bytes(), expires, self.room) {
                return Ok(false);
            }
            let added = self.add(&task).await;
            if !matches!(added, Ok(true)) {
                self.node.tasks.forget(&task.id);
            }
            if added.is_err() {
                // The record may be there all the same.
                self.node.tasks.add_stillborn(&task.id);
            }
            added.map_err(|error| unavailable(&error))
        })
    }

    fn get<'a>(&'a self, id: &'a str) -> StoreFuture<'a, Option<TaskRecord>> {
        Box::pin(async move { self.find(id).await.map_err(|error| unavailable(&error)) })
    }

    fn change<'a>(&'a self, id: &'a str, by: ChangedBy, change: TaskChange) -> StoreFuture<'a, Option<TaskChanged>> {
        Box::pin(async move { self.apply(id, by, change).await.map_err(|error| unavailable(&error)) })
    }

    fn run_ended(&self, id: &str, run: TaskRunId) {
        self.node.tasks.run_ended(id, run);
    }

    fn list<'a>(
        &'a self,
        owner: &'a TaskOwner,
        after: u64,
        count: usize,
    ) -> StoreFuture<'a, (Vec<TaskRecord>, Option<u64>)> {
        Box::pin(async move {
            let listed = self.node.tasks_of(owner).await.map_err(|error| unavailable(&error))?;
            let mut left = listed.into_iter().filter(|task| task.number > after);
            let (mut tasks, mut last) = (Vec::new(), None);
            for listed in left.by_ref().take(count) {
                last = Some(listed.number);
                tasks.extend(self.get(&listed.id).await?.filter(|task| task.owner == *owner));
            }
            Ok((tasks, last.filter(|_| left.next().is_some())))
        })
    }

    fn remove<'a>(&'a self, id: &'a str) -> StoreFuture<'a, ()> {
        Box::pin(async move {
            self.node.tasks.forget(id);
            self.remove_record(id).await.map_err(|error| unavailable(&error))
        })
    }

    fn remove_all_of<'a>(&'a self, owner: &'a TaskOwner) -> StoreFuture<'a, ()> {
        Box::pin(async move {
            let removed = async {
                for task in self.node.tasks_of(owner).await? {
                    self.remove_record(&task.id).await?;
                }
                self.node.remove_list_of(owner).await
            };
            removed.await.map_err(|error| unavailable(&error))
        })
    }

    fn add_watch<'a>(&'a self, id: &'a str, watch: &'a Arc<TaskWatch>) -> StoreFuture<'a, ()> {
        Box::pin(async move {
            let is_first = self.node.tasks.add_watch(id, watch);
            // The node that runs a task is told of all changes anyway.
            if !is_first || self.node.tasks.runs(id) {
                return Ok(());
            }
            let number = self.node.number;
            let joined = self.modify(id, |task| match task.is_over() || !task.watchers.insert(number) {
                true => Decision::Keep(()),
                false => Decision::Replace(()),
            });
            match joined.await.map_err(|error| unavailable(&error))? {
                Some(((), task)) => {
                    self.node.tasks.set_known(id, task.changes);
                    if task.is_over() {
                        self.node.tasks.set_settled(id);
                    }
                }
                None => self.node.tasks.gone(id),
            }
            Ok(())
        })
    }
}

/// Returns the error of a request that needs the store. Clients are not told where the store is; the log has that.
fn unavailable(error: &StoreError) -> Failure {
    let why = match error {
        StoreError::Away(_) => "This server cannot reach the store of its tasks: try again later",
        StoreError::Refused(_) => "The store of this server's tasks accepts nothing new: try again later",
    };
    ErrorObject::new(Code::INTERNAL_ERROR, why).into()
}

pub(super) fn record_name(id: &str) -> String {
    format!("task/{id}")
}

/// The error of a task whose node has died.
pub(super) const NODE_GONE: &str = "The node that ran this task is gone: call the tool again";

/// How often a task is changed that other nodes change at the same time.
const MAX_ATTEMPTS: usize = 50;
