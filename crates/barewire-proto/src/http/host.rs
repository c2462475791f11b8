//! Parses the `Host` header or the authority of a URL into a host and port, which are compared exactly, never by
//! substring.

// Imported from `core`: unlike `std::net`, `core::net` has only the address types and cannot open a connection.
use core::net::{Ipv4Addr, Ipv6Addr};
use std::fmt;

/// A host, in normalized form.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_enums, reason = "the kinds of hosts are those of RFC 3986")]
pub enum Host {
    /// A name, in lower case. A trailing dot is kept: `localhost.` differs from `localhost`.
    Name(String),
    /// An IPv4 address, written as four decimal numbers. Other notations are refused.
    V4(Ipv4Addr),
    /// An IPv6 address, written in brackets.
    V6(Ipv6Addr),
}

/// A host and an optional port, as in `Host` and `:authority`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_structs, reason = "the parts are those of RFC 3986")]
pub struct Authority {
    /// The host.
    pub host: Host,
    /// The port; `None` if the text has no port.
    pub port: Option<u16>,
}

/// The reason why a text is not a valid authority.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
#[allow(missing_docs, reason = "Display describes each variant")]
pub enum BadAuthority {
    Empty,
    Userinfo,
    Port,
    Ipv6,
    Ipv4,
    Name,
}

impl Authority {
    /// Parses `host`, `host:port`, `[address]` or `[address]:port`.
    pub fn parse(text: &[u8]) -> Result<Self, BadAuthority> {
        if text.contains(&b'@') {
            return Err(BadAuthority::Userinfo);
        }
        let (host, port) = if let [b'[', inner @ ..] = text {
            let end = inner.iter().position(|byte| *byte == b']').ok_or(BadAuthority::Ipv6)?;
            let address = std::str::from_utf8(&inner[..end]).ok().and_then(|text| text.parse().ok());
            (Host::V6(address.ok_or(BadAuthority::Ipv6)?), &inner[end + 1..])
        } else {
            let end = text.iter().position(|byte| *byte == b':').unwrap_or(text.len());
            (Host::name(&text[..end])?, &text[end..])
        };
        let port = match port {
            [] => None,
            [b':', digits @ ..] => Some(number(digits).ok_or(BadAuthority::Port)?),
            _ => return Err(BadAuthority::Port),
        };
        Ok(Self { host, port })
    }
}

fn number(digits: &[u8]) -> Option<u16> {
    // Without this check, `parse` would accept a sign.
    let all_digits = digits.iter().all(u8::is_ascii_digit);
    all_digits.then(|| std::str::from_utf8(digits).ok()?.parse().ok())?
}

impl Host {
    /// Returns the three hosts that mean the local machine: `localhost`, `127.0.0.1` and `[::1]`.
    pub fn loopback() -> [Self; 3] {
        [Self::Name("localhost".to_owned()), Self::V4(Ipv4Addr::LOCALHOST), Self::V6(Ipv6Addr::LOCALHOST)]
    }

    fn name(text: &[u8]) -> Result<Self, BadAuthority> {
        if text.is_empty() {
            return Err(BadAuthority::Empty);
        }
        let text = std::str::from_utf8(text).map_err(|_| BadAuthority::Name)?.to_ascii_lowercase();
        // One dot at the end is allowed. It means the DNS root and does not count towards the length.
        let name = text.strip_suffix('.').unwrap_or(&text);
        let is_label = |label: &str| {
            let letter = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
            (1..=63).contains(&label.len()) && label.bytes().all(letter)
        };
        if name.len() > 253 || !name.split('.').all(is_label) {
            return Err(BadAuthority::Name);
        }
        // A browser reads a name that ends in a number as an IPv4 address, so `0x7f.1` is 127.0.0.1. Only the notation
        // with four decimal numbers is accepted.
        let last = name.rsplit('.').next().unwrap_or_default();
        let hex = last.strip_prefix("0x").is_some_and(|digits| digits.bytes().all(|b| b.is_ascii_hexdigit()));
        if hex || last.bytes().all(|byte| byte.is_ascii_digit()) {
            return text.parse().map(Self::V4).map_err(|_| BadAuthority::Ipv4);
        }
        Ok(Self::Name(text))
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => f.write_str(name),
            Self::V4(address) => address.fmt(f),
            Self::V6(address) => write!(f, "[{address}]"),
        }
    }
}

impl fmt::Display for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.port {
            Some(port) => write!(f, "{}:{port}", self.host),
            None => self.host.fmt(f),
        }
    }
}

impl fmt::Display for BadAuthority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Empty => "the host is empty",
            Self::Userinfo => "a user name does not belong there",
            Self::Port => "the port must be a number up to 65535",
            Self::Ipv6 => "what stands in brackets must be an IPv6 address",
            Self::Ipv4 => "an IPv4 address must be four decimal numbers",
            Self::Name => "the host must be a name of letters, digits, hyphens and dots",
        })
    }
}

impl std::error::Error for BadAuthority {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_normalized() {
        for (written, spelled) in [
            ("localhost", "localhost"),
            ("LOCALHOST:8080", "localhost:8080"),
            ("localhost.", "localhost."),
            ("Example.COM:443", "example.com:443"),
            ("my_service", "my_service"),
            ("xn--bcher-kva.example", "xn--bcher-kva.example"),
            ("127.0.0.1", "127.0.0.1"),
            ("127.0.0.1.evil.com", "127.0.0.1.evil.com"),
            ("0.0.0.0:0", "0.0.0.0:0"),
            ("[::1]:8080", "[::1]:8080"),
            ("[0:0:0:0:0:0:0:1]", "[::1]"),
            ("[2001:DB8::A]", "[2001:db8::a]"),
            ("[::ffff:127.0.0.1]", "[::ffff:127.0.0.1]"),
            ("a:00080", "a:80"),
            ("0x7g", "0x7g"),
        ] {
            let authority = Authority::parse(written.as_bytes()).expect(written);
            assert_eq!(authority.to_string(), spelled, "{written}");
            assert_eq!(Authority::parse(spelled.as_bytes()), Ok(authority), "{written}");
        }
    }

    #[test]
    fn invalid_hosts_are_refused() {
        let long = format!("{}.com", "a".repeat(64));
        for (written, why) in [
            ("", BadAuthority::Empty),
            (":80", BadAuthority::Empty),
            ("user@localhost", BadAuthority::Userinfo),
            ("localhost@evil.com", BadAuthority::Userinfo),
            ("@localhost", BadAuthority::Userinfo),
            ("localhost:", BadAuthority::Port),
            ("localhost:http", BadAuthority::Port),
            ("localhost:65536", BadAuthority::Port),
            ("localhost:+80", BadAuthority::Port),
            ("localhost:80:90", BadAuthority::Port),
            ("localhost:80/", BadAuthority::Port),
            ("[::1]x", BadAuthority::Port),
            ("[::1", BadAuthority::Ipv6),
            ("[127.0.0.1]", BadAuthority::Ipv6),
            ("[fe80::1%25eth0]", BadAuthority::Ipv6),
            ("[]", BadAuthority::Ipv6),
            ("::1", BadAuthority::Empty),
            ("0x7f.1", BadAuthority::Ipv4),
            ("127.1", BadAuthority::Ipv4),
            ("2130706433", BadAuthority::Ipv4),
            ("0177.0.0.1", BadAuthority::Ipv4),
            ("127.0.0.1.", BadAuthority::Ipv4),
            ("0x", BadAuthority::Ipv4),
            ("256.0.0.1", BadAuthority::Ipv4),
            ("evil.com#localhost", BadAuthority::Name),
            ("evil.com/localhost", BadAuthority::Name),
            ("evil.com?localhost", BadAuthority::Name),
            ("evil.com\\localhost", BadAuthority::Name),
            ("local host", BadAuthority::Name),
            (" localhost", BadAuthority::Name),
            ("localhost,evil.com", BadAuthority::Name),
            ("local\0host", BadAuthority::Name),
            ("localhost\r\nX: y", BadAuthority::Name),
            ("local%68ost", BadAuthority::Name),
            ("lócalhost", BadAuthority::Name),
            ("localhost..", BadAuthority::Name),
            (".localhost", BadAuthority::Name),
            (".", BadAuthority::Name),
            ("*", BadAuthority::Name),
            (&long, BadAuthority::Name),
        ] {
            assert_eq!(Authority::parse(written.as_bytes()), Err(why), "{written:?}");
        }
        assert_eq!(Authority::parse(b"local\xffhost"), Err(BadAuthority::Name));
    }
}
