//! Heads and bodies that can be read in two ways or not at all: each gets at most one response, with nothing from the
//! request in its head, and the server keeps serving.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use barewire::Server;
use tokio::io::AsyncWriteExt;

use super::wire::{Wire, find};
use super::{LoadServer, Text, before_deadline, limits, requests, threads};

#[test]
fn injected_heads_and_bodies_give_one_response_at_most() {
    threads().block_on(run());
}

/// The expected outcome of an attempt.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Expect {
    /// A refusal, or a closed connection.
    Refused,
    /// Two refusals: the rest of the body is read as another, bad request.
    RefusedTwice,
    /// A normal response: the request is valid, and has only one meaning.
    Answered,
}

use Expect::{Answered, Refused, RefusedTwice};

/// The number of calls of `echo` with each text.
type Calls = Arc<Mutex<HashMap<String, usize>>>;

async fn run() {
    let calls = Calls::default();
    let calls_of_tool = Arc::clone(&calls);
    let server = Server::new("load", "1").tool("echo", "Says it back", move |Text { text }| {
        *calls_of_tool.lock().expect("no panic").entry(text.clone()).or_default() += 1;
        async move { text }
    });
    let limits = limits(|limits| limits.body_timeout = Duration::from_millis(500));
    let load_server = LoadServer::start(server, limits).await;
    let mut attempts_made = Vec::new();
    for (number, (what, expected, mut bytes)) in attempts().into_iter().enumerate() {
        // Every attempt has a text of its own, also in a request that it hides.
        let text = format!("{number:02}");
        while let Some(at) = find(&bytes, TEXT) {
            bytes[at..at + TEXT.len()].copy_from_slice(text.as_bytes());
        }
        let (addr, calls) = (load_server.addr, Arc::clone(&calls));
        attempts_made.push(tokio::spawn(async move { attempt(addr, what, expected, &bytes, &text, &calls).await }));
    }
    for attempt in attempts_made {
        attempt.await.expect("it is as expected");
        load_server.is_alive().await;
    }
    load_server.end().await;
}

async fn attempt(addr: SocketAddr, what: &'static str, expected: Expect, bytes: &[u8], text: &str, calls: &Calls) {
    let mut wire = Wire::connect(addr).await;
    // The server may close the connection before it has read everything.
    let _ = wire.stream.write_all(bytes).await;
    let response = before_deadline(what, wire.response_and_extra_bytes(SILENCE)).await;
    let shown = String::from_utf8_lossy(&response[..response.len().min(2000)]).into_owned();
    let heads = String::from_utf8_lossy(&response).matches("HTTP/1.1 ").count();
    assert!(heads <= if expected == RefusedTwice { 2 } else { 1 }, "{what}: {heads} responses: {shown}");
    if heads == 1 {
        let end = find(&response, b"\r\n\r\n").unwrap_or_else(|| panic!("{what}: half a head: {shown}"));
        let head = String::from_utf8_lossy(&response[..end]).to_ascii_lowercase();
        assert!(!head.contains("injected"), "{what}: {head}");
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        let length: usize = length.and_then(|length| length.parse().ok()).unwrap_or(0);
        assert_eq!(response.len(), end + 4 + length, "{what}: {shown}");
    }
    let ran = calls.lock().expect("no panic").get(text).copied().unwrap_or(0);
    match expected {
        Refused | RefusedTwice => {
            let refusals = shown.matches("HTTP/1.1 4").count();
            assert_eq!(refusals, heads, "{what}: {shown}");
            assert_eq!(ran, 0, "{what}: it was run");
        }
        Answered => {
            assert!(response.starts_with(b"HTTP/1.1 200 "), "{what}: {shown}");
            assert_eq!(ran, 1, "{what}");
        }
    }
}

/// The time for which nothing may follow a response. Longer than the timeout for a body.
const SILENCE: Duration = Duration::from_millis(700);

/// The placeholder for the number of the attempt.
const TEXT: &[u8] = b"hi";

fn attempts() -> Vec<(&'static str, Expect, Vec<u8>)> {
    let good = requests::call(1, "echo", r#"{"text":"hi"}"#);
    let at = find(&good, b"\r\n\r\n").expect("a head");
    let (head, body) = (String::from_utf8(good[..at].to_vec()).expect("ASCII"), good[at + 4..].to_vec());
    let body = String::from_utf8(body).expect("ASCII");
    let length = format!("\r\nContent-Length: {}", body.len());
    let without = head.replace(&length, "");
    assert_ne!(head, without);
    // The good request with more headers.
    let with = |headers: &str| format!("{without}{length}\r\n{headers}\r\n\r\n{body}").into_bytes();
    // The same without a length.
    let bare = |headers: &str, body: &str| format!("{without}\r\n{headers}\r\n\r\n{body}").into_bytes();
    let chunked = format!("{:x}\r\n{body}\r\n0\r\n\r\n", body.len());
    // A second request, in the place of a body or after one.
    let hidden = String::from_utf8(good.clone()).expect("ASCII");
    let in_name = |value: &str| head.replace("Mcp-Name: echo", &format!("Mcp-Name: {value}"));
    let in_line = |from: &str, to: &str| format!("{head}\r\n\r\n{body}").replace(from, to).into_bytes();
    let many = |count: usize| (0..count).map(|n| format!("X-{n}: 1")).collect::<Vec<_>>().join("\r\n");
    let as_get = |headers: &str| format!("GET {}{headers}\r\n\r\n", requests::HEAD).into_bytes();
    vec![
        ("nothing wrong", Answered, good.clone()),
        ("a bare CR in a value", Refused, with("X-A: a\rInjected: 1")),
        // RFC 9112, section 2.2 allows this line ending: it is one more header of the request.
        ("a bare LF in a value", Answered, format!("{}\r\n\r\n{body}", in_name("echo\nInjected: 1")).into_bytes()),
        ("a CR LF in Mcp-Name", Refused, format!("{}\r\n\r\n{body}", in_name("e\r\nInjected: 1")).into_bytes()),
        ("a percent-encoded CR LF", Refused, format!("{}\r\n\r\n{body}", in_name("e%0d%0aInjected:%201")).into_bytes()),
        (
            "Base64 of a CR LF",
            Refused,
            format!("{}\r\n\r\n{body}", in_name("=?base64?ZWNobw0KSW5qZWN0ZWQ6IDE=?=")).into_bytes(),
        ),
        ("a CR LF in a session id", Refused, as_get("Mcp-Session-Id: a\r\nInjected: 1\r\n")),
        (
            "Last-Event-ID with a quote and a comma",
            Refused,
            as_get("Mcp-Session-Id: a\r\nLast-Event-ID: \"1-1\", Injected\r\n"),
        ),
        (
            "a protocol version that is reflected",
            Refused,
            as_get("Mcp-Session-Id: a\r\nMCP-Protocol-Version: \"}Injected\r\n"),
        ),
        ("a NUL in a value", Refused, with("X-A: a\0b")),
        ("a NUL in a name", Refused, with("X\0A: b")),
        ("a NUL in the path", Refused, in_line("/mcp", "/m\0cp")),
        ("a DEL in a value", Refused, with("X-A: a\x7fb")),
        ("a line folded with a space", Refused, with("X-A: a\r\n Injected: 1")),
        ("a line folded with a tab", Refused, with("X-A: a\r\n\tInjected: 1")),
        (
            "a folded first header",
            Refused,
            format!("POST /mcp HTTP/1.1\r\n Host: localhost\r\n\r\n{hidden}").into_bytes(),
        ),
        ("a space before the colon", Refused, in_line("Host:", "Host :")),
        ("a name that is no token", Refused, with("X(A): 1")),
        ("an empty name", Refused, with(": 1")),
        ("two hosts", Refused, with("Host: localhost")),
        ("another host", Refused, in_line("Host: localhost", "Host: injected.example")),
        ("two equal lengths", Answered, with(length.trim_start())),
        ("two lengths that differ", Refused, with("Content-Length: 3")),
        ("a list of lengths", Refused, bare(&format!("Content-Length: {0}, {0}", body.len()), &body)),
        ("a length with a sign", Refused, bare(&format!("Content-Length: +{}", body.len()), &body)),
        ("a negative length", Refused, bare("Content-Length: -1", &body)),
        ("a length in hex", Refused, bare(&format!("Content-Length: {:#x}", body.len()), &body)),
        ("a length beyond all numbers", Refused, bare("Content-Length: 18446744073709551617", &body)),
        ("a length of petabytes", Refused, bare("Content-Length: 1000000000000000", &body)),
        ("a length that is too long", Refused, bare(&format!("Content-Length: {}", body.len() + 10), &body)),
        ("a length that is too short", RefusedTwice, bare(&format!("Content-Length: {}", body.len() - 10), &body)),
        ("chunks", Answered, bare("Transfer-Encoding: chunked", &chunked)),
        // RFC 9112, section 6.3: it is read as chunks, and the connection is closed afterwards. What follows is never
        // read.
        (
            "chunks and a length",
            Answered,
            bare(
                &format!("Transfer-Encoding: chunked\r\nContent-Length: {}", chunked.len() + hidden.len()),
                &format!("{chunked}{hidden}"),
            ),
        ),
        (
            "a length and chunks",
            Answered,
            bare(
                &format!("Content-Length: {}\r\nTransfer-Encoding: chunked", chunked.len() + hidden.len()),
                &format!("{chunked}{hidden}"),
            ),
        ),
        (
            "chunks in HTTP/1.0",
            Refused,
            String::from_utf8(bare("Transfer-Encoding: chunked", &chunked))
                .expect("ASCII")
                .replace("HTTP/1.1", "HTTP/1.0")
                .into_bytes(),
        ),
        ("an encoding that is not the last", Refused, bare("Transfer-Encoding: chunked, identity", &chunked)),
        ("an unknown encoding", Refused, bare("Transfer-Encoding: xchunked", &chunked)),
        ("an encoding with a vertical tab", Refused, bare("Transfer-Encoding: \x0bchunked", &chunked)),
        ("chunks of no length", Refused, bare("Transfer-Encoding: chunked", &format!("g\r\n{body}\r\n0\r\n\r\n"))),
        (
            "chunks of a length beyond all numbers",
            Refused,
            bare("Transfer-Encoding: chunked", &format!("fffffffffffffffff\r\n{body}")),
        ),
        (
            "a chunk that is longer than it says",
            Refused,
            bare("Transfer-Encoding: chunked", &format!("3\r\n{body}\r\n0\r\n\r\n")),
        ),
        (
            "chunks that do not end",
            Refused,
            bare("Transfer-Encoding: chunked", &format!("{:x}\r\n{body}\r\n", body.len())),
        ),
        (
            "an endless extension of a chunk",
            Refused,
            bare("Transfer-Encoding: chunked", &format!("1;{}\r\n", "x".repeat(100 << 10))),
        ),
        (
            "endless trailers",
            Refused,
            bare(
                "Transfer-Encoding: chunked",
                &format!("{:x}\r\n{body}\r\n0\r\n{}", body.len(), "X-A: 1\r\n".repeat(50_000)),
            ),
        ),
        ("a header of 100 KiB", Refused, with(&format!("X-A: {}", "a".repeat(100 << 10)))),
        ("a name of 100 KiB", Refused, with(&format!("{}: 1", "a".repeat(100 << 10)))),
        ("a path of 100 KiB", Refused, in_line("/mcp", &format!("/{}", "a".repeat(100 << 10)))),
        ("10,000 headers", Refused, with(&many(10_000))),
        ("200 headers", Refused, with(&many(200))),
        ("a head without an end", Refused, "POST /mcp HTTP/1.1\r\n".repeat(10_000).into_bytes()),
        ("no version", Refused, in_line(" HTTP/1.1", "")),
        ("another version", Refused, in_line("HTTP/1.1", "HTTP/9.9")),
        ("two spaces", Refused, in_line("POST /mcp", "POST  /mcp")),
        ("a method that is none", Refused, in_line("POST", "INJECTED\x01")),
        ("an unknown method", Refused, in_line("POST", "INJECTED")),
        ("CONNECT", Refused, b"CONNECT injected:443 HTTP/1.1\r\nHost: localhost\r\n\r\n".to_vec()),
        ("TRACE", Refused, in_line("POST", "TRACE")),
        ("an upgrade to HTTP/2", Refused, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec()),
        (
            "an upgrade that is not taken",
            Answered,
            with("Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__"),
        ),
        ("TLS", Refused, b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03".repeat(100)),
        ("a target with another host", Refused, in_line("POST /mcp", "POST http://injected.example/mcp")),
        (
            "noise",
            Refused,
            (0..100_000_u32).map(|n| u8::try_from(n.wrapping_mul(2_654_435_761) >> 24).expect("a byte")).collect(),
        ),
    ]
}
