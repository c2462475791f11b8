//! The end of a connection -> how the process takes it.

use super::connection::ServerConnection;
use super::harness::Harness;
use crate::check::catalogue::process::{EOF_EXIT, ORPHAN_PROCESSES};
use crate::check::finding::{Finding, Party};
use crate::check::ledger::SkipReason;
use crate::text::shown;

/// Closes its stdin and watches it go. Its exit code is judged by the passive checks.
pub(super) async fn judge(harness: &mut Harness, connection: ServerConnection) {
    let location = connection.channel_location();
    if connection.exited().is_some() {
        harness.recording.skip(&EOF_EXIT, SkipReason::Needs("stays-alive"));
        harness.close(connection).await;
        return;
    }
    if harness.recording.has_failed(&EOF_EXIT) {
        harness.close(connection).await;
        return;
    }
    let ended = harness.close_within(connection, harness.patience).await;
    if harness.is_late() && ended.by_itself.is_none() {
        harness.recording.incomplete(&EOF_EXIT, "time was up");
        return;
    }
    harness.recording.inspected(&EOF_EXIT);
    if ended.by_itself.is_none() {
        let detail = format!("it is still there after {:?}", harness.patience);
        harness.recording.fail(Finding::new(&EOF_EXIT, Party::Server, location, detail));
        return;
    }
    harness.recording.inspected(&ORPHAN_PROCESSES);
    if !ended.left.is_empty() {
        let left = shown(ended.left.join(", ").as_bytes(), 120);
        let detail = format!("it ended after {} ms, and these are left: {left}", ended.took.as_millis());
        harness.recording.fail(Finding::new(&ORPHAN_PROCESSES, Party::Server, location, detail));
    }
}
