//! The end of a connection -> how the process takes it.

use super::lab::Lab;
use super::talk::Talk;
use crate::check::catalogue::process::{EOF_EXIT, ORPHAN_PROCESSES};
use crate::check::finding::{Finding, Party};
use crate::check::ledger::Skip;
use crate::text::shown;

/// Closes its stdin and watches it go. Its exit code is judged by the passive checks.
pub(super) async fn judge(lab: &mut Lab, talk: Talk) {
    let location = talk.connection();
    if talk.exited().is_some() {
        lab.tape.skip(&EOF_EXIT, Skip::Needs("stays-alive"));
        lab.end(talk).await;
        return;
    }
    if lab.tape.has_failed(&EOF_EXIT) {
        lab.end(talk).await;
        return;
    }
    let ended = lab.end_within(talk, lab.patience).await;
    if lab.is_late() && ended.by_itself.is_none() {
        lab.tape.incomplete(&EOF_EXIT, "time was up");
        return;
    }
    lab.tape.look(&EOF_EXIT);
    if ended.by_itself.is_none() {
        let detail = format!("it is still there after {:?}", lab.patience);
        lab.tape.fail(Finding::new(&EOF_EXIT, Party::Server, location, detail));
        return;
    }
    lab.tape.look(&ORPHAN_PROCESSES);
    if !ended.left.is_empty() {
        let left = shown(ended.left.join(", ").as_bytes(), 120);
        let detail = format!("it ended after {} ms, and these are left: {left}", ended.took.as_millis());
        lab.tape.fail(Finding::new(&ORPHAN_PROCESSES, Party::Server, location, detail));
    }
}
