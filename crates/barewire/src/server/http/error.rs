//! Errors that can occur when a server is started over HTTP.

use std::fmt;
use std::io;
use std::net::SocketAddr;

use super::BadAccess;

/// The reason why a server could not be started over HTTP.
#[non_exhaustive]
pub enum HttpError {
    /// Listening on the address failed.
    Bind(io::Error),
    /// Other machines can reach the address, but [`HttpBuilder::hosts`](super::HttpBuilder::hosts) was not called.
    NoHosts(SocketAddr),
    /// A host or an origin is not valid.
    Access(BadAccess),
    /// The URL of the protected resource is not valid.
    Resource,
    /// The settings of the authentication are not valid.
    Authentication(String),
    /// An entry of the server requires scopes, but no request is authenticated.
    Scopes,
    /// [`HttpBuilder::every_framing`](super::HttpBuilder::every_framing) is not allowed with the other settings.
    EveryFraming(&'static str),
    /// This path cannot be one of the paths for health and metrics, because it is no path, or because it is another path
    /// of the server.
    MonitoringPath(String),
}

impl fmt::Display for HttpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bind(error) => write!(f, "cannot listen: {error}"),
            Self::NoHosts(addr) => write!(
                f,
                "{addr} can be reached from other machines: set the host names that clients use, so that a web \
                 page cannot use another name, or listen on 127.0.0.1"
            ),
            Self::Access(error) => write!(f, "{error}"),
            Self::Resource => f.write_str("the protected resource must be a URL with a scheme and a host"),
            Self::Authentication(why) => write!(f, "the authentication cannot work: {why}"),
            Self::Scopes => f.write_str(
                "a tool, prompt or resource requires a scope, which only authenticated requests have: add an \
                 authentication, or remove the scope",
            ),
            Self::EveryFraming(where_) => {
                write!(f, "streams without HTTP carry neither a host nor a token, so they cannot be served {where_}")
            }
            Self::MonitoringPath(path) => write!(
                f,
                "health and metrics cannot be served at {path:?}: a path begins with a slash, and the endpoint, \
                 /healthz, /readyz and the metrics have different ones"
            ),
        }
    }
}

/// Prints the same text as [`fmt::Display`], because a `main` that returns an error prints its `Debug` text.
impl fmt::Debug for HttpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for HttpError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Bind(error) => Some(error),
            _ => None,
        }
    }
}
