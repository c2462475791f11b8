//! Long bodies: they pass in pieces, and are seen whole.

use std::process::Command;
use std::sync::Mutex;
use std::sync::mpsc;

use super::ends::{Client, PROGRAM, Tap, server};
use super::eventually::eventually;
use super::program_output::ProgramOutput;

/// A long body: what stands at a place follows from the place.
fn filled(buffer: &mut [u8], from: usize) {
    for (index, byte) in buffer.iter_mut().enumerate() {
        let at = from + index;
        *byte = b' ' + u8::try_from((at * 7 + at / 4093) % 90).expect("small");
    }
}

fn is_filled(client: &mut Client, length: usize) -> bool {
    let (mut got, mut expected, mut at) = (vec![0; 65536], vec![0; 65536], 0);
    while at < length {
        let count = client.read(&mut got[..(length - at).min(65536)]);
        filled(&mut expected[..count], at);
        if count == 0 || got[..count] != expected[..count] {
            return false;
        }
        at += count;
    }
    true
}

fn fill(client: &mut Client, length: usize) {
    let mut buffer = vec![0; 65536];
    for at in (0..length).step_by(65536) {
        let piece = &mut buffer[..(length - at).min(65536)];
        filled(piece, at);
        client.send(&piece);
    }
}

/// Secrets in JSON over many lines are in no capture and in no log, in bodies and in events. What passes is what was
/// sent.
#[test]
fn secrets_in_bodies_of_many_lines_are_not_recorded() {
    let config = serde_json::json!({
        "jsonrpc": "2.0",
        "id": 1,
        "method": "x",
        "params": {
            "args": ["--token", "S3cr3t-1"],
            "headers": [{"name": "Authorization", "value": "S3cr3t-2"}],
            "password": ["S3cr3t-3"],
            "secret": {"type": "text", "value": "S3cr3t-4"},
        },
    });
    let pretty = serde_json::to_string_pretty(&config).expect("it can be written");
    let pretty = pretty.replace("\"id\": 1", "\"token\":\n \"S3cr3t-5\",\n \"id\": 1");
    let event = format!("data: {}\n\n", pretty.replace('\n', "\ndata: "));
    let (body, answer) = (pretty.clone(), event.clone());
    let url = server(move |mut client| {
        client.head();
        assert_eq!(client.exactly(body.len()), body);
        let length = answer.len();
        client.send(format!(
            "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: {length}\r\n\r\n{answer}"
        ));
    });
    let log = std::path::PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("tap-http-lines.log");
    let _ = std::fs::remove_file(&log);
    let tap = Tap::with(&url, "lines", &["--log", log.to_str().expect("text")]);
    let mut client = tap.connect();
    let head = format!("POST /mcp HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\n", tap.at);
    client.send(format!("{head}Content-Length: {}\r\n\r\n{pretty}", pretty.len()));
    client.head();
    assert_eq!(client.exactly(event.len()), event);
    let record = tap.end();
    let log = std::fs::read_to_string(log).expect("a log");
    assert!(!record.contains("S3cr3t") && !log.contains("S3cr3t"), "{record}\n{log}");
    assert_eq!(record.matches("\"<redacted-").count(), 10, "{record}");
    assert!(record.contains("data: {") && record.contains("data: }"), "{record}");
}

#[test]
fn large_bodies_pass_both_ways_in_little_memory() {
    const LENGTH: usize = 96 << 20;
    let (checked, is_equal) = mpsc::channel();
    let checked = Mutex::new(checked);
    let url = server(move |mut client| {
        client.head();
        checked.lock().expect("unpoisoned").send(is_filled(&mut client, LENGTH)).expect("the test listens");
        client.send(format!("HTTP/1.1 200 OK\r\ncontent-length: {LENGTH}\r\n\r\n"));
        fill(&mut client, LENGTH);
    });
    let tap = Tap::to(&url, "large");
    let before = tap.most_memory();
    let mut client = tap.connect();
    client.send(format!("POST /mcp HTTP/1.1\r\nHost: {}\r\nContent-Length: {LENGTH}\r\n\r\n", tap.at));
    fill(&mut client, LENGTH);
    assert!(is_equal.recv().expect("it came"), "the server got something else");
    client.head();
    assert!(is_filled(&mut client, LENGTH), "the client got something else");
    // Two buffers of 16 MiB, an unfinished frame of 16 MiB, and half of it again while its buffer grows.
    if let (Some(before), Some(memory)) = (before, tap.most_memory()) {
        assert!(memory - before < 56 * 1024, "{memory} KiB, {before} KiB of them before the bodies");
    }
}

/// Ended streams free the memory of their unfinished frames: 108 MiB in all, where a frame may have 16.
#[test]
fn many_large_responses_are_all_observed() {
    const MANY: usize = 12;
    let body = format!(r#"{{"jsonrpc":"2.0","id":1,"result":"{}"}}"#, "x".repeat(9 << 20));
    let url = server(move |mut client| {
        while !client.head().is_empty() {
            client.exactly(2);
            let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n";
            client.send(format!("{head}content-length: {}\r\n\r\n", body.len()));
            client.send(&body);
        }
    });
    let log = std::path::PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("tap-http-large.log");
    let _ = std::fs::remove_file(&log);
    let tap = Tap::with(&url, "large-answers", &["--log", log.to_str().expect("text")]);
    let mut client = tap.connect();
    for number in 1..=MANY {
        client.send(format!("POST / HTTP/1.1\r\nHost: {}\r\nContent-Length: 2\r\n\r\n{{}}", tap.at));
        let head = client.head();
        let length = head.split("content-length: ").nth(1).and_then(|rest| rest.trim().parse().ok());
        client.exactly(length.expect("a length"));
        // One after the other, so that the observation keeps up.
        let seen = format!(" <x{number} result ");
        eventually(&seen, || std::fs::read_to_string(&log).is_ok_and(|log| log.contains(&seen)));
    }
    let record = tap.record().to_owned();
    tap.end();
    let read = Command::new(PROGRAM).args(["read", "--max-frame", "16777216"]).arg(&record).output();
    let said = ProgramOutput::of(read.expect("it runs"));
    assert!(said.stderr.contains("24 frames"), "{}", said.stderr);
    let _ = std::fs::remove_file(record);
}
