//! The keys that seal the state of modern calls: all nodes have the same ones, and change them together.
//!
//! A new key is announced before it is used, so that every node can open what another one has sealed. An old key is
//! kept for as long as what it has sealed is valid.

use std::sync::{Arc, PoisonError, Weak};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::node::ClusterNode;
use super::store::{Record, StoreError};
use crate::server::http::endpoint::HttpEndpoint;
use crate::server::seal::Sealer;

/// The keys of a cluster, oldest first.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct KeyRing {
    keys: Vec<RingKey>,
}

#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
struct RingKey {
    /// The key, in Base64.
    key: String,
    /// The time from which the key seals, in seconds since 1970.
    from: u64,
}

impl std::fmt::Debug for RingKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RingKey").field("from", &self.from).finish_non_exhaustive()
    }
}

impl RingKey {
    fn bytes(&self) -> Option<[u8; 32]> {
        BASE64.decode(&self.key).ok()?.try_into().ok()
    }
}

impl KeyRing {
    /// Returns the ring with the keys of another one too.
    fn with(mut self, other: &Self) -> Self {
        for key in &other.keys {
            if !self.keys.contains(key) {
                self.keys.push(key.clone());
            }
        }
        self.keys.sort_by_key(|key| key.from);
        self
    }

    /// Returns the ring with the key that is due, if one is, and without keys that are no longer needed.
    fn renewed(&self, now: u64, lifetime: Duration, new_key: [u8; 32]) -> Self {
        let mut ring = self.clone();
        let newest = ring.keys.last().map(|key| key.from);
        match newest {
            // The first key must seal at once. Other nodes read it before they serve.
            None => ring.keys.push(RingKey { key: BASE64.encode(new_key), from: now }),
            Some(from) if now >= from + KEY_TIME.as_secs() => {
                ring.keys.push(RingKey { key: BASE64.encode(new_key), from: now + ANNOUNCE_TIME.as_secs() });
            }
            Some(_) => {}
        }
        // A key is needed until what it has sealed last is no longer valid.
        let kept = lifetime.as_secs() + ANNOUNCE_TIME.as_secs();
        while ring.keys.len() > 1 && ring.keys[1].from + kept < now {
            ring.keys.remove(0);
        }
        ring
    }

    /// Returns the key that seals now, and the others.
    fn split(&self, now: u64) -> Option<([u8; 32], Vec<[u8; 32]>)> {
        let sealing = self.keys.iter().rposition(|key| key.from <= now).unwrap_or(0);
        let others = self.keys.iter().enumerate().filter(|(at, _)| *at != sealing);
        Some((self.keys.get(sealing)?.bytes()?, others.filter_map(|(_, key)| key.bytes()).collect()))
    }
}

impl ClusterNode {
    /// Gets the keys, if they are not there yet.
    pub(super) async fn load_keys(&self, endpoint: &HttpEndpoint) -> Result<(), StoreError> {
        self.has_keys.get_or_try_init(|| self.update_keys(endpoint)).await.copied()
    }

    /// Reads the keys now, so that a node which has served nothing yet has them if the store goes away, and again from
    /// time to time, until the server is dropped.
    pub(super) async fn refresh_keys(self: Arc<Self>, endpoint: Weak<HttpEndpoint>) {
        if let Some(endpoint) = endpoint.upgrade() {
            // If the store is away, the next request tries it again.
            let _ = self.load_keys(&endpoint).await;
        }
        loop {
            let _ = tokio::time::timeout(REFRESH_TIME, self.keys_due.notified()).await;
            let Some(endpoint) = endpoint.upgrade() else { return };
            // If the store is away, the keys that are known are used, and the next attempt is a minute later.
            let _ = self.update_keys(&endpoint).await;
        }
    }

    async fn update_keys(&self, endpoint: &HttpEndpoint) -> Result<(), StoreError> {
        let settings = &endpoint.shared.settings;
        if settings.has_given_key {
            return Ok(());
        }
        let ring = self.renewed_ring(settings.state_lifetime).await?;
        if let Some((sealing, others)) = ring.split(now()) {
            settings.sealer.get_or_init(|| Sealer::with_key(sealing)).set_keys(sealing, &others);
        }
        Ok(())
    }

    /// Reads the keys, and adds the one that is due.
    async fn renewed_ring(&self, lifetime: Duration) -> Result<KeyRing, StoreError> {
        let life = KEY_TIME + lifetime + ANNOUNCE_TIME + RECORD_TIME;
        for _ in 0..MAX_ATTEMPTS {
            let record = self.watch(self.store.read(NAME, Some(life)).await)?;
            let (version, ring) = match &record {
                Some(Record { version, value }) => (Some(*version), serde_json::from_slice(value).unwrap_or_default()),
                None => (None, KeyRing::default()),
            };
            // If the store has lost its data, what was sealed before can still be opened.
            let known = self.known_keys.lock().unwrap_or_else(PoisonError::into_inner).clone();
            let renewed = ring.clone().with(&known).renewed(now(), lifetime, random_key()?);
            if renewed == ring {
                return Ok(self.know(ring));
            }
            let value: Bytes = serde_json::to_vec(&renewed).expect("text is JSON").into();
            let written = match version {
                Some(version) => self.store.replace(NAME, version, value, life).await,
                None => self.store.create(NAME, value, life).await,
            };
            // If another node was faster, its keys are read.
            if self.watch(written)?.is_some() {
                return Ok(self.know(renewed));
            }
        }
        Err(StoreError::Away("the sealing keys change all the time".to_owned()))
    }

    fn know(&self, ring: KeyRing) -> KeyRing {
        self.known_keys.lock().unwrap_or_else(PoisonError::into_inner).clone_from(&ring);
        ring
    }
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

fn random_key() -> Result<[u8; 32], StoreError> {
    let mut key = [0; 32];
    getrandom::fill(&mut key).map_err(|_| StoreError::Refused("the system returns no random bytes".to_owned()))?;
    Ok(key)
}

const NAME: &str = "cluster/sealing-keys";

/// The time after which a key is replaced.
const KEY_TIME: Duration = Duration::from_secs(12 * 60 * 60);

/// The time between the announcement of a key and its first use: more than the time after which every node reads the
/// keys again, and than the difference between the clocks of the nodes.
const ANNOUNCE_TIME: Duration = Duration::from_secs(5 * 60);

/// The time after which a node reads the keys again.
const REFRESH_TIME: Duration = Duration::from_secs(60);

/// The time for which the keys are kept if no node reads them, beyond the time for which they are needed.
const RECORD_TIME: Duration = Duration::from_secs(60 * 60);

const MAX_ATTEMPTS: usize = 20;

#[cfg(test)]
mod tests {
    use super::super::MemoryCluster;
    use super::super::store::ClusterStore;
    use super::*;

    #[tokio::test]
    async fn keys_that_the_store_has_lost_are_written_again() {
        let lifetime = Duration::from_secs(60 * 60);
        let cluster = MemoryCluster::default();
        let (one, other) = (ClusterNode::new(Arc::new(cluster.join())), ClusterNode::new(Arc::new(cluster.join())));
        let before = one.renewed_ring(lifetime).await.expect("it is there");
        assert_eq!(other.renewed_ring(lifetime).await.as_ref(), Ok(&before));
        let store = cluster.join();
        assert_eq!(store.remove(NAME).await, Ok(true));
        assert_eq!(one.renewed_ring(lifetime).await.as_ref(), Ok(&before));
        assert_eq!(other.renewed_ring(lifetime).await.as_ref(), Ok(&before));
        // A node that knows no key is the first to look.
        assert_eq!(store.remove(NAME).await, Ok(true));
        let newcomer = ClusterNode::new(Arc::new(cluster.join()));
        let new = newcomer.renewed_ring(lifetime).await.expect("it is there");
        assert_ne!(new, before);
        let all = one.renewed_ring(lifetime).await.expect("it is there");
        assert!(before.keys.iter().chain(&new.keys).all(|key| all.keys.contains(key)), "{all:?}");
        for node in [&one, &other, &newcomer] {
            assert_eq!(node.renewed_ring(lifetime).await.as_ref(), Ok(&all), "all agree");
        }
    }

    #[test]
    fn a_key_is_announced_before_it_seals_and_kept_after() {
        let lifetime = Duration::from_secs(60 * 60);
        let (half_day, announce) = (KEY_TIME.as_secs(), ANNOUNCE_TIME.as_secs());
        let first = KeyRing::default().renewed(1000, lifetime, [1; 32]);
        assert_eq!(first.split(1000), Some(([1; 32], vec![])));
        assert_eq!(first.renewed(1000 + half_day - 1, lifetime, [9; 32]), first);
        let due = 1000 + half_day;
        let second = first.renewed(due, lifetime, [2; 32]);
        assert_eq!(second.split(due), Some(([1; 32], vec![[2; 32]])), "it opens before it seals");
        assert_eq!(second.split(due + announce), Some(([2; 32], vec![[1; 32]])));
        assert_eq!(second.renewed(due + 1, lifetime, [9; 32]), second, "it is announced once");
        let late = due + 2 * announce + lifetime.as_secs() + 1;
        let third = second.renewed(late, lifetime, [9; 32]);
        assert_eq!(third.split(late), Some(([2; 32], vec![])), "nothing that the first has sealed is valid");
    }
}
