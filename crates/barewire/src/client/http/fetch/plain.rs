//! Requests to authorization servers: no credentials of the endpoint, no redirects, a limited size and time.

use std::time::Duration;

use barewire_proto::auth::{MAX_METADATA_BYTES, MAX_METADATA_REDIRECTS, NetworkPolicy, Url};
use bytes::Bytes;
use http::header::{self, HeaderMap, HeaderValue};
use http::{Method, Request, StatusCode};
use http_body_util::Full;

use super::connect::Connector;
use super::error::FetchError;
use super::response::FetchResponse;
use super::url::HttpUrl;
use super::{USER_AGENT, pool};

/// Sends requests with the proxy and the certificates of an endpoint.
#[derive(Clone)]
pub(crate) struct PlainFetch {
    connector: Connector,
}

/// A request of a [`PlainFetch`].
pub(crate) struct PlainRequest<'a> {
    pub(crate) method: Method,
    pub(crate) url: &'a HttpUrl,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    /// The networks that may be connected to.
    pub(crate) policy: NetworkPolicy,
    /// The maximum number of bytes of the response's body.
    pub(crate) max_body: usize,
    /// The maximum time for the request and its whole response.
    pub(crate) timeout: Duration,
}

/// The response to a [`PlainRequest`].
#[derive(Debug)]
pub(crate) struct PlainResponse {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
}

impl PlainFetch {
    pub(super) fn new(connector: &Connector) -> Self {
        Self { connector: connector.clone() }
    }

    /// Sends a request, and reads the whole response. A redirect is returned like any other response.
    pub(crate) async fn send(&self, request: PlainRequest<'_>) -> Result<PlainResponse, FetchError> {
        let (origin, after) = (request.url.origin().to_string(), request.timeout);
        let late = |_| Err(FetchError::TimedOut { origin, after });
        tokio::time::timeout(after, self.exchange(request)).await.unwrap_or_else(late)
    }

    /// Fetches a metadata document, and follows redirects as the policy allows. The error says why there is no response.
    /// `timeout` is for each request.
    pub(crate) async fn metadata(
        &self,
        mut url: Url,
        policy: NetworkPolicy,
        timeout: Duration,
    ) -> Result<PlainResponse, String> {
        let max_body = MAX_METADATA_BYTES;
        for _ in 0..=MAX_METADATA_REDIRECTS {
            let target = HttpUrl::parse(url.as_str()).map_err(|error| error.to_string())?;
            let (method, headers, body) = (Method::GET, HeaderMap::new(), Bytes::new());
            let request = PlainRequest { method, url: &target, headers, body, policy, max_body, timeout };
            let response = self.send(request).await.map_err(|error| error.to_string())?;
            let location = response.headers.get(header::LOCATION).and_then(|location| location.to_str().ok());
            match (response.status.as_u16(), location) {
                (301..=303 | 307 | 308, Some(location)) => {
                    url = policy.check_redirect(&url, location).map_err(|why| why.to_string())?;
                }
                _ => return Ok(response),
            }
        }
        Err("there were too many redirects".to_owned())
    }

    async fn exchange(&self, request: PlainRequest<'_>) -> Result<PlainResponse, FetchError> {
        let PlainRequest { method, url, mut headers, body, policy, max_body, timeout: _ } = request;
        headers.insert(header::USER_AGENT, HeaderValue::from_static(USER_AGENT));
        headers.insert(header::ACCEPT, HeaderValue::from_static("application/json"));
        if let Some((name, value)) = self.connector.proxy_authorization(url.uri()) {
            headers.insert(name, value);
        }
        let mut built = Request::new(Full::new(body));
        *built.method_mut() = method;
        *built.uri_mut() = url.uri().clone();
        *built.headers_mut() = headers;
        // A pool for each request: a pool must not keep a connection that another policy would not allow. A sign-in
        // sends few requests.
        let answer = pool(self.connector.with_policy(policy)).request(built).await;
        let answer = answer.map_err(|error| FetchError::of_request(&url.origin(), &error))?;
        let mut response = FetchResponse::new(answer, url.clone(), false);
        let body = response.bytes(max_body).await?;
        Ok(PlainResponse { status: response.status, headers: response.headers, body })
    }
}

/// The usual maximum time for a request to an authorization server and its whole response. Servers that check a password
/// or ask another server take a few seconds.
pub(crate) const PLAIN_TIMEOUT: Duration = Duration::from_secs(30);
