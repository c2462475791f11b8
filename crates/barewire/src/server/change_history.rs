//! The latest changes of a server's entries, for clients that a node of a cluster does not keep in memory: when such a
//! client comes back, it is notified of what has changed in the meantime.

use std::collections::{BTreeMap, HashMap};

use super::registry::{ListKind, RegistryChange};

/// The number of the last change of each list and of each resource. Changes are numbered from 1.
#[derive(Debug, Default)]
pub(super) struct ChangeHistory {
    last: u64,
    /// The number of changes of which watches are being notified.
    notifying: usize,
    tools: u64,
    prompts: u64,
    resources: u64,
    updated: HashMap<String, u64>,
    /// The resources in `updated` by the number of their change.
    by_number: BTreeMap<u64, String>,
    /// The number of the last change that was forgotten: any resource may have been updated by it.
    forgotten: u64,
}

impl ChangeHistory {
    /// Adds a change of which watches are about to be notified. [`Self::end`] must be called afterwards.
    pub(super) fn begin(&mut self, change: &RegistryChange) {
        self.notifying += 1;
        self.last += 1;
        match change {
            RegistryChange::List(ListKind::Tools) => self.tools = self.last,
            RegistryChange::List(ListKind::Prompts) => self.prompts = self.last,
            RegistryChange::List(ListKind::Resources) => self.resources = self.last,
            RegistryChange::Resource(uri) => {
                if let Some(before) = self.updated.insert(uri.clone(), self.last) {
                    self.by_number.remove(&before);
                }
                self.by_number.insert(self.last, uri.clone());
                self.forget();
            }
        }
    }

    fn forget(&mut self) {
        while self.by_number.len() > MAX_RESOURCES {
            let Some((number, uri)) = self.by_number.pop_first() else { return };
            self.updated.remove(&uri);
            self.forgotten = number;
        }
    }

    /// Notes that the watches have been notified of a change.
    pub(super) fn end(&mut self) {
        self.notifying = self.notifying.saturating_sub(1);
    }

    /// Returns the number of changes, unless watches are being notified of one.
    pub(super) fn settled(&self) -> Option<u64> {
        (self.notifying == 0).then_some(self.last)
    }

    /// Returns the lists that have changed after the first `seen` changes.
    pub(super) fn lists_after(&self, seen: u64) -> Vec<ListKind> {
        let lists =
            [(ListKind::Tools, self.tools), (ListKind::Prompts, self.prompts), (ListKind::Resources, self.resources)];
        lists.into_iter().filter(|(_, number)| *number > seen).map(|(kind, _)| kind).collect()
    }

    /// Whether a resource was, or may have been, updated after the first `seen` changes.
    pub(super) fn is_updated(&self, uri: &str, seen: u64) -> bool {
        self.updated.get(uri).copied().unwrap_or(self.forgotten) > seen
    }
}

/// The maximum number of resources whose updates are remembered: as many as one client can subscribe to. A client may
/// be told of an update that there was not, if this is exceeded.
const MAX_RESOURCES: usize = super::watch::MAX_SUBSCRIPTIONS;

#[cfg(test)]
mod tests {
    use super::*;

    fn change(history: &mut ChangeHistory, change: RegistryChange) {
        history.begin(&change);
        history.end();
    }

    #[test]
    fn what_has_changed_after_a_number_is_known() {
        let mut history = ChangeHistory::default();
        let resource = |uri: &str| RegistryChange::Resource(uri.to_owned());
        change(&mut history, RegistryChange::List(ListKind::Tools));
        change(&mut history, resource("a"));
        change(&mut history, RegistryChange::List(ListKind::Prompts));
        change(&mut history, resource("b"));
        assert_eq!(history.settled(), Some(4));
        assert_eq!(history.lists_after(0), [ListKind::Tools, ListKind::Prompts]);
        assert_eq!(history.lists_after(1), [ListKind::Prompts]);
        assert_eq!(["a", "b", "c"].map(|uri| history.is_updated(uri, 2)), [false, true, false]);
        history.begin(&resource("a"));
        assert_eq!(history.settled(), None, "watches are being notified");
        history.end();
        assert_eq!(["a", "b"].map(|uri| history.is_updated(uri, 4)), [true, false]);
    }

    #[test]
    fn a_resource_that_was_forgotten_may_have_been_updated() {
        let mut history = ChangeHistory::default();
        for number in 0..2 * MAX_RESOURCES {
            change(&mut history, RegistryChange::Resource(number.to_string()));
        }
        assert_eq!((history.updated.len(), history.by_number.len()), (MAX_RESOURCES, MAX_RESOURCES));
        let forgotten = u64::try_from(MAX_RESOURCES).expect("a small number");
        assert!(history.is_updated("0", forgotten - 1), "it may have been");
        assert!(!history.is_updated("0", forgotten), "not by a change after that");
    }
}
