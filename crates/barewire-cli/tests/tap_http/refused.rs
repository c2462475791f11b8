//! Responses of the tap itself: a missing server, wrong host names, and requests that it refuses.

use std::net::TcpListener;
use std::process::Command;
use std::thread;
use std::time::Duration;

use super::ends::{PROGRAM, Tap, server};
use super::program_output::{NO_SERVER, ProgramOutput};

#[test]
fn a_server_that_is_not_there_is_a_bad_gateway() {
    let tap = Tap::to(&format!("http://{NO_SERVER}/mcp"), "down");
    let mut client = tap.connect();
    client.send(format!("GET /mcp HTTP/1.1\r\nHost: {}\r\n\r\n", tap.at));
    let head = client.head();
    assert!(head.starts_with("HTTP/1.1 502 Bad Gateway\r\n"), "{head}");
    let text = String::from_utf8(client.rest()).expect("text");
    let why = format!("barewire tap: the request was not passed on: cannot connect to http://{NO_SERVER}");
    assert!(text.starts_with(&why), "{text}");
    tap.says("502 Bad Gateway");
    let record = tap.end();
    assert!(record.contains("@x1(") && record.contains(") cut < cannot connect to"), "{record}");

    let url = server(|mut client| drop(client.head()));
    let tap = Tap::to(&url, "mute");
    let mut client = tap.connect();
    client.send(format!("GET /mcp HTTP/1.1\r\nHost: {}\r\n\r\n", tap.at));
    assert!(client.head().starts_with("HTTP/1.1 502 Bad Gateway\r\n"));
    assert_eq!(client.rest(), b"barewire tap: the server closed the connection without an answer\n");

    // A response that is cut in the middle stays cut.
    let url = server(|mut client| {
        client.head();
        client.send("HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf");
    });
    let tap = Tap::to(&url, "half");
    let mut client = tap.connect();
    client.send(format!("GET /mcp HTTP/1.1\r\nHost: {}\r\n\r\n", tap.at));
    client.head();
    assert_eq!(client.rest(), b"half");
    let record = tap.end();
    assert!(record.contains("cut < the server closed the connection"), "{record}");
}

#[test]
fn no_web_page_gets_through_by_another_name() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("bound");
    let tap = Tap::to(&format!("http://{}/mcp", listener.local_addr().expect("an address")), "host");
    let port = tap.at.split(':').nth(1).expect("a port");
    for (target, hosts, status) in [
        ("/mcp", "Host: evil.example\r\n".to_owned(), "403"),
        ("/mcp", format!("Host: evil.example:{port}\r\n"), "403"),
        ("/mcp", format!("Host: 127.0.0.1.evil.example:{port}\r\n"), "403"),
        ("/mcp", String::new(), "403"),
        ("/mcp", format!("Host: {}\r\nHost: evil.example\r\n", tap.at), "403"),
        ("http://evil.example/mcp", format!("Host: {}\r\n", tap.at), "403"),
        ("evil.example:443", format!("Host: {}\r\n", tap.at), "400"),
        ("/mcp", format!("Host: {}\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n", tap.at), "400"),
        ("/mcp", format!("Host: {}\r\nContent-Length: 1\r\nContent-Length: 2\r\n", tap.at), "400"),
    ] {
        let mut client = tap.connect();
        client.send(format!("POST {target} HTTP/1.1\r\n{hosts}\r\n"));
        let head = client.head();
        assert!(head.starts_with(&format!("HTTP/1.1 {status} ")), "{target} {hosts}: {head}");
        client.rest();
    }
    listener.set_nonblocking(true).expect("a socket");
    assert!(listener.accept().is_err(), "something was passed on");
    // Nor by a second request on a connection whose first was good.
    let url = server(|mut client| {
        while client.head().contains("GET /good") {
            client.send("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n");
        }
        client.send("HTTP/1.1 500 It came\r\ncontent-length: 0\r\n\r\n");
    });
    let tap = Tap::to(&url, "host2");
    let mut client = tap.connect();
    client.send(format!("GET /good HTTP/1.1\r\nHost: localhost:{}\r\n\r\n", tap.at.split(':').nth(1).expect("a port")));
    assert!(client.head().starts_with("HTTP/1.1 200 OK"));
    client.send("GET /bad HTTP/1.1\r\nHost: evil.example\r\n\r\n");
    assert!(client.head().starts_with("HTTP/1.1 403 Forbidden"));
}

/// Requests before a refused one are sent and answered first, and the refusal is not taken for their response.
#[test]
fn requests_before_a_refused_one_are_answered_first() {
    let url = server(|mut client| {
        while client.head().contains("GET /good") {
            thread::sleep(Duration::from_millis(50));
            client.send("HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\ngood");
        }
    });
    for (bad, status, name) in [
        ("GET /bad HTTP/1.1\r\nHost: evil.example\r\n\r\n", "403 Forbidden", "pipelined"),
        (
            "POST /bad HTTP/1.1\r\nHost: HERE\r\ntransfer-encoding: chunked\r\n\r\nno size\r\n",
            "400 Bad Request",
            "broken",
        ),
    ] {
        let tap = Tap::to(&url, name);
        let good = format!("GET /good HTTP/1.1\r\nHost: {}\r\n\r\n", tap.at);
        let sent = format!("{good}{good}{}", bad.replace("HERE", &tap.at));
        let mut client = tap.connect();
        client.send(&sent);
        for _ in 0..2 {
            assert!(client.head().starts_with("HTTP/1.1 200 OK"));
            assert_eq!(client.exactly(4), "good");
        }
        let head = client.head();
        assert!(head.starts_with(&format!("HTTP/1.1 {status}\r\n")), "{name}: {head}");
        client.rest();
        let record = tap.end();
        assert!(record.contains("refused > "), "{record}");
        assert!(!record.contains("the tap was stopped"), "{record}");
        for number in [1, 2] {
            assert!(
                !record.lines().any(|line| line.starts_with(&format!("@x{number}(")) && line.contains(" cut ")),
                "{record}"
            );
        }
    }
}

#[test]
fn unsupported_requests_are_refused() {
    let tap =
        |options: &[&str]| ProgramOutput::of(Command::new(PROGRAM).arg("tap").args(options).output().expect("it runs"));
    let to = ["--to", "http://127.0.0.1:9/mcp"];
    let open = tap(&[&["--http", "0.0.0.0:0"], &to[..]].concat());
    assert!(open.code == Some(2) && open.stderr.contains("--host NAME"), "{}", open.stderr);
    let fault = tap(&[&["--http", "127.0.0.1:0", "--fault", "drop@1"], &to[..]].concat());
    assert!(fault.code == Some(2) && fault.stderr.contains("--fault"), "{}", fault.stderr);
    let url = tap(&["--http", "127.0.0.1:0", "--to", "ftp://example.com"]);
    assert!(url.code == Some(2) && url.stderr.contains("neither http nor https"), "{}", url.stderr);
    let missing = tap(&["--http", "127.0.0.1:0"]);
    assert!(missing.code == Some(2) && missing.stderr.contains("--url <URL>"), "{}", missing.stderr);
    let both = tap(&["--http", "127.0.0.1:0", "--to", "http://127.0.0.1:9/", "--", "true"]);
    assert_eq!(both.code, Some(2), "{}", both.stderr);
    // Without --http there is nothing that they could mean.
    for option in [&to[..], &["--host", "a.example"], &["--uncompressed"]] {
        for rest in [&["--", "cat"][..], &[]] {
            let said = tap(&[option, rest].concat());
            assert!(said.code == Some(2) && said.stdout.is_empty(), "{option:?} {rest:?} {}", said.stderr);
            assert!(said.stderr.starts_with("error: the "), "{}", said.stderr);
        }
    }
}
