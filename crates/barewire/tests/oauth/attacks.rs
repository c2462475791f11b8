//! Attacks on a client that signs in, by authorization servers, servers, web pages and thieves. docs/security.md lists
//! them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use barewire::client::oauth::{
    Account, ConfiguredClient, CredentialStore, MemoryStore, SignIn, SignInError, StoreFuture, StoreLock,
};
use serde_json::{Value, json};

use super::issuer::{Issuer, METADATA};
use super::log::Log;
use super::party::{Asked, Party, Reply, parameter};
use super::scene::{Browser, Scene, connect, post_form, sign_in, visit};

const RESOURCE_METADATA: &str = "/.well-known/oauth-protected-resource/mcp";

/// Starts a server that refuses every request, and has this metadata of a resource. `make` gets the URL of the server.
async fn refusing_server(challenge: &'static str, make: impl FnOnce(&str) -> Value) -> Party {
    let server = Party::start(|origin| {
        let metadata = make(&format!("{origin}/mcp"));
        move |asked: &Asked| match &*asked.path {
            RESOURCE_METADATA => Reply::Json(200, metadata.clone()),
            "/mcp" => Reply::Header(401, format!("WWW-Authenticate: {challenge}")),
            _ => Reply::Header(404, "X-Why: unknown".to_owned()),
        }
    });
    server.await
}

/// Signs in to a hostile server. Returns the error.
async fn refused(url: &str, browser: &Browser) -> String {
    let store = MemoryStore::new();
    let error = connect(url, sign_in(&store, browser)).await.expect_err("no sign-in").to_string();
    assert_eq!(store.load(url).await.expect("a store"), None, "nothing is stored: {error}");
    error
}

/// Mix-up: the server names the attacker's authorization server, which sends the user's browser on to the honest one. The
/// code of the honest one must not be sent to the attacker (RFC 9700, section 4.4).
#[tokio::test]
async fn a_code_of_another_authorization_server_is_not_sent_to_the_attacker() {
    for announces in [false, true] {
        let honest = Issuer::start().await;
        let page = honest.party.url("/authorize");
        let attacker = Party::start(|origin| {
            let metadata = json!({
                "issuer": origin, "authorization_endpoint": format!("{origin}/authorize"),
                "token_endpoint": format!("{origin}/token"), "code_challenge_methods_supported": ["S256"],
                "authorization_response_iss_parameter_supported": announces,
                "token_endpoint_auth_methods_supported": ["none"],
            });
            move |asked: &Asked| match &*asked.path {
                METADATA => Reply::Json(200, metadata.clone()),
                "/authorize" => Reply::redirect(302, format_args!("{page}?{}", asked.query)),
                _ => Reply::Json(200, json!({"access_token": "evil", "token_type": "Bearer"})),
            }
        });
        let attacker = attacker.await;
        let issuer = attacker.origin.clone();
        let server = refusing_server("Bearer", |url| json!({"resource": url, "authorization_servers": [issuer]})).await;
        let (store, browser) = (MemoryStore::new(), Browser::new());
        let client = sign_in(&store, &browser).client(ConfiguredClient::new("known"));
        let error = connect(&server.url("/mcp"), client).await.expect_err("mixed up").to_string();
        assert!(error.contains("not from the authorization server that was asked"), "{error}");
        assert_eq!(honest.party.count("/authorize"), 1, "the user has signed in at the honest one");
        assert_eq!(attacker.count("/token"), 0, "{:?}", attacker.requests());
        assert!(!error.contains("code-"), "{error}");
    }
}

/// Code injection: the attacker has got a code of another sign-in with the same client, and puts it into the user's
/// callback. It was issued for another challenge.
#[tokio::test]
async fn an_injected_code_is_of_no_use() {
    let scene = Scene::new().await;
    let port = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port").local_addr().expect("bound").port();
    let (resource, page) = (&scene.url, scene.issuer.party.url("/authorize"));
    let own = format!(
        "{page}?client_id=known&code_challenge=E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM&code_challenge_method=S256\
         &redirect_uri=http://127.0.0.1:{port}/callback&resource={resource}&scope=mcp&state=s"
    );
    let (_, location) = visit(&own).await;
    let location = location.expect("a callback");
    let injected = parameter(location.split_once('?').expect("a query").1, "code").expect("a code");
    let changed = move |callback: &str| {
        let (start, query) = callback.split_once('?').expect("a query");
        let code = parameter(query, "code").expect("a code");
        vec![format!("{start}?{}", query.replace(&code, &injected))]
    };
    let (store, browser) = (MemoryStore::new(), Browser::visiting(changed));
    let client = sign_in(&store, &browser).client(ConfiguredClient::new("known")).redirect_port(port);
    let error = connect(&scene.url, client).await.expect_err("the code is of another sign-in").to_string();
    assert!(error.contains("invalid_grant"), "{error}");
    assert_eq!(store.load(&scene.url).await.expect("a store"), None);
    // Without the attack, the same client signs in. Its verifier is a new one.
    let client = sign_in(&store, &Browser::new()).client(ConfiguredClient::new("known")).redirect_port(port);
    connect(&scene.url, client).await.expect("signed in");
    let verifiers: Vec<_> = scene.issuer.token_requests().iter().map(|asked| asked.field("code_verifier")).collect();
    assert_eq!(verifiers.len(), 2);
    assert_ne!(verifiers[0], verifiers[1]);
    assert!(verifiers.iter().all(|verifier| verifier.as_ref().is_some_and(|verifier| verifier.len() >= 43)));
}

/// CSRF: a web page makes the user's browser visit the callback with a code of the attacker.
#[tokio::test]
async fn a_callback_of_another_sign_in_changes_nothing() {
    let forged = |callback: &str| {
        let (start, query) = callback.split_once('?').expect("a query");
        let state = parameter(query, "state").expect("a state");
        vec![
            format!("{start}?code=evil"),
            format!("{start}?code=evil&state="),
            format!("{start}?code=evil&state={}x", &state[1..]),
            format!("{start}?error=access_denied&state={}", state.to_ascii_lowercase()),
            // The name of the attacker's page leads to this machine (DNS rebinding).
            format!("{callback} as evil.example"),
            callback.to_owned(),
        ]
    };
    let (scene, store, browser) = (Scene::new().await, MemoryStore::new(), Browser::visiting(forged));
    connect(&scene.url, sign_in(&store, &browser)).await.expect("the real callback counts");
    assert_eq!(browser.statuses()[..5], [400, 400, 400, 400, 403]);
    let codes: Vec<_> = scene.issuer.token_requests().iter().filter_map(|asked| asked.field("code")).collect();
    assert!(codes.len() == 1 && !codes[0].contains("evil"), "{codes:?}");
}

/// PKCE downgrade: an authorization server, or an attacker that changes its metadata, does not announce S256.
#[tokio::test]
async fn without_s256_no_page_is_opened() {
    for methods in [Value::Null, json!([]), json!(["plain"]), json!("S256"), json!(["s256"])] {
        let (scene, browser) = (Scene::new().await, Browser::new());
        scene.issuer.state().metadata = json!({"code_challenge_methods_supported": methods});
        let error = refused(&scene.url, &browser).await;
        assert!(error.contains("PKCE") || error.contains("code_challenge_methods_supported"), "{methods}: {error}");
        assert!(browser.opened().is_empty(), "{methods}");
        assert_eq!(scene.issuer.party.lines(), [format!("GET {METADATA}")], "{methods}");
    }
}

/// Open redirects: the token endpoint sends the client elsewhere, with the code and the verifier.
#[tokio::test]
async fn a_code_does_not_follow_a_redirect() {
    for status in [301, 302, 303, 307, 308] {
        let (scene, browser) = (Scene::new().await, Browser::new());
        let thief = Party::start(|_| |_: &Asked| Reply::Json(200, json!({}))).await;
        scene.issuer.answer_instead("/token", [Reply::redirect(status, thief.url("/token"))]);
        let error = refused(&scene.url, &browser).await;
        assert!(error.contains(&format!("HTTP status {status}")), "{error}");
        assert!(thief.requests().is_empty(), "{:?}", thief.requests());
    }
}

/// Pages that a browser should not be sent to: scripts, files, programs of the user, pages in the clear.
#[tokio::test]
async fn only_a_web_page_is_opened() {
    for page in ["javascript:alert(1)", "file:///etc/passwd", "vscode://evil", "http://evil.example/authorize", "/x"] {
        let (scene, browser) = (Scene::new().await, Browser::new());
        scene.issuer.state().metadata = json!({"authorization_endpoint": page});
        let error = refused(&scene.url, &browser).await;
        assert!(error.contains("authorization_endpoint"), "{page}: {error}");
        assert!(browser.opened().is_empty(), "{page}");
    }
}

/// SSRF: the metadata names services that only the user's machine can reach, such as those of a cloud.
#[tokio::test]
async fn metadata_cannot_name_a_link_local_service() {
    const CLOUD: &str = "https://169.254.169.254";
    const WHY: &str = "it leads to a link-local or reserved address";
    let browser = Browser::new();
    let named = refusing_server("Bearer resource_metadata=\"https://169.254.169.254/latest/meta-data\"", |_| json!({}));
    let error = refused(&named.await.url("/mcp"), &browser).await;
    assert!(error.contains("169.254.169.254/latest/meta-data is not fetched") && error.contains(WHY), "{error}");
    let issuer = |url: &str| json!({"resource": url, "authorization_servers": [CLOUD]});
    let error = refused(&refusing_server("Bearer", issuer).await.url("/mcp"), &browser).await;
    assert!(error.contains("the issuer https://169.254.169.254") && error.contains(WHY), "{error}");
    let (scene, browser) = (Scene::new().await, Browser::new());
    scene.issuer.answer_instead(METADATA, [Reply::redirect(302, format_args!("{CLOUD}/latest/meta-data"))]);
    let error = refused(&scene.url, &browser).await;
    assert!(error.contains(METADATA) && error.contains(WHY), "{error}");
    for endpoint in ["registration_endpoint", "token_endpoint"] {
        let (scene, browser) = (Scene::new().await, Browser::new());
        scene.issuer.state().metadata = json!({endpoint: format!("{CLOUD}/x")});
        let error = refused(&scene.url, &browser).await;
        assert!(error.contains(&format!("the {endpoint} {CLOUD}/x is not used: {WHY}")), "{error}");
    }
}

/// SSRF: the sign-in to a server on the Internet has an endpoint on this machine.
#[tokio::test]
async fn a_server_elsewhere_cannot_make_a_renewal_contact_this_machine() {
    let (local, store) = (Party::start(|_| |_: &Asked| Reply::Json(200, json!({}))).await, MemoryStore::new());
    let url = local.url("/mcp");
    for (network, contacted) in [("public", 0), ("private", 0), ("loopback", 1)] {
        let record = json!({
            "version": 1, "server": url, "issuer": "https://as.example", "token_endpoint": local.url("/token"),
            "client": {"kind": "configured", "id": "c"}, "requested_scopes": "", "scopes": "", "token_type": "Bearer",
            "access_token": "a", "refresh_token": "r", "expires_at": 1, "network": network,
        });
        store.save(&Account::read(record.to_string().as_bytes()).expect("a record")).await.expect("stored");
        let error = connect(&url, sign_in(&store, &Browser::new()).stored_only()).await.expect_err("no token");
        assert_eq!(local.count("/token"), contacted, "{network}: {error}");
    }
}

/// Audience confusion: a hostile server says that it is another one, to get a token that is good there.
#[tokio::test]
async fn a_server_that_calls_itself_another_one_gets_no_token() {
    let victim = Scene::new().await;
    let (url, issuer) = (victim.url.clone(), victim.issuer.name().to_owned());
    let hostile = refusing_server("Bearer", move |_| json!({"resource": url, "authorization_servers": [issuer]})).await;
    let browser = Browser::new();
    let error = refused(&hostile.url("/mcp"), &browser).await;
    assert!(error.contains(&format!("it is about {}", victim.url)), "{error}");
    assert!(browser.opened().is_empty());
    assert!(victim.issuer.party.requests().is_empty(), "{:?}", victim.issuer.party.lines());
}

/// Starts a server that accepts every token, until it is hostile. Then it names another authorization server.
async fn turncoat(honest: &Issuer, evil: &Issuer) -> (Party, Arc<AtomicBool>) {
    let is_hostile = Arc::new(AtomicBool::new(false));
    let (hostile, issuers) = (Arc::clone(&is_hostile), [honest.name().to_owned(), evil.name().to_owned()]);
    let server = Party::start(|origin| {
        let resource = format!("{origin}/mcp");
        move |asked: &Asked| {
            let is_hostile = hostile.load(Ordering::SeqCst);
            match (&*asked.path, asked.header("authorization")) {
                (RESOURCE_METADATA, _) => {
                    let issuer = &issuers[usize::from(is_hostile)];
                    Reply::Json(200, json!({"resource": resource, "authorization_servers": [issuer]}))
                }
                ("/mcp", Some(_)) if !is_hostile => {
                    let message: Value = serde_json::from_str(&asked.body).expect("JSON");
                    let result = json!({
                        "resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": {}, "ttlMs": 0,
                        "cacheScope": "private",
                    });
                    Reply::Json(200, json!({"jsonrpc": "2.0", "id": message["id"], "result": result}))
                }
                _ => Reply::Header(401, "WWW-Authenticate: Bearer error=\"invalid_token\"".to_owned()),
            }
        }
    });
    (server.await, is_hostile)
}

/// Refresh theft: a server that was honest names the attacker's authorization server, to be sent the refresh token.
#[tokio::test]
async fn a_refresh_token_is_sent_to_its_issuer_only() {
    let (honest, evil) = (Issuer::start().await, Issuer::start().await);
    let (server, is_hostile) = turncoat(&honest, &evil).await;
    let (url, store, browser) = (server.url("/mcp"), MemoryStore::new(), Browser::new());
    connect(&url, sign_in(&store, &browser)).await.expect("signed in");
    let text = store.load(&url).await.expect("a store").expect("an account").write();
    let record: Value = serde_json::from_str(&text).expect("JSON");
    is_hostile.store(true, Ordering::SeqCst);
    // Without the user, and then with a user who agrees to everything.
    connect(&url, sign_in(&store, &browser).stored_only()).await.expect_err("another issuer");
    assert_eq!(evil.party.count("/register") + evil.party.count("/token"), 0);
    connect(&url, sign_in(&store, &browser)).await.expect_err("it refuses every token");
    assert_eq!(evil.party.count("/register"), 1, "the client has no registration there");
    let secrets = ["refresh_token", "access_token"].map(|name| record[name].as_str().expect("a token"));
    for asked in evil.party.requests() {
        assert!(!secrets.iter().any(|secret| asked.has(secret)), "{asked:?}");
    }
    assert_eq!(honest.token_requests().len(), 1, "nothing was renewed either");
}

/// Refresh theft: a thief was faster, and the refresh token is spent. The sign-in ends, without attempts in a row.
#[tokio::test]
async fn a_refresh_token_that_a_thief_has_spent_ends_the_sign_in() {
    let (scene, store, browser) = (Scene::new().await, MemoryStore::new(), Browser::new());
    scene.issuer.state().lifetime = 20;
    connect(&scene.url, sign_in(&store, &browser)).await.expect("signed in");
    let text = store.load(&scene.url).await.expect("a store").expect("an account").write();
    let record: Value = serde_json::from_str(&text).expect("JSON");
    let of = |value: &Value| value.as_str().expect("text").to_owned();
    let stolen = format!(
        "grant_type=refresh_token&refresh_token={}&client_id={}&resource={}",
        of(&record["refresh_token"]),
        of(&record["client"]["id"]),
        scene.url
    );
    assert_eq!(post_form(&scene.issuer.party.url("/token"), &stolen).await, 200, "the thief has it");
    let error = connect(&scene.url, sign_in(&store, &browser).stored_only()).await.expect_err("spent").to_string();
    assert!(error.contains("a sign-in to"), "{error}");
    let renewals = scene.issuer.token_requests().iter().filter(|asked| asked.has("grant_type=refresh_token")).count();
    assert_eq!(renewals, 2, "that of the thief and ours");
    assert_eq!(browser.opened().len(), 1);
}

/// A hostile server refuses every token, and asks for other scopes each time.
#[tokio::test]
async fn a_server_that_refuses_every_token_opens_three_pages_at_most() {
    for scopes in [false, true] {
        let issuer = Issuer::start().await;
        let (name, refusals) = (issuer.name().to_owned(), AtomicUsize::new(0));
        let server = Party::start(|origin| {
            let metadata = json!({"resource": format!("{origin}/mcp"), "authorization_servers": [name]});
            move |asked: &Asked| match (&*asked.path, asked.header("authorization")) {
                (RESOURCE_METADATA, _) => Reply::Json(200, metadata.clone()),
                ("/mcp", Some(_)) if scopes => {
                    let scope = refusals.fetch_add(1, Ordering::SeqCst);
                    let why = format!("error=\"insufficient_scope\", scope=\"more-{scope}\"");
                    Reply::Header(403, format!("WWW-Authenticate: Bearer {why}"))
                }
                _ => Reply::Header(401, "WWW-Authenticate: Bearer".to_owned()),
            }
        });
        let (server, store, browser) = (server.await, MemoryStore::new(), Browser::new());
        let error = connect(&server.url("/mcp"), sign_in(&store, &browser)).await.expect_err("refused").to_string();
        let pages = browser.opened().len();
        assert!((1..=3).contains(&pages), "{pages} pages: {error}");
        assert!(server.count("/mcp") <= 8, "{:?}", server.lines());
    }
}

/// A store that cannot write, which is logged.
struct ReadOnlyStore(MemoryStore);

impl CredentialStore for ReadOnlyStore {
    fn lock<'a>(&'a self, server: &'a str) -> StoreFuture<'a, StoreLock> {
        self.0.lock(server)
    }

    fn load<'a>(&'a self, server: &'a str) -> StoreFuture<'a, Option<Account>> {
        self.0.load(server)
    }

    fn save<'a>(&'a self, _: &'a Account) -> StoreFuture<'a, ()> {
        Box::pin(async { Err(SignInError::NoFolder) })
    }

    fn remove<'a>(&'a self, server: &'a str) -> StoreFuture<'a, bool> {
        self.0.remove(server)
    }

    fn list(&self) -> StoreFuture<'_, Vec<Account>> {
        self.0.list()
    }
}

#[tokio::test]
async fn nothing_of_a_sign_in_is_logged_or_shown() {
    let log = Log::default();
    let (scene, browser) = (Scene::new().await, Browser::new());
    let settings = SignIn::with_store("tester", ReadOnlyStore(MemoryStore::new())).user(browser.clone());
    let client = connect(&scene.url, settings.clone()).await.expect("signed in");
    client.call_tool("write", ()).await.expect("allowed");
    scene.issuer.answer_instead("/token", [Reply::Json(400, json!({"error": "invalid_grant"}))]);
    let error = connect(&scene.url, settings.clone()).await.expect_err("refused");
    let shown = format!("{}\n{settings:?} {client:?} {error} {error:?}", log.text());
    assert!(shown.contains("is not stored"), "there is something to log: {shown}");
    let mut secrets = Vec::new();
    for asked in scene.issuer.token_requests() {
        secrets.extend(["code", "code_verifier"].map(|name| asked.field(name).expect("a grant of a code")));
    }
    secrets.extend(browser.opened().iter().filter_map(|page| parameter(page, "state")));
    assert_eq!(secrets.len(), 3 * 3, "three sign-ins");
    // Tokens begin like this; refresh tokens have a name of their own.
    secrets.extend(["eyJ".to_owned(), "refresh-hunter".to_owned()]);
    for secret in secrets {
        assert!(!shown.contains(&secret), "{secret} in {shown}");
    }
}
