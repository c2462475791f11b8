//! A listening socket for any HTTP service: accepts connections, bounds them, and shuts down gracefully.

use std::convert::Infallible;
use std::fmt;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;

use http::{Request, Response};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::Service;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream, ToSocketAddrs};
use tokio::sync::{Semaphore, watch};

use super::HttpLimits;
use super::write_timeout::WriteTimeout;
use crate::transport::accept;
use crate::until::until;

/// A server that listens on a TCP port and passes every HTTP request to a service, for a program that shows a page of
/// its own. Connections have the same limits as those of an [`HttpListener`](super::HttpListener); the service checks
/// hosts, origins and credentials itself.
#[must_use = "nothing is served until the listener runs"]
pub struct ServiceListener {
    tcp: TcpListener,
    limits: HttpLimits,
}

impl ServiceListener {
    /// Binds a port. Of the limits, those of connections, heads, writes and the shutdown apply.
    pub async fn bind(addr: impl ToSocketAddrs, limits: HttpLimits) -> io::Result<Self> {
        Ok(Self { tcp: TcpListener::bind(addr).await?, limits })
    }

    /// Returns the address that the listener is bound to. If port 0 was requested, the system has chosen the port.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.tcp.local_addr()
    }

    /// Serves until `stop` is ready. Then running requests may finish within the grace period.
    pub async fn run_until<S, B>(self, service: S, stop: impl Future<Output = ()>)
    where
        S: Service<Request<Incoming>, Response = Response<B>, Error = Infallible> + Clone + Send + 'static,
        S::Future: Send,
        B: http_body::Body + Send + 'static,
        B::Data: Send,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let Self { tcp, limits } = self;
        let most = limits.connections.min(MAX_CONNECTIONS);
        let (room, closing) = (Arc::new(Semaphore::new(most)), watch::Sender::new(false));
        let (limits, mut stop) = (Arc::new(limits), pin!(stop));
        loop {
            let next = async {
                let room = Arc::clone(&room).acquire_owned().await.expect("the semaphore is never closed");
                (accept(|| async { tcp.accept().await }).await, room)
            };
            let Some(((stream, _), permit)) = until(next, stop.as_mut()).await else { break };
            let (service, limits, mut closing) = (service.clone(), Arc::clone(&limits), closing.subscribe());
            tokio::spawn(async move {
                let closed = async move {
                    let _ = closing.wait_for(|is_closing| *is_closing).await;
                };
                serve(stream, service, &limits, closed).await;
                drop(permit);
            });
        }
        drop(tcp);
        closing.send_replace(true);
        let all_done = async {
            let _ = room.acquire_many(u32::try_from(most).unwrap_or(u32::MAX)).await;
        };
        let _ = tokio::time::timeout(limits.grace, all_done).await;
    }
}

impl fmt::Debug for ServiceListener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServiceListener").field("addr", &self.local_addr().ok()).finish_non_exhaustive()
    }
}

async fn serve<S, B>(stream: TcpStream, service: S, limits: &HttpLimits, stop: impl Future<Output = ()>)
where
    S: Service<Request<Incoming>, Response = Response<B>, Error = Infallible>,
    B: http_body::Body + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    // A response is written in one piece, so delaying packets to fill them (Nagle's algorithm) would only cost time.
    if stream.set_nodelay(true).is_ok() {
        serve_http(stream, service, limits, stop).await;
    }
}

/// Serves the HTTP requests of one connection, until it ends or `stop` is ready.
pub(super) async fn serve_http<T, S, B>(stream: T, service: S, limits: &HttpLimits, stop: impl Future<Output = ()>)
where
    T: AsyncRead + AsyncWrite + Unpin,
    S: Service<Request<Incoming>, Response = Response<B>, Error = Infallible>,
    B: http_body::Body + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let stream = TokioIo::new(WriteTimeout::new(stream, limits.write_timeout));
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(limits.head_timeout)
        .max_buf_size(limits.head.max(MIN_HEAD_BYTES));
    let mut connection = pin!(builder.serve_connection(stream, service));
    // The result is ignored: a client that disconnects is not logged.
    if until(connection.as_mut(), stop).await.is_some() {
        return;
    }
    connection.as_mut().graceful_shutdown();
    // Requests that are not finished after the grace period are aborted.
    let _ = tokio::time::timeout(limits.grace, connection).await;
}

/// The highest effective value of `HttpLimits::connections`. tokio's semaphores can count this many permits.
pub(super) const MAX_CONNECTIONS: usize = 1 << 20;

/// The minimum buffer size that hyper accepts, in bytes.
const MIN_HEAD_BYTES: usize = 8 * 1024;
