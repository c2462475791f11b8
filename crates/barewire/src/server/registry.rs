//! What a server has to offer, which may change while it runs, and who is to be told.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, Weak};

use super::watch::Watch;
use super::{Prompt, Resource, Template, Tool};

/// All tools, resources and prompts.
#[derive(Default)]
pub(super) struct Registry {
    offer: RwLock<Arc<Offer>>,
    /// Goes up with each change, so that whoever has looked knows whether to look again.
    version: AtomicU64,
    /// Somebody can change it.
    is_open: AtomicBool,
    watchers: Mutex<Watchers>,
}

/// Who is told of changes, by number.
#[derive(Default)]
struct Watchers {
    /// Each takes itself out when it is dropped, so that nothing is left of it here.
    all: BTreeMap<u64, Weak<Watch>>,
    last: u64,
}

/// What is offered at one moment.
#[derive(Clone, Default)]
pub(super) struct Offer {
    pub(super) tools: List<Tool>,
    pub(super) resources: List<Resource>,
    pub(super) templates: List<Template>,
    pub(super) prompts: List<Prompt>,
}

/// One of the lists that a client is told changes of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Tools,
    Prompts,
    Resources,
}

/// Entries by name, in the order they were added: the same for everybody who asks.
pub(super) struct List<T> {
    by_name: HashMap<Arc<str>, (u64, Arc<T>)>,
    /// A number never comes back, so a page can go on behind an entry that is gone.
    by_number: BTreeMap<u64, Arc<T>>,
    last: u64,
}

impl Registry {
    /// The same offer, to be changed by itself, and watched by no connection yet.
    pub(super) fn copy(&self) -> Self {
        Self { offer: RwLock::new(self.offer()), is_open: self.is_open().into(), ..Self::default() }
    }

    /// What is offered now.
    pub(super) fn offer(&self) -> Arc<Offer> {
        Arc::clone(&self.offer.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Goes up with each change.
    #[inline]
    pub(super) fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// Somebody can change it from now on.
    pub(super) fn open(&self) {
        self.is_open.store(true, Ordering::Release);
    }

    /// Whether somebody can.
    pub(super) fn is_open(&self) -> bool {
        self.is_open.load(Ordering::Acquire)
    }

    /// Changes the offer; whoever watches is told, if `change` says that something is different.
    pub(super) fn change(&self, kind: Kind, change: impl FnOnce(&mut Offer) -> bool) -> bool {
        let mut offer = self.offer.write().unwrap_or_else(PoisonError::into_inner);
        let changed = change(Arc::make_mut(&mut offer));
        if changed {
            self.version.fetch_add(1, Ordering::Release);
        }
        drop(offer);
        if changed {
            self.tell(|watch| watch.list_changed(kind));
        }
        changed
    }

    /// A resource has other contents now.
    pub(super) fn updated(&self, uri: &str) {
        self.tell(|watch| watch.updated(uri));
    }

    /// Tells this one too from now on, as long as it is there.
    pub(super) fn watch(self: &Arc<Self>, watch: &Arc<Watch>) {
        let mut watchers = self.watchers();
        let number = watchers.last + 1;
        if watch.is_watching(self, number) {
            watchers.last = number;
            watchers.all.insert(number, Arc::downgrade(watch));
        }
    }

    /// Tells this one no longer.
    pub(super) fn unwatch(&self, number: u64) {
        self.watchers().all.remove(&number);
    }

    fn watchers(&self) -> MutexGuard<'_, Watchers> {
        self.watchers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tell(&self, tell: impl Fn(&Watch)) {
        // Not while they are locked: the last one to hold a watch may be us, and then it takes itself out.
        let watchers: Vec<_> = self.watchers().all.values().filter_map(Weak::upgrade).collect();
        watchers.iter().for_each(|watch| tell(watch));
    }
}

impl<T> List<T> {
    /// Adds an entry, or replaces it where it stands.
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

    /// Removes an entry; `false` if there is none.
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

    /// At most `size` entries behind this number, and where the next page begins, if there is one.
    pub(super) fn page(&self, behind: u64, size: usize) -> (Vec<&Arc<T>>, Option<u64>) {
        let mut left = self.by_number.range(behind + 1..);
        let page: Vec<(u64, &Arc<T>)> = left.by_ref().take(size).map(|(number, entry)| (*number, entry)).collect();
        let next = left.next().and_then(|_| page.last().map(|(number, _)| *number));
        (page.into_iter().map(|(_, entry)| entry).collect(), next)
    }
}

impl<T> Default for List<T> {
    fn default() -> Self {
        Self { by_name: HashMap::new(), by_number: BTreeMap::new(), last: 0 }
    }
}

impl<T> Clone for List<T> {
    fn clone(&self) -> Self {
        Self { by_name: self.by_name.clone(), by_number: self.by_number.clone(), last: self.last }
    }
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registry").field("version", &self.version()).finish_non_exhaustive()
    }
}
