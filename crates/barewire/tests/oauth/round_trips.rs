//! The HTTP requests of a sign-in, counted on both servers. docs/sign-in.md has the table.

use barewire::client::oauth::{Account, ConfiguredClient, CredentialStore, MemoryStore};

use super::scene::{Browser, Scene, connect, sign_in};

/// The requests to the server and to the authorization server in one step, those of the browser left out.
struct Counter<'a> {
    scene: &'a Scene,
    seen: usize,
}

impl<'a> Counter<'a> {
    fn new(scene: &'a Scene) -> Self {
        Self { scene, seen: 0 }
    }

    /// Returns the requests since the last call.
    fn step(&mut self) -> (Vec<String>, Vec<String>) {
        let all = self.scene.issuer.party.lines();
        let new = all[self.seen..].iter().filter(|line| *line != "GET /authorize").cloned().collect();
        self.seen = all.len();
        (self.scene.take_requests(), new)
    }
}

const RESOURCE_METADATA: &str = "GET /.well-known/oauth-protected-resource/mcp";
const SERVER_METADATA: &str = "GET /.well-known/oauth-authorization-server";
const DISCOVER: &str = "POST server/discover";
/// The first call of a tool reads the list, to know which arguments are repeated in headers.
const FIRST_CALL: [&str; 2] = ["POST tools/list", CALL];
const CALL: &str = "POST tools/call";

#[track_caller]
fn assert_requests((server, issuer): (Vec<String>, Vec<String>), to_server: &[&str], to_issuer: &[&str]) {
    assert_eq!((server, issuer), (owned(to_server), owned(to_issuer)));
}

fn owned(lines: &[&str]) -> Vec<String> {
    lines.iter().map(|&line| line.to_owned()).collect()
}

#[tokio::test]
async fn a_first_sign_in_takes_six_requests_and_a_stored_token_none() {
    let (scene, store, browser) = (Scene::new().await, MemoryStore::new(), Browser::new());
    let mut counter = Counter::new(&scene);
    let client = connect(&scene.url, sign_in(&store, &browser)).await.expect("signed in");
    let first = [DISCOVER, RESOURCE_METADATA, DISCOVER];
    assert_requests(counter.step(), &first, &[SERVER_METADATA, "POST /register", "POST /token"]);
    assert_eq!(browser.opened().len(), 1);
    client.call_tool("echo", ()).await.expect("called");
    assert_requests(counter.step(), &FIRST_CALL, &[]);
    // Another process.
    let other = connect(&scene.url, sign_in(&store, &browser)).await.expect("signed in");
    assert_requests(counter.step(), &[DISCOVER], &[]);
    for calls in [&FIRST_CALL[..], &[CALL]] {
        other.call_tool("echo", ()).await.expect("called");
        assert_requests(counter.step(), calls, &[]);
    }
    assert_eq!(browser.opened().len(), 1);
}

#[tokio::test]
async fn a_known_client_is_not_registered() {
    let (scene, store, browser) = (Scene::new().await, MemoryStore::new(), Browser::new());
    let mut counter = Counter::new(&scene);
    let known = sign_in(&store, &browser).client(ConfiguredClient::new("known"));
    connect(&scene.url, known).await.expect("signed in");
    let first = [DISCOVER, RESOURCE_METADATA, DISCOVER];
    assert_requests(counter.step(), &first, &[SERVER_METADATA, "POST /token"]);
}

#[tokio::test]
async fn an_expired_token_is_renewed_with_one_request() {
    let (scene, store, browser) = (Scene::new().await, MemoryStore::new(), Browser::new());
    // Tokens are renewed 30 seconds before they end.
    scene.issuer.state().lifetime = 20;
    let mut counter = Counter::new(&scene);
    connect(&scene.url, sign_in(&store, &browser)).await.expect("signed in");
    counter.step();
    scene.issuer.state().lifetime = 600;
    let client = connect(&scene.url, sign_in(&store, &browser).stored_only()).await.expect("renewed");
    assert_requests(counter.step(), &[DISCOVER], &["POST /token"]);
    client.call_tool("echo", ()).await.expect("called");
    assert_requests(counter.step(), &FIRST_CALL, &[]);
}

#[tokio::test]
async fn a_refused_token_is_renewed_after_a_look_at_the_metadata() {
    let (scene, store, browser) = (Scene::new().await, MemoryStore::new(), Browser::new());
    let mut counter = Counter::new(&scene);
    connect(&scene.url, sign_in(&store, &browser)).await.expect("signed in");
    counter.step();
    let text = store.load(&scene.url).await.expect("a store").expect("an account").write();
    let mut record: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    record["access_token"] = "revoked".into();
    store.save(&Account::read(record.to_string().as_bytes()).expect("a record")).await.expect("stored");
    connect(&scene.url, sign_in(&store, &browser).stored_only()).await.expect("renewed");
    let renewed = [DISCOVER, RESOURCE_METADATA, DISCOVER];
    assert_requests(counter.step(), &renewed, &[SERVER_METADATA, "POST /token"]);
}

#[tokio::test]
async fn a_step_up_asks_the_user_once() {
    let (scene, store, browser) = (Scene::new().await, MemoryStore::new(), Browser::new());
    let mut counter = Counter::new(&scene);
    let client = connect(&scene.url, sign_in(&store, &browser)).await.expect("signed in");
    counter.step();
    client.call_tool("write", ()).await.expect("allowed");
    assert_eq!(browser.opened().len(), 2);
    let more = ["POST tools/list", CALL, RESOURCE_METADATA, CALL];
    assert_requests(counter.step(), &more, &[SERVER_METADATA, "POST /register", "POST /token"]);
    client.call_tool("write", ()).await.expect("allowed");
    assert_requests(counter.step(), &[CALL], &[]);
}
