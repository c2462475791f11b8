//! Waits for a condition, instead of for a fixed time.

use std::fs;
use std::process::Child;
use std::thread;
use std::time::{Duration, Instant};

/// Longer than any condition takes, even on a busy machine: the test hangs.
pub(super) const DEADLINE: Duration = Duration::from_secs(180);

/// Waits until `holds` returns true.
#[track_caller]
pub(super) fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < DEADLINE, "not within {DEADLINE:?}: {what}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// Waits until a process has made `count` more system calls: "syscr" counts reads, "syscw" writes.
#[track_caller]
pub(super) fn system_calls_grow(process: &Child, kind: &str, count: u64) {
    let calls = || -> Option<u64> {
        let text = fs::read_to_string(format!("/proc/{}/io", process.id())).ok()?;
        text.lines().find_map(|line| line.strip_prefix(kind)?.strip_prefix(": "))?.parse().ok()
    };
    match calls() {
        Some(before) => eventually(kind, || calls().expect("it runs") >= before + count),
        // Only Linux counts system calls. Elsewhere, two seconds should be enough.
        None => thread::sleep(Duration::from_secs(2)),
    }
}
