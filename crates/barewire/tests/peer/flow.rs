//! Flow control: limits, floods, and a peer that does not read.

use std::future::pending;
use std::io::{self};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::{Log, pair, receive, seconds, send};
use barewire::Failure;
use barewire::peer::{CallError, Connection, ConnectionLimits, Context, EndReason, Methods, Raw};
use barewire::transport::memory;
use serde_json::json;
use tokio::time::{Instant, sleep};

#[tokio::test(start_paused = true)]
async fn requests_beyond_the_limit_wait_unless_a_call_of_ours_waits() {
    let running = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&running);
    let methods = Methods::new().on("work", move |_: Context, (): ()| {
        let running = Arc::clone(&count);
        async move {
            let now = running.fetch_add(1, Ordering::SeqCst) + 1;
            assert!(now <= 4, "{now} at once");
            sleep(seconds(1)).await;
            running.fetch_sub(1, Ordering::SeqCst);
            Ok(())
        }
    });
    let mut limits = ConnectionLimits::default();
    limits.requests = 4;
    let (here, mut raw) = memory(1 << 20);
    let peer = Connection::new(here).methods(methods).limits(limits).spawn();
    for id in 0..40 {
        send(&mut raw, json!({"jsonrpc":"2.0","id":id,"method":"work"})).await;
    }
    for id in 0..40 {
        assert_eq!(receive(&mut raw).await, json!({"jsonrpc":"2.0","id":id,"result":null}));
    }
    // While a call of ours waits, its answer may be behind the requests, so they are refused.
    let call = tokio::spawn(peer.call::<bool>("question", ()).into_future());
    assert_eq!(receive(&mut raw).await["method"], "question");
    for id in 0..6 {
        send(&mut raw, json!({"jsonrpc":"2.0","id":id,"method":"work"})).await;
    }
    send(&mut raw, json!({"jsonrpc":"2.0","id":1,"result":true})).await;
    for id in [4, 5] {
        let busy = receive(&mut raw).await;
        assert_eq!((&busy["id"], &busy["error"]["data"]), (&json!(id), &json!({"reason":"busy"})));
    }
    assert!(call.await.expect("no panic").expect("answered"));
    for id in 0..4 {
        assert_eq!(receive(&mut raw).await["id"], id);
    }
}

/// One request that waits keeps the answers to all others of its batch in memory.
#[tokio::test(start_paused = true)]
async fn the_answers_of_waiting_batches_count_against_the_limit_of_requests() {
    let (here, mut raw) = memory(1 << 20);
    let (begun, gate) = (Arc::new(AtomicUsize::new(0)), Arc::new(tokio::sync::Semaphore::new(0)));
    let (count, wait) = (Arc::clone(&begun), Arc::clone(&gate));
    let slow = move |_: Context, (): ()| {
        let wait = Arc::clone(&wait);
        count.fetch_add(1, Ordering::SeqCst);
        async move {
            wait.acquire().await?.forget();
            Ok(())
        }
    };
    let mut limits = ConnectionLimits::default();
    limits.request_bytes = 100_000;
    let connection = Connection::new(here).methods(Methods::new().on("slow", slow)).limits(limits);
    let _peer = connection.spawn();
    let wrong = json!({"jsonrpc": "1.0", "id": "i".repeat(40_000), "method": "m"});
    for id in 0..10 {
        send(&mut raw, json!([{"jsonrpc":"2.0","id":id,"method":"slow"}, wrong])).await;
    }
    sleep(seconds(1)).await;
    assert_eq!(begun.load(Ordering::SeqCst), 2);
    gate.add_permits(10);
    for _ in 0..10 {
        assert_eq!(receive(&mut raw).await.as_array().map(Vec::len), Some(2));
    }
}

#[tokio::test(start_paused = true)]
async fn a_notification_of_a_batch_that_cannot_wait_is_dropped_and_logged() {
    let (here, mut raw) = memory(1 << 20);
    let log = Log::default();
    let mut limits = ConnectionLimits::default();
    limits.requests = 1;
    let methods = Methods::new().on("n", |_: Context, (): ()| pending::<Result<(), Failure>>());
    let _peer = Connection::new(here).methods(methods).limits(limits).spawn();
    let n = json!({"jsonrpc":"2.0","method":"n"});
    send(&mut raw, json!([n, n, n])).await;
    sleep(seconds(1)).await;
    let log = log.text();
    assert_eq!(log.matches("dropped").count(), 1, "{log}");
}

#[tokio::test(start_paused = true)]
async fn limits_of_zero_let_one_message_through() {
    for (output, requests) in [(0, 1024), (1 << 20, 0)] {
        let (here, mut raw) = memory(1 << 20);
        let mut limits = ConnectionLimits::default();
        (limits.output, limits.requests) = (output, requests);
        let methods =
            Methods::new().on("r", |_: Context, (): ()| async { Ok(1) }).on("n", |_: Context, (): ()| async {
                sleep(seconds(1)).await;
                Ok(())
            });
        let _peer = Connection::new(here).methods(methods).limits(limits).spawn();
        for _ in 0..3 {
            send(&mut raw, json!({"jsonrpc":"2.0","method":"n"})).await;
        }
        send(&mut raw, json!({"jsonrpc":"2.0","id":1,"method":"r"})).await;
        assert_eq!(receive(&mut raw).await["result"], 1, "output {output}, requests {requests}");
    }
}

#[tokio::test(start_paused = true)]
async fn handlers_that_call_each_other_across_the_connection_do_not_deadlock() {
    // Each handler calls the peer, thirty deep, in both directions at once, through a pipe of a few bytes.
    fn ping_pong() -> Methods {
        Methods::new().on("down", |context: Context, (depth,): (u32,)| async move {
            match depth {
                0 => Ok(0),
                _ => Ok(1 + context.call::<u32>("down", [depth - 1]).await?),
            }
        })
    }
    let (a, b) = memory(16);
    let a = Connection::new(a).methods(ping_pong()).spawn();
    let b = Connection::new(b).methods(ping_pong()).spawn();
    let mut calls = tokio::task::JoinSet::new();
    for _ in 0..20 {
        calls.spawn(a.call::<u32>("down", [30]).into_future());
        calls.spawn(b.call::<u32>("down", [30]).into_future());
    }
    let depths = calls.join_all().await;
    assert!(depths.iter().all(|depth| matches!(depth, Ok(30))), "{depths:?}");
}

#[tokio::test(start_paused = true)]
async fn an_endless_recursion_ends_with_a_refusal() {
    let down = |context: Context, (): ()| async move { Ok(1 + context.call::<u64>("down", ()).await?) };
    let (a, b) = pair(Methods::new().on("down", down), Methods::new().on("down", down));
    let error = a.call::<u64>("down", ()).await.expect_err("it is endless");
    assert!(matches!(error, CallError::Refused(_)), "{error}");
    assert_eq!(
        b.call::<Raw>("nobody", ()).await.expect_err("no such").to_string(),
        r#"Method not found (-32601): {"method":"nobody"}"#
    );
}

#[tokio::test(start_paused = true)]
async fn two_peers_that_flood_each_other_both_make_progress() {
    let seen = Arc::new(AtomicUsize::new(0));
    let methods = || {
        let seen = Arc::clone(&seen);
        Methods::new()
            .on("work", |_: Context, (n, _): (usize, String)| async move {
                if n % 3 == 0 {
                    tokio::task::yield_now().await;
                }
                Ok((n, "y".repeat(5000)))
            })
            .on("told", move |_: Context, _: Raw| {
                seen.fetch_add(1, Ordering::SeqCst);
                async { Ok(()) }
            })
    };
    let (a, b) = memory(64);
    let mut limits = ConnectionLimits::default();
    limits.output = 64 * 1024;
    let connect = |end| Connection::new(end).methods(methods()).limits(limits.clone()).spawn();
    let (a, b) = (connect(a), connect(b));
    let mut all = tokio::task::JoinSet::new();
    for peer in [&a, &b] {
        for n in 0..300 {
            let peer = peer.clone();
            all.spawn(async move {
                peer.notify("told", ["x".repeat(2000)]).await.expect("open");
                match peer.call::<(usize, String)>("work", (n, "z".repeat(1000))).await {
                    Ok((same, _)) => assert_eq!(same, n),
                    // A refusal is an answer too.
                    Err(CallError::Refused(error)) => assert_eq!(error.code.get(), -32603),
                    Err(error) => panic!("{error}"),
                }
            });
        }
    }
    while let Some(done) = all.join_next().await {
        done.expect("no panic");
    }
    assert_eq!(seen.load(Ordering::SeqCst), 600);
}

#[tokio::test(start_paused = true)]
async fn two_peers_that_have_both_given_up_large_calls_do_not_deadlock() {
    let started = Arc::new(tokio::sync::Notify::new());
    let tell = Arc::clone(&started);
    let large = move |_: Context, (): ()| {
        tell.notify_waiters();
        async { Ok("x".repeat(1 << 20)) }
    };
    let methods = Methods::new().on("large", large);
    let (a, b) = pair(methods.clone(), methods);
    let mut calls = tokio::task::JoinSet::new();
    for peer in [&a, &b] {
        for _ in 0..4 {
            let (call, started) = (peer.call::<Raw>("large", ()).into_future(), Arc::clone(&started));
            // As soon as the first answer is made, all calls are dropped.
            calls.spawn(async move {
                let began = started.notified();
                tokio::select! { _ = call => {} () = began => {} }
            });
        }
    }
    calls.join_all().await;
    sleep(seconds(100)).await;
    assert!(!a.is_closed(), "{:?}", a.end());
    assert_eq!(b.call::<String>("large", ()).await.expect("answered").len(), 1 << 20);
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_never_reads_ends_the_connection_with_the_write_timeout() {
    let methods = Methods::new().on("echo", |_: Context, params: Raw| async move { Ok(params) });
    let (here, mut raw) = memory(1024);
    let mut limits = ConnectionLimits::default();
    limits.write_timeout = Some(seconds(7));
    limits.output = 4096;
    let began = Instant::now();
    let running = tokio::spawn(Connection::new(here).methods(methods).limits(limits).run());
    let flood = async {
        let request = json!({"jsonrpc":"2.0","id":1,"method":"echo","params":["x".repeat(500)]}).to_string();
        loop {
            if raw.send_line(&request).await.is_err() {
                break;
            }
        }
    };
    let (ended, ()) = tokio::join!(running, flood);
    let error = ended.expect("no panic").expect_err("not an orderly end");
    let closed = error.connection_end().expect("the reason");
    assert!(matches!(closed.reason(), EndReason::WriteTimeout(_)), "{closed}");
    assert_eq!(began.elapsed(), seconds(7));
}

#[tokio::test(start_paused = true)]
async fn an_idle_connection_ends_with_the_idle_timeout() {
    let methods = Methods::new().on("work", |_: Context, (): ()| async {
        sleep(seconds(60)).await;
        Ok("x".repeat(5000))
    });
    let (here, mut raw) = memory(1024);
    let mut limits = ConnectionLimits::default();
    limits.idle_timeout = Some(seconds(5));
    let running = tokio::spawn(Connection::new(here).methods(methods).limits(limits).run());
    let began = Instant::now();
    send(&mut raw, json!({"jsonrpc":"2.0","id":1,"method":"work"})).await;
    receive(&mut raw).await;
    assert_eq!(began.elapsed(), seconds(60), "it is not idle while a request is in flight");
    let error = running.await.expect("no panic").expect_err("no orderly end");
    let closed = error.connection_end().expect("the reason");
    assert_eq!(began.elapsed(), seconds(65), "the idle time starts after the answer");
    assert!(matches!(closed.reason(), EndReason::IdleTimeout(_)), "{closed}");
}

#[tokio::test(start_paused = true)]
async fn answers_that_are_ready_together_are_written_together() {
    /// Counts the writes.
    struct Writes(tokio::io::DuplexStream, Arc<AtomicUsize>);
    impl tokio::io::AsyncWrite for Writes {
        fn poll_write(
            mut self: std::pin::Pin<&mut Self>,
            context: &mut std::task::Context<'_>,
            bytes: &[u8],
        ) -> std::task::Poll<io::Result<usize>> {
            self.1.fetch_add(1, Ordering::SeqCst);
            std::pin::Pin::new(&mut self.0).poll_write(context, bytes)
        }
        fn poll_flush(
            mut self: std::pin::Pin<&mut Self>,
            context: &mut std::task::Context<'_>,
        ) -> std::task::Poll<io::Result<()>> {
            std::pin::Pin::new(&mut self.0).poll_flush(context)
        }
        fn poll_shutdown(
            mut self: std::pin::Pin<&mut Self>,
            context: &mut std::task::Context<'_>,
        ) -> std::task::Poll<io::Result<()>> {
            std::pin::Pin::new(&mut self.0).poll_shutdown(context)
        }
    }
    let count = Arc::new(AtomicUsize::new(0));
    let (mut there, reader) = tokio::io::duplex(1 << 16);
    let (writer, back) = tokio::io::duplex(1 << 16);
    let methods = Methods::new().on("echo", |_: Context, params: Raw| async move { Ok(params) });
    let transport = (reader, Writes(writer, Arc::clone(&count)));
    let running = tokio::spawn(Connection::new(transport).methods(methods).run());
    // On a busy machine, a burst can take longer than the time that handlers have until output is written. Without the
    // rule, no burst of thirty would be one write.
    let mut fewest = usize::MAX;
    for burst in 0..10 {
        let ids = burst * 30..(burst + 1) * 30;
        let burst: String =
            ids.map(|id| format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"echo\"}}\n")).collect();
        let before = count.load(Ordering::SeqCst);
        tokio::io::AsyncWriteExt::write_all(&mut there, burst.as_bytes()).await.expect("memory");
        sleep(seconds(1)).await;
        fewest = fewest.min(count.load(Ordering::SeqCst) - before);
    }
    assert_eq!(fewest, 1);
    drop(there);
    running.await.expect("no panic").expect("a clean end");
    drop(back);
}
