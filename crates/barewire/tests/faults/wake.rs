//! Wake-ups: work that is possible is done without waiting for an unrelated event.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;
use std::time::{Duration, Instant};

use barewire::peer::{CallError, Connection, ConnectionLimits, Context, EndReason, Methods, Raw};
use barewire::transport::{Child, Stderr, memory};
use rustix::process::{Pid, Signal, kill_process};
use tokio::io::AsyncReadExt;
use tokio::net::UnixStream;
use tokio::sync::Notify;

use super::eventually::DEADLINE;
use super::{one_thread, threads, within_deadline};

const GRACE: Duration = DEADLINE;

/// Methods: `n` yields and counts its notifications, `r` is answered at once.
fn counting(seen: &Arc<AtomicUsize>) -> Methods {
    let seen = Arc::clone(seen);
    let note = move |_: Context, (): ()| {
        let seen = Arc::clone(&seen);
        async move {
            tokio::task::yield_now().await;
            seen.fetch_add(1, Ordering::SeqCst);
            Ok(())
        }
    };
    Methods::new().on("n", note).on("r", |_: Context, (): ()| async move { Ok(1) })
}

#[test]
fn the_next_notification_starts_when_the_one_before_ends_while_a_request_is_handled() {
    let seen = Arc::new(AtomicUsize::new(0));
    let first = Arc::clone(&seen);
    let methods = counting(&seen).on("busy", move |_: Context, (): ()| {
        // The first notification is handled on another thread, and done before this is.
        while first.load(Ordering::SeqCst) == 0 {
            std::thread::sleep(Duration::from_millis(1));
        }
        // The test cannot see whether its task has ended too; if it has not, less is tested.
        std::thread::sleep(Duration::from_millis(50));
        async move { Ok(1) }
    });
    let runtime = threads();
    let (here, mut there) = memory(1 << 16);
    let both = runtime.spawn(async move {
        let n = r#"{"jsonrpc":"2.0","method":"n"}"#;
        let busy = r#"{"jsonrpc":"2.0","id":1,"method":"busy"}"#;
        there.send_line(&format!("{n}\n{n}\n{busy}")).await.expect("memory");
        let began = Instant::now();
        while seen.load(Ordering::SeqCst) < 2 && began.elapsed() < DEADLINE {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        // No other message has come, so only the first notification can have woken the driver.
        let seen = seen.load(Ordering::SeqCst);
        // Read only now, so that nothing else wakes the driver.
        there.recv_line().await.expect("memory").expect("the answer");
        seen
    });
    // The driver runs on this thread, so that the workers run the handlers that become tasks.
    let running = Connection::new(here).methods(methods).run();
    runtime.block_on(running).expect("a clean end");
    assert_eq!(runtime.block_on(both).expect("no panic"), 2, "the second was not started");
}

/// Both sides call, notify, cancel and time out at once; every future ends, on one thread and on several.
#[test]
fn every_call_ends_whatever_the_others_do() {
    for (runtime, rounds) in [(one_thread(), 40), (threads(), 600)] {
        runtime.block_on(async {
            for round in 0..rounds {
                let (one, other) = UnixStream::pair().expect("sockets");
                let seen = Arc::new(AtomicUsize::new(0));
                let mut limits = ConnectionLimits::default();
                // Limits so small that everything is full.
                (limits.requests, limits.output) = (1 + round % 4, 64 << (round % 6));
                let connect = |stream: UnixStream| {
                    let methods = counting(&seen)
                        .on("later", |_: Context, (): ()| async move {
                            tokio::task::yield_now().await;
                            Ok("x".repeat(100))
                        })
                        .on("back", |context: Context, (): ()| async move {
                            let there: Raw = context.call("r", ()).await?;
                            Ok(there)
                        });
                    Connection::new(stream.into_split()).methods(methods).limits(limits.clone()).grace(GRACE).spawn()
                };
                let (one, other) = (connect(one), connect(other));
                let mut tasks = tokio::task::JoinSet::new();
                for n in 0..24 {
                    let peer = if n % 2 == 0 { one.clone() } else { other.clone() };
                    tasks.spawn(async move {
                        for step in 0..6 {
                            match (n + step) % 5 {
                                0 => drop(peer.notify("n", ()).await),
                                1 => drop(peer.call::<Raw>("back", ()).await),
                                2 => drop(peer.call::<Raw>("later", ()).await),
                                3 => {
                                    let call = peer.call::<Raw>("later", ()).into_future();
                                    let _ = tokio::time::timeout(Duration::from_micros(50), call).await;
                                }
                                _ => drop(peer.call::<Raw>("r", ()).await),
                            }
                        }
                    });
                }
                if round % 3 == 0 {
                    let _ = within_deadline("shutdown", one.shutdown()).await;
                }
                within_deadline(&format!("the calls of round {round}"), async {
                    while let Some(done) = tasks.join_next().await {
                        done.expect("no panic");
                    }
                })
                .await;
                if round % 3 == 1 {
                    let began = Instant::now();
                    let both = async { tokio::join!(one.shutdown(), other.shutdown()) };
                    let _ = within_deadline("both shut down", both).await;
                    // Nothing is in flight, so neither side needs the grace. One side may be gone before the last
                    // notification of the other is written.
                    assert!(began.elapsed() < GRACE, "round {round}");
                    for peer in [&one, &other] {
                        let closed = peer.end().expect("it is over");
                        let reason = closed.reason();
                        assert!(
                            matches!(reason, EndReason::Shutdown | EndReason::Eof | EndReason::Write(_)),
                            "{closed}"
                        );
                    }
                }
                drop((one, other));
            }
        });
    }
}

#[tokio::test]
async fn one_large_answer_that_is_not_read_ends_with_the_write_timeout() {
    let (here, mut there) = memory(1000);
    let mut limits = ConnectionLimits::default();
    limits.write_timeout = Some(Duration::from_millis(300));
    let methods = Methods::new().on("large", |_: Context, (): ()| async move { Ok("x".repeat(50_000)) });
    let running = tokio::spawn(Connection::new(here).methods(methods).limits(limits).run());
    there.send_line(r#"{"jsonrpc":"2.0","id":1,"method":"large"}"#).await.expect("memory");
    let error =
        within_deadline("the write timeout", running).await.expect("no panic").expect_err("the peer does not read");
    let ended = error.connection_end().expect("the reason");
    assert!(matches!(ended.reason(), EndReason::WriteTimeout(_)), "{ended}");
}

/// Requests without a pause, whose handlers never wait, still let other tasks on the thread run.
#[tokio::test]
async fn a_flood_of_requests_does_not_keep_the_thread_to_itself() {
    let (here, mut there) = memory(1 << 20);
    let methods = Methods::new().on("r", |_: Context, (): ()| async move {
        let began = Instant::now();
        while began.elapsed() < Duration::from_micros(20) {
            std::hint::spin_loop();
        }
        Ok(1)
    });
    let text: String = (0..4000).map(|id| format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"r\"}}\n")).collect();
    there.send(text.as_bytes()).await.expect("memory");
    let turns = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&turns);
    tokio::spawn(async move {
        loop {
            tokio::task::yield_now().await;
            counted.fetch_add(1, Ordering::SeqCst);
        }
    });
    let _peer = Connection::new(here).methods(methods).spawn();
    for _ in 0..4000 {
        within_deadline("an answer", there.recv_line()).await.expect("memory").expect("not the end");
    }
    // The handlers take 80 ms together.
    let turns = turns.load(Ordering::SeqCst);
    assert!(turns > 50, "{turns}");
}

/// A peer that reads slowly gets all its answers, however long ago it has closed its half of the stream. Time is paused,
/// because on a busy machine the peer could be slower than the grace.
#[tokio::test(start_paused = true)]
async fn a_slow_reader_gets_its_answers_also_after_the_grace() {
    let (here, there) = tokio::io::duplex(64 * 1024);
    let methods = Methods::new().on("large", |_: Context, (): ()| async move { Ok("x".repeat(1_000_000)) });
    let connection = Connection::new(tokio::io::split(here)).methods(methods);
    let running = tokio::spawn(connection.grace(Duration::from_secs(1)).run());
    let (mut from, mut to) = tokio::io::split(there);
    let ask = b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"large\"}\n";
    tokio::io::AsyncWriteExt::write_all(&mut to, ask).await.expect("it reads");
    tokio::io::AsyncWriteExt::shutdown(&mut to).await.expect("it is open");
    let (mut got, mut chunk) = (0, vec![0; 50_000]);
    let slowly = async {
        loop {
            tokio::time::sleep(Duration::from_millis(100)).await;
            match from.read(&mut chunk).await.expect("it writes") {
                0 => break got,
                count => got += count,
            }
        }
    };
    assert_eq!(within_deadline("the answer", slowly).await, 1_000_000 + 37);
    within_deadline("the end", running).await.expect("no panic").expect("a clean end");
}

/// The peer no longer reads, and many of its requests have to be refused before the answer to our call is reached.
#[tokio::test]
async fn an_answer_behind_many_refused_requests_is_read_also_when_nothing_can_be_written() {
    let (reader, mut feed) = tokio::io::duplex(1 << 20);
    let (writer, mut taken) = tokio::io::duplex(1 << 10);
    let mut limits = ConnectionLimits::default();
    limits.output = 200;
    let connection = Connection::new((reader, writer)).limits(limits).grace(4 * DEADLINE);
    let peer = connection.spawn();
    let call = tokio::spawn(peer.call::<i64>("ask", ()).into_future());
    let mut asked = [0; 39];
    taken.read_exact(&mut asked).await.expect("it asks");
    drop(taken);
    let mut text = String::new();
    for id in 0..500 {
        text += &format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"r\"}}\n");
    }
    text += "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":7}\n";
    tokio::io::AsyncWriteExt::write_all(&mut feed, text.as_bytes()).await.expect("it reads");
    let answer = within_deadline("the answer", call).await;
    assert_eq!(answer.expect("no panic").expect("answered"), 7);
}

/// The peer no longer reads, so the request in flight is never answered. It must not hold back the frames after it, of
/// which the last one is the end of the stream.
#[tokio::test]
async fn work_in_flight_does_not_delay_the_end_when_writing_fails() {
    for (first, held) in [
        (r#"{"jsonrpc":"2.0","id":1,"method":"endless"}"#, r#"{"jsonrpc":"2.0","id":2,"method":"endless"}"#),
        (r#"[{"jsonrpc":"2.0","id":1,"method":"endless"}]"#, r#"[{"jsonrpc":"2.0","id":2,"method":"endless"}]"#),
        (r#"{"jsonrpc":"2.0","method":"short"}"#, r#"{"jsonrpc":"2.0","method":"short"}"#),
    ] {
        let (reader, mut feed) = tokio::io::duplex(1 << 16);
        let (writer, taken) = tokio::io::duplex(1 << 10);
        let mut limits = ConnectionLimits::default();
        limits.requests = 1;
        let has_started = Arc::new(Notify::new());
        let handler = |duration: Duration| {
            let has_started = Arc::clone(&has_started);
            move |_: Context, (): ()| {
                has_started.notify_one();
                async move {
                    tokio::time::sleep(duration).await;
                    Ok(())
                }
            }
        };
        let methods =
            Methods::new().on("endless", handler(Duration::MAX)).on("short", handler(Duration::from_millis(50)));
        let peer = Connection::new((reader, writer)).methods(methods).limits(limits).grace(4 * DEADLINE).spawn();
        let text = format!("{first}\n{held}\n{held}\n{held}\n");
        tokio::io::AsyncWriteExt::write_all(&mut feed, text.as_bytes()).await.expect("it reads");
        within_deadline("the first handler", has_started.notified()).await;
        drop(feed);
        // The driver, which runs on this thread too, notices the end of the stream.
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
        drop(taken);
        // The write of this notification fails.
        let _ = peer.notify("unheard", ()).await;
        let _ = within_deadline(&format!("the end after {first}"), peer.closed()).await;
        let end = peer.end().expect("it is over");
        assert!(matches!(end.reason(), EndReason::Write(_)), "{first}: {end}");
    }
}

/// Also calls that are made when writing already fails, but the child has not exited yet.
#[tokio::test]
async fn errors_of_calls_to_a_child_that_no_longer_reads_have_its_exit() {
    let script = r#"exec 0<&-; echo '{"jsonrpc":"2.0","method":"deaf"}'; exec sleep 600"#;
    let child = Child::new("sh").args(["-c", script]).stderr(Stderr::discard()).spawn().expect("sh");
    let pid = Pid::from_raw(child.pid().cast_signed()).expect("a process");
    let is_deaf = Arc::new(Notify::new());
    let says = Arc::clone(&is_deaf);
    let methods = Methods::new().on("deaf", move |_: Context, (): ()| {
        says.notify_one();
        async { Ok(()) }
    });
    let peer = Connection::new(child).methods(methods).spawn();
    within_deadline("it no longer reads", is_deaf.notified()).await;
    for _ in 0..5 {
        let peer = peer.clone();
        tokio::spawn(async move { peer.notify("unheard", ()).await });
        // The test cannot see whether the write has failed yet; if it has not, less is tested.
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let (first, second) = (peer.call::<Raw>("first", ()), peer.call::<Raw>("second", ()));
    // It is killed after the calls have started.
    let dies = async { kill_process(pid, Signal::KILL).expect("it is there") };
    let all = async { tokio::join!(first, second, dies) };
    let (first, second, ()) = within_deadline("the calls", all).await;
    for error in [first, second].map(|outcome| outcome.expect_err("it is dead")) {
        assert!(matches!(&error, CallError::Closed(closed) if closed.exit().is_some()), "{error}");
        assert!(error.to_string().contains("signal 9"), "{error}");
    }
}

/// A call that is dropped before it is sent gives back its room in the output.
#[tokio::test]
async fn a_call_dropped_before_it_is_sent_leaves_its_room_to_others() {
    let (here, mut there) = memory(1 << 16);
    let mut limits = ConnectionLimits::default();
    limits.output = 64;
    let peer = Connection::new(here).limits(limits).spawn();
    let mut dropped = peer.call::<Raw>("dropped", ()).into_future();
    let polled = std::future::poll_fn(|context| Poll::Ready(dropped.as_mut().poll(context))).await;
    assert!(polled.is_pending());
    drop(dropped);
    within_deadline("room for a notification", peer.notify("said", ())).await.expect("open");
    let line = within_deadline("the notification", there.recv_line()).await.expect("memory").expect("not the end");
    assert!(line.contains("said"), "{line}");
}
