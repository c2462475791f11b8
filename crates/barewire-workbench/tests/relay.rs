//! The HTTP relay and clients that send nothing.

use std::net::SocketAddr;
use std::time::Duration;

use barewire::Server;
use barewire::client::http::{Dialer, Endpoint};
use barewire_workbench::relay::RelayCopies;
use barewire_workbench::relay::http::{HttpRelay, HttpRelaySettings};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// The relay takes a thousand clients. Idle ones must not keep others out for ever.
#[tokio::test]
async fn clients_that_send_no_head_are_disconnected() {
    let server = Server::new("s", "1").http().bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}/mcp", server.local_addr().expect("it listens"));
    let server = tokio::spawn(server.run());
    let mut settings = HttpRelaySettings::default();
    settings.first_head = Duration::from_secs(2);
    let dialer = Dialer::new(&Endpoint::new(&url).no_proxy()).expect("a URL");
    let relay = HttpRelay::listen("127.0.0.1:0", dialer, &settings).await.expect("a port");
    let address = relay.local_addr().expect("it listens");
    relay.run(RelayCopies::default(), clients(address, settings.first_head), |_, _| {}).await;
    server.abort();
}

async fn clients(address: SocketAddr, first_head: Duration) {
    let mut silent = TcpStream::connect(address).await.expect("it listens");
    let mut partial = TcpStream::connect(address).await.expect("it listens");
    partial.write_all(b"POST /mcp HTTP/1.1\r\nHost: ").await.expect("sent");
    for client in [&mut silent, &mut partial] {
        let mut rest = Vec::new();
        let closed = tokio::time::timeout(DEADLINE, client.read_to_end(&mut rest)).await;
        closed.expect("the relay closes the connection").expect("an orderly end");
        assert_eq!(rest, b"");
    }

    // The limit is for the first head only: a client may be idle after it.
    let mut client = TcpStream::connect(address).await.expect("it listens");
    for _ in 0..2 {
        let request = format!("GET /mcp HTTP/1.1\r\nHost: {address}\r\n\r\n");
        client.write_all(request.as_bytes()).await.expect("sent");
        let mut head = vec![0; 12];
        let read = tokio::time::timeout(DEADLINE, client.read_exact(&mut head)).await;
        read.expect("in time").expect("a response");
        assert!(head.starts_with(b"HTTP/1.1 4"), "{}", head.escape_ascii());
        tokio::time::sleep(2 * first_head).await;
        // The rest of the response.
        let mut rest = vec![0; 4096];
        assert!(client.try_read(&mut rest).expect("a body") > 0);
    }
}

/// Longer than anything here takes, also on a busy machine.
const DEADLINE: Duration = Duration::from_secs(20);
