//! Waiting for something that a test can see, instead of for some time.

use std::fs;
use std::process::Child;
use std::thread;
use std::time::{Duration, Instant};

/// Nothing here takes longer, however busy the machine is: it hangs.
const DEADLINE: Duration = Duration::from_secs(20);

/// Waits until it holds.
#[allow(dead_code, reason = "not every test waits for both")]
#[track_caller]
pub(super) fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < DEADLINE, "not within {DEADLINE:?}: {what}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// Waits until a process has made so many more system calls: "syscr" counts those that read, "syscw" those that write.
#[allow(dead_code, reason = "not every test waits for both")]
#[track_caller]
pub(super) fn system_calls_grow(process: &Child, kind: &str, count: u64) {
    let calls = || -> Option<u64> {
        let text = fs::read_to_string(format!("/proc/{}/io", process.id())).ok()?;
        text.lines().find_map(|line| line.strip_prefix(kind)?.strip_prefix(": "))?.parse().ok()
    };
    match calls() {
        Some(before) => eventually(kind, || calls().expect("it runs") >= before + count),
        // Only Linux counts them. Elsewhere it has made them most likely by then.
        None => thread::sleep(Duration::from_secs(2)),
    }
}
