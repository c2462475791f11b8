//! The cost of decoding and parsing, compared with a baseline in the same run.
//!
//! `cargo bench -p barewire-proto` prints two tables: the envelope of four messages against `serde_json` into
//! `RawValue` fields, and line splitting against a bare `memchr` loop. The contenders take turns in short rounds, so
//! that a noisy machine disturbs both alike; a figure is the median of its rounds.
//!
//! `cargo bench -p barewire-proto -- once CASE CONTENDER` runs one of them 1000 times and prints nothing, for `valgrind
//! --tool=callgrind`.

#![allow(clippy::print_stdout, reason = "a program whose output is a table")]

use std::hint::black_box;
use std::io::Read;
use std::time::{Duration, Instant};

use barewire_proto::frame::{Codec, Lines};
use barewire_proto::rpc::{self, Message, Parsed};
use serde::Deserialize;
use serde_json::value::RawValue;

/// The envelope as a careful user of `serde_json` reads it: borrowed, and with unparsed members.
#[derive(Deserialize)]
struct Envelope<'a> {
    jsonrpc: &'a str,
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    method: Option<&'a str>,
    #[serde(borrow)]
    params: Option<&'a RawValue>,
    #[serde(borrow)]
    result: Option<&'a RawValue>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).filter(|arg| arg != "--bench").collect();
    let cases = envelopes();
    let streams = streams();
    match &args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["once", case, contender] => {
            let (_, bytes) = cases.iter().chain(&streams).find(|(name, _)| name == case).expect("a case");
            let run = contenders().into_iter().find(|(name, _)| name == contender).expect("a contender").1;
            (0..1000).for_each(|_| run(black_box(bytes)));
        }
        _ => {
            table("envelope", "serde_json", &cases, ours, serde_json_raw);
            println!();
            table("lines", "bare memchr", &streams, ours_lines, bare_memchr);
            println!();
            let long = vec![("line-64MiB", long_line())];
            table("4 KiB pieces", "one piece", &long, in_pieces, in_one_piece);
        }
    }
}

type Run = fn(&[u8]);

fn contenders() -> [(&'static str, Run); 4] {
    [("barewire", ours), ("serde_json", serde_json_raw), ("lines", ours_lines), ("memchr", bare_memchr)]
}

#[inline(never)]
fn ours(frame: &[u8]) {
    match rpc::parse(frame, rpc::DEFAULT_DEPTH) {
        Parsed::Message(Message::Request(request)) => {
            black_box((request.id, request.method, request.params));
        }
        Parsed::Message(Message::Response(response)) => {
            black_box((response.id, response.outcome.expect("a result")));
        }
        other => panic!("{other:?}"),
    }
}

#[inline(never)]
fn serde_json_raw(frame: &[u8]) {
    let envelope: Envelope<'_> = serde_json::from_slice(frame).expect("JSON");
    assert_eq!(envelope.jsonrpc, "2.0");
    black_box((envelope.id, envelope.method, envelope.params, envelope.result, envelope.error));
}

/// Reads in pieces of 64 KiB, as from a pipe.
fn ours_lines(stream: &[u8]) {
    let mut lines = Lines::default();
    let (mut source, mut buffer, mut total) = (stream, vec![0; PIECE], 0);
    loop {
        let n = source.read(&mut buffer).expect("memory");
        if n == 0 {
            break;
        }
        let mut input = &buffer[..n];
        while let Some(frame) = lines.next_frame(&mut input) {
            total += frame.expect("no line is too long").bytes.len();
        }
    }
    black_box(total);
}

/// The baseline: only the search. The rest of a piece is moved to the front of the buffer.
fn bare_memchr(stream: &[u8]) {
    let (mut source, mut buffer, mut held, mut total) = (stream, vec![0; PIECE], 0, 0);
    loop {
        if held == buffer.len() {
            buffer.resize(2 * held, 0);
        }
        let n = source.read(&mut buffer[held..]).expect("memory");
        if n == 0 {
            break;
        }
        let (mut at, end) = (0, held + n);
        let mut from = held;
        while let Some(newline) = memchr::memchr(b'\n', &buffer[from..end]) {
            total += black_box(&buffer[at..from + newline]).len();
            at = from + newline + 1;
            from = at;
        }
        buffer.copy_within(at..end, 0);
        held = end - at;
    }
    black_box(total);
}

/// Decodes the line in pieces of 4 KiB. Both ways buffer the whole line, because its end comes in a separate piece.
fn in_pieces(line: &[u8]) {
    keep(line.chunks(4096));
}

fn in_one_piece(line: &[u8]) {
    keep(std::iter::once(line));
}

fn keep<'a>(pieces: impl Iterator<Item = &'a [u8]>) {
    let mut lines = Lines::default();
    for mut piece in pieces {
        assert!(lines.next_frame(&mut piece).is_none());
    }
    let mut end = &b"\n"[..];
    black_box(lines.next_frame(&mut end).expect("a line").expect("not too long"));
}

fn long_line() -> Vec<u8> {
    vec![b'x'; 64 << 20]
}

const PIECE: usize = 64 * 1024;

fn envelopes() -> Vec<(&'static str, Vec<u8>)> {
    let call = |text: &str| {
        format!(
            r#"{{"jsonrpc":"2.0","id":12345,"method":"tools/call","params":{{"name":"echo","arguments":{{"text":"{text}"}}}}}}"#
        )
    };
    let padded = |length: usize| call(&"lorem ipsum dolor sit amet, ".repeat(length / 28 + 1)[..length]);
    let tool = |n: usize| {
        format!(
            r#"{{"name":"tool_{n}","title":"Tool number {n}","description":"Does what tool number {n} does, and says how it went.","inputSchema":{{"type":"object","properties":{{"path":{{"type":"string","description":"Where to look"}},"limit":{{"type":"integer","minimum":1,"maximum":1000}},"deep":{{"type":"boolean","default":false}}}},"required":["path"],"additionalProperties":false}},"annotations":{{"readOnlyHint":true,"openWorldHint":false}}}}"#
        )
    };
    let tools: Vec<String> = (0..86).map(tool).collect();
    let list = format!(r#"{{"jsonrpc":"2.0","id":12345,"result":{{"tools":[{}]}}}}"#, tools.join(","));
    vec![
        ("call-135B", call("hello from the other side of the pipe!").into_bytes()),
        ("string-4KiB", padded(4 * 1024).into_bytes()),
        ("string-1MiB", padded(1024 * 1024).into_bytes()),
        ("tools-list-36KB", list.into_bytes()),
    ]
}

fn streams() -> Vec<(&'static str, Vec<u8>)> {
    let [call, four, mega, list] = &envelopes()[..] else { unreachable!() };
    let repeat = |(_, line): &(&str, Vec<u8>), total: usize| [&line[..], b"\n"].concat().repeat(total / line.len());
    vec![
        ("lines-135B", repeat(call, 1 << 20)),
        ("lines-4KiB", repeat(four, 4 << 20)),
        ("lines-36KB", repeat(list, 4 << 20)),
        ("lines-1MiB", repeat(mega, 8 << 20)),
    ]
}

fn table(what: &str, against: &str, cases: &[(&str, Vec<u8>)], ours: Run, theirs: Run) {
    println!("{what:<16} {:>9} {:>14} {against:>14} {:>16}", "bytes", "barewire", "speed, ours/theirs");
    for (name, bytes) in cases {
        let [ours, theirs] = race(bytes, [ours, theirs]);
        let ratio = theirs.as_secs_f64() / ours.as_secs_f64();
        println!("{name:<16} {:>9} {:>14} {:>14} {ratio:>16.2}", bytes.len(), nanos(ours), nanos(theirs));
    }
}

/// The median time of one run each, measured in turns.
fn race(bytes: &[u8], runs: [Run; 2]) -> [Duration; 2] {
    let once = time(bytes, runs[0], 1).max(time(bytes, runs[1], 1));
    let each = (ROUND.as_nanos() / once.as_nanos().max(1)).clamp(1, 100_000);
    let each = u32::try_from(each).expect("clamped");
    let mut rounds = [Vec::new(), Vec::new()];
    for _ in 0..ROUNDS {
        for (run, times) in runs.iter().zip(&mut rounds) {
            times.push(time(bytes, *run, each) / each);
        }
    }
    rounds.map(|mut times| {
        times.sort();
        times[times.len() / 2]
    })
}

fn time(bytes: &[u8], run: Run, count: u32) -> Duration {
    let start = Instant::now();
    (0..count).for_each(|_| run(black_box(bytes)));
    start.elapsed()
}

const ROUND: Duration = Duration::from_millis(5);
const ROUNDS: usize = 101;

fn nanos(time: Duration) -> String {
    format!("{} ns", time.as_nanos())
}
