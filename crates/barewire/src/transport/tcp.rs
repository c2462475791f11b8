//! TCP: a listener on loopback, and connections.

use std::io;
use std::net::SocketAddr;

use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream, ToSocketAddrs};

use super::{Framing, Parts, Socket, Transport, accept};

/// Listens on a loopback address, which only this machine can reach.
///
/// Any other address is an error. See [`listen_beyond_loopback`].
pub async fn listen(addr: impl ToSocketAddrs) -> io::Result<TcpSocketListener> {
    let addrs: Vec<SocketAddr> = tokio::net::lookup_host(addr).await?.collect();
    if let Some(open) = addrs.iter().find(|addr| !addr.ip().to_canonical().is_loopback()) {
        return Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            format!(
                "{open} can be reached from other machines: listen on 127.0.0.1 or [::1], or call listen_beyond_loopback"
            ),
        ));
    }
    bind(&addrs).await
}

/// Listens on an address that other machines can reach. Clients are not authenticated.
pub async fn listen_beyond_loopback(addr: impl ToSocketAddrs) -> io::Result<TcpSocketListener> {
    let addrs: Vec<SocketAddr> = tokio::net::lookup_host(addr).await?.collect();
    bind(&addrs).await
}

/// Connects to a listener on this or another machine.
pub async fn connect(addr: impl ToSocketAddrs) -> io::Result<Socket<TcpStream>> {
    without_delay(TcpStream::connect(addr).await?).map(Socket::connected)
}

/// A listener on a TCP port. Each accepted connection is a [`Socket`].
#[derive(Debug)]
pub struct TcpSocketListener {
    listener: TcpListener,
    framing: Framing,
}

impl TcpSocketListener {
    /// Sets the framing of accepted connections. The default is one message per line.
    pub fn framing(mut self, framing: Framing) -> Self {
        self.framing = framing;
        self
    }

    /// Accepts the next connection. If no file descriptor is available, waits until one is.
    pub async fn accept(&self) -> Socket<TcpStream> {
        let attempt = || async { without_delay(self.listener.accept().await?.0) };
        Socket::accepted(accept(attempt).await).framing(self.framing)
    }

    /// Returns the address of the listener. If port 0 was requested, the address contains the actual port.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

impl Transport for Socket<TcpStream> {
    type Reader = OwnedReadHalf;
    type Writer = OwnedWriteHalf;

    fn into_parts(self) -> Parts<OwnedReadHalf, OwnedWriteHalf> {
        self.parts(TcpStream::into_split)
    }
}

async fn bind(addrs: &[SocketAddr]) -> io::Result<TcpSocketListener> {
    Ok(TcpSocketListener { listener: TcpListener::bind(addrs).await?, framing: Framing::Lines })
}

/// Turns off Nagle's algorithm, which delays small writes: messages are written whole, so a delay would gain nothing.
fn without_delay(stream: TcpStream) -> io::Result<TcpStream> {
    stream.set_nodelay(true)?;
    Ok(stream)
}
