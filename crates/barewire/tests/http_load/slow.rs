//! Clients that send one byte at a time: they get an error or are disconnected in time, and delay no other client.

use std::time::{Duration, Instant};

use tokio::io::AsyncWriteExt;

use super::wire::Wire;
use super::{DEADLINE, LoadServer, before_deadline, echo, limits, report, requests, threads};

#[test]
fn slow_senders_are_cut_off() {
    threads().block_on(run(40, Duration::from_millis(600), Duration::from_millis(30)));
}

#[test]
#[ignore = "long: 2,000 clients that send a byte a second"]
fn two_thousand_slow_senders_are_cut_off() {
    super::process::allow_files(5_000);
    threads().block_on(run(400, Duration::from_secs(10), Duration::from_secs(1)));
}

/// The part of a request that a client sends slowly.
#[derive(Debug, Clone, Copy, PartialEq)]
enum SlowPart {
    /// It sends nothing at all.
    Never,
    Head,
    /// In the head of its second request.
    SecondHead,
    Body,
    /// In a chunked body.
    Chunks,
}

async fn run(each: usize, timeout: Duration, pause: Duration) {
    let limits = limits(|limits| {
        limits.head_timeout = timeout;
        limits.body_timeout = timeout;
    });
    let load_server = LoadServer::start(echo(), limits).await;
    let mut clients = Vec::new();
    for slow in [SlowPart::Never, SlowPart::Head, SlowPart::SecondHead, SlowPart::Body, SlowPart::Chunks] {
        for _ in 0..each {
            let wire = Wire::connect(load_server.addr).await;
            clients.push((slow, tokio::spawn(dribble(wire, slow, pause))));
        }
    }
    let start = Instant::now();
    while start.elapsed() < timeout / 2 {
        load_server.is_alive().await;
        tokio::time::sleep(timeout / 20).await;
    }
    for (slow, client) in clients {
        let (response, time) = before_deadline("the end of a slow client", client).await.expect("no panic");
        let response = String::from_utf8_lossy(&response).into_owned();
        assert!(time >= timeout / 2, "{slow:?} was cut off after {time:?}");
        assert!(time < timeout + DEADLINE, "{slow:?} was cut off after {time:?} only");
        let is_refused = response.starts_with("HTTP/1.1 408 ") && response.contains(r#""jsonrpc""#);
        match slow {
            // The server reads bodies itself, so it can send an error.
            SlowPart::Body | SlowPart::Chunks => assert!(is_refused, "{slow:?}: {response}"),
            _ => assert!(is_refused || response.is_empty(), "{slow:?}: {response}"),
        }
        assert!(response.matches("HTTP/1.1").count() < 2, "{slow:?}: {response}");
    }
    report(&format!("slow senders: cut off within {:?}", start.elapsed()));
    load_server.is_alive().await;
    load_server.end().await;
}

/// Sends slowly until the connection is closed. Returns the response, and the time it took.
async fn dribble(mut wire: Wire, slow: SlowPart, pause: Duration) -> (Vec<u8>, Duration) {
    let request = requests::call(1, "echo", r#"{"text":"slow"}"#);
    let head = super::wire::find(&request, b"\r\n\r\n").expect("a head") + 4;
    let (at_once, slowly) = match slow {
        SlowPart::Never => (vec![], vec![]),
        SlowPart::Head => (vec![], request),
        SlowPart::SecondHead => {
            let (first, _) = wire.ask(&request).await;
            assert_eq!(first.status, 200);
            (vec![], request)
        }
        SlowPart::Body => (request[..head + 5].to_vec(), request[head + 5..].to_vec()),
        SlowPart::Chunks => {
            let text = String::from_utf8(request[..head].to_vec()).expect("ASCII");
            let length = text.find("Content-Length").expect("a length");
            let head = format!("{}Transfer-Encoding: chunked\r\n\r\n", &text[..length]);
            let chunks = request[head.len()..].iter().map(|byte| format!("1\r\n{}\r\n", char::from(*byte)));
            (head.into_bytes(), chunks.collect::<String>().into_bytes())
        }
    };
    let start = Instant::now();
    wire.send(&at_once).await.expect("sent");
    let (reader, mut writer) = wire.stream.into_split();
    let sending = tokio::spawn(async move {
        for byte in slowly {
            tokio::time::sleep(pause).await;
            if writer.write_all(&[byte]).await.is_err() {
                return;
            }
        }
        // The client must not be the one that closes the connection.
        std::future::pending::<()>().await;
    });
    let mut response = Vec::new();
    let mut chunk = [0; 1024];
    loop {
        reader.readable().await.expect("a socket");
        match reader.try_read(&mut chunk) {
            Ok(0) => break,
            Ok(count) => response.extend_from_slice(&chunk[..count]),
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
            Err(_) => break,
        }
    }
    sending.abort();
    (response, start.elapsed())
}
