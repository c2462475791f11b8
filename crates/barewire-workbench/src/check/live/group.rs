//! A process id -> the processes of its group that are left.

use crate::platform::processes::{ProcessInfo, list_processes};

/// Those of the group that are neither its leader nor dead, as number and name.
pub(super) fn left(leader: u32) -> Vec<String> {
    let is_left = |process: &ProcessInfo| process.group == leader && process.pid != leader && !process.is_dead;
    list_processes().into_iter().filter(is_left).map(|ProcessInfo { pid, name, .. }| format!("{pid} {name}")).collect()
}
