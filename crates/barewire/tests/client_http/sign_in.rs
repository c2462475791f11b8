//! A client that is signed in: which tokens are sent where, and which are not lost.

use std::time::Duration;

use barewire::client::http::Endpoint;
use barewire::client::oauth::{Account, CredentialStore, MemoryStore, SignIn};
use barewire::{Client, ClientError};
use tokio::task::JoinHandle;

use super::script::ScriptedServer;
use super::{in_time, tester};

/// Stores a sign-in to the server, which is also its own authorization server.
async fn store_tokens(store: &MemoryStore, server: &ScriptedServer, access: &str, refresh: &str, expires_at: u64) {
    let (url, origin) = (server.url(), &server.origin);
    let text = format!(
        r#"{{"version":1,"server":"{url}","issuer":"{origin}","token_endpoint":"{origin}/token","client":{{"kind":
        "configured","id":"c"}},"requested_scopes":"","scopes":"","token_type":"Bearer","access_token":"{access}",
        "refresh_token":"{refresh}","expires_at":{expires_at},"network":"loopback"}}"#
    );
    store.save(&Account::read(text.as_bytes()).expect("a record")).await.expect("stored");
}

/// Connects to the server in a task, with the tokens of the store.
fn connect(store: &MemoryStore, server: &ScriptedServer, timeout: Duration) -> JoinHandle<Result<Client, ClientError>> {
    let sign_in = SignIn::with_store("test", store.clone()).stored_only();
    let endpoint = Endpoint::new(server.url()).sign_in(sign_in);
    tokio::spawn(tester().timeout(timeout).http(endpoint))
}

const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);
const FUTURE: u64 = 4_000_000_000;

/// A refresh token is spent when it is sent, so its successor must be stored even if the request is gone.
#[tokio::test]
async fn a_cancelled_request_does_not_lose_the_new_refresh_token() {
    let (mut server, store) = (ScriptedServer::new().await, MemoryStore::new());
    store_tokens(&store, &server, "access-1", "refresh-1", 1).await;
    // Long enough for the request to be sent before the time is up.
    let connecting = connect(&store, &server, Duration::from_secs(3));
    let request = server.next().await;
    assert_eq!((&*request.method, &*request.path), ("POST", "/token"));
    assert!(request.body.contains("grant_type=refresh_token&refresh_token=refresh-1"), "{}", request.body);
    assert!(connecting.await.unwrap().is_err(), "the call has timed out");
    let token = r#"{"access_token":"access-2","token_type":"Bearer","refresh_token":"refresh-2","expires_in":600}"#;
    request.answer("200 OK", &["Content-Type: application/json"], token).await;
    let url = server.url();
    in_time(async {
        loop {
            let text = store.load(&url).await.unwrap().unwrap().write();
            if text.contains("refresh-2") && text.contains("access-2") {
                return;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
}

#[tokio::test]
async fn a_token_that_another_process_has_stored_is_used_without_a_sign_in() {
    let (mut server, store) = (ScriptedServer::new().await, MemoryStore::new());
    store_tokens(&store, &server, "access-1", "refresh-1", FUTURE).await;
    let connecting = connect(&store, &server, CONNECT_TIMEOUT);
    let request = server.post("server/discover").await;
    assert_eq!(request.header("authorization"), Some("Bearer access-1"));
    // The other process renews the token before this one is refused.
    store_tokens(&store, &server, "access-2", "refresh-2", FUTURE).await;
    request.answer("401 Unauthorized", &["WWW-Authenticate: Bearer error=\"invalid_token\""], "").await;
    let again = server.post("server/discover").await;
    assert_eq!(again.header("authorization"), Some("Bearer access-2"));
    drop(again);
    connecting.abort();
}

#[tokio::test]
async fn a_redirect_to_another_origin_gets_no_token() {
    let (mut server, mut other, store) = (ScriptedServer::new().await, ScriptedServer::new().await, MemoryStore::new());
    store_tokens(&store, &server, "access-1", "refresh-1", FUTURE).await;
    let connecting = connect(&store, &server, CONNECT_TIMEOUT);
    let request = server.post("server/discover").await;
    assert_eq!(request.header("authorization"), Some("Bearer access-1"));
    request.answer("307 Temporary Redirect", &[&format!("Location: {}", other.url())], "").await;
    let stolen = other.next().await;
    assert_eq!((stolen.header("authorization"), stolen.header("dpop")), (None, None));
    // A challenge of the other origin does not start a sign-in either.
    stolen.answer("401 Unauthorized", &["WWW-Authenticate: Bearer"], "").await;
    assert!(connecting.await.unwrap().is_err());
    other.silence().await;
}

/// A refresh token that the authorization server refuses leads to the advice to sign in, and to no token in an error.
#[tokio::test]
async fn a_refused_renewal_shows_no_token() {
    let (mut server, store) = (ScriptedServer::new().await, MemoryStore::new());
    store_tokens(&store, &server, "hunter1", "hunter2", 1).await;
    let connecting = connect(&store, &server, CONNECT_TIMEOUT);
    server.next().await.answer("400 Bad Request", &[], r#"{"error":"invalid_grant"}"#).await;
    let answering = tokio::spawn(async move {
        while let Some(request) = server.any().await {
            request.status("404 Not Found", "").await;
        }
    });
    let error = connecting.await.unwrap().expect_err("no sign-in");
    answering.abort();
    assert!(!format!("{error} {error:?}").contains("hunter"), "{error:?}");
}
