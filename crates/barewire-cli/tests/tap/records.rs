//! Captures and logs: redacted, private, and never a hindrance to the relay.

use std::fs::{self, Permissions};
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::process::Output;
use std::time::{Duration, Instant};

use super::stage::*;

/// Sends lines through `cat`.
fn cat(options: &[&str], lines: &str) -> Output {
    let mut child = tap(options, &["cat"]).spawn().expect("it starts");
    child.stdin.take().expect("piped").write_all(lines.as_bytes()).expect("it reads");
    child.wait_with_output().expect("it ends")
}

#[test]
fn a_capture_is_private() {
    let folder = Folder::new("private");
    let record = folder.file("new.wire");
    let path = record.to_str().expect("UTF-8");
    let mode = || fs::metadata(&record).expect("it is there").permissions().mode() & 0o777;
    assert!(cat(&["--record", path], "x\n").status.success());
    assert_eq!(mode(), 0o600);
    fs::set_permissions(&record, Permissions::from_mode(0o644)).expect("it is ours");
    assert!(cat(&["--record", path, "--overwrite"], "y\n").status.success());
    assert_eq!(mode(), 0o600);
    let mut lines = lines(&record);
    assert_eq!((&*lines[0], &*lines[lines.len() - 1]), ("@ open cat", "@ exit code 0"));
    lines.sort();
    assert_eq!(lines, ["< y", "> y", "@ eof !", "@ eof <", "@ eof >", "@ exit code 0", "@ open cat"]);
}

#[test]
fn nothing_but_a_capture_is_overwritten() {
    let folder = Folder::new("overwrite");
    let record = folder.file("letter.txt");
    fs::write(&record, "dear reader\n").expect("it can be written");
    let output = cat(&["--record", record.to_str().expect("UTF-8")], "passed on\n");
    assert!(output.status.success());
    assert_eq!(output.stdout, b"passed on\n");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("the file exists and is not a capture; everything is still passed on\nhint: "), "{said}");
    assert_eq!(text(&record), "dear reader\n");
    for capture in ["", "wire 1\n", "wire 1\r\n", "wire 1 a=b\n> x\n"] {
        fs::write(&record, capture).expect("it can be written");
        assert!(cat(&["--overwrite", "--record", record.to_str().expect("UTF-8")], "").status.success());
        assert!(text(&record).starts_with("wire 1 started=2"), "{capture:?}");
    }
    fs::write(&record, "wire 15 is the red one\n").expect("it can be written");
    assert!(cat(&["--record", record.to_str().expect("UTF-8")], "").status.success());
    assert_eq!(text(&record), "wire 15 is the red one\n");
}

/// A log is appended to a log, and to nothing else.
#[test]
fn only_to_a_log_is_a_log_appended() {
    let folder = Folder::new("append");
    let log = folder.file("letter.txt");
    let path = log.to_str().expect("UTF-8");
    fs::write(&log, "dear reader\n").expect("it can be written");
    let output = cat(&["--log", path], "passed on\n");
    assert!(output.status.success());
    assert_eq!(output.stdout, b"passed on\n");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("the file exists and is not a log; everything is still passed on\nhint: "), "{said}");
    assert_eq!(text(&log), "dear reader\n");
    fs::remove_file(&log).expect("it is ours");
    for times in 1..=2 {
        assert!(cat(&["--log", path], "{}\n").status.success());
        assert_eq!(text(&log).matches("# barewire ").count(), times);
    }
    let output = cat(&["--log", folder.file("no/such/log").to_str().expect("UTF-8")], "passed on\n");
    assert!(output.status.success());
    assert_eq!(output.stdout, b"passed on\n");
}

/// A host that gives up on a server that says nothing kills it: what was started when is written down by then.
#[test]
fn the_header_is_written_first() {
    let folder = Folder::new("beginning");
    let record = folder.file("b.wire");
    let options = ["--record".as_ref(), record.as_os_str()];
    let mut child = tap(&options, &sh("echo ready >&2; exec cat")).spawn().expect("it starts");
    let mut ready = [0; 6];
    child.stderr.as_mut().expect("piped").read_exact(&mut ready).expect("it starts");
    let first = lines(&record);
    assert_eq!(first[0], "@ open sh -c 'echo ready >&2; exec cat'");
    end(child);
}

/// A host that restarts a crashed server starts its tap again: the capture of the crash is kept.
#[test]
fn a_capture_is_kept_and_the_next_one_is_numbered() {
    let folder = Folder::new("kept");
    let record = folder.file("s.wire");
    let options = ["--record", record.to_str().expect("UTF-8")];
    let has = |name: &str, line: &str| lines(&folder.file(name)).contains(&format!("> {line}"));
    for (name, line) in [("s.wire", "one"), ("s.2.wire", "two"), ("s.3.wire", "three")] {
        let said = String::from_utf8(cat(&options, &format!("{line}\n")).stderr).expect("UTF-8");
        let file = folder.file(name);
        let expected =
            format!("barewire: recording to {}, because {} is another capture\n", file.display(), options[1]);
        assert_eq!(said, if name == "s.wire" { String::new() } else { expected });
        assert!(has(name, line), "{:#?}", lines(&file));
    }
    assert!(has("s.wire", "one") && has("s.2.wire", "two"), "the earlier captures are kept");
    // The highest number is the newest capture, even if an earlier one was deleted.
    fs::remove_file(folder.file("s.2.wire")).expect("it is ours");
    cat(&options, "four\n");
    assert!(has("s.4.wire", "four") && !folder.file("s.2.wire").exists());
    // An empty file, as mktemp makes it, has nothing to keep.
    fs::write(&record, "").expect("it is ours");
    assert!(cat(&options, "five\n").stderr.is_empty() && has("s.wire", "five"));
    assert!(cat(&[&options[..], &["--overwrite"]].concat(), "six\n").stderr.is_empty() && has("s.wire", "six"));
    // A name without an extension, and one with several.
    for (name, next) in [("plain", "plain.2"), ("a.b.wire", "a.b.2.wire"), (".hidden", ".hidden.2")] {
        let file = folder.file(name);
        for _ in 0..2 {
            assert!(cat(&["--record", file.to_str().expect("UTF-8")], "x\n").status.success());
        }
        assert!(has(name, "x") && has(next, "x"), "{next}");
    }
}

#[test]
fn taps_that_start_at_once_get_different_files() {
    let folder = Folder::new("at-once");
    let record = folder.file("s.wire");
    fs::write(&record, "wire 1\n> the evidence\n").expect("it can be written");
    let options = ["--record", record.to_str().expect("UTF-8")];
    let all: Vec<_> = (0..8).map(|_| tap(&options, &["cat"]).spawn().expect("it starts")).collect();
    for (number, mut child) in all.into_iter().enumerate() {
        let mut stdin = child.stdin.take().expect("piped");
        stdin.write_all(format!("tap {number}\n").as_bytes()).expect("it reads");
        drop(stdin);
        assert!(child.wait().expect("it ends").success());
    }
    assert_eq!(text(&record), "wire 1\n> the evidence\n");
    let inputs = |number: usize| -> Vec<String> {
        lines(&folder.file(&format!("s.{number}.wire"))).into_iter().filter(|line| line.starts_with('>')).collect()
    };
    let mut found: Vec<Vec<String>> = (2..10).map(inputs).collect();
    found.sort();
    let expected: Vec<Vec<String>> = (0..8).map(|number| vec![format!("> tap {number}")]).collect();
    assert_eq!(found, expected, "each tap has a file of its own");
}

#[test]
fn two_taps_do_not_write_to_one_file() {
    let folder = Folder::new("twice");
    let record = folder.file("same.wire");
    let options = ["--overwrite", "--record", record.to_str().expect("UTF-8")];
    let mut first = tap(&options, &["cat"]).spawn().expect("it starts");
    let mut stdin = first.stdin.take().expect("piped");
    stdin.write_all(b"first\n").expect("it reads");
    read_some(first.stdout.as_mut().expect("piped"), 6);
    let second = cat(&options, "second\n");
    assert!(String::from_utf8_lossy(&second.stderr).contains("recording to "));
    drop(stdin);
    assert!(first.wait().expect("it ends").success());
    assert!(lines(&record).contains(&"> first".to_owned()));
    assert!(lines(&folder.file("same.2.wire")).contains(&"> second".to_owned()));
    let each = cat(&["--record", folder.file("%p-%%.wire").to_str().expect("UTF-8")], "");
    assert!(each.status.success());
    let names: Vec<_> = fs::read_dir(folder.file("")).expect("a folder").flatten().map(|it| it.file_name()).collect();
    assert!(names.iter().any(|name| name.to_string_lossy().ends_with("-%.wire")), "{names:?}");
}

#[test]
fn secrets_are_not_recorded() {
    let folder = Folder::new("secrets");
    let (record, log) = (folder.file("s.wire"), folder.file("log"));
    let paths = [record.to_str().expect("UTF-8"), log.to_str().expect("UTF-8")];
    let options = ["--record", paths[0], "--log", paths[1]];
    let message = concat!(
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"_meta":{"progressToken":"p1"},"#,
        r#""arguments":{"api_key":"hunter2hunter2","note":"hunter3hunter3"}}}"#,
    );
    let run = |options: &[&str]| {
        let program = [&sh("cat; echo token=hunter2hunter2 >&2")[..], &["sh", "--token", "hunter4"]].concat();
        let mut command = tap(options, &program);
        let mut child = command.env("MY_SECRET", "hunter3hunter3").spawn().expect("it starts");
        let mut stdin = child.stdin.take().expect("piped");
        writeln!(stdin, "{message}").expect("it reads");
        drop(stdin);
        let output = child.wait_with_output().expect("it ends");
        assert_eq!(String::from_utf8_lossy(&output.stdout), format!("{message}\n"), "the wire is not redacted");
    };
    run(&options);
    let written = text(&record) + &text(&log);
    assert!(!written.contains("hunter"), "{written}");
    let redacted = message.replace("hunter2hunter2", "<redacted-2>").replace("hunter3hunter3", "<redacted-3>");
    let open = "@(redacted) open sh -c 'cat; echo token=<redacted-1> >&2' sh --token <redacted-2>";
    let lines = lines(&record);
    assert_eq!(lines[0], open);
    // The number of a secret is the same wherever it stands.
    let again = redacted.replace("<redacted-2>", "<redacted-1>");
    assert!(lines.contains(&format!(">(redacted) {again}")), "{lines:#?}");
    assert!(lines.contains(&"!(redacted) token=<redacted-1>".to_owned()), "{lines:#?}");
    assert!(again.contains("\"progressToken\":\"p1\""));
    run(&[&options[..], &["--no-redact", "--overwrite"]].concat());
    assert!(text(&record).contains("hunter2hunter2") && text(&record).contains("hunter3hunter3"));
}

#[test]
#[cfg(target_os = "linux")]
fn a_full_disk_does_not_block() {
    let bytes = "{\"jsonrpc\":\"2.0\",\"method\":\"m\"}\n".repeat(20_000);
    for option in ["--record", "--log"] {
        let mut child = tap(&[option, "/dev/full"], &["cat"]).spawn().expect("it starts");
        let mut stdin = child.stdin.take().expect("piped");
        let sent = bytes.clone();
        let sender = std::thread::spawn(move || stdin.write_all(sent.as_bytes()));
        let mut out = String::new();
        child.stdout.take().expect("piped").read_to_string(&mut out).expect("it can be read");
        sender.join().expect("no panic").expect("it reads");
        assert!(out == bytes);
        let output = child.wait_with_output().expect("it ends");
        assert!(output.status.success());
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(said.matches("No space left on device").count(), 1, "{said}");
        assert!(said.contains("everything is still passed on"), "{said}");
    }
}

/// A pipe without a reader stands for a disk that hangs. A host ends a server that takes longer than two seconds to end;
/// the tap needs half of that, so a machine that is very busy gets a few tries.
#[test]
fn a_capture_that_hangs_does_not_block() {
    let mut took = Vec::new();
    while took.last().is_none_or(|took| *took >= Duration::from_millis(1900)) {
        assert!(took.len() < 4, "a host would have killed it: {took:?}");
        took.push(end_with_a_capture_that_hangs());
    }
}

/// Returns the time from the end of the input to the end of the tap.
fn end_with_a_capture_that_hangs() -> Duration {
    let folder = Folder::new("hangs");
    let pipe = folder.file("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().expect("it runs").success());
    let _reader = fs::File::options().read(true).write(true).open(&pipe).expect("it is there");
    let mut child = tap(&["--record".as_ref(), pipe.as_os_str()], &["cat"]).spawn().expect("it starts");
    let mut stdin = child.stdin.take().expect("piped");
    let mut stdout = child.stdout.take().expect("piped");
    let line = "x".repeat(99_999) + "\n";
    // More than the pipe, the tape and the observer can hold.
    for _ in 0..600 {
        stdin.write_all(line.as_bytes()).expect("it reads");
        assert_eq!(read_some(&mut stdout, line.len()).len(), line.len());
    }
    drop(stdin);
    let closed = Instant::now();
    let output = child.wait_with_output().expect("it ends");
    let took = closed.elapsed();
    assert!(output.status.success());
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("the end of the capture is missing"), "{said}");
    took
}

/// Only messages go to stdout, and a capture is no log.
#[test]
fn a_file_in_use_is_refused() {
    for option in ["--record", "--log"] {
        let output = cat(&[option, "/dev/stdout"], "x\n");
        assert_eq!(output.stdout, b"x\n");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains("it is stdout, which is for messages only"), "{said}");
    }
    let folder = Folder::new("both");
    let file = folder.file("s.wire");
    let name = file.to_str().expect("UTF-8");
    let output = cat(&["--record", name, "--log", name], "x\n");
    assert_eq!(output.stdout, b"x\n");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("the capture is written there"), "{said}");
    assert!(text(&file).starts_with("wire 1") && lines(&file).ends_with(&["@ exit code 0".to_owned()]));
    assert!(!text(&file).contains(" tap, "), "{}", text(&file));
}

#[test]
fn a_log_without_a_reader_does_not_block() {
    let folder = Folder::new("socket");
    let path = folder.file("log.sock");
    let listener = UnixListener::bind(&path).expect("it can be bound");
    let target = format!("unix:{}", path.display());
    let mut child = tap(&["--log", &target], &["cat"]).spawn().expect("it starts");
    let (mut log, _) = listener.accept().expect("the tap connects");
    let mut stdin = child.stdin.take().expect("piped");
    let mut stdout = child.stdout.take().expect("piped");
    let line = b"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\"}\n".repeat(500);
    for _ in 0..100 {
        stdin.write_all(&line).expect("it reads");
        assert_eq!(read_some(&mut stdout, line.len()).len(), line.len());
    }
    drop(stdin);
    assert!(child.wait().expect("it ends").success());
    let mut first = [0; 11];
    log.read_exact(&mut first).expect("something was written");
    assert_eq!(&first, b"# barewire ");
}

#[test]
fn a_log_without_a_listener_does_not_block() {
    let folder = Folder::new("nobody");
    let target = format!("unix:{}", folder.file("no.sock").display());
    let output = cat(&["--log", &target], "x\n");
    assert!(output.status.success());
    assert_eq!((&*output.stdout, &*output.stderr), (&b"x\n"[..], &b""[..]));
}
