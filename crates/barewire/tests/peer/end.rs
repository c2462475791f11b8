//! The end of the stream, of a peer and of the driver; and the log.

use std::future::pending;
use std::time::Duration;

use super::{Log, peer_with_raw_end, receive, seconds, send};
use barewire::Failure;
use barewire::peer::{CallError, Connection, ConnectionLimits, Context, EndReason, Methods, Raw};
use barewire::transport::memory;
use serde_json::json;
use tokio::time::{Instant, sleep, timeout};

#[tokio::test(start_paused = true)]
async fn requests_in_flight_have_a_grace_at_the_end_of_the_stream() {
    let methods = Methods::new().on("work", |_: Context, (time,): (u64,)| async move {
        sleep(seconds(time)).await;
        Ok(time)
    });
    let (here, mut raw) = memory(4096);
    let began = Instant::now();
    let running = tokio::spawn(Connection::new(here).methods(methods).run());
    for time in [1, 60] {
        send(&mut raw, json!({"jsonrpc":"2.0","id":time,"method":"work","params":[time]})).await;
    }
    raw.close_write();
    assert_eq!(receive(&mut raw).await, json!({"jsonrpc":"2.0","id":1,"result":1}));
    let closing = receive(&mut raw).await;
    assert_eq!((&closing["id"], &closing["error"]["data"]), (&json!(60), &json!({"reason":"closing"})));
    assert_eq!(raw.recv_line().await.expect("memory"), None);
    running.await.expect("no panic").expect("a clean end");
    assert_eq!(began.elapsed(), seconds(2));
}

#[tokio::test(start_paused = true)]
async fn every_pending_call_ends_with_an_error_that_says_why() {
    let (peer, raw) = peer_with_raw_end(Methods::new());
    let calls: Vec<_> = (0..5).map(|_| tokio::spawn(peer.call::<Raw>("m", ()).no_timeout().into_future())).collect();
    tokio::task::yield_now().await;
    drop(raw);
    for call in calls {
        let error = call.await.expect("no panic").expect_err("there is no answer");
        assert!(matches!(&error, CallError::Closed(_)), "{error}");
    }
    let _ = peer.closed().await;
    let closed = peer.end().expect("it is over");
    assert!(matches!(closed.reason(), EndReason::Eof | EndReason::Write(_)), "{closed}");
    let late = peer.call::<Raw>("m", ()).await.expect_err("it is over");
    assert_eq!(late.to_string(), closed.to_string());
    assert!(peer.notify("m", ()).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn shutdown_finishes_calls_in_flight_both_ways_and_starts_nothing_new() {
    let methods = Methods::new().on("work", |_: Context, (): ()| async {
        sleep(seconds(1)).await;
        Ok("done")
    });
    let (peer, mut raw) = peer_with_raw_end(methods);
    let call = tokio::spawn(peer.call::<i64>("question", ()).into_future());
    assert_eq!(receive(&mut raw).await["method"], "question");
    send(&mut raw, json!({"jsonrpc":"2.0","id":"a","method":"work"})).await;
    sleep(Duration::from_millis(100)).await;
    let shutdown = tokio::spawn({
        let peer = peer.clone();
        async move { peer.shutdown().await }
    });
    sleep(Duration::from_millis(100)).await;
    assert!(matches!(peer.call::<Raw>("new", ()).await, Err(CallError::Closed(_))));
    send(&mut raw, json!({"jsonrpc":"2.0","id":"b","method":"work"})).await;
    assert_eq!(receive(&mut raw).await["error"]["data"], json!({"reason": "closing"}));
    send(&mut raw, json!({"jsonrpc":"2.0","id":1,"result":5})).await;
    assert_eq!(call.await.expect("no panic").expect("in time"), 5);
    assert_eq!(receive(&mut raw).await["result"], "done");
    assert_eq!(raw.recv_line().await.expect("memory"), None);
    shutdown.await.expect("no panic").expect("an orderly end");
    assert!(matches!(peer.end().expect("it is over").reason(), EndReason::Shutdown));
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_that_is_not_answered_ends_with_the_grace() {
    let (peer, mut raw) = peer_with_raw_end(Methods::new());
    let call = tokio::spawn(peer.call::<i64>("question", ()).no_timeout().into_future());
    receive(&mut raw).await;
    let began = Instant::now();
    peer.shutdown().await.expect("an orderly end");
    assert_eq!(began.elapsed(), seconds(2));
    assert_eq!(call.await.expect("no panic").expect_err("over").to_string(), "the connection was shut down");
}

#[tokio::test(start_paused = true)]
async fn dropping_the_last_peer_shuts_down_and_dropping_the_driver_fails_the_calls() {
    let (peer, mut raw) = peer_with_raw_end(Methods::new());
    drop(peer.clone());
    peer.notify("still here", ()).await.expect("open");
    receive(&mut raw).await;
    drop(peer);
    assert_eq!(raw.recv_line().await.expect("memory"), None);

    let (here, mut raw) = memory(4096);
    let (peer, running) = Connection::new(here).open();
    let running = tokio::spawn(running);
    let call = tokio::spawn(peer.call::<Raw>("m", ()).into_future());
    receive(&mut raw).await;
    running.abort();
    let error = call.await.expect("no panic").expect_err("the driver is dropped");
    assert!(matches!(&error, CallError::Closed(closed) if matches!(closed.reason(), EndReason::Abandoned)), "{error}");
}

#[tokio::test(start_paused = true)]
async fn the_error_of_a_call_without_an_answer_quotes_the_stray_output() {
    let (peer, mut raw) = peer_with_raw_end(Methods::new());
    let call = tokio::spawn(peer.call::<Raw>("ping", ()).into_future());
    receive(&mut raw).await;
    raw.send_line("HTTP/1.1 400 Bad Request").await.expect("memory");
    raw.close_write();
    let error = call.await.expect("no panic").expect_err("it was not answered");
    let expected = "the peer closed the connection; its output at byte 0 is not a message: \
                    HTTP/1.1 400 Bad Request";
    assert_eq!(error.to_string(), expected);
}

#[tokio::test(start_paused = true)]
async fn refused_frames_are_logged_once_and_the_side_that_opened_the_connection_does_not_answer_banners() {
    let log = Log::default();
    let (here, mut raw) = memory(4096);
    let peer = Connection::new(here).answer_unreadable(false).spawn();
    raw.send_line("\u{1b}[31mServer listening").await.expect("memory");
    send(&mut raw, json!({"jsonrpc":"2.0","id":7,"method":7})).await;
    assert_eq!(receive(&mut raw).await["id"], 7, "the banner is not answered, the request is");
    raw.close_write();
    peer.closed().await.expect("an orderly end");
    let closed = peer.end().expect("it is over");
    let stray = closed.stray_output().expect("it sent no message at all");
    assert_eq!((stray.offset, stray.excerpt.as_str()), (0, r"\x1b[31mServer listening"));
    let log = log.text();
    assert_eq!(log.lines().count(), 2, "{log}");
}

#[tokio::test(start_paused = true)]
async fn timeouts_beyond_the_clock_never_fire() {
    let (here, mut raw) = memory(1 << 10);
    let mut limits = ConnectionLimits::default();
    (limits.write_timeout, limits.idle_timeout) = (Some(Duration::MAX), Some(Duration::MAX));
    let slow = |_: Context, (): ()| async {
        sleep(seconds(100)).await;
        Ok("x".repeat(5000))
    };
    let connection = Connection::new(here).methods(Methods::new().on("slow", slow)).limits(limits);
    let (peer, running) = connection.grace(Duration::MAX).open();
    let running = tokio::spawn(running);
    let call = tokio::spawn(peer.call::<i64>("ask", ()).timeout(Duration::MAX).into_future());
    assert_eq!(receive(&mut raw).await["id"], 1);
    sleep(seconds(1)).await;
    send(&mut raw, json!({"jsonrpc":"2.0","id":1,"result":7})).await;
    assert_eq!(call.await.expect("no panic").expect("answered"), 7);
    send(&mut raw, json!({"jsonrpc":"2.0","id":1,"method":"slow"})).await;
    raw.close_write();
    sleep(seconds(1000)).await;
    assert_eq!(receive(&mut raw).await["id"], 1);
    running.await.expect("no panic").expect("a clean end");
}

#[tokio::test(start_paused = true)]
async fn the_end_of_the_stream_is_seen_behind_requests_that_cannot_start_yet() {
    for behind in [1, 500] {
        let methods = Methods::new().on("forever", |_: Context, (): ()| pending::<Result<(), Failure>>());
        let mut limits = ConnectionLimits::default();
        limits.requests = 1;
        let (here, mut raw) = memory(1 << 20);
        let connection = Connection::new(here).methods(methods).limits(limits);
        let running = tokio::spawn(connection.run());
        for id in 0..=behind {
            send(&mut raw, json!({"jsonrpc":"2.0","id":id,"method":"forever"})).await;
        }
        raw.close_write();
        let began = Instant::now();
        timeout(seconds(1000), running).await.expect("an end").expect("no panic").expect("a clean one");
        assert_eq!(began.elapsed(), seconds(2));
        for id in 0..=1 {
            let closing = receive(&mut raw).await;
            assert_eq!((&closing["id"], &closing["error"]["data"]), (&json!(id), &json!({"reason":"closing"})));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn waiting_requests_are_handled_when_there_is_room_also_after_the_end_of_the_stream() {
    let methods = Methods::new().on("work", |_: Context, (): ()| async {
        sleep(Duration::from_millis(10)).await;
        Ok(())
    });
    let mut limits = ConnectionLimits::default();
    limits.requests = 2;
    let (here, mut raw) = memory(1 << 20);
    let running = tokio::spawn(Connection::new(here).methods(methods).limits(limits).run());
    for id in 0..50 {
        send(&mut raw, json!({"jsonrpc":"2.0","id":id,"method":"work"})).await;
    }
    // The last line needs no newline.
    raw.send(br#"{"jsonrpc":"2.0","id":50,"method":"work"}"#).await.expect("memory");
    raw.close_write();
    running.await.expect("no panic").expect("a clean end");
    for id in 0..=50 {
        assert_eq!(receive(&mut raw).await, json!({"jsonrpc":"2.0","id":id,"result":null}));
    }
}
