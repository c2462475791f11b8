//! The tools, resources and prompts of a server, which may change while the server runs, and the watches that are
//! notified of changes.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock, Weak};

use serde::{Deserialize, Serialize};

#[cfg(feature = "http")]
use super::change_history::ChangeHistory;
use super::watch::ChangeWatch;
use super::{Prompt, Resource, Template, Tool};

/// All tools, resources, templates and prompts of a server.
#[derive(Default)]
pub(super) struct Registry {
    entries: RwLock<Arc<RegistryEntries>>,
    /// Incremented by each change, so that a connection can see whether its copy of the entries is current.
    version: AtomicU64,
    /// Whether a [`ServerHandle`](super::ServerHandle) has been created, so that the entries may change.
    is_changeable: AtomicBool,
    watches: Mutex<Watches>,
    /// Tells the other nodes of a cluster of a change here.
    announce: OnceLock<Announce>,
    /// The latest changes, for clients of a cluster that are not watching all the time.
    #[cfg(feature = "http")]
    history: OnceLock<Mutex<ChangeHistory>>,
    /// A random name, by which a node of a cluster sees that a change comes from its own registry.
    #[cfg(feature = "http")]
    name: OnceLock<String>,
}

type Announce = Box<dyn Fn(RegistryChange) + Send + Sync>;

/// A change that clients are notified of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum RegistryChange {
    /// Entries of a list were added, removed or replaced.
    List(ListKind),
    /// The resource with this URI has new contents.
    Resource(String),
}

/// The watches that are notified of changes.
#[derive(Default)]
struct Watches {
    /// The watches by number. A watch removes itself when it is dropped, so dead references do not accumulate.
    by_number: BTreeMap<u64, Weak<ChangeWatch>>,
    last: u64,
}

/// A snapshot of all entries.
#[derive(Clone, Default)]
pub(super) struct RegistryEntries {
    pub(super) tools: EntryList<Tool>,
    pub(super) resources: EntryList<Resource>,
    pub(super) templates: EntryList<Template>,
    pub(super) prompts: EntryList<Prompt>,
    /// Whether an entry that requires scopes was ever added.
    pub(super) has_scopes: bool,
    /// Whether a tool that can run as a task was ever added.
    pub(super) has_tasks: bool,
}

/// A kind of list. Clients can be notified when a list of this kind changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum ListKind {
    Tools,
    Prompts,
    Resources,
}

/// Entries by name, in the order in which they were added. Every client sees the same order.
pub(super) struct EntryList<T> {
    by_name: HashMap<Arc<str>, (u64, Arc<T>)>,
    /// The entries by number. Numbers are never reused, so a page can start after an entry that has since been removed.
    by_number: BTreeMap<u64, Arc<T>>,
    last: u64,
}

impl Registry {
    /// Returns an independent copy of the registry with the same entries and no watches.
    pub(super) fn detached_copy(&self) -> Self {
        Self { entries: RwLock::new(self.entries()), is_changeable: self.is_changeable().into(), ..Self::default() }
    }

    /// Returns the current entries.
    pub(super) fn entries(&self) -> Arc<RegistryEntries> {
        Arc::clone(&self.entries.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns the number of changes of the entries so far.
    #[inline]
    pub(super) fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// Records that the entries may change from now on.
    pub(super) fn make_changeable(&self) {
        self.is_changeable.store(true, Ordering::Release);
    }

    /// Whether the entries may change.
    pub(super) fn is_changeable(&self) -> bool {
        self.is_changeable.load(Ordering::Acquire)
    }

    /// Runs `change` on the entries. If `change` returns true, the version is incremented and all watches are notified.
    pub(super) fn change(&self, kind: ListKind, change: impl FnOnce(&mut RegistryEntries) -> bool) -> bool {
        let mut entries = self.entries.write().unwrap_or_else(PoisonError::into_inner);
        let changed = change(Arc::make_mut(&mut entries));
        if changed {
            self.version.fetch_add(1, Ordering::Release);
        }
        drop(entries);
        if changed {
            self.announce(RegistryChange::List(kind));
        }
        changed
    }

    /// Notifies all watches that a resource has new contents, here and on the other nodes of a cluster.
    pub(super) fn updated(&self, uri: &str) {
        self.announce(RegistryChange::Resource(uri.to_owned()));
    }

    fn announce(&self, change: RegistryChange) {
        self.notify(&change);
        if let Some(announce) = self.announce.get() {
            announce(change);
        }
    }

    /// Notifies the watches on this node of a change.
    pub(super) fn notify(&self, change: &RegistryChange) {
        // A watch that is added now finds the change in the history, or is notified of it.
        #[cfg(feature = "http")]
        self.with_history(|history| history.begin(change));
        self.notify_watches(|watch| match change {
            RegistryChange::List(kind) => watch.list_changed(*kind),
            RegistryChange::Resource(uri) => watch.resource_updated(uri),
        });
        #[cfg(feature = "http")]
        self.with_history(ChangeHistory::end);
    }

    /// Remembers the latest changes from now on.
    #[cfg(feature = "http")]
    pub(super) fn keep_history(&self) {
        self.history.get_or_init(Mutex::default);
    }

    #[cfg(feature = "http")]
    fn with_history<T>(&self, work: impl FnOnce(&mut ChangeHistory) -> T) -> Option<T> {
        let history = self.history.get()?;
        Some(work(&mut history.lock().unwrap_or_else(PoisonError::into_inner)))
    }

    /// Returns the number of changes so far, of which all watches have been notified; `None` while one is being
    /// notified.
    #[cfg(feature = "http")]
    pub(super) fn settled_changes(&self) -> Option<u64> {
        self.with_history(|history| history.settled()).flatten()
    }

    /// Registers a watch, and notifies it of the changes after the first `seen` ones, as far as it is watching for
    /// them.
    #[cfg(feature = "http")]
    pub(super) fn add_late_watch(self: &Arc<Self>, watch: &Arc<ChangeWatch>, seen: u64) {
        self.add_watch(watch);
        self.notify_late(watch, seen);
    }

    /// Notifies a watch of the changes after the first `seen` ones, as far as it is watching for them.
    #[cfg(feature = "http")]
    pub(super) fn notify_late(&self, watch: &ChangeWatch, seen: u64) {
        let (lists, resources) = self
            .with_history(|history| {
                let resources: Vec<String> =
                    watch.subscriptions().into_iter().filter(|uri| history.is_updated(uri, seen)).collect();
                (history.lists_after(seen), resources)
            })
            .unwrap_or_default();
        lists.into_iter().for_each(|kind| watch.list_changed(kind));
        resources.iter().for_each(|uri| watch.resource_updated(uri));
    }

    /// Returns the random name of this registry. Several nodes in one process can share a registry.
    #[cfg(feature = "http")]
    pub(super) fn name(&self) -> &str {
        self.name.get_or_init(|| super::seal::random_name().unwrap_or_default())
    }

    /// Calls `announce` for each later change, which tells the other nodes of a cluster. Only the first call has an
    /// effect.
    #[cfg(feature = "http")]
    pub(super) fn announce_to(&self, announce: impl Fn(RegistryChange) + Send + Sync + 'static) {
        let _ = self.announce.set(Box::new(announce));
    }

    /// Registers a watch. It is notified of changes until it is dropped.
    pub(super) fn add_watch(self: &Arc<Self>, watch: &Arc<ChangeWatch>) {
        let mut watches = self.lock_watches();
        let number = watches.last + 1;
        if watch.set_registration(self, number) {
            watches.last = number;
            watches.by_number.insert(number, Arc::downgrade(watch));
        }
    }

    /// Removes the watch with this number.
    pub(super) fn remove_watch(&self, number: u64) {
        self.lock_watches().by_number.remove(&number);
    }

    fn lock_watches(&self) -> MutexGuard<'_, Watches> {
        self.watches.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn notify_watches(&self, notify: impl Fn(&ChangeWatch)) {
        // The lock is released before the watches are notified. This vector may hold the last reference to a watch, and
        // dropping a watch takes the lock.
        let watches: Vec<_> = self.lock_watches().by_number.values().filter_map(Weak::upgrade).collect();
        watches.iter().for_each(|watch| notify(watch));
    }
}

impl<T> EntryList<T> {
    /// Adds an entry at the end, or replaces the entry with this name, keeping its position.
    pub(super) fn add(&mut self, name: &str, entry: T) {
        let entry = Arc::new(entry);
        let number = match self.by_name.get(name) {
            Some((number, _)) => *number,
            None => {
                self.last += 1;
                self.last
            }
        };
        self.by_name.insert(name.into(), (number, Arc::clone(&entry)));
        self.by_number.insert(number, entry);
    }

    /// Removes an entry. Returns `false` if there is no entry with this name.
    pub(super) fn remove(&mut self, name: &str) -> bool {
        let Some((number, _)) = self.by_name.remove(name) else { return false };
        self.by_number.remove(&number);
        true
    }

    pub(super) fn find(&self, name: &str) -> Option<&Arc<T>> {
        self.by_name.get(name).map(|(_, entry)| entry)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Arc<T>> {
        self.by_number.values()
    }

    /// Returns at most `size` entries after the entry number `after`, and, if more follow, the number of the last entry
    /// returned.
    pub(super) fn page(&self, after: u64, size: usize) -> (Vec<&Arc<T>>, Option<u64>) {
        let mut left = self.by_number.range(after + 1..);
        let page: Vec<(u64, &Arc<T>)> = left.by_ref().take(size).map(|(number, entry)| (*number, entry)).collect();
        let next = left.next().and_then(|_| page.last().map(|(number, _)| *number));
        (page.into_iter().map(|(_, entry)| entry).collect(), next)
    }
}

impl<T> Default for EntryList<T> {
    fn default() -> Self {
        Self { by_name: HashMap::new(), by_number: BTreeMap::new(), last: 0 }
    }
}

impl<T> Clone for EntryList<T> {
    fn clone(&self) -> Self {
        Self { by_name: self.by_name.clone(), by_number: self.by_number.clone(), last: self.last }
    }
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registry").field("version", &self.version()).finish_non_exhaustive()
    }
}
