//! The blocking connection: the transcripts of `testdata/serve` (`>` is sent, `<` is the expected output), and tests
//! that transcripts cannot express.

mod log;

use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};

use barewire::Error;
use barewire::blocking::{Conn, Failure, IncomingCall, pipe};
use barewire::{Code, ErrorObject};
use barewire_proto::transcript::{Channel, Entry, Recorder, Stream, read, restore};
use log::Log;
use serde_json::{Value, json};

/// The methods of JSON-RPC 2.0, section 7, and one for every way to fail.
fn handle(call: &mut IncomingCall<'_>) -> Result<Value, Failure> {
    match call.method() {
        "subtract" => {
            let named = call.params::<Named>();
            let (a, b) = match named {
                Ok(Named { minuend, subtrahend }) => (minuend, subtrahend),
                Err(_) => call.params()?,
            };
            Ok(json!(a - b))
        }
        "sum" => Ok(json!(call.params::<Vec<i64>>()?.iter().sum::<i64>())),
        "get_data" => Ok(json!(["hello", 5])),
        "update" | "notify_hello" | "notify_sum" => Ok(Value::Null),
        "echo" => Ok(call.raw_params().map_or(Value::Null, |params| serde_json::from_str(params).expect("JSON"))),
        "work" => {
            call.notify("notifications/progress", &json!({"progress": 1}))?;
            call.notify("notifications/progress", &json!({"progress": 2}))?;
            Ok(json!("done"))
        }
        "parse" => Ok(json!("not a number".parse::<i64>()?)),
        "refuse" => Err(ErrorObject::new(Code::application(7).expect("free"), "I would rather not"))?,
        "bad_notify" => {
            call.notify("n", &json!("a string"))?;
            Ok(Value::Null)
        }
        "panic" => panic!("on purpose"),
        _ => Err(Failure::method_not_found()),
    }
}

#[derive(serde::Deserialize)]
struct Named {
    minuend: i64,
    subtrahend: i64,
}

/// A reader that returns its bytes in pieces of the given size.
struct Pieces<'a>(&'a [u8], usize);

impl Read for Pieces<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.1.min(buffer.len()).min(self.0.len());
        buffer[..count].copy_from_slice(&self.0[..count]);
        self.0 = &self.0[count..];
        Ok(count)
    }
}

#[test]
fn transcripts() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/serve");
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(folder).expect("testdata").map(|f| f.expect("a file").path()).collect();
    files.sort();
    assert!(files.len() >= 3);
    for file in files {
        let text = std::fs::read(&file).expect("readable");
        let entries = read(&text).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        let channel = Channel::default();
        let mut new = Vec::new();
        let mut rest = entries.iter().peekable();
        let mut all = (Vec::new(), Vec::new());
        while let Some(entry) = rest.next() {
            if matches!(entry, Entry::Bytes(b) if b.stream == Stream::ToClient) {
                continue;
            }
            new.push(entry.clone());
            let next_goes_in = matches!(rest.peek(), Some(Entry::Bytes(b)) if b.stream == Stream::ToServer);
            if let (Entry::Bytes(_), false) = (entry, next_goes_in) {
                let start = new.iter().rposition(|e| !matches!(e, Entry::Bytes(_))).map_or(0, |at| at + 1);
                let input = restore(&new[start..], Stream::ToServer, &channel).expect("whole");
                let mut recorder = Recorder::new(Stream::ToClient, channel.clone(), usize::MAX);
                let output = serve(&input, usize::MAX);
                assert_eq!(serve(&input, 1), output, "byte by byte");
                recorder.push(&output, None, &mut new);
                assert_eq!(output.last().copied().unwrap_or(b'\n'), b'\n', "whole lines only");
                all.0.extend_from_slice(&input);
                all.1.extend_from_slice(&output);
                // A case that ends without a newline ends the stream.
                if !input.ends_with(b"\n") {
                    all.0.push(b'\n');
                }
            }
        }
        assert_eq!(serve(&all.0, 7), all.1, "{}: all in one stream", file.display());
        let mut blessed = String::new();
        new.iter().for_each(|entry| entry.write(&mut blessed));
        if std::env::var_os("BLESS").is_some() {
            std::fs::write(&file, &blessed).expect("writable");
            continue;
        }
        let text = String::from_utf8(text).expect("checked");
        for (number, (expected, actual)) in (1..).zip(text.lines().zip(blessed.lines())) {
            assert_eq!(actual, expected, "{}:{number}", file.display());
        }
        assert_eq!(text.lines().count(), blessed.lines().count(), "{}", file.display());
    }
}

fn serve(input: &[u8], piece: usize) -> Vec<u8> {
    let mut output = Vec::new();
    Conn::new(Pieces(input, piece), &mut output).max_frame(2000).serve(handle).expect("memory does not fail");
    output
}

/// A writer that records each `write`.
#[derive(Clone, Default)]
struct Writes(Arc<Mutex<Vec<String>>>);

impl Write for Writes {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("no panic").push(String::from_utf8(bytes.to_vec()).expect("UTF-8"));
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn answers_are_written_together_and_notifications_at_once() {
    let ping = r#"{"jsonrpc":"2.0","id":1,"method":"get_data"}"#;
    let work = r#"{"jsonrpc":"2.0","id":2,"method":"work"}"#;
    let input = format!("{ping}\n{ping}\n{work}\n{ping}\n");
    let writes = Writes::default();
    Conn::new(input.as_bytes(), writes.clone()).serve(handle).expect("memory");
    let writes = writes.0.lock().expect("no panic");
    let lines = |write: &String| write.lines().count();
    // The two answers before the first notification are written with it, and the order is kept.
    assert_eq!(writes.iter().map(lines).collect::<Vec<_>>(), [3, 1, 2], "{writes:?}");
}

#[test]
fn every_bad_line_is_logged_once_and_escaped() {
    let log = Log::default();
    let input = b"\x1b[31mred\n{\"jsonrpc\":\"2.0\",\"method\":7}\n\nnonsense\n";
    Conn::new(&input[..], io::sink()).serve(handle).expect("memory");
    let log = log.text();
    let lines: Vec<&str> = log.lines().collect();
    assert_eq!(lines.len(), 3, "{log}");
    assert!(lines[0].contains("offset=0 ") && lines[0].contains("\\x1b[31mred"), "{log}");
    assert!(lines[1].contains("offset=9 ") && lines[1].contains("-32600"), "{log}");
    assert!(lines[2].contains("nonsense") && lines[2].contains("-32700"), "{log}");
}

#[test]
fn a_flood_of_bad_lines_does_not_flood_the_log() {
    let log = Log::default();
    let input = "nonsense\n".repeat(10_000);
    let mut output = Vec::new();
    Conn::new(input.as_bytes(), &mut output).serve(handle).expect("memory");
    assert_eq!(output.split(|b| *b == b'\n').count() - 1, 10_000, "every one is answered");
    let log = log.text();
    assert!(log.lines().count() < 2000, "{}", log.lines().count());
    assert!(log.contains("more events were not logged"));
}

#[test]
fn a_subscriber_that_panics_does_not_affect_the_connection() {
    struct Panics;
    impl tracing::Subscriber for Panics {
        fn enabled(&self, _: &tracing::Metadata<'_>) -> bool {
            true
        }
        fn event(&self, _: &tracing::Event<'_>) {
            panic!("the disk is full");
        }
        fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
            tracing::span::Id::from_u64(1)
        }
        fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}
        fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}
        fn enter(&self, _: &tracing::span::Id) {}
        fn exit(&self, _: &tracing::span::Id) {}
    }
    let _guard = tracing::subscriber::set_default(Panics);
    let mut output = Vec::new();
    Conn::new(&b"nonsense\nmore\n"[..], &mut output).serve(handle).expect("memory");
    assert_eq!(output.split(|b| *b == b'\n').count() - 1, 2, "both are answered");
}

#[test]
fn the_cost_of_a_batch_is_bounded() {
    type BatchConn<'a> = Conn<&'a [u8], &'a mut Vec<u8>>;
    fn serve(set: for<'a> fn(BatchConn<'a>) -> BatchConn<'a>, input: &str) -> (String, usize) {
        let (mut output, log) = (Vec::new(), Log::default());
        let conn = Conn::new(input.as_bytes(), &mut output);
        set(conn).serve(handle).expect("memory");
        let logged = log.text().lines().count();
        (String::from_utf8(output).expect("UTF-8"), logged)
    }
    let million = format!("[{}1]", "1,".repeat(999_999));
    let (answer, logged) = serve(|conn| conn, &million);
    assert!(answer.contains("\"rule\":\"batch-too-long\"") && answer.lines().count() == 1, "{answer}");
    assert_eq!(logged, 1);
    let (answer, logged) = serve(|conn| conn, "[1,2,3]");
    assert_eq!((answer.matches("not-an-object").count(), answer.lines().count(), logged), (3, 1, 1), "{answer}");

    let pair = r#"[{"jsonrpc":"2.0","id":1,"method":"get_data"},{"jsonrpc":"2.0","id":"b","method":"get_data"}]"#;
    let (answer, logged) = serve(|conn| conn.refuse_batches(), pair);
    assert_eq!((answer.matches("batch-not-allowed").count(), answer.lines().count(), logged), (2, 2, 1), "{answer}");
    assert!(answer.contains(r#""id":"b""#) && !answer.contains('['), "{answer}");
    let (answer, _) = serve(|conn| conn.max_batch(1), pair);
    assert!(answer.contains("batch-too-long"), "{answer}");
}

#[test]
fn a_peer_that_stops_reading_ends_the_loop_with_an_error() {
    let (reader, writer) = pipe(64);
    drop(reader);
    let input = r#"{"jsonrpc":"2.0","id":1,"method":"work"}"#;
    let error = Conn::new(input.as_bytes(), writer).serve(handle).expect_err("the reader is dropped");
    assert!(matches!(&error, Error::Io(error) if error.kind() == io::ErrorKind::BrokenPipe), "{error}");
}

#[test]
fn a_conversation_over_pipes() {
    let (server_reads, mut client_writes) = pipe(16);
    let (client_reads, server_writes) = pipe(16);
    let server = std::thread::spawn(move || Conn::new(server_reads, server_writes).serve(handle));
    let mut answers = BufReader::new(client_reads).lines();
    for n in 0..50 {
        writeln!(client_writes, r#"{{"jsonrpc":"2.0","id":{n},"method":"subtract","params":[{n},1]}}"#).expect("room");
        let answer = answers.next().expect("an answer").expect("UTF-8");
        assert_eq!(answer, format!(r#"{{"jsonrpc":"2.0","id":{n},"result":{}}}"#, n - 1));
    }
    drop(client_writes);
    assert!(answers.next().is_none(), "the end of the stream ends the server");
    server.join().expect("no panic").expect("a clean end");
}

/// The example as a real process on real pipes.
#[test]
fn the_example_serves_a_process_on_the_other_side() {
    let mut program = std::env::current_exe().expect("this test");
    program.pop();
    program.pop();
    let mut child = Command::new(program.join("examples/calculator"))
        .env_remove("CALCULATOR")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("cargo test builds the examples");
    let mut stdin = child.stdin.take().expect("piped");
    let mut stdout = BufReader::new(child.stdout.take().expect("piped")).lines();
    let mut write = |bytes: &[u8]| stdin.write_all(bytes).and_then(|()| stdin.flush()).expect("it reads");
    let mut read_line = || stdout.next().expect("a line").expect("UTF-8");

    write(br#"{"jsonrpc":"2.0","id":"\u0061","method":"add","#);
    write(b"\"params\":{\"a\":1,\"b\":2}}\r");
    write(b"\n");
    assert_eq!(read_line(), r#"{"jsonrpc":"2.0","id":"\u0061","result":3.0}"#);
    write(b"\xff\xfe\n{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"count\",\"params\":{\"to\":1}}\n");
    assert!(read_line().starts_with(r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700"#));
    assert_eq!(read_line(), r#"{"jsonrpc":"2.0","method":"counted","params":{"n":1}}"#);
    assert_eq!(read_line(), r#"{"jsonrpc":"2.0","id":2,"result":1}"#);
    write(b"{\"jsonrpc\":\"2.0\",\"id\":3,\"method\":\"environment\"}\n");
    assert!(read_line().contains(r#""data":{"exception":"VarError"}"#));
    // The last line needs no newline.
    write(br#"{"jsonrpc":"2.0","id":4,"method":"divide","params":{"a":1,"b":0}}"#);
    drop(stdin);
    assert!(stdout.next().expect("a line").expect("UTF-8").contains("-32602"));
    assert!(stdout.next().is_none());
    assert!(child.wait().expect("it ends").success());
    let mut log = String::new();
    child.stderr.take().expect("piped").read_to_string(&mut log).expect("UTF-8");
    assert_eq!(log.lines().count(), 2, "{log}");
}
