//! HTTP requests to a port that does not serve HTTP: a browser that is made to send one must reach no handler.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use barewire::peer::{Connection, ConnectionEnd, Context, EndReason, Methods, Raw};
use barewire::transport::{Framing, Transport, tcp, unix};

use super::within_deadline;

/// Methods that count their calls.
fn counting(ran: &Arc<AtomicUsize>) -> Methods {
    let ran = Arc::clone(ran);
    Methods::new().fallback(move |_: Context, params: Raw| {
        ran.fetch_add(1, Ordering::SeqCst);
        async move { Ok(params) }
    })
}

fn post() -> String {
    let body = "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"run\",\"params\":[]}\n".repeat(3);
    format!(
        "POST / HTTP/1.1\r\nHost: localhost\r\nOrigin: http://evil.example\r\nContent-Type: text/plain\r\n\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// The ways to send a request: the size of the pieces, and the line breaks in front of it.
const WAYS: [(usize, &str); 4] = [(usize::MAX, ""), (1, ""), (7, "\r\n\r\n"), (1, "\n")];

/// Sends `text` and returns all bytes that come back. A reset counts as none, as for a closed port.
fn send(mut socket: impl Read + Write, text: &str, piece: usize) -> Vec<u8> {
    for piece in text.as_bytes().chunks(piece.min(text.len())) {
        // The socket may be closed before everything is sent.
        if socket.write_all(piece).is_err() {
            break;
        }
    }
    let mut back = Vec::new();
    match socket.read_to_end(&mut back) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionReset => {}
        read => drop(read.expect("nothing but a reset")),
    }
    back
}

async fn serve(transport: impl Transport, ran: &Arc<AtomicUsize>) -> ConnectionEnd {
    let connection = Connection::new(transport).methods(counting(ran));
    within_deadline("the end", connection.run())
        .await
        .expect_err("it is no peer")
        .connection_end()
        .cloned()
        .expect("the reason")
}

fn socket_file(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("barewire-{name}-{}", std::process::id()))
}

#[tokio::test]
async fn an_http_request_is_closed_without_a_byte_and_reaches_no_handler() {
    let ran = Arc::new(AtomicUsize::new(0));
    let path = socket_file("http");
    let local = unix::listen(&path).await.expect("free");
    let port = tcp::listen("127.0.0.1:0").await.expect("a free port");
    let addr = port.local_addr().expect("bound");
    for framing in [Framing::Lines, Framing::ContentLength] {
        for (piece, before) in WAYS {
            let text = format!("{before}{}", post());
            let (sent, to) = (text.clone(), path.clone());
            let client =
                tokio::task::spawn_blocking(move || send(UnixStream::connect(to).expect("it listens"), &sent, piece));
            let ended = serve(local.accept().await.framing(framing), &ran).await;
            assert!(matches!(ended.reason(), EndReason::Http), "{ended}");
            assert_eq!(within_deadline("the client", client).await.expect("no panic"), b"", "{framing:?} {piece}");

            let client = tokio::task::spawn_blocking(move || {
                let socket = TcpStream::connect(addr).expect("it listens");
                socket.set_nodelay(true).expect("a socket");
                send(socket, &text, piece)
            });
            let ended = serve(port.accept().await.framing(framing), &ran).await;
            assert!(matches!(ended.reason(), EndReason::Http), "{ended}");
            assert_eq!(within_deadline("the client", client).await.expect("no panic"), b"", "{framing:?} {piece}");
        }
    }
    assert_eq!(ran.load(Ordering::SeqCst), 0, "handlers ran");

    // A client that speaks the protocol does reach the handlers.
    let to = path.clone();
    let client = tokio::task::spawn_blocking(move || {
        let mut socket = UnixStream::connect(to).expect("it listens");
        socket.write_all(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"run\"}\n").expect("it reads");
        socket.shutdown(Shutdown::Write).expect("connected");
        let mut back = String::new();
        socket.read_to_string(&mut back).expect("it writes");
        back
    });
    let connection = Connection::new(local.accept().await).methods(counting(&ran));
    within_deadline("the end", connection.run()).await.expect("a clean end");
    assert!(client.await.expect("no panic").contains("\"result\""));
    assert_eq!(ran.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn curl_gets_nothing() {
    let ran = Arc::new(AtomicUsize::new(0));
    let port = tcp::listen("127.0.0.1:0").await.expect("a free port");
    let addr = port.local_addr().expect("bound");
    let curl = || {
        let mut curl = Command::new("curl");
        curl.args(["--silent", "--show-error", "--max-time", "10", "--noproxy", "*"]);
        curl.args(["--data-binary", "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"run\"}\n"]);
        curl
    };
    if Command::new("curl").arg("--version").output().is_err() {
        // curl may not be installed; the requests above are the same bytes.
        assert!(post().starts_with("POST / HTTP/1.1\r\n"));
        return;
    }
    for version in ["--http1.0", "--http1.1", "--http2-prior-knowledge"] {
        let mut command = curl();
        command.arg(version).arg(format!("http://{addr}/"));
        let client = tokio::task::spawn_blocking(move || command.output().expect("it starts"));
        let accepted = tokio::time::timeout(Duration::from_secs(5), port.accept()).await;
        // A curl without HTTP/2 does not connect.
        if let Ok(accepted) = accepted {
            let ended = serve(accepted, &ran).await;
            assert!(matches!(ended.reason(), EndReason::Http), "{version}: {ended}");
        }
        let done = within_deadline("curl", client).await.expect("no panic");
        assert_eq!((done.status.success(), &done.stdout[..]), (false, &b""[..]), "{version}: {done:?}");
    }
    assert_eq!(ran.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn a_request_line_that_breaks_off_is_not_answered_either() {
    let ran = Arc::new(AtomicUsize::new(0));
    let port = tcp::listen("127.0.0.1:0").await.expect("a free port");
    let addr = port.local_addr().expect("bound");
    let client = tokio::task::spawn_blocking(move || {
        let mut socket = TcpStream::connect(addr).expect("it listens");
        socket.write_all(b"POST / HTTP/1.1").expect("room");
        socket.shutdown(Shutdown::Write).expect("connected");
        let mut back = Vec::new();
        socket.read_to_end(&mut back).expect("it is closed");
        back
    });
    let ended = serve(port.accept().await, &ran).await;
    assert!(matches!(ended.reason(), EndReason::Http), "{ended}");
    assert_eq!(within_deadline("the client", client).await.expect("no panic"), b"");
}
