//! The client with barewire's own server, in every revision.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use barewire::client::{Listen, ListenEnd, ServerNotification, accept};
use barewire::mcp::{Era, LoggingLevel, Revision, SubscriptionFilter};
use barewire::server::http::{HttpLimits, StopHandle};
use barewire::server::{Call, Elicit, Resource, ToolError};
use barewire::{Client, ClientError, Server};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use super::eventually::eventually;
use super::{in_time, tester};

#[derive(Deserialize, JsonSchema)]
struct Pair {
    a: f64,
    b: f64,
}

#[derive(Deserialize, JsonSchema)]
struct Name {
    name: String,
}

/// A server with tools, progress, elicitation and a resource.
fn server() -> Server {
    Server::new("everything", "1.0")
        .page_size(2)
        .tool("add", "Adds", |Pair { a, b }| async move { a + b })
        .tool("count", "Counts", |call: Call| async move {
            for n in 1..=3 {
                call.progress(n, 3, None).await?;
                call.log(LoggingLevel::Info, format!("at {n}")).await?;
            }
            Ok::<_, ToolError>("counted")
        })
        .tool("greet", "Greets", |call: Call| async move {
            let Name { name } = call.ask("user", Elicit::form("Who are you?")).await?;
            Ok::<_, ToolError>(format!("Hello, {name}!"))
        })
        .with(Resource::text("note://readme", "readme", "Read me"))
}

/// A running server.
struct RunningServer {
    url: String,
    stop: StopHandle,
    running: JoinHandle<()>,
}

async fn start(server: &Server) -> RunningServer {
    start_with(server, HttpLimits::default(), "127.0.0.1:0").await
}

async fn start_with(server: &Server, limits: HttpLimits, addr: &str) -> RunningServer {
    let http = server.http().limits(limits);
    let listener = http.bind(addr).await.expect("bound");
    let (url, stop) = (listener.url(), listener.stop_handle());
    RunningServer { url, stop, running: tokio::spawn(listener.run()) }
}

impl RunningServer {
    async fn stop(self) {
        self.stop.stop();
        in_time(self.running).await.expect("no panic");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn client_and_server_work_together_in_every_revision() {
    let server = server();
    let running = start(&server).await;
    for revision in Revision::ALL {
        let mut builder = tester().revision(revision);
        if revision.has_elicitation() {
            builder = builder.on_elicit(|_| async { Ok(accept(json!({"name": "Ada"}))?) });
        }
        let client = in_time(builder.http(&*running.url)).await.unwrap_or_else(|error| panic!("{revision}: {error}"));
        assert_eq!(client.revision(), revision);
        assert_eq!(client.server_info().implementation.expect("it says who it is").name, "everything");
        let tools = in_time(client.list_tools().into_future()).await.expect("tools");
        let names: Vec<&str> = tools.iter().map(|tool| &*tool.name).collect();
        assert_eq!(names, ["add", "count", "greet"]);
        let sum = in_time(client.call_tool("add", json!({"a": 19, "b": 23})).into_future()).await.expect("a sum");
        assert_eq!(sum.content[0].as_text(), Some("42"), "{revision}");
        let (call, mut progress) = client.call_tool("count", ()).with_progress();
        let counted = in_time(call.into_future()).await.expect("counted");
        assert_eq!(counted.content[0].as_text(), Some("counted"));
        let mut steps = Vec::new();
        while let Some(step) = progress.next().await {
            steps.push(step.progress);
        }
        assert_eq!(steps, [1.0, 2.0, 3.0], "{revision}");
        if revision.has_elicitation() {
            let greeted = in_time(client.call_tool("greet", ()).into_future()).await.expect("greeted");
            assert_eq!(greeted.content[0].as_text(), Some("Hello, Ada!"), "{revision}");
        }
        let read = in_time(client.read_resource("note://readme").into_future()).await.expect("read");
        assert_eq!(read.contents.len(), 1);
        let unknown = in_time(client.call_tool("nothing", ()).into_future()).await.expect_err("no such tool");
        assert!(matches!(&unknown, ClientError::Refused { .. }), "{revision}: {unknown}");
        in_time(client.shutdown()).await.expect("an orderly end");
    }
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_era_is_detected_or_given() {
    let server = server();
    let both = start(&server).await;
    let client = in_time(Client::http(&*both.url)).await.expect("connected");
    assert_eq!((client.revision(), client.era()), (Revision::LATEST, Era::Modern));
    let client = in_time(tester().era(Era::Legacy).http(&*both.url)).await.expect("connected");
    assert_eq!(client.revision(), Revision::LATEST_LEGACY);
    both.stop().await;

    let legacy = start(&server.clone().revisions([Revision::V2025_06_18, Revision::V2025_11_25])).await;
    for builder in [tester(), tester().era(Era::Modern), tester().era(Era::Legacy)] {
        let client = in_time(builder.http(&*legacy.url)).await.expect("connected");
        assert_eq!(client.revision(), Revision::V2025_11_25);
    }
    let error = in_time(tester().revision(Revision::LATEST).http(&*legacy.url)).await.expect_err("not modern");
    assert!(error.to_string().contains("2026-07-28"), "{error}");
    legacy.stop().await;

    let modern = start(&server.revisions([Revision::V2026_07_28])).await;
    for builder in [tester(), tester().era(Era::Modern), tester().era(Era::Legacy)] {
        let client = in_time(builder.http(&*modern.url)).await.expect("connected");
        assert_eq!(client.revision(), Revision::V2026_07_28);
    }
    let error = in_time(tester().revision(Revision::V2025_11_25).http(&*modern.url)).await.expect_err("not legacy");
    assert!(!error.to_string().is_empty());
    modern.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_calls_get_their_own_results() {
    let server = server();
    let running = start(&server).await;
    for revision in [Revision::V2025_11_25, Revision::V2026_07_28] {
        let client = in_time(tester().revision(revision).http(&*running.url)).await.expect("connected");
        let calls: Vec<_> = (0..200)
            .map(|n| {
                let client = client.clone();
                tokio::spawn(async move {
                    let sum = client.call_tool("add", json!({"a": n, "b": 1})).await.expect("a sum");
                    assert_eq!(sum.content[0].as_text(), Some(&*(n + 1).to_string()));
                })
            })
            .collect();
        for call in calls {
            in_time(call).await.expect("no panic");
        }
    }
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_are_notified_in_both_eras() {
    let server = server();
    let (running, handle) = (start(&server).await, server.handle());
    let legacy = in_time(tester().era(Era::Legacy).http(&*running.url)).await.expect("connected");
    let mut notifications = legacy.notifications();
    in_time(legacy.subscribe("note://readme")).await.expect("subscribed");
    handle.updated("note://readme");
    let updated = in_time(notifications.next()).await;
    assert!(
        matches!(&updated, Some(ServerNotification::ResourceUpdated { uri }) if uri == "note://readme"),
        "{updated:?}"
    );

    let modern = in_time(tester().http(&*running.url)).await.expect("connected");
    let filter =
        SubscriptionFilter::default().tools_list_changed(true).resource_subscriptions(["note://readme".to_owned()]);
    let mut listen: Listen = in_time(modern.listen(filter)).await.expect("acknowledged");
    assert!(listen.acknowledged().tools_list_changed);
    handle.updated("note://readme");
    let updated = in_time(listen.next()).await;
    assert!(matches!(&updated, Some(ServerNotification::ResourceUpdated { .. })), "{updated:?}");
    assert!(handle.remove_tool("greet"));
    let changed = in_time(listen.next()).await;
    assert!(matches!(changed, Some(ServerNotification::ToolsListChanged)), "{changed:?}");
    in_time(modern.shutdown()).await.expect("an orderly end");
    assert!(matches!(in_time(listen.ended()).await, ListenEnd::Lost(_)));
    drop((legacy, listen, modern));
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn dropped_and_late_calls_are_cancelled_in_both_eras() {
    struct Dropped(Arc<AtomicUsize>);
    impl Drop for Dropped {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
    for revision in [Revision::V2025_06_18, Revision::V2026_07_28] {
        let (began, cancelled) = (Arc::new(Notify::new()), Arc::new(AtomicUsize::new(0)));
        let (begin, cancel) = (Arc::clone(&began), Arc::clone(&cancelled));
        let server = Server::new("slow", "1").tool("wait", "Waits", move || {
            let (begin, dropped) = (Arc::clone(&begin), Dropped(Arc::clone(&cancel)));
            async move {
                let _dropped = dropped;
                begin.notify_one();
                std::future::pending::<()>().await;
            }
        });
        let running = start(&server).await;
        let client = in_time(tester().revision(revision).http(&*running.url)).await.expect("connected");
        let until = async |count: usize| {
            eventually("it is cancelled", || cancelled.load(Ordering::SeqCst) >= count).await;
        };
        let waiting = tokio::spawn(client.call_tool("wait", ()).into_future());
        in_time(began.notified()).await;
        assert_eq!(cancelled.load(Ordering::SeqCst), 0);
        waiting.abort();
        until(1).await;
        let late = client.call_tool("wait", ()).timeout(Duration::from_millis(500)).await;
        assert!(matches!(&late, Err(ClientError::TimedOut { .. })), "{late:?}");
        until(2).await;
        drop(client);
        running.stop().await;
    }
}

#[tokio::test]
async fn all_tasks_end_when_the_client_is_dropped() {
    // The server has a runtime of its own, so that all tasks of this runtime belong to the client.
    let (started, url) = tokio::sync::oneshot::channel();
    let thread = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            let running = start(&server()).await;
            started.send((running.url.clone(), running.stop.clone())).expect("awaited");
            running.running.await.expect("no panic");
        });
    });
    let (url, stop) = url.await.expect("up");
    let alive = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let before = alive();
    for revision in [Revision::V2025_11_25, Revision::V2026_07_28] {
        let client = in_time(tester().revision(revision).http(&*url)).await.expect("connected");
        in_time(client.call_tool("add", json!({"a": 1, "b": 1})).into_future()).await.expect("a sum");
        let filter = SubscriptionFilter::default().tools_list_changed(true);
        let listen = client.listen(filter).await.ok();
        assert_eq!(listen.is_some(), revision.has_listen());
        assert!(alive() > before);
        drop((listen, client));
        eventually("all tasks of the client have ended", || alive() <= before).await;
    }
    stop.stop();
    thread.join().expect("no panic");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restarted_server_gets_a_new_session() {
    let server = server();
    let handle = server.handle();
    let first = start(&server).await;
    let addr = first.url.trim_start_matches("http://").trim_end_matches("/mcp").to_owned();
    let client = in_time(tester().revision(Revision::V2025_11_25).http(&*first.url)).await.expect("connected");
    let mut notifications = client.notifications();
    in_time(client.subscribe("note://readme")).await.expect("subscribed");
    first.stop().await;
    let down = in_time(client.call_tool("add", json!({"a": 1, "b": 1})).into_future()).await.expect_err("no server");
    assert!(matches!(&down, ClientError::Http { .. }), "{down}");

    let second = start_with(&server, HttpLimits::default(), &addr).await;
    let calls: Vec<_> =
        (0..10).map(|n| tokio::spawn(client.call_tool("add", json!({"a": n, "b": 1})).into_future())).collect();
    for call in calls {
        in_time(call).await.expect("no panic").expect("a sum");
    }
    handle.updated("note://readme");
    let mut restarted = 0;
    loop {
        match in_time(notifications.next()).await.expect("not the end") {
            ServerNotification::Restarted => restarted += 1,
            ServerNotification::ResourceUpdated { .. } => break,
            _ => {}
        }
    }
    assert_eq!(restarted, 1);
    in_time(client.shutdown()).await.expect("an orderly end");
    second.stop().await;
}
