//! Decides whether to follow a 3xx response, and to which URL.

use std::fmt;
use std::net::IpAddr;

use barewire_proto::auth::{AddressKind, server_network};
use http::header::HeaderValue;
use http::{Method, StatusCode};

use super::url::HttpUrl;

/// The reason why a redirect is not followed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RedirectError {
    /// There were too many redirects in a row.
    TooMany {
        /// The number of redirects that were followed.
        followed: usize,
    },
    /// With this status, clients may turn the request into a GET, which would lose the message.
    ChangesMethod {
        /// The method that was sent.
        method: Method,
        /// The status of the response.
        status: StatusCode,
    },
    /// The response has no `Location` header.
    NoLocation,
    /// The `Location` header is not a usable URL.
    Location(&'static str),
    /// The redirect leads from https to http.
    Downgrade {
        /// The target origin.
        to: String,
    },
    /// The redirect leads from another machine to this machine, where it could reach services that are only meant for
    /// local use.
    ToThisMachine {
        /// The target origin.
        to: String,
    },
}

/// Returns the target of a redirect; `None` if the response is not a redirect.
pub(super) fn next(
    method: &Method,
    status: StatusCode,
    location: Option<&HeaderValue>,
    at: &HttpUrl,
    followed: usize,
) -> Result<Option<HttpUrl>, RedirectError> {
    match (status.as_u16(), method) {
        (307 | 308, _) | (301..=303, &Method::GET) => {}
        // With these statuses, many clients turn a POST into a GET, and servers rely on that (RFC 9110, 15.4).
        (301..=303, method) => return Err(RedirectError::ChangesMethod { method: method.clone(), status }),
        _ => return Ok(None),
    }
    if followed >= MAX_REDIRECTS {
        return Err(RedirectError::TooMany { followed });
    }
    let location = location.ok_or(RedirectError::NoLocation)?;
    let location = location.to_str().map_err(|_| RedirectError::Location("has a character outside of ASCII"))?;
    let to = at.join(location).map_err(RedirectError::Location)?;
    let (here, there) = (at.origin(), to.origin());
    if here.is_secure() && !there.is_secure() {
        return Err(RedirectError::Downgrade { to: there.to_string() });
    }
    if there.is_loopback() && !here.is_loopback() {
        return Err(RedirectError::ToThisMachine { to: there.to_string() });
    }
    Ok(Some(to))
}

/// Returns the nearest network that may be connected to after a redirect to another origin, which the server at `address`
/// has sent: a server on the Internet leads no one into a private network, by a name neither. `before` is the result for
/// the redirect before. Without an address a proxy has connected, which looks names up itself.
pub(super) fn nearest(
    before: Option<AddressKind>,
    address: Option<IpAddr>,
    allows_private: bool,
) -> Option<AddressKind> {
    let least = if allows_private { AddressKind::Private } else { AddressKind::Public };
    let Some(address) = address else { return before };
    let kind = server_network(address).max(least);
    Some(before.map_or(kind, |before| before.min(kind)))
}

impl fmt::Display for RedirectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooMany { followed } => {
                write!(f, "there were already {followed} redirects: do they form a circle? use the final URL")
            }
            Self::ChangesMethod { method, status } => write!(
                f,
                "status {} may turn a {method} into a GET, which would lose the message: use the target URL instead \
                 (a server that redirects messages should use 307 or 308)",
                status.as_u16()
            ),
            Self::NoLocation => f.write_str("it has no Location header"),
            Self::Location(what) => write!(f, "its Location {what}"),
            Self::Downgrade { to } => write!(f, "it leads from https to plain http at {to}"),
            Self::ToThisMachine { to } => {
                write!(f, "it leads from another machine to this machine: use {to} directly if that is intended")
            }
        }
    }
}

impl std::error::Error for RedirectError {}

/// The maximum number of redirects: one for https, one for the host name, one for a trailing slash, and two spare.
const MAX_REDIRECTS: usize = 5;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_redirect_leads_into_no_nearer_network() {
        use AddressKind::{Loopback, Private, Public};
        let address = |text: &str| Some(text.parse().unwrap());
        for (before, from, allows_private, expected) in [
            (None, address("1.1.1.1"), false, Some(Public)),
            (None, address("1.1.1.1"), true, Some(Private)),
            (None, address("10.1.2.3"), false, Some(Private)),
            (None, address("127.0.0.1"), false, Some(Loopback)),
            // A server on the Internet sends on to one in a private network, or was sent to by it.
            (Some(Public), address("127.0.0.1"), false, Some(Public)),
            (Some(Loopback), address("1.1.1.1"), false, Some(Public)),
            // The metadata service of a cloud.
            (None, address("169.254.169.254"), false, Some(Public)),
            (None, None, false, None),
            (Some(Public), None, false, Some(Public)),
        ] {
            assert_eq!(nearest(before, from, allows_private), expected, "{before:?} {from:?} {allows_private}");
        }
    }
}
