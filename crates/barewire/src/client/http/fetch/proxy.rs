//! Chooses the proxy for a URL, from the endpoint's setting or from the environment.
//!
//! The environment variables follow the rules of curl and Go. `HTTP_PROXY` and `HTTPS_PROXY`, for URLs of their scheme,
//! take precedence over `ALL_PROXY`. `NO_PROXY` lists host names (with all their subdomains), addresses, networks or
//! `*`. Connections to this machine use no proxy from the environment.

use std::env;
use std::ffi::OsString;

use http::header::HeaderValue;
use http::uri::Scheme;
use http::{HeaderName, Uri, header};
use hyper_util::client::proxy::matcher::Matcher;

use super::super::credentials::Secret;
use super::super::endpoint::{Endpoint, ProxySetting};
use super::error::FetchError;
use super::url::Origin;

/// The proxy settings for all destinations.
pub(super) struct Proxies {
    /// The proxy for `http` URLs. The error of an invalid setting is stored, because it concerns only requests that
    /// need this proxy.
    http: Option<Result<Proxy, FetchError>>,
    https: Option<Result<Proxy, FetchError>>,
    /// Matches every destination that is not in `NO_PROXY`.
    intercepts: Matcher,
    /// Whether connections to this machine use no proxy.
    skips_loopback: bool,
}

/// A proxy and its protocol.
#[derive(Clone)]
pub(super) struct Proxy {
    pub(super) kind: ProxyKind,
    /// Scheme, host and port, without user and password.
    pub(super) uri: Uri,
}

#[derive(Clone)]
pub(super) enum ProxyKind {
    /// HTTP, with or without TLS. Requests to http URLs contain absolute URLs; https URLs need a tunnel (CONNECT).
    Http { auth: Option<HeaderValue> },
    /// SOCKS 5. The proxy resolves the host names, because often only the proxy is able to.
    Socks { auth: Option<(String, String)> },
}

impl Proxies {
    /// Reads the proxy setting of an endpoint.
    pub(super) fn for_endpoint(endpoint: &Endpoint) -> Result<Self, FetchError> {
        Ok(match &endpoint.proxy {
            ProxySetting::Environment => Self::from_env(|name| env::var_os(name)),
            ProxySetting::None => Self::none(),
            ProxySetting::Url(url) => Self::all(url)?,
        })
    }

    pub(super) fn none() -> Self {
        Self::new(None, None, "", false)
    }

    /// Uses this proxy for every destination.
    pub(super) fn all(url: &Secret) -> Result<Self, FetchError> {
        let proxy = Proxy::parse("proxy", url.expose())?;
        Ok(Self::new(Some(Ok(proxy.clone())), Some(Ok(proxy)), "", false))
    }

    /// Reads the environment; `lookup` returns the value of a variable.
    pub(super) fn from_env(lookup: impl Fn(&str) -> Option<OsString>) -> Self {
        // Looks up a variable by its upper-case name, then by its lower-case name. Empty values are skipped.
        let variable = |name: &str| {
            let names = [name.to_owned(), name.to_ascii_lowercase()];
            names.into_iter().find_map(|name| {
                let value = lookup(&name).filter(|value| !value.is_empty())?;
                Some((name, value))
            })
        };
        let proxy = |name: &str| {
            let (name, value) = variable(name)?;
            Some(match value.to_str() {
                Some(value) => Proxy::parse(&name, value.trim()),
                None => Err(FetchError::ProxySetting { name, what: "is not text" }),
            })
        };
        // In a CGI program, HTTP_PROXY holds the `Proxy` header of the incoming request, which an attacker can choose.
        let cgi = lookup("REQUEST_METHOD").is_some();
        let http = if cgi { None } else { proxy("HTTP_PROXY") };
        let no = variable("NO_PROXY").map(|(_, value)| value.to_string_lossy().into_owned()).unwrap_or_default();
        Self::new(http.or_else(|| proxy("ALL_PROXY")), proxy("HTTPS_PROXY").or_else(|| proxy("ALL_PROXY")), &no, true)
    }

    fn new(
        http: Option<Result<Proxy, FetchError>>,
        https: Option<Result<Proxy, FetchError>>,
        no_proxy: &str,
        skips_loopback: bool,
    ) -> Self {
        // The matcher only decides whether a URI needs a proxy; the proxy URL in it is a placeholder.
        let intercepts = Matcher::builder().all("http://proxy.invalid").no(no_proxy).build();
        Self { http, https, intercepts, skips_loopback }
    }

    /// Returns the proxy for a URI; `None` for a direct connection.
    pub(super) fn for_uri(&self, uri: &Uri) -> Result<Option<&Proxy>, FetchError> {
        let proxy = if uri.scheme() == Some(&Scheme::HTTPS) { &self.https } else { &self.http };
        let skipped = self.skips_loopback && Origin::from_uri(uri).is_loopback();
        if skipped || self.intercepts.intercept(uri).is_none() {
            return Ok(None);
        }
        match proxy {
            None => Ok(None),
            Some(Ok(proxy)) => Ok(Some(proxy)),
            Some(Err(error)) => Err(error.clone()),
        }
    }

    /// Returns the `Proxy-Authorization` header of a request to a URI, if the proxy has credentials and reads the
    /// request.
    pub(super) fn authorization(&self, uri: &Uri) -> Option<(HeaderName, HeaderValue)> {
        match &self.for_uri(uri).ok()??.kind {
            ProxyKind::Http { auth: Some(auth) } if uri.scheme() == Some(&Scheme::HTTP) => {
                Some((header::PROXY_AUTHORIZATION, auth.clone()))
            }
            _ => None,
        }
    }
}

impl Proxy {
    /// Parses the value of the setting `name`. Errors do not repeat the value, because it can contain a password.
    fn parse(name: &str, value: &str) -> Result<Self, FetchError> {
        let bad = |what| FetchError::ProxySetting { name: name.to_owned(), what };
        let any = Uri::from_static("http://host.invalid/");
        let intercept = Matcher::builder().all(value).build().intercept(&any);
        // An `@` in the host means that the password contains an `@` and was split there.
        let whole = |uri: &Uri| uri.authority().is_some_and(|authority| !authority.as_str().contains('@'));
        let intercept = intercept.filter(|intercept| whole(intercept.uri())).ok_or_else(|| {
            bad("is not a proxy URL: write http://user:password@host:3128, with special characters percent-encoded")
        })?;
        let uri = intercept.uri().clone();
        let port = |default| uri.port_u16().unwrap_or(default);
        let (kind, scheme, port) = match uri.scheme_str() {
            Some("http") => (ProxyKind::Http { auth: intercept.basic_auth().cloned() }, Scheme::HTTP, port(80)),
            Some("https") => (ProxyKind::Http { auth: intercept.basic_auth().cloned() }, Scheme::HTTPS, port(443)),
            Some("socks5" | "socks5h") => {
                let auth = intercept.raw_auth().map(|(user, password)| (user.to_owned(), password.to_owned()));
                // The URL gets the scheme http, because the connector only supports http and https.
                (ProxyKind::Socks { auth }, Scheme::HTTP, port(1080))
            }
            _ => return Err(bad("has an unsupported scheme: use http, https, socks5 or socks5h")),
        };
        let authority = format!("{}:{port}", uri.host().unwrap_or_default());
        let uri = Uri::builder().scheme(scheme).authority(authority).path_and_query("/").build();
        Ok(Self { kind, uri: uri.map_err(|_| bad("has no host"))? })
    }

    /// Whether the proxy reads the requests to a URI. If `false`, it only passes on their bytes.
    pub(super) fn reads(&self, uri: &Uri) -> bool {
        matches!(self.kind, ProxyKind::Http { .. }) && uri.scheme() == Some(&Scheme::HTTP)
    }

    /// Returns the name of the proxy for error messages.
    pub(super) fn name(&self) -> String {
        match self.kind {
            ProxyKind::Http { .. } => Origin::from_uri(&self.uri).to_string(),
            ProxyKind::Socks { .. } => format!("socks5://{}", Origin::from_uri(&self.uri).authority()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proxies(variables: &[(&str, &str)]) -> Proxies {
        Proxies::from_env(|name| {
            let found = variables.iter().find(|(key, _)| *key == name);
            found.map(|(_, value)| OsString::from(value))
        })
    }

    /// Returns the name of the proxy for a URL, `-` if there is none, or the text of the error.
    fn to(proxies: &Proxies, url: &str) -> String {
        match proxies.for_uri(&url.parse().unwrap()) {
            Ok(Some(proxy)) => proxy.name(),
            Ok(None) => "-".into(),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn each_scheme_has_its_variable_and_all_proxy_covers_the_rest() {
        let env = proxies(&[("HTTP_PROXY", "http://one:1"), ("https_proxy", "https://two"), ("ALL_PROXY", "three:3")]);
        assert_eq!(to(&env, "http://example.com/"), "http://one:1");
        assert_eq!(to(&env, "https://example.com/"), "https://two");
        let env = proxies(&[("all_proxy", "three:3")]);
        assert_eq!(to(&env, "http://example.com/"), "http://three:3");
        assert_eq!(to(&env, "https://example.com/"), "http://three:3");
        let env = proxies(&[("ALL_PROXY", "socks5h://four")]);
        assert_eq!(to(&env, "https://example.com/"), "socks5://four:1080");
        assert_eq!(to(&proxies(&[]), "https://example.com/"), "-");
        let env = proxies(&[("HTTP_PROXY", ""), ("http_proxy", "http://lower:1")]);
        assert_eq!(to(&env, "http://example.com/"), "http://lower:1");
    }

    #[test]
    fn no_proxy_matches_names_with_subdomains_addresses_and_networks() {
        let env = proxies(&[("HTTP_PROXY", "http://p"), ("NO_PROXY", "example.com, .dots.org,10.0.0.0/8,[::2],::3")]);
        for skipped in ["http://example.com", "http://WWW.Example.com:99/x", "http://dots.org", "http://a.dots.org"] {
            assert_eq!(to(&env, skipped), "-", "{skipped}");
        }
        for skipped in ["http://10.1.2.3:8080/", "http://[::3]/"] {
            assert_eq!(to(&env, skipped), "-", "{skipped}");
        }
        for not in ["http://notexample.com", "http://example.com.evil.org", "http://11.0.0.1", "http://dots.com"] {
            assert_eq!(to(&env, not), "http://p", "{not}");
        }
        let env = proxies(&[("HTTP_PROXY", "http://p"), ("no_proxy", "*")]);
        assert_eq!(to(&env, "http://example.com"), "-");
    }

    #[test]
    fn this_machine_is_reached_without_the_environments_proxy() {
        let env = proxies(&[("ALL_PROXY", "http://p")]);
        for url in ["http://localhost:8808/mcp", "http://127.0.0.1/", "https://[::1]:1/"] {
            assert_eq!(to(&env, url), "-", "{url}");
        }
        let explicit = Proxies::all(&"http://p".into()).unwrap();
        assert_eq!(to(&explicit, "http://127.0.0.1/"), "http://p");
    }

    #[test]
    fn in_a_cgi_program_http_proxy_is_ignored() {
        let all = [("HTTP_PROXY", "http://evil"), ("HTTPS_PROXY", "http://good"), ("REQUEST_METHOD", "GET")];
        let env = proxies(&all);
        assert_eq!(to(&env, "http://example.com"), "-");
        assert_eq!(to(&env, "https://example.com"), "http://good");
    }

    #[test]
    fn an_invalid_setting_is_named_without_its_value_and_only_where_needed() {
        for value in
            ["http://u:hunter2@", "socks4://u:hunter2@p", "ftp://hunter2", "http://u:hunter2@x:y@p", "hunter2 "]
        {
            let env = proxies(&[("https_proxy", value), ("HTTP_PROXY", "http://p")]);
            let error = to(&env, "https://example.com");
            if value == "hunter2 " {
                assert_eq!(error, "http://hunter2", "a bare host is a valid proxy");
                continue;
            }
            assert!(error.contains("https_proxy") && !error.contains("hunter2"), "{value}: {error}");
            assert_eq!(to(&env, "http://example.com"), "http://p");
            assert_eq!(to(&env, "https://localhost"), "-");
        }
        let error = Proxies::all(&"http://u:hunter2@".into()).err().unwrap().to_string();
        assert!(error.contains("proxy") && !error.contains("hunter2"), "{error}");
    }

    #[test]
    fn credentials_are_for_the_proxy_and_percent_decoded() {
        let env = proxies(&[("HTTP_PROXY", "http://us%65r:p%40ss@p:1"), ("HTTPS_PROXY", "http://us%65r:p%40ss@p:1")]);
        let (name, value) = env.authorization(&Uri::from_static("http://example.com/")).unwrap();
        assert_eq!((name.as_str(), value.to_str().unwrap()), ("proxy-authorization", "Basic dXNlcjpwQHNz"));
        assert!(value.is_sensitive());
        // In a tunnel the proxy does not see the request, so only the CONNECT request has the credentials.
        assert!(env.authorization(&Uri::from_static("https://example.com/")).is_none());
        assert_eq!(to(&env, "http://example.com"), "http://p:1");
    }
}
