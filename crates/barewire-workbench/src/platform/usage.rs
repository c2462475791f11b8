//! Reads the CPU time and memory of a process and its descendants from /proc. Without /proc, both are unknown.

use std::time::Duration;

/// The resources that a process and its descendants use.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Usage {
    /// The CPU time of all these processes, including ended ones that were waited for.
    pub cpu: Duration,
    /// The memory in use now, in bytes. Shared memory is counted once for each process.
    pub memory: u64,
    /// The sum of the peak memory of the running processes.
    pub peak_memory: u64,
    /// The number of processes.
    pub processes: usize,
}

#[cfg(target_os = "linux")]
pub use linux::usage;

#[cfg(not(target_os = "linux"))]
pub fn usage(_: u32) -> Option<Usage> {
    None
}

/// Returns the CPU time of this process; zero if it is not known.
#[cfg(target_os = "linux")]
pub(crate) fn own_cpu() -> Duration {
    use rustix::time::{ClockId, clock_gettime};
    let time = clock_gettime(ClockId::ProcessCPUTime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or(0))
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn own_cpu() -> Duration {
    Duration::ZERO
}

#[cfg(target_os = "linux")]
mod linux {
    use std::fs;
    use std::time::Duration;

    use super::Usage;
    use crate::platform::processes::{ProcessInfo, list_processes};

    /// Returns the current usage of a process and its descendants, or `None` if the process does not exist.
    pub fn usage(root: u32) -> Option<Usage> {
        let all = list_processes();
        if !all.iter().any(|process| process.pid == root) {
            return None;
        }
        // The tree includes the descendants. It also includes orphans that are still in the process group, because each
        // program that we start has its own process group.
        let mut tree = vec![root];
        let mut at = 0;
        while let Some(parent) = tree.get(at).copied() {
            at += 1;
            let belongs = |it: &&ProcessInfo| it.parent == parent || (parent == root && it.group == root);
            let found: Vec<u32> = all.iter().filter(belongs).map(|process| process.pid).collect();
            for pid in found {
                if !tree.contains(&pid) {
                    tree.push(pid);
                }
            }
        }
        let ticks: u64 = all.iter().filter(|it| tree.contains(&it.pid)).map(|it| it.ticks).sum();
        let per_second = rustix::param::clock_ticks_per_second().max(1);
        let (mut memory, mut peak_memory) = (0, 0);
        for pid in &tree {
            let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
            memory += kibibytes(&status, "VmRSS:") * 1024;
            peak_memory += kibibytes(&status, "VmHWM:") * 1024;
        }
        let cpu = Duration::from_millis(ticks.saturating_mul(1000) / per_second);
        Some(Usage { cpu, memory, peak_memory, processes: tree.len() })
    }

    fn kibibytes(status: &str, name: &str) -> u64 {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|line| line.split_ascii_whitespace().next()?.parse().ok()).unwrap_or(0)
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn this_process_uses_something() {
            let usage = usage(std::process::id()).expect("it is there");
            assert!(usage.memory > 0 && usage.peak_memory >= usage.memory && usage.processes >= 1, "{usage:?}");
            assert_eq!(super::usage(u32::MAX), None);
        }
    }
}
