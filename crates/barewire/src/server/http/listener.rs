//! A listening socket: accepts connections, serves them, and shuts down gracefully.

use std::convert::Infallible;
use std::fmt;
use std::future::{Future, poll_fn};
use std::io;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use barewire_proto::http::{Rejection, RejectionRule};
use http::{Request, Response};
use hyper::body::Incoming;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::body::Body;
use super::endpoint::HttpEndpoint;
use super::response::refusal;
use super::sender::Sender;
use super::service::{HttpService, ResponseFuture};
use super::service_listener::{self, MAX_CONNECTIONS};
use super::sniff::{DetectedProtocol, PrefixedStream, sniff};
use super::{HttpError, PeerAddress};
use crate::Server;
use crate::transport::{Parts, accept};
use crate::until::until;

/// A server that listens on a TCP port for HTTP connections.
#[must_use = "nothing is served until the listener runs"]
pub struct HttpListener {
    tcp: TcpListener,
    router: Router,
    /// The server for connections that do not use HTTP. `None` unless
    /// [`HttpBuilder::every_framing`](super::HttpBuilder::every_framing) allows them.
    framed_server: Option<Server>,
}

/// A handle that stops a running [`HttpListener`]. Cheap to clone.
#[derive(Debug, Clone)]
pub struct StopHandle(HttpService);

impl StopHandle {
    /// Makes [`/readyz`](super::HttpBuilder::health) answer 503, and nothing else: all requests are still served. Call it
    /// some seconds before [`Self::stop`], so that a load balancer sends no more clients to a server that is about to
    /// close its connections.
    pub fn drain(&self) {
        self.0.drain();
    }

    /// Starts a graceful shutdown: no new connections are accepted, and running requests may finish.
    pub fn stop(&self) {
        self.0.close();
    }
}

impl HttpListener {
    pub(super) async fn bind(
        addrs: &[SocketAddr],
        service: HttpService,
        path: String,
        framed_server: Option<Server>,
    ) -> Result<Self, HttpError> {
        let tcp = TcpListener::bind(addrs).await.map_err(HttpError::Bind)?;
        let router = Router { service, path: path.into() };
        Ok(Self { tcp, router, framed_server })
    }

    /// Returns the address that the listener is bound to. If port 0 was requested, the system has chosen the port.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.tcp.local_addr()
    }

    /// Returns the URL for clients on this machine.
    pub fn url(&self) -> String {
        match self.local_addr() {
            Ok(addr) => format!("http://{addr}{}", self.router.path),
            Err(_) => self.router.path.to_string(),
        }
    }

    /// Returns a handle that stops this listener.
    pub fn stop_handle(&self) -> StopHandle {
        StopHandle(self.router.service.clone())
    }

    /// Serves until [`StopHandle::stop`] is called. Then the listener stops accepting connections, ends streams after
    /// their final messages, lets running requests finish, and aborts requests that take longer than the grace period.
    pub async fn run(self) {
        let Self { tcp, router, framed_server } = self;
        let endpoint = Arc::clone(&router.service.0);
        let most = endpoint.limits.connections.min(MAX_CONNECTIONS);
        let room = Arc::new(Semaphore::new(most));
        // Ends all sessions when this function returns, or when its future is dropped.
        let _abandon = AbandonOnDrop(Arc::clone(&endpoint));
        loop {
            let next = async {
                let room = Arc::clone(&room).acquire_owned().await.expect("the semaphore is never closed");
                (accept(|| async { tcp.accept().await }).await, room)
            };
            let Some(((stream, peer), permit)) = until(next, endpoint.shutdown.wait()).await else { break };
            let sender = endpoint.senders.at(Some(PeerAddress(peer.ip())));
            let connection = ConnectionRouter { router: router.clone(), sender };
            tokio::spawn(serve(stream, connection, framed_server.clone(), permit));
        }
        drop(tcp);
        let most = u32::try_from(most).unwrap_or(u32::MAX);
        // Each connection holds one permit, so all permits are free when all connections have closed.
        let all_done = async {
            let _ = room.acquire_many(most).await;
        };
        let all_done = async {
            all_done.await;
            endpoint.finish_for_others().await;
        };
        let _ = tokio::time::timeout(endpoint.limits.grace.saturating_add(SHUTDOWN_SLACK), all_done).await;
        if let Some(node) = &endpoint.cluster {
            node.flush().await;
            node.leave().await;
        }
    }

    /// Like [`Self::run`], but also starts the shutdown when `stop` is ready.
    pub async fn run_until(self, stop: impl Future<Output = ()>) {
        let stop_handle = self.stop_handle();
        let (mut stop, mut run) = (pin!(stop), pin!(self.run()));
        let mut is_stopped = false;
        poll_fn(|context| {
            if !is_stopped && stop.as_mut().poll(context).is_ready() {
                is_stopped = true;
                stop_handle.stop();
            }
            run.as_mut().poll(context)
        })
        .await;
    }
}

impl fmt::Debug for HttpListener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpListener").field("url", &self.url()).finish_non_exhaustive()
    }
}

/// Ends all sessions of a listener when the listener stops running.
struct AbandonOnDrop(Arc<HttpEndpoint>);

impl Drop for AbandonOnDrop {
    fn drop(&mut self) {
        self.0.close();
        self.0.abandon();
    }
}

/// Serves one connection.
async fn serve(
    mut stream: TcpStream,
    router: ConnectionRouter,
    framed_server: Option<Server>,
    _permit: OwnedSemaphorePermit,
) {
    // A response is written in one piece, so delaying packets to fill them (Nagle's algorithm) would only cost time.
    if stream.set_nodelay(true).is_err() {
        return;
    }
    let Some(server) = framed_server else { return serve_http(stream, router).await };
    let endpoint = Arc::clone(&router.router.service.0);
    let first = tokio::time::timeout(endpoint.limits.head_timeout, sniff(&mut stream));
    match until(first, endpoint.shutdown.wait()).await {
        Some(Ok(Ok(Some((DetectedProtocol::Http, first))))) => {
            serve_http(PrefixedStream::new(first, stream), router).await;
        }
        Some(Ok(Ok(Some((DetectedProtocol::Framed(framing), first))))) => {
            let (reader, writer) = stream.into_split();
            let parts = Parts { framing, ..Parts::new(PrefixedStream::new(first, reader), writer) };
            let mut limits = endpoint.limits.engine.clone();
            limits.frame = endpoint.limits.body;
            limits.idle_timeout = Some(endpoint.limits.session_idle);
            let connection = server.connection(parts).limits(limits).log(endpoint.log.clone());
            let (peer, running) = connection.traced(endpoint.trace.clone()).open();
            let shutdown = async {
                endpoint.shutdown.wait().await;
                peer.shut_down().await;
            };
            let (mut running, mut shutdown) = (pin!(running), pin!(shutdown));
            // The reason why the connection ended is not logged: it matters only to the client.
            let _ = poll_fn(|context| {
                let _ = shutdown.as_mut().poll(context);
                running.as_mut().poll(context)
            })
            .await;
        }
        Some(Ok(Ok(None))) => {
            endpoint.log.report(format_args!("connection closed: its first bytes are neither HTTP nor a message"));
        }
        // The connection closed or failed, its first bytes came too late, or the server shuts down.
        _ => {}
    }
}

async fn serve_http<S>(stream: S, router: ConnectionRouter)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let endpoint = Arc::clone(&router.router.service.0);
    service_listener::serve_http(stream, router, &endpoint.limits, endpoint.shutdown.wait()).await;
}

/// Passes requests for `path` (and for the metadata, health and metrics) to the service, and answers all other requests
/// with 404.
#[derive(Clone)]
struct Router {
    service: HttpService,
    path: Arc<str>,
}

/// The requests of one connection.
struct ConnectionRouter {
    router: Router,
    /// The sender of the requests, unless they are authenticated.
    sender: Arc<Sender>,
}

impl hyper::service::Service<Request<Incoming>> for ConnectionRouter {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = ResponseFuture;

    fn call(&self, request: Request<Incoming>) -> ResponseFuture {
        let Router { service, path: endpoint_path } = &self.router;
        let path = request.uri().path();
        let is_metadata = service.0.metadata.as_ref().is_some_and(|metadata| metadata.is_at(path));
        if *path == **endpoint_path || is_metadata || service.0.monitoring.at(path).is_some() {
            return service.respond(request, Arc::clone(&self.sender));
        }
        let why = format!("There is nothing at this path: the endpoint is {endpoint_path}");
        let response: Pin<Box<_>> = Box::pin(async move { Ok(*refusal(Rejection::new(RejectionRule::Path, why))) });
        response
    }
}

/// The additional time that connections have to close after the grace period.
const SHUTDOWN_SLACK: Duration = Duration::from_millis(500);
