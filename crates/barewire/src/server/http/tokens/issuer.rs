//! The issuer of tokens: its metadata and its keys, fetched when they are needed, and kept.
//!
//! | the keys are | a token with a known key | a token with an unknown key |
//! |---|---|---|
//! | not there yet, or older than a day | waits for them; 503 if the issuer cannot be reached | the same |
//! | older than ten minutes | is checked with them; new ones are fetched in the background | waits for new ones |
//! | younger | is checked with them | waits for new ones, unless they were fetched in the last seconds |
//!
//! A token has an unknown key if none of the keys has signed it, and it names another one or none. If new keys cannot
//! be fetched, it gets 503, because it may be good. Tokens with a known key are accepted meanwhile.
//!
//! So a client with invented key names makes the server fetch at most once in some seconds, and an issuer that is away
//! for some hours does not matter.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use barewire_proto::auth::server::{BadIssuer, IssuerMetadata, JwkSet, UnusableKey, metadata_urls};

use super::document::IssuerDocument;
use crate::log::Log;

/// An issuer, and what is known of it.
pub(super) struct Issuer {
    /// The URL that names the issuer, exactly as its tokens and its metadata write it.
    pub(super) name: String,
    /// The URL of the keys, if it was given and is not to be taken from the metadata.
    pub(super) jwks_uri: Option<String>,
    /// Certificates that are trusted besides those of the platform.
    pub(super) roots: Vec<Vec<u8>>,
    keys: Mutex<KeyState>,
    /// The version of the current keys, to be read without the lock.
    version: AtomicU64,
    /// Held while the keys are fetched, so that many requests wait for one fetch.
    fetching: Arc<tokio::sync::Mutex<()>>,
    pub(super) log: Log,
}

struct KeyState {
    keys: Option<Arc<IssuerKeys>>,
    /// The time at which `keys` was fetched.
    fetched: Option<Instant>,
    /// The time at which the last attempt to fetch keys began, and then that at which it ended: requests that have waited
    /// for it make none of their own, even if it took long.
    attempted: Option<Instant>,
    /// Whether the last attempt has failed.
    has_failed: bool,
}

/// The keys of an issuer.
pub(super) struct IssuerKeys {
    pub(super) set: JwkSet,
    /// The number of this set. Tokens that were verified with another set are verified again.
    pub(super) version: u64,
}

/// The keys could not be fetched, and the token cannot be checked with those that are known.
#[derive(Debug)]
pub(super) struct NoKeys;

impl Issuer {
    pub(super) fn new(name: String) -> Self {
        let keys = Mutex::new(KeyState { keys: None, fetched: None, attempted: None, has_failed: false });
        Self {
            version: AtomicU64::new(0),
            name,
            jwks_uri: None,
            roots: Vec::new(),
            keys,
            fetching: Arc::default(),
            log: Log::default(),
        }
    }

    /// Uses these keys until others are fetched. They never become old.
    pub(super) fn set_keys(&mut self, set: JwkSet) {
        let keys = Some(Arc::new(IssuerKeys { set, version: 1 }));
        self.keys = Mutex::new(KeyState { keys, fetched: None, attempted: None, has_failed: false });
        self.version = AtomicU64::new(1);
    }

    fn state(&self) -> MutexGuard<'_, KeyState> {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the number of the current set of keys; 0 if there is none.
    pub(super) fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// Returns the keys to verify a token with.
    pub(super) async fn keys(self: &Arc<Self>) -> Result<Arc<IssuerKeys>, NoKeys> {
        let (keys, age) = self.current();
        let Some(keys) = keys.filter(|_| age < MAX_KEY_AGE) else {
            self.fetch().await;
            let (keys, age) = self.current();
            return keys.filter(|_| age < MAX_KEY_AGE).ok_or(NoKeys);
        };
        self.refresh_old_keys();
        Ok(keys)
    }

    /// Fetches the keys for a token with an unknown key, unless that was tried in the last seconds. Returns `None` if
    /// the issuer has no other keys than these.
    pub(super) async fn newer_keys(self: &Arc<Self>, known: &IssuerKeys) -> Result<Option<Arc<IssuerKeys>>, NoKeys> {
        self.fetch().await;
        let state = self.state();
        let newer = state.keys.clone().filter(|keys| keys.version != known.version);
        if newer.is_none() && state.has_failed { Err(NoKeys) } else { Ok(newer) }
    }

    /// Fetches the keys in the background if they are old. Tokens that are remembered need it too: the key of one may have
    /// been removed.
    pub(super) fn refresh_old_keys(self: &Arc<Self>) {
        let (keys, age) = self.current();
        if keys.is_some() && age >= KEY_REFRESH && self.may_fetch() && self.fetching.try_lock().is_ok() {
            let issuer = Arc::clone(self);
            tokio::spawn(async move { issuer.fetch().await });
        }
    }

    fn current(&self) -> (Option<Arc<IssuerKeys>>, Duration) {
        let state = self.state();
        // Keys that were given have no age.
        (state.keys.clone(), state.fetched.map_or(Duration::ZERO, |fetched| fetched.elapsed()))
    }

    /// Whether the last attempt was long enough ago.
    fn may_fetch(&self) -> bool {
        let state = self.state();
        let is_fixed = state.keys.is_some() && state.fetched.is_none();
        !is_fixed && state.attempted.is_none_or(|attempted| attempted.elapsed() >= MIN_FETCH_INTERVAL)
    }

    /// Fetches the keys, unless that was tried in the last seconds. The fetch is a task of its own, which goes on if
    /// the client that waits for it leaves: a client that came and left every few seconds would keep new keys away.
    async fn fetch(self: &Arc<Self>) {
        let fetching = Arc::clone(&self.fetching).lock_owned().await;
        // While this waited, another request may have fetched them.
        if !self.may_fetch() {
            return;
        }
        let issuer = Arc::clone(self);
        let task = tokio::spawn(async move {
            issuer.fetch_now().await;
            drop(fetching);
        });
        // If the task did not end well, there are no new keys, which the caller sees.
        let _ = task.await;
    }

    async fn fetch_now(&self) {
        self.state().attempted = Some(Instant::now());
        let fetched = self.fetch_keys().await;
        {
            let mut state = self.state();
            (state.attempted, state.has_failed) = (Some(Instant::now()), fetched.is_err());
        }
        match fetched {
            Ok(set) => {
                let unsafe_keys =
                    set.unused.iter().filter(|why| matches!(why, UnusableKey::Private | UnusableKey::Size));
                for why in unsafe_keys {
                    self.log.report(format_args!("a key of the issuer {} is not used: {why}", self.name));
                }
                if set.keys.is_empty() {
                    self.log.report(format_args!("the issuer {} has no key that can be used for tokens", self.name));
                }
                let mut state = self.state();
                let (version, is_same) = state.keys.as_ref().map_or((0, false), |old| (old.version, old.set == set));
                if !is_same {
                    state.keys = Some(Arc::new(IssuerKeys { set, version: version + 1 }));
                    self.version.store(version + 1, Ordering::Release);
                }
                state.fetched = Some(Instant::now());
            }
            Err(why) => {
                let kept = if self.state().keys.is_some() { "; the keys that are known stay in use" } else { "" };
                self.log.report(format_args!("the keys of the issuer {} cannot be fetched: {why}{kept}", self.name));
            }
        }
    }

    async fn fetch_keys(&self) -> Result<JwkSet, String> {
        let url = match &self.jwks_uri {
            Some(url) => url.clone(),
            None => self.endpoint("jwks_uri", |metadata| metadata.jwks_uri).await?,
        };
        let document = IssuerDocument::new(&url, &self.roots).map_err(|error| error.to_string())?;
        let text = document.get().await.map_err(|error| error.to_string())?;
        JwkSet::parse(&text).ok_or_else(|| "the document is not a set of keys (JWKS)".to_owned())
    }

    /// Fetches the metadata, and returns an endpoint of the issuer: from the first URL whose document names it. A page that
    /// is sent for every path is passed over, and so is metadata of OAuth without the keys that OpenID Connect needs.
    pub(super) async fn endpoint(
        &self,
        name: &str,
        of: impl Fn(IssuerMetadata) -> Option<String>,
    ) -> Result<String, String> {
        let mut why = String::new();
        for url in metadata_urls(&self.name).ok_or("it is not an https URL")? {
            let document = IssuerDocument::new(&url, &self.roots).map_err(|error| error.to_string())?;
            let text = match document.get().await {
                Ok(text) => text,
                Err(error) => {
                    why = error.to_string();
                    continue;
                }
            };
            match IssuerMetadata::parse(&text, &self.name).map(&of) {
                Ok(Some(endpoint)) => return Ok(endpoint),
                Ok(None) => why = format!("it has no {name}"),
                Err(bad @ BadIssuer::Malformed) => why = bad.to_string(),
                // A document that names another issuer is not passed over: it is a mistake or an attack.
                Err(bad) => return Err(bad.to_string()),
            }
        }
        Err(format!("no metadata: {why}"))
    }
}

/// The age from which on the keys are fetched again, in the background. Issuers publish a new key hours before they use
/// it, and a token with an unknown key is noticed anyway; this is the time until a key that was removed is no longer
/// trusted.
const KEY_REFRESH: Duration = Duration::from_secs(10 * 60);

/// The age from which on keys are not used any more, even if the issuer cannot be reached.
const MAX_KEY_AGE: Duration = Duration::from_secs(24 * 60 * 60);

/// The minimum time between the end of one attempt to fetch the keys and the next one.
const MIN_FETCH_INTERVAL: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    #[tokio::test]
    async fn old_keys_are_fetched_again_although_all_tokens_are_remembered() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut issuer = Issuer::new("https://issuer.example".to_owned());
        issuer.jwks_uri = Some(format!("http://{}/keys", listener.local_addr().unwrap()));
        issuer.set_keys(JwkSet::default());
        let issuer = Arc::new(issuer);
        let set_age = |age: Duration| issuer.state().fetched = Some(Instant::now().checked_sub(age).unwrap());
        let is_asked = || async { tokio::time::timeout(Duration::from_millis(200), listener.accept()).await.is_ok() };
        issuer.refresh_old_keys();
        assert!(!is_asked().await, "keys that were given never become old");
        set_age(Duration::ZERO);
        issuer.refresh_old_keys();
        assert!(!is_asked().await, "the keys are new");
        set_age(KEY_REFRESH);
        issuer.refresh_old_keys();
        listener.accept().await.expect("the keys are fetched");
    }
}
