//! The ends of a program and of its streams: exit codes, signals, and each stream on its own.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process, kill_process_group};

use super::eventually::eventually;
use super::stage::*;

/// Does nothing for longer than any test needs. A process that a failed test leaves behind ends by itself.
const WAIT: &str = "i=0; while [ $i -lt 600 ]; do sleep 0.05; i=$((i+1)); done";

#[test]
fn the_exit_code_is_that_of_the_program() {
    for code in [0, 1, 2, 77, 127, 255] {
        let status = tap::<&str, _>(&[], &sh(&format!("exit {code}"))).status().expect("it runs");
        assert_eq!(status.code(), Some(code));
    }
}

#[test]
fn the_signal_that_ended_the_program_ends_the_tap() {
    for signal in [Signal::TERM, Signal::INT, Signal::KILL, Signal::SEGV, Signal::ABORT, Signal::PIPE, Signal::USR1] {
        let script = format!("ulimit -c 0; kill -{} $$", signal.as_raw());
        let status = tap::<&str, _>(&[], &sh(&script)).status().expect("it runs");
        assert_eq!(status.signal(), Some(signal.as_raw()), "{status}");
    }
}

#[test]
fn a_program_that_is_not_there() {
    let folder = Folder::new("missing");
    let record = folder.file("missing.wire");
    for (program, code, why) in [
        ("no-such-program-at-all", 127, "no such program in PATH"),
        ("/no/such/file", 127, "no such file"),
        ("/etc/passwd", 126, "not an executable file"),
    ] {
        let output = tap(&["--overwrite".as_ref(), "--record".as_ref(), record.as_os_str()], &[program])
            .output()
            .expect("it runs");
        assert_eq!(output.status.code(), Some(code));
        let said = format!("cannot start {program}: {why}");
        assert_eq!(String::from_utf8_lossy(&output.stderr), format!("barewire: {said}\n"));
        assert_eq!(lines(&record), [format!("@ open {program}"), format!("@ failed {said}")]);
    }
}

/// A shell runs what does not say what runs it; hosts that start programs as shells do see the same without a tap.
#[test]
fn a_script_without_an_interpreter_is_run() {
    let folder = Folder::new("script");
    let path = folder.file("script");
    std::fs::write(&path, "echo \"$0 $1\"\n").expect("it can be written");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("it is ours");
    let output = tap::<&str, _>(&[], &[path.as_os_str(), "a b".as_ref()]).output().expect("it runs");
    assert_eq!(String::from_utf8_lossy(&output.stdout), format!("{} a b\n", path.display()));
    assert!(output.status.success());
    std::fs::write(&path, "\x7fELF\0not of this machine").expect("it can be written");
    let output = tap::<&str, _>(&[], &[&path]).output().expect("it runs");
    assert_eq!(output.status.code(), Some(126), "{}", String::from_utf8_lossy(&output.stderr));
}

/// A program that says when it is ready, and what it has caught.
fn catching(signals: &str) -> String {
    let traps: Vec<String> = signals.split(' ').map(|name| format!("trap 'echo {name}' {name};")).collect();
    format!("{} echo ready; {WAIT}", traps.concat())
}

fn ready(child: &mut Child) -> Pid {
    let mut stdout = child.stdout.take().expect("piped");
    assert_eq!(read_some(&mut stdout, 6), b"ready\n");
    child.stdout = Some(stdout);
    Pid::from_child(child)
}

#[test]
fn signals_reach_the_program() {
    let names = "TERM INT HUP QUIT USR1 USR2";
    let mut child = tap::<&str, _>(&[], &sh(&catching(names))).spawn().expect("it starts");
    let pid = ready(&mut child);
    let mut stdout = child.stdout.take().expect("piped");
    let all = [Signal::TERM, Signal::INT, Signal::HUP, Signal::QUIT, Signal::USR1, Signal::USR2];
    for (name, signal) in names.split(' ').zip(all) {
        kill_process(pid, signal).expect("it is there");
        assert_eq!(String::from_utf8_lossy(&read_some(&mut stdout, name.len() + 1)), format!("{name}\n"));
    }
    end(child);
}

/// A host that has made a group for the server ends the group: the program is told once, not twice.
#[test]
fn a_signal_to_the_group_is_not_doubled() {
    let script = format!("trap 'echo told; exit 3' TERM; echo ready; {WAIT}");
    let mut child = tap::<&str, _>(&[], &sh(&script)).process_group(0).spawn().expect("it starts");
    let pid = ready(&mut child);
    kill_process_group(pid, Signal::TERM).expect("it is there");
    let mut rest = String::new();
    child.stdout.take().expect("piped").read_to_string(&mut rest).expect("it can be read");
    assert_eq!(rest, "told\n");
    assert_eq!(child.wait().expect("it ends").code(), Some(3));
}

/// As with that host, but it signals the process it has started: the program is told all the same.
#[test]
fn a_signal_to_the_leader_of_a_group_reaches_the_program() {
    let mut child = tap::<&str, _>(&[], &sh(&catching("TERM"))).process_group(0).spawn().expect("it starts");
    let pid = ready(&mut child);
    kill_process(pid, Signal::TERM).expect("it is there");
    assert_eq!(read_some(child.stdout.as_mut().expect("piped"), 5), b"TERM\n");
    kill_process_group(pid, Signal::KILL).expect("it is there");
    assert_eq!(child.wait().expect("it ends").signal(), Some(9));
}

#[test]
fn the_end_of_stdin_reaches_the_program() {
    let mut child = tap::<&str, _>(&[], &sh("cat; echo done")).spawn().expect("it starts");
    let mut stdin = child.stdin.take().expect("piped");
    let mut stdout = child.stdout.take().expect("piped");
    stdin.write_all(b"hello\n").expect("it reads");
    assert_eq!(read_some(&mut stdout, 6), b"hello\n");
    drop(stdin);
    assert_eq!(read_some(&mut stdout, 100), b"done\n");
    assert!(child.wait().expect("it ends").success());
}

/// A host that has closed stdin and waited ends a server by a signal; that this had to be is told.
#[test]
fn a_program_that_outlives_its_stdin_is_recorded() {
    let folder = Folder::new("stays");
    let log = folder.file("log");
    let record = folder.file("stays.wire");
    let options = ["--log".as_ref(), log.as_os_str(), "--record".as_ref(), record.as_os_str()];
    let mut child = tap(&options, &sh("cat; exec sleep 60")).spawn().expect("it starts");
    drop(child.stdin.take());
    eventually("the end is passed on", || fs::read_to_string(&record).is_ok_and(|text| text.contains("eof >")));
    // The host has the patience that the specification wants of it: from here on, only time makes a server late.
    std::thread::sleep(Duration::from_millis(2500));
    kill_process(Pid::from_child(&child), Signal::TERM).expect("it is there");
    assert_eq!(child.wait().expect("it ends").signal(), Some(15));
    assert!(text(&log).contains("eof-exit (server): "), "{}", text(&log));
}

/// The program closes its stdout and goes on: the reader of the tap sees the end, and can still write to it.
#[test]
fn the_end_of_stdout_reaches_the_host() {
    let folder = Folder::new("half");
    let file = folder.file("read");
    let script = format!("echo last; exec >&-; cat > {}", file.display());
    let mut child = tap::<&str, _>(&[], &sh(&script)).spawn().expect("it starts");
    let mut stdout = child.stdout.take().expect("piped");
    assert_eq!(read_some(&mut stdout, 100), b"last\n");
    assert!(child.try_wait().expect("it can be asked").is_none(), "the program is still there");
    let mut stdin = child.stdin.take().expect("piped");
    stdin.write_all(b"still there\n").expect("it reads");
    drop(stdin);
    assert!(child.wait().expect("it ends").success());
    assert_eq!(text(&file), "still there\n");
}

/// The program closes its stdin and goes on: the writer to the tap sees a closed pipe without writing.
#[test]
fn a_closed_stdin_reaches_the_host() {
    let script = format!("exec <&-; echo closed; {WAIT}");
    let mut child = tap::<&str, _>(&[], &sh(&script)).spawn().expect("it starts");
    let mut stdout = child.stdout.take().expect("piped");
    assert_eq!(read_some(&mut stdout, 7), b"closed\n");
    let mut stdin = child.stdin.take().expect("piped");
    eventually("writing fails", || {
        use rustix::event::{PollFd, PollFlags, poll};
        let mut fds = [PollFd::new(&stdin, PollFlags::empty())];
        let _ = poll(&mut fds, Some(&rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 }));
        fds[0].revents().contains(PollFlags::ERR)
    });
    assert_eq!(stdin.write_all(b"x").expect_err("the pipe has no reader").kind(), std::io::ErrorKind::BrokenPipe);
    end(child);
}

/// The host closes its end of stdout: the program is told as it would be without a tap, by SIGPIPE.
#[test]
fn a_host_that_stops_reading_is_seen_by_the_program() {
    let mut child = tap::<&str, _>(&[], &sh("while :; do echo more; sleep 0.01; done")).spawn().expect("it starts");
    let mut stdout = child.stdout.take().expect("piped");
    assert_eq!(read_some(&mut stdout, 5), b"more\n");
    drop(stdout);
    let status = child.wait().expect("it ends");
    assert_eq!(status.signal(), Some(Signal::PIPE.as_raw()), "{status}");
}

/// A tap that is killed passes nothing on, but the program sees its end.
#[test]
fn a_killed_tap_ends_the_stdin_of_the_program() {
    let folder = Folder::new("killed");
    let file = folder.file("seen");
    let script = format!("echo ready; cat; echo end > {}", file.display());
    let mut child = tap::<&str, _>(&[], &sh(&script)).spawn().expect("it starts");
    let _stdin = child.stdin.take();
    ready(&mut child);
    child.kill().expect("it is there");
    child.wait().expect("it ends");
    eventually("the program has seen the end of its stdin", || file.exists());
}

/// Stdin is not closed, and the capture has no event for that.
#[test]
fn only_ends_that_happened_are_recorded() {
    let folder = Folder::new("crash");
    let record = folder.file("crash.wire");
    for code in [0, 3] {
        let script = format!("read line; exit {code}");
        let options = ["--overwrite".as_ref(), "--record".as_ref(), record.as_os_str()];
        let mut child = tap(&options, &sh(&script)).spawn().expect("it starts");
        let mut stdin = child.stdin.take().expect("piped");
        stdin.write_all(b"one\ntw").expect("it reads");
        assert_eq!(child.wait().expect("it ends").code(), Some(code));
        let lines = lines(&record);
        assert!(!lines.contains(&"@ eof >".to_owned()), "{lines:#?}");
        let unfinished = lines.iter().position(|line| line == ">(noeol) tw").expect("it was passed on");
        let closed = lines.iter().position(|line| line == "@ closed > by the program").expect("it is noted");
        assert!(unfinished < closed, "{lines:#?}");
        assert_eq!(lines.last(), Some(&format!("@ exit code {code}")));
    }
}

#[test]
fn the_capture_names_the_side_that_closed() {
    let folder = Folder::new("unwanted");
    let record = folder.file("unwanted.wire");
    let script = "while :; do echo more; sleep 0.01; done";
    let mut child = tap(&["--record".as_ref(), record.as_os_str()], &sh(script)).spawn().expect("it starts");
    drop(child.stdout.take());
    child.wait().expect("it ends");
    let lines = lines(&record);
    assert!(lines.contains(&"@ closed < by the host".to_owned()), "{lines:#?}");
    assert!(!lines.contains(&"@ eof <".to_owned()), "{lines:#?}");
}

/// An ignored signal stays ignored: that is what nohup is.
#[test]
#[cfg(target_os = "linux")]
fn an_ignored_signal_stays_ignored() {
    let script = format!("trap '' HUP; exec {} tap -- sh -c 'grep SigIgn /proc/self/status'", program());
    let output = std::process::Command::new("sh").args(["-c", &script]).stdin(Stdio::null()).output();
    let text = String::from_utf8(output.expect("it runs").stdout).expect("UTF-8");
    let mask = u64::from_str_radix(text.trim().trim_start_matches("SigIgn:").trim(), 16).expect("a mask");
    assert_eq!(mask & 1, 1, "{text}");
}
