//! The files of accounts: who can read them, what a crash leaves, and who may write.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use barewire::client::http::Endpoint;
use barewire::client::oauth::{Account, CredentialStore, FileStore, SignIn, SignInError, SignOut, sign_out};

use super::scene::{Browser, Scene, connect};

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

/// The files of the store with this extension.
fn files(store: &FileStore, extension: &str) -> Vec<PathBuf> {
    let files = fs::read_dir(store.folder()).expect("a folder").map(|entry| entry.expect("an entry").path());
    files.filter(|path| path.extension().is_some_and(|found| found == extension)).collect()
}

/// Whether this is the file of an account at this host.
fn is_of(path: &Path, host: &str) -> bool {
    path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(host))
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

/// The file of this user can be replaced and removed; what it has cannot be used.
#[tokio::test]
async fn a_file_that_cannot_be_used_is_in_the_way_of_nothing_but_its_use() {
    let newer = account(SERVER, "hunter2").write().replacen("\"version\": 1", "\"version\": 2", 1);
    for (name, contents, mode) in [("damaged", "{", 0o600), ("newer", &*newer, 0o600), ("open", &*newer, 0o644)] {
        let (scene, folder, browser) = (Scene::new().await, TestFolder::new(name), Browser::new());
        let store = folder.store();
        let settings = SignIn::with_store("tester", store.clone()).user(browser.clone());
        connect(&scene.url, settings.clone()).await.expect("signed in");
        let other = account("https://mcp.example.com/other", "token-2");
        store.save(&other).await.expect("stored");
        let path = files(&store, "json").into_iter().find(|path| is_of(path, "127.0.0.1")).expect("a file");
        let spoil = || {
            fs::write(&path, contents).expect("written");
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("ours");
        };
        spoil();
        assert!(matches!(store.load(&scene.url).await, Err(SignInError::Unreadable { .. })), "{name}");
        let error = connect(&scene.url, settings.clone()).await.expect_err("it cannot be used").to_string();
        assert!(error.contains("sign in again"), "{name}: {error}");
        assert_eq!(store.list().await.expect("the others"), [other], "{name}");
        let unusable = store.unusable().await.expect("a folder");
        assert!(
            matches!(&unusable[..], [SignInError::Unreadable { path: found, .. }] if *found == path),
            "{unusable:?}"
        );
        connect(&scene.url, settings.clone().again()).await.expect("signed in again");
        assert!(store.load(&scene.url).await.expect("a file").is_some(), "{name}");
        spoil();
        let endpoint = Endpoint::new(&scene.url).sign_in(settings.stored_only());
        assert_eq!(sign_out(&endpoint).await.expect("signed out"), SignOut::Forgotten);
        assert_eq!(store.load(&scene.url).await.expect("a store"), None, "{name}");
    }
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
