//! Nobody is forgotten: whatever can be done is done without waiting for something else to happen.

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
use super::{one_thread, soon, threads};

const GRACE: Duration = Duration::from_secs(10);

/// Counts the notifications `n`, each of which yields; `r` is answered at once.
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
fn notifications_go_on_when_the_one_before_ends_while_a_request_is_handled() {
    let seen = Arc::new(AtomicUsize::new(0));
    let first = Arc::clone(&seen);
    let methods = counting(&seen).on("busy", move |_: Context, (): ()| {
        // The first notification is handled on another thread, and done before this is.
        while first.load(Ordering::SeqCst) == 0 {
            std::thread::sleep(Duration::from_millis(1));
        }
        // Nothing says that its task is over too; if it is not yet, less is tested.
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
        // Nothing else has come, so nothing but the first has woken anybody.
        let seen = seen.load(Ordering::SeqCst);
        // Only now, so that the answer finds somebody.
        there.recv_line().await.expect("memory").expect("the answer");
        seen
    });
    // Not on a worker: what it starts is then left to them.
    let running = Connection::new(here).methods(methods).run();
    runtime.block_on(running).expect("a clean end");
    assert_eq!(runtime.block_on(both).expect("no panic"), 2, "the second is forgotten");
}

/// Both sides call, notify, cancel and give up at once; every future ends, on one thread and on several.
#[test]
fn every_call_ends_whatever_the_others_do() {
    for (runtime, rounds) in [(one_thread(), 40), (threads(), 600)] {
        runtime.block_on(async {
            for round in 0..rounds {
                let (one, other) = UnixStream::pair().expect("sockets");
                let seen = Arc::new(AtomicUsize::new(0));
                let mut limits = ConnectionLimits::default();
                // Everything that can be full is.
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
                    let _ = soon("shutdown", one.shutdown()).await;
                }
                soon(&format!("the calls of round {round}"), async {
                    while let Some(done) = tasks.join_next().await {
                        done.expect("no panic");
                    }
                })
                .await;
                if round % 3 == 1 {
                    let began = Instant::now();
                    let both = async { tokio::join!(one.shutdown(), other.shutdown()) };
                    let _ = soon("both shut down", both).await;
                    // Nothing is in flight, so nobody needs the grace. One may be gone before the last notification of
                    // the other is written.
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
async fn one_large_answer_that_nobody_takes_ends_with_the_write_timeout() {
    let (here, mut there) = memory(1000);
    let mut limits = ConnectionLimits::default();
    limits.write_timeout = Some(Duration::from_millis(300));
    let methods = Methods::new().on("large", |_: Context, (): ()| async move { Ok("x".repeat(50_000)) });
    let running = tokio::spawn(Connection::new(here).methods(methods).limits(limits).run());
    there.send_line(r#"{"jsonrpc":"2.0","id":1,"method":"large"}"#).await.expect("memory");
    let error = soon("the write timeout", running).await.expect("no panic").expect_err("nobody reads");
    let ended = error.connection_end().expect("the reason");
    assert!(matches!(ended.reason(), EndReason::WriteTimeout(_)), "{ended}");
}

/// Handlers that never wait, asked for without a pause, leave the thread to others.
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
        soon("an answer", there.recv_line()).await.expect("memory").expect("not the end");
    }
    // They take 80 ms.
    let turns = turns.load(Ordering::SeqCst);
    assert!(turns > 50, "{turns}");
}

/// The other side reads slowly, but it reads: it gets all it has asked for, however long ago it has closed its half.
#[tokio::test]
async fn a_slow_reader_gets_its_answers_also_after_the_grace() {
    let (here, there) = UnixStream::pair().expect("sockets");
    let methods = Methods::new().on("large", |_: Context, (): ()| async move { Ok("x".repeat(1_000_000)) });
    let connection = Connection::new(here.into_split()).methods(methods);
    let running = tokio::spawn(connection.grace(Duration::from_secs(1)).run());
    let (mut from, mut to) = there.into_split();
    let ask = b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"large\"}\n";
    tokio::io::AsyncWriteExt::write_all(&mut to, ask).await.expect("it reads");
    drop(to);
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
    assert_eq!(soon("the answer", slowly).await, 1_000_000 + 37);
    soon("the end", running).await.expect("no panic").expect("a clean end");
}

/// Nothing can be written any more, and much of what came has to be refused before the answer to our call is reached.
#[tokio::test]
async fn an_answer_behind_much_that_is_refused_is_read_also_when_nothing_can_be_written() {
    let (reader, mut feed) = tokio::io::duplex(1 << 20);
    let (writer, mut taken) = tokio::io::duplex(1 << 10);
    let mut limits = ConnectionLimits::default();
    limits.output = 200;
    let connection = Connection::new((reader, writer)).limits(limits).grace(Duration::from_secs(30));
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
    let answer = tokio::time::timeout(Duration::from_secs(10), call).await.expect("hangs");
    assert_eq!(answer.expect("no panic").expect("answered"), 7);
}

/// Also those that are begun when nothing can be written any more and nobody knows why.
#[tokio::test]
async fn calls_of_a_child_that_no_longer_reads_say_how_it_ended() {
    let script = r#"exec 0<&-; echo '{"jsonrpc":"2.0","method":"deaf"}'; exec sleep 60"#;
    let child = Child::new("sh").args(["-c", script]).stderr(Stderr::discard()).spawn().expect("sh");
    let pid = Pid::from_raw(child.pid().cast_signed()).expect("a process");
    let is_deaf = Arc::new(Notify::new());
    let says = Arc::clone(&is_deaf);
    let methods = Methods::new().on("deaf", move |_: Context, (): ()| {
        says.notify_one();
        async { Ok(()) }
    });
    let peer = Connection::new(child).methods(methods).spawn();
    soon("it no longer reads", is_deaf.notified()).await;
    for _ in 0..5 {
        let peer = peer.clone();
        tokio::spawn(async move { peer.notify("unheard", ()).await });
        // No word says that it was written in vain; if it was not yet, less is tested.
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let (first, second) = (peer.call::<Raw>("first", ()), peer.call::<Raw>("second", ()));
    // It dies when the calls have begun.
    let dies = async { kill_process(pid, Signal::KILL).expect("it is there") };
    let all = async { tokio::join!(first, second, dies) };
    let (first, second, ()) = soon("the calls", all).await;
    for error in [first, second].map(|outcome| outcome.expect_err("it is dead")) {
        assert!(matches!(&error, CallError::Closed(closed) if closed.exit().is_some()), "{error}");
        assert!(error.to_string().contains("signal 9"), "{error}");
    }
}

/// A call that is dropped before it is sent takes no room from those that follow.
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
    soon("room for a notification", peer.notify("said", ())).await.expect("open");
    let line = soon("the notification", there.recv_line()).await.expect("memory").expect("not the end");
    assert!(line.contains("said"), "{line}");
}
