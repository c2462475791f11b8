//! Floods: requests whose answers are not read, and very many requests.

use std::io::{self, Read, Write};
use std::process::ChildStdin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use barewire::Failure;
use barewire::peer::{CallError, Connection, ConnectionLimits, Context, EndReason, Methods, Raw};
use barewire::transport::{Child, Stderr};

use super::eventually::eventually_blocking;
use super::process::{Program, cpu, is_isolated, lines, peak, rss};
use super::wire::{AnsweredIds, request};
use super::{echo, one_thread, within_deadline};

/// The time in which the test does not read.
fn stall() -> Duration {
    let long = std::env::var_os("BAREWIRE_LONG").is_some_and(|it| it == "1");
    Duration::from_secs(if long { 60 } else { 5 })
}

/// Writes requests until `stop`, and returns their number.
fn write_requests(mut stdin: ChildStdin, bytes: usize, stop: &AtomicBool) -> usize {
    let mut id = 1;
    while !stop.load(Ordering::SeqCst) {
        stdin.write_all(&request(id, bytes)).expect("it reads");
        id += 1;
    }
    id
}

/// Floods the program, and reads nothing until the time is over.
fn flood(mut program: Program, name: &str, bytes: usize) {
    let mut stdin = program.stdin.take().expect("piped");
    stdin.write_all(&request(0, 64)).expect("it reads");
    let mut answered = AnsweredIds::default();
    answered.add(program.line().trim_end().as_bytes());
    let pid = program.pid();
    let before = rss(pid);

    let stop = Arc::new(AtomicBool::new(false));
    let asking = thread::spawn({
        let stop = Arc::clone(&stop);
        move || write_requests(stdin, bytes, &stop)
    });
    // It is busy until all buffers are full; then it uses no more CPU.
    let mut known = (cpu(pid), Instant::now());
    eventually_blocking("it waits", || {
        let now = cpu(pid);
        if now != known.0 {
            known = (now, Instant::now());
        }
        known.1.elapsed() > Duration::from_millis(500)
    });
    let (began, computed) = (Instant::now(), cpu(pid));
    let mut stdout = program.stdout.take().expect("piped");
    let mut taken = Vec::new();
    while began.elapsed() + Duration::from_secs(1) < stall() {
        thread::sleep(Duration::from_secs(10).min(stall() - Duration::from_secs(1)));
        // Reads so little that it makes no difference, but often enough that there is no write timeout.
        stdout.by_ref().take(8192).read_to_end(&mut taken).expect("it writes");
    }
    let (waited, computed) = (began.elapsed(), cpu(pid) - computed);
    let (now, most) = (rss(pid), peak(pid));
    let _ = writeln!(
        io::stderr(),
        "{name}, {bytes} bytes: {before} KiB before, {now} KiB after {waited:.1?}, {most} KiB at most, {computed:?} of CPU"
    );
    let bound = before + 32 * 1024 + bytes / 1024;
    assert!(now < bound && most < bound, "{name}, {bytes} bytes: {before} KiB, then {now}, at most {most}");
    assert!(computed < waited / 5, "{name}, {bytes} bytes: computed {computed:?} in {waited:?}");

    stop.store(true, Ordering::SeqCst);
    for line in lines(io::Cursor::new(taken).chain(stdout)) {
        answered.add(&line.expect("it writes"));
    }
    answered.assert_complete(asking.join().expect("no panic"));
    assert_eq!(program.ends().code(), Some(0));
}

#[test]
fn a_peer_that_stops_reading_costs_little_memory_and_no_time_and_gets_every_answer_later() {
    let mut floods = Vec::new();
    for bytes in [64, 4096, 1 << 20] {
        for name in ["echo", "yields", "yields on threads"] {
            floods.push(thread::spawn(move || {
                let program = if name == "echo" { Program::echo() } else { Program::role(name) };
                flood(program, name, bytes);
            }));
        }
    }
    let failed = floods.into_iter().filter_map(|flood| flood.join().err()).count();
    assert_eq!(failed, 0);
}

/// The child floods us with requests and never reads, while a call of ours waits for its answer.
#[test]
fn a_child_that_floods_and_does_not_read_costs_little_memory_and_ends_with_the_write_timeout() {
    if !is_isolated("flood::a_child_that_floods_and_does_not_read_costs_little_memory_and_ends_with_the_write_timeout")
    {
        return;
    }
    one_thread().block_on(async {
        let pid = std::process::id();
        let before = rss(pid);
        // All ids differ, so that none is refused as a duplicate.
        let script = r#"i=0; while :; do i=$((i+1)); echo "{\"jsonrpc\":\"2.0\",\"id\":$i,\"method\":\"e\",\"params\":[\"$0\"]}"; done"#;
        let child = Child::new("sh").args(["-c", script, &"x".repeat(4000)]).stderr(Stderr::discard());
        let child = child.grace(Duration::from_millis(200)).spawn().expect("sh");
        let mut limits = ConnectionLimits::default();
        limits.write_timeout = Some(Duration::from_secs(2));
        let peer = Connection::new(child).methods(echo()).limits(limits).spawn();
        let error = within_deadline("the call", peer.call::<Raw>("ask", ()).into_future()).await.expect_err("not read");
        let CallError::Closed(closed) = error else { panic!("{error}") };
        assert!(matches!(closed.reason(), EndReason::WriteTimeout(_)), "{closed:?}");
        let (most, computed) = (peak(pid).saturating_sub(before), cpu(pid));
        assert!(most < 32 * 1024, "{most} KiB more");
        assert!(computed < Duration::from_secs(2), "{computed:?}");
    });
}

#[test]
fn each_of_a_hundred_thousand_pipelined_requests_is_answered_once() {
    const COUNT: usize = 100_000;
    for mut program in [Program::echo(), Program::role("yields"), Program::role("yields on threads")] {
        let mut stdin = program.stdin.take().expect("piped");
        let asking = thread::spawn(move || {
            let mut out = io::BufWriter::with_capacity(1 << 16, &mut stdin);
            (0..COUNT).for_each(|id| out.write_all(&request(id, 64)).expect("it reads"));
            out.flush().expect("it reads");
        });
        let mut answered = AnsweredIds::default();
        for line in lines(program.stdout.take().expect("piped")) {
            answered.add(&line.expect("it writes"));
        }
        asking.join().expect("no panic");
        answered.assert_complete(COUNT);
        assert_eq!(program.ends().code(), Some(0));
    }
}

/// A peer that never stops sending is always ready to be read. Timers run all the same.
#[test]
fn a_flood_moves_no_deadline() {
    let flood = |message: &str| {
        one_thread().block_on(async {
            let child = Child::new("yes").args([message]).stderr(Stderr::discard()).grace(Duration::from_millis(200));
            // The handler is slow, so that there is always something to read.
            let slow = Methods::new().fallback(|_: Context, _: Raw| async {
                thread::sleep(Duration::from_micros(50));
                Err::<Raw, _>(Failure::method_not_found())
            });
            let connection = Connection::new(child.spawn().expect("yes")).methods(slow);
            let peer = connection.grace(Duration::from_millis(200)).spawn();
            let call = peer.call::<Raw>("never answered", ()).timeout(Duration::from_millis(300));
            let error = within_deadline(&format!("a call, {message}"), call.into_future()).await;
            assert!(matches!(error, Err(CallError::TimedOut)), "{message}: {error:?}");
            let _ = within_deadline(&format!("the shutdown, {message}"), peer.shutdown()).await;
        });
    };
    flood("y");
    flood(r#"{"jsonrpc":"2.0","method":"n"}"#);
    flood(r#"{"jsonrpc":"2.0","id":"r","method":"no such method"}"#);
    flood(r#"{"jsonrpc":"2.0","id":999,"result":{}}"#);
    flood(r#"[{"jsonrpc":"2.0","id":"b","method":"no such method"},{"jsonrpc":"2.0","method":"n"},1]"#);
}
