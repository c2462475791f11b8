//! Accounts in memory, for programs that must not write them to disk, and for tests.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::account::Account;
use super::store::{CredentialStore, StoreFuture, StoreLock};

/// A store that lasts as long as the process. Clones share their accounts.
#[derive(Clone, Debug, Default)]
pub struct MemoryStore {
    accounts: Arc<Mutex<BTreeMap<String, Account>>>,
    /// One lock for all accounts: a process has few of them.
    lock: Arc<tokio::sync::Mutex<()>>,
}

impl MemoryStore {
    /// Returns an empty store.
    pub fn new() -> Self {
        Self::default()
    }

    fn accounts(&self) -> MutexGuard<'_, BTreeMap<String, Account>> {
        self.accounts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl CredentialStore for MemoryStore {
    fn lock<'a>(&'a self, _: &'a str) -> StoreFuture<'a, StoreLock> {
        Box::pin(async { Ok(StoreLock::new(Arc::clone(&self.lock).lock_owned().await)) })
    }

    fn load<'a>(&'a self, server: &'a str) -> StoreFuture<'a, Option<Account>> {
        Box::pin(async move { Ok(self.accounts().get(server).cloned()) })
    }

    fn save<'a>(&'a self, account: &'a Account) -> StoreFuture<'a, ()> {
        Box::pin(async move {
            self.accounts().insert(account.server().to_owned(), account.clone());
            Ok(())
        })
    }

    fn remove<'a>(&'a self, server: &'a str) -> StoreFuture<'a, bool> {
        Box::pin(async move { Ok(self.accounts().remove(server).is_some()) })
    }

    fn list(&self) -> StoreFuture<'_, Vec<Account>> {
        Box::pin(async { Ok(self.accounts().values().cloned().collect()) })
    }
}
