//! Real child processes: started, used, ended in every way, and counted afterwards.
#![cfg(all(target_os = "linux", feature = "tokio"))]
#![allow(clippy::unwrap_used, reason = "a test says where it fails")]

mod eventually;

use std::env;
use std::fs;
use std::io::{self, BufRead, BufReader, Write};
use std::process::{self, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use barewire::transport::{Child, Exit, Parts, ProcessReader, SpawnError, Stderr, Transport};
use eventually::{DEADLINE, eventually_blocking};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::unix::pipe;
use tokio::runtime::Builder;

type ProcessParts = Parts<ProcessReader, pipe::Sender>;

/// A grace period that passes.
const GRACE: Duration = Duration::from_millis(300);
/// A grace period in which a shell on a busy machine ends by itself.
const LONG_GRACE: Duration = DEADLINE;

fn sh(script: &str) -> Child {
    Child::new("sh").args(["-c", script]).stderr(Stderr::discard()).grace(GRACE)
}

fn patient_sh(script: &str) -> Child {
    sh(script).grace(LONG_GRACE)
}

/// Starts the script and waits for its first line, so that its traps are set.
async fn start_ready(script: &str) -> (u32, ProcessParts) {
    start_child(sh(script)).await
}

async fn start_child(child: Child) -> (u32, ProcessParts) {
    let process = child.spawn().unwrap();
    let pid = process.pid();
    let mut parts = process.into_parts();
    let mut byte = [0];
    while byte != *b"\n" {
        parts.reader.read_exact(&mut byte).await.unwrap();
    }
    (pid, parts)
}

async fn end(parts: ProcessParts) -> Exit {
    drop((parts.reader, parts.writer));
    parts.exit.unwrap().await.unwrap()
}

/// The running processes of a group, and zombies that this process has to reap.
fn members(group: u32) -> Vec<u32> {
    processes(|process| process.group == group && (process.state != 'Z' || process.parent == process::id()))
}

fn children(of: u32) -> Vec<u32> {
    processes(|process| process.parent == of)
}

struct Stat {
    state: char,
    parent: u32,
    group: u32,
}

fn processes(wanted: impl Fn(&Stat) -> bool) -> Vec<u32> {
    let pids = fs::read_dir("/proc").unwrap().filter_map(|entry| entry.unwrap().file_name().to_str()?.parse().ok());
    pids.filter(|pid: &u32| {
        let Ok(stat) = fs::read_to_string(format!("/proc/{pid}/stat")) else { return false };
        let mut fields = stat[stat.rfind(')').unwrap() + 2..].split(' ');
        let state = fields.next().unwrap().chars().next().unwrap();
        // A process that is exiting has -1 here.
        let mut number = || fields.next().unwrap().parse().unwrap_or(0);
        wanted(&Stat { state, parent: number(), group: number() })
    })
    .collect()
}

/// Waits until all groups are gone.
fn wait_until_gone(groups: &[u32]) {
    eventually_blocking("they are gone", || groups.iter().all(|group| members(*group).is_empty()));
}

#[tokio::test]
async fn bytes_go_through_and_the_end_of_stdin_is_enough() {
    let start = Instant::now();
    let process = Child::new("cat").spawn().unwrap();
    let pid = process.pid();
    let mut parts = process.into_parts();
    let sent = "x".repeat(1 << 20);
    let (received, ()) = tokio::join!(
        async {
            let mut text = String::new();
            parts.reader.read_to_string(&mut text).await.unwrap();
            text
        },
        async {
            let mut writer = parts.writer;
            writer.write_all(sent.as_bytes()).await.unwrap();
        }
    );
    assert!(received == sent);
    drop(parts.reader);
    let exit = parts.exit.unwrap().await.unwrap();
    assert_eq!((exit.code, exit.signal, exit.by_us), (Some(0), None, false));
    assert_eq!(exit.to_string(), "cat exited with code 0");
    wait_until_gone(&[pid]);
    assert!(start.elapsed() < DEADLINE);
}

#[tokio::test]
async fn a_process_that_stays_after_its_stdin_is_closed_gets_a_sigterm() {
    // It passes once before the signal, and must not pass again after it.
    let (pid, parts) = start_child(sh("echo; sleep 600").grace(Duration::from_secs(3))).await;
    let exit = end(parts).await;
    assert_eq!((exit.code, exit.signal, exit.by_us), (None, Some(15), true));
    assert_eq!(exit.to_string(), "sh had to be ended with signal 15");
    wait_until_gone(&[pid]);

    // On a busy machine, a shell needs more than a moment to run its trap.
    let trapped = sh("trap 'exit 7' TERM; echo; while :; do sleep 0.02; done").grace(Duration::from_secs(3));
    let (_, parts) = start_child(trapped).await;
    let exit = end(parts).await;
    assert_eq!((exit.code, exit.signal, exit.by_us), (Some(7), None, true));
}

#[tokio::test]
async fn a_process_that_ignores_sigterm_is_killed() {
    let start = Instant::now();
    let (pid, parts) = start_ready("trap '' TERM; echo; while :; do sleep 1; done").await;
    let exit = end(parts).await;
    assert_eq!((exit.code, exit.signal, exit.by_us), (None, Some(9), true));
    assert!(start.elapsed() >= 2 * GRACE);
    wait_until_gone(&[pid]);
}

#[tokio::test]
async fn processes_that_the_leader_left_behind_end_with_it() {
    // It has none of the pipes open, so it is not waited for.
    let start = Instant::now();
    let (pid, parts) = start_child(patient_sh("sleep 600 >/dev/null 2>&1 & echo; cat")).await;
    assert!(members(pid).len() > 1);
    let exit = end(parts).await;
    assert_eq!((exit.code, exit.by_us), (Some(0), false));
    wait_until_gone(&[pid]);
    assert!(start.elapsed() < DEADLINE);

    // It has stderr open, so it is noticed, and gets time to end in order.
    let script = "(trap 'sleep 0.1; exit' TERM; while :; do sleep 0.02; done) & echo; cat";
    let (pid, parts) = start_child(sh(script).grace(Duration::from_secs(3))).await;
    let exit = end(parts).await;
    assert_eq!((exit.code, exit.by_us), (Some(0), false));
    wait_until_gone(&[pid]);
}

#[tokio::test]
async fn stdout_ends_some_time_after_the_leader_though_another_process_has_it_open() {
    let start = Instant::now();
    let (pid, mut parts) = start_ready("echo; sleep 600 & sleep 0.1; echo last; exit 3").await;
    let mut rest = String::new();
    parts.reader.read_to_string(&mut rest).await.unwrap();
    assert_eq!(rest, "last\n");
    assert!(start.elapsed() >= GRACE && start.elapsed() < DEADLINE);
    let exit = end(parts).await;
    assert_eq!((exit.code, exit.by_us), (Some(3), false));
    wait_until_gone(&[pid]);
}

#[tokio::test]
async fn a_dropped_process_is_ended_and_reaped() {
    let stubborn = "trap '' TERM; echo; while :; do sleep 1; done";
    let process = sh(stubborn).spawn().unwrap();
    let pid = process.pid();
    drop(process);
    wait_until_gone(&[pid]);

    let (pid, parts) = start_ready(stubborn).await;
    drop(parts);
    wait_until_gone(&[pid]);

    // The future of the exit is dropped halfway.
    let (pid, parts) = start_ready(stubborn).await;
    let _ = tokio::time::timeout(Duration::from_millis(10), end(parts)).await;
    wait_until_gone(&[pid]);
}

#[tokio::test]
async fn a_process_stays_while_its_stdout_is_read() {
    let grace = Duration::from_millis(50);
    let process = sh("cat").grace(grace).spawn().unwrap();
    let pid = process.pid();
    let Parts { mut reader, mut writer, .. } = process.into_parts();
    // Only waiting can show that it is not ended in the meantime.
    tokio::time::sleep(3 * grace).await;
    writer.write_all(b"x").await.unwrap();
    assert_eq!(reader.read_u8().await.unwrap(), b'x');
    drop(reader);
    // It writes to a closed pipe, or gets a SIGTERM.
    wait_until_gone(&[pid]);
}

#[test]
fn a_process_is_ended_and_reaped_without_a_runtime() {
    let runtime = Builder::new_multi_thread().enable_all().build().unwrap();
    let pid = runtime.block_on(async {
        let (pid, parts) = start_ready("trap '' TERM; echo; while :; do sleep 1; done").await;
        tokio::spawn(async move {
            let mut parts = parts;
            parts.reader.read_u8().await
        });
        pid
    });
    drop(runtime);
    wait_until_gone(&[pid]);
}

#[tokio::test(start_paused = true)]
async fn paused_time_does_not_hurry_a_process() {
    // With paused time the grace would be over at once; in real time it is long enough, also on a busy machine.
    let child = sh("cat; sleep 0.1; exit 3").grace(Duration::from_secs(30));
    let exit = end(child.spawn().unwrap().into_parts()).await;
    assert_eq!((exit.code, exit.by_us), (Some(3), false));
}

#[tokio::test]
async fn lines_of_stderr_reach_the_callback_and_the_last_are_in_the_exit() {
    let (sender, lines) = mpsc::channel();
    let script = r#"printf 'one\ntwo\r\n\033[31mthree' >&2; exit 4"#;
    let child = patient_sh(script).stderr(Stderr::lines(move |line| sender.send(line.to_vec()).unwrap()));
    let exit = end(child.spawn().unwrap().into_parts()).await;
    drop(child);
    let lines: Vec<_> = lines.iter().collect();
    assert_eq!(lines, [b"one".to_vec(), b"two".to_vec(), b"\x1b[31mthree".to_vec()]);
    assert_eq!(exit.to_string(), "sh exited with code 4; its stderr ends with:\n  one\n  two\n  \\x1b[31mthree");
}

#[tokio::test]
async fn neither_much_stderr_nor_a_panic_of_its_callback_blocks_the_process() {
    let noisy = "i=0; while [ $i -lt 20000 ]; do echo 'line line line line' >&2; i=$((i+1)); done; exit 5";
    let panics = Stderr::lines(|_| panic!("the callback panics, as this test wants it to"));
    for stderr in [Stderr::discard(), panics] {
        let mut parts = patient_sh(noisy).stderr(stderr).spawn().unwrap().into_parts();
        parts.reader.read_to_end(&mut Vec::new()).await.unwrap();
        let exit = end(parts).await;
        assert_eq!((exit.code, exit.stderr.len()), (Some(5), 4096));
    }
}

#[tokio::test]
async fn arguments_environment_and_directory_are_passed_on_unchanged() {
    let odd = "$(echo no) `no` *; no";
    let child = Child::new("/bin/sh")
        .args(["-c", r#"printf '%s|' "$1" "$SET" "$HOME" "$PWD""#, "sh", odd])
        .env_clear()
        .env("SET", "value")
        .current_dir("/");
    let mut parts = child.spawn().unwrap().into_parts();
    let mut text = String::new();
    parts.reader.read_to_string(&mut text).await.unwrap();
    assert_eq!(text, format!("{odd}|value||/|"));
    assert!(!format!("{child:?}").contains("value"));
}

#[tokio::test]
async fn a_program_that_cannot_start_is_an_error_with_the_reason() {
    let dir = env::temp_dir().join(format!("barewire-spawn-{}", process::id()));
    fs::create_dir_all(&dir).unwrap();
    let file = |name: &str, text: &str, mode| {
        use std::os::unix::fs::PermissionsExt;
        let path = dir.join(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        path
    };
    let why = |child: Child| child.spawn().unwrap_err();

    let error = why(Child::new("no-such-program-here"));
    assert!(matches!(error, SpawnError::NotFound { .. }));
    assert_eq!(error.to_string(), "cannot start no-such-program-here: no such program in PATH");
    assert!(matches!(why(Child::new(dir.join("nothing"))), SpawnError::NotFound { .. }));
    assert!(matches!(why(Child::new(file("f", "", 0o644).join("x"))), SpawnError::NotFound { .. }));
    assert!(matches!(why(Child::new(file("data", "data", 0o644))), SpawnError::NotExecutable { .. }));
    assert!(matches!(why(Child::new(file("noise", "\x7f\x01", 0o755))), SpawnError::NotExecutable { .. }));
    assert!(matches!(why(Child::new(&dir)), SpawnError::NotExecutable { .. }));
    let script = file("script", "#!/no/such/interpreter\n", 0o755);
    assert!(matches!(why(Child::new(&script)), SpawnError::NoInterpreter { .. }));
    let in_path = Child::new("script").env("PATH", &dir);
    assert!(matches!(why(in_path), SpawnError::NoInterpreter { .. }));
    let nowhere = Child::new("cat").current_dir(dir.join("nowhere"));
    assert!(matches!(why(nowhere), SpawnError::Directory { .. }));
    let no_dir = Child::new("cat").current_dir(&script);
    assert!(matches!(why(no_dir), SpawnError::Directory { .. }));
    assert!(matches!(why(Child::new("cat").arg("a\0b")), SpawnError::Io { .. }));
    fs::remove_dir_all(dir).unwrap();
}

/// A command that runs only the test `name` of this program, in its second role. Its output comes after the lines of
/// the harness.
fn rerun(name: &str) -> Command {
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(["--exact", name, "--nocapture", "--test-threads=1"]).env(ROLE_VARIABLE, name);
    command
}

fn is_second(name: &str) -> bool {
    env::var_os(ROLE_VARIABLE).is_some_and(|role| role == name)
}

const ROLE_VARIABLE: &str = "BAREWIRE_TEST_SECOND";

#[test]
fn nothing_is_left_of_many_processes() {
    // In its own process, because other tests open files and start processes.
    let name = "nothing_is_left_of_many_processes";
    if !is_second(name) {
        assert!(rerun(name).stdout(Stdio::null()).status().unwrap().success());
        return;
    }
    let fds = || fs::read_dir("/proc/self/fd").unwrap().count();
    Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
        let scripts = ["cat", "echo hi", "exit 1", "sleep 600", "sleep 600 & cat", "sleep 600 >/dev/null 2>&1 & cat"];
        // The first process opens the files that the runtime keeps.
        end(sh("cat").spawn().unwrap().into_parts()).await;
        let before = fds();
        let mut processes = Vec::new();
        for script in scripts {
            let process = sh(script).grace(Duration::from_millis(50)).spawn().unwrap();
            assert!(children(process::id()).contains(&process.pid()));
            processes.push(process);
        }
        assert!(Child::new("/no/such/program").spawn().is_err());
        assert_eq!(children(process::id()).len(), 2 * scripts.len());
        for process in processes {
            let pid = process.pid();
            end(process.into_parts()).await;
            wait_until_gone(&[pid]);
        }
        assert_eq!(children(process::id()), [0; 0]);
        assert_eq!(fds(), before);

        let alone = sh("cat").unwatched().spawn().unwrap();
        assert_eq!(children(process::id()), [alone.pid()]);
    });
}

/// A process that is killed when dropped, also when the test fails.
struct KillOnDrop(process::Child);

impl Drop for KillOnDrop {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

#[test]
fn nothing_is_left_when_we_are_killed() {
    let name = "nothing_is_left_when_we_are_killed";
    if is_second(name) {
        Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
            let (stubborn, _parts) = start_ready("trap '' TERM; echo; while :; do sleep 1; done").await;
            let (leaves, _parts) = start_ready("trap '' TERM; sleep 600 & trap 'exit' TERM; echo; cat").await;
            writeln!(io::stdout(), "started {stubborn} {leaves}").unwrap();
            std::future::pending::<()>().await;
        });
    }
    let mut second = KillOnDrop(rerun(name).stdout(Stdio::piped()).spawn().unwrap());
    let lines = BufReader::new(second.0.stdout.take().unwrap()).lines();
    let line = lines.map(Result::unwrap).find_map(|line| Some(line.split_once("started ")?.1.to_owned())).unwrap();
    let groups: Vec<u32> = line.split(' ').map(|pid| pid.parse().unwrap()).collect();
    let all = children(second.0.id());
    assert_eq!(all.len(), 4);

    drop(second);
    wait_until_gone(&groups);
    // The watchers have their own groups.
    wait_until_gone(&all);
}
