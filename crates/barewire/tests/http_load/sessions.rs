//! Sessions that are opened and not used: they expire, and their memory is freed.

use std::cell::Cell;
use std::time::{Duration, Instant};

use super::eventually::DEADLINE;
use super::process::{in_own_process, resident};
use super::wire::Wire;
use super::{LoadServer, echo, limits, one_thread, report, requests};

#[test]
fn memory_is_freed_when_sessions_expire() {
    if in_own_process("sessions::memory_is_freed_when_sessions_expire") {
        run(500, Duration::from_millis(700));
    }
}

#[test]
#[ignore = "long: 20,000 sessions"]
fn memory_is_freed_when_twenty_thousand_sessions_expire() {
    if in_own_process("sessions::memory_is_freed_when_twenty_thousand_sessions_expire") {
        run(20_000, Duration::from_secs(15));
    }
}

/// Repeats the test with a longer time until sessions expire, as long as the first session expires before the last is
/// open: how long it takes to open them depends on the machine.
fn run(count: usize, mut idle: Duration) {
    while !expires_and_is_freed(count, idle) {
        idle *= 2;
    }
}

/// Returns `false` if opening the sessions took longer than `idle`. Everything runs on one thread, so that all
/// allocations are counted.
fn expires_and_is_freed(count: usize, idle: Duration) -> bool {
    let runtime = one_thread();
    let limits = limits(|limits| {
        limits.sessions = count;
        limits.session_idle = idle;
        // The connection must outlive the sessions.
        limits.head_timeout = Duration::from_secs(600);
    });
    let (load_server, mut wire) = runtime.block_on(async {
        let load_server = LoadServer::start(echo(), limits).await;
        let wire = Wire::connect(load_server.addr).await;
        (load_server, wire)
    });
    let before = resident();
    let mut round = || {
        let (in_time, open) = (Cell::new(false), Cell::new(0));
        let bytes = allocation_counter::measure(|| {
            in_time.set(runtime.block_on(open_and_expire(&mut wire, count, idle)));
            open.set(resident());
        });
        in_time.get().then_some((bytes, open.get()))
    };
    let Some((first, resident_first)) = round() else { return false };
    let Some((second, resident_second)) = round() else { return false };
    let table_bytes = i64::try_from(count).expect("a count") * TABLE_ENTRY_BYTES;
    let each = second.bytes_max / u64::try_from(count).expect("a count");
    report(&format!(
        "{count} sessions of {each} bytes each with the client's part, opened and expired twice: {} and {} bytes more than \
         before; resident {before}, {resident_first} and {resident_second} KiB",
        first.bytes_current, second.bytes_current
    ));
    assert!(first.bytes_current < table_bytes + ALLOWED_GROWTH_BYTES, "{first:?}");
    assert!(second.bytes_current.abs() < ALLOWED_GROWTH_BYTES, "{second:?}");
    assert!(resident_second < resident_first + 4 * 1024, "{resident_first} -> {resident_second} KiB");
    runtime.block_on(async {
        load_server.is_alive().await;
        drop(wire);
        load_server.end().await;
    });
    true
}

/// Returns `false` if the first session may have expired before the last was open.
async fn open_and_expire(wire: &mut Wire, count: usize, idle: Duration) -> bool {
    let start = Instant::now();
    let mut sessions = Vec::with_capacity(count);
    for _ in 0..count {
        sessions.push(wire.initialize().await);
    }
    // All sessions are open: one more is refused.
    let (one_more, _) = wire.ask(&requests::initialize()).await;
    let (deleted, _) = wire.ask(&requests::delete(&sessions[0])).await;
    if start.elapsed() >= idle {
        return false;
    }
    assert_eq!(one_more.status, 503, "more sessions than there may be");
    assert_eq!(deleted.status, 200);
    sessions.push(wire.initialize().await);
    // A request keeps its session alive, so none is sent before the session must have expired. On a busy machine it may
    // expire later.
    let start = Instant::now();
    for session in &sessions {
        let call = requests::session_call(session, 1, "echo", r#"{"text":""}"#);
        tokio::time::sleep_until((start + idle).into()).await;
        while wire.ask(&call).await.0.status != 404 {
            assert!(start.elapsed() < idle + DEADLINE, "it has not expired");
            tokio::time::sleep(idle + Duration::from_millis(100)).await;
        }
    }
    true
}

/// The capacity that the table of sessions keeps for each former entry.
const TABLE_ENTRY_BYTES: i64 = 64;

/// Memory of the connection, the timers and the runtime, which varies.
const ALLOWED_GROWTH_BYTES: i64 = 64 * 1024;
