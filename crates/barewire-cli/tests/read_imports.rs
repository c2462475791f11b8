//! `barewire read` with logs of hosts and HAR files: while they grow, in pipes, and converted to transcripts.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

fn barewire(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_barewire"));
    command.args(args).env("COLUMNS", "").current_dir("tests/cmd/files");
    command
}

fn run(args: &[&str]) -> Output {
    barewire(args).output().expect("it runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn temporary(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("barewire-imports-{}-{name}", std::process::id()))
}

/// A host writes its log while the server runs.
#[test]
fn a_log_that_grows_is_followed() {
    let path = temporary("host.log");
    let mut file = fs::File::create(&path).expect("a file");
    let start = "2026-07-28 09:30:00.000 [info] Starting server shed\n2026-07-28 09:30:00.100 [debug] ";
    writeln!(file, "{start}[editor -> server] {{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}}").expect("room");
    let mut command = barewire(&["read", "--follow"]);
    let mut child = command.arg(&path).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("it starts");
    let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
    let mut next = || lines.next().expect("a line").expect("UTF-8");
    assert!(next().contains("ping"));
    let answer = "2026-07-28 09:30:00.350 [debug] [server -> editor] {\n  \"jsonrpc\": \"2.0\",\n  \"id\": 1,\n";
    file.write_all(answer.as_bytes()).expect("room");
    file.write_all(b"  \"result\": {}\n}\n").expect("room");
    let answer = next();
    assert!(answer.contains("result") && answer.contains("ping") && answer.ends_with("250 ms"), "{answer}");
    child.kill().expect("it still waits");
    child.wait().expect("it ends");
    fs::remove_file(path).expect("it is ours");
}

/// A server that writes log lines to its stdout is at fault, so its lines are shown as they are, and at once.
#[test]
fn the_output_of_a_server_is_not_the_log_of_a_host() {
    let mut command = barewire(&["read"]);
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    let mut stdin = child.stdin.take().expect("piped");
    let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
    for line in ["2026-07-28 09:30:00.000 [info] listening", "Starting"] {
        writeln!(stdin, "{line}").expect("it reads");
        let shown = lines.next().expect("a line").expect("UTF-8");
        assert!(shown.contains("invalid"), "{shown}");
        // The error, an excerpt and a caret.
        assert_eq!(lines.by_ref().take(3).count(), 3);
    }
    drop(stdin);
    assert_eq!(child.wait().expect("it ends").code(), Some(1));
}

#[test]
fn a_log_is_recognized_in_a_pipe() {
    for name in ["claude-desktop.log", "vscode.log"] {
        let mut command = barewire(&["read", "--json"]);
        let log = fs::File::open(format!("tests/cmd/files/{name}")).expect("a file");
        let piped = command.stdin(log).output().expect("it runs");
        assert!(!piped.stdout.is_empty(), "{name}");
        assert_eq!(text(&piped.stdout), text(&run(&["read", "--json", name]).stdout), "{name}");
    }
}

/// The transcript has the same frames and events as the file that it was made from, and the same checks
/// fail.
#[test]
fn a_converted_file_is_read_as_the_original() {
    for name in ["claude-desktop.log", "vscode.log", "session.har"] {
        let path = temporary(&format!("{name}.wire"));
        let converted = run(&["read", "--wire", name]);
        assert_eq!(converted.status.code(), Some(0), "{name}");
        fs::write(&path, converted.stdout).expect("a file");
        let path_text = path.display().to_string();
        let read = |file: &str| text(&run(&["read", "--json", "--events", file]).stdout);
        assert!(read(name).lines().count() > 10, "{name}");
        assert_eq!(read(&path_text), read(name), "{name}");
        let check = |file: &str| {
            let output = run(&["check", file]);
            // The text about a secret says whether the secret was replaced, so only the failed checks are compared.
            let failed: Vec<_> =
                text(&output.stdout).lines().filter(|line| line.starts_with("FAIL")).map(str::to_owned).collect();
            (output.status.code(), failed)
        };
        assert_eq!(check(&path_text), check(name), "{name}");
        assert!(!read(&path_text).contains("Zx81Qw93LmN0pRtYvB2c"), "{name}: the secret is replaced");
        fs::remove_file(path).expect("it is ours");
    }
    assert!(text(&run(&["read", "--wire", "--no-redact", "session.har"]).stdout).contains("Zx81Qw93LmN0pRtYvB2c"));
}

/// Bodies and lines of others are only as long as a frame may be in memory.
#[test]
fn a_line_of_100_mib_is_a_cut_frame() {
    let path = temporary("long.log");
    let mut file = fs::File::create(&path).expect("a file");
    let entry = "2026-07-28 09:30:00.000 [trace] [server -> editor] ";
    write!(file, "{entry}{{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":\"").expect("room");
    let piece = "x".repeat(1 << 20);
    (0..100).for_each(|_| file.write_all(piece.as_bytes()).expect("room"));
    write!(file, "\"}}\n{entry}{{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{{}}}}\n").expect("room");
    let output = barewire(&["read", "--json"]).arg(&path).output().expect("it runs");
    fs::remove_file(path).expect("it is ours");
    let stdout = text(&output.stdout);
    let lines: Vec<_> = stdout.lines().collect();
    assert_eq!((lines.len(), output.status.code()), (2, Some(0)), "{stdout}");
    assert!(lines[0].contains("\"length\":104857636,") && lines[0].contains("\"kind\":\"cut\",\"id\":1"), "{stdout}");
    assert!(lines[1].contains("\"kind\":\"result\",\"id\":2"), "{stdout}");
}

/// `page.har` is what Chromium recorded of a page that talks to `barewire serve`, through Playwright, with fewer headers
/// and tools. The page aborts its GET stream: the server did not end it.
#[test]
fn the_recording_of_a_browser_is_read() {
    let read = run(&["read", "--events", "page.har"]);
    assert_eq!(read.status.code(), Some(0), "{}", text(&read.stderr));
    let shown = text(&read.stdout);
    let has = |words: &[&str]| shown.lines().any(|line| words.iter().all(|word| line.contains(word)));
    assert!(has(&["<x4", "result", "tools/call echo"]), "{shown}");
    // The body is a stream of events, and its first event has no message.
    assert!(has(&["<x5", "notifications/progress", "of frame 8"]), "{shown}");
    assert!(has(&["<x5", "result", "tools/call sleep"]), "{shown}");
    assert!(has(&["@x6", "cut <", "net::ERR_ABORTED"]) && !has(&["@x6", "eof <"]), "{shown}");
    assert!(text(&read.stderr).contains("11 frames, all well formed"), "{}", text(&read.stderr));
    let check = run(&["check", "page.har"]);
    assert_eq!(check.status.code(), Some(0), "{}", text(&check.stdout));
}
