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
#[cfg(feature = "oauth")]
mod plain;
mod proxy;
mod redirect;
mod response;
#[cfg(test)]
mod tests;
mod tls;
mod url;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use barewire_proto::auth::{AddressKind, NetworkPolicy};
use bytes::Bytes;
use http::header::{self, HeaderMap, HeaderValue};
use http::{Method, Request, StatusCode};
use http_body_util::Full;
use hyper_util::client::legacy::Client;
use hyper_util::rt::{TokioExecutor, TokioTimer};

pub use dial::{DialedStream, Dialer};
#[cfg(feature = "oauth")]
pub use dial::{MetadataError, MetadataResponse};
pub use error::FetchError;
#[cfg(feature = "oauth")]
pub(crate) use plain::{PLAIN_TIMEOUT, PlainFetch, PlainRequest, PlainResponse};
pub use redirect::RedirectError;
pub(crate) use response::FetchResponse;
pub(crate) use url::HttpUrl;

#[cfg(feature = "oauth")]
use super::credentials::SignOut;
use super::credentials::{
    AccessGrant, Authorizer, Challenge, ChallengeResponse, OnChallenge, RefusedRequest, Secret, TokenProvider,
};
use super::endpoint::Endpoint;
use crate::Failure;
use crate::peer::shown;
use connect::{Connector, RemoteAddress};
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
    connector: Connector,
    /// The connections after a redirect to another origin, by the nearest network that they may lead to. A pool must not
    /// keep a connection that another policy would not allow.
    redirected: Mutex<BTreeMap<AddressKind, Client<Connector, Full<Bytes>>>>,
    /// The only origin that receives credentials.
    origin: Origin,
    custom: HeaderMap,
    tokens: Option<Arc<dyn TokenProvider>>,
    challenges: Option<Arc<dyn OnChallenge>>,
    sign_in: Option<Arc<dyn Authorizer>>,
    proxies: Arc<Proxies>,
}

/// The credentials of one request.
#[derive(Clone)]
enum Credential {
    None,
    Bearer(Secret),
    Grant(Arc<dyn AccessGrant>),
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
        let sign_in = authorizer(endpoint, &url, &connector)?;
        let pool = pool(connector.clone());
        let shared = FetchShared {
            connector,
            redirected: Mutex::default(),
            origin: url.origin(),
            url,
            custom: headers::custom(&endpoint.headers)?,
            tokens: endpoint.tokens.clone(),
            challenges: endpoint.challenges.clone(),
            sign_in,
            proxies,
        };
        Ok(Self { pool, shared: Arc::new(shared) })
    }

    /// Returns the URL of the endpoint.
    pub(crate) fn url(&self) -> &HttpUrl {
        &self.shared.url
    }

    /// Forgets the sign-in.
    #[cfg(feature = "oauth")]
    pub(crate) async fn sign_out(&self) -> Result<SignOut, FetchError> {
        match &self.shared.sign_in {
            Some(sign_in) => sign_in.sign_out().await,
            None => Ok(SignOut::NotSignedIn),
        }
    }

    /// Sends a request, and returns the response as soon as its headers have arrived.
    ///
    /// `headers` are the headers of the protocol. The endpoint's own headers and the token are added if `url` has the
    /// endpoint's origin. After a 401 or 403 the request is sent again if the sign-in or the challenge handler returns a
    /// token. Then `timeout` starts over: it limits the server's response time, not the time that a user needs to log in.
    pub(crate) async fn send(
        &self,
        method: Method,
        url: &HttpUrl,
        headers: &HeaderMap,
        body: Bytes,
        timeout: Option<Duration>,
    ) -> Result<FetchResponse, FetchError> {
        let request = FetchRequest { method: &method, headers, body: &body };
        let mut credential = self.credential(url).await?;
        for attempts in 1.. {
            let response = self.send_within(timeout, &request, url, &credential).await?;
            match self.react(&response, &credential, attempts).await? {
                None => return Ok(response),
                Some(next) => credential = next,
            }
        }
        unreachable!("the number of attempts is limited")
    }

    /// Returns the credentials for a request to `url`.
    async fn credential(&self, url: &HttpUrl) -> Result<Credential, FetchError> {
        if url.origin() != self.shared.origin {
            return Ok(Credential::None);
        }
        if let Some(sign_in) = &self.shared.sign_in {
            return Ok(sign_in.grant().await?.map_or(Credential::None, Credential::Grant));
        }
        let Some(tokens) = &self.shared.tokens else { return Ok(Credential::None) };
        let token = tokens.token().await.map_err(|failure| no_token(&failure))?;
        Ok(token.map_or(Credential::None, Credential::Bearer))
    }

    /// Decides whether a request is sent once more, and with which credentials. `None` if the response is final.
    async fn react(
        &self,
        response: &FetchResponse,
        sent: &Credential,
        attempts: usize,
    ) -> Result<Option<Credential>, FetchError> {
        if !response.same_origin {
            return Ok(None);
        }
        let is_challenge = matches!(response.status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN);
        if let Some(sign_in) = &self.shared.sign_in {
            sign_in.responded(response.status, &response.headers);
            if !is_challenge || attempts >= MAX_ATTEMPTS {
                return Ok(None);
            }
            let refusal = RefusedRequest {
                status: response.status,
                headers: &response.headers,
                token: match sent {
                    Credential::Grant(grant) => Some(grant.access_token()),
                    Credential::None | Credential::Bearer(_) => None,
                },
                address: response.address,
            };
            return Ok(sign_in.challenged(refusal).await?.map(Credential::Grant));
        }
        let Some(challenges) = self.shared.challenges.as_ref().filter(|_| is_challenge && attempts == 1) else {
            return Ok(None);
        };
        let values = response.headers.get_all(header::WWW_AUTHENTICATE).iter();
        let challenge = Challenge {
            status: response.status,
            www_authenticate: values.filter_map(|value| Some(value.to_str().ok()?.to_owned())).collect(),
            url: response.url.uri().to_string(),
            token: match sent {
                Credential::Bearer(token) => Some(token.clone()),
                Credential::None | Credential::Grant(_) => None,
            },
        };
        match challenges.challenged(challenge).await.map_err(|failure| no_token(&failure))? {
            ChallengeResponse::GiveUp => Ok(None),
            ChallengeResponse::Retry(token) => Ok(Some(Credential::Bearer(token))),
        }
    }

    /// Sends a request without a token. A redirect is returned, not followed: what is sent is meant for this URL only.
    /// Has no timeout.
    #[cfg(feature = "oauth")]
    pub(crate) async fn send_without_redirects(
        &self,
        method: Method,
        url: &HttpUrl,
        headers: &HeaderMap,
        body: Bytes,
    ) -> Result<FetchResponse, FetchError> {
        let request = FetchRequest { method: &method, headers, body: &body };
        let request = self.build_request(&request, url, Some(&Credential::None))?;
        let answer = self.pool.request(request).await;
        let answer = answer.map_err(|error| FetchError::of_request(&url.origin(), &error))?;
        self.check_readable(&answer, url)?;
        Ok(FetchResponse::new(answer, url.clone(), true))
    }

    async fn send_within(
        &self,
        timeout: Option<Duration>,
        request: &FetchRequest<'_>,
        url: &HttpUrl,
        credential: &Credential,
    ) -> Result<FetchResponse, FetchError> {
        let following = self.follow(request, url, credential);
        let Some(after) = timeout else { return following.await };
        let late = |_| Err(FetchError::TimedOut { origin: url.origin().to_string(), after });
        tokio::time::timeout(after, following).await.unwrap_or_else(late)
    }

    /// Sends a request and follows redirects.
    async fn follow(
        &self,
        request: &FetchRequest<'_>,
        url: &HttpUrl,
        credential: &Credential,
    ) -> Result<FetchResponse, FetchError> {
        let mut at = url.clone();
        let mut same_origin = at.origin() == self.shared.origin;
        // The nearest network that the next origin may be in; `None` for the endpoint itself, which the user has named.
        let mut nearest = None;
        for followed in 0.. {
            let request_to_send = self.build_request(request, &at, same_origin.then_some(credential))?;
            let secrets = headers::secrets(request_to_send.headers());
            let answer = self.pool_for(nearest).request(request_to_send).await;
            let answer = answer.map_err(|error| FetchError::of_request(&at.origin(), &error))?;
            let location = answer.headers().get(header::LOCATION);
            let to = redirect::next(request.method, answer.status(), location, &at, followed)
                .map_err(|why| FetchError::Redirect { origin: at.origin().to_string(), why })?;
            let Some(to) = to else {
                self.check_readable(&answer, &at)?;
                return Ok(FetchResponse::new(answer, at, same_origin).with_secrets(secrets));
            };
            if to.origin() != at.origin() {
                let address = answer.extensions().get::<RemoteAddress>().map(|address| address.0);
                nearest = redirect::nearest(nearest, address, self.allows_private_networks());
            }
            // After a redirect through another origin, that origin could have chosen the target. So credentials are no
            // longer sent, not even to the endpoint's origin.
            same_origin &= to.origin() == at.origin();
            at = to;
        }
        unreachable!("the number of redirects is limited")
    }

    /// Returns the pool for connections that lead to no nearer network.
    fn pool_for(&self, nearest: Option<AddressKind>) -> Client<Connector, Full<Bytes>> {
        let Some(nearest) = nearest else { return self.pool.clone() };
        let mut redirected = self.shared.redirected.lock().unwrap_or_else(PoisonError::into_inner);
        let policy = NetworkPolicy::default().nearest(nearest);
        redirected.entry(nearest).or_insert_with(|| pool(self.shared.connector.with_policy(policy))).clone()
    }

    fn allows_private_networks(&self) -> bool {
        self.shared.sign_in.as_ref().is_some_and(|sign_in| sign_in.allows_private_networks())
    }

    /// Builds the request to `at`. `credential` is `None` if `at` must not get any credentials, not even headers of the
    /// endpoint.
    fn build_request(
        &self,
        request: &FetchRequest<'_>,
        at: &HttpUrl,
        credential: Option<&Credential>,
    ) -> Result<Request<Full<Bytes>>, FetchError> {
        let mut headers = match credential {
            Some(_) => request.headers.clone(),
            None => headers::cross_origin(request.headers),
        };
        headers.entry(header::USER_AGENT).or_insert(HeaderValue::from_static(USER_AGENT));
        if let Some(credential) = credential {
            for name in self.shared.custom.keys() {
                headers.remove(name);
            }
            headers.extend(self.shared.custom.iter().map(|(name, value)| (name.clone(), value.clone())));
            match credential {
                Credential::None => {}
                Credential::Bearer(token) => drop(headers.insert(header::AUTHORIZATION, headers::bearer(token)?)),
                Credential::Grant(grant) => headers.extend(grant.headers(request.method, at)?),
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

/// Returns the sign-in of an endpoint, if it has one. Its requests to authorization servers use the connector.
#[cfg(feature = "oauth")]
fn authorizer(
    endpoint: &Endpoint,
    url: &HttpUrl,
    connector: &Connector,
) -> Result<Option<Arc<dyn Authorizer>>, FetchError> {
    let authorizer = |sign_in: &crate::client::oauth::SignIn| sign_in.authorizer(url, PlainFetch::new(connector));
    endpoint.sign_in.as_ref().map(authorizer).transpose()
}

#[cfg(not(feature = "oauth"))]
#[expect(clippy::unnecessary_wraps, reason = "with the feature oauth, a sign-in can be wrong")]
fn authorizer(_: &Endpoint, _: &HttpUrl, _: &Connector) -> Result<Option<Arc<dyn Authorizer>>, FetchError> {
    Ok(None)
}

/// Returns a pool that opens its connections with this connector.
fn pool(connector: Connector) -> Client<Connector, Full<Bytes>> {
    Client::builder(TokioExecutor::new())
        .pool_timer(TokioTimer::new())
        .pool_idle_timeout(POOL_IDLE_TIMEOUT)
        .http1_max_buf_size(MAX_HEAD_BYTES)
        .build(connector)
}

fn no_token(failure: &Failure) -> FetchError {
    let why = failure.log().map_or_else(|| failure.error("token").message, str::to_owned);
    FetchError::Token(shown(&why))
}

/// The maximum number of times that a request is sent with a sign-in: without a token, with one that the server does
/// not know, with a new one, and with more scopes or another nonce.
const MAX_ATTEMPTS: usize = 6;

/// The maximum size in bytes of the response headers, and of a chunk of a body. Headers with cookies and policies take
/// a few kilobytes.
const MAX_HEAD_BYTES: usize = 64 * 1024;

/// The time after which the client closes an idle connection: less than the 5 seconds of servers on Node and uvicorn. A
/// request that is sent while the server closes the connection is lost, and cannot be sent again, because it might have
/// arrived.
const POOL_IDLE_TIMEOUT: Duration = Duration::from_secs(4);

const USER_AGENT: &str = concat!(env!("CARGO_PKG_NAME"), "/", env!("CARGO_PKG_VERSION"));
