//! Closing stdin -> whether the process exits, and whether child processes keep running.

use super::connection::ServerConnection;
use super::harness::Harness;
use crate::check::catalogue::process::{EOF_EXIT, ORPHAN_PROCESSES, STAYS_ALIVE};
use crate::check::ledger::SkipReason;
use crate::text::shown;

/// Closes stdin, and checks that the process exits. The passive checks judge the exit code.
pub(super) async fn check_exit(harness: &Harness, connection: ServerConnection) {
    let location = connection.channel_location();
    let has_exited = connection.exited().is_some();
    if has_exited {
        harness.recording.ledger().skip(&EOF_EXIT, SkipReason::Needs(STAYS_ALIVE.id));
    }
    if has_exited || harness.recording.ledger().has_failed(&EOF_EXIT) {
        harness.close(connection).await;
        return;
    }
    let end = harness.close_within(connection, harness.patience).await;
    if harness.is_late() && end.by_itself.is_none() {
        harness.incomplete(&EOF_EXIT);
        return;
    }
    harness.recording.ledger().inspected(&EOF_EXIT);
    if end.by_itself.is_none() {
        let detail = format!("the process is still running {:?} after its stdin was closed", harness.patience);
        harness.fail_at(&EOF_EXIT, location, detail);
        return;
    }
    harness.recording.ledger().inspected(&ORPHAN_PROCESSES);
    if !end.orphans.is_empty() {
        let orphans = shown(end.orphans.join(", ").as_bytes(), 120);
        let detail = format!("the process exited after {} ms; still running: {orphans}", end.took.as_millis());
        harness.fail_at(&ORPHAN_PROCESSES, location, detail);
    }
}
