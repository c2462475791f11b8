//! Authorization servers that never answer, never end, break off or lie: the sign-in fails in time, the error says where
//! and why, little is read, and nothing is stored.

use std::time::Duration;

use barewire::client::oauth::{ConfiguredClient, CredentialStore, MemoryStore};
use serde_json::json;

use super::issuer::{METADATA, now};
use super::party::{Asked, Party, Reply};
use super::scene::{Browser, Scene, connect, sign_in};

/// The limit of a request in tests of servers that do not answer. Honest answers need a small part of it.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(4);

/// The most that a server could write while it is not read: the buffers of a connection on this machine.
const MAX_BUFFERED: u64 = 16 * 1024 * 1024;

const HUGE: u64 = 100 * 1024 * 1024;

fn html() -> Reply {
    Reply::Text(200, "text/html", "<html>Welcome to our login page</html>".to_owned())
}

/// Signs in while the authorization server answers otherwise at one path. Asserts that the error names the URL and has
/// this text, and that nothing is left of the attempt.
async fn assert_fails(path: &'static str, reply: Reply, why: &str) {
    let (scene, store, browser) = (Scene::new().await, MemoryStore::new(), Browser::new());
    scene.issuer.answer_instead(path, [reply.clone()]);
    let limited = sign_in(&store, &browser).request_timeout(REQUEST_TIMEOUT);
    let error = connect(&scene.url, limited).await.expect_err("no token").to_string();
    let url = scene.issuer.party.url(path);
    assert!(error.contains(&url) && error.contains(why), "{path} {reply:?}: {error}");
    assert!(!error.contains("code-") && error.len() < 1000, "{error}");
    assert_eq!(store.load(&scene.url).await.expect("a store"), None, "{path} {reply:?}");
    let written = scene.issuer.party.written();
    assert!(written < MAX_BUFFERED, "{path}: {written} bytes were taken");
}

#[tokio::test]
async fn metadata_that_is_no_metadata_is_reported_with_its_url() {
    assert_fails(METADATA, html(), "is not metadata").await;
    assert_fails(METADATA, Reply::Flood(HUGE), "longer than").await;
    assert_fails(METADATA, Reply::Half, "ended").await;
    assert_fails(METADATA, Reply::Json(500, json!({})), "answers with 500").await;
    assert_fails(METADATA, Reply::redirect(302, METADATA), "too many redirects").await;
    assert_fails(METADATA, Reply::redirect(302, "file:///etc/passwd"), "redirect").await;
    assert_fails(METADATA, Reply::Json(200, json!([])), "is not metadata").await;
}

#[tokio::test]
async fn a_registration_that_is_none_is_reported_with_its_url() {
    assert_fails("/register", html(), "no valid registration").await;
    assert_fails("/register", Reply::Flood(HUGE), "longer than").await;
    assert_fails("/register", Reply::Half, "ended").await;
    assert_fails("/register", Reply::Json(503, json!({})), "is not available: HTTP status 503").await;
    assert_fails("/register", Reply::redirect(307, "/elsewhere"), "HTTP status 307").await;
    assert_fails("/register", Reply::Json(201, json!({"client_id": "a\nb"})), "client_id").await;
}

#[tokio::test]
async fn a_token_that_is_none_is_reported_with_its_url() {
    let token = |members: serde_json::Value| {
        let mut token = json!({"access_token": "t", "token_type": "Bearer"});
        token.as_object_mut().expect("an object").extend(members.as_object().expect("an object").clone());
        Reply::Json(200, token)
    };
    assert_fails("/token", html(), "\"body\"").await;
    assert_fails("/token", Reply::Flood(HUGE), "longer than").await;
    assert_fails("/token", Reply::Half, "ended").await;
    assert_fails("/token", Reply::Json(500, json!({})), "is not available: HTTP status 500").await;
    assert_fails("/token", Reply::redirect(307, "/elsewhere"), "HTTP status 307").await;
    assert_fails("/token", token(json!({"token_type": "mac"})), "token_type").await;
    assert_fails("/token", token(json!({"token_type": null})), "token_type").await;
    assert_fails("/token", token(json!({"expires_in": 1e300})), "expires_in").await;
    assert_fails("/token", token(json!({"access_token": "a\r\nX-Evil: 1"})), "access_token").await;
    assert_fails("/token", token(json!({"access_token": ["t"]})), "access_token").await;
    assert_fails("/token", Reply::Json(200, json!({"error": "invalid_grant"})), "invalid_grant").await;
}

/// All at once, because each of them takes as long as the limit.
#[tokio::test]
async fn an_authorization_server_that_never_answers_or_never_ends_is_given_up() {
    let silent = |path| assert_fails(path, Reply::Silence, "within 4s");
    let endless = |path| assert_fails(path, Reply::Trickle, "within 4s");
    tokio::join!(
        silent(METADATA),
        silent("/register"),
        silent("/token"),
        endless(METADATA),
        endless("/register"),
        endless("/token"),
    );
}

#[tokio::test]
async fn metadata_of_the_resource_that_never_comes_is_given_up() {
    for (reply, why) in [
        (Reply::Silence, "within 4s"),
        (Reply::Flood(HUGE), "longer than"),
        (Reply::Half, "ended"),
        (Reply::Json(500, json!({})), "answers with 500"),
    ] {
        let answer = reply.clone();
        let server = Party::start(|_| {
            move |asked: &Asked| match &*asked.method {
                "POST" => Reply::Header(401, "WWW-Authenticate: Bearer".to_owned()),
                _ => answer.clone(),
            }
        });
        let (server, store, browser) = (server.await, MemoryStore::new(), Browser::new());
        let url = server.url("/mcp");
        let limited = sign_in(&store, &browser).request_timeout(REQUEST_TIMEOUT);
        let error = connect(&url, limited).await.expect_err("no token").to_string();
        let place = server.url("/.well-known/oauth-protected-resource/mcp");
        assert!(error.contains(&place) && error.contains(why), "{reply:?}: {error}");
        assert!(server.written() < 4 * MAX_BUFFERED, "{} bytes were taken", server.written());
        assert_eq!(store.load(&url).await.expect("a store"), None);
    }
}

#[tokio::test]
async fn metadata_of_another_issuer_is_not_used() {
    let (scene, store, browser) = (Scene::new().await, MemoryStore::new(), Browser::new());
    scene.issuer.state().metadata = json!({"issuer": "https://honest.example"});
    let error = connect(&scene.url, sign_in(&store, &browser)).await.expect_err("no token").to_string();
    assert!(error.contains(scene.issuer.name()) && error.contains("https://honest.example"), "{error}");
    assert!(browser.opened().is_empty());
    assert_eq!(scene.issuer.token_requests().len(), 0);
}

#[tokio::test]
async fn an_authorization_server_that_is_back_is_used_again() {
    for path in [METADATA, "/register", "/token"] {
        let (scene, store, browser) = (Scene::new().await, MemoryStore::new(), Browser::new());
        scene.issuer.answer_instead(path, [Reply::Json(500, json!({}))]);
        connect(&scene.url, sign_in(&store, &browser)).await.expect_err("it is broken");
        scene.issuer.state().instead.clear();
        let client = connect(&scene.url, sign_in(&store, &browser)).await.expect("it is back");
        client.call_tool("echo", ()).await.expect("called");
    }
}

/// While the authorization server is broken, a renewal keeps the refresh token: it was not spent.
#[tokio::test]
async fn a_renewal_that_fails_keeps_the_account() {
    let (scene, store, browser) = (Scene::new().await, MemoryStore::new(), Browser::new());
    scene.issuer.state().lifetime = 20;
    connect(&scene.url, sign_in(&store, &browser)).await.expect("signed in");
    let before = store.load(&scene.url).await.expect("a store").expect("an account");
    for reply in [Reply::Json(503, json!({})), Reply::Half, Reply::Flood(HUGE), html()] {
        scene.issuer.answer_instead("/token", [reply.clone()]);
        let error = connect(&scene.url, sign_in(&store, &browser).stored_only()).await.expect_err("no answer");
        assert!(error.to_string().contains(&scene.issuer.party.url("/token")), "{reply:?}: {error}");
        assert_eq!(store.load(&scene.url).await.expect("a store").as_ref(), Some(&before), "{reply:?}");
    }
    scene.issuer.state().instead.clear();
    scene.issuer.state().lifetime = 600;
    connect(&scene.url, sign_in(&store, &browser).stored_only()).await.expect("renewed");
    assert_eq!(browser.opened().len(), 1);
}

/// A lifetime that is over is no reason to ask again and again: the token is used, and renewed by the next connection.
#[tokio::test]
async fn a_token_that_has_ended_before_it_began_is_renewed_once_for_each_connection() {
    let (scene, store, browser) = (Scene::new().await, MemoryStore::new(), Browser::new());
    scene.issuer.state().token = json!({"expires_in": -1});
    for connections in 1..=3 {
        let known = sign_in(&store, &browser).client(ConfiguredClient::new("known"));
        connect(&scene.url, known).await.expect("the token is good");
        assert_eq!(scene.issuer.token_requests().len(), connections);
        let account = store.load(&scene.url).await.expect("a store").expect("an account");
        assert!(account.expires_at().expect("it says when") <= now());
    }
    assert_eq!(browser.opened().len(), 1);
}
