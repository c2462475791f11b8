//! Fifty different invalid frames among fifty valid calls.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::UnixStream;
use std::thread;

use barewire::peer::{Connection, ConnectionLimits};
use barewire::transport::{Transport, tcp, unix};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::process::{Program, lines};
use super::wire::shown;
use super::{threads, within_deadline, yielding};

/// Frames of at most 256 KiB, which leaves room for a hundred thousand levels.
pub(super) fn limits() -> ConnectionLimits {
    let mut limits = ConnectionLimits::default();
    limits.frame = 256 * 1024;
    limits
}

/// A frame, and the id and the code of its answer.
type Case = (Vec<u8>, String, i64);

fn cases() -> Vec<Case> {
    const SYNTAX: i64 = -32700;
    const INVALID: i64 = -32600;
    let syntax = [
        r#"x"#,
        r#"{"#,
        r#"}"#,
        r#"["#,
        r#"{"jsonrpc":"2.0","id":1,"method":"m""#,
        r#"{"jsonrpc":"2.0","id":1,"method":"m",}"#,
        r#"{"jsonrpc":"2.0","id":1 "method":"m"}"#,
        r#"{'jsonrpc':'2.0'}"#,
        r#"{"jsonrpc":"2.0","id":01,"method":"m"}"#,
        r#"{"jsonrpc":"2.0","id":+1,"method":"m"}"#,
        r#"{"jsonrpc":"2.0","id":1.,"method":"m"}"#,
        r#"{"jsonrpc":"2.0","id":NaN,"method":"m"}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"m"} {}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"\x"}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"m","params":[1,]}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"m","params":{"a"}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"m" /* no */}"#,
        r#"nul"#,
        r#""open"#,
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"a\tb\"}",
    ];
    let shapeless = [
        r#"{}"#,
        r#"[]"#,
        r#"1"#,
        r#"null"#,
        r#""text""#,
        r#"true"#,
        r#"{"jsonrpc":"2.0"}"#,
        r#"{"jsonrpc":"2.0","method":7}"#,
        r#"{"jsonrpc":"2.0","id":null,"method":"m"}"#,
        r#"{"jsonrpc":"2.0","id":true,"method":"m"}"#,
        r#"{"jsonrpc":"2.0","id":[1],"method":"m"}"#,
        r#"{"jsonrpc":"2.0","id":{},"method":"m"}"#,
        r#"{"jsonrpc":"2.0","id":"twice","id":"twice","method":"m"}"#,
    ];
    // `ID` is replaced by a unique id.
    let under_its_id = [
        r#"{"id":ID,"method":"m"}"#,
        r#"{"jsonrpc":"1.0","id":ID,"method":"m"}"#,
        r#"{"jsonrpc":2.0,"id":ID,"method":"m"}"#,
        r#"{"jsonrpc":"2.0","id":ID}"#,
        r#"{"jsonrpc":"2.0","id":ID,"method":null}"#,
        r#"{"jsonrpc":"2.0","id":ID,"method":["m"]}"#,
        r#"{"jsonrpc":"2.0","id":ID,"method":"m","params":1}"#,
        r#"{"jsonrpc":"2.0","id":ID,"method":"m","params":"text"}"#,
        r#"{"jsonrpc":"2.0","id":ID,"method":"m","params":null}"#,
        r#"{"jsonrpc":"2.0","id":ID,"method":"m","result":1}"#,
        r#"{"jsonrpc":"2.0","id":ID,"method":"m","method":"m"}"#,
        r#"{"jsonrpc":"2.0","jsonrpc":"2.0","id":ID,"method":"m"}"#,
        r#"{"jsonrpc":"2.0","id":ID,"method":"m","params":[],"par\u0061ms":[]}"#,
    ];
    let mut cases: Vec<Case> = Vec::new();
    cases.extend(syntax.map(|text| (text.into(), "null".to_owned(), SYNTAX)));
    cases.extend(shapeless.map(|text| (text.into(), "null".to_owned(), INVALID)));
    for (number, text) in (0..).zip(under_its_id) {
        // Ids come back as they were written, so they are written in different ways.
        let id = ["\"bad-N\"", "7000N", "7000N.0", "-N5", "\"\\u00e4-N\"", "N1e300"][number % 6];
        let id = id.replace('N', &(number + 1).to_string());
        cases.push((text.replace("ID", &id).into(), id, INVALID));
    }
    let (open, close) = ("[".repeat(100_000), "]".repeat(100_000));
    let deep = format!(r#"{{"jsonrpc":"2.0","id":"deep","method":"m","params":{open}{close}}}"#);
    cases.push((deep.into(), "\"deep\"".to_owned(), INVALID));
    let long = format!(r#"{{"jsonrpc":"2.0","id":"long","method":"m","params":["{}"]}}"#, "x".repeat(300_000));
    cases.push((long.into(), "\"long\"".to_owned(), INVALID));
    let mut bad_utf8 = br#"{"jsonrpc":"2.0","id":"utf-8","method":"m","params":["#.to_vec();
    bad_utf8.extend_from_slice(b"\"\xff\xc0\x80\"]}");
    cases.push((bad_utf8, "\"utf-8\"".to_owned(), SYNTAX));
    cases.push((b"\xff\xfe\x00".to_vec(), "null".to_owned(), SYNTAX));
    assert_eq!(cases.len(), 50);
    cases
}

/// Sends all frames, and checks all answers.
fn exchange(mut to: impl Write + Send + 'static, from: impl Read, close: impl FnOnce() + Send + 'static) {
    let cases = cases();
    let mut input = Vec::new();
    for (number, (frame, ..)) in cases.iter().enumerate() {
        input.extend_from_slice(frame);
        input.push(b'\n');
        let call = format!(r#"{{"jsonrpc":"2.0","id":"call-{number}","method":"m","params":[{number}]}}"#);
        input.extend_from_slice(call.as_bytes());
        input.push(b'\n');
    }
    let sending = thread::spawn(move || {
        to.write_all(&input).expect("it reads");
        drop(to);
        close();
    });
    let mut answers: Vec<(String, Option<i64>)> = lines(from).map(|line| answer(&line.expect("it writes"))).collect();
    sending.join().expect("no panic");
    let mut expected: Vec<(String, Option<i64>)> = cases.into_iter().map(|(_, id, code)| (id, Some(code))).collect();
    expected.extend((0..50).map(|number| (format!("\"call-{number}\""), None)));
    answers.sort();
    expected.sort();
    assert_eq!(answers, expected);
}

/// The id of an answer as it is written, and its code if it is an error.
fn answer(line: &[u8]) -> (String, Option<i64>) {
    #[derive(Deserialize)]
    struct Answer<'a> {
        #[serde(borrow)]
        id: &'a RawValue,
        result: Option<Value>,
        error: Option<Value>,
    }
    let Answer { id, result, error } =
        serde_json::from_slice(line).unwrap_or_else(|error| panic!("{error}: {}", shown(line)));
    assert!(result.is_some() != error.is_some(), "{}", shown(line));
    (id.get().to_owned(), error.map(|error| error["code"].as_i64().expect("a code")))
}

#[test]
fn fifty_invalid_frames_among_fifty_calls_over_stdio() {
    let mut program = Program::role("short frames");
    let stdin = program.stdin.take().expect("piped");
    exchange(stdin, program.stdout.take().expect("piped"), || {});
    assert_eq!(program.ends().code(), Some(0));
}

async fn serve(transport: impl Transport, client: impl FnOnce() + Send + 'static) {
    let connection = Connection::new(transport).methods(yielding()).limits(limits());
    let running = tokio::spawn(connection.run());
    within_deadline("the exchange", tokio::task::spawn_blocking(client)).await.expect("no panic");
    within_deadline("the end", running).await.expect("no panic").expect("a clean end");
}

#[test]
fn fifty_invalid_frames_among_fifty_calls_over_sockets() {
    threads().block_on(async {
        let port = tcp::listen("127.0.0.1:0").await.expect("a free port");
        let socket = TcpStream::connect(port.local_addr().expect("bound")).expect("it listens");
        serve(port.accept().await, move || {
            let half = socket.try_clone().expect("a socket");
            let to = socket.try_clone().expect("a socket");
            exchange(to, socket, move || half.shutdown(Shutdown::Write).expect("connected"));
        })
        .await;

        let path = std::env::temp_dir().join(format!("barewire-invalid-{}", std::process::id()));
        let local = unix::listen(&path).await.expect("free");
        let socket = UnixStream::connect(&path).expect("it listens");
        serve(local.accept().await, move || {
            let half = socket.try_clone().expect("a socket");
            let to = socket.try_clone().expect("a socket");
            exchange(to, socket, move || half.shutdown(Shutdown::Write).expect("connected"));
        })
        .await;
    });
}
