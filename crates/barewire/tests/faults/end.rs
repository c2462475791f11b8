//! The end of children: killed at every point of an exchange, and without leftovers of processes and files.

use std::io::{self, Write};
use std::time::Duration;

use barewire::peer::{CallError, Connection, Peer, Raw};
use barewire::transport::{Child, Stderr};
use rustix::process::{Pid, Signal, kill_process};

use super::eventually::{DEADLINE, eventually};
use super::process::{Program, children, example, fds, is_isolated, members, until_gone};
use super::{one_thread, threads, within_deadline};

const GRACE: Duration = Duration::from_millis(300);

fn sh(script: &str, args: &[&str]) -> Child {
    Child::new("sh").args(["-c", script]).args(args).stderr(Stderr::discard()).grace(GRACE)
}

/// Three answers, of which the child sends a part.
fn answers() -> String {
    (1..=3).map(|id| format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":[{id}]}}\n")).collect()
}

/// Makes three calls to a child that sends the first `bytes` bytes of the answers and kills itself.
async fn exchange(bytes: usize) {
    let text = answers();
    // The number of requests that it reads before that.
    let reads = bytes % 4;
    let script = r#"n=$2; while [ $n -gt 0 ]; do read -r line; n=$((n-1)); done; printf %s "$1"; kill -9 $$; sleep 9"#;
    // The calls fail when the process is gone, and not at the end of the grace period, which never comes.
    let process = sh(script, &["sh", &text[..bytes], &reads.to_string()]).grace(4 * DEADLINE);
    let process = process.spawn().expect("sh");
    let pid = process.pid();
    let peer = Connection::new(process).spawn();
    let call = |n: u64| {
        let call = peer.call::<(u64,)>("ask", [n]).into_future();
        async move { (n, call.await) }
    };
    let three = async { tokio::join!(call(1), call(2), call(3)) };
    let (one, two, three) = within_deadline(&format!("killed after {bytes} bytes"), three).await;
    let line = text.len() / 3;
    for (n, outcome) in [one, two, three] {
        // The last line needs no newline.
        let whole = bytes + 1 >= line * usize::try_from(n).expect("small");
        match outcome {
            Ok((result,)) => assert!(whole && result == n, "{n} of {bytes}"),
            Err(error) => {
                assert!(error.to_string().contains("signal 9"), "{n} of {bytes}: {error}");
                assert!(matches!(error, CallError::Closed(_)));
                assert!(!whole || reads < 3, "{n} of {bytes} was answered: {error}");
            }
        }
    }
    let late = within_deadline("a late call", peer.call::<Raw>("late", ()).into_future()).await;
    assert!(late.expect_err("it is dead").to_string().contains("signal 9"));
    let error = within_deadline("the end", peer.closed()).await.expect_err("it was killed");
    let exit = error.connection_end().and_then(|end| end.exit());
    assert_eq!(exit.and_then(|exit| exit.signal), Some(9), "{error}");
    until_gone(|| members(pid));
}

#[test]
fn a_child_killed_at_any_of_a_hundred_points_fails_every_call_and_leaves_nothing() {
    if !is_isolated("end::a_child_killed_at_any_of_a_hundred_points_fails_every_call_and_leaves_nothing") {
        return;
    }
    assert!(answers().len() > 100);
    for runtime in [one_thread(), threads()] {
        runtime.block_on(async {
            // The first run opens the files that the runtime keeps.
            exchange(0).await;
            let before = fds();
            for bytes in (0..100).rev() {
                exchange(bytes).await;
            }
            until_gone(|| children(std::process::id()));
            settles(before).await;
        });
    }
}

/// The child is killed from outside, after a varying number of answers to a hundred calls.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_child_killed_under_load_fails_the_unanswered_calls() {
    for after in (0..100).step_by(5) {
        let process = Child::new(example("echo")).stderr(Stderr::discard()).spawn().expect("built");
        let pid = process.pid();
        let peer = Connection::new(process).spawn();
        let mut calls = tokio::task::JoinSet::new();
        let text = "x".repeat(10_000);
        for n in 0..100 {
            let call = peer.call::<Raw>("echo", (n, &text)).into_future();
            calls.spawn(call);
        }
        let (mut answered, mut failed) = (0, 0);
        while let Some(done) = within_deadline("the calls", calls.join_next()).await {
            match done.expect("no panic") {
                Ok(_) => answered += 1,
                Err(error) => {
                    assert!(error.to_string().contains("signal 9"), "{error}");
                    failed += 1;
                }
            }
            if answered == after {
                let pid = Pid::from_raw(pid.cast_signed()).expect("a process");
                // It may be dead by now. Its id is not reused before it is reaped.
                let _ = kill_process(pid, Signal::KILL);
            }
        }
        assert_eq!(answered + failed, 100);
        assert!(answered >= after, "{answered}");
        let _ = kill_process(Pid::from_raw(pid.cast_signed()).expect("a process"), Signal::KILL);
        until_gone(|| members(pid));
    }
}

/// Waits until there are no more open files than `before`. The threads of a connection close theirs shortly after its
/// end.
async fn settles(before: usize) {
    eventually(&format!("no more than {before} files"), || fds() <= before).await;
}

fn quiet(child: &Child) -> Peer {
    Connection::new(child.spawn().expect("it starts")).spawn()
}

#[test]
fn nothing_is_left_of_many_connections_however_they_end() {
    if !is_isolated("end::nothing_is_left_of_many_connections_however_they_end") {
        return;
    }
    let echo = Child::new(example("echo")).stderr(Stderr::discard()).grace(GRACE);
    let deaf = sh("trap '' TERM; while :; do sleep 1; done", &[]).grace(Duration::from_millis(50));
    let runtime = threads();
    runtime.block_on(async {
        let peer = quiet(&echo);
        peer.call::<Raw>("first", ()).await.expect("answered");
        peer.shutdown().await.expect("an orderly end");
        until_gone(|| children(std::process::id()));
        let before = fds();
        for round in 0..8 {
            // Shut down.
            let peer = quiet(&echo);
            let answer: (u8,) = peer.call("echo", [round]).await.expect("answered");
            assert_eq!(answer, (round,));
            within_deadline("shutdown", peer.shutdown()).await.expect("an orderly end");
            let end = peer.end().expect("it is over");
            assert_eq!(end.exit().and_then(|exit| exit.code), Some(0), "{end}");

            // The peer is dropped, with a call that was dropped before.
            let peer = quiet(&deaf);
            let call = peer.call::<Raw>("ask", ()).into_future();
            assert!(tokio::time::timeout(Duration::from_millis(5), call).await.is_err());
            drop(peer);

            // The driver is dropped.
            let (peer, running) = Connection::new(deaf.spawn().expect("sh")).open();
            let running = tokio::spawn(running);
            let call = tokio::spawn(peer.call::<Raw>("ask", ()).into_future());
            // Any moment will do; after this one the call has most likely been written.
            tokio::time::sleep(Duration::from_millis(5)).await;
            running.abort();
            let error = within_deadline("the call", call).await.expect("no panic").expect_err("the driver is dropped");
            assert!(matches!(error, CallError::Closed(_)), "{error}");

            // The connection is never driven.
            drop(Connection::new(deaf.spawn().expect("sh")));
            drop(Connection::new(deaf.spawn().expect("sh")).open());
        }
        until_gone(|| children(std::process::id()));
        settles(before).await;
    });
    drop(runtime);

    // The runtime is dropped with calls waiting.
    let before = fds();
    for runtime in [one_thread(), threads()] {
        let peer = runtime.block_on(async {
            let peer = quiet(&deaf);
            tokio::spawn(peer.call::<Raw>("ask", ()).into_future());
            // Any moment will do; after this one the call has most likely been written.
            tokio::time::sleep(Duration::from_millis(20)).await;
            peer
        });
        drop(runtime);
        assert!(peer.is_closed());
    }
    until_gone(|| children(std::process::id()));
    one_thread().block_on(settles(before + fds_of_a_runtime()));
}

/// The number of files that a runtime has open.
fn fds_of_a_runtime() -> usize {
    let before = fds();
    let runtime = one_thread();
    let with = fds();
    drop(runtime);
    with - before
}

/// The role "holds children": connects to two children, one of which ignores SIGTERM, and waits to be killed.
pub(super) fn hold_children() {
    one_thread().block_on(async {
        let echo = Child::new(example("echo")).stderr(Stderr::discard()).spawn().expect("built");
        let deaf = sh("trap '' TERM; echo; while :; do sleep 1; done", &[]).spawn().expect("sh");
        let pids = format!("{} {}\n", echo.pid(), deaf.pid());
        let (echo, deaf) = (Connection::new(echo).spawn(), Connection::new(deaf).spawn());
        echo.call::<Raw>("hello", ()).await.expect("answered");
        io::stdout().write_all(pids.as_bytes()).expect("the test reads");
        let _ = deaf.call::<Raw>("ask", ()).no_timeout().await;
    });
}

#[test]
fn no_child_survives_when_this_process_is_killed() {
    let mut program = Program::role("holds children");
    let groups: Vec<u32> = program.line().trim().split(' ').map(|pid| pid.parse().expect("a number")).collect();
    let all = children(program.pid());
    // Each has a watcher.
    assert_eq!((groups.len(), all.len()), (2, 4));
    // The program is killed.
    drop(program);
    until_gone(|| groups.iter().chain(&all).flat_map(|pid| members(*pid)).collect());
}
