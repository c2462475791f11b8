//! Response bodies: in pieces, late, broken, too long or missing.

use std::sync::Arc;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;

use super::net::{self, TestServer, answer, ok};
use super::*;

/// Starts a server that calls `run` for each connection after it has read a request.
async fn after_request<F, Fut>(run: F) -> Fetch
where
    F: Fn(TcpStream) -> Fut + Send + 'static,
    Fut: Future<Output = ()> + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    tokio::spawn(async move {
        loop {
            let (mut tcp, _) = listener.accept().await.unwrap();
            tcp.set_nodelay(true).unwrap();
            if net::read(&mut tcp).await.is_some() {
                tokio::spawn(run(tcp));
            }
        }
    });
    fetch(&Endpoint::new(url).no_proxy())
}

/// Starts a server that sends these bytes and closes the connection.
async fn sending(bytes: &'static [u8]) -> Fetch {
    after_request(move |mut tcp| async move { tcp.write_all(bytes).await.unwrap() }).await
}

async fn all(response: &mut FetchResponse) -> Result<String, FetchError> {
    let bytes = response.bytes(1 << 20).await?;
    Ok(String::from_utf8(bytes).unwrap())
}

/// Waits until the runtime has this many tasks besides the test.
async fn tasks_are(count: usize) {
    let tasks = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let wait = async {
        while tasks() != count {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    let waited = tokio::time::timeout(Duration::from_secs(20), wait).await;
    waited.unwrap_or_else(|_| panic!("{} tasks, and not {count}", tasks()));
}

const CHUNKED: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n\
    6;x=y\r\ndata: \r\n3\r\n{}\n\r\n1\r\n\n\r\n0\r\nTrailer: t\r\n\r\n";

#[tokio::test]
async fn a_response_is_the_same_wherever_it_is_cut() {
    for cut in 1..CHUNKED.len() {
        let fetch = after_request(move |mut tcp| async move {
            tcp.write_all(&CHUNKED[..cut]).await.unwrap();
            tokio::time::sleep(Duration::from_millis(1)).await;
            tcp.write_all(&CHUNKED[cut..]).await.unwrap();
        })
        .await;
        let mut response = post(&fetch).await.unwrap();
        assert_eq!(response.headers["content-type"], "text/event-stream");
        assert_eq!(all(&mut response).await.unwrap(), "data: {}\n\n", "cut at {cut}");
    }
}

#[tokio::test]
async fn chunks_arrive_as_they_are_sent() {
    let fetch = after_request(|mut tcp| async move {
        tcp.write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\none\r\n").await.unwrap();
        // Keeps the connection open without a second chunk, by waiting for a byte that the client never sends.
        tcp.read_u8().await.ok();
    })
    .await;
    let mut response = post(&fetch).await.unwrap();
    assert_eq!(response.chunk().await.unwrap().unwrap(), "one");
    // Cancelling the wait for the next chunk loses nothing.
    let wait = tokio::time::timeout(Duration::from_millis(50), response.chunk()).await;
    assert!(wait.is_err());
}

#[tokio::test]
async fn dropping_a_response_closes_its_connection() {
    let (closed, mut was_closed) = tokio::sync::mpsc::channel(1);
    let fetch = after_request(move |mut tcp| {
        let closed = closed.clone();
        async move {
            tcp.write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\none\r\n").await.unwrap();
            // The client sends nothing more, so this read returns the end of the stream.
            assert!(matches!(tcp.read(&mut [0]).await, Ok(0) | Err(_)));
            closed.send(()).await.unwrap();
        }
    })
    .await;
    let mut response = post(&fetch).await.unwrap();
    assert_eq!(response.chunk().await.unwrap().unwrap(), "one");
    drop(response);
    tokio::time::timeout(Duration::from_secs(20), was_closed.recv()).await.expect("closed").unwrap();
}

#[tokio::test]
async fn dropping_a_request_closes_its_connection() {
    let (closed, mut was_closed) = tokio::sync::mpsc::channel(1);
    let fetch = after_request(move |mut tcp| {
        let closed = closed.clone();
        async move {
            assert!(matches!(tcp.read(&mut [0]).await, Ok(0) | Err(_)));
            closed.send(()).await.unwrap();
        }
    })
    .await;
    let patience = Some(Duration::from_millis(300));
    let error = fetch.send(Method::POST, fetch.url(), &headers(), Bytes::new(), patience).await.err().unwrap();
    assert!(matches!(error, FetchError::TimedOut { .. }) && error.may_have_been_sent(), "{error}");
    tokio::time::timeout(Duration::from_secs(20), was_closed.recv()).await.expect("closed").unwrap();
}

#[tokio::test]
async fn a_connection_is_reused_after_its_response_was_read() {
    let server = TestServer::answering(|_| ok("here")).await;
    let fetch = fetch(&Endpoint::new(server.url("/")).no_proxy());
    for _ in 0..3 {
        assert_eq!(all(&mut post(&fetch).await.unwrap()).await.unwrap(), "here");
        // The connection is returned to the pool in a separate task. The remaining tasks are the server, the two ends
        // of the connection, and the timer of the pool.
        tasks_are(4).await;
    }
    assert!(server.requests().iter().all(|request| request.connection == 0));
    assert_eq!(server.requests()[0].header("user-agent"), Some(concat!("barewire/", env!("CARGO_PKG_VERSION"))));
    assert_eq!(server.requests()[0].header("host"), Some(server.addr.to_string().as_str()));
}

#[tokio::test]
async fn a_connection_closed_by_the_server_is_not_reused() {
    // The server keeps the connection open until it is back in the pool, and then closes it.
    let close = Arc::new(Notify::new());
    let close_signal = Arc::clone(&close);
    let fetch = after_request(move |mut tcp| {
        let close_signal = Arc::clone(&close_signal);
        async move {
            tcp.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").await.unwrap();
            close_signal.notified().await;
        }
    })
    .await;
    for _ in 0..5 {
        assert_eq!(post(&fetch).await.unwrap().status, 200);
        tasks_are(4).await;
        close.notify_one();
        // Waits until the pool has removed the connection.
        tasks_are(2).await;
    }
}

#[tokio::test]
async fn a_server_that_closes_without_a_response_is_an_error() {
    for bytes in [&b""[..], b"HTTP/1.1 20", b"HTTP/1.1 200 OK\r\nContent-"] {
        let fetch = sending(bytes).await;
        let error = refused(&fetch).await;
        assert!(matches!(error, FetchError::Reset { .. }) && error.may_have_been_sent(), "{error}");
        assert!(error.to_string().contains(&fetch.url().origin().to_string()), "{error}");
    }
}

#[tokio::test]
async fn a_truncated_body_is_an_error() {
    for bytes in [
        &b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello"[..],
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nA\r\nhello",
    ] {
        let mut response = post(&sending(bytes).await).await.unwrap();
        assert_eq!(response.chunk().await.unwrap().unwrap(), "hello");
        let error = response.chunk().await.unwrap_err();
        assert!(matches!(error, FetchError::Reset { .. }), "{error}");
        // For an error message the partial text is enough.
        let mut response = post(&sending(bytes).await).await.unwrap();
        assert_eq!(response.text_up_to(100).await, "hello");
    }
}

#[tokio::test]
async fn a_response_that_is_not_http_is_an_error() {
    for bytes in [&b"220 smtp.example ESMTP\r\n"[..], b"{\"jsonrpc\":\"2.0\"}\n", b"\x15\x03\x03\0\x02\x02\x46"] {
        let error = refused(&sending(bytes).await).await;
        assert!(matches!(error, FetchError::Answer { .. }), "{error}");
        assert!(error.to_string().contains("not HTTP"), "{error}");
    }
    let fetch = sending(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nhello\r\n").await;
    let error = post(&fetch).await.unwrap().chunk().await.unwrap_err();
    assert!(matches!(error, FetchError::Answer { .. } | FetchError::Reset { .. }), "{error}");
}

#[tokio::test]
async fn the_head_of_a_response_is_bounded() {
    let fetch = after_request(|mut tcp| async move {
        tcp.write_all(b"HTTP/1.1 200 OK\r\n").await.unwrap();
        let line = format!("X: {}\r\n", "x".repeat(1000));
        // The headers never end; the client closes the connection at its limit.
        while tcp.write_all(line.as_bytes()).await.is_ok() {}
    })
    .await;
    let error = refused(&fetch).await;
    assert!(matches!(error, FetchError::Answer { .. }), "{error}");
}

#[tokio::test]
async fn a_compressed_response_is_refused() {
    let server = TestServer::answering(|_| answer("200 OK", "Content-Encoding: gzip\r\n", "x")).await;
    let error = refused(&fetch(&Endpoint::new(server.url("/")).no_proxy())).await;
    assert!(error.to_string().contains("compressed"), "{error}");
    assert_eq!(server.requests()[0].header("accept-encoding"), None);
}

#[tokio::test]
async fn a_body_longer_than_the_limit_is_an_error() {
    let server = TestServer::answering(|_| ok(&"é".repeat(50_000))).await;
    let fetch = fetch(&Endpoint::new(server.url("/")).no_proxy());
    assert_eq!(post(&fetch).await.unwrap().bytes(100_000).await.unwrap().len(), 100_000);
    let error = post(&fetch).await.unwrap().bytes(99_999).await.unwrap_err();
    assert!(matches!(error, FetchError::TooLong { limit: 99_999, .. }), "{error}");
    assert_eq!(post(&fetch).await.unwrap().text_up_to(5).await, "éé\u{fffd}");
}

#[tokio::test]
async fn a_refused_connection_is_an_error() {
    // A port that was free a moment ago may belong to another process now; this one is nobody's.
    let error = refused(&fetch(&Endpoint::new("http://127.0.0.1:1/secret").no_proxy())).await;
    assert!(matches!(error, FetchError::Connect { .. }) && !error.may_have_been_sent(), "{error}");
    let text = error.to_string();
    assert!(text.contains("http://127.0.0.1:") && text.contains("refused") && !text.contains("secret"), "{text}");
}

#[tokio::test]
async fn an_unresolvable_name_is_an_error() {
    let error = refused(&fetch(&Endpoint::new("http://nowhere.invalid/").no_proxy())).await;
    assert!(matches!(&error, FetchError::Resolve { host, .. } if host == "nowhere.invalid"), "{error}");
    assert!(!error.may_have_been_sent());
}

#[tokio::test]
async fn a_missing_tls_handshake_times_out() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}/", listener.local_addr().unwrap());
    let endpoint = Endpoint::new(url).no_proxy().connect_timeout(Duration::from_millis(300));
    let error = refused(&fetch(&endpoint)).await;
    assert!(matches!(error, FetchError::Connect { .. }), "{error}");
    assert!(error.to_string().contains("within 300ms"), "{error}");
}
