//! The files of accounts: who can read them, what a crash leaves, and who may write.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use barewire::client::oauth::{Account, CredentialStore, FileStore, SignInError};

/// A folder that is removed at the end of the test.
pub(crate) struct TestFolder(PathBuf);

impl TestFolder {
    pub(crate) fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("barewire-store-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        Self(path)
    }

    pub(crate) fn store(&self) -> FileStore {
        FileStore::in_folder(self.0.join("accounts"))
    }
}

impl Drop for TestFolder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

pub(crate) const SERVER: &str = "https://mcp.example.com/mcp";

pub(crate) fn account(server: &str, token: &str) -> Account {
    let text = format!(
        r#"{{"version":1,"server":"{server}","issuer":"https://as.example.com","token_endpoint":"https://as.example.com/t",
        "client":{{"kind":"dynamic","id":"c"}},"requested_scopes":"a","scopes":"a","token_type":"Bearer",
        "access_token":"{token}","network":"public"}}"#
    );
    Account::read(text.as_bytes()).expect("a record")
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).expect("a file").permissions().mode() & 0o777
}

/// The one file of the store with this extension.
pub(crate) fn file(store: &FileStore, extension: &str) -> PathBuf {
    let mut files = fs::read_dir(store.folder()).expect("a folder").map(|entry| entry.expect("an entry").path());
    files.find(|path| path.extension().is_some_and(|found| found == extension)).expect("a file")
}

#[tokio::test]
async fn an_account_is_stored_in_a_private_file_and_found_again() {
    let folder = TestFolder::new("private");
    let store = folder.store();
    assert_eq!(store.load(SERVER).await.unwrap(), None);
    assert_eq!(store.list().await.unwrap(), []);
    let one = account(SERVER, "token-1");
    store.save(&one).await.unwrap();
    store.save(&account("https://mcp.example.com/other", "token-2")).await.unwrap();
    assert_eq!(store.load(SERVER).await.unwrap(), Some(one));
    assert_eq!(store.list().await.unwrap().len(), 2);
    assert_eq!(mode(store.folder()), 0o700);
    assert_eq!(mode(&file(&store, "json")), 0o600);
    let name = file(&store, "json").file_name().unwrap().to_str().unwrap().to_owned();
    assert!(name.starts_with("mcp.example.com-"), "{name}");
    assert!(store.remove(SERVER).await.unwrap());
    assert!(!store.remove(SERVER).await.unwrap());
    assert_eq!(store.load(SERVER).await.unwrap(), None);
}

#[tokio::test]
async fn files_that_are_not_private_are_refused_without_showing_them() {
    let folder = TestFolder::new("refused");
    let store = folder.store();
    store.save(&account(SERVER, "hunter2")).await.unwrap();
    let path = file(&store, "json");
    let refused = |error: SignInError, what: &str| {
        let text = format!("{error} {error:?}");
        assert!(text.contains(what) && !text.contains("hunter2"), "{text}");
    };
    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
    refused(store.load(SERVER).await.unwrap_err(), "chmod 600");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    // A damaged file, which could quote a token.
    fs::write(&path, r#"{"version":1,"access_token":"hunter2""#).unwrap();
    refused(store.load(SERVER).await.unwrap_err(), "sign in again");
    fs::write(&path, vec![b' '; 1024 * 1024]).unwrap();
    refused(store.load(SERVER).await.unwrap_err(), "longer than");
    // The account of another server under this name.
    fs::write(&path, account("https://evil.example.com/", "hunter2").write()).unwrap();
    refused(store.load(SERVER).await.unwrap_err(), "another server");
    // A link to a file elsewhere, and a pipe, which would block its reader.
    let elsewhere = folder.0.join("elsewhere");
    fs::rename(&path, &elsewhere).unwrap();
    symlink(&elsewhere, &path).unwrap();
    assert!(store.load(SERVER).await.is_err());
}

#[tokio::test]
async fn a_crash_while_writing_leaves_the_old_account() {
    let folder = TestFolder::new("crash");
    let store = folder.store();
    let old = account(SERVER, "old");
    store.save(&old).await.unwrap();
    // A process that was killed in the middle leaves a part of the new file.
    let half = file(&store, "json").with_extension("new");
    fs::write(&half, "{\"version\":1,\"acc").unwrap();
    assert_eq!(store.load(SERVER).await.unwrap(), Some(old));
    let new = account(SERVER, "new");
    store.save(&new).await.unwrap();
    assert_eq!(store.load(SERVER).await.unwrap(), Some(new));
    assert!(!half.exists());
    // The folder of an older version, which others could read.
    fs::set_permissions(store.folder(), fs::Permissions::from_mode(0o755)).unwrap();
    store.save(&account(SERVER, "again")).await.unwrap();
    assert_eq!(mode(store.folder()), 0o700);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_holder_of_a_lock_at_a_time_and_accounts_do_not_wait_for_each_other() {
    let folder = TestFolder::new("lock");
    let inside = Arc::new(AtomicUsize::new(0));
    let mut tasks = Vec::new();
    for _ in 0..8 {
        // A store of its own for each task, as in another process.
        let (store, inside) = (folder.store(), Arc::clone(&inside));
        tasks.push(tokio::spawn(async move {
            let lock = store.lock(SERVER).await.unwrap();
            assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "two holders");
            tokio::time::sleep(Duration::from_millis(10)).await;
            inside.fetch_sub(1, Ordering::SeqCst);
            drop(lock);
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
    let store = folder.store();
    let _held = store.lock(SERVER).await.unwrap();
    let other = tokio::time::timeout(Duration::from_secs(5), store.lock("https://other.example.com/")).await;
    assert!(other.unwrap().is_ok());
}
