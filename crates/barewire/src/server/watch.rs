//! Changes of what a server offers -> notifications to those who want to know, no more than one of a kind at a time.
//!
//! A change is only marked where it happens; whoever watches takes all marks at once. So a client that reads slowly is told
//! once of a hundred changes, and costs no more memory than what it asked to be told of.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use barewire_proto::mcp::SubscriptionFilter;
use tokio::sync::Notify;

use super::registry::{Kind, Registry};

/// What one client, or one listen of it, wants to be told and has not been told yet.
#[derive(Debug)]
pub(super) struct Watch {
    inner: Mutex<Inner>,
    told: Notify,
    /// Who tells it, and as which of all that are told.
    told_by: OnceLock<(Weak<Registry>, u64)>,
}

#[derive(Debug)]
struct Inner {
    wants: SubscriptionFilter,
    news: News,
}

/// What has changed.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct News {
    pub(super) tools: bool,
    pub(super) prompts: bool,
    pub(super) resources: bool,
    pub(super) updated: BTreeSet<String>,
}

impl Watch {
    /// Watches for what `wants` says.
    pub(super) fn new(wants: SubscriptionFilter) -> Self {
        let inner = Inner { wants, news: News::default() };
        Self { inner: Mutex::new(inner), told: Notify::new(), told_by: OnceLock::new() }
    }

    /// Is told by this from now on; `false` if it is told already.
    pub(super) fn is_watching(&self, registry: &Arc<Registry>, number: u64) -> bool {
        self.told_by.set((Arc::downgrade(registry), number)).is_ok()
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn list_changed(&self, kind: Kind) {
        let mut inner = self.lock();
        let Inner { wants, news } = &mut *inner;
        let (wanted, mark) = match kind {
            Kind::Tools => (wants.tools_list_changed, &mut news.tools),
            Kind::Prompts => (wants.prompts_list_changed, &mut news.prompts),
            Kind::Resources => (wants.resources_list_changed, &mut news.resources),
        };
        if wanted {
            *mark = true;
            self.told.notify_one();
        }
    }

    pub(super) fn updated(&self, uri: &str) {
        let mut inner = self.lock();
        let Inner { wants, news } = &mut *inner;
        if wants.resource_subscriptions.iter().any(|wanted| wanted == uri) {
            news.updated.insert(uri.to_owned());
            self.told.notify_one();
        }
    }

    /// Wants to be told of this resource too; `false` if it wants too much.
    pub(super) fn subscribe(&self, uri: &str) -> bool {
        let mut inner = self.lock();
        let uris = &mut inner.wants.resource_subscriptions;
        if uris.iter().any(|known| known == uri) {
            return true;
        }
        let fits = fits(uris.iter().map(String::as_str).chain([uri]));
        if fits {
            uris.push(uri.to_owned());
        }
        fits
    }

    /// No longer wants to be told of this resource.
    pub(super) fn unsubscribe(&self, uri: &str) {
        let mut inner = self.lock();
        inner.wants.resource_subscriptions.retain(|known| known != uri);
        inner.news.updated.remove(uri);
    }

    /// Waits for something to have changed, and takes it.
    pub(super) async fn news(&self) -> News {
        loop {
            let news = std::mem::take(&mut self.lock().news);
            if news != News::default() {
                return news;
            }
            self.told.notified().await;
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        if let Some((registry, number)) = self.told_by.take()
            && let Some(registry) = registry.upgrade()
        {
            registry.unwatch(number);
        }
    }
}

impl News {
    /// The notifications that tell of it: the method, and the resource it is about.
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

/// Whether so much may be subscribed to at once.
pub(super) fn fits<'a>(uris: impl Iterator<Item = &'a str>) -> bool {
    let (count, bytes) = uris.fold((0, 0), |(count, bytes), uri| (count + 1, bytes + uri.len()));
    count <= MOST && bytes <= MOST_BYTES
}

/// So many resources one client may subscribe to: more than any shows, and each is looked at with each update.
pub(super) const MOST: usize = 1000;

/// So long their URIs may be together: a kilobyte for each.
const MOST_BYTES: usize = 1 << 20;
