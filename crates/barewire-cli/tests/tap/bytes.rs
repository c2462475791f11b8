//! All bytes are passed on unchanged, in both directions and on stderr.

use std::io::{Read, Write};
use std::thread;

use super::stage::*;

/// Sends `bytes` in pieces through a program that gives them back, and takes what comes out.
fn through(options: &[&str], program: &[&str], bytes: &[u8], piece: usize) -> (Vec<u8>, Vec<u8>) {
    let mut child = tap(options, program).spawn().expect("it starts");
    let mut stdin = child.stdin.take().expect("piped");
    let mut stderr = child.stderr.take().expect("piped");
    let mut stdout = child.stdout.take().expect("piped");
    let copy = bytes.to_vec();
    let sender = thread::spawn(move || copy.chunks(piece.max(1)).try_for_each(|piece| stdin.write_all(piece)));
    let errors = thread::spawn(move || {
        let mut text = Vec::new();
        stderr.read_to_end(&mut text).map(|_| text)
    });
    let mut out = Vec::new();
    stdout.read_to_end(&mut out).expect("it can be read");
    sender.join().expect("no panic").expect("it reads");
    assert!(child.wait().expect("it ends").success());
    (out, errors.join().expect("no panic").expect("it can be read"))
}

#[test]
fn bytes_of_any_kind_come_through_as_they_are() {
    let folder = Folder::new("bytes");
    for (seed, (length, piece)) in (1..).zip([
        (0, 1),
        (1, 1),
        (300, 1),
        (4095, 4095),
        (4096, 4096),
        (4097, 10),
        (65_535, 65_535),
        (65_536, 65_536),
        (65_537, 65_537),
        (1_000_003, 1000),
        (5_000_000, 1_000_000),
    ]) {
        let bytes = noise(seed, length);
        let record = folder.file(&format!("{seed}.wire"));
        let record = record.to_str().expect("UTF-8");
        for options in [&[][..], &["--record", record, "--no-redact"], &["--record", record, "--log", "stderr"]] {
            let (out, _) = through(options, &["cat"], &bytes, piece);
            assert!(out == bytes, "{length} bytes in pieces of {piece} with {options:?}");
        }
    }
}

/// The capture has the bytes of the wire, in both directions.
#[test]
fn a_capture_restores_the_bytes() {
    use barewire_proto::transcript::{Channel, Stream, read, restore};
    let folder = Folder::new("restore");
    let record = folder.file("all.wire");
    let mut bytes = noise(99, 700_000);
    bytes.extend(b"{\"jsonrpc\":\"2.0\"}\r\n\n\r\nno end".repeat(3));
    let (out, _) = through(&["--no-redact", "--record", record.to_str().expect("UTF-8")], &["cat"], &bytes, 10_000);
    assert!(out == bytes);
    let entries = read(&std::fs::read(&record).expect("there is a capture")).expect("it is one");
    for stream in [Stream::ToServer, Stream::ToClient] {
        assert!(restore(&entries, stream, &Channel::default()).expect("it is whole") == bytes, "{stream:?}");
    }
}

/// 64 MiB without a line break: they are not kept, neither by the tap nor in its way.
#[test]
#[cfg(target_os = "linux")]
fn a_line_of_any_length_streams() {
    let folder = Folder::new("long");
    let record = folder.file("long.wire");
    let log = folder.file("log");
    let options = ["--record", record.to_str().expect("UTF-8"), "--log", log.to_str().expect("UTF-8")];
    let mut child = tap(&options, &["cat"]).spawn().expect("it starts");
    let mut stdin = child.stdin.take().expect("piped");
    let mut stdout = child.stdout.take().expect("piped");
    let piece: Vec<u8> = noise(5, 1 << 20).into_iter().map(|byte| if byte == b'\n' { b' ' } else { byte }).collect();
    let sent = piece.clone();
    let sender = thread::spawn(move || {
        for _ in 0..64 {
            stdin.write_all(&sent).expect("it reads");
        }
        stdin.write_all(b"\n").expect("it reads");
        // The memory that it has had, while it is still there.
        stdin
    });
    for count in 0..64 {
        assert!(read_some(&mut stdout, piece.len()) == piece, "mebibyte {count}");
    }
    assert_eq!(read_some(&mut stdout, 1), b"\n");
    let stdin = sender.join().expect("no panic");
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).expect("it runs");
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("Linux says it");
    let peak: u64 = peak.trim().trim_end_matches(" kB").parse().expect("a number");
    assert!(peak < 160 * 1024, "{peak} KiB");
    drop(stdin);
    assert_eq!(read_some(&mut stdout, 1), b"");
    assert!(child.wait().expect("it ends").success());
}

#[test]
fn stderr_comes_through_as_it_is() {
    let folder = Folder::new("stderr");
    let record = folder.file("stderr.wire");
    let bytes = noise(3, 100_000);
    let options = ["--no-redact", "--record", record.to_str().expect("UTF-8")];
    let (out, errors) = through(&options, &sh("cat >&2"), &bytes, 999);
    assert!(out.is_empty() && errors == bytes);
}

/// A message is there before the next one is asked for: nothing waits for more.
#[test]
fn nothing_is_held_back() {
    let mut child = tap(&["--log", "/dev/null"], &["cat"]).spawn().expect("it starts");
    let mut stdin = child.stdin.take().expect("piped");
    let mut stdout = child.stdout.take().expect("piped");
    for piece in [&b"{"[..], b"\"a\":", b"1}", b"\n", b"x"] {
        stdin.write_all(piece).expect("it reads");
        assert_eq!(read_some(&mut stdout, piece.len()), piece);
    }
    drop(stdin);
    assert!(child.wait().expect("it ends").success());
}
