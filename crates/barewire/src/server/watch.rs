//! Changes of a server's entries -> notifications to interested clients, at most one of a kind pending at a time.
//!
//! A change only sets a mark, and the task that sends notifications takes all marks at once. So a client that reads
//! slowly gets one notification for a hundred changes, and its memory cost is bounded by its subscriptions.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use barewire_proto::mcp::SubscriptionFilter;
use tokio::sync::Notify;

use super::registry::{ListKind, Registry};

/// The changes that one client, or one of its listens, is interested in and has not been notified of yet.
#[derive(Debug)]
pub(super) struct ChangeWatch {
    state: Mutex<WatchState>,
    changed: Notify,
    /// The registry that notifies this watch, and the number of the watch there.
    registration: OnceLock<(Weak<Registry>, u64)>,
}

#[derive(Debug)]
struct WatchState {
    filter: SubscriptionFilter,
    changes: Changes,
}

/// The changes since the last notification.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Changes {
    pub(super) tools: bool,
    pub(super) prompts: bool,
    pub(super) resources: bool,
    pub(super) updated: BTreeSet<String>,
}

impl ChangeWatch {
    /// Creates a watch for the changes that `filter` names.
    pub(super) fn new(filter: SubscriptionFilter) -> Self {
        let state = WatchState { filter, changes: Changes::default() };
        Self { state: Mutex::new(state), changed: Notify::new(), registration: OnceLock::new() }
    }

    /// Sets the registry that notifies this watch. Returns `false` if it has one already.
    pub(super) fn set_registration(&self, registry: &Arc<Registry>, number: u64) -> bool {
        self.registration.set((Arc::downgrade(registry), number)).is_ok()
    }

    fn lock(&self) -> MutexGuard<'_, WatchState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn list_changed(&self, kind: ListKind) {
        let mut state = self.lock();
        let WatchState { filter, changes } = &mut *state;
        let (wanted, mark) = match kind {
            ListKind::Tools => (filter.tools_list_changed, &mut changes.tools),
            ListKind::Prompts => (filter.prompts_list_changed, &mut changes.prompts),
            ListKind::Resources => (filter.resources_list_changed, &mut changes.resources),
        };
        if wanted {
            *mark = true;
            self.changed.notify_one();
        }
    }

    pub(super) fn resource_updated(&self, uri: &str) {
        let mut state = self.lock();
        let WatchState { filter, changes } = &mut *state;
        if filter.resource_subscriptions.iter().any(|wanted| wanted == uri) {
            changes.updated.insert(uri.to_owned());
            self.changed.notify_one();
        }
    }

    /// Subscribes to a resource. Returns `false` if there are too many subscriptions.
    pub(super) fn subscribe(&self, uri: &str) -> bool {
        let mut state = self.lock();
        let uris = &mut state.filter.resource_subscriptions;
        if uris.iter().any(|known| known == uri) {
            return true;
        }
        let fits = is_within_limits(uris.iter().map(String::as_str).chain([uri]));
        if fits {
            uris.push(uri.to_owned());
        }
        fits
    }

    /// Ends the subscription to a resource.
    pub(super) fn unsubscribe(&self, uri: &str) {
        let mut state = self.lock();
        state.filter.resource_subscriptions.retain(|known| known != uri);
        state.changes.updated.remove(uri);
    }

    /// Waits for changes, and takes them.
    pub(super) async fn changes(&self) -> Changes {
        loop {
            let changes = std::mem::take(&mut self.lock().changes);
            if changes != Changes::default() {
                return changes;
            }
            self.changed.notified().await;
        }
    }
}

impl Drop for ChangeWatch {
    fn drop(&mut self) {
        if let Some((registry, number)) = self.registration.take()
            && let Some(registry) = registry.upgrade()
        {
            registry.remove_watch(number);
        }
    }
}

impl Changes {
    /// Returns the notifications to send: the method, and the URI of the resource if it is about one.
    pub(super) fn notifications(self) -> impl Iterator<Item = (&'static str, Option<String>)> {
        let lists = [
            (self.tools, "notifications/tools/list_changed"),
            (self.prompts, "notifications/prompts/list_changed"),
            (self.resources, "notifications/resources/list_changed"),
        ];
        let lists = lists.into_iter().filter(|(changed, _)| *changed).map(|(_, method)| (method, None));
        let updated = self.updated.into_iter().map(|uri| ("notifications/resources/updated", Some(uri)));
        lists.chain(updated)
    }
}

/// Whether these subscriptions stay within the limits.
pub(super) fn is_within_limits<'a>(uris: impl Iterator<Item = &'a str>) -> bool {
    let (count, bytes) = uris.fold((0, 0), |(count, bytes), uri| (count + 1, bytes + uri.len()));
    count <= MAX_SUBSCRIPTIONS && bytes <= MAX_SUBSCRIPTION_BYTES
}

/// The most resources that one client may subscribe to: more than any host shows, and every update looks at each of
/// them.
pub(super) const MAX_SUBSCRIPTIONS: usize = 1000;

/// The limit for the length of all subscribed URIs together: a kilobyte for each.
const MAX_SUBSCRIPTION_BYTES: usize = 1 << 20;
