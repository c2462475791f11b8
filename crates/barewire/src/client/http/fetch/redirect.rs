//! A 3xx answer -> where to go next, or why not.

use std::fmt;

use http::header::HeaderValue;
use http::{Method, StatusCode};

use super::url::Url;

/// Why a redirect is not followed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RedirectError {
    /// There was one redirect after the other.
    TooMany {
        /// So many were followed.
        followed: usize,
    },
    /// It would turn the request into a GET, or leave open whether it does. A message must not get lost that way.
    ChangesMethod {
        /// What was sent.
        method: Method,
        /// What was answered.
        status: StatusCode,
    },
    /// It does not say where to go.
    NoLocation,
    /// It leads to something that is not a URL that we follow.
    Location(&'static str),
    /// It leads from TLS to plain text.
    Downgrade {
        /// Where to.
        to: String,
    },
    /// It leads from another machine to this one, where it could reach what listens for this machine alone.
    ToThisMachine {
        /// Where to.
        to: String,
    },
}

/// Where an answer sends a request of this method; `None` if it is not a redirect.
pub(super) fn next(
    method: &Method,
    status: StatusCode,
    location: Option<&HeaderValue>,
    at: &Url,
    followed: usize,
) -> Result<Option<Url>, RedirectError> {
    match (status.as_u16(), method) {
        (307 | 308, _) | (301..=303, &Method::GET) => {}
        // Clients have turned a POST into a GET for these for so long that servers count on it (RFC 9110, 15.4).
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
                write!(f, "it goes on after {followed} of them: is it a circle? use the URL where it ends")
            }
            Self::ChangesMethod { method, status } => write!(
                f,
                "{} does not keep a {method}, and a message that becomes a GET is lost: use the URL that it leads to \
                 (a server that wants to be followed answers 307 or 308)",
                status.as_u16()
            ),
            Self::NoLocation => f.write_str("it does not say where to: there is no Location"),
            Self::Location(what) => write!(f, "its Location {what}"),
            Self::Downgrade { to } => write!(f, "it leads from TLS to plain text at {to}"),
            Self::ToThisMachine { to } => {
                write!(f, "it leads from another machine to this one, {to}: use that URL if it is meant")
            }
        }
    }
}

impl std::error::Error for RedirectError {}

/// One for TLS, one for the host, one for a slash at the end, and two to spare.
const MAX_REDIRECTS: usize = 5;
