//! The client and servers that are processes: those that end when asked what they are, that die in a call, that are started
//! again, and those that are no servers at all. They are shell scripts, so that each says only what its test is about.
#![cfg(all(target_os = "linux", feature = "tokio"))]

mod eventually;

use std::fs;
use std::future::Future;
use std::path::PathBuf;
use std::time::Duration;

use barewire::client::{Builder, ListenEnd, Restart, ServerNotification};
use barewire::mcp::{Era, LoggingLevel, SubscriptionFilter};
use barewire::transport::{Child, Stderr};
use barewire::{Client, ClientError, Error};
use eventually::eventually;
use tokio::time::timeout;

const GRACE: Duration = Duration::from_millis(300);

/// Reads messages in `$line`, with `$id`, and writes down in `$seen` what it reads. What is in `on` says what comes next.
fn server(name: &str, on: &str) -> (Child, Seen) {
    let seen = Seen::new(name);
    let script = format!(
        r#"
        say() {{ printf '%s\n' "$1"; }}
        answer() {{ say '{{"jsonrpc":"2.0","id":'"$id"',"result":'"$1"'}}'; }}
        initialize() {{ answer '{{"protocolVersion":"2025-11-25","serverInfo":{{"name":"sh","version":"1"}},"capabilities":{{"tools":{{}},"logging":{{}},"resources":{{"subscribe":true}}}}}}'; }}
        discover() {{ answer '{{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{{"tools":{{"listChanged":true}},"resources":{{"subscribe":true}}}}}}'; }}
        acknowledge() {{ say '{{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{{"_meta":{{"io.modelcontextprotocol/subscriptionId":'"$id"'}},"notifications":{{"toolsListChanged":true}}}}}}'; }}
        changed() {{ say '{{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{{"_meta":{{"io.modelcontextprotocol/subscriptionId":'"$id"'}}}}}}'; }}
        updated() {{ say '{{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{{"_meta":{{"io.modelcontextprotocol/subscriptionId":'"$id"'}},"uri":"x:1"}}}}'; }}
        refuse() {{ say '{{"jsonrpc":"2.0","id":'"$id"',"error":{{"code":-32601,"message":"no"}}}}'; }}
        modern() {{ [ $(($(grep -c '^start$' "$seen") % 2)) = 0 ]; }}
        printf 'start\n' >> "$seen"
        while read -r line; do
            method=${{line#*'"method":"'}}
            method=${{method%%\"*}}
            id=${{line#*'"id":'}}
            id=${{id%%,*}}
            printf '%s\n' "$method" >> "$seen"
            case "$method" in {on} esac
        done
        "#
    );
    let child = Child::new("sh").args(["-c", &script]).env("seen", &seen.0).stderr(Stderr::discard()).grace(GRACE);
    (child, seen)
}

/// The methods that a server was asked, and when it was started.
struct Seen(PathBuf);

impl Seen {
    fn new(name: &str) -> Self {
        let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("client-{name}-{}", std::process::id()));
        fs::write(&path, "").expect("a folder to write in");
        Self(path)
    }

    fn lines(&self) -> Vec<String> {
        fs::read_to_string(&self.0).expect("it is there").lines().map(str::to_owned).collect()
    }

    fn starts(&self) -> usize {
        self.lines().iter().filter(|line| *line == "start").count()
    }
}

impl Drop for Seen {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

fn tester() -> Builder {
    Client::builder("tester", "0.1")
}

/// Started again without waiting.
fn again(restart: Restart) -> Restart {
    restart.pauses(Duration::from_millis(1), Duration::from_millis(5))
}

/// Nothing here takes longer, however busy the machine is: it hangs.
async fn soon<F: Future>(what: &str, future: F) -> F::Output {
    match timeout(Duration::from_secs(30), future).await {
        Ok(done) => done,
        Err(_) => panic!("hangs: {what}"),
    }
}

const LEGACY: &str =
    "server/discover) exit 3;; initialize) initialize;; logging/setLevel|resources/subscribe) answer '{}';;
    tools/list) answer '{\"tools\":[]}';; tools/call) echo 'fatal: no such tool' >&2; echo '  at main' >&2; exit 7;;";

const MODERN: &str = "server/discover) discover;; tools/list) answer '{\"resultType\":\"complete\",\"tools\":[]}';;
    subscriptions/listen) acknowledge; changed;; tools/call) exit 7;;";

#[tokio::test]
async fn a_server_that_ends_at_the_probe_is_started_again_and_initialized() {
    let (child, seen) = server("probe", LEGACY);
    let client = soon("connecting", tester().spawn(child)).await.expect("connected");
    assert_eq!(client.era(), Era::Legacy);
    client.list_tools().await.expect("it works");
    let lines = seen.lines();
    let begin = ["start", "server/discover", "start", "initialize", "notifications/initialized"];
    assert_eq!(lines[..5], begin, "{lines:?}");
    soon("the end", client.shutdown()).await.expect("an orderly end");
    assert_eq!(client.end().and_then(|end| end.exit().and_then(|exit| exit.code)), Some(0));
}

#[tokio::test]
async fn an_era_that_is_known_saves_the_start() {
    let (child, seen) = server("known", LEGACY);
    let client = soon("connecting", tester().era(Era::Legacy).spawn(child)).await.expect("connected");
    client.list_tools().await.expect("it works");
    assert_eq!(seen.starts(), 1);
}

#[tokio::test]
async fn what_cannot_be_started_and_what_is_no_server_says_so() {
    let error = Client::spawn("barewire-no-such-program").await.expect_err("there is none");
    assert!(matches!(&error, ClientError::Spawn(_)), "{error}");
    assert_eq!(error.to_string(), "cannot start barewire-no-such-program: no such program in PATH");

    let script = "echo 'no config: set TOKEN' >&2; exit 4";
    let child = || Child::new("sh").args(["-c", script]).stderr(Stderr::discard()).grace(GRACE);
    let error = soon("connecting", tester().spawn(child())).await.expect_err("it ends");
    assert_eq!(error.to_string(), "sh exited with code 4; its stderr ends with: no config: set TOKEN");
    assert_eq!(error.connection_end().and_then(|end| end.exit()).and_then(|exit| exit.code), Some(4));

    // Prints to both and says nothing that is a message.
    let script = "echo 'Welcome!'; echo 'waiting for HTTP' >&2; cat > /dev/null";
    let child = Child::new("sh").args(["-c", script]).stderr(Stderr::discard()).grace(GRACE);
    let short = Duration::from_millis(200);
    let error = soon("connecting", tester().probe_timeout(short).timeout(short).spawn(child)).await;
    let error = error.expect_err("no answer").to_string();
    assert!(error.contains("no answer to initialize within 200ms"), "{error}");
    assert!(error.contains("no message, at byte 0: Welcome!"), "{error}");
    assert!(error.contains("its stderr ends with: waiting for HTTP"), "{error}");
}

#[tokio::test]
async fn a_call_in_flight_ends_with_how_the_server_did() {
    let (child, seen) = server("flight", LEGACY);
    let client = soon("connecting", tester().era(Era::Legacy).spawn(child)).await.expect("connected");
    let mut told = client.notifications();
    let error = soon("the call", client.call_tool("crash", ()).into_future()).await.expect_err("it died");
    let expected = "sh exited with code 7; its stderr ends with:\n  fatal: no such tool\n    at main";
    assert_eq!(error.to_string(), expected);
    // Not started again unless asked to.
    let error = soon("a call", client.list_tools().into_future()).await.expect_err("it is dead");
    assert_eq!(error.to_string(), expected);
    assert!(soon("the stream's end", told.next()).await.is_none());
    assert_eq!(seen.starts(), 1);
}

#[tokio::test]
async fn a_dead_server_is_started_again_with_the_next_call_and_told_what_it_was_told() {
    let (child, seen) = server("next", LEGACY);
    let builder = tester().restart(again(Restart::at_next_call()));
    let client = soon("connecting", builder.spawn(child)).await.expect("connected");
    client.set_log_level(LoggingLevel::Error).await.expect("set");
    client.subscribe("x:1").await.expect("subscribed");
    let mut told = client.notifications();
    soon("the call", client.call_tool("crash", ()).into_future()).await.expect_err("it died");
    assert_eq!(seen.starts(), 2, "not yet");
    soon("a call", client.list_tools().into_future()).await.expect("a new server");
    let lines = seen.lines();
    // The era is remembered.
    let again =
        ["start", "initialize", "notifications/initialized", "logging/setLevel", "resources/subscribe", "tools/list"];
    assert_eq!(lines[lines.len() - 6..], again, "{lines:?}");
    assert!(matches!(soon("a word", told.next()).await, Some(ServerNotification::Restarted)));
}

#[tokio::test]
async fn a_dead_server_is_started_again_at_once_and_listened_to() {
    let (child, seen) = server("once", MODERN);
    let builder = tester().restart(again(Restart::at_once()));
    let client = soon("connecting", builder.spawn(child)).await.expect("connected");
    let filter = SubscriptionFilter::default().tools_list_changed(true);
    let mut listen = soon("listening", client.listen(filter)).await.expect("acknowledged");
    assert!(matches!(soon("news", listen.next()).await, Some(ServerNotification::ToolsListChanged)));
    let error = soon("the call", client.call_tool("crash", ()).into_future()).await.expect_err("it died");
    assert_eq!(error.to_string(), "sh exited with code 7");
    assert!(matches!(soon("a word", listen.next()).await, Some(ServerNotification::Restarted)));
    assert!(matches!(soon("news", listen.next()).await, Some(ServerNotification::ToolsListChanged)));
    assert!(listen.end().is_none());
    assert_eq!(seen.starts(), 2);
    soon("a call", client.list_tools().into_future()).await.expect("a new server");
    soon("the end", client.shutdown()).await.expect("an orderly end");
    assert!(matches!(listen.ended().await, ListenEnd::Lost(_)));
}

/// Of the legacy era the first time it is started, of the modern one the second time, and so on.
const EITHER: &str = r#"server/discover) if modern; then discover; else refuse; fi;;
    initialize) if modern; then refuse; else initialize; fi;; resources/subscribe) answer '{}'; updated;;
    subscriptions/listen) acknowledge; updated;; tools/call) exit 7;;"#;

#[tokio::test]
async fn subscriptions_are_taken_up_again_in_whatever_era_the_server_is_of_then() {
    let (child, seen) = server("either", EITHER);
    let builder = tester().era(Era::Legacy).restart(again(Restart::at_once()));
    let client = soon("connecting", builder.spawn(child)).await.expect("connected");
    let mut told = client.notifications();
    soon("subscribing", client.subscribe("x:1")).await.expect("subscribed");
    let asked = ["resources/subscribe", "subscriptions/listen", "resources/subscribe", "subscriptions/listen"];
    for start in 1..=asked.len() {
        loop {
            match soon("news", told.next()).await {
                Some(ServerNotification::ResourceUpdated { uri }) => break assert_eq!(uri, "x:1"),
                Some(ServerNotification::Restarted) => {}
                other => panic!("{other:?}"),
            }
        }
        let mut lines = seen.lines();
        lines.retain(|line| asked.contains(&line.as_str()));
        assert_eq!(lines, asked[..start]);
        soon("the call", client.call_tool("crash", ()).into_future()).await.expect_err("it died");
    }
}

#[tokio::test]
async fn a_server_that_dies_again_and_again_is_given_up() {
    let (child, seen) = server("gave-up", LEGACY);
    let restart = again(Restart::at_next_call()).give_up_after(2);
    let client = soon("connecting", tester().era(Era::Legacy).restart(restart).spawn(child)).await;
    let client = client.expect("connected");
    for _ in 0..3 {
        let error = soon("a call", client.call_tool("crash", ()).into_future()).await.expect_err("it died");
        assert!(matches!(error, ClientError::Closed(_)), "{error}");
    }
    let error = soon("a call", client.call_tool("crash", ()).into_future()).await.expect_err("given up");
    assert!(matches!(&error, ClientError::GaveUp { starts: 2, .. }), "{error}");
    assert!(error.to_string().contains("started 2 times and is given up: sh exited with code 7"), "{error}");
    assert_eq!(seen.starts(), 3);
    assert!(client.list_tools().await.is_err());
}

#[tokio::test]
async fn one_that_cannot_be_started_any_more_is_given_up_at_once_too() {
    let (child, seen) = server("at-once", "initialize) initialize;; notifications/initialized) exit 5;;");
    let restart = again(Restart::at_once()).give_up_after(3);
    let client = soon("connecting", tester().era(Era::Legacy).restart(restart).spawn(child)).await;
    let mut told = client.as_ref().expect("connected").notifications();
    let error = soon("giving up", client.as_ref().expect("connected").closed()).await.expect_err("gave up");
    assert!(matches!(&error, Error::Client(ClientError::GaveUp { starts: 3, .. })), "{error}");
    while let Some(told) = soon("the end", told.next()).await {
        assert!(matches!(told, ServerNotification::Restarted));
    }
    assert_eq!(seen.starts(), 4);
}

#[tokio::test]
async fn dropping_the_client_ends_the_server_also_while_it_waits_to_start_it() {
    let tasks = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let before = tasks();
    let (child, seen) = server("drop", MODERN);
    let restart = Restart::at_once().pauses(Duration::from_secs(1), Duration::from_secs(1));
    let client = soon("connecting", tester().restart(restart).spawn(child)).await.expect("connected");
    for _ in 0..2 {
        let _ = soon("the call", client.call_tool("crash", ()).into_future()).await;
        if seen.starts() == 1 {
            soon("another", client.list_tools().into_future()).await.expect("started at once");
        }
    }
    // The third start waits a second, and by then nobody wants it: with the tasks of the client goes what would start it.
    assert!(tasks() > before);
    drop(client);
    eventually("all tasks of the client have ended", || tasks() <= before).await;
    assert_eq!(seen.starts(), 2);
}
