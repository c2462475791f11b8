//! Lists the processes of the system, from /proc or ps(1).

use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};

/// A process that is running, or that has ended and was not waited for.
#[derive(Debug, PartialEq)]
pub(crate) struct ProcessInfo {
    pub(crate) pid: u32,
    pub(crate) parent: u32,
    pub(crate) group: u32,
    pub(crate) name: String,
    pub(crate) is_dead: bool,
    /// The CPU time in clock ticks, including that of children that have ended; 0 if it is not known.
    pub(crate) ticks: u64,
}

/// Returns all processes.
#[cfg(target_os = "linux")]
pub(crate) fn list_processes() -> Vec<ProcessInfo> {
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    let numbers = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    numbers.filter_map(|pid| ProcessInfo::parse(&std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)).collect()
}

#[cfg(target_os = "linux")]
impl ProcessInfo {
    /// Parses a line of /proc/PID/stat. The name of the program is in parentheses, and may itself contain parentheses.
    fn parse(line: &str) -> Option<Self> {
        let (pid, rest) = line.split_once(" (")?;
        let (name, rest) = rest.rsplit_once(") ")?;
        let fields: Vec<&str> = rest.split(' ').collect();
        // Fields are numbered as in proc(5): the pid is field 1, the name is field 2, and `fields` begins with field 3.
        let number = |field: usize| fields.get(field - 3)?.parse::<u64>().ok();
        let small = |field: usize| u32::try_from(number(field)?).ok();
        Some(Self {
            pid: pid.parse().ok()?,
            parent: small(4)?,
            group: small(5)?,
            name: name.to_owned(),
            is_dead: matches!(fields.first(), Some(&("Z" | "X"))),
            ticks: (14..=17).map(number).sum::<Option<u64>>()?,
        })
    }
}

/// Returns all processes.
#[cfg(not(target_os = "linux"))]
pub(crate) fn list_processes() -> Vec<ProcessInfo> {
    let listed = std::process::Command::new("ps").args(["-A", "-o", "pid=,ppid=,pgid=,stat=,comm="]).output();
    let Ok(listed) = listed else { return Vec::new() };
    let text = String::from_utf8_lossy(&listed.stdout).into_owned();
    let process = |line: &str| {
        let mut words = line.split_ascii_whitespace();
        let (pid, parent, group) = (words.next()?, words.next()?, words.next()?);
        let is_dead = words.next()?.starts_with('Z');
        let name = words.collect::<Vec<_>>().join(" ");
        let (pid, parent, group) = (pid.parse().ok()?, parent.parse().ok()?, group.parse().ok()?);
        Some(ProcessInfo { pid, parent, group, name, is_dead, ticks: 0 })
    };
    text.lines().filter_map(process).collect()
}

/// The way in which a process ended.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Exited {
    Code(i32),
    Signal(i32),
}

/// Returns how a child process ended, or `None` if it is running. The process is not reaped, because other code waits
/// for it.
pub(crate) fn exited(pid: u32) -> Option<Exited> {
    let pid = Pid::from_raw(pid.cast_signed())?;
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
    let status = waitid(WaitId::Pid(pid), options).ok().flatten()?;
    match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => Some(Exited::Code(code)),
        (None, Some(signal)) => Some(Exited::Signal(signal)),
        (None, None) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(target_os = "linux")]
    #[test]
    fn a_program_may_have_any_name() {
        let line = "42 (a) b (c) S 7 8 9 0 -1 4194304 1 2 3 4 10 20 30 40 20 0 1 0 100";
        let process = ProcessInfo { pid: 42, parent: 7, group: 8, name: "a) b (c".into(), is_dead: false, ticks: 100 };
        assert_eq!(ProcessInfo::parse(line), Some(process));
        assert_eq!(ProcessInfo::parse("42"), None);
    }

    #[test]
    fn this_process_is_one_of_them() {
        let own = std::process::id();
        assert!(list_processes().iter().any(|process| process.pid == own && !process.is_dead));
    }
}
