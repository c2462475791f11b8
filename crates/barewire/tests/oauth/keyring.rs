//! Files of accounts that are encrypted with a key in the operating system's keyring. These tests need a keyring:
//! `.ci/keyring` runs them with one of their own.

use std::fs;

use barewire::client::oauth::{Account, CredentialStore as _};

use crate::store::{SERVER, TestFolder, account, file};

/// The contents of all files with accounts.
fn contents(folder: &TestFolder) -> Vec<String> {
    let files = fs::read_dir(folder.store().folder()).expect("a folder").map(|entry| entry.expect("an entry").path());
    let accounts = files.filter(|path| path.extension().is_some_and(|extension| extension == "json"));
    accounts.map(|path| fs::read_to_string(path).expect("text")).collect()
}

#[tokio::test]
async fn an_account_is_encrypted_and_stays_so_when_it_is_renewed() {
    let folder = TestFolder::new("keyring-encrypted");
    let first = account(SERVER, "hunter2");
    folder.store().with_keyring().save(&first).await.unwrap();
    let [text] = &contents(&folder)[..] else { panic!("one file") };
    assert!(text.starts_with("barewire-sealed-1 ") && !text.contains("hunter2"), "{text}");
    // Another process does not say that it wants the keyring: the file says so.
    let store = folder.store();
    assert_eq!(store.load(SERVER).await.unwrap(), Some(first));
    let renewed = account(SERVER, "hunter3");
    store.save(&renewed).await.unwrap();
    let [text] = &contents(&folder)[..] else { panic!("one file") };
    assert!(text.starts_with("barewire-sealed-1 ") && !text.contains("hunter3"), "{text}");
    assert_eq!(store.list().await.unwrap(), [renewed]);
    // A new account is encrypted only if the store was asked to.
    store.save(&account("https://other.example.com/mcp", "hunter4")).await.unwrap();
    assert_eq!(contents(&folder).iter().filter(|text| text.contains("hunter4")).count(), 1);
    assert!(store.remove(SERVER).await.unwrap());
    assert_eq!(store.load(SERVER).await.unwrap(), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn accounts_that_are_written_at_once_have_one_key() {
    let folder = TestFolder::new("keyring-at-once");
    let saved: Vec<Account> =
        (0..8).map(|number| account(&format!("https://{number}.example.com/mcp"), "hunter2")).collect();
    let saving: Vec<_> = saved
        .iter()
        .cloned()
        .map(|account| {
            let store = folder.store().with_keyring();
            tokio::spawn(async move { store.save(&account).await })
        })
        .collect();
    for saving in saving {
        saving.await.unwrap().unwrap();
    }
    assert_eq!(folder.store().list().await.unwrap(), saved);
}

#[tokio::test]
async fn a_changed_file_is_refused_without_showing_it() {
    let folder = TestFolder::new("keyring-changed");
    let store = folder.store().with_keyring();
    store.save(&account(SERVER, "hunter2")).await.unwrap();
    let path = file(&store, "json");
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, &text[..text.len() - 5]).unwrap();
    let error = store.load(SERVER).await.unwrap_err().to_string();
    assert!(error.contains("damaged, or encrypted with another key; sign in again"), "{error}");
}
