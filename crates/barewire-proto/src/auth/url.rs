//! Text -> an absolute `http` or `https` URL, kept as it was written, with its parts.
//!
//! A parser of our own, because the rules of sign-in compare identifiers letter by letter, and every crate for URLs
//! normalizes: a trailing slash that is added, or a case that is folded, makes two issuers out of one. It is strict:
//! everything that two parsers could read differently is refused.

use std::fmt;

use crate::http::{Authority, BadAuthority, Host};

/// The maximum length of a URL: longer ones do not fit into the request lines of common HTTP servers.
pub const MAX_URL_BYTES: usize = 8 * 1024;

/// An absolute URL with the scheme `http` or `https`, without user name and fragment.
///
/// Two values are equal if their texts are equal. No normalization is applied.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Url {
    // Invariant: `Url::parse` accepts it.
    text: String,
    is_https: bool,
    authority: Authority,
    path_at: usize,
    query_at: Option<usize>,
}

/// The reason why a text is not a URL that can be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum BadUrl {
    /// The text is longer than [`MAX_URL_BYTES`].
    TooLong,
    /// The text does not begin with `http://` or `https://`.
    Scheme,
    /// The host or port is not valid.
    Authority(BadAuthority),
    /// There is a fragment, which is never sent to a server.
    Fragment,
    /// There is a character that URLs do not have, or an incomplete `%` escape.
    Character,
    /// The path has `.` or `..` as a segment, so that two parsers could disagree about the path.
    DotSegment,
}

impl Url {
    /// Parses an absolute URL.
    pub fn parse(text: &str) -> Result<Self, BadUrl> {
        if text.len() > MAX_URL_BYTES {
            return Err(BadUrl::TooLong);
        }
        let strip = |scheme: &str| {
            let start = text.get(..scheme.len()).filter(|start| start.eq_ignore_ascii_case(scheme));
            start.map(|_| &text[scheme.len()..])
        };
        let (is_https, rest) = match (strip("https://"), strip("http://")) {
            (Some(rest), _) => (true, rest),
            (None, Some(rest)) => (false, rest),
            (None, None) => return Err(BadUrl::Scheme),
        };
        if text.contains('#') {
            return Err(BadUrl::Fragment);
        }
        if !has_only_url_characters(text.as_bytes()) {
            return Err(BadUrl::Character);
        }
        let authority_at = text.len() - rest.len();
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        let authority = Authority::parse(&rest.as_bytes()[..end]).map_err(BadUrl::Authority)?;
        let path_at = authority_at + end;
        let query_at = text[path_at..].find('?').map(|at| path_at + at);
        let url = Self { text: text.to_owned(), is_https, authority, path_at, query_at };
        match url.path().split('/').any(is_dot_segment) {
            true => Err(BadUrl::DotSegment),
            false => Ok(url),
        }
    }

    /// Returns the URL as it was written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether the scheme is `https`.
    pub fn is_https(&self) -> bool {
        self.is_https
    }

    /// Returns the host, in normalized form.
    pub fn host(&self) -> &Host {
        &self.authority.host
    }

    /// Returns the port. If the URL has none, this is the default port of the scheme.
    pub fn port(&self) -> u16 {
        self.authority.port.unwrap_or(if self.is_https { 443 } else { 80 })
    }

    /// Returns the path as it was written; empty if there is none.
    pub fn path(&self) -> &str {
        &self.text[self.path_at..self.query_at.unwrap_or(self.text.len())]
    }

    /// Returns the text after the `?`.
    pub fn query(&self) -> Option<&str> {
        self.query_at.map(|at| &self.text[at + 1..])
    }

    /// Returns scheme, host and port in normalized form, without the default port: `https://example.com`.
    pub fn origin(&self) -> String {
        let scheme = if self.is_https { "https" } else { "http" };
        let default = if self.is_https { 443 } else { 80 };
        match self.port() {
            port if port == default => format!("{scheme}://{}", self.host()),
            port => format!("{scheme}://{}:{port}", self.host()),
        }
    }

    /// Whether both URLs have the same scheme, host and port.
    pub fn is_same_origin(&self, other: &Self) -> bool {
        self.is_https == other.is_https && self.host() == other.host() && self.port() == other.port()
    }

    /// Returns the URL of another path on the same server, with scheme, host and port as they were written. `path`
    /// begins with a slash, or is empty.
    pub fn with_path(&self, path: &str) -> Result<Self, BadUrl> {
        Self::parse(&format!("{}{path}", &self.text[..self.path_at]))
    }

    /// Returns the URL without its query: the `htu` of a DPoP proof (RFC 9449, section 4.2).
    pub fn without_query(&self) -> &str {
        &self.text[..self.query_at.unwrap_or(self.text.len())]
    }

    /// Whether a resource with this URL contains `other`: the same origin, and a path that is equal or begins `other`'s
    /// path at the end of a segment.
    pub fn contains(&self, other: &Self) -> bool {
        let (outer, inner) = (self.path().trim_end_matches('/'), other.path());
        let after = inner.strip_prefix(outer);
        let is_within = after.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
        // A query belongs to the identifier: a resource with one contains only URLs with the same query.
        self.is_same_origin(other) && is_within && (self.query().is_none() || self.query() == other.query())
    }
}

fn has_only_url_characters(text: &[u8]) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~:/?[]@!$&'()*+,;=%".contains(&byte);
    let escapes_are_complete = text.iter().enumerate().all(|(at, byte)| {
        *byte != b'%' || text.get(at + 1..at + 3).is_some_and(|two| two.iter().all(u8::is_ascii_hexdigit))
    });
    escapes_are_complete && text.iter().all(|byte| is_allowed(*byte))
}

fn is_dot_segment(segment: &str) -> bool {
    // An escaped dot counts too, because some servers and proxies decode it before they resolve the path.
    segment.contains(['.', '%']) && matches!(&*segment.to_ascii_lowercase().replace("%2e", "."), "." | "..")
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.text, f)
    }
}

impl fmt::Display for BadUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLong => write!(f, "longer than {MAX_URL_BYTES} bytes"),
            Self::Scheme => f.write_str("not an absolute http or https URL"),
            Self::Authority(why) => why.fmt(f),
            Self::Fragment => f.write_str("a URL with a fragment (#) cannot be used here"),
            Self::Character => f.write_str("a character that URLs do not have"),
            Self::DotSegment => f.write_str("a path with . or .. as a segment is ambiguous"),
        }
    }
}

impl std::error::Error for BadUrl {}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> Url {
        Url::parse(text).unwrap_or_else(|why| panic!("{text}: {why}"))
    }

    #[test]
    fn a_url_is_kept_as_it_was_written() {
        for (text, origin, path, query) in [
            ("https://a.example", "https://a.example", "", None),
            ("https://a.example/", "https://a.example", "/", None),
            ("HTTPS://A.Example:443/x?", "https://a.example", "/x", Some("")),
            ("http://localhost:3000/x/y?z=%2F&a", "http://localhost:3000", "/x/y", Some("z=%2F&a")),
            ("http://[::1]:80?q", "http://[::1]", "", Some("q")),
            ("https://a.example/x?/../y", "https://a.example", "/x", Some("/../y")),
        ] {
            let url = url(text);
            assert_eq!((url.as_str(), &*url.origin(), url.path(), url.query()), (text, origin, path, query));
        }
    }

    #[test]
    fn ambiguous_texts_are_refused() {
        for (text, why) in [
            ("", BadUrl::Scheme),
            ("mcp.example.com", BadUrl::Scheme),
            ("ftp://a.example", BadUrl::Scheme),
            ("javascript:alert(1)//http://", BadUrl::Scheme),
            ("//a.example", BadUrl::Scheme),
            ("https://", BadUrl::Authority(BadAuthority::Empty)),
            ("https:///x", BadUrl::Authority(BadAuthority::Empty)),
            ("https://a@b.example", BadUrl::Authority(BadAuthority::Userinfo)),
            ("https://a.example:x", BadUrl::Authority(BadAuthority::Port)),
            ("https://0x7f.1/", BadUrl::Authority(BadAuthority::Ipv4)),
            ("https://a.example#b", BadUrl::Fragment),
            ("https://a.example/b c", BadUrl::Character),
            ("https://a.example\\@b.example", BadUrl::Character),
            ("https://bücher.example", BadUrl::Character),
            ("https://a.example/%", BadUrl::Character),
            ("https://a.example/%2", BadUrl::Character),
            ("https://a.example/%zz", BadUrl::Character),
            ("https://a.example/\r\nX: y", BadUrl::Character),
            ("https://a.example/x/../y", BadUrl::DotSegment),
            ("https://a.example/.", BadUrl::DotSegment),
            ("https://a.example/%2E%2e/y", BadUrl::DotSegment),
        ] {
            assert_eq!(Url::parse(text), Err(why), "{text:?}");
        }
        let long = format!("https://a.example/{}", "x".repeat(MAX_URL_BYTES));
        assert_eq!(Url::parse(&long), Err(BadUrl::TooLong));
    }

    #[test]
    fn a_resource_contains_the_urls_below_it() {
        for (outer, inner, contains) in [
            ("https://a.example/mcp", "https://a.example/mcp", true),
            ("https://a.example", "https://a.example/mcp", true),
            ("https://a.example/", "https://A.example:443/mcp", true),
            ("https://a.example/mcp/", "https://a.example/mcp", true),
            ("https://a.example/mcp", "https://a.example/mcp/x", true),
            ("https://a.example/mcp", "https://a.example/mcp?x=1", true),
            ("https://a.example/mcp?x=1", "https://a.example/mcp?x=1", true),
            ("https://a.example/mcp?x=1", "https://a.example/mcp", false),
            ("https://a.example/mcp", "https://a.example/mcp2", false),
            ("https://a.example/mcp/x", "https://a.example/mcp", false),
            ("http://a.example/mcp", "https://a.example/mcp", false),
            ("https://a.example:8443/mcp", "https://a.example/mcp", false),
            ("https://evil.example/mcp", "https://a.example/mcp", false),
        ] {
            assert_eq!(url(outer).contains(&url(inner)), contains, "{outer} {inner}");
        }
    }
}
