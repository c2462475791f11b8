//! A process id -> whether it has exited, and who of its group is left.

use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};

use super::talk::Exited;
use crate::platform::processes::{Process, all};

/// How a child of ours has exited, if it has. It is not reaped: others wait for it too.
pub(super) fn exited(pid: u32) -> Option<Exited> {
    let pid = Pid::from_raw(pid.cast_signed())?;
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
    let status = waitid(WaitId::Pid(pid), options).ok().flatten()?;
    match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => Some(Exited::Code(code)),
        (None, Some(signal)) => Some(Exited::Signal(signal)),
        (None, None) => None,
    }
}

/// Those of the group that are neither its leader nor dead, as number and name.
pub(super) fn left(leader: u32) -> Vec<String> {
    let is_left = |process: &Process| process.group == leader && process.pid != leader && !process.is_dead;
    all().into_iter().filter(is_left).map(|Process { pid, name, .. }| format!("{pid} {name}")).collect()
}
