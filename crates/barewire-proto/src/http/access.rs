//! The allowed values of `Host` and `Origin`. Checking them protects a server against DNS rebinding by a web page.

use std::fmt;

use super::host::{Authority, BadAuthority, Host};
use super::origin::{Origin, default_port, split_scheme};
use super::rejection::quoted;
use super::{Headers, Rejection, RejectionRule, single};

/// The allowed hosts and origins. Received values are parsed and then compared exactly, never by substring.
///
/// ```
/// use barewire_proto::http::Access;
///
/// let mut access = Access::loopback();
/// access.allow_host("mcp.example.com")?;
/// access.allow_origin("https://app.example.com")?;
///
/// let headers = [("host", "mcp.example.com"), ("origin", "https://app.example.com")];
/// assert!(access.check(None, &headers[..]).is_ok());
/// assert!(access.check(None, &[("host", "mcp.example.com.evil.org")][..]).is_err());
/// # Ok::<(), barewire_proto::http::BadAccess>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Access {
    /// The allowed hosts; `None` allows all hosts.
    hosts: Option<Vec<AllowedHost>>,
    /// The allowed origins; `None` allows all origins.
    origins: Option<Vec<AllowedOrigin>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct AllowedHost {
    host: Host,
    /// The allowed port; `None` allows any port.
    port: Option<u16>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum AllowedOrigin {
    Null,
    Tuple { scheme: Scheme, host: Host, port: Port },
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Scheme {
    /// Both `http` and `https`.
    Web,
    Is(String),
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Port {
    Any,
    Is(Option<u16>),
}

impl Access {
    /// Allows `localhost`, `127.0.0.1` and `[::1]` as hosts and as origins, at any port: for a server that is used only
    /// from its own machine.
    pub fn loopback() -> Self {
        let hosts = Host::loopback().map(|host| AllowedHost { host, port: None });
        let origins = Host::loopback().map(|host| AllowedOrigin::Tuple { scheme: Scheme::Web, host, port: Port::Any });
        Self { hosts: Some(hosts.to_vec()), origins: Some(origins.to_vec()) }
    }

    /// Allows no host and no origin. A request without an `Origin` header needs only an allowed host, because it does
    /// not come from a web page.
    pub fn deny_all() -> Self {
        Self { hosts: Some(Vec::new()), origins: Some(Vec::new()) }
    }

    /// Allows a host: `example.com` at any port, or `example.com:8080` at that port only.
    pub fn allow_host(&mut self, host: &str) -> Result<(), BadAccess> {
        let Authority { host, port } = Authority::parse(host.as_bytes()).map_err(|why| BadAccess::new(host, why))?;
        self.hosts.get_or_insert_default().push(AllowedHost { host, port });
        Ok(())
    }

    /// Allows an origin: `https://example.com` at the default port, `https://example.com:*` at any port, `example.com`
    /// with `http` and `https` at any port, or `null`.
    pub fn allow_origin(&mut self, origin: &str) -> Result<(), BadAccess> {
        let allowed = AllowedOrigin::parse(origin).map_err(|why| BadAccess::new(origin, why))?;
        self.origins.get_or_insert_default().push(allowed);
        Ok(())
    }

    /// Allows all hosts, for a server behind a proxy that checks the host.
    pub fn allow_any_host(&mut self) {
        self.hosts = None;
    }

    /// Allows all origins, for a server that has nothing to protect or that requires authorization.
    pub fn allow_any_origin(&mut self) {
        self.origins = None;
    }

    /// Checks the `Host` and `Origin` headers, and `target`: the `:authority` of HTTP/2, or the host of a request line
    /// with an absolute URL.
    ///
    /// Every host in a request must be allowed, because a proxy could have used any of them. A request must have at
    /// least one host, and at most one `Host` header.
    pub fn check(&self, target: Option<&[u8]>, headers: &(impl Headers + ?Sized)) -> Result<(), Rejection> {
        let host = single(headers, "host")
            .map_err(|_| refused(RejectionRule::Host, "Host stands more than once".to_owned()))?;
        if target.is_none() && host.is_none() {
            return Err(refused(RejectionRule::Host, "Host is missing".to_owned()));
        }
        for named in target.into_iter().chain(host) {
            self.check_host(named)?;
        }
        let origin = single(headers, "origin")
            .map_err(|_| refused(RejectionRule::Origin, "Origin stands more than once".to_owned()))?;
        origin.map_or(Ok(()), |origin| self.check_origin(origin))
    }

    fn check_host(&self, named: &[u8]) -> Result<(), Rejection> {
        let refuse = |why: &dyn fmt::Display| refused(RejectionRule::Host, format!("Host {}: {why}", quoted(named)));
        let Authority { host, port } = Authority::parse(named).map_err(|why| refuse(&why))?;
        let allows =
            |allowed: &AllowedHost| allowed.host == host && allowed.port.is_none_or(|allowed| Some(allowed) == port);
        match &self.hosts {
            Some(hosts) if !hosts.iter().any(allows) => Err(refuse(&"not one that this server answers to")),
            _ => Ok(()),
        }
    }

    fn check_origin(&self, named: &[u8]) -> Result<(), Rejection> {
        let refuse =
            |why: &dyn fmt::Display| refused(RejectionRule::Origin, format!("Origin {}: {why}", quoted(named)));
        let origin = Origin::parse(named).map_err(|why| refuse(&why))?;
        match &self.origins {
            Some(origins) if !origins.iter().any(|allowed| allowed.allows(&origin)) => {
                Err(refuse(&"pages from there may not use this server"))
            }
            _ => Ok(()),
        }
    }
}

impl Default for Access {
    fn default() -> Self {
        Self::loopback()
    }
}

fn refused(rule: RejectionRule, why: String) -> Rejection {
    Rejection::new(rule, why)
}

impl AllowedOrigin {
    fn parse(text: &str) -> Result<Self, BadAuthority> {
        let text = text.as_bytes();
        if text == b"null" {
            return Ok(Self::Null);
        }
        let Some((scheme, rest)) = split_scheme(text) else {
            let Authority { host, port } = Authority::parse(text)?;
            let port = port.map_or(Port::Any, |port| Port::Is(Some(port)));
            return Ok(Self::Tuple { scheme: Scheme::Web, host, port });
        };
        if let Some(host) = rest.strip_suffix(b":*") {
            let Authority { host, port } = Authority::parse(host)?;
            let port = if port.is_none() { Port::Any } else { return Err(BadAuthority::Port) };
            return Ok(Self::Tuple { scheme: Scheme::Is(scheme), host, port });
        }
        let Authority { host, port } = Authority::parse(rest)?;
        let port = Port::Is(port.or_else(|| default_port(&scheme)));
        Ok(Self::Tuple { scheme: Scheme::Is(scheme), host, port })
    }

    fn allows(&self, origin: &Origin) -> bool {
        let (
            Self::Tuple { scheme, host, port },
            Origin::Tuple { scheme: origin_scheme, host: origin_host, port: origin_port },
        ) = (self, origin)
        else {
            return matches!((self, origin), (Self::Null, Origin::Null));
        };
        let scheme = match scheme {
            Scheme::Web => matches!(origin_scheme.as_str(), "http" | "https"),
            Scheme::Is(scheme) => scheme == origin_scheme,
        };
        let port = match port {
            Port::Any => true,
            Port::Is(port) => port == origin_port,
        };
        scheme && port && host == origin_host
    }
}

/// The error for a host or origin that cannot be parsed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadAccess {
    text: String,
    why: BadAuthority,
}

impl BadAccess {
    fn new(text: &str, why: BadAuthority) -> Self {
        Self { text: text.to_owned(), why }
    }
}

impl fmt::Display for BadAccess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.text, self.why)
    }
}

impl std::error::Error for BadAccess {}

#[cfg(test)]
mod tests {
    use super::*;

    fn hosts(allowed: &[&str]) -> Access {
        let mut access = Access::deny_all();
        for host in allowed {
            access.allow_host(host).expect(host);
        }
        access
    }

    fn rule(access: &Access, target: Option<&str>, headers: &[(&str, &str)]) -> Option<RejectionRule> {
        let found = access.check(target.map(str::as_bytes), headers);
        found.err().map(|rejection| {
            assert_eq!(rejection.status(), 403);
            rejection.rule
        })
    }

    #[test]
    fn hosts_are_compared_and_not_searched() {
        let access = hosts(&["example.com", "api.example.com:8443", "[2001:db8::1]"]);
        for (host, ok) in [
            ("example.com", true),
            ("EXAMPLE.com:9", true),
            ("api.example.com:8443", true),
            ("api.example.com", false),
            ("api.example.com:443", false),
            ("www.example.com", false),
            ("example.com.evil.org", false),
            ("notexample.com", false),
            ("[2001:DB8:0::1]:80", true),
            ("localhost", false),
        ] {
            assert_eq!(rule(&access, None, &[("Host", host)]), (!ok).then_some(RejectionRule::Host), "{host}");
        }
    }

    #[test]
    fn every_host_in_a_request_must_be_allowed() {
        let access = Access::loopback();
        for (target, headers, ok) in [
            (None, &[][..], false),
            (Some("localhost"), &[][..], true),
            (Some("localhost:80"), &[("host", "127.0.0.1")][..], true),
            (Some("evil.com"), &[("host", "localhost")][..], false),
            (Some("localhost"), &[("host", "evil.com")][..], false),
            (None, &[("host", "localhost"), ("host", "localhost")][..], false),
            (None, &[("host", "")][..], false),
        ] {
            assert_eq!(rule(&access, target, headers), (!ok).then_some(RejectionRule::Host), "{target:?} {headers:?}");
        }
    }

    #[test]
    fn a_host_must_be_valid_even_if_all_are_allowed() {
        let mut access = Access::deny_all();
        access.allow_any_host();
        assert_eq!(rule(&access, None, &[("host", "anything.example")]), None);
        for headers in [&[("host", "a b")][..], &[("host", "a"), ("host", "a")], &[]] {
            assert_eq!(rule(&access, None, headers), Some(RejectionRule::Host), "{headers:?}");
        }
    }

    #[test]
    fn only_listed_origins_are_allowed() {
        let mut access = hosts(&["example.com"]);
        for origin in ["https://app.example", "http://dev.example:*", "tools.example", "both.example:81"] {
            access.allow_origin(origin).expect(origin);
        }
        for (origin, ok) in [
            ("https://app.example", true),
            ("https://app.example:443", true),
            ("https://app.example:444", false),
            ("http://app.example", false),
            ("http://dev.example:5173", true),
            ("https://dev.example", false),
            ("https://tools.example:1", true),
            ("http://tools.example", true),
            ("ftp://tools.example", false),
            ("http://both.example:81", true),
            ("http://both.example", false),
            ("null", false),
        ] {
            let headers = [("host", "example.com"), ("origin", origin)];
            assert_eq!(rule(&access, None, &headers), (!ok).then_some(RejectionRule::Origin), "{origin}");
        }
        access.allow_origin("null").expect("null");
        assert_eq!(rule(&access, None, &[("host", "example.com"), ("origin", "null")]), None);
        access.allow_any_origin();
        assert_eq!(rule(&access, None, &[("host", "example.com"), ("origin", "https://x.example")]), None);
        assert_eq!(rule(&access, None, &[("host", "example.com"), ("origin", "x")]), Some(RejectionRule::Origin));
    }

    #[test]
    fn invalid_hosts_and_origins_cannot_be_listed() {
        for host in ["", "*", "*.example.com", "http://example.com", "a/b"] {
            assert!(Access::deny_all().allow_host(host).is_err(), "{host}");
        }
        for origin in ["", "*", "https://*.example.com", "https://a/", "https://a:1:*", "https://:*"] {
            assert!(Access::deny_all().allow_origin(origin).is_err(), "{origin}");
        }
        let text = Access::deny_all().allow_host("a b").expect_err("a space").to_string();
        assert!(text.starts_with("\"a b\": the host must be"), "{text}");
    }
}
