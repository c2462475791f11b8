//! The listening socket: other protocols, limits, and the shutdown.

use std::time::{Duration, Instant};

use barewire::server::http::{BearerTokens, HttpError};
use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Full};
use serde_json::json;
use tower_service::Service;

use crate::eventually::DEADLINE;
use crate::wire::{ACCEPT, Events, call, modern};
use crate::{TestSite, test_server};

#[tokio::test]
async fn a_service_answers_at_any_path() {
    let mut service = test_server().0.http().service().expect("a service");
    let (headers, message) = modern(1, "tools/call", json!({"name": "echo", "arguments": {"text": "hi"}}));
    let mut request = Request::post("http://localhost/any/path").header("content-type", "application/json");
    for header in headers.iter().map(String::as_str).chain([ACCEPT, "Host: localhost"]) {
        let (name, value) = header.split_once(": ").expect("a header");
        request = request.header(name, value);
    }
    let request = request.body(Full::new(Bytes::from(message.to_string()))).expect("a request");
    let response = service.call(request).await.expect("a response");
    assert_eq!(response.status(), 200);
    let body = response.into_body().collect().await.expect("a body").to_bytes();
    assert!(std::str::from_utf8(&body).expect("UTF-8").contains("\"hi\""));
}

#[tokio::test]
async fn a_body_may_arrive_in_any_pieces_up_to_its_limit() {
    let (site, _) = TestSite::with(|limits| limits.body = 1000).await;
    let (headers, message) = modern(1, "tools/call", json!({"name": "echo", "arguments": {"text": "pieces"}}));
    let head = |more: &str| {
        format!(
            "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n{ACCEPT}\r\n{}\r\n{more}\r\n\r\n",
            headers.join("\r\n")
        )
    };
    let message = message.to_string();
    let mut wire = site.connect().await;
    wire.send(head("Transfer-Encoding: chunked")).await;
    for byte in message.as_bytes() {
        wire.send([b"1\r\n", std::slice::from_ref(byte), b"\r\n"].concat()).await;
    }
    wire.send("0\r\n\r\n").await;
    assert_eq!(wire.answer().await.json()["result"]["content"][0]["text"], "pieces");
    let mut wire = site.connect().await;
    for byte in (head(&format!("Content-Length: {}", message.len())) + &message).as_bytes() {
        wire.send([*byte]).await;
    }
    assert_eq!(wire.answer().await.json()["result"]["content"][0]["text"], "pieces");
    // One length is announced as too long, the other turns out to be.
    let mut wire = site.connect().await;
    wire.send(head("Content-Length: 1001")).await;
    assert_eq!(wire.answer().await.refusal(), (413, -32600));
    let mut wire = site.connect().await;
    wire.send(head("Transfer-Encoding: chunked")).await;
    wire.send(format!("1000\r\n{}\r\n0\r\n\r\n", "x".repeat(0x1000))).await;
    assert_eq!(wire.answer().await.refusal(), (413, -32600));
}

#[tokio::test]
async fn heads_and_bodies_have_timeouts() {
    let (site, _) = TestSite::with(|limits| {
        // The other request is sent in time.
        (limits.head_timeout, limits.body_timeout) = (Duration::from_secs(5), Duration::from_millis(200));
    })
    .await;
    let mut head = site.connect().await;
    head.send("POST /mcp HTTP/1.1\r\nHost: loc").await;
    assert!(head.is_closed().await, "half a head");
    let mut body = site.connect().await;
    body.send(format!("POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n{ACCEPT}\r\nContent-Length: 10\r\n\r\n{{")).await;
    assert_eq!(body.answer().await.refusal(), (408, -32600));
    let mut nothing = site.connect().await;
    assert!(nothing.is_closed().await, "no head at all");
}

#[tokio::test]
async fn a_bad_message_is_refused_and_the_connection_stays_open() {
    let (site, _) = TestSite::new().await;
    let mut wire = site.connect().await;
    for (body, code) in
        [("{", -32700), ("[]", -32600), ("7", -32600), ("{\"jsonrpc\":\"2.0\",\"id\":null,\"method\":\"a\"}", -32600)]
    {
        wire.request("POST /mcp", &["Host: localhost", "Content-Type: application/json", ACCEPT], body).await;
        let answer = wire.answer().await;
        assert_eq!(answer.refusal(), (400, code), "{body}");
        assert_eq!(answer.json().get("id"), None, "{body}");
    }
    wire.request("POST /elsewhere", &["Host: localhost", "Content-Type: application/json", ACCEPT], "{}").await;
    assert_eq!(wire.answer().await.refusal(), (404, -32600));
    let answer = wire.ask_modern(1, "tools/call", json!({"name": "echo", "arguments": {"text": "hi"}})).await;
    assert_eq!(answer.status(), 200);
}

#[tokio::test]
async fn one_socket_serves_every_framing() {
    let site = TestSite::of(test_server().0.http().every_framing()).await;
    let mut http = site.connect().await;
    assert_eq!(http.ask_modern(1, "tools/list", json!({})).await.status(), 200);
    let message = modern(5, "tools/call", json!({"name": "echo", "arguments": {"text": "hi"}})).1.to_string();
    let mut lines = tokio::net::TcpStream::connect(site.addr).await.expect("connected");
    let mut counted = tokio::net::TcpStream::connect(site.addr).await.expect("connected");
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    // One byte at a time: the protocol is not detected by the size of a read.
    for byte in format!("{message}\n").as_bytes() {
        lines.write_all(&[*byte]).await.expect("sent");
    }
    let mut answer = String::new();
    while !answer.ends_with('\n') {
        let mut some = [0; 100];
        let count = lines.read(&mut some).await.expect("read");
        assert!(count > 0, "{answer}");
        answer.push_str(std::str::from_utf8(&some[..count]).expect("UTF-8"));
    }
    assert!(answer.contains("\"hi\"") && answer.starts_with("{\"jsonrpc\":\"2.0\",\"id\":5"), "{answer}");
    counted.write_all(format!("Content-Length: {}\r\n\r\n{message}", message.len()).as_bytes()).await.expect("sent");
    let mut answer = String::new();
    while !answer.contains("\"hi\"") {
        let mut some = [0; 100];
        let count = counted.read(&mut some).await.expect("read");
        assert!(count > 0, "{answer}");
        answer.push_str(std::str::from_utf8(&some[..count]).expect("UTF-8"));
    }
    assert!(answer.starts_with("Content-Length: "), "{answer}");
    let mut nonsense = site.connect().await;
    nonsense.send("helo there\r\n").await;
    assert!(nonsense.is_closed().await);
    // By default only HTTP is served.
    let (site, _) = TestSite::new().await;
    let mut off = tokio::net::TcpStream::connect(site.addr).await.expect("connected");
    off.write_all(format!("{message}\n").as_bytes()).await.expect("sent");
    let mut answer = String::new();
    let _ = off.read_to_string(&mut answer).await;
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 400"), "{answer}");
}

#[tokio::test]
async fn every_framing_is_refused_on_public_addresses_and_with_authentication() {
    let http = || test_server().0.http().every_framing();
    assert!(matches!(http().hosts(["a.example"]).bind("0.0.0.0:0").await, Err(HttpError::EveryFraming(_))));
    let secured = http().authenticate(BearerTokens::new());
    assert!(matches!(secured.bind("127.0.0.1:0").await, Err(HttpError::EveryFraming(_))));
}

#[tokio::test]
async fn a_shutdown_lets_running_requests_finish() {
    let (site, running_handlers) = TestSite::with(|limits| limits.grace = 4 * DEADLINE).await;
    let mut legacy = site.connect().await;
    let session = legacy.initialize("2025-11-25", json!({})).await;
    let mut stream = site.connect().await;
    stream.get(&[&session]).await;
    let mut stream = Events::of(stream).await;
    stream.next().await;
    legacy.post(&[&session], &call(1, "hold", json!({"ms": 60_000}))).await;
    let mut call = site.connect().await;
    call.post_modern(2, "tools/call", json!({"name": "hold", "arguments": {"ms": 60_000}})).await;
    let mut idle = site.connect().await;
    assert_eq!(idle.ask_modern(1, "tools/list", json!({})).await.status(), 200);
    running_handlers.until(2).await;
    let start = Instant::now();
    site.stop.stop();
    assert!(idle.is_closed().await);
    assert_eq!(stream.next().await, None);
    running_handlers.release();
    assert_eq!(legacy.answer().await.json()["result"]["content"][0]["text"], "held");
    assert_eq!(call.answer().await.json()["result"]["content"][0]["text"], "held");
    site.running.await.expect("it ends by itself");
    assert!(start.elapsed() < 4 * DEADLINE, "before the grace period is over: {:?}", start.elapsed());
    assert!(tokio::net::TcpStream::connect(site.addr).await.is_err());
    // A request that takes longer than the grace period is aborted.
    let (site, running_handlers) = TestSite::with(|limits| limits.grace = Duration::from_millis(200)).await;
    let mut call = site.connect().await;
    call.post_modern(2, "tools/call", json!({"name": "hold", "arguments": {"ms": 3_600_000}})).await;
    running_handlers.until(1).await;
    let start = Instant::now();
    site.stop.stop();
    assert!(call.is_closed().await);
    site.running.await.expect("it ends by itself");
    assert!(start.elapsed() < DEADLINE, "{:?}", start.elapsed());
    running_handlers.until(0).await;
}

#[tokio::test]
async fn running_requests_are_limited() {
    let (site, running_handlers) = TestSite::with(|limits| limits.exchanges = 2).await;
    // A legacy request counts until it is answered, even without its client.
    let mut legacy = site.connect().await;
    let session = legacy.initialize("2025-11-25", json!({})).await;
    legacy.post(&[&session], &call(1, "hold", json!({"ms": 60_000}))).await;
    running_handlers.until(1).await;
    drop(legacy);
    let mut first = site.connect().await;
    first.post_modern(1, "tools/call", json!({"name": "hold", "arguments": {"ms": 60_000}})).await;
    running_handlers.until(2).await;
    let mut second = site.connect().await;
    for method in ["subscriptions/listen", "tools/list"] {
        let full = second.ask_modern(1, method, json!({"notifications": {}})).await;
        assert_eq!((full.refusal(), full.head.get("retry-after")), ((503, -32603), Some("1")), "{method}");
    }
    drop(first);
    running_handlers.until(1).await;
    assert_eq!(second.delete(&session).await.status(), 200);
    running_handlers.until(0).await;
    assert_eq!(second.ask_modern(1, "tools/list", json!({})).await.status(), 200);
    second.post_modern(1, "subscriptions/listen", json!({"notifications": {}})).await;
    Events::of(second).await.message().await;
    assert!(site.url.ends_with("/mcp"));
}

#[tokio::test]
async fn connections_beyond_the_limit_wait_for_another_to_end() {
    let (site, _) = TestSite::with(|limits| limits.connections = 2).await;
    let (mut first, mut second) = (site.connect().await, site.connect().await);
    for wire in [&mut first, &mut second] {
        assert_eq!(wire.ask_modern(1, "tools/list", json!({})).await.status(), 200);
    }
    // The system accepts the connection, but the server does not read from it.
    let mut third = site.connect().await;
    third.post_modern(1, "tools/list", json!({})).await;
    let mut answer = std::pin::pin!(third.answer());
    let early = tokio::time::timeout(Duration::from_millis(300), &mut answer).await;
    assert!(early.is_err(), "the third connection is served");
    drop(first);
    assert_eq!(answer.await.status(), 200);
}

#[tokio::test]
async fn run_until_stops_on_its_signal() {
    let listener = test_server().0.http().bind("127.0.0.1:0").await.expect("a listener");
    let addr = listener.local_addr().expect("bound");
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let run = tokio::spawn(listener.run_until(async { stopped.await.unwrap_or_default() }));
    assert!(tokio::net::TcpStream::connect(addr).await.is_ok());
    stop.send(()).expect("it still runs");
    run.await.expect("it ends in order");
    assert!(tokio::net::TcpStream::connect(addr).await.is_err());
}
