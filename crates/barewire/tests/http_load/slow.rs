//! Clients that send a byte now and then: they are told so or cut off in time, and hold up nobody.

use std::time::{Duration, Instant};

use tokio::io::AsyncWriteExt;

use super::wire::Wire;
use super::{Served, echo, limits, requests, say, soon, threads};

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

/// Where a client becomes slow.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Slow {
    /// It says nothing at all.
    Never,
    Head,
    /// In the head of its second request.
    SecondHead,
    Body,
    /// In a body of chunks.
    Chunks,
}

async fn run(each: usize, timeout: Duration, pause: Duration) {
    let limits = limits(|limits| {
        limits.head_timeout = timeout;
        limits.body_timeout = timeout;
    });
    let served = Served::start(echo(), limits).await;
    let mut clients = Vec::new();
    for slow in [Slow::Never, Slow::Head, Slow::SecondHead, Slow::Body, Slow::Chunks] {
        for _ in 0..each {
            let wire = Wire::connect(served.addr).await;
            clients.push((slow, tokio::spawn(dribble(wire, slow, pause))));
        }
    }
    let begun = Instant::now();
    while begun.elapsed() < timeout / 2 {
        served.is_alive().await;
        tokio::time::sleep(timeout / 20).await;
    }
    for (slow, client) in clients {
        let (response, time) = soon("the end of a slow client", client).await.expect("no panic");
        let response = String::from_utf8_lossy(&response).into_owned();
        assert!(time >= timeout / 2, "{slow:?} was cut off after {time:?}");
        assert!(time < timeout + Duration::from_secs(3), "{slow:?} was cut off after {time:?} only");
        let is_told = response.starts_with("HTTP/1.1 408 ") && response.contains(r#""jsonrpc""#);
        match slow {
            // What is read of a body is read by us, and we say why we no longer do.
            Slow::Body | Slow::Chunks => assert!(is_told, "{slow:?}: {response}"),
            _ => assert!(is_told || response.is_empty(), "{slow:?}: {response}"),
        }
        assert!(response.matches("HTTP/1.1").count() < 2, "{slow:?}: {response}");
    }
    say(&format!("slow senders: cut off within {:?}", begun.elapsed()));
    served.is_alive().await;
    served.end().await;
}

/// Sends slowly, until the connection is closed: what was answered, and how long it took.
async fn dribble(mut wire: Wire, slow: Slow, pause: Duration) -> (Vec<u8>, Duration) {
    let request = requests::call(1, "echo", r#"{"text":"slow"}"#);
    let head = super::wire::find(&request, b"\r\n\r\n").expect("a head") + 4;
    let (at_once, slowly) = match slow {
        Slow::Never => (vec![], vec![]),
        Slow::Head => (vec![], request),
        Slow::SecondHead => {
            let (first, _) = wire.ask(&request).await;
            assert_eq!(first.status, 200);
            (vec![], request)
        }
        Slow::Body => (request[..head + 5].to_vec(), request[head + 5..].to_vec()),
        Slow::Chunks => {
            let text = String::from_utf8(request[..head].to_vec()).expect("ASCII");
            let length = text.find("Content-Length").expect("a length");
            let head = format!("{}Transfer-Encoding: chunked\r\n\r\n", &text[..length]);
            let chunks = request[head.len()..].iter().map(|byte| format!("1\r\n{}\r\n", char::from(*byte)));
            (head.into_bytes(), chunks.collect::<String>().into_bytes())
        }
    };
    let begun = Instant::now();
    wire.send(&at_once).await.expect("it is taken");
    let (reader, mut writer) = wire.stream.into_split();
    let sending = tokio::spawn(async move {
        for byte in slowly {
            tokio::time::sleep(pause).await;
            if writer.write_all(&[byte]).await.is_err() {
                return;
            }
        }
        // What is still open must not be closed by us.
        std::future::pending::<()>().await;
    });
    let mut response = Vec::new();
    let mut some = [0; 1024];
    loop {
        reader.readable().await.expect("a socket");
        match reader.try_read(&mut some) {
            Ok(0) => break,
            Ok(count) => response.extend_from_slice(&some[..count]),
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
            Err(_) => break,
        }
    }
    sending.abort();
    (response, begun.elapsed())
}
