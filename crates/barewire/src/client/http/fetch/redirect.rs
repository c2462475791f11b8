//! Decides whether to follow a 3xx response, and to which URL.

use std::fmt;

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
