//! The memory and limits of this process, and tests that run in a process of their own.

use std::env;
use std::fs;
use std::process::{Command, Stdio};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Runs the test `name` in a process of its own, where no other test uses memory. Returns `true` in that process.
pub(super) fn in_own_process(name: &str) -> bool {
    if env::var_os(ROLE).is_some() {
        return true;
    }
    let this = env::current_exe().expect("this test");
    let mut again = Command::new(this);
    again.args(["--nocapture", "--quiet", "--test-threads=1", "--include-ignored", "--exact", name]);
    let done = again.env(ROLE, "alone").stdin(Stdio::null()).output().expect("this test");
    let (out, err) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    // The test harness does not fail for an unknown name.
    assert!(done.status.success() && out.contains("running 1 test"), "{out}{err}");
    super::report(err.trim_end());
    false
}

const ROLE: &str = "BAREWIRE_HTTP_LOAD_ROLE";

/// Returns the resident memory in KiB.
pub(super) fn resident() -> u64 {
    status("VmRSS:")
}

/// Returns the peak of the resident memory in KiB.
pub(super) fn peak() -> u64 {
    status("VmHWM:")
}

fn status(field: &str) -> u64 {
    let status = fs::read_to_string("/proc/self/status").expect("it is Linux");
    let line = status.lines().find_map(|line| line.strip_prefix(field)).expect("it has memory");
    line.trim().trim_end_matches(" kB").parse().expect("a number")
}

/// Raises the limit for open files of this process.
pub(super) fn allow_files(count: usize) {
    let count = u64::try_from(count).expect("a count");
    let now = getrlimit(Resource::Nofile);
    if now.current.is_some_and(|current| current < count) {
        let wanted = Rlimit { current: Some(count), maximum: now.maximum };
        setrlimit(Resource::Nofile, wanted).expect("so many files must be allowed: see ulimit -Hn");
    }
}
