//! What one node knows of tasks without asking the store: those whose handlers run here, those that something here
//! waits for, and the room that its tasks take.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use crate::server::task::{TaskRunId, TaskWatch};
use crate::sync::atomic::{AtomicBool, Ordering};

/// The tasks of one node.
#[derive(Default)]
pub(in super::super) struct NodeTasks {
    state: Mutex<LocalState>,
    /// Notified when a task is to run again.
    pub(super) abandoned_notify: Notify,
    /// Whether this node is among the nodes that run tasks.
    has_joined: AtomicBool,
}

#[derive(Default)]
struct LocalState {
    /// The tasks whose handlers run here, with their runs.
    running: HashMap<Arc<str>, TaskRunId>,
    watched: HashMap<Arc<str>, WatchedTask>,
    /// The tasks that were begun here and have not expired.
    begun: HashMap<Arc<str>, BegunTask>,
    /// The tasks that somebody here has found without a node, and that may run again.
    abandoned: BTreeSet<Arc<str>>,
    /// The tasks that were refused because the store did not say whether it has them. Their records are removed.
    stillborn: BTreeSet<Arc<str>>,
}

/// A task that something on this node waits for.
struct WatchedTask {
    watches: Vec<Weak<TaskWatch>>,
    /// The number of changes that the watches know of.
    changes: u64,
    /// The time at which the record was last looked at.
    looked: Instant,
    /// Whether the task is over, so that there is nothing to look at.
    is_settled: bool,
}

struct BegunTask {
    expires: Instant,
    bytes: usize,
}

/// The maximum number and length of the tasks that one node begins.
#[derive(Debug, Clone, Copy)]
pub(super) struct TaskRoom {
    pub(super) max_tasks: usize,
    pub(super) max_bytes: usize,
}

impl NodeTasks {
    fn lock(&self) -> MutexGuard<'_, LocalState> {
        // A poisoned lock is safe to use: no code that holds it can panic in the middle of a change.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a task whose handler is about to run here. Returns `false` if there is no room for it.
    pub(super) fn begin(&self, id: &Arc<str>, run: TaskRunId, bytes: usize, expires: Instant, room: TaskRoom) -> bool {
        let mut state = self.lock();
        let now = Instant::now();
        state.begun.retain(|_, task| task.expires > now);
        let used: usize = state.begun.values().map(|task| task.bytes).sum();
        if !state.begun.contains_key(id) && state.begun.len() >= room.max_tasks || used + bytes > room.max_bytes {
            return false;
        }
        state.begun.insert(Arc::clone(id), BegunTask { expires, bytes });
        state.running.insert(Arc::clone(id), run);
        true
    }

    /// Takes back [`Self::begin`].
    pub(super) fn forget(&self, id: &str) {
        let mut state = self.lock();
        state.begun.remove(id);
        state.running.remove(id);
    }

    /// Whether there is room for the texts of a task. The texts of a task of another node count alone.
    pub(super) fn has_room(&self, id: &str, bytes: usize, room: TaskRoom) -> bool {
        let state = self.lock();
        let others = match state.begun.contains_key(id) {
            true => state.begun.iter().filter(|(other, _)| &***other != id).map(|(_, task)| task.bytes).sum(),
            false => 0,
        };
        others + bytes <= room.max_bytes
    }

    /// Counts the texts of a task that was begun here.
    pub(super) fn count(&self, id: &str, bytes: usize) {
        if let Some(task) = self.lock().begun.get_mut(id) {
            task.bytes = bytes;
        }
    }

    /// Whether this run of a handler is one that goes on here.
    pub(super) fn is_running(&self, id: &str, run: TaskRunId) -> bool {
        self.lock().running.get(id) == Some(&run)
    }

    /// Whether any run of the handler goes on here.
    pub(super) fn runs(&self, id: &str) -> bool {
        self.lock().running.contains_key(id)
    }

    pub(super) fn run_ended(&self, id: &str, run: TaskRunId) {
        let mut state = self.lock();
        if state.running.get(id) == Some(&run) {
            state.running.remove(id);
        }
    }

    /// Adds a watch. Returns whether the task was not watched here before.
    pub(super) fn add_watch(&self, id: &str, watch: &Arc<TaskWatch>) -> bool {
        let mut state = self.lock();
        if let Some(task) = state.watched.get_mut(id) {
            task.watches.retain(|known| known.strong_count() > 0);
            task.watches.push(Arc::downgrade(watch));
            return false;
        }
        let task =
            WatchedTask { watches: vec![Arc::downgrade(watch)], changes: 0, looked: Instant::now(), is_settled: false };
        state.watched.insert(id.into(), task);
        true
    }

    /// Records what the watches of a task know already.
    pub(super) fn set_known(&self, id: &str, changes: u64) {
        if let Some(task) = self.lock().watched.get_mut(id) {
            task.changes = task.changes.max(changes);
        }
    }

    /// Records that a task is over.
    pub(super) fn set_settled(&self, id: &str) {
        if let Some(task) = self.lock().watched.get_mut(id) {
            task.is_settled = true;
        }
    }

    /// Notifies the watches of a task that has so many changes, if they do not know all of them.
    pub(in super::super) fn changed(&self, id: &str, changes: u64) {
        let mut state = self.lock();
        let Some((id, task)) = state.watched.remove_entry(id) else { return };
        let mut task = task;
        if changes > task.changes {
            task.changes = changes;
            for watch in task.watches.iter().filter_map(Weak::upgrade) {
                watch.task_changed(&id);
            }
        }
        task.watches.retain(|watch| watch.strong_count() > 0);
        if !task.watches.is_empty() {
            state.watched.insert(id, task);
        }
    }

    /// Notifies the watches of a task that does not exist any more, for the last time.
    pub(super) fn gone(&self, id: &str) {
        self.changed(id, GONE);
    }

    /// Returns some of the watched tasks whose records were not looked at for a while, the longest first.
    pub(super) fn take_due(&self) -> Vec<Arc<str>> {
        let mut state = self.lock();
        let now = Instant::now();
        state.watched.retain(|_, task| task.watches.iter().any(|watch| watch.strong_count() > 0));
        let is_due = |task: &WatchedTask| !task.is_settled && task.changes < GONE && now - task.looked >= LOOK_TIME;
        let due = state.watched.iter().filter(|(_, task)| is_due(task));
        let mut due: Vec<_> = due.map(|(id, task)| (task.looked, Arc::clone(id))).collect();
        due.sort();
        due.truncate(MAX_LOOKS);
        for (_, id) in &due {
            if let Some(task) = state.watched.get_mut(id) {
                task.looked = now;
            }
        }
        due.into_iter().map(|(_, id)| id).collect()
    }

    /// Asks the keeper to run a task again.
    pub(super) fn add_abandoned(&self, id: &Arc<str>) {
        let mut state = self.lock();
        if state.abandoned.len() < MAX_LOOKS {
            state.abandoned.insert(Arc::clone(id));
            self.abandoned_notify.notify_one();
        }
    }

    pub(super) fn add_stillborn(&self, id: &Arc<str>) {
        let mut state = self.lock();
        if state.stillborn.len() < MAX_LOOKS {
            state.stillborn.insert(Arc::clone(id));
        }
    }

    pub(super) fn take_stillborn(&self) -> BTreeSet<Arc<str>> {
        std::mem::take(&mut self.lock().stillborn)
    }

    pub(super) fn has_joined(&self) -> bool {
        self.has_joined.load(Ordering::Acquire)
    }

    pub(super) fn set_joined(&self, has_joined: bool) {
        self.has_joined.store(has_joined, Ordering::Release);
    }

    pub(super) fn take_abandoned(&self) -> BTreeSet<Arc<str>> {
        std::mem::take(&mut self.lock().abandoned)
    }
}

/// The number of changes of a task that does not exist any more.
pub(super) const GONE: u64 = u64::MAX;

/// The time after which the record of a watched task is looked at, in case that a message about it was lost.
const LOOK_TIME: Duration = Duration::from_secs(5);

/// The maximum number of records that are looked at in one pass: a pass should take a fraction of a second.
const MAX_LOOKS: usize = 200;

#[cfg(test)]
mod tests {
    use super::*;

    const ROOM: TaskRoom = TaskRoom { max_tasks: 2, max_bytes: 100 };

    fn run(number: u32) -> TaskRunId {
        TaskRunId { node: 1, number }
    }

    #[tokio::test(start_paused = true)]
    async fn tasks_take_room_until_they_expire() {
        let tasks = NodeTasks::default();
        let expires = Instant::now() + Duration::from_secs(10);
        let begin = |id: &str, bytes| tasks.begin(&id.into(), run(0), bytes, expires, ROOM);
        assert!(begin("a", 60));
        assert!(!begin("b", 41), "too long");
        assert!(begin("b", 10) && !begin("c", 10), "too many");
        assert!(tasks.has_room("b", 40, ROOM) && !tasks.has_room("b", 41, ROOM));
        assert!(tasks.has_room("elsewhere", 100, ROOM) && !tasks.has_room("elsewhere", 101, ROOM));
        tasks.count("a", 95);
        assert!(!tasks.has_room("b", 10, ROOM));
        tasks.run_ended("a", run(0));
        assert!(!begin("c", 1), "a result takes room too");
        tasks.forget("b");
        assert!(begin("c", 1));
        tokio::time::advance(Duration::from_secs(11)).await;
        assert!(tasks.begin(&"d".into(), run(0), 100, Instant::now() + Duration::from_secs(1), ROOM));
    }

    #[test]
    fn an_older_run_does_not_end_a_newer_one() {
        let tasks = NodeTasks::default();
        let expires = Instant::now() + Duration::from_secs(10);
        assert!(tasks.begin(&"a".into(), run(0), 0, expires, ROOM));
        assert!(tasks.begin(&"a".into(), run(1), 0, expires, ROOM), "it counts once");
        tasks.run_ended("a", run(0));
        assert!(tasks.is_running("a", run(1)) && !tasks.is_running("a", run(0)));
        tasks.run_ended("a", run(1));
        assert!(!tasks.runs("a"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_watch_is_told_of_each_change_once_and_looked_after_while_it_lives() {
        let (tasks, watch) = (NodeTasks::default(), Arc::default());
        assert!(tasks.add_watch("a", &watch));
        tasks.set_known("a", 3);
        tasks.changed("a", 3);
        assert!(tokio::time::timeout(Duration::from_secs(1), watch.changed()).await.is_err(), "it is known");
        tasks.changed("a", 5);
        assert_eq!(watch.changed().await.len(), 1);
        tasks.changed("a", 4);
        assert!(tokio::time::timeout(Duration::from_secs(1), watch.changed()).await.is_err(), "a late message");
        assert!(tasks.take_due().is_empty());
        tokio::time::advance(LOOK_TIME).await;
        assert_eq!(tasks.take_due().len(), 1);
        assert!(tasks.take_due().is_empty(), "it was looked at");
        tasks.gone("a");
        assert_eq!(watch.changed().await.len(), 1);
        tokio::time::advance(LOOK_TIME).await;
        assert!(tasks.take_due().is_empty(), "there is nothing to look at");
        assert!(!tasks.add_watch("a", &watch));
        drop(watch);
        tasks.take_due();
        assert!(tasks.lock().watched.is_empty());
    }
}
