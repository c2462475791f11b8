//! A socket that others connect to: accepted, served, and in the end finished in order.

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
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::HttpError;
use super::body::Body;
use super::endpoint::Endpoint;
use super::patience::Patient;
use super::response::refused;
use super::service::{HttpService, ResponseFuture};
use super::sniff::{Begun, Spoken, sniff};
use crate::Server;
use crate::transport::{Parts, accept};
use crate::until::until;

/// A port that a server listens on over HTTP.
#[must_use = "nothing is served until it runs"]
pub struct HttpListener {
    tcp: TcpListener,
    router: Router,
    /// Serves those who speak without HTTP, if they are served.
    framed: Option<Server>,
}

/// Ends a [`HttpListener`] that runs. Cheap to clone.
#[derive(Debug, Clone)]
pub struct StopHandle(HttpService);

impl StopHandle {
    /// Accepts nothing more, and lets what is under way finish.
    pub fn stop(&self) {
        self.0.close();
    }
}

impl HttpListener {
    pub(super) async fn bind(
        addrs: &[SocketAddr],
        service: HttpService,
        path: String,
        framed: Option<Server>,
    ) -> Result<Self, HttpError> {
        let tcp = TcpListener::bind(addrs).await.map_err(HttpError::Bind)?;
        let router = Router { service, path: path.into() };
        Ok(Self { tcp, router, framed })
    }

    /// Where it listens: the port, if it was asked for port 0.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.tcp.local_addr()
    }

    /// The URL that clients on this machine reach it by.
    pub fn url(&self) -> String {
        match self.local_addr() {
            Ok(addr) => format!("http://{addr}{}", self.router.path),
            Err(_) => self.router.path.to_string(),
        }
    }

    /// A handle that ends it.
    pub fn stop_handle(&self) -> StopHandle {
        StopHandle(self.router.service.clone())
    }

    /// Serves until [`StopHandle::stop`] is called. Then it accepts nothing more, ends streams with what they have to say at the end,
    /// finishes what is in flight, and gives up what takes longer than its grace.
    pub async fn run(self) {
        let Self { tcp, router, framed } = self;
        let endpoint = Arc::clone(&router.service.0);
        let most = endpoint.limits.connections.min(MOST_CONNECTIONS);
        let room = Arc::new(Semaphore::new(most));
        // Also if nobody waits for the end in order.
        let _ended = Ended(Arc::clone(&endpoint));
        loop {
            let next = async {
                let room = Arc::clone(&room).acquire_owned().await.expect("it is never closed");
                (accept(|| async { tcp.accept().await }).await.0, room)
            };
            let Some((stream, permit)) = until(next, endpoint.closing.told()).await else { break };
            tokio::spawn(serve(stream, router.clone(), framed.clone(), permit));
        }
        drop(tcp);
        let most = u32::try_from(most).unwrap_or(u32::MAX);
        // Each connection holds one of them.
        let all_done = async {
            let _ = room.acquire_many(most).await;
        };
        let _ = tokio::time::timeout(endpoint.limits.grace.saturating_add(SLACK), all_done).await;
    }

    /// The same, until `stop` is ready.
    pub async fn run_until(self, stop: impl Future<Output = ()>) {
        let told = self.stop_handle();
        let (mut stop, mut run) = (pin!(stop), pin!(self.run()));
        let mut is_told = false;
        poll_fn(|context| {
            if !is_told && stop.as_mut().poll(context).is_ready() {
                is_told = true;
                told.stop();
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

/// Ends what a listener that runs no longer has left.
struct Ended(Arc<Endpoint>);

impl Drop for Ended {
    fn drop(&mut self) {
        self.0.close();
        self.0.abandon();
    }
}

/// One connection.
async fn serve(mut stream: TcpStream, router: Router, framed: Option<Server>, _permit: OwnedSemaphorePermit) {
    // An answer is written whole, so there is nothing to wait for that would go into the same packet.
    if stream.set_nodelay(true).is_err() {
        return;
    }
    let Some(server) = framed else { return serve_http(stream, router).await };
    let endpoint = Arc::clone(&router.service.0);
    let first = tokio::time::timeout(endpoint.limits.head_timeout, sniff(&mut stream));
    match until(first, endpoint.closing.told()).await {
        Some(Ok(Ok(Some((Spoken::Http, first))))) => {
            serve_http(Begun::new(first, stream), router).await;
        }
        Some(Ok(Ok(Some((Spoken::Framed(framing), first))))) => {
            let (reader, writer) = stream.into_split();
            let parts = Parts { framing, ..Parts::new(Begun::new(first, reader), writer) };
            let mut limits = endpoint.limits.engine.clone();
            limits.frame = endpoint.limits.body;
            limits.idle_timeout = Some(endpoint.limits.session_idle);
            let connection = server.connection(parts).limits(limits).log(endpoint.log.clone());
            let (peer, running) = connection.traced(endpoint.trace.clone()).open();
            let shutdown = async {
                endpoint.closing.told().await;
                peer.shut_down().await;
            };
            let (mut running, mut shutdown) = (pin!(running), pin!(shutdown));
            // How it ended is of no interest to anybody but the client.
            let _ = poll_fn(|context| {
                let _ = shutdown.as_mut().poll(context);
                running.as_mut().poll(context)
            })
            .await;
        }
        Some(Ok(Ok(None))) => {
            let what = "closed without an answer: it is neither HTTP nor a message";
            endpoint.log.report(format_args!("connection {what}"));
        }
        // It ended, or took too long to begin.
        _ => {}
    }
}

async fn serve_http<S>(stream: S, router: Router)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let endpoint = Arc::clone(&router.service.0);
    let limits = &endpoint.limits;
    let stream = TokioIo::new(Patient::new(stream, limits.write_timeout));
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(limits.head_timeout)
        .max_buf_size(limits.head.max(SMALLEST_HEAD));
    let mut connection = pin!(builder.serve_connection(stream, router));
    // A client that breaks off is no news.
    if until(connection.as_mut(), endpoint.closing.told()).await.is_some() {
        return;
    }
    connection.as_mut().graceful_shutdown();
    // What is not done by then is given up, and so is what it was doing.
    let _ = tokio::time::timeout(limits.grace, connection).await;
}

/// The service at its path, and nothing elsewhere.
#[derive(Clone)]
struct Router {
    service: HttpService,
    path: Arc<str>,
}

impl hyper::service::Service<Request<Incoming>> for Router {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = ResponseFuture;

    fn call(&self, request: Request<Incoming>) -> ResponseFuture {
        let path = request.uri().path();
        let is_metadata = self.service.0.metadata.as_ref().is_some_and(|metadata| metadata.is_at(path));
        if *path == *self.path || is_metadata {
            return self.service.respond(request);
        }
        let why = format!("There is nothing at this path: the endpoint is {}", self.path);
        let response: Pin<Box<_>> = Box::pin(async move { Ok(*refused(Rejection::new(RejectionRule::Path, why))) });
        response
    }
}

/// So many tokio can count.
const MOST_CONNECTIONS: usize = 1 << 20;

/// hyper needs so much.
const SMALLEST_HEAD: usize = 8 * 1024;

/// So long it takes to end connections after their grace is over.
const SLACK: Duration = Duration::from_millis(500);
