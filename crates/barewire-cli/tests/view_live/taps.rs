//! Running taps, their viewers, and what a viewer must not cost.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout};
use std::sync::Arc;
use std::thread;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::page::{Page, with_runtime};
use crate::eventually::eventually;
use crate::tap::stage::{Folder, tap};

/// A tap of `cat`, which sends every message back.
struct Tapped {
    process: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
}

impl Tapped {
    fn start(runtime: &Folder, options: &[&str], name: &str) -> Self {
        let program = ["sh", "-c", "exec cat # $0", name];
        let mut process = with_runtime(&mut tap(options, &program), runtime).spawn().expect("it starts");
        let stdout = BufReader::new(process.stdout.take().expect("piped"));
        Self { stdin: process.stdin.take(), process, stdout }
    }

    fn say(&mut self, line: &str) {
        let stdin = self.stdin.as_mut().expect("it is open");
        stdin.write_all(format!("{line}\n").as_bytes()).expect("it reads");
        let mut echoed = String::new();
        self.stdout.read_line(&mut echoed).expect("it writes");
        assert_eq!(echoed.trim_end(), line);
    }

    fn ping(&mut self, id: u32) {
        self.say(&format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#));
    }

    /// Ends the input, and waits for the end of the tap.
    fn end(&mut self) {
        self.stdin = None;
        assert!(self.process.wait().expect("it ends").success());
    }
}

impl Drop for Tapped {
    fn drop(&mut self) {
        self.stdin = None;
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn sockets(runtime: &Folder) -> Vec<PathBuf> {
    let folder = fs::read_dir(runtime.file("barewire/taps"));
    let paths = folder.into_iter().flatten().map(|entry| entry.expect("an entry").path());
    paths.filter(|path| !path.file_name().expect("a name").as_encoded_bytes().starts_with(b".")).collect()
}

fn has_frames(source: &Value, count: u64) -> bool {
    source["frames"].as_u64() == Some(count)
}

#[test]
fn every_viewer_sees_a_running_tap_and_its_end() {
    let runtime = Folder::new("view-ends");
    let mut tapped = Tapped::start(&runtime, &[], "the-ends");
    tapped.ping(1);
    let pages = [Page::open(&runtime, &[]), Page::open(&runtime, &[])];
    for page in &pages {
        let source = page.wait_for("the-ends", |source| has_frames(source, 2));
        assert_eq!((&source["kind"], &source["state"]), (&"tap".into(), &"live".into()), "{source}");
    }
    tapped.ping(2);
    pages.iter().for_each(|page| drop(page.wait_for("the-ends", |source| has_frames(source, 4))));
    // A viewer that is killed takes nothing with it.
    let [mut killed, page] = pages;
    killed.process.kill().expect("it runs");
    tapped.ping(3);
    page.wait_for("the-ends", |source| has_frames(source, 6));
    // A new tap appears by itself.
    let _other = Tapped::start(&runtime, &[], "the-other");
    page.wait_for("the-other", |source| source["state"] == "live");
    tapped.end();
    page.wait_for("the-ends", |source| source["state"] == "ended");
    assert_eq!(sockets(&runtime).len(), 1);
}

#[test]
fn a_killed_tap_is_lost_and_leaves_nothing() {
    let runtime = Folder::new("view-killed");
    let mut tapped = Tapped::start(&runtime, &[], "the-killed");
    let page = Page::open(&runtime, &[]);
    tapped.ping(1);
    page.wait_for("the-killed", |source| has_frames(source, 2));
    tapped.process.kill().expect("it runs");
    page.wait_for("the-killed", |source| source["state"] == "lost");
    eventually("its socket is removed", || sockets(&runtime).is_empty());
    // One that is killed without a viewer is removed by the next look.
    let mut unseen = Tapped::start(&runtime, &[], "the-unseen");
    drop(page);
    eventually("it is announced", || sockets(&runtime).len() == 1);
    unseen.process.kill().expect("it runs");
    unseen.process.wait().expect("it ends");
    assert_eq!(sockets(&runtime).len(), 1);
    let _page = Page::open(&runtime, &[]);
    eventually("its socket is removed", || sockets(&runtime).is_empty());
}

#[test]
fn a_recorded_tap_is_shown_from_its_first_message() {
    let runtime = Folder::new("view-recorded");
    let capture = runtime.file("s.wire");
    let mut tapped = Tapped::start(&runtime, &["--record", capture.to_str().expect("UTF-8")], "the-recorded");
    // More than what a tap without a capture keeps.
    let long = "x".repeat(8 * 1024);
    for id in 0..20 {
        tapped.say(&format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping","params":{{"long":"{long}"}}}}"#));
    }
    let page = Page::open(&runtime, &[]);
    page.wait_for("the-recorded", |source| has_frames(source, 40));
    tapped.ping(100);
    page.wait_for("the-recorded", |source| has_frames(source, 42));
    tapped.end();
    let source = page.wait_for("the-recorded", |source| source["state"] == "ended");
    assert!(has_frames(&source, 42), "{source}");
}

#[test]
fn secrets_are_replaced_before_they_leave_the_tap() {
    let runtime = Folder::new("view-secret");
    let mut tapped = Tapped::start(&runtime, &[], "the-secret");
    let page = Page::open(&runtime, &[]);
    tapped.say(r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":{"password":"correct-horse-battery"}}"#);
    let source = page.wait_for("the-secret", |source| has_frames(source, 2));
    let frame = page.get(&format!("s/{}/frame/1", source["id"].as_str().expect("an id")));
    let text = frame["text"].as_str().expect("a text");
    assert!(text.contains("<redacted-1>") && !text.contains("battery"), "{text}");
}

#[test]
fn the_page_is_told_which_tap_does_not_replace_secrets() {
    let runtime = Folder::new("view-unredacted");
    let capture = runtime.file("s.wire");
    let record = ["--no-redact", "--record", capture.to_str().expect("UTF-8")];
    let mut recorded = Tapped::start(&runtime, &record, "the-recorded");
    let mut streamed = Tapped::start(&runtime, &["--no-redact"], "the-streamed");
    let mut redacted = Tapped::start(&runtime, &[], "the-redacted");
    let page = Page::open(&runtime, &[]);
    let secret = r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":{"password":"correct-horse-battery"}}"#;
    for (tapped, name, is_shown) in [
        (&mut recorded, "the-recorded", true),
        (&mut streamed, "the-streamed", true),
        (&mut redacted, "the-red", false),
    ] {
        tapped.say(secret);
        let source = page.wait_for(name, |source| has_frames(source, 2));
        let frame = page.get(&format!("s/{}/frame/1", source["id"].as_str().expect("an id")));
        assert_eq!(frame["text"].as_str().expect("a text").contains("battery"), is_shown, "{name}");
        assert_eq!(source["unredacted"], is_shown, "{source}");
    }
    // A file with secrets is redacted when it is read, unless that is switched off too.
    drop(recorded);
    for (options, is_shown) in [(&[][..], false), (&["--no-redact"], true)] {
        let page = Page::open(&runtime, &[options, &record[2..]].concat());
        let source = page.wait_for("s.wire", |source| source["state"] == "complete");
        assert_eq!(source["unredacted"], is_shown, "{source}");
        let frame = page.get(&format!("s/{}/frame/1", source["id"].as_str().expect("an id")));
        assert_eq!(frame["text"].as_str().expect("a text").contains("battery"), is_shown);
    }
}

#[test]
fn only_the_user_can_connect() {
    let runtime = Folder::new("view-modes");
    let _tapped = Tapped::start(&runtime, &[], "the-modes");
    eventually("it is announced", || sockets(&runtime).len() == 1);
    let mode = |path: PathBuf| fs::symlink_metadata(path).expect("it exists").permissions().mode() & 0o777;
    assert_eq!(mode(runtime.file("barewire/taps")), 0o700);
    assert_eq!(mode(sockets(&runtime).remove(0)), 0o600);
    // A folder of the runtime folder that is a link is not used: the next one is.
    let linked = Folder::new("view-linked");
    fs::create_dir_all(linked.file("barewire")).expect("a folder");
    std::os::unix::fs::symlink(runtime.file(""), linked.file("barewire/taps")).expect("a link");
    let _other = Tapped::start(&linked, &[], "the-linked");
    let state = linked.file("state/barewire/taps");
    eventually("it is announced", || fs::read_dir(&state).is_ok_and(|mut folder| folder.next().is_some()));
}

#[cfg(target_os = "linux")]
#[test]
fn a_tap_without_a_viewer_has_one_thread_more_which_waits() {
    let runtime = Folder::new("view-threads");
    let threads =
        |tapped: &Tapped| fs::read_dir(format!("/proc/{}/task", tapped.process.id())).expect("it runs").count();
    let mut silent = Tapped::start(&runtime, &["--no-announce"], "the-silent");
    let mut tapped = Tapped::start(&runtime, &[], "the-threads");
    eventually("it is announced", || sockets(&runtime).len() == 1);
    silent.ping(1);
    tapped.ping(1);
    eventually("the threads of the start end", || threads(&tapped) == threads(&silent) + 1);
    let page = Page::open(&runtime, &[]);
    page.wait_for("the-threads", |source| has_frames(source, 2));
    eventually("there are threads for the viewer", || threads(&tapped) > threads(&silent) + 1);
    assert!(page.source("the-silent").is_none());
    drop(page);
    eventually("the threads of the viewer end", || threads(&tapped) == threads(&silent) + 1);
}

#[test]
fn a_tap_has_a_maximum_number_of_viewers() {
    const MAX_VIEWERS: usize = 16;
    let runtime = Folder::new("view-many");
    let mut tapped = Tapped::start(&runtime, &[], "the-many");
    eventually("it is announced", || sockets(&runtime).len() == 1);
    let socket = sockets(&runtime).remove(0);
    // A viewer that has room is told who the tap is.
    let meet = || {
        let mut stream = UnixStream::connect(&socket).expect("it listens");
        matches!(stream.read(&mut [0; 1]), Ok(1)).then_some(stream)
    };
    let mut viewers: Vec<UnixStream> = (0..MAX_VIEWERS).map(|_| meet().expect("there is room")).collect();
    assert!(meet().is_none(), "one viewer more is connected");
    tapped.ping(1);
    viewers.pop();
    eventually("there is room for another", || meet().is_some());
}

/// The closed lid of a laptop.
#[cfg(target_os = "linux")]
#[test]
fn a_stopped_viewer_costs_a_bounded_queue() {
    const FRAMES: usize = 100_000;
    let runtime = Folder::new("view-stopped");
    let mut tapped = Tapped::start(&runtime, &[], "the-stopped");
    let page = Page::open(&runtime, &[]);
    tapped.ping(1);
    page.wait_for("the-stopped", |source| has_frames(source, 2));
    let viewer = Pid::from_raw(i32::try_from(page.process.id()).expect("a pid")).expect("a pid");
    kill_process(viewer, Signal::STOP).expect("it runs");
    let mut stdin = tapped.stdin.take().expect("it is open");
    let line =
        format!("{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\",\"params\":{{\"x\":\"{}\"}}}}\n", "y".repeat(400));
    let length = line.len();
    let writer = thread::spawn(move || {
        for _ in 0..FRAMES {
            stdin.write_all(line.as_bytes()).expect("it reads");
        }
        stdin
    });
    let mut read = 0;
    let mut buffer = vec![0; 64 * 1024];
    while read < FRAMES * length {
        match tapped.stdout.read(&mut buffer).expect("it writes") {
            0 => break,
            count => read += count,
        }
    }
    assert_eq!(read, FRAMES * length);
    tapped.stdin = Some(writer.join().expect("it wrote everything"));
    let status = fs::read_to_string(format!("/proc/{}/status", tapped.process.id())).expect("it runs");
    let kib = |name: &str| -> u64 {
        let line = status.lines().find_map(|line| line.strip_prefix(name)).expect("Linux has it");
        line.trim().trim_end_matches(" kB").parse().expect("a number")
    };
    // Without the pages of the executable: two buffers of 16 MiB for the observation, two of 4 MiB for the viewer.
    let peak = kib("VmHWM:").saturating_sub(kib("RssFile:"));
    assert!(peak < 48 * 1024, "{peak} KiB");
    // The viewer is still stopped, so an end that waited for it would never come.
    tapped.end();
    kill_process(viewer, Signal::CONT).expect("it runs");
    page.wait_for("the-stopped", |source| source["state"] == "ended");
}

#[test]
fn the_viewer_of_a_tap_ends_with_it() {
    let runtime = Folder::new("view-own");
    let program = ["sh", "-c", "exec cat # the-own"];
    let mut command = tap(&["--view", "--no-open"], &program);
    let mut process = with_runtime(&mut command, &runtime).spawn().expect("it starts");
    let mut stderr = BufReader::new(process.stderr.take().expect("piped"));
    let mut url = String::new();
    stderr.read_line(&mut url).expect("the URL is on stderr");
    let mut stdin = process.stdin.take().expect("piped");
    stdin.write_all(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n").expect("it reads");
    let page = Page::enter(process, Arc::default(), url.trim());
    page.wait_for("the-own", |source| has_frames(source, 2));
    drop(stdin);
    // Its copy of stderr is closed when the viewer has ended too.
    let mut rest = String::new();
    stderr.read_to_string(&mut rest).expect("UTF-8");
    drop(page);
}
