//! The client with server processes: servers that exit at the probe, that crash in a call, that are restarted, and
//! programs that are not servers. They are shell scripts, so each has only the behaviour that its test needs.
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
use eventually::{DEADLINE, eventually};
use tokio::time::timeout;

/// The time that a server has to exit by itself: more than a busy machine needs.
const GRACE: Duration = DEADLINE;

/// The pause before a start that does not happen during a test.
const PENDING: Duration = Duration::from_secs(3600);

/// A server that reads messages into `$line` and `$id`, and logs their methods to `$seen`. `on` holds the cases of its
/// reactions.
fn server(name: &str, on: &str) -> (Child, MethodLog) {
    let seen = MethodLog::new(name);
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

/// The log of a server's starts and of the methods it received.
struct MethodLog(PathBuf);

impl MethodLog {
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

impl Drop for MethodLog {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

fn tester() -> Builder {
    // A busy machine must not make a server look like one that does not know the probe.
    Client::builder("tester", "0.1").probe_timeout(DEADLINE)
}

/// A restart policy with very short pauses.
fn without_pauses(restart: Restart) -> Restart {
    restart.pauses(Duration::from_millis(1), Duration::from_millis(5))
}

/// Waits for a future. After more time than a busy machine needs, the test counts as hanging.
async fn in_time<F: Future>(what: &str, future: F) -> F::Output {
    match timeout(DEADLINE, future).await {
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
async fn a_server_that_exits_at_the_probe_is_restarted_and_initialized() {
    let (child, seen) = server("probe", LEGACY);
    let client = in_time("connecting", tester().spawn(child)).await.expect("connected");
    assert_eq!(client.era(), Era::Legacy);
    client.list_tools().await.expect("it works");
    let lines = seen.lines();
    let begin = ["start", "server/discover", "start", "initialize", "notifications/initialized"];
    assert_eq!(lines[..5], begin, "{lines:?}");
    in_time("the end", client.shutdown()).await.expect("an orderly end");
    assert_eq!(client.end().and_then(|end| end.exit().and_then(|exit| exit.code)), Some(0));
}

#[tokio::test]
async fn a_known_era_saves_the_second_start() {
    let (child, seen) = server("known", LEGACY);
    let client = in_time("connecting", tester().era(Era::Legacy).spawn(child)).await.expect("connected");
    client.list_tools().await.expect("it works");
    assert_eq!(seen.starts(), 1);
}

#[tokio::test]
async fn programs_that_cannot_start_or_are_not_servers_are_errors() {
    let error = Client::spawn("barewire-no-such-program").await.expect_err("there is none");
    assert!(matches!(&error, ClientError::Spawn(_)), "{error}");
    assert_eq!(error.to_string(), "cannot start barewire-no-such-program: no such program in PATH");

    let script = "echo 'no config: set TOKEN' >&2; exit 4";
    let child = || Child::new("sh").args(["-c", script]).stderr(Stderr::discard()).grace(GRACE);
    let error = in_time("connecting", tester().spawn(child())).await.expect_err("it ends");
    assert_eq!(error.to_string(), "sh exited with code 4; its stderr ends with: no config: set TOKEN");
    assert_eq!(error.connection_end().and_then(|end| end.exit()).and_then(|exit| exit.code), Some(4));

    // Prints to stdout and stderr, but never a message.
    let script = "echo 'Welcome!'; echo 'waiting for HTTP' >&2; cat > /dev/null";
    let child = Child::new("sh").args(["-c", script]).stderr(Stderr::discard()).grace(GRACE);
    // It has the probe's time and this time to print its lines.
    let (probe, short) = (Duration::from_millis(200), Duration::from_secs(5));
    let error = in_time("connecting", tester().probe_timeout(probe).timeout(short).spawn(child)).await;
    let error = error.expect_err("no answer").to_string();
    assert!(error.contains("no response to initialize within 5s"), "{error}");
    assert!(error.contains("at byte 0 is not a message: Welcome!"), "{error}");
    assert!(error.contains("its stderr ends with: waiting for HTTP"), "{error}");
}

#[tokio::test]
async fn a_call_in_flight_fails_with_the_servers_exit() {
    let (child, seen) = server("flight", LEGACY);
    let client = in_time("connecting", tester().era(Era::Legacy).spawn(child)).await.expect("connected");
    let mut notifications = client.notifications();
    let error = in_time("the call", client.call_tool("crash", ()).into_future()).await.expect_err("it died");
    let expected = "sh exited with code 7; its stderr ends with:\n  fatal: no such tool\n    at main";
    assert_eq!(error.to_string(), expected);
    // There is no restart without a policy.
    let error = in_time("a call", client.list_tools().into_future()).await.expect_err("it is dead");
    assert_eq!(error.to_string(), expected);
    assert!(in_time("the stream's end", notifications.next()).await.is_none());
    assert_eq!(seen.starts(), 1);
}

#[tokio::test]
async fn the_next_call_restarts_the_server_and_restores_its_state() {
    let (child, seen) = server("next", LEGACY);
    let builder = tester().restart(without_pauses(Restart::at_next_call()));
    let client = in_time("connecting", builder.spawn(child)).await.expect("connected");
    client.set_log_level(LoggingLevel::Error).await.expect("set");
    client.subscribe("x:1").await.expect("subscribed");
    let mut notifications = client.notifications();
    in_time("the call", client.call_tool("crash", ()).into_future()).await.expect_err("it died");
    assert_eq!(seen.starts(), 2, "not yet");
    in_time("a call", client.list_tools().into_future()).await.expect("a new server");
    let lines = seen.lines();
    // The client remembers the era.
    let again =
        ["start", "initialize", "notifications/initialized", "logging/setLevel", "resources/subscribe", "tools/list"];
    assert_eq!(lines[lines.len() - 6..], again, "{lines:?}");
    assert!(matches!(in_time("the restart", notifications.next()).await, Some(ServerNotification::Restarted)));
}

#[tokio::test]
async fn an_immediate_restart_reopens_listens() {
    let (child, seen) = server("once", MODERN);
    let builder = tester().restart(without_pauses(Restart::at_once()));
    let client = in_time("connecting", builder.spawn(child)).await.expect("connected");
    let filter = SubscriptionFilter::default().tools_list_changed(true);
    let mut listen = in_time("listening", client.listen(filter)).await.expect("acknowledged");
    assert!(matches!(in_time("a notification", listen.next()).await, Some(ServerNotification::ToolsListChanged)));
    let error = in_time("the call", client.call_tool("crash", ()).into_future()).await.expect_err("it died");
    assert_eq!(error.to_string(), "sh exited with code 7");
    assert!(matches!(in_time("the restart", listen.next()).await, Some(ServerNotification::Restarted)));
    assert!(matches!(in_time("a notification", listen.next()).await, Some(ServerNotification::ToolsListChanged)));
    assert!(listen.end().is_none());
    assert_eq!(seen.starts(), 2);
    in_time("a call", client.list_tools().into_future()).await.expect("a new server");
    in_time("the end", client.shutdown()).await.expect("an orderly end");
    assert!(matches!(listen.ended().await, ListenEnd::Lost(_)));
}

/// A server that is legacy at its first start, modern at its second, and so on.
const EITHER: &str = r#"server/discover) if modern; then discover; else refuse; fi;;
    initialize) if modern; then refuse; else initialize; fi;; resources/subscribe) answer '{}'; updated;;
    subscriptions/listen) acknowledge; updated;; tools/call) exit 7;;"#;

#[tokio::test]
async fn subscriptions_are_restored_in_the_servers_new_era() {
    let (child, seen) = server("either", EITHER);
    let builder = tester().era(Era::Legacy).restart(without_pauses(Restart::at_once()));
    let client = in_time("connecting", builder.spawn(child)).await.expect("connected");
    let mut notifications = client.notifications();
    in_time("subscribing", client.subscribe("x:1")).await.expect("subscribed");
    let expected = ["resources/subscribe", "subscriptions/listen", "resources/subscribe", "subscriptions/listen"];
    for start in 1..=expected.len() {
        loop {
            match in_time("a notification", notifications.next()).await {
                Some(ServerNotification::ResourceUpdated { uri }) => break assert_eq!(uri, "x:1"),
                Some(ServerNotification::Restarted) => {}
                other => panic!("{other:?}"),
            }
        }
        let mut lines = seen.lines();
        lines.retain(|line| expected.contains(&line.as_str()));
        assert_eq!(lines, expected[..start]);
        in_time("the call", client.call_tool("crash", ()).into_future()).await.expect_err("it died");
    }
}

#[tokio::test]
async fn a_server_that_keeps_crashing_is_given_up() {
    let (child, seen) = server("gave-up", LEGACY);
    let restart = without_pauses(Restart::at_next_call()).give_up_after(2);
    let client = in_time("connecting", tester().era(Era::Legacy).restart(restart).spawn(child)).await;
    let client = client.expect("connected");
    for _ in 0..3 {
        let error = in_time("a call", client.call_tool("crash", ()).into_future()).await.expect_err("it died");
        assert!(matches!(error, ClientError::Closed(_)), "{error}");
    }
    let error = in_time("a call", client.call_tool("crash", ()).into_future()).await.expect_err("given up");
    assert!(matches!(&error, ClientError::GaveUp { starts: 2, .. }), "{error}");
    assert!(error.to_string().contains("gave up on the server after 2 starts: sh exited with code 7"), "{error}");
    assert_eq!(seen.starts(), 3);
    assert!(client.list_tools().await.is_err());
}

#[tokio::test]
async fn a_server_that_keeps_failing_to_start_is_given_up() {
    let (child, seen) = server("at-once", "initialize) initialize;; notifications/initialized) exit 5;;");
    let restart = without_pauses(Restart::at_once()).give_up_after(3);
    let client = in_time("connecting", tester().era(Era::Legacy).restart(restart).spawn(child)).await;
    let mut notifications = client.as_ref().expect("connected").notifications();
    let error = in_time("giving up", client.as_ref().expect("connected").closed()).await.expect_err("gave up");
    assert!(matches!(&error, Error::Client(ClientError::GaveUp { starts: 3, .. })), "{error}");
    while let Some(notification) = in_time("the end", notifications.next()).await {
        assert!(matches!(notification, ServerNotification::Restarted));
    }
    assert_eq!(seen.starts(), 4);
}

#[tokio::test]
async fn dropping_the_client_cancels_a_pending_restart() {
    let tasks = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let before = tasks();
    let (child, seen) = server("drop", MODERN);
    let restart = Restart::at_once().pauses(PENDING, PENDING);
    let client = in_time("connecting", tester().restart(restart).spawn(child)).await.expect("connected");
    for _ in 0..2 {
        let _ = in_time("the call", client.call_tool("crash", ()).into_future()).await;
        if seen.starts() == 1 {
            in_time("another", client.list_tools().into_future()).await.expect("started at once");
        }
    }
    // The third start waits. Dropping the client ends the task that would start the server.
    assert!(tasks() > before);
    drop(client);
    eventually("all tasks of the client have ended", || tasks() <= before).await;
    assert_eq!(seen.starts(), 2);
}
