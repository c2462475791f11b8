//! Every fault does the same with the same seed, and is recorded in the capture.

use std::io::{Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::time::{Duration, Instant};

use super::stage::*;

const INPUT: &str = "{\"n\":1,\"t\":\"é\"}\n{\"n\":2,\"t\":\"ü\"}\n{\"n\":3,\"t\":\"ö\"}\n{\"n\":4,\"t\":\"ß\"}\n";

/// The output of `cat`, and the capture.
fn faulty(name: &str, faults: &[&str], seed: &str) -> (Vec<u8>, Vec<String>) {
    let folder = Folder::new(name);
    let record = folder.file("f.wire");
    let mut options = vec!["--record", record.to_str().expect("UTF-8"), "--seed", seed];
    for fault in faults {
        options.extend(["--fault", fault]);
    }
    let mut child = tap(&options, &["cat"]).spawn().expect("it starts");
    let mut stdin = child.stdin.take().expect("piped");
    // It may be killed before it has read everything.
    let _ = stdin.write_all(INPUT.as_bytes());
    drop(stdin);
    let mut out = Vec::new();
    child.stdout.take().expect("piped").read_to_end(&mut out).expect("it can be read");
    child.wait().expect("it ends");
    (out, lines(&record))
}

#[test]
fn the_same_seed_does_the_same() {
    for fault in [
        "<:split=4",
        "<:coalesce=3@1",
        "<:dribble=10us",
        "<:cut-utf8%50",
        "<:crlf%50",
        "<:bom@every2",
        "<:junk%50",
        "<:truncate%60",
        "<:delay=5ms%50",
        "<:drop%50",
        "<:duplicate=3%50",
        "<:reorder@1",
        "<:half-close@2",
        "<:kill@3",
    ] {
        let once = faulty("seed-a", &[fault], "42");
        let again = faulty("seed-b", &[fault], "42");
        let of_server = |lines: &[String]| -> Vec<String> {
            lines.iter().filter(|line| line.starts_with('<') || line.contains("fault")).cloned().collect()
        };
        assert_eq!(once.0, again.0, "{fault}");
        assert_eq!(of_server(&once.1), of_server(&again.1), "{fault}");
        assert!(once.1.contains(&"@ fault seed 42".to_owned()), "{fault}");
        let name = fault[2..].split(['=', '@', '%']).next().expect("a name");
        assert!(once.1.iter().any(|line| line.starts_with("@ fault < ") && line.contains(name)), "{:#?}", once.1);
    }
}

#[test]
fn every_fault_changes_the_output() {
    let said = |faults: &[&str]| String::from_utf8_lossy(&faulty("ordered", faults, "1").0).into_owned();
    let line = |n: usize| INPUT.split_inclusive('\n').nth(n - 1).expect("a line");
    assert_eq!(said(&["<:drop@2"]), INPUT.replace(line(2), ""));
    assert_eq!(said(&[">:drop@2"]), INPUT.replace(line(2), ""));
    assert_eq!(said(&["duplicate@1"]), line(1).repeat(3) + line(2) + line(3) + line(4));
    assert_eq!(said(&["<:crlf"]), INPUT.replace('\n', "\r\n"));
    assert_eq!(said(&[">:crlf", "<:crlf"]), INPUT.replace('\n', "\r\n"));
    assert_eq!(said(&["<:bom@3"]), INPUT.replace(line(3), &format!("\u{feff}{}", line(3))));
    assert_eq!(said(&["<:junk=Listening on 80@1"]), format!("Listening on 80\n{INPUT}"));
    assert_eq!(said(&["<:truncate=4@4"]), INPUT.replace(line(4), "{\"n\"\n"));
    assert_eq!(said(&["<:reorder@2"]), [line(1), line(3), line(2), line(4)].concat());
    assert_eq!(said(&["<:half-close@2"]), [line(1), line(2)].concat());
    assert_eq!(said(&[">:half-close@2"]), [line(1), line(2)].concat());
    assert_eq!(said(&["<:split=9", ">:dribble=10us", "<:coalesce=2", ">:cut-utf8"]), INPUT);
}

/// A client that waits for a response sends nothing more, so a message that is held for the next one is released.
#[test]
fn held_messages_are_released() {
    for fault in ["<:reorder", "<:coalesce=5"] {
        let mut child = tap(&["--fault", fault], &["cat"]).spawn().expect("it starts");
        let mut stdin = child.stdin.take().expect("piped");
        stdin.write_all(b"{}\n").expect("it reads");
        assert_eq!(read_some(child.stdout.as_mut().expect("piped"), 3), b"{}\n");
        drop(stdin);
        let output = child.wait_with_output().expect("it ends");
        assert!(String::from_utf8_lossy(&output.stderr).starts_with("barewire: the seed of the faults is "));
    }
}

#[test]
fn a_delay_is_one() {
    let start = Instant::now();
    let (out, _) = faulty("delay", &["<:delay=150ms@2"], "1");
    assert_eq!(out, INPUT.as_bytes());
    assert!(start.elapsed() >= Duration::from_millis(150));
}

/// Killed in the middle of an answer: half of it has come, and the tap ends as the program did.
#[test]
fn killed_in_mid_answer() {
    let mut child = tap(&["--fault", "<:kill@1"], &["cat"]).spawn().expect("it starts");
    let mut stdin = child.stdin.take().expect("piped");
    stdin.write_all(b"0123456789\n").expect("it reads");
    assert_eq!(read_some(child.stdout.as_mut().expect("piped"), 100), b"01234");
    assert_eq!(child.wait().expect("it ends").signal(), Some(9));
}

#[test]
fn a_spec_that_is_wrong_is_refused() {
    for spec in ["explode", "<:drop@0", "delay", "!:drop", "<:drop@5-3", "junk=100% wrong"] {
        let output = tap(&["--fault", spec], &["cat"]).output().expect("it runs");
        assert_eq!(output.status.code(), Some(2), "{spec}");
    }
}
