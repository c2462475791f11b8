//! Sends HTTP/1.1 requests, with redirects, proxies, TLS and credentials.
//!
//! ```text
//! send ─ token ─┬─ redirects ── pool ── connect: name, TCP, proxy, TLS
//!     challenge ┘
//! ```
//!
//! Nothing here depends on MCP messages. The timeout covers the time until the response headers arrive. Code that reads
//! the body must set its own timeout.

mod connect;
mod dial;
mod error;
mod headers;
mod proxy;
mod redirect;
mod response;
#[cfg(test)]
mod tests;
mod tls;
mod url;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{self, HeaderMap, HeaderValue};
use http::{Method, Request, StatusCode};
use http_body_util::Full;
use hyper_util::client::legacy::Client;
use hyper_util::rt::{TokioExecutor, TokioTimer};

pub use dial::{DialedStream, Dialer};
pub use error::FetchError;
pub use redirect::RedirectError;
pub(crate) use response::FetchResponse;
pub(crate) use url::HttpUrl;

use super::credentials::{Challenge, ChallengeResponse, OnChallenge, Secret, TokenProvider};
use super::endpoint::Endpoint;
use crate::Failure;
use crate::peer::shown;
use connect::Connector;
use proxy::Proxies;
use tls::Tls;
use url::Origin;

/// Sends requests to an endpoint. Cloning is cheap, and clones share their connections.
#[derive(Clone)]
pub(crate) struct Fetch {
    pool: Client<Connector, Full<Bytes>>,
    shared: Arc<FetchShared>,
}

struct FetchShared {
    url: HttpUrl,
    /// The only origin that receives credentials.
    origin: Origin,
    custom: HeaderMap,
    tokens: Option<Arc<dyn TokenProvider>>,
    challenges: Option<Arc<dyn OnChallenge>>,
    proxies: Arc<Proxies>,
}

/// The parts of a request that stay the same across redirects.
struct FetchRequest<'a> {
    method: &'a Method,
    headers: &'a HeaderMap,
    body: &'a Bytes,
}

impl Fetch {
    /// Checks the endpoint's settings. Does not connect yet.
    pub(crate) fn new(endpoint: &Endpoint) -> Result<Self, FetchError> {
        Self::with_proxies(endpoint, Proxies::for_endpoint(endpoint)?)
    }

    fn with_proxies(endpoint: &Endpoint, proxies: Proxies) -> Result<Self, FetchError> {
        let url = HttpUrl::parse(&endpoint.url)?;
        let proxies = Arc::new(proxies);
        let tls = Tls::trusting(&endpoint.roots)?;
        let connector = Connector::new(tls, Arc::clone(&proxies), endpoint.connect_timeout);
        let pool = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(POOL_IDLE_TIMEOUT)
            .http1_max_buf_size(MAX_HEAD_BYTES)
            .build(connector);
        let shared = FetchShared {
            origin: url.origin(),
            url,
            custom: headers::custom(&endpoint.headers)?,
            tokens: endpoint.tokens.clone(),
            challenges: endpoint.challenges.clone(),
            proxies,
        };
        Ok(Self { pool, shared: Arc::new(shared) })
    }

    /// Returns the URL of the endpoint.
    pub(crate) fn url(&self) -> &HttpUrl {
        &self.shared.url
    }

    /// Sends a request, and returns the response as soon as its headers have arrived.
    ///
    /// `headers` are the headers of the protocol. The endpoint's own headers and the token are added if `url` has the
    /// endpoint's origin. After a 401 or 403 the request is sent once more if the challenge handler returns a token.
    /// Then `timeout` starts over: it limits the server's response time, not the time that a user needs to log in.
    pub(crate) async fn send(
        &self,
        method: Method,
        url: &HttpUrl,
        headers: &HeaderMap,
        body: Bytes,
        timeout: Option<Duration>,
    ) -> Result<FetchResponse, FetchError> {
        let request = FetchRequest { method: &method, headers, body: &body };
        let same_origin = url.origin() == self.shared.origin;
        let token = match &self.shared.tokens {
            Some(tokens) if same_origin => tokens.token().await.map_err(|failure| no_token(&failure))?,
            _ => None,
        };
        let response = self.send_within(timeout, &request, url, token.as_ref()).await?;
        let challenged = matches!(response.status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN);
        let Some(challenges) = self.shared.challenges.as_ref().filter(|_| challenged && response.same_origin) else {
            return Ok(response);
        };
        let values = response.headers.get_all(header::WWW_AUTHENTICATE).iter();
        let challenge = Challenge {
            status: response.status,
            www_authenticate: values.filter_map(|value| Some(value.to_str().ok()?.to_owned())).collect(),
            url: response.url.uri().to_string(),
            token,
        };
        match challenges.challenged(challenge).await.map_err(|failure| no_token(&failure))? {
            ChallengeResponse::GiveUp => Ok(response),
            ChallengeResponse::Retry(token) => {
                drop(response);
                self.send_within(timeout, &request, url, Some(&token)).await
            }
        }
    }

    async fn send_within(
        &self,
        timeout: Option<Duration>,
        request: &FetchRequest<'_>,
        url: &HttpUrl,
        token: Option<&Secret>,
    ) -> Result<FetchResponse, FetchError> {
        let following = self.follow(request, url, token);
        let Some(after) = timeout else { return following.await };
        let late = |_| Err(FetchError::TimedOut { origin: url.origin().to_string(), after });
        tokio::time::timeout(after, following).await.unwrap_or_else(late)
    }

    /// Sends a request and follows redirects.
    async fn follow(
        &self,
        request: &FetchRequest<'_>,
        url: &HttpUrl,
        token: Option<&Secret>,
    ) -> Result<FetchResponse, FetchError> {
        let mut at = url.clone();
        let mut same_origin = at.origin() == self.shared.origin;
        for followed in 0.. {
            let request_to_send = self.build_request(request, &at, same_origin.then_some(token))?;
            let answer = self.pool.request(request_to_send).await;
            let answer = answer.map_err(|error| FetchError::of_request(&at.origin(), &error))?;
            let location = answer.headers().get(header::LOCATION);
            let to = redirect::next(request.method, answer.status(), location, &at, followed)
                .map_err(|why| FetchError::Redirect { origin: at.origin().to_string(), why })?;
            let Some(to) = to else {
                self.check_readable(&answer, &at)?;
                return Ok(FetchResponse::new(answer, at, same_origin));
            };
            // After a redirect through another origin, that origin could have chosen the target. So credentials are no
            // longer sent, not even to the endpoint's origin.
            same_origin &= to.origin() == at.origin();
            at = to;
        }
        unreachable!("the number of redirects is limited")
    }

    /// Builds the request to `at`. `credentials` is `None` if `at` must not get any credentials, and `Some(None)` if
    /// there is no token.
    fn build_request(
        &self,
        request: &FetchRequest<'_>,
        at: &HttpUrl,
        credentials: Option<Option<&Secret>>,
    ) -> Result<Request<Full<Bytes>>, FetchError> {
        let mut headers = match credentials {
            Some(_) => request.headers.clone(),
            None => headers::cross_origin(request.headers),
        };
        headers.entry(header::USER_AGENT).or_insert(HeaderValue::from_static(USER_AGENT));
        if let Some(token) = credentials {
            for name in self.shared.custom.keys() {
                headers.remove(name);
            }
            headers.extend(self.shared.custom.iter().map(|(name, value)| (name.clone(), value.clone())));
            if let Some(token) = token {
                headers.insert(header::AUTHORIZATION, headers::bearer(token)?);
            }
        }
        if let Some(session) = headers.get_mut("mcp-session-id") {
            session.set_sensitive(true);
        }
        if let Some((name, value)) = self.shared.proxies.authorization(at.uri()) {
            headers.insert(name, value);
        }
        let mut built = Request::new(Full::new(request.body.clone()));
        *built.method_mut() = request.method.clone();
        *built.uri_mut() = at.uri().clone();
        *built.headers_mut() = headers;
        Ok(built)
    }

    /// Returns an error if the proxy requires credentials, or if the response is compressed.
    fn check_readable<B>(&self, answer: &http::Response<B>, at: &HttpUrl) -> Result<(), FetchError> {
        if answer.status() == StatusCode::PROXY_AUTHENTICATION_REQUIRED
            && let Some(proxy) = self.shared.proxies.for_uri(at.uri())?
        {
            return Err(FetchError::Proxy { proxy: proxy.name(), why: connect::WANTS_CREDENTIALS.into() });
        }
        match answer.headers().get(header::CONTENT_ENCODING) {
            Some(encoding) if encoding != "identity" => Err(FetchError::Answer {
                origin: at.origin().to_string(),
                why: "it is compressed (Content-Encoding), which the request did not allow".into(),
            }),
            _ => Ok(()),
        }
    }
}

fn no_token(failure: &Failure) -> FetchError {
    let why = failure.log().map_or_else(|| failure.error("token").message, str::to_owned);
    FetchError::Token(shown(&why))
}

/// The maximum size in bytes of the response headers, and of a chunk of a body. Headers with cookies and policies take
/// a few kilobytes.
const MAX_HEAD_BYTES: usize = 64 * 1024;

/// The time after which the client closes an idle connection: less than the 5 seconds of servers on Node and uvicorn. A
/// request that is sent while the server closes the connection is lost, and cannot be sent again, because it might have
/// arrived.
const POOL_IDLE_TIMEOUT: Duration = Duration::from_secs(4);

const USER_AGENT: &str = concat!(env!("CARGO_PKG_NAME"), "/", env!("CARGO_PKG_VERSION"));
