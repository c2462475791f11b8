//! Parses URLs, and says why a URL cannot be used.

use std::fmt;
use std::net::IpAddr;

use http::Uri;
use http::uri::Scheme;

use super::error::FetchError;

/// An absolute `http` or `https` URL with a host, without a user, a password or a fragment.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct HttpUrl(Uri);

/// The scheme, host and port of a URL. Credentials are sent to one origin only.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Origin {
    secure: bool,
    /// The host in lower case. An IPv6 address is in brackets.
    host: String,
    port: u16,
}

impl HttpUrl {
    pub(crate) fn parse(text: &str) -> Result<Self, FetchError> {
        Self::read(text).map_err(FetchError::Url)
    }

    /// Parses a URL. The error does not repeat the text, because paths and queries can contain tokens.
    fn read(text: &str) -> Result<Self, &'static str> {
        if !text.is_ascii() {
            return Err("has a character outside of ASCII: write the host in punycode and percent-encode the rest");
        }
        // The fragment is removed, because it is never sent to a server.
        let text = text.split('#').next().unwrap_or_default();
        if scheme(text).is_none() {
            return Err("has no scheme: it must begin with http:// or https://");
        }
        let uri: Uri = text.parse().map_err(|_| "is not a URL: write it like https://example.com/mcp")?;
        if !matches!(uri.scheme_str(), Some("http" | "https")) {
            return Err("is neither http nor https: other schemes are not supported");
        }
        let authority = uri.authority().ok_or("has no host")?;
        if authority.as_str().contains('@') {
            // URLs end up in logs, in process lists and in Referer headers.
            return Err("has a user or a password in it: use a header or a bearer token instead, which is never shown");
        }
        let host = authority.host();
        if host.is_empty() || host.contains('%') {
            return Err("has no usable host");
        }
        let port = authority.as_str()[host.len()..].strip_prefix(':');
        if port.is_some_and(|port| !matches!(port.parse::<u16>(), Ok(1..))) {
            return Err("has no valid port: use 1 to 65535");
        }
        Ok(Self(uri))
    }

    /// Resolves a relative or absolute reference against this URL (RFC 3986, section 5.2).
    pub(crate) fn join(&self, reference: &str) -> Result<Self, &'static str> {
        let reference = reference.split('#').next().unwrap_or_default();
        if scheme(reference).is_some() {
            return Self::read(reference);
        }
        let scheme = self.0.scheme_str().unwrap_or("https");
        if reference.starts_with("//") {
            return Self::read(&format!("{scheme}:{reference}"));
        }
        let authority = self.0.authority().map_or("", |authority| authority.as_str());
        let (path, query) = match reference.split_once('?') {
            Some((path, query)) => (path, Some(query)),
            None => (reference, None),
        };
        let (path, query) = match path {
            "" => (self.0.path().to_owned(), query.or(self.0.query())),
            path if path.starts_with('/') => (without_dots(path), query),
            path => {
                let here = self.0.path();
                let folder = &here[..here.rfind('/').map_or(0, |slash| slash + 1)];
                (without_dots(&format!("{folder}{path}")), query)
            }
        };
        let query = query.map(|query| format!("?{query}")).unwrap_or_default();
        Self::read(&format!("{scheme}://{authority}{path}{query}"))
    }

    pub(crate) fn uri(&self) -> &Uri {
        &self.0
    }

    pub(crate) fn origin(&self) -> Origin {
        Origin::from_uri(&self.0)
    }
}

impl Origin {
    /// Returns the origin of a URI that has a scheme and a host.
    pub(super) fn from_uri(uri: &Uri) -> Self {
        let secure = uri.scheme() == Some(&Scheme::HTTPS);
        Self {
            secure,
            host: uri.host().unwrap_or_default().to_ascii_lowercase(),
            port: uri.port_u16().unwrap_or(if secure { 443 } else { 80 }),
        }
    }

    /// Whether the scheme is https.
    pub(super) fn is_secure(&self) -> bool {
        self.secure
    }

    /// Returns the host. An IPv6 address is returned without brackets.
    pub(super) fn host(&self) -> &str {
        self.host.trim_start_matches('[').trim_end_matches(']')
    }

    /// Returns the host and the port in the form that a CONNECT request needs.
    pub(super) fn authority(&self) -> String {
        format!("{}:{}", self.host, self.port)
    }

    /// Whether the host is this machine. Only the text of the name or address is checked, without a name lookup.
    pub(super) fn is_loopback(&self) -> bool {
        let name = self.host.trim_end_matches('.');
        name == "localhost"
            || name.ends_with(".localhost")
            // Connecting to the unspecified address also reaches this machine.
            || self.host().parse::<IpAddr>().is_ok_and(|ip| ip.to_canonical().is_loopback() || ip.is_unspecified())
    }
}

/// Shows the origin as a URL, without the port if it is the scheme's default.
impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (scheme, default_port) = if self.secure { ("https", 443) } else { ("http", 80) };
        write!(f, "{scheme}://{}", self.host)?;
        if self.port == default_port { Ok(()) } else { write!(f, ":{}", self.port) }
    }
}

impl fmt::Debug for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Shows only the origin, because the paths of some servers are secrets.
impl fmt::Debug for HttpUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/…", self.origin())
    }
}

/// Returns the URL scheme at the start of a text; `None` if the text starts with no scheme.
fn scheme(text: &str) -> Option<&str> {
    let (scheme, _) = text.split_once(':')?;
    let rest = |byte: u8| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte);
    let is_one = scheme.starts_with(|first: char| first.is_ascii_alphabetic()) && scheme.bytes().all(rest);
    is_one.then_some(scheme)
}

/// Resolves the segments `.` and `..` of a path that begins with a slash.
fn without_dots(path: &str) -> String {
    let mut kept: Vec<&str> = Vec::new();
    let mut segments = path.split('/').skip(1).peekable();
    while let Some(segment) = segments.next() {
        let is_last = segments.peek().is_none();
        match segment {
            "." => {}
            ".." => drop(kept.pop()),
            segment => kept.push(segment),
        }
        // A path that ends in `.` or `..` is a folder, so the result ends in a slash.
        if is_last && matches!(segment, "." | "..") {
            kept.push("");
        }
    }
    format!("/{}", kept.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> &'static str {
        HttpUrl::read(text).expect_err(text)
    }

    #[test]
    fn unusable_urls_are_refused_with_a_reason() {
        for (text, why) in [
            ("", "no scheme"),
            ("example.com/mcp", "no scheme"),
            ("//example.com", "no scheme"),
            ("localhost:8080/mcp", "not a URL"),
            ("ftp://example.com/", "neither http nor https"),
            ("file:///etc/passwd", "not a URL"),
            ("http://", "not a URL"),
            ("http:///mcp", "not a URL"),
            ("http://user@example.com/", "a user or a password"),
            ("http://user:pw@example.com/", "a user or a password"),
            ("http://example.com:0/", "port"),
            ("http://example.com:65536/", "port"),
            ("http://example.com:/", "port"),
            ("http://bücher.example/", "ASCII"),
            ("http://example.com/a b", "not a URL"),
            ("http://example.com/\r\nX: y", "not a URL"),
        ] {
            assert!(refused(text).contains(why), "{text:?}: {}", refused(text));
        }
    }

    #[test]
    fn an_origin_is_scheme_host_and_port() {
        let origin = |text: &str| HttpUrl::parse(text).unwrap().origin();
        assert_eq!(origin("http://Example.com/a"), origin("http://example.com:80/b?c#d"));
        assert_eq!(origin("https://example.com"), origin("https://example.com:443/"));
        assert_ne!(origin("https://example.com"), origin("http://example.com"));
        assert_ne!(origin("https://example.com"), origin("https://www.example.com"));
        assert_ne!(origin("https://example.com"), origin("https://example.com:8443"));
        assert_eq!(origin("http://[::1]:8808/x").to_string(), "http://[::1]:8808");
        assert_eq!(origin("http://[::1]:8808/x").host(), "::1");
    }

    #[test]
    fn this_machine_is_recognized_by_its_names() {
        let loopback = |text: &str| HttpUrl::parse(text).unwrap().origin().is_loopback();
        for text in
            ["http://localhost:1", "http://a.LOCALHOST/", "http://127.9.9.9", "http://[::1]", "http://0.0.0.0:1"]
        {
            assert!(loopback(text), "{text}");
        }
        assert!(loopback("http://[::ffff:127.0.0.1]/"));
        for text in ["http://example.com", "http://10.0.0.1", "http://localhost.example.com"] {
            assert!(!loopback(text), "{text}");
        }
    }

    #[test]
    fn references_resolve_as_in_the_standard() {
        let base = HttpUrl::parse("http://a/b/c/d;p?q").unwrap();
        // Examples from RFC 3986, sections 5.4.1 and 5.4.2, except examples with other schemes.
        for (reference, leads) in [
            ("g", "http://a/b/c/g"),
            ("./g", "http://a/b/c/g"),
            ("g/", "http://a/b/c/g/"),
            ("/g", "http://a/g"),
            ("//g", "http://g/"),
            ("?y", "http://a/b/c/d;p?y"),
            ("g?y", "http://a/b/c/g?y"),
            ("#s", "http://a/b/c/d;p?q"),
            ("g#s", "http://a/b/c/g"),
            ("g?y#s", "http://a/b/c/g?y"),
            (";x", "http://a/b/c/;x"),
            ("", "http://a/b/c/d;p?q"),
            (".", "http://a/b/c/"),
            ("./", "http://a/b/c/"),
            ("..", "http://a/b/"),
            ("../g", "http://a/b/g"),
            ("../..", "http://a/"),
            ("../../../g", "http://a/g"),
            ("/./g", "http://a/g"),
            ("/../g", "http://a/g"),
            ("g.", "http://a/b/c/g."),
            ("./g/.", "http://a/b/c/g/"),
            ("g/../h", "http://a/b/c/h"),
            ("g?y/../x", "http://a/b/c/g?y/../x"),
            ("https://b/x", "https://b/x"),
        ] {
            assert_eq!(base.join(reference).unwrap().uri().to_string(), leads, "{reference}");
        }
        assert!(base.join("javascript:alert(1)").is_err());
        assert!(base.join("http://u:p@b/").is_err());
    }

    #[test]
    fn debug_output_has_no_path() {
        let url = HttpUrl::parse("https://example.com/secret?token=1").unwrap();
        assert_eq!(format!("{url:?}"), "https://example.com/…");
    }
}
