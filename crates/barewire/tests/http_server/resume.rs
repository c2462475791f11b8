//! Streams that break and are resumed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use barewire::Server;
use barewire::server::Call;
use barewire::server::http::{EventId, EventStore, HttpLimits, MemoryEvents, ReplayFuture};
use bytes::Bytes;
use serde_json::json;
use tokio::sync::watch;

use crate::TestSite;
use crate::eventually::eventually;
use crate::wire::{Events, call};

fn held(id: u64, ms: u64) -> serde_json::Value {
    let mut message = call(id, "hold", json!({"ms": ms}));
    message["params"]["_meta"] = json!({"progressToken": id});
    message
}

#[tokio::test]
async fn the_rest_of_a_broken_stream_is_sent_once() {
    let (site, running_handlers) = TestSite::new().await;
    let mut wire = site.connect().await;
    let session = wire.initialize("2025-11-25", json!({})).await;
    wire.post(&[&session], &held(1, 300)).await;
    let mut events = Events::of(wire).await;
    let primed = events.next().await.expect("an event").id.expect("an id");
    let first = events.next().await.expect("an event");
    assert_eq!(first.json()["params"]["progress"], 1.0);
    drop(events);
    assert_eq!(running_handlers.now(), 1, "it goes on");
    // While the call is still running: later messages arrive too.
    let resume = |from: String| {
        let (site, session) = (&site, &session);
        async move {
            let mut wire = site.connect().await;
            wire.get(&[session, &format!("Last-Event-ID: {from}")]).await;
            Events::of(wire).await.rest().await
        }
    };
    let rest = resume(primed.clone()).await;
    assert_eq!(rest.len(), 3, "{rest:?}");
    assert_eq!(rest[0]["params"]["progress"], 1.0);
    assert_eq!(rest[1]["params"]["progress"], 2.0);
    assert_eq!(rest[2]["result"]["content"][0]["text"], "held");
    // And after the call has ended.
    let rest = resume(first.id.expect("an id")).await;
    assert_eq!(rest.len(), 2);
    assert_eq!(rest[1]["id"], 1);
}

#[tokio::test]
async fn an_event_id_is_valid_for_one_stream_of_one_session() {
    let (site, _) = TestSite::new().await;
    let mut wire = site.connect().await;
    let session = wire.initialize("2025-11-25", json!({})).await;
    let other = wire.initialize("2025-11-25", json!({})).await;
    let mut ids = Vec::new();
    for id in 1..3 {
        let mut wire = site.connect().await;
        wire.post(&[&session], &held(id, 20)).await;
        let mut events = Events::of(wire).await;
        ids.push(events.next().await.expect("an event").id.expect("an id"));
        let rest = events.rest().await;
        assert_eq!(rest.last().expect("an answer")["id"], id);
    }
    let mut again = site.connect().await;
    again.get(&[&session, &format!("Last-Event-ID: {}", ids[1])]).await;
    let rest = Events::of(again).await.rest().await;
    assert!(rest.iter().all(|message| message["id"] == 2 || message["params"]["progressToken"] == 2), "{rest:?}");
    assert_eq!(rest.len(), 3);
    for (session, id) in
        [(&other, ids[0].as_str()), (&session, "99-0"), (&session, "1-99"), (&session, "x"), (&session, "1-0\t,2-0")]
    {
        let mut wire = site.connect().await;
        wire.get(&[session, &format!("Last-Event-ID: {id}")]).await;
        assert_eq!(wire.answer().await.refusal(), (400, -32600), "{id}");
    }
}

#[tokio::test]
async fn a_refused_resumption_does_not_disturb_other_streams() {
    let (server, running_handlers) = crate::test_server();
    let handle = server.handle();
    let site = TestSite::of(server.http()).await;
    let mut wire = site.connect().await;
    let session = wire.initialize("2025-11-25", json!({})).await;
    let mut pending = site.connect().await;
    pending.post(&[&session], &call(7, "hold", json!({"ms": 60_000}))).await;
    running_handlers.until(1).await;
    wire.get(&[&session]).await;
    let mut events = Events::of(wire).await;
    events.next().await;
    // An event that was never sent, two of a call that is not a stream, and one of a call that never was.
    for id in ["0-99", "3-0", "3-1", "9-0"] {
        let mut wire = site.connect().await;
        wire.get(&[&session, &format!("Last-Event-ID: {id}")]).await;
        assert_eq!(wire.answer().await.refusal(), (400, -32600), "{id}");
    }
    handle.remove_tool("echo");
    assert_eq!(events.message().await["method"], "notifications/tools/list_changed");
    running_handlers.release();
    assert_eq!(pending.answer().await.json()["result"]["content"][0]["text"], "held");
}

#[tokio::test]
async fn a_client_can_come_back_after_a_hang_up() {
    let (site, running_handlers) = TestSite::new().await;
    let mut wire = site.connect().await;
    let session = wire.initialize("2025-11-25", json!({})).await;
    wire.post(&[&session], &call(4, "hang_up", json!({"ms": 120}))).await;
    let mut events = Events::of(wire).await;
    let primed = events.next().await.expect("an event").id.expect("an id");
    let last = events.next().await.expect("an event");
    assert_eq!((last.retry, last.data), (Some(120), None));
    assert_eq!(events.next().await, None);
    // The response waits for the client.
    running_handlers.until(0).await;
    let mut wire = site.connect().await;
    wire.get(&[&session, &format!("Last-Event-ID: {primed}")]).await;
    let rest = Events::of(wire).await.rest().await;
    assert_eq!(rest.len(), 1);
    assert_eq!((&rest[0]["id"], &rest[0]["result"]["content"][0]["text"]), (&json!(4), &json!("back again")));
    // An older client would not come back, so the server does not hang up.
    let mut wire = site.connect().await;
    let session = wire.initialize("2025-06-18", json!({})).await;
    let answer = wire.ask(&[&session], &call(4, "hang_up", json!({"ms": 120}))).await;
    assert_eq!(answer.json()["result"]["content"][0]["text"], "back again");
}

#[tokio::test]
async fn the_get_stream_is_resumed_where_it_broke() {
    if crate::NODES > 1 {
        // How it is seen that a connection has ended works for one node; `cluster.rs` has a test for several.
        return;
    }
    let (server, _) = crate::test_server();
    let handle = server.handle();
    let mut limits = HttpLimits::default();
    limits.connections = 1;
    let site = TestSite::of(server.http().limits(limits)).await;
    let mut wire = site.connect().await;
    let session = wire.initialize("2025-11-25", json!({})).await;
    wire.get(&[&session]).await;
    let mut events = Events::of(wire).await;
    let primed = events.next().await.expect("an event").id.expect("an id");
    drop(events);
    // Only one connection is allowed: that this one is served means that the server has seen the end of the first.
    let mut wire = site.connect().await;
    let ping = json!({"jsonrpc": "2.0", "id": 9, "method": "ping"});
    assert_eq!(wire.ask(&[&session], &ping).await.status(), 200);
    handle.remove_tool("echo");
    assert_eq!(wire.ask(&[&session], &ping).await.status(), 200);
    wire.get(&[&session, &format!("Last-Event-ID: {primed}")]).await;
    let mut events = Events::of(wire).await;
    let change = events.next().await.expect("an event");
    assert_eq!(
        (change.id.as_deref(), change.json()["method"].as_str()),
        (Some("0-1"), Some("notifications/tools/list_changed"))
    );
    handle.remove_tool("ask");
    assert_eq!(events.next().await.expect("an event").id.as_deref(), Some("0-2"), "and none twice");
}

/// A store that keeps nothing while it is full.
#[derive(Clone, Default)]
struct FullEvents(Arc<(MemoryEvents, AtomicBool)>);

impl EventStore for FullEvents {
    fn keep(&self, session: &str, id: EventId, message: Bytes) {
        if !self.0.1.load(Ordering::SeqCst) {
            self.0.0.keep(session, id, message);
        }
    }

    fn after<'a>(&'a self, session: &'a str, id: EventId) -> ReplayFuture<'a> {
        self.0.0.after(session, id)
    }

    fn forget(&self, session: &str) {
        self.0.0.forget(session);
    }
}

#[tokio::test]
async fn a_client_is_told_of_events_that_the_store_has_refused() {
    if crate::NODES > 1 {
        // Several nodes have the store of their cluster; the tests of `barewire-redis` fill it.
        return;
    }
    let events = FullEvents::default();
    let (steps, seen) = watch::channel(0);
    let done = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&done);
    let walk = move |call: Call| {
        let (mut seen, counted) = (seen.clone(), Arc::clone(&counted));
        async move {
            for step in 1..3 {
                let _ = seen.wait_for(|steps| *steps >= step).await;
                call.progress(step, None, None).await?;
                counted.fetch_add(1, Ordering::SeqCst);
            }
            let _ = seen.wait_for(|steps| *steps == 3).await;
            Ok::<_, barewire::peer::CallError>("there")
        }
    };
    let server = Server::new("test", "1").tool("walk", "Takes steps", walk);
    let mut limits = HttpLimits::default();
    limits.connections = 1;
    let site = TestSite::of(server.http().events(events.clone()).limits(limits)).await;
    let mut wire = site.connect().await;
    let session = wire.initialize("2025-11-25", json!({})).await;
    let mut message = call(1, "walk", json!({}));
    message["params"]["_meta"] = json!({"progressToken": 1});
    wire.post(&[&session], &message).await;
    steps.send_replace(1);
    let mut stream = Events::of(wire).await;
    let primed = stream.next().await.expect("an event").id.expect("an id");
    let first = stream.next().await.expect("an event").id.expect("an id");
    drop(stream);
    // Only one connection is allowed: that this one is served means that the server has seen the end of the first.
    let mut wire = site.connect().await;
    let ping = json!({"jsonrpc": "2.0", "id": 9, "method": "ping"});
    assert_eq!(wire.ask(&[&session], &ping).await.status(), 200);
    events.0.1.store(true, Ordering::SeqCst);
    steps.send_replace(2);
    eventually("the second step is done", || done.load(Ordering::SeqCst) == 2).await;
    for id in [&primed, &first] {
        wire.get(&[&session, &format!("Last-Event-ID: {id}")]).await;
        assert_eq!(wire.answer().await.refusal(), (400, -32600), "{id}");
    }
    steps.send_replace(3);
}
