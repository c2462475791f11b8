//! Waiting for something that a test can see, instead of for some time.

use std::time::{Duration, Instant};

/// Nothing here takes longer, however busy the machine is: it hangs.
pub(super) const DEADLINE: Duration = Duration::from_secs(20);

const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// Waits until it holds, while other tasks run.
#[allow(dead_code, reason = "not every test has a runtime")]
pub(super) async fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < DEADLINE, "not within {DEADLINE:?}: {what}");
        tokio::time::sleep(LOOK_AGAIN).await;
    }
}

/// Waits until it holds, on a thread of its own.
#[allow(dead_code, reason = "not every test has threads")]
#[track_caller]
pub(super) fn eventually_blocking(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < DEADLINE, "not within {DEADLINE:?}: {what}");
        std::thread::sleep(LOOK_AGAIN);
    }
}
