//! Accounts <-> storage: the trait, and one private file for each account.

use std::fmt;
use std::fs;
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::time::{Duration, Instant};

use barewire_proto::auth::{BadRecord, MAX_RECORD_BYTES};

use super::SignInError;
use super::account::Account;
use super::crypto::sha256;
use super::sealed;
use crate::platform::{self, FileLock};

/// The future that the functions of a [`CredentialStore`] return.
pub type StoreFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, SignInError>> + Send + 'a>>;

/// A store for [`Account`]s, each under the URL of its server.
///
/// Several processes use the same store, and a refresh token may be spent only once. So an account is changed only
/// while its lock is held, and it is read again after the lock was taken.
pub trait CredentialStore: Send + Sync {
    /// Waits until no other process or task holds the lock of this account. Dropping the returned value releases the
    /// lock; it must also be released when the process ends.
    fn lock<'a>(&'a self, server: &'a str) -> StoreFuture<'a, StoreLock>;

    /// Reads an account; `None` if there is none.
    fn load<'a>(&'a self, server: &'a str) -> StoreFuture<'a, Option<Account>>;

    /// Checks that an account can be written, before a refresh token is spent whose replacement would be lost otherwise.
    /// The default checks nothing.
    fn prepare<'a>(&'a self, server: &'a str) -> StoreFuture<'a, ()> {
        let _ = server;
        Box::pin(async { Ok(()) })
    }

    /// Writes an account. After a crash, either the old or the new account can be read.
    fn save<'a>(&'a self, account: &'a Account) -> StoreFuture<'a, ()>;

    /// Removes an account. Returns whether there was one.
    fn remove<'a>(&'a self, server: &'a str) -> StoreFuture<'a, bool>;

    /// Reads all accounts. Those that cannot be read are left out.
    fn list(&self) -> StoreFuture<'_, Vec<Account>>;
}

/// The lock of an account, until it is dropped.
pub struct StoreLock(#[allow(dead_code, reason = "dropping the value releases the lock")] Box<dyn Send>);

impl StoreLock {
    /// Wraps a value whose `Drop` releases the lock.
    pub fn new(guard: impl Send + 'static) -> Self {
        Self(Box::new(guard))
    }
}

impl fmt::Debug for StoreLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StoreLock")
    }
}

/// One file for each account, in a folder that only its owner can enter.
///
/// Files of other users, and files that other users can read, are refused. A file is replaced as a whole, so a crash
/// leaves the old or the new account.
///
/// With the feature `keyring`, files can be encrypted with a key that the operating system's keyring keeps: see
/// `FileStore::with_keyring`.
#[derive(Clone, Debug)]
pub struct FileStore {
    folder: PathBuf,
    lock_timeout: Duration,
    /// Whether all accounts that are written are encrypted. Otherwise only those are that were encrypted before.
    uses_keyring: bool,
}

impl FileStore {
    /// Uses the folder `barewire/accounts` in the platform's folder for state: `$XDG_STATE_HOME` or `~/.local/state`,
    /// on macOS `~/Library/Application Support`, on Windows `%LOCALAPPDATA%`.
    pub fn new() -> Result<Self, SignInError> {
        let state = platform::state_folder().ok_or(SignInError::NoFolder)?;
        Ok(Self::in_folder(state.join("barewire").join("accounts")))
    }

    /// Uses this folder, which is created when the first account is written.
    pub fn in_folder(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into(), lock_timeout: LOCK_TIMEOUT, uses_keyring: false }
    }

    /// Encrypts the accounts that are written, with a key that the operating system's keyring keeps: the Secret Service
    /// on Linux, the Keychain on macOS, the Credential Manager on Windows.
    ///
    /// Encrypted accounts are read, and stay encrypted when they are renewed, by every `FileStore` of a program with
    /// this feature.
    #[cfg(feature = "keyring")]
    pub fn with_keyring(mut self) -> Self {
        self.uses_keyring = true;
        self
    }

    /// Returns the folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    fn path(&self, server: &str, extension: &str) -> PathBuf {
        self.folder.join(format!("{}.{extension}", file_stem(server)))
    }

    fn try_lock(&self, server: &str) -> Result<Option<FileLock>, SignInError> {
        let path = self.path(server, "lock");
        let locked = platform::create_private_folder(&self.folder).and_then(|()| platform::try_lock_file(&path));
        locked.map_err(|why| SignInError::store(path, why))
    }

    async fn wait_for_lock(&self, server: &str) -> Result<StoreLock, SignInError> {
        let started = Instant::now();
        loop {
            if let Some(lock) = self.try_lock(server)? {
                return Ok(StoreLock::new(lock));
            }
            if started.elapsed() >= self.lock_timeout {
                return Err(SignInError::Busy { after: self.lock_timeout });
            }
            tokio::time::sleep(LOCK_PAUSE).await;
        }
    }

    fn read(&self, server: &str) -> Result<Option<Account>, SignInError> {
        let path = self.path(server, "json");
        let account = self.read_file(&path).map_err(|why| SignInError::read(&path, why))?;
        match account {
            Some(account) if account.server() != server => {
                let why = io::Error::new(io::ErrorKind::InvalidData, "it is the sign-in to another server");
                Err(SignInError::read(path, why))
            }
            account => Ok(account),
        }
    }

    fn write(&self, account: &Account) -> Result<(), SignInError> {
        let path = self.path(account.server(), "json");
        let failed = |why| SignInError::store(&path, why);
        platform::create_private_folder(&self.folder).map_err(failed)?;
        let mut contents = account.write().into_bytes();
        if self.uses_keyring || is_sealed_file(&path).map_err(failed)? {
            contents = sealed::seal(&contents, &self.folder).map_err(failed)?;
        }
        let new = self.path(account.server(), "new");
        let written = write_new(&new, &contents).and_then(|()| fs::rename(&new, &path));
        if let Err(error) = written {
            let _ = fs::remove_file(&new);
            return Err(failed(error));
        }
        platform::sync_folder(&self.folder).map_err(failed)
    }

    /// Writes a file as long as the next account may be, with the key that it needs, and removes the file.
    fn try_write(&self, server: &str) -> Result<(), SignInError> {
        let (path, new) = (self.path(server, "json"), self.path(server, "new"));
        let failed = |why| SignInError::store(&path, why);
        platform::create_private_folder(&self.folder).map_err(failed)?;
        let length = fs::metadata(&path).map_or(0, |metadata| metadata.len().min(MAX_RECORD_BYTES as u64));
        let mut contents = vec![b' '; usize::try_from(length).unwrap_or(0) + LONGER_TOKENS];
        if self.uses_keyring || is_sealed_file(&path).map_err(failed)? {
            contents = sealed::seal(&contents, &self.folder).map_err(failed)?;
        }
        let written = write_new(&new, &contents);
        let _ = fs::remove_file(&new);
        written.map_err(failed)
    }

    fn delete(&self, server: &str) -> Result<bool, SignInError> {
        let path = self.path(server, "json");
        match fs::remove_file(&path) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(SignInError::store(path, error)),
        }
    }

    /// Returns the reasons why files of accounts cannot be used. [`CredentialStore::list`] leaves these files out.
    pub fn unusable(&self) -> StoreFuture<'_, Vec<SignInError>> {
        self.on_disk(|store| store.read_all().map(|(_, unusable)| unusable))
    }

    /// Reads all accounts. Returns the errors of those that cannot be used too.
    fn read_all(&self) -> Result<(Vec<Account>, Vec<SignInError>), SignInError> {
        let entries = match fs::read_dir(&self.folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok((Vec::new(), Vec::new())),
            entries => entries.map_err(|why| SignInError::store(&self.folder, why))?,
        };
        let (mut accounts, mut unusable) = (Vec::new(), Vec::new());
        for entry in entries {
            let path = entry.map_err(|why| SignInError::store(&self.folder, why))?.path();
            if path.extension().is_none_or(|extension| extension != "json") {
                continue;
            }
            match self.read_file(&path) {
                Ok(account) => accounts.extend(account),
                Err(why) => unusable.push(SignInError::read(&path, why)),
            }
        }
        accounts.sort_by(|one, other| one.server().cmp(other.server()));
        Ok((accounts, unusable))
    }

    /// Reads the account in a file; `None` if there is no file.
    fn read_file(&self, path: &Path) -> io::Result<Option<Account>> {
        let file = match platform::open_private_file(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            file => file?,
        };
        let mut contents = Vec::new();
        // One byte more than allowed, so that a longer file is recognized.
        let limit = sealed::max_sealed_length(MAX_RECORD_BYTES) + 1;
        file.take(limit as u64).read_to_end(&mut contents)?;
        if sealed::is_sealed(&contents) {
            contents = sealed::unseal(&contents, &self.folder)?;
        }
        let invalid = |why: BadRecord| io::Error::new(io::ErrorKind::InvalidData, format!("{why}; sign in again"));
        Account::read(&contents).map(Some).map_err(invalid)
    }

    /// Calls a function that uses the disk, on a thread for that.
    fn on_disk<T: Send + 'static>(
        &self,
        run: impl FnOnce(&Self) -> Result<T, SignInError> + Send + 'static,
    ) -> StoreFuture<'static, T> {
        let store = self.clone();
        Box::pin(async move {
            let running = tokio::task::spawn_blocking(move || run(&store));
            running.await.unwrap_or_else(|error| Err(SignInError::store("", io::Error::other(error))))
        })
    }
}

impl CredentialStore for FileStore {
    fn lock<'a>(&'a self, server: &'a str) -> StoreFuture<'a, StoreLock> {
        Box::pin(self.wait_for_lock(server))
    }

    fn load<'a>(&'a self, server: &'a str) -> StoreFuture<'a, Option<Account>> {
        let server = server.to_owned();
        self.on_disk(move |store| store.read(&server))
    }

    fn prepare<'a>(&'a self, server: &'a str) -> StoreFuture<'a, ()> {
        let server = server.to_owned();
        self.on_disk(move |store| store.try_write(&server))
    }

    fn save<'a>(&'a self, account: &'a Account) -> StoreFuture<'a, ()> {
        let account = account.clone();
        self.on_disk(move |store| store.write(&account))
    }

    fn remove<'a>(&'a self, server: &'a str) -> StoreFuture<'a, bool> {
        let server = server.to_owned();
        self.on_disk(move |store| store.delete(&server))
    }

    fn list(&self) -> StoreFuture<'_, Vec<Account>> {
        self.on_disk(|store| store.read_all().map(|(accounts, _)| accounts))
    }
}

/// Writes a new file. The contents are on disk when the function returns: a rename that is there before them could leave an
/// empty file after a power failure.
fn write_new(path: &Path, contents: &[u8]) -> io::Result<()> {
    // Only the holder of the lock writes, so a file of this name was left behind by a crash.
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = platform::create_private_file(path)?;
    file.write_all(contents)?;
    file.sync_all()
}

/// Whether there is a file, and it is encrypted.
fn is_sealed_file(path: &Path) -> io::Result<bool> {
    let mut beginning = Vec::new();
    match fs::File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        file => file?.take(sealed::PREFIX.len() as u64).read_to_end(&mut beginning)?,
    };
    Ok(sealed::is_sealed(&beginning))
}

/// Returns the name of an account's files: the host, for people, and a digest of the URL, which makes the name unique.
fn file_stem(server: &str) -> String {
    let host = server.split_once("://").map_or(server, |(_, rest)| rest);
    let host = host.split(['/', '?', '#']).next().unwrap_or_default();
    let safe = |letter: char| if letter.is_ascii_alphanumeric() || letter == '-' { letter } else { '.' };
    let host: String = host.chars().map(safe).take(MAX_HOST_IN_NAME).collect();
    let host = host.trim_matches('.');
    let hash: String = sha256(server.as_bytes()).iter().take(12).map(|byte| format!("{byte:02x}")).collect();
    format!("{host}-{hash}")
}

/// The number of bytes by which the tokens of a renewal may be longer than the old ones. Issuers make tokens of one kind.
const LONGER_TOKENS: usize = 16 * 1024;

/// The maximum number of characters of the host in a file name. File names have at most 255 bytes.
const MAX_HOST_IN_NAME: usize = 64;

/// The maximum time to wait for another process: longer than a user may take for a sign-in in the browser.
const LOCK_TIMEOUT: Duration = Duration::from_secs(11 * 60);

/// The pause between two attempts to take a lock: short, because a refresh takes a fraction of a second.
const LOCK_PAUSE: Duration = Duration::from_millis(25);
