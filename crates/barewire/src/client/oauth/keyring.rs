//! The operating system's keyring -> the key that encrypts the files of accounts.

use std::io;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use keyring::Entry;
use ring::rand::{SecureRandom as _, SystemRandom};

use crate::platform;

/// A key of ChaCha20-Poly1305.
pub(super) type Key = [u8; 32];

/// Returns the key; `None` if the keyring has none. `folder` is the folder of the accounts.
pub(super) fn key(folder: &Path) -> io::Result<Option<Key>> {
    match entry(folder)?.get_secret() {
        Ok(secret) => Key::try_from(secret).map(Some).map_err(|_| failed("the key has a wrong length")),
        Err(keyring::Error::NoEntry) => Ok(None),
        Err(error) => Err(failed(error)),
    }
}

/// Returns the key, and makes one if the keyring has none.
pub(super) fn obtain_key(folder: &Path) -> io::Result<Key> {
    if let Some(key) = key(folder)? {
        return Ok(key);
    }
    // Two processes that made a key at once would each encrypt with its own, and the keyring keeps only one.
    let path = folder.join("keyring.lock");
    let started = Instant::now();
    let _lock = loop {
        match platform::try_lock_file(&path)? {
            Some(lock) => break lock,
            None if started.elapsed() > LOCK_TIMEOUT => return Err(failed("another process uses it for too long")),
            None => thread::sleep(LOCK_PAUSE),
        }
    };
    if let Some(key) = key(folder)? {
        return Ok(key);
    }
    let mut key = Key::default();
    SystemRandom::new().fill(&mut key).map_err(|_| failed("the operating system provides no random numbers"))?;
    entry(folder)?.set_secret(&key).map_err(failed)?;
    Ok(key)
}

/// The entry of a folder. Each folder has its own key, so that removing one folder with its key affects no other.
fn entry(folder: &Path) -> io::Result<Entry> {
    if let Err(error) = Entry::store_status() {
        return Err(failed(error));
    }
    Entry::new("barewire", &folder.to_string_lossy()).map_err(failed)
}

fn failed(why: impl std::fmt::Display) -> io::Error {
    io::Error::other(format!("the keyring cannot be used: {why}"))
}

/// The maximum time that another process may take to make the key: the keyring may ask its user for a password.
const LOCK_TIMEOUT: Duration = Duration::from_secs(120);

const LOCK_PAUSE: Duration = Duration::from_millis(25);
