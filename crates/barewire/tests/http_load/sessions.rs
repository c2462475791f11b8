//! Sessions that are opened and left alone: they expire, and so does all that they were made of.

use std::cell::Cell;
use std::time::{Duration, Instant};

use super::eventually::DEADLINE;
use super::process::{alone, resident};
use super::wire::Wire;
use super::{Served, echo, limits, one_thread, requests, say};

#[test]
fn memory_comes_back_when_sessions_expire() {
    if alone("sessions::memory_comes_back_when_sessions_expire") {
        run(500, Duration::from_millis(700));
    }
}

#[test]
#[ignore = "long: 20,000 sessions"]
fn memory_comes_back_when_twenty_thousand_sessions_expire() {
    if alone("sessions::memory_comes_back_when_twenty_thousand_sessions_expire") {
        run(20_000, Duration::from_secs(15));
    }
}

/// Everything is on this one thread, so that each byte can be counted.
fn run(count: usize, idle: Duration) {
    let runtime = one_thread();
    // All have to be there before the first expires, and how long that takes is the machine's affair.
    let idle = idle.max(3 * runtime.block_on(time_to_open(count)));
    let limits = limits(|limits| {
        limits.sessions = count;
        limits.session_idle = idle;
        // The connection outlives the sessions.
        limits.head_timeout = Duration::from_secs(600);
    });
    let (served, mut wire) = runtime.block_on(async {
        let served = Served::start(echo(), limits).await;
        let wire = Wire::connect(served.addr).await;
        (served, wire)
    });
    let before = resident();
    let mut round = || {
        let open = Cell::new(0);
        let bytes = allocation_counter::measure(|| {
            runtime.block_on(open_and_expire(&mut wire, count, idle));
            open.set(resident());
        });
        (bytes, open.get())
    };
    let (first, resident_first) = round();
    let (second, resident_second) = round();
    let kept = i64::try_from(count).expect("a count") * TABLE_ENTRY;
    let each = second.bytes_max / u64::try_from(count).expect("a count");
    say(&format!(
        "{count} sessions of {each} bytes each with the client's part, opened and expired twice: {} and {} bytes more than \
         before; resident {before}, {resident_first} and {resident_second} KiB",
        first.bytes_current, second.bytes_current
    ));
    assert!(first.bytes_current < kept + SLACK, "{first:?}");
    assert!(second.bytes_current.abs() < SLACK, "{second:?}");
    assert!(resident_second < resident_first + 4 * 1024, "{resident_first} -> {resident_second} KiB");
    runtime.block_on(async {
        served.is_alive().await;
        drop(wire);
        served.end().await;
    });
}

/// The time that it takes to open so many sessions here and now.
async fn time_to_open(count: usize) -> Duration {
    let served = Served::start(echo(), limits(|limits| limits.sessions = count)).await;
    let mut wire = Wire::connect(served.addr).await;
    let begun = Instant::now();
    for _ in 0..count {
        wire.initialize().await;
    }
    let time = begun.elapsed();
    drop(wire);
    served.end().await;
    time
}

async fn open_and_expire(wire: &mut Wire, count: usize, idle: Duration) {
    let mut sessions = Vec::with_capacity(count);
    for _ in 0..count {
        sessions.push(wire.initialize().await);
    }
    // They are all there: one more is one too many.
    let (head, _) = wire.ask(&requests::initialize()).await;
    assert_eq!(head.status, 503, "more sessions than there may be, or some have expired too early");
    let (head, _) = wire.ask(&requests::delete(&sessions[0])).await;
    assert_eq!(head.status, 200);
    sessions.push(wire.initialize().await);
    // Who asks keeps a session alive, so nobody does before it must have expired; on a busy machine that may be later.
    let begun = Instant::now();
    for session in &sessions {
        let call = requests::session_call(session, 1, "echo", r#"{"text":""}"#);
        tokio::time::sleep_until((begun + idle).into()).await;
        while wire.ask(&call).await.0.status != 404 {
            assert!(begun.elapsed() < idle + DEADLINE, "it has not expired");
            tokio::time::sleep(idle + Duration::from_millis(100)).await;
        }
    }
}

/// What the table of sessions keeps for each that it once had room for, so as not to grow again.
const TABLE_ENTRY: i64 = 64;

/// What comes and goes with the connection, the clock and the runtime.
const SLACK: i64 = 64 * 1024;
