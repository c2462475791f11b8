//! Sign-ins and renewals that something comes in the way of: a user who is away, a port that is taken, a refresh token
//! that is over, other requests at the same time. What follows them works again.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::time::Duration;

use barewire::client::http::{Dialer, Endpoint, Secret};
use barewire::client::oauth::{
    Account, CredentialStore, DeviceCode, MemoryStore, SignIn, SignInPage, SignInUser, UserFuture, finish_renewals,
};
use barewire::{Client, Failure};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use super::party::{Asked, Gate, Party, Reply};
use super::scene::{Browser, Scene, connect, sign_in};
use super::store::{TestFolder, file};

/// Returns a port that nobody uses, below those that systems give to connections and to listeners that take any port:
/// it is used a moment later.
async fn free_port() -> u16 {
    const FIRST_PORT: u16 = 12_000;
    const PORTS: u32 = 20_000;
    static COUNT: AtomicU32 = AtomicU32::new(0);
    // Test processes at the same time begin at different places.
    let first = std::process::id().wrapping_mul(97);
    for _ in 0..PORTS {
        let offset = first.wrapping_add(COUNT.fetch_add(1, Ordering::Relaxed)) % PORTS;
        let port = FIRST_PORT + u16::try_from(offset).expect("below the number of ports");
        if TcpListener::bind(("127.0.0.1", port)).await.is_ok() {
            return port;
        }
    }
    panic!("there is no free port");
}

/// The redirect URI of the next sign-in is the same, so it must not be taken for a part of the one that was left.
#[tokio::test]
async fn pages_that_the_user_leaves_are_no_obstacle_to_the_next_sign_in() {
    let (scene, store, pages) = (Scene::new().await, MemoryStore::new(), AtomicUsize::new(0));
    let browser = Browser::visiting(move |callback| match pages.fetch_add(1, Ordering::SeqCst) {
        1..=4 => Vec::new(),
        _ => vec![callback.to_owned()],
    });
    let settings = sign_in(&store, &browser).redirect_port(free_port().await).timeout(Duration::from_secs(4));
    let client = connect(&scene.url, settings).await.expect("signed in");
    for page in 1..=4 {
        let error = client.call_tool("write", ()).await.expect_err("the user is away").to_string();
        assert!(error.contains("not finished within"), "page {page}: {error}");
    }
    client.call_tool("write", ()).await.expect("the user is back");
    assert_eq!(browser.opened().len(), 6);
}

#[tokio::test]
async fn a_renewal_needs_no_port() {
    let (scene, store, browser) = (Scene::new().await, MemoryStore::new(), Browser::new());
    scene.issuer.state().lifetime = 20;
    let port = free_port().await;
    let settings = sign_in(&store, &browser).redirect_port(port);
    connect(&scene.url, settings.clone()).await.expect("signed in");
    scene.issuer.state().lifetime = 600;
    let other_program = TcpListener::bind(("127.0.0.1", port)).await.expect("free");
    let client = connect(&scene.url, settings).await.expect("renewed");
    let error = client.call_tool("write", ()).await.expect_err("a page needs the port").to_string();
    assert!(error.contains(&format!("on port {port}")), "{error}");
    assert_eq!(browser.opened().len(), 1);
    drop(other_program);
    client.call_tool("write", ()).await.expect("the port is free");
}

/// A user who is shown a code, and never enters it.
struct Reader;

impl SignInUser for Reader {
    fn open_page<'a>(&'a self, _: &'a SignInPage) -> UserFuture<'a, Option<String>> {
        Box::pin(async { Err(Failure::internal("Reader", "there is no browser")) })
    }

    fn show_code<'a>(&'a self, _: &'a DeviceCode) -> UserFuture<'a, ()> {
        Box::pin(async { Ok(()) })
    }
}

/// The authorization server says how long a code is valid; the client says how long it waits for the user.
#[tokio::test]
async fn a_code_that_is_never_entered_is_given_up() {
    let (scene, store) = (Scene::new().await, MemoryStore::new());
    let at = |path: &str| scene.issuer.party.url(path);
    scene.issuer.state().metadata = json!({"device_authorization_endpoint": at("/device")});
    let code = json!({
        "device_code": "d", "user_code": "U", "verification_uri": at("/enter"), "expires_in": 1_000_000_000, "interval": 1,
    });
    scene.issuer.answer_instead("/device", [Reply::Json(200, code)]);
    scene.issuer.answer_instead("/token", [Reply::Json(400, json!({"error": "authorization_pending"}))]);
    let settings = SignIn::with_store("tester", store).user(Reader).device().timeout(Duration::from_secs(3));
    let connecting = tokio::time::timeout(Duration::from_secs(30), connect(&scene.url, settings));
    let error = connecting.await.expect("it ends").expect_err("nobody has agreed").to_string();
    assert!(error.contains("not finished within 3s"), "{error}");
}

/// Replaces the stored access token by one that has ended.
async fn make_token_end(store: &impl CredentialStore, scene: &Scene) {
    let text = store.load(&scene.url).await.expect("a store").expect("an account").write();
    let mut record: Value = serde_json::from_str(&text).expect("JSON");
    (record["access_token"], record["expires_at"]) = ("over".into(), 1.into());
    store.save(&Account::read(record.to_string().as_bytes()).expect("a record")).await.expect("stored");
}

fn is_renewal(asked: &&Asked) -> bool {
    asked.has("grant_type=refresh_token")
}

/// A refresh token is sent once. A refusal that is not of the authorization server, such as that of a proxy in front of
/// it, says nothing about the token.
#[tokio::test]
async fn a_refresh_token_that_is_over_is_not_sent_again() {
    let refused = Reply::Json(400, json!({"error": "invalid_grant"}));
    for (reply, sent) in [(refused, 1), (Reply::Header(403, "X-By: proxy".to_owned()), 2)] {
        let (scene, store, browser) = (Scene::new().await, MemoryStore::new(), Browser::new());
        connect(&scene.url, sign_in(&store, &browser)).await.expect("signed in");
        make_token_end(&store, &scene).await;
        scene.issuer.answer_instead("/token", [reply]);
        for _ in 0..2 {
            let stored = sign_in(&store, &browser).stored_only();
            let error = connect(&scene.url, stored).await.expect_err("it is over").to_string();
            assert!(error.contains("a sign-in to"), "{error}");
        }
        assert_eq!(scene.issuer.token_requests().iter().filter(is_renewal).count(), sent);
        scene.issuer.state().instead.clear();
        connect(&scene.url, sign_in(&store, &browser)).await.expect("signed in again, or renewed");
    }
}

/// The user has allowed it at the sign-in. Later, other programs renew the token.
#[tokio::test]
async fn the_leave_to_use_a_private_network_is_part_of_the_account() {
    let (scene, store, browser) = (Scene::new().await, MemoryStore::new(), Browser::new());
    connect(&scene.url, sign_in(&store, &browser).allow_private_networks()).await.expect("signed in");
    let account = store.load(&scene.url).await.expect("a store").expect("an account").write();
    assert!(account.contains("private_networks"), "{account}");
    for (overrides, is_refused) in [(json!([]), true), (json!(["private_networks"]), false)] {
        let record = json!({
            "version": 1, "server": scene.url, "issuer": "https://as.example", "token_endpoint": "https://10.255.255.1/t",
            "client": {"kind": "configured", "id": "c"}, "requested_scopes": "", "scopes": "", "token_type": "Bearer",
            "access_token": "a", "refresh_token": "r", "expires_at": 1, "network": "public", "overrides": overrides,
        });
        store.save(&Account::read(record.to_string().as_bytes()).expect("a record")).await.expect("stored");
        let stored = sign_in(&store, &browser).stored_only().request_timeout(Duration::from_millis(300));
        let error = connect(&scene.url, stored).await.expect_err("nothing is there").to_string();
        assert_eq!(error.contains("it leads into a private network"), is_refused, "{error}");
    }
}

/// The nonce of a server has changed, which all requests that are under way learn at the same time.
#[tokio::test]
async fn each_of_many_requests_may_be_refused_for_its_nonce() {
    const REQUESTS: usize = 16;
    let refused = Mutex::new(BTreeSet::new());
    let server = Party::start(|_| {
        move |asked: &Asked| {
            let message: Value = serde_json::from_str(&asked.body).expect("JSON");
            let is_first = refused.lock().expect("no panic").insert(message["id"].to_string());
            if is_first && message["method"] != "server/discover" {
                let challenge = "WWW-Authenticate: DPoP error=\"use_dpop_nonce\"\r\nDPoP-Nonce: n2";
                return Reply::Header(401, challenge.to_owned());
            }
            let result = json!({
                "resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}},
                "tools": [], "ttlMs": 0, "cacheScope": "private",
            });
            Reply::Json(200, json!({"jsonrpc": "2.0", "id": message["id"], "result": result}))
        }
    });
    let (server, store) = (server.await, MemoryStore::new());
    let url = server.url("/mcp");
    let record = json!({
        "version": 1, "server": url, "issuer": "https://as.example", "token_endpoint": "https://as.example/token",
        "client": {"kind": "configured", "id": "c"}, "requested_scopes": "", "scopes": "", "token_type": "Bearer",
        "access_token": "a", "network": "loopback",
    });
    store.save(&Account::read(record.to_string().as_bytes()).expect("a record")).await.expect("stored");
    let client = Arc::new(connect(&url, sign_in(&store, &Browser::new())).await.expect("connected"));
    let mut requests = JoinSet::new();
    for _ in 0..REQUESTS {
        let client = Arc::clone(&client);
        requests.spawn(async move { client.list_tools().await.map(drop) });
    }
    for listed in requests.join_all().await {
        listed.expect("sent again with the nonce");
    }
    assert_eq!(server.count("/mcp"), 1 + 2 * REQUESTS);
}

/// A user who has signed in wants more scopes, or another account: the stored token, although it is good, is not used.
#[tokio::test]
async fn signing_in_again_asks_the_user_and_replaces_the_account() {
    let (scene, store, browser) = (Scene::new().await, MemoryStore::new(), Browser::new());
    connect(&scene.url, sign_in(&store, &browser)).await.expect("signed in");
    let stored = async || store.load(&scene.url).await.expect("a store").expect("an account");
    let first = stored().await;
    assert_eq!(first.scopes(), "mcp");
    let client = connect(&scene.url, sign_in(&store, &browser).scopes("mcp mcp:write").again()).await;
    client.expect("signed in again").call_tool("write", ()).await.expect("allowed");
    assert_eq!(browser.opened().len(), 2);
    assert_eq!(stored().await.scopes(), "mcp mcp:write");
    assert_ne!(stored().await, first);
    assert_eq!(
        scene.issuer.token_requests().iter().filter(is_renewal).count(),
        0,
        "the user decides, not the old sign-in"
    );
    // Several at once are one sign-in.
    let again = || connect(&scene.url, sign_in(&store, &browser).again());
    let (one, two, three) = tokio::join!(again(), again(), again());
    for client in [one, two, three] {
        client.expect("signed in").call_tool("write", ()).await.expect("the scopes are kept");
    }
    assert_eq!(browser.opened().len(), 3);
    // A sign-in that the user leaves takes nothing away but the registration, which the next one does not use.
    let before = stored().await;
    let away = Browser::visiting(|_| Vec::new());
    let left = sign_in(&store, &away).again().timeout(Duration::from_millis(300));
    connect(&scene.url, left).await.expect_err("the user is away");
    let without_redirect = |account: &Account| {
        let mut record: Value = serde_json::from_str(&account.write()).expect("JSON");
        record["client"].as_object_mut().expect("an object").remove("redirect_uri");
        record
    };
    assert_eq!(without_redirect(&stored().await), without_redirect(&before));
}

/// An authorization server that has forgotten the registration shows an error on its page, and the browser never comes
/// back: only the end of the wait tells.
#[tokio::test]
async fn after_a_page_that_was_left_the_client_registers_anew() {
    let (scene, store, browser) = (Scene::new().await, MemoryStore::new(), Browser::new());
    let (port, stuck) = (free_port().await, Browser::visiting(|_| Vec::new()));
    let again = |browser: &Browser| sign_in(&store, browser).redirect_port(port).again();
    connect(&scene.url, again(&browser)).await.expect("signed in");
    connect(&scene.url, again(&browser)).await.expect("signed in again");
    assert_eq!(scene.issuer.party.count("/register"), 1, "the registration is used again");
    let left = again(&stuck).timeout(Duration::from_millis(300));
    connect(&scene.url, left.clone()).await.expect_err("the browser does not come back");
    connect(&scene.url, again(&browser)).await.expect("signed in");
    assert_eq!(scene.issuer.party.count("/register"), 2);
    // The tokens are those of the registered client until there are others.
    connect(&scene.url, left).await.expect_err("the browser does not come back");
    make_token_end(&store, &scene).await;
    connect(&scene.url, sign_in(&store, &stuck).stored_only()).await.expect("renewed");
}

/// The program ends while the authorization server has the refresh token, and its answer is not there yet.
#[tokio::test]
async fn a_renewal_is_finished_before_the_program_ends() {
    let (scene, store, browser) = (Arc::new(Scene::new().await), MemoryStore::new(), Browser::new());
    connect(&scene.url, sign_in(&store, &browser)).await.expect("signed in");
    make_token_end(&store, &scene).await;
    let gate = Gate::new();
    scene.issuer.state().gate = Some(Arc::clone(&gate));
    let (server, stored) = (Arc::clone(&scene), sign_in(&store, &browser).stored_only());
    let program = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            let is_sent = async {
                while !server.issuer.token_requests().iter().any(|asked| is_renewal(&asked)) {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
            };
            tokio::select! {
                _ = connect(&server.url, stored) => panic!("the answer is held"),
                () = is_sent => {}
            }
            assert!(!finish_renewals(Duration::from_millis(10)).await, "it is under way");
            gate.open();
            assert!(finish_renewals(Duration::from_secs(60)).await);
        });
    });
    tokio::task::spawn_blocking(move || program.join().expect("no panic")).await.expect("no panic");
    scene.issuer.state().gate = None;
    make_token_end(&store, &scene).await;
    connect(&scene.url, sign_in(&store, &browser).stored_only()).await.expect("the new refresh token is stored");
    assert_eq!(scene.issuer.token_requests().iter().filter(is_renewal).count(), 2);
}

/// The disk is full: what comes in place of the refresh token would be lost.
#[tokio::test]
async fn a_refresh_token_is_not_spent_if_the_next_one_could_not_be_stored() {
    let (scene, folder, browser) = (Scene::new().await, TestFolder::new("unwritable"), Browser::new());
    let store = folder.store();
    let settings = SignIn::with_store("tester", store.clone()).user(browser.clone());
    connect(&scene.url, settings.clone()).await.expect("signed in");
    make_token_end(&store, &scene).await;
    let before = store.load(&scene.url).await.expect("a store");
    // No file can be written where a folder is.
    let in_the_way = file(&store, "json").with_extension("new");
    std::fs::create_dir(&in_the_way).expect("a folder");
    let error = connect(&scene.url, settings.clone().stored_only()).await.expect_err("no renewal").to_string();
    assert!(error.contains("the stored sign-in"), "{error}");
    assert_eq!(scene.issuer.token_requests().iter().filter(is_renewal).count(), 0, "it was not sent");
    assert_eq!(store.load(&scene.url).await.expect("a store"), before);
    std::fs::remove_dir(&in_the_way).expect("it is there");
    connect(&scene.url, settings.stored_only()).await.expect("renewed");
}

/// A program without a user says what another program has to ask for.
#[tokio::test]
async fn a_step_up_without_a_user_names_the_scopes() {
    let (scene, store, browser) = (Scene::new().await, MemoryStore::new(), Browser::new());
    connect(&scene.url, sign_in(&store, &browser)).await.expect("signed in");
    let client = connect(&scene.url, sign_in(&store, &browser).stored_only()).await.expect("a stored sign-in");
    let error = client.call_tool("write", ()).await.expect_err("it needs more").to_string();
    assert!(error.contains("with the scopes \"mcp mcp:write\" is needed"), "{error}");
    connect(&scene.url, sign_in(&store, &browser).scopes("mcp mcp:write").again()).await.expect("signed in again");
    client.call_tool("write", ()).await.expect("allowed");
}

/// A relay goes on for days. A user who signs in again after a renewal that failed need not start it anew.
#[tokio::test]
async fn a_dialer_takes_a_sign_in_after_a_renewal_that_failed() {
    let (scene, store, browser) = (Scene::new().await, MemoryStore::new(), Browser::new());
    connect(&scene.url, sign_in(&store, &browser)).await.expect("signed in");
    let endpoint = Endpoint::new(&scene.url).sign_in(sign_in(&store, &browser).stored_only());
    let dialer = Dialer::new(&endpoint).expect("valid settings");
    let sent = dialer.authorization("POST").await.expect("a stored sign-in");
    assert!(!sent.is_empty());
    scene.issuer.answer_instead("/token", [Reply::Json(400, json!({"error": "invalid_grant"}))]);
    let refused = [("WWW-Authenticate", "Bearer error=\"invalid_token\"")];
    assert!(!dialer.renew(&sent, refused).await);
    assert!(!dialer.renew(&sent, refused).await);
    assert_eq!(scene.issuer.token_requests().iter().filter(is_renewal).count(), 1, "it is tried once");
    scene.issuer.state().instead.clear();
    connect(&scene.url, sign_in(&store, &browser).again()).await.expect("signed in again");
    assert!(dialer.renew(&sent, refused).await);
    let again = dialer.authorization("POST").await.expect("the new sign-in");
    assert_ne!(again[0].1.expose(), sent[0].1.expose());
}

/// A server whose error page shows the request, as frameworks do that are in debug mode.
#[tokio::test]
async fn a_token_that_the_server_repeats_is_not_in_the_error() {
    for status in [401, 403, 500] {
        let server = Party::start(|_| {
            move |asked: &Asked| {
                let sent = asked.header("authorization").unwrap_or("nothing").to_owned();
                match status {
                    500 => Reply::Text(500, "text/plain", format!("failed for {sent}")),
                    _ => Reply::Header(status, format!("WWW-Authenticate: Other error=\"failed for {sent}\"")),
                }
            }
        });
        let server = server.await;
        let endpoint = Endpoint::new(server.url("/mcp")).bearer(Secret::new("access-hunter-1"));
        let error = Client::http(endpoint).await.expect_err("it fails");
        let shown = format!("{error} {error:?}");
        assert!(shown.contains("failed for Bearer ***") && !shown.contains("hunter"), "{shown}");
    }
}
