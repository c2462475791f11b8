//! `barewire tap --http`: a proxy between real sockets, and what it writes down.
#![cfg(unix)]

#[path = "tap_http/bodies.rs"]
mod bodies;
#[path = "tap_http/ends.rs"]
pub(crate) mod ends;
use crate::eventually;
use crate::program_output;
#[path = "tap_http/refused.rs"]
mod refused;

use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::sync::{Arc, Barrier, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use ends::{PROGRAM, Served, Tap, server};
use eventually::eventually;
use program_output::ProgramOutput;

const TOKEN: &str = "BAREWIRE_TEST_TOKEN";
const SECRET: &str = "open-sesame-0815";
/// Longer than anything takes, even on a busy machine.
const HANGS: Duration = Duration::from_secs(120);

fn call(url: &str, options: &[&str]) -> ProgramOutput {
    let mut command = Command::new(PROGRAM);
    let command = command.arg("call").args(options).args(["--url", url]).env(TOKEN, SECRET);
    ProgramOutput::of(command.stdin(Stdio::null()).output().expect("it runs"))
}

#[test]
fn a_client_cannot_tell_in_either_era() {
    let served = Served::new(&[]);
    let tap = Tap::to(&served.url, "eras");
    for revision in ["2024-11-05", "2025-06-18", "2025-11-25", "2026-07-28"] {
        for asked in [
            &["tools"][..],
            &["echo", "text=hello"],
            &["sleep", "ms=20"],
            &["greet", "--answer", "name=Ada"],
            &["fail", "message=no"],
            &["no-such-tool"],
        ] {
            let asked = [asked, &["--revision", revision]].concat();
            let (direct, tapped) = (call(&served.url, &asked), call(&tap.url, &asked));
            // An answer may name the URL.
            let stderr = tapped.stderr.replace(&tap.url, &served.url);
            assert_eq!((tapped.code, tapped.stdout, stderr), (direct.code, direct.stdout, direct.stderr));
        }
    }
    let record = tap.end();
    let said = Tap::read(&record, "eras");
    assert_eq!(said.code, Some(0), "{}", said.stdout);
    assert!(said.stderr.contains("all well formed"), "{}", said.stderr);
    assert!(record.matches("\"method\":\"tools/call\"").count() >= 16, "{record}");
}

#[test]
fn sessions_and_tokens_are_replaced_by_distinct_numbers() {
    let served = Served::new(&["--bearer-env", TOKEN]);
    let log = std::path::PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("tap-http-secrets.log");
    let _ = std::fs::remove_file(&log);
    let tap = Tap::with(&served.url, "secrets", &["--log", log.to_str().expect("text")]);
    for text in ["one", "two"] {
        let text = format!("text={text}");
        let said = call(&tap.url, &["echo", &text, "--revision", "2025-06-18", "--bearer-env", TOKEN]);
        assert_eq!(said.code, Some(0), "{}", said.stderr);
    }
    let record = tap.end();
    let log = std::fs::read_to_string(log).expect("a log");
    assert!(!record.contains(SECRET) && !log.contains(SECRET), "{record}");
    let lines = |what: &str| record.lines().filter(|line| line.contains(what)).count();
    assert_eq!(lines("authorization: Bearer <redacted-"), lines("authorization: "));
    let sessions: Vec<&str> = record.lines().filter_map(|line| Some(line.split_once("mcp-session-id: ")?.1)).collect();
    let mut different = sessions.clone();
    different.sort_unstable();
    different.dedup();
    assert!(different.len() == 2 && sessions.len() > 6, "{sessions:?}");
    assert!(different.iter().all(|session| session.starts_with("<redacted-")), "{sessions:?}");
    // Questions and answers belong together in each of them.
    assert_eq!(log.lines().filter(|line| line.contains("result") && line.ends_with(" ms")).count(), 6, "{log}");
    assert!(!log.contains("matches no request") && !log.contains("unanswered"), "{log}");
    let said = Tap::read(&record, "secrets");
    assert!(said.code == Some(0) && said.stderr.contains("all well formed"), "{}", said.stderr);
}

#[test]
fn requests_and_responses_pass_unchanged() {
    // Everything that the server got, and its answers.
    let (heard, hears) = mpsc::channel();
    let url = server(move |mut client| {
        let say = |what: &str| heard.send(what.to_owned()).expect("the test listens");
        // Chunks with their extensions, and a trailer.
        say(&client.head());
        say(&client.exactly(b"3;a=b\r\nabc\r\n1\r\nd\r\n0\r\nt: x\r\n\r\n".len()));
        client.send(
            "HTTP/1.1 200 Fine\r\nX-Odd:  two  spaces \r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
        );
        // A body that is waited for.
        say(&client.head());
        client.send("HTTP/1.1 100 Continue\r\n\r\n");
        say(&client.exactly(4));
        client.send("HTTP/1.1 204 No Content\r\n\r\n");
        // A length without a body.
        say(&client.head());
        client.send("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n");
        say(&client.head());
        client.send("HTTP/1.1 304 Not Modified\r\nContent-Length: 10\r\n\r\n");
        say(&client.head());
        client.send("HTTP/1.1 307 Temporary Redirect\r\nLocation: http://elsewhere/\r\nContent-Length: 0\r\n\r\n");
        // Up to the end of the connection.
        say(&client.head());
        client.send("HTTP/1.1 200 OK\r\n\r\nuntil the end");
    });
    let tap = Tap::to(&url, "exact");
    let (host, upstream) = (&tap.at, url.trim_start_matches("http://").trim_end_matches("/mcp"));
    let mut client = tap.connect();
    let mut pass = |sent: &str, answer: &str| {
        client.send(sent);
        assert_eq!(client.exactly(answer.len()), answer);
        let (mut got, expected) = (String::new(), sent.replace(host.as_str(), upstream));
        while got.len() < expected.len() {
            got.push_str(&hears.recv_timeout(HANGS).expect("it arrives"));
        }
        assert_eq!(got, expected);
    };
    let chunks = "3;a=b\r\nabc\r\n1\r\nd\r\n0\r\nt: x\r\n\r\n";
    pass(
        &format!(
            "POST /mcp/x?y=%20&z HTTP/1.1\r\nHost: {host}\r\nX-a:b\r\nx-A:   c \r\nTransfer-Encoding: chunked\r\n\
            Connection: keep-alive\r\nOrigin: https://evil.example\r\n\r\n{chunks}"
        ),
        "HTTP/1.1 200 Fine\r\nX-Odd:  two  spaces \r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
    );
    let head = format!("PUT / HTTP/1.1\r\nhost: {host}\r\nexpect: 100-continue\r\ncontent-length: 4\r\n\r\n");
    pass(&head, "HTTP/1.1 100 Continue\r\n\r\n");
    pass("body", "HTTP/1.1 204 No Content\r\n\r\n");
    let empty = |method: &str| format!("{method} /.well-known/x HTTP/1.1\r\nHOST: {host}\r\n\r\n");
    pass(&empty("HEAD"), "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n");
    pass(&empty("GET"), "HTTP/1.1 304 Not Modified\r\nContent-Length: 10\r\n\r\n");
    pass(
        &empty("OPTIONS"),
        "HTTP/1.1 307 Temporary Redirect\r\nLocation: http://elsewhere/\r\nContent-Length: 0\r\n\r\n",
    );
    pass(&empty("DELETE"), "HTTP/1.1 200 OK\r\n\r\nuntil the end");
    assert_eq!(client.rest(), b"");
    let record = tap.end();
    for line in [
        ") head > POST /mcp/x?y=%20&z HTTP/1.1",
        &format!(") head > Host: {upstream}"),
        &format!(") changed > Host: {}", record_host(&record)),
        ") head > x-A:   c",
        ") head > Origin: https://evil.example",
        " noeol) abcd",
        ") informational < HTTP/1.1 100 Continue",
        " noeol) until the end",
    ] {
        assert!(record.contains(line), "{line}\n{record}");
    }
    assert_eq!(record.matches(" eof <").count(), 6, "{record}");
    assert!(!record.contains(" cut "), "{record}");
}

/// The host name that the client used for the tap.
fn record_host(record: &str) -> &str {
    record.lines().find_map(|line| line.split_once("changed > Host: ")).expect("it was changed").1
}

#[test]
fn events_pass_without_delay() {
    const EVENTS: usize = 20;
    let (sent, arrives) = mpsc::channel();
    let sent = Mutex::new(sent);
    let url = server(move |mut client| {
        client.head();
        client.send("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n");
        for number in 0..EVENTS {
            thread::sleep(Duration::from_millis(30));
            sent.lock().expect("unpoisoned").send(Instant::now()).expect("the test listens");
            client.send(format!("data: {{\"jsonrpc\":\"2.0\",\"method\":\"n/{number:02}\"}}\n\n"));
        }
    });
    let tap = Tap::to(&url, "events");
    let mut client = tap.connect();
    client.send(format!("GET /mcp HTTP/1.1\r\nHost: {}\r\n\r\n", tap.at));
    client.head();
    let mut took = Vec::new();
    for number in 0..EVENTS {
        let event = client.exactly("data: {\"jsonrpc\":\"2.0\",\"method\":\"n/00\"}\n\n".len());
        assert!(event.contains(&format!("n/{number:02}")), "{event}");
        took.push(arrives.recv().expect("it was sent").elapsed());
    }
    // The fastest of them, because a busy machine may delay any process: a tap that waits delays all events.
    let fastest = took.iter().min().copied();
    assert!(fastest < Some(Duration::from_millis(50)), "{took:?}");
    assert_eq!(client.rest(), b"");
    let record = tap.end();
    assert_eq!(record.matches("\"method\":\"n/").count(), EVENTS, "{record}");
    assert!(record.contains(") framing sse\n"), "{record}");
}

#[test]
fn the_end_of_a_client_reaches_the_server() {
    let (gone, is_gone) = mpsc::channel();
    let gone = Mutex::new(gone);
    let url = server(move |mut client| {
        client.head();
        client.send("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n: begun\n\n");
        let rest = client.rest();
        gone.lock().expect("unpoisoned").send(rest).expect("the test listens");
    });
    let tap = Tap::to(&url, "gone");
    let mut client = tap.connect();
    client.send(format!("GET /mcp HTTP/1.1\r\nHost: {}\r\n\r\n", tap.at));
    client.head();
    assert_eq!(client.exactly(9), ": begun\n\n");
    drop(client);
    assert_eq!(is_gone.recv_timeout(HANGS).expect("it is told"), b"");
    // And of a request that is not answered yet, which is how the modern era cancels.
    let served = Served::new(&[]);
    let slow = Tap::to(&served.url, "cancel");
    let mut client = slow.connect();
    let meta =
        r#"{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}"#;
    let params = format!(r#"{{"_meta":{meta},"name":"sleep","arguments":{{"ms":60000}}}}"#);
    let body = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{params}}}"#);
    client.send(format!(
        "POST /mcp HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\nMcp-Protocol-Version: 2026-07-28\r\n\
        Mcp-Method: tools/call\r\nMcp-Name: sleep\r\nContent-Length: {}\r\n\r\n{body}",
        slow.at,
        body.len()
    ));
    let records = |what: &str| std::fs::read_to_string(slow.record()).is_ok_and(|text| text.contains(what));
    eventually("the request is passed on", || records(r#""name":"sleep""#));
    drop(client);
    eventually("the exchange ends", || records("eof <"));
    for record in [tap.end(), slow.end()] {
        assert!(record.contains("closed > the client closed the connection"), "{record}");
    }
}

#[test]
fn two_hundred_exchanges_at_once() {
    const MANY: usize = 200;
    let all_there = Arc::new(Barrier::new(MANY));
    let url = server(move |mut client| {
        let head = client.head();
        // No request is answered before all have been sent.
        all_there.wait();
        let number = head.split([' ', '/']).nth(2).expect("a number");
        let body = format!(r#"{{"jsonrpc":"2.0","id":{number},"result":{{}}}}"#);
        let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n";
        client.send(format!("{head}content-length: {}\r\n\r\n{body}", body.len()));
    });
    let tap = Tap::to(&url, "many");
    thread::scope(|scope| {
        for number in 0..MANY {
            let tap = &tap;
            scope.spawn(move || {
                let mut client = tap.connect();
                let body = format!(r#"{{"jsonrpc":"2.0","id":{number},"method":"ping"}}"#);
                let head = format!("POST /{number} HTTP/1.1\r\nHost: {}\r\n", tap.at);
                client.send(format!("{head}Content-Length: {}\r\n\r\n{body}", body.len()));
                client.head();
                let answer = String::from_utf8(client.rest()).expect("text");
                assert_eq!(answer, format!(r#"{{"jsonrpc":"2.0","id":{number},"result":{{}}}}"#));
            });
        }
    });
    let record = tap.end();
    assert_eq!(record.matches(" eof <").count(), MANY);
    let said = Tap::read(&record, "many");
    assert!(said.stderr.contains("400 frames, all well formed"), "{}", said.stderr);
}

#[test]
fn compressed_bodies_pass_and_are_not_recorded() {
    let url = server(|mut client| {
        while !client.head().is_empty() {
            client.send("HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: 6\r\n\r\n\x1fZZZZZ");
        }
    });
    for (options, accepted) in [(&[][..], "gzip, br"), (&["--uncompressed"], "identity")] {
        let tap = Tap::with(&url, "gzip", options);
        let mut client = tap.connect();
        client.send(format!("GET / HTTP/1.1\r\nHost: {}\r\nAccept-Encoding: gzip, br\r\n\r\n", tap.at));
        client.head();
        assert_eq!(client.exactly(6), "\x1fZZZZZ");
        drop(client);
        let record = tap.end();
        assert!(record.contains(&format!("head > Accept-Encoding: {accepted}\n")), "{record}");
        assert_eq!(record.contains("changed > Accept-Encoding: gzip, br"), !options.is_empty());
        assert!(record.contains("unread < the body is encoded: gzip") && !record.contains("ZZZ"), "{record}");
        assert!(record.contains("gap < 6\n"), "{record}");
    }
}

#[test]
fn a_signal_ends_streams_and_the_capture() {
    let url = server(|mut client| {
        client.head();
        client.send("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\ndata: {}\n\n");
        client.rest();
    });
    let tap = Tap::to(&url, "signal");
    let mut client = tap.connect();
    client.send(format!("GET /mcp HTTP/1.1\r\nHost: {}\r\n\r\n", tap.at));
    client.head();
    assert_eq!(client.exactly(10), "data: {}\n\n");
    let record = tap.end();
    assert_eq!(client.rest(), b"");
    let last: Vec<&str> = record.lines().rev().take(2).collect();
    assert!(last[0].ends_with("eof <") && last[1].ends_with("cut < the tap was stopped"), "{record}");
}
