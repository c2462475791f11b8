//! A stored sign-in whose token was revoked: `check`, `tap --http` and `replay` renew it, once, and no command ends while it
//! is renewed. A file that cannot be used, and a redirect that the user pastes.
#![cfg(unix)]

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use barewire::Server;
use barewire::client::oauth::{Account, CredentialStore, FileStore};
use barewire::server::http::{BearerTokens, Principal, ProtectedResource};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use crate::call_mcp::terminal::Terminal;
use crate::eventually::eventually;
use crate::party::{Asked, Gate, Party, Reply, parameter};
use crate::program_output::ProgramOutput;
use crate::tap_http::ends::{PROGRAM, Tap};

const REVOKED: &str = "access-hunter-1";
const RENEWED: &str = "access-hunter-2";
const REFRESH: &str = "refresh-hunter";

/// A server that accepts only the renewed token, its authorization server, and a user who has signed in before the token
/// was revoked.
struct Scene {
    url: String,
    issuer: Party,
    state: PathBuf,
    /// The gate that the responses to a renewal wait for.
    gate: Arc<Gate>,
    runtime: Runtime,
}

impl Scene {
    fn new(name: &str) -> Self {
        let scene = Self::held(name);
        scene.gate.open();
        scene
    }

    /// One whose authorization server answers no renewal until the gate is open.
    fn held(name: &str) -> Self {
        let state = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("stored-sign-in-{name}"));
        let _ = fs::remove_dir_all(&state);
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.expect("a runtime");
        let gate = Gate::new();
        let closed = Arc::clone(&gate);
        let issuer = runtime.block_on(Party::start(|origin| {
            let metadata = json!({
                "issuer": origin, "authorization_endpoint": format!("{origin}/authorize"),
                "token_endpoint": format!("{origin}/token"), "code_challenge_methods_supported": ["S256"],
                "token_endpoint_auth_methods_supported": ["none"],
            });
            move |asked: &Asked| match &*asked.path {
                "/.well-known/oauth-authorization-server" => Reply::Json(200, metadata.clone()),
                "/token" if asked.field("refresh_token").as_deref() == Some(REFRESH) => {
                    let token = json!({"access_token": RENEWED, "token_type": "Bearer", "expires_in": 600});
                    Reply::Held(Arc::clone(&closed), Box::new(Reply::Json(200, token)))
                }
                "/token" if asked.field("code").as_deref() == Some("code-hunter") => {
                    Reply::Json(200, json!({"access_token": RENEWED, "token_type": "Bearer", "expires_in": 600}))
                }
                "/token" => Reply::Json(400, json!({"error": "invalid_grant"})),
                _ => Reply::Header(404, "X-Why: unknown".to_owned()),
            }
        }));
        let url = runtime.block_on(serve(&issuer.origin));
        let scene = Self { url, issuer, state, gate, runtime };
        scene.store(REFRESH);
        scene
    }

    /// Stores a sign-in with the revoked token and this refresh token.
    fn store(&self, refresh_token: &str) {
        let record = json!({
            "version": 1, "server": self.url, "issuer": self.issuer.origin, "token_endpoint": self.issuer.url("/token"),
            "resource": self.url, "client": {"kind": "configured", "id": "c"}, "requested_scopes": "", "scopes": "",
            "token_type": "Bearer", "access_token": REVOKED, "refresh_token": refresh_token,
            "expires_at": 4_000_000_000_u64, "network": "loopback",
        });
        let account = Account::read(record.to_string().as_bytes()).expect("a record");
        self.runtime.block_on(self.accounts().save(&account)).expect("stored");
    }

    fn accounts(&self) -> FileStore {
        FileStore::in_folder(self.state.join("barewire/accounts"))
    }

    /// Starts the program as the user.
    fn start(&self, arguments: &[&str]) -> Child {
        let mut command = Command::new(PROGRAM);
        command.args(arguments).env("XDG_STATE_HOME", &self.state).stdin(Stdio::null());
        command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("it starts")
    }

    /// Waits until the authorization server has the refresh token.
    fn is_asked(&self) {
        eventually("the token is renewed", || self.issuer.count("/token") == 1);
    }

    /// Whether the renewed token is stored.
    fn is_renewed(&self) -> bool {
        let account = self.runtime.block_on(self.accounts().load(&self.url)).expect("a store").expect("an account");
        account.write().contains(RENEWED)
    }

    /// Runs the program as the user.
    fn run(&self, arguments: &[&str]) -> ProgramOutput {
        run(arguments, &self.state)
    }
}

fn run(arguments: &[&str], state: &Path) -> ProgramOutput {
    let mut command = Command::new(PROGRAM);
    command.args(arguments).env("XDG_STATE_HOME", state).stdin(Stdio::null());
    ProgramOutput::of(command.output().expect("it runs"))
}

/// Starts the server. Its metadata has its own URL, so the port is chosen first.
async fn serve(issuer: &str) -> String {
    loop {
        let free = std::net::TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr()).expect("a port");
        let url = format!("http://{free}/mcp");
        let server = Server::new("guarded", "1").tool("echo", "Answers", || async { "echo" });
        let tokens = BearerTokens::new().token(RENEWED, Principal::new("ada"));
        let resource = ProtectedResource::new(&url).authorization_server(issuer);
        // Another process can have taken the port in the meantime.
        if let Ok(listener) = server.http().authenticate(tokens).protected_resource(resource).bind(free).await {
            tokio::spawn(listener.run());
            return url;
        }
    }
}

#[test]
fn check_renews_a_revoked_token_once() {
    let scene = Scene::new("check");
    let checked = scene.run(&["check", "--url", &scene.url, "--json", "--quiet"]);
    let report: Value = serde_json::from_str(&checked.stdout).unwrap_or_else(|_| panic!("{}", checked.stderr));
    let about = report["subject"]["about"].as_str().unwrap_or_default();
    assert!(about.starts_with("guarded 1; speaks 20"), "{about}: {}", checked.stderr);
    assert_eq!(scene.issuer.count("/token"), 1, "{:?}", scene.issuer.lines());
    assert!(scene.is_renewed());
    assert!(!checked.stdout.contains("hunter") && !checked.stderr.contains("hunter"), "{}", checked.stdout);
}

#[test]
fn check_of_a_sign_in_that_cannot_be_renewed_tries_once() {
    let scene = Scene::new("spent");
    scene.store("spent");
    let checked = scene.run(&["check", "--url", &scene.url, "--json", "--quiet"]);
    assert!(checked.stdout.contains("speaks no known revision"), "{}", checked.stdout);
    assert_eq!(scene.issuer.count("/token"), 1, "{:?}", scene.issuer.lines());
}

#[test]
fn tap_renews_a_revoked_token_for_the_next_request_and_replay_for_the_same() {
    let scene = Scene::new("tap");
    let tap = Tap::as_user(&scene.url, "stored-sign-in", &[], Some(&scene.state));
    tap.says("--no-sign-in");
    // This user has not signed in. Its first request is refused, because the tap cannot send it again.
    let nobody = scene.state.join("nobody");
    let call = || run(&["call", "echo", "--url", &tap.url], &nobody);
    assert_eq!(call().code, Some(2));
    eventually("the token is renewed", || scene.is_renewed());
    let called = call();
    assert_eq!((called.code, &*called.stdout), (Some(0), "echo\n"), "{}", called.stderr);
    assert_eq!(scene.issuer.count("/token"), 1, "{:?}", scene.issuer.lines());
    // Credentials of the client are its own business.
    let own = run(&["call", "echo", "--url", &tap.url, "--header", "Authorization: Bearer mine"], &nobody);
    assert_eq!(own.code, Some(2), "{}", own.stdout);
    assert_eq!(scene.issuer.count("/token"), 1);
    let path = tap.record().to_owned();
    let record = tap.end();
    assert!(record.contains("tools/call") && !record.contains("hunter"), "{record}");

    scene.store(REFRESH);
    let replayed = scene.run(&["replay", path.to_str().expect("text"), "--url", &scene.url, "--json"]);
    let last: Value = serde_json::from_str(replayed.stdout.lines().last().unwrap_or_default()).expect("JSON");
    assert!(last["compared"].as_u64().is_some_and(|compared| compared > 0), "{}", replayed.stdout);
    assert_eq!(scene.issuer.count("/token"), 2, "{:?}", scene.issuer.lines());
    assert!(scene.is_renewed());
}

fn signal(child: &Child) {
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw).expect("a pid");
    kill_process(pid, Signal::INT).expect("it is there");
}

/// The refresh token is spent: without its answer, the user would have to sign in again.
#[test]
fn call_and_bench_end_after_the_renewal_that_they_began() {
    for (name, arguments, is_interrupted) in [
        ("call-time", &["call", "echo", "--timeout", "1s"][..], false),
        ("call-signal", &["call", "echo"], true),
        ("bench-time", &["bench", "echo", "--timeout", "1s"], false),
        ("bench-signal", &["bench", "echo"], true),
    ] {
        let scene = Scene::held(name);
        let mut child = scene.start(&[arguments, &["--url", &scene.url]].concat());
        scene.is_asked();
        if is_interrupted {
            signal(&child);
        }
        let mut lines = BufReader::new(child.stderr.take().expect("piped")).lines().map_while(Result::ok);
        assert!(lines.any(|line| line.contains("waiting until it is stored")), "{name}: it has ended");
        assert!(!scene.is_renewed());
        scene.gate.open();
        assert!(!child.wait().expect("it ends").success(), "{name}");
        assert!(scene.is_renewed(), "{name}");
    }
}

#[test]
fn check_ends_by_a_signal_after_the_renewal_that_it_began() {
    let scene = Scene::held("check-signal");
    let mut child = scene.start(&["check", "--url", &scene.url, "--quiet"]);
    scene.is_asked();
    signal(&child);
    scene.gate.open();
    assert_eq!(child.wait().expect("it ends").signal(), Some(Signal::INT.as_raw()));
    assert!(scene.is_renewed());
}

#[test]
fn tap_ends_after_the_renewal_that_it_began() {
    let scene = Scene::held("tap-signal");
    let mut tap = Tap::as_user(&scene.url, "stored-sign-in-held", &[], Some(&scene.state));
    assert_eq!(run(&["call", "echo", "--url", &tap.url], &scene.state.join("nobody")).code, Some(2));
    scene.is_asked();
    tap.interrupt();
    tap.says("waiting until it is stored");
    scene.gate.open();
    assert_eq!(tap.ends(), Some(0));
    assert!(scene.is_renewed());
}

/// The user has signed in again while the tap runs.
#[test]
fn tap_uses_a_sign_in_that_came_after_a_renewal_that_failed() {
    let scene = Scene::new("tap-again");
    scene.store("spent");
    let tap = Tap::as_user(&scene.url, "stored-sign-in-again", &[], Some(&scene.state));
    let call = || run(&["call", "echo", "--url", &tap.url], &scene.state.join("nobody")).code;
    assert_eq!(call(), Some(2));
    let stored =
        || scene.runtime.block_on(scene.accounts().load(&scene.url)).expect("a store").expect("stored").write();
    eventually("the refresh token is given up", || !stored().contains("spent"));
    scene.store(REFRESH);
    let text = stored();
    let account = Account::read(text.replace(REVOKED, RENEWED).as_bytes()).expect("a record");
    scene.runtime.block_on(scene.accounts().save(&account)).expect("stored");
    eventually("the new sign-in is used", || call() == Some(0));
}

#[test]
fn a_file_that_cannot_be_used_can_be_replaced_and_removed() {
    let scene = Scene::new("damaged");
    let folder = scene.state.join("barewire/accounts");
    let file = fs::read_dir(&folder).expect("a folder").map(|entry| entry.expect("an entry").path());
    let file = file.into_iter().find(|path| path.extension().is_some_and(|it| it == "json")).expect("a file");
    fs::write(&file, "{").expect("written");
    let called = scene.run(&["call", "echo", "--url", &scene.url]);
    assert!(called.code == Some(2) && called.stderr.contains("is damaged; sign in again"), "{}", called.stderr);
    let listed = scene.run(&["login", "--list"]);
    assert!(listed.code == Some(0) && listed.stderr.contains("is damaged"), "{}", listed.stderr);
    let out = scene.run(&["logout", &scene.url]);
    assert!(out.code == Some(0) && out.stdout.starts_with("signed out of "), "{} {}", out.stdout, out.stderr);
    assert!(!file.exists());
}

/// Where the browser runs on another machine, the user copies the URL that it cannot reach.
#[test]
fn a_redirect_that_is_pasted_ends_the_sign_in() {
    let scene = Scene::new("pasted");
    fs::remove_dir_all(&scene.state).expect("it is there");
    let mut command = Command::new(PROGRAM);
    command.args(["login", &scene.url, "--no-browser", "--client-id", "c"]).env("XDG_STATE_HOME", &scene.state);
    let mut terminal = Terminal::of(command);
    terminal.sees("Waiting for the sign-in");
    let page = terminal.seen.lines().find(|line| line.contains("/authorize?")).expect("the page").trim().to_owned();
    let of = |name| parameter(page.split_once('?').expect("a query").1, name).expect("a parameter");
    let (redirect_uri, state) = (of("redirect_uri"), of("state"));
    terminal.types("https://elsewhere.example/callback?code=evil\n");
    terminal.sees(&format!("The URL must begin with {redirect_uri}"));
    terminal.types(&format!("{redirect_uri}?code=code-hunter&state={state}\n"));
    terminal.sees("signed in to ");
    assert_eq!(terminal.ends(), Some(0));
    assert!(scene.is_renewed());
}
