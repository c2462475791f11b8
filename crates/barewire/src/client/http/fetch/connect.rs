//! Opens the connection for a URI: name lookup, TCP, proxy, TLS.

use std::io::{self, IoSlice};
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use std::vec;

use barewire_proto::auth::NetworkPolicy;
use bytes::Bytes;
use http::header::{self, HeaderValue};
use http::{Request, StatusCode, Uri};
use http_body_util::Empty;
use hyper::client::conn::http1;
use hyper_util::client::legacy::connect::dns::Name;
use hyper_util::client::legacy::connect::proxy::SocksV5;
use hyper_util::client::legacy::connect::{Connected, Connection, HttpConnector};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tower_service::Service;

use super::error::{FetchError, ResolveError};
use super::proxy::{Proxies, Proxy, ProxyKind};
use super::tls::Tls;
use super::url::Origin;

/// Opens connections for the pool.
#[derive(Clone)]
pub(super) struct Connector {
    tcp: HttpConnector<Resolver>,
    tls: Arc<Tls>,
    proxies: Arc<Proxies>,
    timeout: Duration,
    policy: Option<NetworkPolicy>,
}

impl Connector {
    pub(super) fn new(tls: Tls, proxies: Arc<Proxies>, timeout: Duration) -> Self {
        Self { tcp: tcp_connector(timeout, None), tls: Arc::new(tls), proxies, timeout, policy: None }
    }

    /// Returns a connector that connects only to addresses that the policy allows. The addresses that are checked are
    /// those that are connected to, so a name whose addresses change between two lookups gains nothing. A proxy looks
    /// names up itself; for a connection through a proxy, only a host that is an address is checked.
    pub(super) fn with_policy(&self, policy: NetworkPolicy) -> Self {
        Self { policy: Some(policy), ..self.clone() }
    }

    /// Returns the `Proxy-Authorization` header for a request to this URI, if it goes to a proxy that needs one.
    #[cfg(feature = "oauth")]
    pub(super) fn proxy_authorization(&self, uri: &Uri) -> Option<(http::HeaderName, HeaderValue)> {
        self.proxies.authorization(uri)
    }

    async fn connect(self, uri: Uri) -> Result<TokioIo<PooledStream>, FetchError> {
        let origin = Origin::from_uri(&uri);
        // A host that is an address is not looked up.
        if let (Some(policy), Ok(address)) = (&self.policy, origin.host().parse::<IpAddr>()) {
            let refused = |why| FetchError::Address { host: origin.host().to_owned(), why };
            policy.check_address(address).map_err(refused)?;
        }
        let stream = match self.proxies.for_uri(&uri)? {
            None => self.connect_direct(uri, &origin).await?,
            Some(proxy) => self.connect_through(proxy, &origin).await?,
        };
        Ok(TokioIo::new(stream))
    }

    async fn connect_direct(&self, uri: Uri, origin: &Origin) -> Result<PooledStream, FetchError> {
        // Connections to a proxy use `tcp`, which has no policy: the user has named the proxy.
        let mut tcp = match self.policy {
            None => self.tcp.clone(),
            policy => tcp_connector(self.timeout, policy),
        };
        let tcp = tcp.call(uri).await.map_err(|error| FetchError::of_tcp(origin, &error))?.into_inner();
        let address = tcp.peer_addr().ok().map(|address| RemoteAddress(address.ip()));
        Ok(PooledStream { address, ..self.with_tls(tcp, origin).await? })
    }

    /// Adds TLS if the scheme of `origin` is https.
    async fn with_tls(&self, io: impl ByteStream + 'static, origin: &Origin) -> Result<PooledStream, FetchError> {
        Ok(if origin.is_secure() {
            PooledStream::to_server(self.tls.connect(origin, io).await?)
        } else {
            PooledStream::to_server(io)
        })
    }

    async fn connect_through(&self, proxy: &Proxy, origin: &Origin) -> Result<PooledStream, FetchError> {
        let failed = |why: String| FetchError::Proxy { proxy: proxy.name(), why };
        match &proxy.kind {
            ProxyKind::Http { auth } => {
                let at = Origin::from_uri(&proxy.uri);
                let tcp = self.tcp.clone().call(proxy.uri.clone()).await;
                let tcp = tcp.map_err(|error| failed(FetchError::of_tcp(&at, &error).to_string()))?.into_inner();
                let io: Box<dyn ByteStream> = if at.is_secure() {
                    Box::new(self.tls.connect(&at, tcp).await.map_err(|error| failed(error.to_string()))?)
                } else {
                    Box::new(tcp)
                };
                if origin.is_secure() {
                    let tunnel = tunnel(io, &origin.authority(), auth.as_ref()).await.map_err(failed)?;
                    self.with_tls(tunnel, origin).await
                } else {
                    Ok(PooledStream { io, whole_urls: true, address: None })
                }
            }
            ProxyKind::Socks { auth } => {
                let mut socks = SocksV5::new(proxy.uri.clone(), self.tcp.clone());
                if let Some((user, password)) = auth {
                    socks = socks.with_auth(user.clone(), password.clone());
                }
                let uri = Uri::builder().scheme("http").authority(origin.authority()).path_and_query("/").build();
                let uri = uri.map_err(|error| failed(error.to_string()))?;
                let tcp = socks
                    .call(uri)
                    .await
                    .map_err(|error| failed(format!("it could not connect to {}: {error}", origin.authority())))?;
                self.with_tls(tcp.into_inner(), origin).await
            }
        }
    }
}

impl Service<Uri> for Connector {
    type Response = TokioIo<PooledStream>;
    type Error = FetchError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, FetchError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), FetchError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let connector = self.clone();
        Box::pin(async move {
            let timeout = connector.timeout;
            let why = format!("no connection within {timeout:?}");
            let late = match connector.proxies.for_uri(&uri)? {
                Some(proxy) => FetchError::Proxy { proxy: proxy.name(), why },
                None => FetchError::Connect { origin: Origin::from_uri(&uri).to_string(), why },
            };
            tokio::time::timeout(timeout, connector.connect(uri)).await.unwrap_or(Err(late))
        })
    }
}

/// Returns a connector for TCP that connects only to addresses that the policy allows.
fn tcp_connector(timeout: Duration, policy: Option<NetworkPolicy>) -> HttpConnector<Resolver> {
    let mut tcp = HttpConnector::new_with_resolver(Resolver { policy });
    // Each message is written as a whole, so waiting for more data to fill a packet would only cause a delay.
    tcp.set_nodelay(true);
    // The connector divides this time among the addresses of a host, so an address that does not respond cannot use up
    // all the time.
    tcp.set_connect_timeout(Some(timeout));
    // Detects a lost connection even if nothing is sent for hours.
    tcp.set_keepalive(Some(KEEPALIVE));
    tcp.enforce_http(false);
    tcp
}

/// Sends CONNECT to the proxy, and returns the tunnel to `authority`.
async fn tunnel(
    io: Box<dyn ByteStream>,
    authority: &str,
    auth: Option<&HeaderValue>,
) -> Result<impl ByteStream + 'static, String> {
    let failed = |error: hyper::Error| format!("it could not connect to {authority}: {error}");
    let (mut sender, connection) =
        http1::Builder::new().max_buf_size(super::MAX_HEAD_BYTES).handshake(TokioIo::new(io)).await.map_err(failed)?;
    // This task ends when the tunnel ends or `sender` is dropped.
    tokio::spawn(connection.with_upgrades());
    let mut request = Request::connect(authority).header(header::HOST, authority);
    if let Some(auth) = auth {
        request = request.header(header::PROXY_AUTHORIZATION, auth);
    }
    let request = request.body(Empty::<Bytes>::new()).map_err(|error| error.to_string())?;
    let answer = sender.send_request(request).await.map_err(failed)?;
    match answer.status() {
        status if status.is_success() => Ok(TokioIo::new(hyper::upgrade::on(answer).await.map_err(failed)?)),
        StatusCode::PROXY_AUTHENTICATION_REQUIRED => Err(WANTS_CREDENTIALS.into()),
        status => Err(format!("it refused to connect to {authority}: {status}")),
    }
}

trait ByteStream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> ByteStream for T {}

/// A connection in the pool.
pub(super) struct PooledStream {
    io: Box<dyn ByteStream>,
    /// Whether the peer is a proxy that reads the requests, so that request lines need absolute URLs.
    whole_urls: bool,
    /// The address of the server, if there is no proxy.
    address: Option<RemoteAddress>,
}

impl PooledStream {
    /// Returns the address of the server, if there is no proxy.
    pub(super) fn remote_address(&self) -> Option<IpAddr> {
        self.address.map(|address| address.0)
    }
}

/// The address of the server that sent a response. Responses have it as an extension.
#[derive(Clone, Copy)]
pub(crate) struct RemoteAddress(pub(crate) IpAddr);

impl PooledStream {
    fn to_server(io: impl ByteStream + 'static) -> Self {
        Self { io: Box::new(io), whole_urls: false, address: None }
    }
}

impl Connection for PooledStream {
    fn connected(&self) -> Connected {
        let connected = Connected::new().proxy(self.whole_urls);
        match self.address {
            Some(address) => connected.extra(address),
            None => connected,
        }
    }
}

impl AsyncRead for PooledStream {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_read(cx, buf)
    }
}

impl AsyncWrite for PooledStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }
}

/// The system's resolver, with an error type that can be recognized among the connector's errors.
#[derive(Clone)]
struct Resolver {
    policy: Option<NetworkPolicy>,
}

impl Service<Name> for Resolver {
    type Response = vec::IntoIter<SocketAddr>;
    type Error = ResolveError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, ResolveError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), ResolveError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, name: Name) -> Self::Future {
        let policy = self.policy;
        Box::pin(async move {
            let found = tokio::net::lookup_host((name.as_str(), 0)).await.map_err(ResolveError::Lookup)?;
            let mut found = found.collect::<Vec<_>>();
            let Some(policy) = policy else { return Ok(found.into_iter()) };
            let refusal = found.iter().find_map(|address| policy.check_address(address.ip()).err());
            found.retain(|address| policy.check_address(address.ip()).is_ok());
            if let (true, Some(why)) = (found.is_empty(), refusal) {
                return Err(ResolveError::Refused(why));
            }
            Ok(found.into_iter())
        })
    }
}

pub(super) const WANTS_CREDENTIALS: &str =
    "it requires credentials (407); put them in its URL: http://user:password@host:port";

/// The idle time before TCP keepalive begins: less than the one or two minutes after which routers and firewalls drop
/// an idle connection.
const KEEPALIVE: Duration = Duration::from_secs(45);
