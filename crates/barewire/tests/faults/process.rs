//! Processes of a test: this program in another role, and the state of processes in `/proc`.

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::io::{self, BufRead, BufReader, Read};
use std::path::PathBuf;
use std::process::{self, Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use super::eventually::DEADLINE;

/// The path of an example, which cargo builds with the tests.
pub(super) fn example(name: &str) -> PathBuf {
    let mut path = env::current_exe().expect("this test");
    path.pop();
    path.pop();
    path.join("examples").join(name)
}

/// A command that runs only the test `name` of this program, with a role.
pub(super) fn rerun(name: &str, role: &str) -> Command {
    let mut command = Command::new(env::current_exe().expect("this test"));
    command.args(RERUN_ARGS).arg(name).env(ROLE_VARIABLE, role);
    command
}

pub(super) const RERUN_ARGS: [&str; 4] = ["--nocapture", "--quiet", "--test-threads=1", "--exact"];
pub(super) const ROLE_VARIABLE: &str = "BAREWIRE_FAULTS_ROLE";

pub(super) fn role() -> Option<String> {
    env::var(ROLE_VARIABLE).ok()
}

/// Runs the test `name` in its own process, where no other test opens files or starts processes. Returns `true` in that
/// process.
pub(super) fn is_isolated(name: &str) -> bool {
    if role().is_some() {
        return true;
    }
    let done = rerun(name, "isolated").stdin(Stdio::null()).output().expect("this test");
    let (out, err) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    // The harness does not fail if there is no test of this name.
    assert!(done.status.success() && out.contains("running 1 test"), "{out}{err}");
    false
}

/// A peer on pipes, killed when dropped.
pub(super) struct Program {
    child: Child,
    pub(super) stdin: Option<ChildStdin>,
    pub(super) stdout: Option<BufReader<ChildStdout>>,
}

impl Program {
    pub(super) fn start(command: &mut Command) -> Self {
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("built");
        let stdin = child.stdin.take();
        let stdout = child.stdout.take().map(BufReader::new);
        Self { child, stdin, stdout }
    }

    /// `examples/echo`.
    pub(super) fn echo() -> Self {
        Self::start(&mut Command::new(example("echo")))
    }

    /// This program in the role of a peer.
    pub(super) fn role(role: &str) -> Self {
        let mut this = Self::start(&mut rerun("as_a_child", role));
        let mut banner = [0; BANNER.len()];
        this.stdout.as_mut().expect("piped").read_exact(&mut banner).expect("it starts");
        assert_eq!(banner, BANNER);
        this
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The next line of its output.
    pub(super) fn line(&mut self) -> String {
        let mut line = String::new();
        self.stdout.as_mut().expect("not closed").read_line(&mut line).expect("UTF-8");
        line
    }

    /// Waits until it exits by itself, at most `time`.
    pub(super) fn ends(&mut self) -> ExitStatus {
        let start = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().expect("ours") {
                return status;
            }
            assert!(start.elapsed() < DEADLINE, "process {} is still there", self.pid());
            thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // It has exited already if the test succeeded.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The output of the test harness before a role starts.
pub(super) const BANNER: [u8; 16] = *b"\nrunning 1 test\n";

/// A number of `/proc/PID/status`, in KiB.
fn status(pid: u32, name: &str) -> usize {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).expect("it is there");
    let line = text.lines().find_map(|line| line.strip_prefix(name)).expect("Linux has it");
    line.trim_start_matches(':').trim().trim_end_matches(" kB").parse().expect("a number")
}

/// The resident memory, in KiB.
pub(super) fn rss(pid: u32) -> usize {
    status(pid, "VmRSS")
}

/// The peak of the resident memory, in KiB.
pub(super) fn peak(pid: u32) -> usize {
    status(pid, "VmHWM")
}

/// The CPU time of a process.
pub(super) fn cpu(pid: u32) -> Duration {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).expect("it is there");
    let fields: Vec<&str> = stat[stat.rfind(')').expect("a name") + 2..].split(' ').collect();
    let ticks: u64 = fields[11..13].iter().map(|field| field.parse::<u64>().expect("a number")).sum();
    // USER_HZ is 100 on every Linux.
    Duration::from_millis(10 * ticks)
}

/// The CPU time that a process uses during `time`.
pub(super) fn cpu_over(pid: u32, time: Duration) -> Duration {
    let before = cpu(pid);
    thread::sleep(time);
    cpu(pid) - before
}

/// The number of files that this process has open.
pub(super) fn fds() -> usize {
    fs::read_dir("/proc/self/fd").expect("Linux has it").count()
}

struct Stat {
    state: char,
    parent: u32,
    group: u32,
}

fn processes(wanted: impl Fn(&Stat) -> bool) -> Vec<u32> {
    let names = fs::read_dir("/proc").expect("Linux has it").filter_map(|entry| Some(entry.ok()?.file_name()));
    let pids = names.filter_map(|name| OsStr::to_str(&name)?.parse().ok());
    pids.filter(|pid: &u32| {
        let Ok(stat) = fs::read_to_string(format!("/proc/{pid}/stat")) else { return false };
        let mut fields = stat[stat.rfind(')').expect("a name") + 2..].split(' ');
        let state = fields.next().and_then(|field| field.chars().next()).expect("a state");
        // A process that is exiting has -1 here.
        let mut number = || fields.next().and_then(|field| field.parse().ok()).unwrap_or(0);
        wanted(&Stat { state, parent: number(), group: number() })
    })
    .collect()
}

/// The running processes of a group, and zombies that this process has to reap.
pub(super) fn members(group: u32) -> Vec<u32> {
    processes(|process| process.group == group && (process.state != 'Z' || process.parent == process::id()))
}

pub(super) fn children(of: u32) -> Vec<u32> {
    processes(|process| process.parent == of)
}

/// Waits until `what` returns no processes.
pub(super) fn until_gone(what: impl Fn() -> Vec<u32>) {
    let start = Instant::now();
    while !what().is_empty() {
        assert!(start.elapsed() < DEADLINE, "still there: {:?}", what());
        thread::sleep(Duration::from_millis(10));
    }
}

/// The lines of a reader.
pub(super) fn lines(reader: impl Read) -> impl Iterator<Item = io::Result<Vec<u8>>> {
    BufReader::with_capacity(1 << 20, reader).split(b'\n')
}
