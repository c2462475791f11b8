//! Waiting for a condition that a test can check, instead of for a fixed time.

use std::time::{Duration, Instant};

/// Longer than any condition takes, also on a busy machine: a test that waits longer hangs.
pub(super) const DEADLINE: Duration = Duration::from_secs(180);

const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// Waits until `holds` returns true, while other tasks run.
#[allow(dead_code, reason = "not every test has a runtime")]
pub(super) async fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < DEADLINE, "not within {DEADLINE:?}: {what}");
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

/// Waits until `holds` returns true, and blocks the thread.
#[allow(dead_code, reason = "not every test has threads")]
#[track_caller]
pub(super) fn eventually_blocking(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < DEADLINE, "not within {DEADLINE:?}: {what}");
        std::thread::sleep(POLL_INTERVAL);
    }
}
