//! A store in the memory of this process. The number of its tasks and the length of their texts are bounded.

use std::collections::{BTreeMap, HashMap};
use std::ops::Bound::{Excluded, Unbounded};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use barewire_proto::mcp::task_rules::TaskEffect;

use super::record::{ChangedBy, TaskChange, TaskOwner, TaskRecord};
use super::store::{StoreFuture, TaskChanged, TaskStore, TaskWatch};

pub(in crate::server) struct MemoryTaskStore {
    max_tasks: usize,
    max_bytes: usize,
    state: Mutex<MemoryState>,
}

#[derive(Default)]
struct MemoryState {
    /// The tasks by number, in the order of their creation.
    tasks: BTreeMap<u64, MemoryTask>,
    numbers: HashMap<Arc<str>, u64>,
    last: u64,
    /// The length of the texts of all tasks.
    bytes: usize,
}

struct MemoryTask {
    record: TaskRecord,
    watches: Vec<Weak<TaskWatch>>,
}

impl MemoryTaskStore {
    pub(in crate::server) fn new(max_tasks: usize, max_bytes: usize) -> Self {
        Self { max_tasks, max_bytes, state: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, MemoryState> {
        // A poisoned lock is safe to use: no code that holds it can panic in the middle of a change.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, record: TaskRecord) -> bool {
        let mut state = self.lock();
        if state.tasks.len() >= self.max_tasks {
            return false;
        }
        state.last += 1;
        let number = state.last;
        state.bytes += record.bytes();
        state.numbers.insert(Arc::clone(&record.id), number);
        state.tasks.insert(number, MemoryTask { record, watches: Vec::new() });
        true
    }

    fn apply(&self, id: &str, by: ChangedBy, change: TaskChange) -> Option<TaskChanged> {
        let mut state = self.lock();
        let MemoryState { tasks, numbers, bytes, .. } = &mut *state;
        let task = tasks.get_mut(numbers.get(id)?)?;
        let before = task.record.bytes();
        let mut record = task.record.clone();
        let effect = record.apply(by, change);
        if effect != TaskEffect::Changed {
            return Some(TaskChanged::Applied(effect, record));
        }
        let after = record.bytes();
        if after > before && *bytes - before + after > self.max_bytes {
            return Some(TaskChanged::TooLarge);
        }
        *bytes = *bytes - before + after;
        task.record = record.clone();
        task.notify();
        Some(TaskChanged::Applied(effect, record))
    }

    fn page(&self, owner: &TaskOwner, after: u64, count: usize) -> (Vec<TaskRecord>, Option<u64>) {
        let state = self.lock();
        let mut left = state.tasks.range((Excluded(after), Unbounded)).filter(|(_, task)| task.record.owner == *owner);
        let page: Vec<_> = left.by_ref().take(count).map(|(number, task)| (*number, task.record.clone())).collect();
        let next = left.next().and_then(|_| page.last().map(|(number, _)| *number));
        (page.into_iter().map(|(_, record)| record).collect(), next)
    }
}

impl MemoryState {
    fn remove(&mut self, number: u64) {
        if let Some(task) = self.tasks.remove(&number) {
            self.numbers.remove(&task.record.id);
            self.bytes -= task.record.bytes();
            task.notify();
        }
    }
}

impl MemoryTask {
    fn notify(&self) {
        for watch in self.watches.iter().filter_map(Weak::upgrade) {
            watch.task_changed(&self.record.id);
        }
    }
}

impl TaskStore for MemoryTaskStore {
    fn create(&self, record: TaskRecord) -> StoreFuture<'_, bool> {
        ready(self.add(record))
    }

    fn get<'a>(&'a self, id: &'a str) -> StoreFuture<'a, Option<TaskRecord>> {
        let state = self.lock();
        let task = state.numbers.get(id).and_then(|number| state.tasks.get(number));
        ready(task.map(|task| task.record.clone()))
    }

    fn change<'a>(&'a self, id: &'a str, by: ChangedBy, change: TaskChange) -> StoreFuture<'a, Option<TaskChanged>> {
        ready(self.apply(id, by, change))
    }

    fn list<'a>(
        &'a self,
        owner: &'a TaskOwner,
        after: u64,
        count: usize,
    ) -> StoreFuture<'a, (Vec<TaskRecord>, Option<u64>)> {
        ready(self.page(owner, after, count))
    }

    fn remove<'a>(&'a self, id: &'a str) -> StoreFuture<'a, ()> {
        let mut state = self.lock();
        if let Some(number) = state.numbers.get(id).copied() {
            state.remove(number);
        }
        ready(())
    }

    fn remove_all_of<'a>(&'a self, owner: &'a TaskOwner) -> StoreFuture<'a, ()> {
        let mut state = self.lock();
        let owned = state.tasks.iter().filter(|(_, task)| task.record.owner == *owner);
        let numbers: Vec<u64> = owned.map(|(number, _)| *number).collect();
        numbers.into_iter().for_each(|number| state.remove(number));
        ready(())
    }

    fn add_watch<'a>(&'a self, id: &'a str, watch: &'a Arc<TaskWatch>) -> StoreFuture<'a, ()> {
        let mut state = self.lock();
        let MemoryState { tasks, numbers, .. } = &mut *state;
        if let Some(task) = numbers.get(id).and_then(|number| tasks.get_mut(number)) {
            task.watches.retain(|known| known.strong_count() > 0);
            task.watches.push(Arc::downgrade(watch));
        }
        ready(())
    }
}

fn ready<T: Send + 'static>(value: T) -> StoreFuture<'static, T> {
    Box::pin(std::future::ready(Ok(value)))
}

#[cfg(test)]
mod tests {
    use barewire_proto::mcp::{Era, TaskStatus};
    use serde_json::value::RawValue;

    use super::*;

    fn record(id: &str, owner: &TaskOwner) -> TaskRecord {
        TaskRecord::new(id.into(), owner.clone(), Era::Modern, [].into(), 1000, 10)
    }

    fn result(length: usize) -> TaskChange {
        let text = format!("\"{}\"", "x".repeat(length - 2));
        TaskChange::result(false, None, RawValue::from_string(text).expect("JSON"))
    }

    #[test]
    fn the_number_of_tasks_is_limited_until_one_is_removed() {
        let (store, owner) = (MemoryTaskStore::new(2, 1000), TaskOwner::bearer());
        assert!(store.add(record("a", &owner)) && store.add(record("b", &owner)));
        assert!(!store.add(record("c", &owner)), "there is no room");
        drop(store.remove("a"));
        assert!(store.add(record("c", &owner)));
    }

    #[test]
    fn the_length_of_all_results_is_limited_until_one_is_removed() {
        let (store, owner) = (MemoryTaskStore::new(10, 100), TaskOwner::bearer());
        assert!(store.add(record("a", &owner)) && store.add(record("b", &owner)));
        assert!(matches!(
            store.apply("a", ChangedBy::Client, result(80)),
            Some(TaskChanged::Applied(TaskEffect::Changed, _))
        ));
        assert!(matches!(store.apply("b", ChangedBy::Client, result(21)), Some(TaskChanged::TooLarge)));
        drop(store.remove("a"));
        let Some(TaskChanged::Applied(_, record)) = store.apply("b", ChangedBy::Client, result(21)) else {
            panic!("there is room")
        };
        assert_eq!(record.task().status, TaskStatus::Completed);
    }

    #[test]
    fn a_page_has_only_the_tasks_of_its_owner() {
        let store = MemoryTaskStore::new(10, 100);
        let (ada, bob) = (TaskOwner::principal(Era::Legacy, "ada"), TaskOwner::principal(Era::Legacy, "bob"));
        for (id, owner) in [("a", &ada), ("b", &bob), ("c", &ada), ("d", &ada)] {
            assert!(store.add(record(id, owner)));
        }
        let ids = |records: Vec<TaskRecord>| records.iter().map(|it| it.id.to_string()).collect::<Vec<_>>();
        let (first, next) = store.page(&ada, 0, 2);
        assert_eq!(ids(first), ["a", "c"]);
        let (second, end) = store.page(&ada, next.expect("there is more"), 2);
        assert_eq!((ids(second), end), (vec!["d".to_owned()], None));
        assert_eq!(store.page(&ada, u64::MAX, 2).0.len(), 0);
        drop(store.remove_all_of(&ada));
        assert_eq!(store.page(&ada, 0, 10).0.len(), 0);
        assert_eq!(store.page(&bob, 0, 10).0.len(), 1);
    }

    #[tokio::test]
    async fn a_watch_is_told_of_changes_and_of_the_removal() {
        let (store, owner) = (MemoryTaskStore::new(10, 100), TaskOwner::bearer());
        assert!(store.add(record("a", &owner)));
        let watch = TaskWatch::of(&store, "a").await.expect("a store in memory has no errors");
        store.apply("a", ChangedBy::Client, TaskChange::Message("one".into()));
        store.apply("a", ChangedBy::Client, TaskChange::Message("two".into()));
        assert_eq!(watch.changed().await.len(), 1);
        drop(store.remove("a"));
        assert_eq!(watch.changed().await.len(), 1);
    }
}
