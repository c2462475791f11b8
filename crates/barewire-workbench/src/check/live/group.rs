//! A process id -> the processes of its group that are left.

use crate::platform::processes::{Process, all};

/// Those of the group that are neither its leader nor dead, as number and name.
pub(super) fn left(leader: u32) -> Vec<String> {
    let is_left = |process: &Process| process.group == leader && process.pid != leader && !process.is_dead;
    all().into_iter().filter(is_left).map(|Process { pid, name, .. }| format!("{pid} {name}")).collect()
}
