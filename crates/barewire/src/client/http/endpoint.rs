//! The URL of a server, and the settings for the connection to it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::credentials::{OnChallenge, Secret, TokenProvider};
use super::fetch::HttpUrl;

/// A server at an `http` or `https` URL.
///
/// The settings are checked when the client connects; an error names the setting that is wrong.
///
/// TLS trusts the platform's certificates; `SSL_CERT_FILE` and `SSL_CERT_DIR` replace them. Proxies are read from the
/// environment variables `HTTPS_PROXY`, `HTTP_PROXY` (not in a CGI program), `ALL_PROXY` and `NO_PROXY`, in upper or
/// lower case. A proxy is an `http://`, `https://`, `socks5://` or `socks5h://` URL. Connections to this machine never
/// use a proxy from the environment.
#[derive(Clone)]
pub struct Endpoint {
    pub(super) url: String,
    pub(super) headers: Vec<(String, Secret)>,
    pub(super) tokens: Option<Arc<dyn TokenProvider>>,
    pub(super) challenges: Option<Arc<dyn OnChallenge>>,
    #[cfg(feature = "oauth")]
    pub(super) sign_in: Option<crate::client::oauth::SignIn>,
    pub(super) roots: Vec<Vec<u8>>,
    pub(super) proxy: ProxySetting,
    pub(super) connect_timeout: Duration,
}

#[derive(Clone)]
pub(super) enum ProxySetting {
    Environment,
    None,
    Url(Secret),
}

impl Endpoint {
    /// Returns an endpoint for the server at this URL.
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            headers: Vec::new(),
            tokens: None,
            challenges: None,
            #[cfg(feature = "oauth")]
            sign_in: None,
            roots: Vec::new(),
            proxy: ProxySetting::Environment,
            connect_timeout: CONNECT_TIMEOUT,
        }
    }

    /// Sends this header with every request to the URL's origin. The header is not sent to another origin that a
    /// redirect leads to. Its value never appears in errors or logs. Headers that the protocol uses cannot be set.
    pub fn header(mut self, name: impl Into<String>, value: impl Into<Secret>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// Sends `Authorization: Bearer` with a token. Pass a [`Secret`], or a closure that obtains a token.
    pub fn bearer(mut self, tokens: impl TokenProvider + 'static) -> Self {
        self.tokens = Some(Arc::new(tokens));
        self
    }

    /// Calls this handler when the server responds with 401 or 403.
    pub fn on_challenge(mut self, challenges: impl OnChallenge + 'static) -> Self {
        self.challenges = Some(Arc::new(challenges));
        self
    }

    /// Signs in with OAuth when the server requires it, and keeps the access token valid.
    #[cfg(feature = "oauth")]
    pub fn sign_in(mut self, sign_in: crate::client::oauth::SignIn) -> Self {
        self.sign_in = Some(sign_in);
        self
    }

    /// Also trusts these certificate authorities: one or more certificates in PEM format.
    pub fn trust_pem(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.roots.push(pem.into());
        self
    }

    /// Uses this proxy for every host, and ignores the environment variables. The URL can contain a user and a
    /// password.
    pub fn proxy(mut self, url: impl Into<Secret>) -> Self {
        self.proxy = ProxySetting::Url(url.into());
        self
    }

    /// Uses no proxy, and ignores the environment variables.
    pub fn no_proxy(mut self) -> Self {
        self.proxy = ProxySetting::None;
        self
    }

    /// Sets the maximum total time for name lookup, TCP, proxy and TLS; the default is 10 seconds.
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

/// Shows only the origin and the names of headers, because paths, header values and proxies can hold secrets.
impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let origin = HttpUrl::parse(&self.url).map(|url| url.origin().to_string());
        let names: Vec<&str> = self.headers.iter().map(|(name, _)| name.as_str()).collect();
        f.debug_struct("Endpoint")
            .field("origin", &origin.as_deref().unwrap_or("(no URL)"))
            .field("headers", &names)
            .finish_non_exhaustive()
    }
}

/// The default timeout for connecting, the same as in Node's fetch. It leaves time for three TCP attempts, which the
/// operating system makes after 0, 1 and 3 seconds.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
