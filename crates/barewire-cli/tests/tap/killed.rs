//! A tap that is killed with SIGKILL, and so cannot end its program itself.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::Child;

use rustix::process::{Pid, Signal, kill_process};

use super::eventually::eventually;
use super::stage::*;

/// A program that ends at nothing but SIGKILL, with a child, and with a process whose parent has ended. It writes the
/// ids of all three.
const STUBBORN: &str = r#"
trap '' TERM HUP INT
forever() { while :; do sleep 0.1; done; }
forever & echo $!
(forever & echo $!)
echo $$
forever
"#;

#[test]
fn a_killed_tap_leaves_no_process() {
    let mut child = tap::<&str, _>(&[], &sh(STUBBORN)).spawn().expect("it starts");
    let _stdin = child.stdin.take();
    let output = BufReader::new(child.stdout.take().expect("piped"));
    let pids: Vec<u32> = output.lines().take(3).map(|line| line.expect("text").parse().expect("an id")).collect();
    let left = Left(pids.iter().copied().chain(children(&child)).collect());
    assert!(pids.iter().all(|pid| is_running(*pid)), "{pids:?}");
    end(child);
    eventually("the program, its family and the watcher end", || !left.0.iter().any(|pid| is_running(*pid)));
}

/// The program is watched from its start: it does not matter when the tap is killed.
#[test]
fn a_tap_that_is_killed_while_it_starts_leaves_no_process() {
    for expected in [1, 1, 1, 2, 2, 2] {
        let script = format!(": tap-{}-{expected}; {STUBBORN}", std::process::id());
        let mut child = tap::<&str, _>(&[], &sh(&script)).spawn().expect("it starts");
        let _streams = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        eventually("it starts processes", || children(&child).len() >= expected);
        let left = Left(children(&child));
        end(child);
        let has_script = |pid: &u32| {
            fs::read(format!("/proc/{pid}/cmdline"))
                .is_ok_and(|line| line.windows(script.len()).any(|part| part == script.as_bytes()))
        };
        eventually("the program, its family and the watcher end", || {
            !left.0.iter().any(|pid| is_running(*pid)) && !all_processes().any(|pid| has_script(&pid))
        });
    }
}

#[test]
fn a_tap_that_ends_leaves_no_watcher() {
    for end_by_program in [true, false] {
        let mut child = tap::<&str, _>(&[], &sh("read -r line; exit 3")).spawn().expect("it starts");
        eventually("it starts a watcher and the program", || children(&child).len() == 2);
        let left = Left(children(&child));
        if end_by_program {
            drop(child.stdin.take());
            assert_eq!(child.wait().expect("it ends").code(), Some(3));
        } else {
            // `wait` would close it, and the program could exit by itself before it gets the signal.
            let _stdin = child.stdin.take();
            kill_process(Pid::from_child(&child), Signal::TERM).expect("it is there");
            assert!(child.wait().expect("it ends").code().is_none(), "the signal that ended the program ends the tap");
        }
        // No wait: the tap has waited for both.
        assert!(!left.0.iter().any(|pid| is_running(*pid)), "{:?}", left.0);
    }
}

/// Processes that a failed test must not leave behind.
struct Left(Vec<u32>);

impl Drop for Left {
    fn drop(&mut self) {
        for pid in self.0.iter().filter(|pid| is_running(**pid)) {
            let _ = kill_process(Pid::from_raw(pid.cast_signed()).expect("an id"), Signal::KILL);
        }
    }
}

fn all_processes() -> impl Iterator<Item = u32> {
    let entries = fs::read_dir("/proc").expect("Linux has it").flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

fn children(process: &Child) -> Vec<u32> {
    let parent = process.id().to_string();
    let is_child = |pid: &u32| stat(*pid).is_some_and(|fields| fields.get(1) == Some(&parent));
    all_processes().filter(is_child).collect()
}

/// Whether a process exists and is not a zombie.
fn is_running(pid: u32) -> bool {
    stat(pid).is_some_and(|fields| fields[0] != "Z" && fields[0] != "X")
}

/// The fields of `/proc/PID/stat` after the name: the state, the parent and others.
fn stat(pid: u32) -> Option<Vec<String>> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    Some(text.rsplit_once(") ")?.1.split(' ').map(str::to_owned).collect())
}
