//! Why a server cannot be reached over HTTP.

use std::fmt;
use std::io;
use std::net::SocketAddr;

use super::BadAccess;

/// Why nothing is served.
#[non_exhaustive]
pub enum HttpError {
    /// The address cannot be listened on.
    Bind(io::Error),
    /// Others can reach the address, and nobody said by which names.
    NoHosts(SocketAddr),
    /// A host or origin is none.
    Access(BadAccess),
    /// The URL of the protected resource is none.
    Resource,
    /// Streams without HTTP are not served like this.
    EveryFraming(&'static str),
}

impl fmt::Display for HttpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bind(error) => write!(f, "cannot listen: {error}"),
            Self::NoHosts(addr) => write!(
                f,
                "{addr} can be reached from other machines: say by which host names clients reach it, so that a page in a \
                 browser cannot reach it by another, or listen on 127.0.0.1"
            ),
            Self::Access(error) => write!(f, "{error}"),
            Self::Resource => f.write_str("the protected resource must be a URL with a scheme and a host"),
            Self::EveryFraming(where_) => {
                write!(f, "streams without HTTP say neither a host nor a token, so they are not served {where_}")
            }
        }
    }
}

/// As [`fmt::Display`] has it: this is what a `main` that returns an error prints.
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
