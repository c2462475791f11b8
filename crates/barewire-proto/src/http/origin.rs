//! Parses the `Origin` header into scheme, host and port: RFC 6454, section 6.1.

use std::fmt;

use super::host::{Authority, BadAuthority, Host};

/// The origin of the web page on whose behalf a browser sends a request.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_enums, reason = "the kinds of origins are those of RFC 6454")]
pub enum Origin {
    /// An opaque origin, such as that of a file, a sandboxed frame or a redirect. All opaque origins are written as
    /// `null`, so they cannot be told apart.
    Null,
    /// A scheme, host and port.
    Tuple {
        /// The scheme, in lower case.
        scheme: String,
        /// The host.
        host: Host,
        /// The port. If the origin has no port, the default port of the scheme.
        port: Option<u16>,
    },
}

impl Origin {
    /// Parses `null` or `scheme://host[:port]`, and nothing else.
    pub fn parse(text: &[u8]) -> Result<Self, BadAuthority> {
        if text == b"null" {
            return Ok(Self::Null);
        }
        let (scheme, authority) = split_scheme(text).ok_or(BadAuthority::Name)?;
        let Authority { host, port } = Authority::parse(authority)?;
        let port = port.or_else(|| default_port(&scheme));
        Ok(Self::Tuple { scheme, host, port })
    }
}

/// Returns the scheme in lower case, and the text after `://`; `None` if `text` does not begin with a scheme.
pub(super) fn split_scheme(text: &[u8]) -> Option<(String, &[u8])> {
    let at = text.windows(3).position(|three| three == b"://")?;
    let (scheme, rest) = (&text[..at], &text[at + 3..]);
    let is_scheme = scheme.first().is_some_and(u8::is_ascii_alphabetic)
        && scheme.iter().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(byte));
    let scheme = std::str::from_utf8(scheme).ok().filter(|_| is_scheme)?;
    Some((scheme.to_ascii_lowercase(), rest))
}

/// Returns the default port of a scheme, or `None` if it is not known.
pub(super) fn default_port(scheme: &str) -> Option<u16> {
    match scheme {
        "http" | "ws" => Some(80),
        "https" | "wss" => Some(443),
        _ => None,
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("null"),
            Self::Tuple { scheme, host, port } => match port.filter(|port| default_port(scheme) != Some(*port)) {
                Some(port) => write!(f, "{scheme}://{host}:{port}"),
                None => write!(f, "{scheme}://{host}"),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn origins_are_normalized() {
        for (written, spelled) in [
            ("null", "null"),
            ("http://localhost", "http://localhost"),
            ("http://localhost:80", "http://localhost"),
            ("HTTPS://App.Example:443", "https://app.example"),
            ("https://app.example:80", "https://app.example:80"),
            ("http://[::1]:3000", "http://[::1]:3000"),
            ("vscode-webview://0abc", "vscode-webview://0abc"),
        ] {
            let origin = Origin::parse(written.as_bytes()).expect(written);
            assert_eq!(origin.to_string(), spelled, "{written}");
        }
        assert_ne!(Origin::parse(b"http://a"), Origin::parse(b"https://a"));
        assert_ne!(Origin::parse(b"http://a"), Origin::parse(b"http://a:8080"));
    }

    #[test]
    fn invalid_origins_are_refused() {
        for written in [
            "",
            "NULL",
            "localhost",
            "file://",
            "file:///etc/passwd",
            "http:/localhost",
            "http://localhost/",
            "http://localhost/path",
            "http://localhost?x",
            "http://user@localhost",
            "http://localhost http://evil.com",
            "http://localhost, http://evil.com",
            "://localhost",
            "1http://localhost",
            "ht tp://localhost",
            "http://localhost#",
            "http://localhost\n",
            "http://*",
        ] {
            assert!(Origin::parse(written.as_bytes()).is_err(), "{written:?}");
        }
    }
}
