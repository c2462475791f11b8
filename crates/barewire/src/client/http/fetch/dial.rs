//! An endpoint -> connections to its server, and nothing said on them: for those who speak HTTP themselves.

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
use super::url::Url;
use crate::client::http::Endpoint;

/// Opens connections to the server of an [`Endpoint`]: its name, TCP, proxies and TLS, as a client has them. What is said
/// there, headers and tokens included, is the caller's. Cheap to clone.
#[derive(Clone)]
pub struct Dialer {
    connector: Connector,
    proxies: Arc<Proxies>,
    url: Url,
}

impl Dialer {
    /// Checks the endpoint's settings. Nothing is connected yet.
    pub fn new(endpoint: &Endpoint) -> Result<Self, FetchError> {
        let url = Url::parse(&endpoint.url)?;
        let proxies = Arc::new(Proxies::for_endpoint(endpoint)?);
        let tls = Tls::trusting(&endpoint.roots)?;
        let connector = Connector::new(tls, Arc::clone(&proxies), endpoint.connect_timeout);
        Ok(Self { connector, proxies, url })
    }

    /// Scheme, host and port, as `https://example.com`.
    pub fn origin(&self) -> String {
        self.url.origin().to_string()
    }

    /// What stands in `Host`: without the port if it is the scheme's own.
    pub fn host(&self) -> String {
        let origin = self.origin();
        origin.split_once("://").map_or(origin.clone(), |(_, host)| host.to_owned())
    }

    /// What stands in the request line.
    pub fn path_and_query(&self) -> &str {
        self.url.uri().path_and_query().map_or("/", PathAndQuery::as_str)
    }

    /// A new connection, on which HTTP/1.1 is spoken.
    pub async fn connect(&self) -> Result<DialedStream, FetchError> {
        let mut connector = self.connector.clone();
        let stream = connector.call(self.url.uri().clone()).await?.into_inner();
        Ok(DialedStream { stream })
    }

    /// Whether the other end is a proxy that reads the requests: their lines then hold whole URLs.
    pub fn to_proxy(&self) -> bool {
        matches!(self.proxies.for_uri(self.url.uri()), Ok(Some(proxy)) if proxy.reads(self.url.uri()))
    }

    /// The value of `Proxy-Authorization`, if that proxy wants one.
    pub fn proxy_authorization(&self) -> Option<HeaderValue> {
        self.proxies.authorization(self.url.uri()).map(|(_, value)| value)
    }
}

/// Shows the origin: paths and proxies can hold secrets.
impl fmt::Debug for Dialer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dialer").field("origin", &self.url.origin()).finish_non_exhaustive()
    }
}

/// A connection to a server, through whatever leads there.
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
