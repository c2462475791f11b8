//! Opens connections to the server of an endpoint, for callers that implement HTTP themselves.

use std::fmt;
use std::io::{self, IoSlice};
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

#[cfg(feature = "oauth")]
use barewire_proto::auth::{AddressKind, BadUrl, NetworkPolicy, NetworkRefusal, Url, host_kind, server_network};
#[cfg(feature = "oauth")]
use http::header::CONTENT_TYPE;
use http::header::{AUTHORIZATION, WWW_AUTHENTICATE};
use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tower_service::Service;

use super::authorizer;
use super::connect::{Connector, PooledStream};
use super::error::FetchError;
#[cfg(feature = "oauth")]
use super::plain::{PLAIN_TIMEOUT, PlainFetch, PlainResponse};
use super::proxy::Proxies;
use super::tls::Tls;
use super::url::HttpUrl;
use crate::client::http::Endpoint;
use crate::client::http::credentials::{Authorizer, RefusedRequest, Secret};

/// Opens connections to the server of an [`Endpoint`] in the same way as a client: name lookup, TCP, proxy and TLS. The
/// caller sends the HTTP requests, including headers and tokens. Cloning is cheap.
#[derive(Clone)]
pub struct Dialer {
    connector: Connector,
    proxies: Arc<Proxies>,
    url: HttpUrl,
    sign_in: Option<Arc<dyn Authorizer>>,
    renewals: Arc<Renewals>,
}

/// What is known about renewals of the sign-in.
#[derive(Default)]
struct Renewals {
    /// The address of the last connection, if there was no proxy: it decides which networks may be contacted.
    address: Mutex<Option<IpAddr>>,
    /// Whether a renewal has failed. The next one would fail too, unless the user signs in. Locked during a renewal,
    /// because requests that are refused together need one.
    has_failed: tokio::sync::Mutex<bool>,
}

impl Dialer {
    /// Checks the endpoint's settings. Nothing is connected yet.
    pub fn new(endpoint: &Endpoint) -> Result<Self, FetchError> {
        let url = HttpUrl::parse(&endpoint.url)?;
        let proxies = Arc::new(Proxies::for_endpoint(endpoint)?);
        let tls = Tls::trusting(&endpoint.roots)?;
        let connector = Connector::new(tls, Arc::clone(&proxies), endpoint.connect_timeout);
        let sign_in = authorizer(endpoint, &url, &connector)?;
        Ok(Self { connector, proxies, url, sign_in, renewals: Arc::default() })
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
        *self.renewals.address.lock().unwrap_or_else(PoisonError::into_inner) = stream.remote_address();
        Ok(DialedStream { stream })
    }

    /// Returns the headers that authorize one request to the endpoint's URL by the endpoint's sign-in: the access token,
    /// which is renewed if it has expired, and the proof of the key that it is bound to. Returns none if the user has not
    /// signed in. Each request needs headers of its own, and each response must be passed to [`Self::responded`].
    pub async fn authorization(&self, method: &str) -> Result<Vec<(String, Secret)>, FetchError> {
        let Some(sign_in) = &self.sign_in else { return Ok(Vec::new()) };
        let Some(grant) = sign_in.grant().await? else { return Ok(Vec::new()) };
        let method = Method::from_bytes(method.as_bytes()).unwrap_or(Method::GET);
        Ok(secrets(&grant.headers(&method, &self.url)?))
    }

    /// Returns the same connections without the endpoint's sign-in.
    #[must_use]
    pub fn without_sign_in(&self) -> Self {
        Self { sign_in: None, ..self.clone() }
    }

    /// Returns headers like those of [`Self::authorization`] that the server must refuse: with a proof for another path
    /// of the endpoint's origin, or with another token than that of the sign-in. Only a test of the server sends them.
    #[cfg(feature = "oauth")]
    pub async fn wrong_authorization(
        &self,
        method: &str,
        path: Option<&str>,
        token: Option<&Secret>,
    ) -> Result<Vec<(String, Secret)>, FetchError> {
        let Some(sign_in) = &self.sign_in else { return Ok(Vec::new()) };
        let Some(grant) = sign_in.grant().await? else { return Ok(Vec::new()) };
        let method = Method::from_bytes(method.as_bytes()).unwrap_or(Method::GET);
        let url = match path {
            Some(path) => HttpUrl::parse(&format!("{}{path}", self.origin()))?,
            None => self.url.clone(),
        };
        let headers = match token {
            Some(token) => grant.headers_with(&method, &url, token.expose())?,
            None => grant.headers(&method, &url)?,
        };
        Ok(secrets(&headers))
    }

    /// Fetches a metadata document that the server, or a document of the server, has named; `url` must be absolute. The
    /// request has no credentials. The document is read up to a limit, redirects are followed a few times, and only the
    /// server's origin and networks that are no nearer than the server are contacted, as in a sign-in.
    #[cfg(feature = "oauth")]
    pub async fn metadata(&self, url: &str) -> Result<MetadataResponse, MetadataError> {
        let url = Url::parse(url).map_err(MetadataError::Url)?;
        let server = Url::parse(&self.url.uri().to_string()).map_err(MetadataError::Url)?;
        let nearest = match host_kind(server.host()) {
            Some(_) => NetworkPolicy::for_server(&server).nearest,
            // The address that answers says where the server is, and not the name.
            None => match self.connect().await {
                Ok(connection) => connection.stream.remote_address().map_or(AddressKind::Public, server_network),
                Err(error) => return Err(MetadataError::Failed(error.to_string())),
            },
        };
        let policy = NetworkPolicy::for_server(&server).nearest(nearest);
        // The client already uses the origin of the server.
        if !url.is_same_origin(&server) {
            policy.check_url(&url).map_err(MetadataError::Refused)?;
        }
        let fetched = PlainFetch::new(&self.connector).metadata(url, policy, PLAIN_TIMEOUT).await;
        let PlainResponse { status, headers, body } = fetched.map_err(MetadataError::Failed)?;
        let content_type = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).map(str::to_owned);
        Ok(MetadataResponse { status: status.as_u16(), content_type, body })
    }

    /// Tells the endpoint's sign-in how the server has responded. Returns whether the request should be sent once more,
    /// with new headers, because the server requires a nonce in their proof.
    pub fn responded(
        &self,
        status: u16,
        headers: impl IntoIterator<Item = (impl AsRef<str>, impl AsRef<str>)>,
    ) -> bool {
        let (Some(sign_in), Ok(status)) = (&self.sign_in, StatusCode::from_u16(status)) else { return false };
        let map = header_map(headers);
        sign_in.responded(status, &map);
        let wants_nonce = |value: &HeaderValue| value.to_str().is_ok_and(|text| text.contains("use_dpop_nonce"));
        status == StatusCode::UNAUTHORIZED && map.get_all(WWW_AUTHENTICATE).iter().any(wants_nonce)
    }

    /// Renews the endpoint's sign-in after a 401 response to a request with the headers `sent`, which
    /// [`Self::authorization`] returned for it. Returns whether the request should be sent once more, with new headers.
    /// After a renewal that failed, no other is tried until there is another sign-in.
    pub async fn renew(
        &self,
        sent: &[(String, Secret)],
        headers: impl IntoIterator<Item = (impl AsRef<str>, impl AsRef<str>)>,
    ) -> bool {
        let authorization = sent.iter().find(|(name, _)| name == AUTHORIZATION.as_str());
        let token = authorization.and_then(|(_, value)| value.expose().split_once(' ')).map(|(_, token)| token);
        let (Some(sign_in), Some(token)) = (&self.sign_in, token) else { return false };
        let mut has_failed = self.renewals.has_failed.lock().await;
        // The user may have signed in since.
        if *has_failed && !sign_in.has_other(token).await {
            return false;
        }
        let map = header_map(headers);
        let address = *self.renewals.address.lock().unwrap_or_else(PoisonError::into_inner);
        let refusal = RefusedRequest { status: StatusCode::UNAUTHORIZED, headers: &map, token: Some(token), address };
        let is_renewed = matches!(sign_in.challenged(refusal).await, Ok(Some(_)));
        *has_failed = !is_renewed;
        is_renewed
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

/// The response to the request for a metadata document.
#[cfg(feature = "oauth")]
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct MetadataResponse {
    /// The HTTP status.
    pub status: u16,
    /// The header `Content-Type`.
    pub content_type: Option<String>,
    /// The body.
    pub body: Vec<u8>,
}

/// The reason why there is no response to the request for a metadata document.
#[cfg(feature = "oauth")]
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MetadataError {
    /// The URL is not valid.
    Url(BadUrl),
    /// The server may not make a client contact this URL.
    Refused(NetworkRefusal),
    /// There was no response, or it is too long.
    Failed(String),
}

#[cfg(feature = "oauth")]
impl fmt::Display for MetadataError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Url(why) => why.fmt(f),
            Self::Refused(why) => why.fmt(f),
            Self::Failed(why) => f.write_str(why),
        }
    }
}

#[cfg(feature = "oauth")]
impl std::error::Error for MetadataError {}

fn secrets(headers: &[(HeaderName, HeaderValue)]) -> Vec<(String, Secret)> {
    let text = |value: &HeaderValue| Secret::new(String::from_utf8_lossy(value.as_bytes()));
    headers.iter().map(|(name, value)| (name.as_str().to_owned(), text(value))).collect()
}

fn header_map(headers: impl IntoIterator<Item = (impl AsRef<str>, impl AsRef<str>)>) -> HeaderMap {
    let mut map = HeaderMap::new();
    for (name, value) in headers.into_iter().take(MAX_HEADERS) {
        if let (Ok(name), Ok(value)) = (HeaderName::try_from(name.as_ref()), HeaderValue::try_from(value.as_ref())) {
            map.append(name, value);
        }
    }
    map
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

/// The number of headers of a response that are looked at: more than servers send.
const MAX_HEADERS: usize = 256;
