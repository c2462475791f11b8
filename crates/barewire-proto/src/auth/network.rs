//! A URL or address that a peer has named -> whether it may be contacted.
//!
//! A metadata document names URLs that the client then fetches. Without rules, a public server could make the client
//! call services of its user's machine and network (server-side request forgery: RFC 9728, section 7.7).

// Imported from `core`: unlike `std::net`, `core::net` has only the address types and cannot open a connection.
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::fmt;

use super::url::{BadUrl, Url};
use crate::http::Host;

/// The maximum number of redirects of a metadata request. One leads from a name to `www` or back, one to another host.
pub const MAX_METADATA_REDIRECTS: usize = 3;

/// The network that an address belongs to. A later variant is nearer to the user.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(clippy::exhaustive_enums, reason = "a policy must decide about each of them")]
pub enum AddressKind {
    /// The Internet.
    Public,
    /// A private network: RFC 1918, RFC 4193, and the shared addresses of carriers (RFC 6598).
    Private,
    /// The machine itself.
    Loopback,
    /// An address that no server has, or that has a special meaning on the local link, such as the metadata services of
    /// clouds (169.254.169.254). It is never contacted.
    Special,
}

/// Returns the network of an address.
pub fn address_kind(address: IpAddr) -> AddressKind {
    match address {
        IpAddr::V4(address) => v4_kind(address),
        IpAddr::V6(address) => v6_kind(address),
    }
}

/// Returns the network that a server at this address belongs to. A special address belongs to no network, so that a
/// server there may name no more than one on the Internet.
pub fn server_network(address: IpAddr) -> AddressKind {
    without_special(address_kind(address))
}

fn without_special(kind: AddressKind) -> AddressKind {
    if kind == AddressKind::Special { AddressKind::Public } else { kind }
}

fn v4_kind(address: Ipv4Addr) -> AddressKind {
    match address.octets() {
        [127, ..] => AddressKind::Loopback,
        [10, ..] | [192, 168, ..] => AddressKind::Private,
        [172, second, ..] if second & 0xf0 == 16 => AddressKind::Private,
        [100, second, ..] if second & 0xc0 == 64 => AddressKind::Private,
        // Benchmarks of networks (RFC 2544).
        [198, 18 | 19, ..] => AddressKind::Private,
        // This network, link-local, protocol assignments and examples, 6to4 relays, multicast, reserved, broadcast.
        [0, ..] | [169, 254, ..] | [192, 0, 0 | 2, _] | [198, 51, 100, _] | [203, 0, 113, _] => AddressKind::Special,
        [192, 88, 99, _] => AddressKind::Special,
        [first, ..] if first >= 224 => AddressKind::Special,
        _ => AddressKind::Public,
    }
}

fn v6_kind(address: Ipv6Addr) -> AddressKind {
    let embedded = |high: u16, low: u16| {
        let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
        v4_kind(Ipv4Addr::new(a, b, c, d))
    };
    match address.segments() {
        [0, 0, 0, 0, 0, 0, 0, 1] => AddressKind::Loopback,
        [0, 0, 0, 0, 0, 0, 0, 0] => AddressKind::Special,
        // An IPv4 address in an IPv6 notation reaches the IPv4 address: mapped, compatible, translated (RFC 6052,
        // RFC 8215) and 6to4 (RFC 3056).
        [0, 0, 0, 0, 0, 0xffff | 0, high, low] => embedded(high, low),
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] => embedded(high, low),
        [0x64, 0xff9b, 1, ..] => AddressKind::Private,
        [0x2002, high, low, ..] => embedded(high, low),
        [first, ..] if first & 0xfe00 == 0xfc00 => AddressKind::Private,
        // The rest of what is not global unicast (2000::/3), and in there Teredo and the addresses of examples.
        [0x2001, 0 | 0xdb8, ..] => AddressKind::Special,
        [first, ..] if first & 0xe000 != 0x2000 => AddressKind::Special,
        _ => AddressKind::Public,
    }
}

/// Returns the network of a host. A name is `None`, because only its addresses say where it leads; names of the machine
/// itself (RFC 6761, section 6.3) are loopback.
pub fn host_kind(host: &Host) -> Option<AddressKind> {
    match host {
        Host::V4(address) => Some(v4_kind(*address)),
        Host::V6(address) => Some(v6_kind(*address)),
        Host::Name(name) => {
            let name = name.strip_suffix('.').unwrap_or(name);
            (name == "localhost" || name.ends_with(".localhost")).then_some(AddressKind::Loopback)
        }
    }
}

/// The networks that a peer may make us contact.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct NetworkPolicy {
    /// The nearest network that may be contacted: from a server on the Internet only the Internet, from one in a
    /// private network also that network, and from one on this machine everything.
    pub nearest: AddressKind,
    /// Whether `http` is allowed for hosts that are not loopback. Tokens then travel in the clear.
    pub plain_http: bool,
}

impl Default for NetworkPolicy {
    fn default() -> Self {
        Self { nearest: AddressKind::Public, plain_http: false }
    }
}

setters! { NetworkPolicy { nearest: AddressKind, plain_http: bool } }

impl NetworkPolicy {
    /// Returns the policy for what the server at this URL names. For a host name this is the strictest policy; the
    /// caller can set [`Self::nearest`] to the kind of the address that it has connected to.
    pub fn for_server(server: &Url) -> Self {
        Self { nearest: host_kind(server.host()).map_or(AddressKind::Public, without_special), ..Self::default() }
    }

    /// Checks the scheme of a URL, and its host if that is an address. The addresses of a name are checked with
    /// [`Self::check_address`] when they are known, and the connection must use the address that was checked.
    pub fn check_url(&self, url: &Url) -> Result<(), NetworkRefusal> {
        let kind = host_kind(url.host());
        if let Some(kind) = kind {
            self.check_kind(kind)?;
        }
        match url.is_https() || self.plain_http || kind == Some(AddressKind::Loopback) {
            true => Ok(()),
            false => Err(NetworkRefusal::PlainHttp),
        }
    }

    /// Checks an address that the name of a URL leads to.
    pub fn check_address(&self, address: IpAddr) -> Result<(), NetworkRefusal> {
        self.check_kind(address_kind(address))
    }

    fn check_kind(&self, kind: AddressKind) -> Result<(), NetworkRefusal> {
        match kind {
            AddressKind::Special => Err(NetworkRefusal::Special),
            kind if kind > self.nearest => Err(NetworkRefusal::Near(kind)),
            _ => Ok(()),
        }
    }

    /// Returns the target of a redirect of a metadata request, if it may be followed. `location` is the header of the
    /// response. Requests with tokens, codes or secrets are never redirected.
    pub fn check_redirect(&self, from: &Url, location: &str) -> Result<Url, NetworkRefusal> {
        let target = match location.starts_with('/') && !location.starts_with("//") {
            true => from.with_path(location),
            false => Url::parse(location),
        }
        .map_err(NetworkRefusal::Redirect)?;
        if from.is_https() && !target.is_https() {
            return Err(NetworkRefusal::PlainHttp);
        }
        self.check_url(&target)?;
        Ok(target)
    }
}

/// The reason why a URL or address is not contacted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum NetworkRefusal {
    /// The scheme is `http` and the host is not loopback, or a redirect leads from `https` to `http`.
    PlainHttp,
    /// The address is in a network that the server may not name.
    Near(AddressKind),
    /// The address is one that no server has.
    Special,
    /// The redirect does not lead to a URL that can be used.
    Redirect(BadUrl),
}

impl fmt::Display for NetworkRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PlainHttp => f.write_str("it must begin with https://, because secrets are sent there"),
            Self::Near(AddressKind::Loopback) => f.write_str("it leads to this machine, but the server is elsewhere"),
            Self::Near(_) => f.write_str("it leads into a private network, but the server is on the Internet"),
            Self::Special => f.write_str("it leads to a link-local or reserved address"),
            Self::Redirect(why) => write!(f, "its redirect leads to a URL that cannot be used: {why}"),
        }
    }
}

impl std::error::Error for NetworkRefusal {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_networks() {
        use AddressKind::{Loopback, Private, Public, Special};
        for (address, kind) in [
            ("1.1.1.1", Public),
            ("127.0.0.1", Loopback),
            ("127.255.0.9", Loopback),
            ("10.1.2.3", Private),
            ("172.15.0.1", Public),
            ("172.16.0.1", Private),
            ("172.31.255.255", Private),
            ("172.32.0.1", Public),
            ("192.168.0.1", Private),
            ("100.64.0.1", Private),
            ("100.128.0.1", Public),
            ("169.254.169.254", Special),
            ("0.0.0.0", Special),
            ("224.0.0.1", Special),
            ("255.255.255.255", Special),
            ("192.0.2.1", Special),
            ("::1", Loopback),
            ("::", Special),
            ("::ffff:127.0.0.1", Loopback),
            ("::ffff:169.254.169.254", Special),
            ("::127.0.0.1", Loopback),
            ("64:ff9b::10.0.0.1", Private),
            ("2002:7f00:1::", Loopback),
            ("2002:0a00:1::", Private),
            ("fd00::1", Private),
            ("fe80::1", Special),
            ("ff02::1", Special),
            ("2001:db8::1", Special),
            ("2001::1", Special),
            ("2606:4700::1111", Public),
        ] {
            assert_eq!(address_kind(address.parse().expect(address)), kind, "{address}");
        }
    }

    #[test]
    fn a_server_names_only_hosts_that_are_no_nearer_than_itself() {
        let (near, special) = (NetworkRefusal::Near, NetworkRefusal::Special);
        for (server, url, expected) in [
            ("https://mcp.example", "https://auth.example/x", Ok(())),
            ("https://mcp.example", "http://auth.example/x", Err(NetworkRefusal::PlainHttp)),
            ("https://mcp.example", "https://127.0.0.1/x", Err(near(AddressKind::Loopback))),
            ("https://mcp.example", "http://localhost/x", Err(near(AddressKind::Loopback))),
            ("https://mcp.example", "http://a.localhost./x", Err(near(AddressKind::Loopback))),
            ("https://mcp.example", "https://[fd00::1]/x", Err(near(AddressKind::Private))),
            ("https://10.0.0.1", "https://10.0.0.2/x", Ok(())),
            ("https://10.0.0.1", "https://127.0.0.1/x", Err(near(AddressKind::Loopback))),
            ("http://localhost:1", "http://127.0.0.1:2/x", Ok(())),
            ("http://localhost:1", "https://10.0.0.2/x", Ok(())),
            ("http://localhost:1", "http://10.0.0.2/x", Err(NetworkRefusal::PlainHttp)),
            ("http://localhost:1", "http://169.254.169.254/latest", Err(special)),
            ("https://169.254.1.1", "https://127.0.0.1/x", Err(near(AddressKind::Loopback))),
            ("https://[fe80::1]", "https://10.0.0.1/x", Err(near(AddressKind::Private))),
        ] {
            let (server, url) = (Url::parse(server).expect(server), Url::parse(url).expect(url));
            assert_eq!(NetworkPolicy::for_server(&server).check_url(&url), expected, "{server} {url}");
        }
        let policy = NetworkPolicy::default();
        assert_eq!(policy.check_address("10.0.0.1".parse().unwrap()), Err(near(AddressKind::Private)));
        assert_eq!(policy.nearest(AddressKind::Private).check_address("10.0.0.1".parse().unwrap()), Ok(()));
    }

    #[test]
    fn a_server_at_a_special_address_is_not_this_machine() {
        for (address, network) in [
            ("169.254.1.1", AddressKind::Public),
            ("fe80::1", AddressKind::Public),
            ("0.0.0.0", AddressKind::Public),
            ("10.0.0.1", AddressKind::Private),
            ("::ffff:127.0.0.1", AddressKind::Loopback),
        ] {
            assert_eq!(server_network(address.parse().expect(address)), network, "{address}");
        }
    }

    #[test]
    fn a_redirect_leads_to_https_and_not_nearer() {
        let from = Url::parse("https://a.example/x?y").unwrap();
        let policy = NetworkPolicy::default();
        for (location, expected) in [
            ("/z?q", Ok("https://a.example/z?q")),
            ("https://b.example", Ok("https://b.example")),
            ("http://a.example/z", Err(NetworkRefusal::PlainHttp)),
            ("https://127.0.0.1/", Err(NetworkRefusal::Near(AddressKind::Loopback))),
            ("//b.example", Err(NetworkRefusal::Redirect(BadUrl::Scheme))),
            ("z", Err(NetworkRefusal::Redirect(BadUrl::Scheme))),
            ("file:///etc/passwd", Err(NetworkRefusal::Redirect(BadUrl::Scheme))),
        ] {
            let target = policy.check_redirect(&from, location);
            assert_eq!(target.as_ref().map(Url::as_str), expected.as_ref().map(|url| *url), "{location}");
        }
        let local = Url::parse("https://localhost/x").unwrap();
        let policy = NetworkPolicy::for_server(&local);
        assert_eq!(policy.check_redirect(&local, "http://localhost/x"), Err(NetworkRefusal::PlainHttp));
    }
}
