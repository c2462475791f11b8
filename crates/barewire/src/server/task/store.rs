//! The place where the records of tasks are kept: the memory of this process, or the store of a cluster. Everything else
//! about tasks only uses this trait.

use std::collections::BTreeSet;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};

use barewire_proto::mcp::task_rules::TaskEffect;
use tokio::sync::Notify;

use super::record::{ChangedBy, TaskChange, TaskOwner, TaskRecord, TaskRunId};
use crate::Failure;

/// The records of all tasks of a server.
///
/// A method that changes a record changes it in one step: of two changes at the same time, the second one sees the
/// result of the first one. When the future of `create` is ready, `get` finds the task.
pub(in crate::server) trait TaskStore: Send + Sync {
    /// Returns the first run of a new task.
    fn first_run(&self) -> TaskRunId {
        TaskRunId::default()
    }

    /// Whether records have the calls of handlers that may run again.
    #[cfg(feature = "http")]
    fn keeps_calls(&self) -> bool {
        false
    }

    /// Adds a task. Returns `false` if there is no room for it.
    fn create(&self, record: TaskRecord) -> StoreFuture<'_, bool>;

    fn get<'a>(&'a self, id: &'a str) -> StoreFuture<'a, Option<TaskRecord>>;

    /// Changes a task with [`TaskRecord::apply`] and notifies its watches. Returns `None` if there is no such task.
    fn change<'a>(&'a self, id: &'a str, by: ChangedBy, change: TaskChange) -> StoreFuture<'a, Option<TaskChanged>>;

    /// Called when a run of a handler has ended, and its end is stored if that was possible.
    fn run_ended(&self, id: &str, run: TaskRunId) {
        let _ = (id, run);
    }

    /// Returns at most `count` tasks of `owner` after the task number `after`, in the order of their creation, and, if
    /// more follow, the number of the last one returned.
    fn list<'a>(
        &'a self,
        owner: &'a TaskOwner,
        after: u64,
        count: usize,
    ) -> StoreFuture<'a, (Vec<TaskRecord>, Option<u64>)>;

    /// Removes a task and notifies its watches.
    fn remove<'a>(&'a self, id: &'a str) -> StoreFuture<'a, ()>;

    /// Removes all tasks of an owner and notifies their watches.
    fn remove_all_of<'a>(&'a self, owner: &'a TaskOwner) -> StoreFuture<'a, ()>;

    /// Notifies `watch` of each later change of the task, until the watch is dropped.
    fn add_watch<'a>(&'a self, id: &'a str, watch: &'a Arc<TaskWatch>) -> StoreFuture<'a, ()>;
}

pub(in crate::server) type StoreFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, Failure>> + Send + 'a>>;

/// The outcome of a change.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "most changes have an effect")]
pub(in crate::server) enum TaskChanged {
    /// The effect, and the record after it.
    Applied(TaskEffect, TaskRecord),
    /// There is no room for the text of the change. The record is unchanged.
    TooLarge,
}

/// The tasks that have changed since they were last looked at. However often a task changes, it is kept once.
#[derive(Debug, Default)]
pub(in crate::server) struct TaskWatch {
    changed: Mutex<BTreeSet<Arc<str>>>,
    notify: Notify,
}

impl TaskWatch {
    /// Creates a watch for one task.
    pub(super) async fn of(store: &dyn TaskStore, id: &str) -> Result<Arc<Self>, Failure> {
        let watch = Arc::default();
        store.add_watch(id, &watch).await?;
        Ok(watch)
    }

    /// Records that a task has changed.
    pub(in crate::server) fn task_changed(&self, id: &Arc<str>) {
        self.changed.lock().unwrap_or_else(PoisonError::into_inner).insert(Arc::clone(id));
        self.notify.notify_one();
    }

    /// Waits until tasks have changed, then returns and clears them.
    pub(in crate::server) async fn changed(&self) -> BTreeSet<Arc<str>> {
        loop {
            let changed = std::mem::take(&mut *self.changed.lock().unwrap_or_else(PoisonError::into_inner));
            if !changed.is_empty() {
                return changed;
            }
            self.notify.notified().await;
        }
    }
}
