//! The memory that each message of a peer costs each verb: at most eight times the length of the message, whatever its
//! JSON is. As trees of values, the same messages would cost up to 290 times their length.

#![cfg(target_os = "linux")]

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use crate::checked::fixture;

/// The length of the message, in bytes.
const FRAME: usize = 10 * 1024 * 1024;

/// The longest message that is read without an option, less what surrounds the value in it.
const LONGEST_FRAME: usize = 64 * 1024 * 1024 - 1024;

/// The maximum memory, as a multiple of the length of the message.
const MAX_MEMORY_FACTOR: f64 = 8.0;

/// A place in the messages of a server, and the shape of the value there. See the example `large-server`.
type Case = (&'static str, &'static str);

/// The cases of an ordinary test run, chosen because they cost the most as trees, or were read into lists of structs.
const CASES: [Case; 2] = [("structured", "objects"), ("tools", "tools")];

/// More cases, for a run by command.
const MORE_CASES: [Case; 25] = [
    ("structured", "members"),
    ("content", "texts"),
    ("input-schema", "objects"),
    ("notification-meta", "objects"),
    ("error", "arrays"),
    ("request", "zeros"),
    ("structured", "arrays"),
    ("structured", "zeros"),
    ("structured", "strings"),
    ("structured", "same-members"),
    ("structured", "nested"),
    ("structured", "nested-objects"),
    ("structured", "deep"),
    ("structured", "escapes"),
    ("structured", "newlines"),
    ("structured", "deletes"),
    ("content", "empty"),
    ("meta", "objects"),
    ("tools", "empty"),
    ("output-schema", "objects"),
    ("capability", "objects"),
    ("notification", "objects"),
    ("own-notification", "objects"),
    ("question", "strings"),
    ("frame", "empty"),
];

#[test]
fn call_takes_memory_by_the_length_of_a_message() {
    check_all(&CASES, FRAME, &[&["call"], &["call", "--json"], &["call", "--pretty"], &["call", "--raw"]]);
}

#[test]
fn check_and_bench_take_memory_by_the_length_of_a_message() {
    check_all(&CASES, FRAME, &[&["check"], &["bench"]]);
}

#[test]
fn tap_and_readers_of_captures_take_memory_by_the_length_of_a_message() {
    let verbs: &[&[&str]] = &[&["tap"], &["read"], &["read", "--json"], &["read", "--frame"], &["check", "FILE"]];
    check_all(&CASES, FRAME, verbs);
}

#[test]
fn replay_takes_memory_by_the_length_of_a_message() {
    check_all(&CASES, FRAME, &[&["replay"], &["replay", "--json"], &["replay", "--serve"]]);
}

/// `cargo test --release -p barewire-cli --test all -- --ignored --nocapture --test-threads=1 memory::` prints the
/// table.
#[test]
#[ignore = "takes minutes"]
fn every_verb_takes_memory_by_the_length_of_any_message() {
    check_all(&[CASES.as_slice(), &MORE_CASES].concat(), FRAME, &ALL_VERBS);
}

#[test]
#[ignore = "takes minutes"]
fn every_verb_takes_memory_by_the_length_of_the_longest_message() {
    check_all(&CASES, LONGEST_FRAME, &ALL_VERBS);
}

const ALL_VERBS: [&[&str]; 19] = [
    &["call"],
    &["call", "--json"],
    &["call", "--pretty"],
    &["call", "--save"],
    &["call", "--raw"],
    &["check"],
    &["bench"],
    &["tap"],
    &["read"],
    &["read", "--json"],
    &["read", "--frame"],
    &["read", "--summary"],
    &["read", "--diagram"],
    &["read", "--text"],
    &["check", "FILE"],
    &["replay"],
    &["replay", "other"],
    &["replay", "--json"],
    &["replay", "--serve"],
];

/// Runs each verb with each message and with short ones, prints the additional memory, and checks it.
#[expect(clippy::print_stdout, reason = "the table is for people who measure")]
fn check_all(cases: &[Case], frame: usize, verbs: &[&[&str]]) {
    let mut table = String::new();
    let mut is_right = true;
    for verb in verbs {
        let folder = Folder::new();
        // A short run can end before its peak was seen once, so that the longest of several counts.
        let short = cases.iter().take(3).map(|case| Run::new(&folder, *case, 100).peak(verb)).max().unwrap_or(0);
        for case in cases {
            let long = Run::new(&folder, *case, frame).peak(verb);
            let ratio = long.saturating_sub(short) as f64 / frame as f64;
            let max_ratio = MAX_MEMORY_FACTOR * messages_at_once(verb);
            is_right &= ratio <= max_ratio;
            let (verb, mark) = (verb.join(" "), if ratio > max_ratio { " too much" } else { "" });
            table += &format!("{verb:16} {:18} {:16} {:5} MiB {ratio:5.1}x{mark}\n", case.0, case.1, long >> 20);
        }
    }
    println!("{table}");
    assert!(is_right, "more than {MAX_MEMORY_FACTOR} times a message of {} MiB:\n{table}", frame >> 20);
}

/// Returns the number of messages of this length that a verb receives at once. `check` speaks to a server in both eras
/// at once, and each time gets one; whether they arrive together depends on how busy the machine is.
fn messages_at_once(verb: &[&str]) -> f64 {
    if verb == ["check"] { 2.0 } else { 1.0 }
}

/// A folder for captures that is removed in the end.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        let name = format!("barewire-memory-{}-{:?}", std::process::id(), thread::current().id());
        let path = std::env::temp_dir().join(name);
        fs::create_dir_all(&path).expect("a folder");
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A server whose messages hold one value of this length.
struct Run<'a> {
    folder: &'a Path,
    case: Case,
    length: usize,
}

impl<'a> Run<'a> {
    fn new(folder: &'a Folder, case: Case, length: usize) -> Self {
        Self { folder: &folder.0, case, length }
    }

    /// Runs a verb, and returns its peak memory in bytes.
    fn peak(&self, verb: &[&str]) -> u64 {
        let mut command = Command::new(env!("CARGO_BIN_EXE_barewire"));
        let is_list = self.case.0 == "tools";
        let (what, method, params) =
            if is_list { ("tools", "tools/list", "{}") } else { ("t", "tools/call", r#"{"name":"t"}"#) };
        let mut talks = false;
        match verb {
            ["call", "--raw"] => command.args(["call", "--raw", "--timeout", "200", method, params, "--"]),
            ["call", "--save"] => command.args(["call", what, "--timeout", "200", "--save"]).arg(self.folder).arg("--"),
            ["call", options @ ..] => command.args(["call", what, "--timeout", "200"]).args(options).arg("--"),
            ["check", "FILE"] => command.arg("check").arg(self.capture()),
            ["check"] => command.args(["check", "--quiet", "--patience", "10", "--call", "t={}", "--"]),
            ["bench"] => {
                command.args(["bench", method, params, "--count", "2", "--warm-up", "1ms", "--timeout", "200", "--"])
            }
            ["tap"] => {
                talks = true;
                command
                    .args(["tap", "--log"])
                    .arg(self.folder.join("log"))
                    .arg("--record")
                    .arg(self.folder.join("tap"))
                    .arg("--")
            }
            ["read", "--frame"] => command.args(["read", "--frame", "7", "--json"]).arg(self.capture()),
            ["read", "--diagram"] => command.args(["read", "--diagram", "text"]).arg(self.capture()),
            ["read", "--text"] => command.args(["read", "--text", "nothing has this"]).arg(self.capture()),
            ["read", options @ ..] => command.arg("read").args(options).arg(self.capture()),
            ["replay", "--serve"] => {
                talks = true;
                command.args(["replay", "--serve"]).arg(self.capture())
            }
            ["replay", "other"] => command.arg("replay").arg(self.capture()).arg("--"),
            ["replay", options @ ..] => command.arg("replay").args(options).arg(self.capture()).arg("--"),
            verb => panic!("unknown verb {verb:?}"),
        };
        if command.get_args().last().is_some_and(|last| last == "--") {
            // A replay that finds differences compares with a shorter message.
            let length = if verb == ["replay", "other"] { self.length / 2 } else { self.length };
            command.arg(fixture("large-server")).args(self.server_arguments(length));
        }
        // Only these verbs pass messages on; the output of the others may be long.
        let stdout =
            if talks { Stdio::piped() } else { File::create(self.folder.join("stdout")).expect("a file").into() };
        let stderr = File::create(self.folder.join("stderr")).expect("a file");
        command.stdin(if talks { Stdio::piped() } else { Stdio::null() }).stdout(stdout).stderr(stderr);
        let mut child = command.spawn().expect("it starts");
        let peak = watch(child.id());
        if talks {
            converse(&mut child, |_, _| {});
        }
        let status = child.wait().expect("it ends");
        let stderr = fs::read_to_string(self.folder.join("stderr")).expect("it is there");
        // A signal would mean that the memory did not suffice, and no code at all that nothing was measured.
        assert!(matches!(status.code(), Some(0..=2)), "{verb:?} {:?}: {status}: {stderr}", self.case);
        peak.join().expect("it watches")
    }

    fn server_arguments(&self, length: usize) -> [String; 3] {
        [self.case.0.to_owned(), self.case.1.to_owned(), length.to_string()]
    }

    /// Records a conversation with the server, and returns the path of the capture.
    fn capture(&self) -> PathBuf {
        let path = self.folder.join(format!("{}.wire", self.length));
        let mut file = File::create(&path).expect("a file");
        file.write_all(b"wire 1\n").expect("room");
        let mut server = Command::new(fixture("large-server"));
        server.args(self.server_arguments(self.length)).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut server = server.spawn().expect("it starts");
        converse(&mut server, |sigil, line| {
            for part in [sigil.as_bytes(), b" ", line] {
                file.write_all(part).expect("room");
            }
        });
        server.wait().expect("it ends");
        path
    }
}

/// Sends the requests of a client one after the other, and closes the server's input after the last answer. Calls
/// `each` with the direction and the line of every message.
fn converse(server: &mut Child, mut each: impl FnMut(&str, &[u8])) {
    let mut input = server.stdin.take().expect("piped");
    let mut output = BufReader::new(server.stdout.take().expect("piped"));
    let mut line = Vec::new();
    for message in MESSAGES {
        let message = format!("{message}\n");
        each(">", message.as_bytes());
        input.write_all(message.as_bytes()).expect("it reads");
        let id = message.find(r#""id":"#).map(|at| message[at..at + 7].to_owned());
        while let Some(id) = &id {
            line.clear();
            assert!(output.read_until(b'\n', &mut line).expect("it writes") > 0, "no answer to {message}");
            each("<", &line);
            let start = String::from_utf8_lossy(&line[..line.len().min(60)]).into_owned();
            if start.contains(r#""id":"q""#) {
                let answer = b"{\"jsonrpc\":\"2.0\",\"id\":\"q\",\"result\":{\"roots\":[],\"action\":\"cancel\"}}\n";
                each(">", answer);
                input.write_all(answer).expect("it reads");
            } else if start.contains(id.as_str()) {
                break;
            }
        }
    }
}

/// The messages of a client, without its answers. The ids have one digit.
const MESSAGES: [&str; 4] = [
    r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{"roots":{},"elicitation":{}},"clientInfo":{"name":"c","version":"1"}}}"#,
    r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
    r#"{"jsonrpc":"2.0","id":2,"method":"tools/list"}"#,
    r#"{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"t"}}"#,
];

/// Watches a process until it ends, and returns its peak memory in bytes. The kernel keeps the peak, so only what the
/// process allocates in its last millisecond can be missed.
fn watch(process: u32) -> thread::JoinHandle<u64> {
    thread::spawn(move || {
        let mut peak = 0;
        loop {
            let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
            let Some(line) = status.lines().find_map(|line| line.strip_prefix("VmHWM:")) else { return peak };
            let kib: u64 = line.trim().trim_end_matches(" kB").parse().expect("a number");
            peak = peak.max(kib * 1024);
            thread::sleep(Duration::from_millis(1));
        }
    })
}
