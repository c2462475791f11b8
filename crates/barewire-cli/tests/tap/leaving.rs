//! Processes that a program leaves behind when it ends.

use std::fs;
use std::io::{Read, Write};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::eventually::eventually;
use super::stage::*;

/// A process that the program left behind may still write, whether the host has closed stdin or not.
#[test]
fn output_after_the_exit_is_passed_on() {
    for closed in [true, false] {
        // The process sees that the program is gone as soon as the tap has noticed its end.
        let script = "(while kill -0 $$ 2> /dev/null; do sleep 0.01; done; echo late) & exit 3";
        // The tap waits for some time, in which a busy machine need not get to the process, but not each time.
        let passed_on = (0..10).find_map(|_| {
            let mut child = tap::<&str, _>(&[], &sh(script)).spawn().expect("it starts");
            let stdin = child.stdin.take().filter(|_| !closed);
            let read = read_some(child.stdout.as_mut().expect("piped"), 100);
            assert_eq!(child.wait().expect("it ends").code(), Some(3));
            drop(stdin);
            Some(read).filter(|read| !read.is_empty())
        });
        assert_eq!(passed_on.as_deref(), Some(&b"late\n"[..]), "{closed}");
    }
}

/// A launcher ends, and what it has launched goes on for as long as the host wants.
#[test]
fn a_launched_server_can_be_talked_to() {
    let folder = Folder::new("launcher");
    let record = folder.file("launcher.wire");
    let script = "exec 3<&0; cat <&3 3<&- & exec 3<&-; exit 4";
    let mut child = tap(&["--record".as_ref(), record.as_os_str()], &sh(script)).spawn().expect("it starts");
    let mut stdin = child.stdin.take().expect("piped");
    let left = "@ left somebody whom the program has started still holds its stdout";
    eventually("it is noted", || fs::read_to_string(&record).is_ok_and(|text| text.contains(&left[2..])));
    // Longer than the tap waits for a process that cannot be talked to: the tap has to stay.
    thread::sleep(Duration::from_millis(1500));
    for _ in 0..3 {
        stdin.write_all(b"hello\n").expect("it is read");
        assert_eq!(read_some(child.stdout.as_mut().expect("piped"), 6), b"hello\n");
    }
    assert!(child.try_wait().expect("it can be asked").is_none());
    drop(stdin);
    assert_eq!(read_some(child.stdout.as_mut().expect("piped"), 1), b"");
    assert_eq!(child.wait().expect("it ends").code(), Some(4));
    let lines = lines(&record);
    assert_eq!(lines.iter().filter(|line| *line == left).count(), 1, "{lines:#?}");
    assert_eq!(lines.iter().filter(|line| *line == "< hello").count(), 3, "{lines:#?}");
    assert!(lines.contains(&"@ eof >".to_owned()) && lines.contains(&"@ eof <".to_owned()), "{lines:#?}");
    assert_eq!(lines.last().expect("some"), "@ exit code 4");
}

/// Ends the process that a program left behind and named.
fn end_left(named: &[u8]) {
    let pid: i32 = String::from_utf8_lossy(named).trim().parse().expect("its number");
    let _ = kill_process(Pid::from_raw(pid).expect("a number"), Signal::KILL);
}

/// A silent process that holds all streams does not block a host that has closed stdin or sent a signal.
#[test]
fn a_silent_process_left_behind_does_not_block_the_tap() {
    let folder = Folder::new("daemon");
    let record = folder.file("daemon.wire");
    let script = "exec 3<&0; sleep 60 <&3 3<&- & echo $!; exit 5";
    for with_signal in [false, true] {
        let options = ["--overwrite".as_ref(), "--record".as_ref(), record.as_os_str()];
        let mut child = tap(&options, &sh(script)).spawn().expect("it starts");
        let mut stdin = child.stdin.take();
        let mut stdout = child.stdout.take().expect("piped");
        let mut named = [0; 16];
        let count = stdout.read(&mut named).expect("it is named");
        let left = "left somebody whom the program has started still holds its stdout";
        eventually("it is noted", || fs::read_to_string(&record).is_ok_and(|text| text.contains(left)));
        // That the tap stays although the program has ended, only time can show.
        thread::sleep(Duration::from_millis(1200));
        assert!(child.try_wait().expect("it can be asked").is_none(), "the host can still talk");
        let start = Instant::now();
        if with_signal {
            kill_process(Pid::from_child(&child), Signal::TERM).expect("it is there");
        } else {
            stdin = None;
        }
        assert_eq!(child.wait().expect("it ends").code(), Some(5));
        assert!(start.elapsed().as_secs() < 20);
        drop(stdin);
        let mut said = String::new();
        child.stderr.take().expect("piped").read_to_string(&mut said).expect("it can be read");
        end_left(&named[..count]);
        let stdout_and_stderr =
            "barewire: the program has ended; output of other processes to its stdout and stderr is not passed on\n";
        assert_eq!(said, stdout_and_stderr);
        let lines = lines(&record);
        let cut = "@ cut < the program has ended, and somebody still holds its stdout";
        assert!(lines.contains(&cut.to_owned()), "{lines:#?}");
        assert!(!lines.contains(&"@ eof <".to_owned()), "{lines:#?}");
        assert_eq!(lines.contains(&"@ eof >".to_owned()), !with_signal, "{lines:#?}");
    }
}

/// Nor does a process that never stops writing.
#[test]
fn a_process_that_never_stops_writing_does_not_block_the_tap() {
    let mut child =
        tap::<&str, _>(&[], &sh("(while echo more; do sleep 0.05; done) & exit 6")).spawn().expect("it starts");
    let mut stdout = child.stdout.take().expect("piped");
    drop(child.stdin.take());
    let mut all = Vec::new();
    stdout.read_to_end(&mut all).expect("it can be read");
    assert!(all.starts_with(b"more\nmore\n"));
    assert_eq!(child.wait().expect("it ends").code(), Some(6));
}

/// The output of the program itself waits for a slow host.
#[test]
fn a_slow_host_gets_everything_that_was_written() {
    // More than its pipe holds, and less than that, the tap and the pipe behind it.
    let bytes = 100_000;
    let script = format!("sleep 60 >&2 & echo $! >&2; head -c {bytes} /dev/zero; exit 7");
    let mut child = tap::<&str, _>(&[], &sh(&script)).spawn().expect("it starts");
    drop(child.stdin.take());
    let mut named = [0; 16];
    let count = child.stderr.as_mut().expect("piped").read(&mut named).expect("it is named");
    // The host is slow: it reads after the time limits of the tap.
    thread::sleep(Duration::from_millis(1500));
    assert_eq!(read_some(child.stdout.as_mut().expect("piped"), bytes + 1).len(), bytes);
    assert_eq!(child.wait().expect("it ends").code(), Some(7));
    end_left(&named[..count]);
}
