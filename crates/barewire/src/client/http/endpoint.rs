//! Where a server is, and how to get there.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::credentials::{OnChallenge, Secret, TokenProvider};
use super::fetch::Url;

/// A server at an `http` or `https` URL.
///
/// Nothing here is checked before the client connects; then what is wrong is an error that names it.
///
/// TLS trusts what the platform trusts, and `SSL_CERT_FILE` and `SSL_CERT_DIR` replace that. Proxies come from the
/// environment: `HTTPS_PROXY`, `HTTP_PROXY` (not in a CGI program), `ALL_PROXY` and `NO_PROXY`, or the same in lower case, as
/// `http://`, `https://`, `socks5://` or `socks5h://` URLs. This machine itself is never reached through a proxy of the
/// environment.
#[derive(Clone)]
pub struct Endpoint {
    pub(super) url: String,
    pub(super) headers: Vec<(String, Secret)>,
    pub(super) tokens: Option<Arc<dyn TokenProvider>>,
    pub(super) challenges: Option<Arc<dyn OnChallenge>>,
    pub(super) roots: Vec<Vec<u8>>,
    pub(super) proxy: ProxySetting,
    pub(super) connect_timeout: Duration,
}

/// Which proxy is used.
#[derive(Clone)]
pub(super) enum ProxySetting {
    Environment,
    None,
    Url(Secret),
}

impl Endpoint {
    /// The server at this URL.
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            headers: Vec::new(),
            tokens: None,
            challenges: None,
            roots: Vec::new(),
            proxy: ProxySetting::Environment,
            connect_timeout: CONNECT_TIMEOUT,
        }
    }

    /// Sends this header with every request to the URL's origin. It is not sent elsewhere, whatever redirects say, and its
    /// value is not shown. What the protocol itself sends cannot be set.
    pub fn header(mut self, name: impl Into<String>, value: impl Into<Secret>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// Sends `Authorization: Bearer` with the token that this gives: a [`Secret`], or a closure that gets one.
    pub fn bearer(mut self, tokens: impl TokenProvider + 'static) -> Self {
        self.tokens = Some(Arc::new(tokens));
        self
    }

    /// Asks this when the server answers 401 or 403.
    pub fn on_challenge(mut self, challenges: impl OnChallenge + 'static) -> Self {
        self.challenges = Some(Arc::new(challenges));
        self
    }

    /// Trusts these certificate authorities too: one or more certificates in PEM.
    pub fn trust_pem(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.roots.push(pem.into());
        self
    }

    /// Goes through this proxy, for every host, whatever the environment says. User and password can be part of the URL.
    pub fn proxy(mut self, url: impl Into<Secret>) -> Self {
        self.proxy = ProxySetting::Url(url.into());
        self
    }

    /// Goes through no proxy, whatever the environment says.
    pub fn no_proxy(mut self) -> Self {
        self.proxy = ProxySetting::None;
        self
    }

    /// How long a connection may take to come about, with its name, proxy and TLS; 10 seconds unless told otherwise.
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout;
        self
    }
}

impl From<&str> for Endpoint {
    fn from(url: &str) -> Self {
        Self::new(url)
    }
}

impl From<String> for Endpoint {
    fn from(url: String) -> Self {
        Self::new(url)
    }
}

/// Shows the origin and the names of headers: paths, values and proxies can hold secrets.
impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let origin = Url::parse(&self.url).map(|url| url.origin().to_string());
        let names: Vec<&str> = self.headers.iter().map(|(name, _)| name.as_str()).collect();
        f.debug_struct("Endpoint")
            .field("origin", &origin.as_deref().unwrap_or("(no URL)"))
            .field("headers", &names)
            .finish_non_exhaustive()
    }
}

/// As long as Node's fetch waits. Three tries of TCP, after 0, 1 and 3 seconds, fit in.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
