//! A connection that is lost again and again, and a server that is there but does not serve.

use std::io::Write;
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use barewire::server::http::cluster::{ClusterStore, LogEntry, StoreError};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use crate::copies::eventually;
use crate::redis_server::{RedisServer, patient};

/// A server of which all connections break with their first script: a node does not connect to it without a pause.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_closes_each_connection_is_not_flooded() {
    let server = RedisServer::start(&[]);
    let (is_broken, count) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("redis://{}", listener.local_addr().expect("bound"));
    let port = server.port();
    tokio::spawn({
        let (is_broken, count) = (Arc::clone(&is_broken), Arc::clone(&count));
        async move {
            while let Ok((client, _)) = listener.accept().await {
                count.fetch_add(1, Ordering::SeqCst);
                tokio::spawn(relay(client, port, Arc::clone(&is_broken)));
            }
        }
    });
    let node = patient().connect(&url).await.expect("it is a server");
    is_broken.store(true, Ordering::SeqCst);
    eventually("the connection has broken", async || node.is_away()).await;
    let (start, before) = (Instant::now(), count.load(Ordering::SeqCst));
    // A node that does not wait has connected hundreds of times.
    while start.elapsed() < Duration::from_secs(3) {
        let _ = node.nodes().await;
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let connections = count.load(Ordering::SeqCst) - before;
    let seconds = usize::try_from(start.elapsed().as_secs()).expect("a small number");
    assert!(connections <= seconds + 2, "{connections} connections in {seconds} seconds");
    is_broken.store(false, Ordering::SeqCst);
    eventually("the node is back", async || node.nodes().await.is_ok()).await;
}

/// Passes bytes on until the client sends a script while the server is broken.
async fn relay(mut client: tokio::net::TcpStream, port: u16, is_broken: Arc<AtomicBool>) {
    let mut server = tokio::net::TcpStream::connect(("127.0.0.1", port)).await.expect("it runs");
    let (mut request, mut answer) = ([0; 1 << 16], [0; 1 << 16]);
    loop {
        let passed = tokio::select! {
            read = client.read(&mut request) => match read {
                Ok(length @ 1..) => {
                    let is_script = request[..length].windows(4).any(|word| word == b"EVAL");
                    if is_script && is_broken.load(Ordering::SeqCst) {
                        return;
                    }
                    server.write_all(&request[..length]).await
                }
                _ => return,
            },
            read = server.read(&mut answer) => match read {
                Ok(length @ 1..) => client.write_all(&answer[..length]).await,
                _ => return,
            },
        };
        if passed.is_err() {
            return;
        }
    }
}

/// The script of another program runs for long: what cannot be written now is not refused.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_busy_with_a_script_is_away() {
    let server = RedisServer::start(&["--lua-time-limit", "10"]);
    let node = server.join().await;
    let mut other = TcpStream::connect(("127.0.0.1", server.port())).expect("it runs");
    other.write_all(b"EVAL \"while true do end\" 0\r\n").expect("it reads");
    eventually("it is busy", async || server.command(&["PING"]).starts_with("-BUSY")).await;
    let entry =
        |name: &str| LogEntry { name: name.into(), entry: "entry".into(), keep: 10, lifetime: Duration::from_secs(60) };
    let appended = node.append(vec![entry("session/a/events"), entry("session/b/events")]).await;
    assert!(matches!(appended, Err(StoreError::Away(_))), "{appended:?}");
    assert_eq!(server.command(&["SCRIPT", "KILL"]), "+OK\r\n");
    eventually("the node is back", async || node.nodes().await.is_ok()).await;
    assert_eq!(node.append(vec![entry("session/a/events")]).await, Ok(()));
}
