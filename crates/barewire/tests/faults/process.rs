//! Processes of a test -> what `/proc` says of them; and this program again, in another role.

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::io::{self, BufRead, BufReader, Read};
use std::path::PathBuf;
use std::process::{self, Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// What cargo builds beside the tests.
pub(super) fn example(name: &str) -> PathBuf {
    let mut path = env::current_exe().expect("this test");
    path.pop();
    path.pop();
    path.join("examples").join(name)
}

/// This program again, with only the test `name` to run, as `role`.
pub(super) fn again(name: &str, role: &str) -> Command {
    let mut command = Command::new(env::current_exe().expect("this test"));
    command.args(AGAIN).arg(name).env(ROLE, role);
    command
}

pub(super) const AGAIN: [&str; 4] = ["--nocapture", "--quiet", "--test-threads=1", "--exact"];
pub(super) const ROLE: &str = "BAREWIRE_FAULTS_ROLE";

pub(super) fn role() -> Option<String> {
    env::var(ROLE).ok()
}

/// Runs the rest of the test `name` in a process of its own, where nobody else opens files or starts processes. `true` in
/// that process.
pub(super) fn alone(name: &str) -> bool {
    if role().is_some() {
        return true;
    }
    let done = again(name, "alone").stdin(Stdio::null()).output().expect("this test");
    let (out, err) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    // A name that is not there is no failure to the harness.
    assert!(done.status.success() && out.contains("running 1 test"), "{out}{err}");
    false
}

/// A peer on pipes, killed at the end of a failing test.
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

    /// This program as another peer.
    pub(super) fn role(role: &str) -> Self {
        let mut this = Self::start(&mut again("as_a_child", role));
        let mut banner = [0; BANNER.len()];
        this.stdout.as_mut().expect("piped").read_exact(&mut banner).expect("it starts");
        assert_eq!(banner, BANNER);
        this
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The next line it writes.
    pub(super) fn line(&mut self) -> String {
        let mut line = String::new();
        self.stdout.as_mut().expect("not closed").read_line(&mut line).expect("UTF-8");
        line
    }

    /// How it ends by itself, within `time`.
    pub(super) fn ends_within(&mut self, time: Duration) -> ExitStatus {
        let start = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().expect("ours") {
                return status;
            }
            assert!(start.elapsed() < time, "process {} is still there after {time:?}", self.pid());
            thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // Gone already if the test went well.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What the test harness says before a role begins.
pub(super) const BANNER: [u8; 16] = *b"\nrunning 1 test\n";

/// A figure of `/proc/PID/status`, in KiB.
fn status(pid: u32, name: &str) -> usize {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).expect("it is there");
    let line = text.lines().find_map(|line| line.strip_prefix(name)).expect("Linux has it");
    line.trim_start_matches(':').trim().trim_end_matches(" kB").parse().expect("a number")
}

/// Resident memory, in KiB.
pub(super) fn rss(pid: u32) -> usize {
    status(pid, "VmRSS")
}

/// The most it has ever been, in KiB.
pub(super) fn peak(pid: u32) -> usize {
    status(pid, "VmHWM")
}

/// The time it has computed.
pub(super) fn cpu(pid: u32) -> Duration {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).expect("it is there");
    let fields: Vec<&str> = stat[stat.rfind(')').expect("a name") + 2..].split(' ').collect();
    let ticks: u64 = fields[11..13].iter().map(|field| field.parse::<u64>().expect("a number")).sum();
    // USER_HZ is 100 on every Linux.
    Duration::from_millis(10 * ticks)
}

/// How much it computes while `time` passes.
pub(super) fn cpu_over(pid: u32, time: Duration) -> Duration {
    let before = cpu(pid);
    thread::sleep(time);
    cpu(pid) - before
}

/// How many files this process has open.
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
        // One that is just going has -1 here.
        let mut number = || fields.next().and_then(|field| field.parse().ok()).unwrap_or(0);
        wanted(&Stat { state, parent: number(), group: number() })
    })
    .collect()
}

/// Those of a group that run, and zombies that are ours to reap.
pub(super) fn members(group: u32) -> Vec<u32> {
    processes(|process| process.group == group && (process.state != 'Z' || process.parent == process::id()))
}

pub(super) fn children(of: u32) -> Vec<u32> {
    processes(|process| process.parent == of)
}

/// Waits until there are none of `what`.
pub(super) fn gone_within(time: Duration, what: impl Fn() -> Vec<u32>) {
    let start = Instant::now();
    while !what().is_empty() {
        assert!(start.elapsed() < time, "still there after {time:?}: {:?}", what());
        thread::sleep(Duration::from_millis(10));
    }
}

/// All that comes, line by line.
pub(super) fn lines(reader: impl Read) -> impl Iterator<Item = io::Result<Vec<u8>>> {
    BufReader::with_capacity(1 << 20, reader).split(b'\n')
}
