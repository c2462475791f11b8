//! The program as users run it: its output (`tests/cmd`), and its behaviour in a pipe.

use std::io::{Read, Write};
use std::process::{Command, Output, Stdio};

/// `TRYCMD=overwrite cargo test -p barewire-cli` rewrites the expected output; review it with `git diff`.
#[test]
fn sessions() {
    // The width of the developer's terminal must not matter.
    let cases = trycmd::TestCases::new();
    cases
        .env("PATH", path())
        .env("COLUMNS", "")
        .case("tests/cmd/*.trycmd")
        .case("../../docs/call.md")
        .case("../../docs/why-does-my-server-not-start.md")
        .case("../../docs/check.md");
}

/// The sessions in the README are the output of the program.
#[test]
fn the_sessions_in_the_readme() {
    let readme = include_str!("../../../README.md");
    let sessions: Vec<&str> = readme.split("```console\n$ barewire ").skip(1).collect();
    assert_eq!(sessions.len(), 2);
    for session in sessions {
        let (session, _) = session.split_once("```").expect("the block ends");
        let (command, shown) = session.split_once('\n').expect("a command and its output");
        let mut program = barewire();
        program.args(command.split(' ')).env("PATH", path()).current_dir("tests/cmd/files");
        let output = program.output().expect("it runs");
        let printed = [output.stdout, output.stderr].concat();
        assert_eq!(without_frame_numbers(&String::from_utf8_lossy(&printed)), without_frame_numbers(shown));
    }
}

/// Leaves out the numbers of frames: whether a banner comes before or after our first request is up to the scheduler.
fn without_frame_numbers(text: &str) -> String {
    let mut parts = text.split(" frame ");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| text + " frame " + part.trim_start_matches(|c: char| c.is_ascii_digit()))
}

/// A search path with the program, because sessions start `barewire serve` and the like.
fn path() -> String {
    let own = std::path::Path::new(env!("CARGO_BIN_EXE_barewire")).parent().expect("it lies in a folder");
    format!("{}:{}", own.display(), std::env::var("PATH").unwrap_or_default())
}

fn barewire() -> Command {
    Command::new(env!("CARGO_BIN_EXE_barewire"))
}

/// Runs the program with `input` written to its stdin in pieces.
fn run(args: &[&str], pieces: &[&[u8]]) -> Output {
    let mut child = barewire()
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut stdin = child.stdin.take().expect("piped");
    for piece in pieces {
        stdin.write_all(piece).and_then(|()| stdin.flush()).expect("it reads");
    }
    drop(stdin);
    child.wait_with_output().expect("it ends")
}

const MIXED: &[u8] = include_bytes!("cmd/files/mixed.ndjson");

#[test]
fn stdin_in_any_pieces_reads_like_the_file() {
    let whole = barewire().args(["read", "--json", "tests/cmd/files/mixed.ndjson"]).output().expect("it runs");
    assert_eq!(whole.status.code(), Some(1));
    for args in [&["read", "--json"][..], &["read", "--json", "-"]] {
        let bytes: Vec<&[u8]> = MIXED.chunks(1).collect();
        assert_eq!(run(args, &bytes).stdout, whole.stdout);
    }
}

#[test]
fn every_line_of_json_is_json_whatever_was_read() {
    let mut input = b"\x00\n\xff\n{\"jsonrpc\":\"2.0\",\"id\":\"\x7f\xc2\x9b\",\"method\":\"\\ud800\"}\n".to_vec();
    input.extend_from_slice(b"{\"jsonrpc\":\"2.0\",\"id\":[\t1],\"method\":\"m\"}\n");
    let output = run(&["read", "--json"], &[&input]);
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    assert!(text.chars().all(|c| c == '\n' || !c.is_control()), "{text}");
    let lines: Vec<serde_json::Value> =
        text.replace("\\ud800", "?").lines().map(|line| serde_json::from_str(line).expect(line)).collect();
    assert_eq!(lines.len(), 4);
    assert_eq!(lines[2]["id"], "\u{7f}\u{9b}");
    assert_eq!(lines[3]["id"], serde_json::json!([1]));
}

#[test]
fn text_of_a_peer_cannot_control_the_terminal() {
    let input = "\u{1b}]0;title\u{7}\n{\"jsonrpc\":\"2.0\",\"id\":\"\u{202e}\",\"method\":\"\u{9b}31m\"}\n";
    for args in [&["read"][..], &["read", "--frame", "1"], &["read", "--frame", "2"]] {
        let output = run(args, &[input.as_bytes()]);
        let shown = String::from_utf8(output.stdout).expect("UTF-8");
        assert!(shown.chars().all(|c| c == '\n' || (!c.is_control() && c != '\u{202e}')), "{shown:?}");
    }
}

/// `read` names a rule and refers to `explain`, which has a text for it.
#[test]
fn every_rule_that_is_named_can_be_explained() {
    let mut names = std::collections::BTreeSet::new();
    for folder in ["frame", "rpc", "serve"] {
        for file in std::fs::read_dir(format!("../../testdata/{folder}")).expect("testdata") {
            let text = std::fs::read_to_string(file.expect("a file").path()).expect("UTF-8");
            for line in text.lines().filter(|line| line.starts_with("= ")) {
                let named = line.split("invalid ").nth(1).and_then(|rest| rest.split_once(" at "));
                names.extend(named.map(|(name, _)| name.to_owned()));
            }
        }
    }
    assert!(names.len() >= 15, "{names:?}");
    for name in names {
        let output = barewire().args(["explain", &name]).output().expect("it runs");
        assert!(output.status.success(), "{name}");
    }
}

#[test]
fn a_transcript_is_known_by_its_first_line() {
    let message = "{\"jsonrpc\":\"2.0\",\"method\":\"m\"}";
    for (input, code) in [
        (format!("wire 1\n> {message}\n"), 0),
        (format!("\u{feff}wire 1 started=now\n> {message}\n"), 0),
        (format!("wire service ready\n{message}\n"), 1),
        (format!("wire 99\n> {message}\n"), 2),
        (format!("{message}\n"), 0),
        ("wire".into(), 1),
        (String::new(), 0),
    ] {
        let bytes: Vec<&[u8]> = input.as_bytes().chunks(1).collect();
        let output = run(&["read"], &bytes);
        assert_eq!(output.status.code(), Some(code), "{input}{}", String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
fn a_gap_of_any_length_is_only_a_number() {
    let line = "> {\"jsonrpc\":\"2.0\",\"method\":\"m\"}\n";
    let gap = format!("@ gap > {}\n", u64::MAX);
    let output = run(&["read", "--json", "--format", "wire"], &[[&gap, line, &gap, line].concat().as_bytes()]);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn frames_are_shown_while_the_stream_is_open() {
    let mut child = barewire().arg("read").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it starts");
    let mut stdin = child.stdin.take().expect("piped");
    stdin.write_all(b"{\"jsonrpc\":\"2.0\",\"method\":\"live\"}\n").expect("it reads");
    let mut first = [0; 64];
    let count = child.stdout.as_mut().expect("piped").read(&mut first).expect("it writes");
    assert!(String::from_utf8_lossy(&first[..count]).contains("live"));
    drop(stdin);
    assert!(child.wait().expect("it ends").success());
}

#[test]
fn a_closed_pipe_is_not_an_error() {
    let mut child = barewire()
        .arg("read")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    drop(child.stdout.take());
    let line = b"{\"jsonrpc\":\"2.0\",\"method\":\"m\"}\n".repeat(10_000);
    // The program may end before it has read all input, which is the point.
    let _ = child.stdin.take().expect("piped").write_all(&line);
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}

#[test]
#[cfg(target_os = "linux")]
fn a_full_disk_is_an_error_with_a_sentence() {
    let full = std::fs::File::options().write(true).open("/dev/full").expect("Linux has it");
    let output = barewire().arg("demo").stdout(full).output().expect("it runs");
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).starts_with("barewire: cannot write the output: "));
}

/// Reads 256 MiB in short lines, in one long line and in one deeply nested line, without growing.
#[test]
#[cfg(target_os = "linux")]
fn memory_does_not_grow_with_the_input() {
    let small =
        b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":\"echo\"}}\n".repeat(14_000);
    let long = vec![b'x'; 1 << 20];
    // Lines of one size have their full effect after some of them; of an endless line, one frame is kept. When the first
    // piece is read, the program itself is in memory.
    for (piece, first, rest, most_kib) in [(&small, 16, 240, 1024), (&long, 1, 255, 68 * 1024)] {
        let mut child =
            barewire().args(["read", "--json"]).stdin(Stdio::piped()).stdout(Stdio::null()).spawn().expect("it starts");
        let mut stdin = child.stdin.take().expect("piped");
        let peak = || -> u64 {
            let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).expect("it runs");
            let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("Linux says it");
            peak.trim().trim_end_matches(" kB").parse().expect("a number")
        };
        let mut feed = |count| (0..count).for_each(|_| stdin.write_all(piece).expect("it reads"));
        feed(first);
        let before = peak();
        feed(rest);
        // Linux adds up the pages of all processors only now and then, so a later figure can be lower.
        let grown = peak().saturating_sub(before);
        assert!(grown < most_kib, "{grown} KiB");
        drop(stdin);
        child.wait().expect("it ends");
    }
}
