//! Notifies clients of changes of a server's entries. For each client, at most one notification is pending for each
//! list and for each resource.
//!
//! A change only sets a flag, and the task that sends notifications takes all flags at once. So a client that reads
//! slowly might get one notification for a hundred changes, and the memory for this client is bounded by the number of
//! its subscriptions.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use barewire_proto::mcp::SubscriptionFilter;
use tokio::sync::Notify;

use super::registry::{ListKind, Registry};

/// The subscriptions of a legacy client, or of one `subscriptions/listen` of a modern client, and the changes that the
/// client has not been notified of yet.
#[derive(Debug)]
pub(super) struct ChangeWatch {
    state: Mutex<WatchState>,
    changed: Notify,
    /// The registry that notifies this watch, and the number of the watch in that registry.
    registration: OnceLock<(Weak<Registry>, u64)>,
}

#[derive(Debug)]
struct WatchState {
    filter: SubscriptionFilter,
    changes: Changes,
    /// Whether notifications of earlier changes are being sent.
    is_sending: bool,
    /// Whether another node of the cluster notifies the client.
    is_paused: bool,
}

/// The changes since notifications were last sent.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Changes {
    pub(super) tools: bool,
    pub(super) prompts: bool,
    pub(super) resources: bool,
    pub(super) updated: BTreeSet<String>,
}

impl ChangeWatch {
    /// Creates a watch for the changes that `filter` selects.
    pub(super) fn new(filter: SubscriptionFilter) -> Self {
        let state = WatchState { filter, changes: Changes::default(), is_sending: false, is_paused: false };
        Self { state: Mutex::new(state), changed: Notify::new(), registration: OnceLock::new() }
    }

    /// Sets the registry that notifies this watch. Returns `false` if the watch already has a registry.
    pub(super) fn set_registration(&self, registry: &Arc<Registry>, number: u64) -> bool {
        self.registration.set((Arc::downgrade(registry), number)).is_ok()
    }

    fn lock(&self) -> MutexGuard<'_, WatchState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn list_changed(&self, kind: ListKind) {
        let mut state = self.lock();
        let WatchState { filter, changes, is_paused, .. } = &mut *state;
        let (wanted, mark) = match kind {
            ListKind::Tools => (filter.tools_list_changed, &mut changes.tools),
            ListKind::Prompts => (filter.prompts_list_changed, &mut changes.prompts),
            ListKind::Resources => (filter.resources_list_changed, &mut changes.resources),
        };
        if wanted && !*is_paused {
            *mark = true;
            self.changed.notify_one();
        }
    }

    pub(super) fn resource_updated(&self, uri: &str) {
        let mut state = self.lock();
        let WatchState { filter, changes, is_paused, .. } = &mut *state;
        if !*is_paused && filter.resource_subscriptions.iter().any(|wanted| wanted == uri) {
            changes.updated.insert(uri.to_owned());
            self.changed.notify_one();
        }
    }

    /// Subscribes to a resource. Returns `false` if that would exceed the limits for subscriptions.
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

    /// Sets whether another node of the cluster notifies the client, and the resources that the client has subscribed
    /// to on any node. If another node did so until now, the client is told of all changes: it is not known which of them
    /// that node has told it of.
    #[cfg(feature = "http")]
    pub(super) fn set_shared_state(&self, is_paused: bool, uris: impl IntoIterator<Item = String>) {
        let mut state = self.lock();
        let was_paused = std::mem::replace(&mut state.is_paused, is_paused);
        state.filter.resource_subscriptions = uris.into_iter().collect();
        drop(state);
        if was_paused
            && !is_paused
            && let Some(registry) = self.registration.get().and_then(|(registry, _)| registry.upgrade())
        {
            registry.notify_late(self, 0);
        }
    }

    /// Returns the resources that the client has subscribed to.
    #[cfg(feature = "http")]
    pub(super) fn subscriptions(&self) -> Vec<String> {
        self.lock().filter.resource_subscriptions.clone()
    }

    /// Whether the client has been sent the notifications of all changes.
    #[cfg(feature = "http")]
    pub(super) fn is_quiet(&self) -> bool {
        let state = self.lock();
        !state.is_sending && state.changes == Changes::default()
    }

    /// Waits until there are changes, then returns and clears them. Their notifications are being sent until the next
    /// call.
    pub(super) async fn changes(&self) -> Changes {
        self.lock().is_sending = false;
        loop {
            if let Some(changes) = self.take_changes() {
                return changes;
            }
            self.changed.notified().await;
        }
    }

    fn take_changes(&self) -> Option<Changes> {
        let mut state = self.lock();
        let changes = std::mem::take(&mut state.changes);
        state.is_sending = changes != Changes::default();
        state.is_sending.then_some(changes)
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
    /// Returns the notifications to send: the method of each, and the URI if it is about a resource.
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

/// Whether subscriptions to these URIs are within the limits.
pub(super) fn is_within_limits<'a>(uris: impl Iterator<Item = &'a str>) -> bool {
    let (count, bytes) = uris.fold((0, 0), |(count, bytes), uri| (count + 1, bytes + uri.len()));
    count <= MAX_SUBSCRIPTIONS && bytes <= MAX_SUBSCRIPTION_BYTES
}

/// The maximum number of resources that one client can subscribe to: more than a host shows to its user. The limit
/// exists because every update searches the subscriptions of every client.
pub(super) const MAX_SUBSCRIPTIONS: usize = 1000;

/// The maximum length of all subscribed URIs together, in bytes: about a kilobyte for each.
const MAX_SUBSCRIPTION_BYTES: usize = 1 << 20;
