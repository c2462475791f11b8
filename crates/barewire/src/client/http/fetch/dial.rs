//! Opens connections to the server of an endpoint, for callers that implement HTTP themselves.

use std::fmt;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::HeaderValue;
use http::uri::PathAndQuery;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tower_service::Service;

use super::connect::{Connector, PooledStream};
use super::error::FetchError;
use super::proxy::Proxies;
use super::tls::Tls;
use super::url::HttpUrl;
use crate::client::http::Endpoint;

/// Opens connections to the server of an [`Endpoint`] in the same way as a client: name lookup, TCP, proxy and TLS. The
/// caller sends the HTTP requests, including headers and tokens. Cloning is cheap.
#[derive(Clone)]
pub struct Dialer {
    connector: Connector,
    proxies: Arc<Proxies>,
    url: HttpUrl,
}

impl Dialer {
    /// Checks the endpoint's settings. Nothing is connected yet.
    pub fn new(endpoint: &Endpoint) -> Result<Self, FetchError> {
        let url = HttpUrl::parse(&endpoint.url)?;
        let proxies = Arc::new(Proxies::for_endpoint(endpoint)?);
        let tls = Tls::trusting(&endpoint.roots)?;
        let connector = Connector::new(tls, Arc::clone(&proxies), endpoint.connect_timeout);
        Ok(Self { connector, proxies, url })
    }

    /// Returns the scheme, the host and any port that is not the scheme's default, such as `https://example.com`.
    pub fn origin(&self) -> String {
        self.url.origin().to_string()
    }

    /// Returns the value of the `Host` header. A port that is the scheme's default is left out.
    pub fn host(&self) -> String {
        let origin = self.origin();
        origin.split_once("://").map_or(origin.clone(), |(_, host)| host.to_owned())
    }

    /// Returns the path and query for the request line.
    pub fn path_and_query(&self) -> &str {
        self.url.uri().path_and_query().map_or("/", PathAndQuery::as_str)
    }

    /// Opens a new connection, for HTTP/1.1.
    pub async fn connect(&self) -> Result<DialedStream, FetchError> {
        let mut connector = self.connector.clone();
        let stream = connector.call(self.url.uri().clone()).await?.into_inner();
        Ok(DialedStream { stream })
    }

    /// Whether requests go to a proxy that reads them, so that their request lines need absolute URLs.
    pub fn to_proxy(&self) -> bool {
        matches!(self.proxies.for_uri(self.url.uri()), Ok(Some(proxy)) if proxy.reads(self.url.uri()))
    }

    /// Returns the value of the `Proxy-Authorization` header, if requests go to a proxy that reads them and whose URL
    /// contains credentials.
    pub fn proxy_authorization(&self) -> Option<HeaderValue> {
        self.proxies.authorization(self.url.uri()).map(|(_, value)| value)
    }
}

/// Shows only the origin, because paths and proxy URLs can contain secrets.
impl fmt::Debug for Dialer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dialer").field("origin", &self.url.origin()).finish_non_exhaustive()
    }
}

/// A connection to a server, directly or through a proxy.
pub struct DialedStream {
    stream: PooledStream,
}

impl fmt::Debug for DialedStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DialedStream").finish_non_exhaustive()
    }
}

impl AsyncRead for DialedStream {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for DialedStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
