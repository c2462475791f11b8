//! Real sessions of MCP: with a tap they are what they are without.

use std::process::Output;

use super::stage::*;
use crate::program_output::without_slowness;

fn call(what: &[&str], tap: Option<&[&str]>) -> Output {
    let mut command = barewire();
    command.arg("call").args(what).arg("--");
    if let Some(options) = tap {
        command.args([program(), "tap"]).args(options).arg("--");
    }
    command.args([program(), "serve"]).output().expect("it runs")
}

#[test]
fn a_session_through_a_tap_is_the_same() {
    let folder = Folder::new("session");
    let record = folder.file("s.wire");
    let options = ["--overwrite", "--record", record.to_str().expect("UTF-8")];
    for what in [
        &["tools"][..],
        &["resources"],
        &["echo", "text=hello"],
        &["fail", "message=no"],
        &["sleep", "ms=50"],
        &["tools", "--revision", "2025-06-18"],
        &["nothing-of-this-name"],
    ] {
        let direct = call(what, None);
        let tapped = call(what, Some(&options));
        assert_eq!(direct.stdout, tapped.stdout, "{what:?}");
        assert_eq!(said(&direct), said(&tapped), "{what:?}");
        assert_eq!(direct.status, tapped.status, "{what:?}");
        let read = barewire().arg("read").arg(&record).output().expect("it runs");
        assert_eq!(read.status.code(), Some(0), "{}", String::from_utf8_lossy(&read.stdout));
    }
}

/// Its stderr, without what a server says of a machine that is too busy for it.
fn said(output: &std::process::Output) -> String {
    without_slowness(&String::from_utf8_lossy(&output.stderr))
}

/// The log without its times: they are different each time.
fn log(what: &[&str], faults: &[&str]) -> Vec<String> {
    let folder = Folder::new(&format!("log-{}", what[0]));
    let log = folder.file("log");
    let options = [&["--log", log.to_str().expect("UTF-8")], faults].concat();
    call(what, Some(&options));
    let timeless = |line: &str| {
        let words = line.split_whitespace().skip(1).map(|word| match word.parse::<f64>() {
            // Where times are known by their points, numbers of progress are whole.
            Ok(_) if word.contains('.') && !word.ends_with(".0") => "T",
            _ => word,
        });
        words.collect::<Vec<_>>().join(" ")
    };
    text(&log).lines().skip(1).map(timeless).collect()
}

#[test]
fn the_log_pairs_requests_and_responses() {
    let lines = log(&["sleep", "ms=20", "--revision", "2025-06-18"], &[]);
    let has = |begin: &str, end: &str| {
        assert!(lines.iter().any(|line| line.starts_with(begin) && line.ends_with(end)), "{begin}…{end} {lines:#?}");
    };
    has("> request 1 #1 initialize", " B");
    has("< result 1 #1 initialize", "T ms");
    has("> notification notifications/initialized", " B");
    has("< notification notifications/progress of #3 tools/call sleep", "progress 10 of 10");
    has("< result 3 #3 tools/call sleep", "T ms");
    has("@ exit code 0", "");
}

#[test]
fn rounds_are_one_operation_in_the_log() {
    let lines = log(&["greet", "--answer", "name=Ada", "--revision", "2026-07-28"], &[]);
    let of = |end: &str| lines.iter().filter(|line| line.contains(" tools/call greet ") && line.ends_with(end)).count();
    assert_eq!((of("input required"), of("round 2")), (1, 1), "{lines:#?}");
    let last = lines.iter().find(|line| line.contains(", 2 rounds in T ms")).expect("it says so");
    let number = last.split('#').nth(1).and_then(|rest| rest.split(' ').next()).expect("a number");
    let same = lines.iter().filter(|line| line.contains(&format!("#{number} tools/call greet")));
    assert_eq!(same.count(), 4, "{lines:#?}");
}

#[test]
fn unanswered_requests_are_logged_at_the_end() {
    let lines = log(&["echo", "text=x", "--timeout", "0.3"], &["--fault", "<:drop@tools/call"]);
    assert!(
        lines.iter().any(|line| line.contains("unanswered") || line.contains("notifications/cancelled of #")),
        "{lines:#?}"
    );
    let lines = log(&["tools", "--revision", "2025-06-18"], &["--fault", "<:duplicate@2"]);
    assert!(lines.iter().any(|line| line.ends_with("answered before")), "{lines:#?}");
}

#[test]
fn findings_follow_the_message() {
    let folder = Folder::new("findings");
    let log = folder.file("log");
    let options = ["--log", log.to_str().expect("UTF-8")];
    let output = tap(&options, &["sh", "-c", "echo 'listening on stdio'; exec cat >/dev/null"]).output();
    assert!(output.expect("it runs").status.success());
    let text = text(&log);
    let at = text.lines().position(|line| line.ends_with("listening on stdio")).expect("the line is shown");
    let below = text.lines().nth(at + 1).expect("there is more");
    assert!(below.contains(" * ") && below.contains(" stdout-purity (server): "), "{text}");
}
