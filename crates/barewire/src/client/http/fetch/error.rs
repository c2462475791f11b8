//! Why there is no answer, or not all of it: what failed, with which host, and what can be done.

use std::error::Error;
use std::time::Duration;
use std::{fmt, io};

use hyper_util::client::legacy;

use super::redirect::RedirectError;
use super::url::Origin;
use crate::peer::shown;

/// Why a request over HTTP has no answer.
///
/// The first ones are ours and are found before anything is sent; then come the ways to the server, in the order they are
/// taken, and then what the server did. Hosts are named; paths, queries and credentials are not.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum FetchError {
    /// The URL cannot be used.
    Url(&'static str),
    /// A header cannot be sent.
    Header {
        /// Which one.
        name: String,
        /// What is wrong with it.
        what: &'static str,
    },
    /// The certificates that were to be trusted cannot be.
    Roots(String),
    /// The setting of a proxy cannot be used.
    ProxySetting {
        /// The name of the environment's variable, or `proxy`.
        name: String,
        /// What is wrong with it.
        what: &'static str,
    },
    /// No token could be had for the request.
    Token(String),
    /// The host's name has no address.
    Resolve {
        /// The host.
        host: String,
        /// What the resolver said.
        why: String,
    },
    /// No connection came about.
    Connect {
        /// With whom.
        origin: String,
        /// Why not.
        why: String,
    },
    /// There is a connection, but the server did not prove who it is, or does not speak TLS.
    Tls {
        /// With whom.
        origin: String,
        /// What is wrong, and what can be done.
        why: String,
    },
    /// The proxy did not lead to the server.
    Proxy {
        /// The proxy, without user and password.
        proxy: String,
        /// Why not.
        why: String,
    },
    /// The server sent us to where we do not go.
    Redirect {
        /// Who did.
        origin: String,
        /// Why not.
        why: RedirectError,
    },
    /// The server did not begin to answer in time.
    TimedOut {
        /// Who was asked.
        origin: String,
        /// How long it was waited for.
        after: Duration,
    },
    /// What came back is not HTTP that we read.
    Answer {
        /// From whom.
        origin: String,
        /// What is wrong with it.
        why: String,
    },
    /// The body is longer than was wanted.
    TooLong {
        /// From whom.
        origin: String,
        /// So many bytes were wanted.
        limit: usize,
    },
    /// The connection ended before the answer did.
    Reset {
        /// With whom.
        origin: String,
        /// How.
        why: String,
    },
}

impl FetchError {
    /// Whether the server may have got the request. If not, sending it again does nothing twice.
    pub fn may_have_been_sent(&self) -> bool {
        match self {
            Self::Url(_) | Self::Header { .. } | Self::Roots(_) | Self::ProxySetting { .. } | Self::Token(_) => false,
            Self::Resolve { .. } | Self::Connect { .. } | Self::Tls { .. } | Self::Proxy { .. } => false,
            Self::Redirect { .. } | Self::TimedOut { .. } | Self::Answer { .. } => true,
            Self::TooLong { .. } | Self::Reset { .. } => true,
        }
    }

    /// What the pool says of a request.
    pub(super) fn of_request(origin: &Origin, error: &legacy::Error) -> Self {
        match find::<Self>(error) {
            Some(ours) => ours.clone(),
            None => Self::of_exchange(origin, error),
        }
    }

    /// What hyper says of an exchange that has begun.
    pub(super) fn of_exchange(origin: &Origin, error: &(dyn Error + 'static)) -> Self {
        let name = origin.to_string();
        if let Some(tls) = find_tls(error) {
            return Self::of_tls(origin, tls);
        }
        let why = innermost(error);
        match find::<hyper::Error>(error) {
            Some(error) if error.is_parse_too_large() => {
                let why = format!("its headers are longer than {} KiB", super::MAX_HEAD_BYTES / 1024);
                Self::Answer { origin: name, why }
            }
            Some(error) if error.is_parse() => {
                let hint = if origin.is_secure() { "" } else { "; does that port want https:// instead?" };
                Self::Answer { origin: name, why: format!("it is not HTTP/1.1: {why}{hint}") }
            }
            // hyper's own words for it are about messages, and a user's message is another one.
            Some(error) if error.is_incomplete_message() || error.is_closed() || error.is_canceled() => {
                Self::Reset { origin: name, why: "it was closed before the answer was complete".into() }
            }
            _ => Self::Reset { origin: name, why },
        }
    }

    /// What the connector says of TCP.
    pub(super) fn of_tcp(origin: &Origin, error: &(dyn Error + 'static)) -> Self {
        match find::<ResolveError>(error) {
            Some(ResolveError(why)) => Self::Resolve { host: origin.host().to_owned(), why: shown(&why.to_string()) },
            None => Self::Connect { origin: origin.to_string(), why: innermost(error) },
        }
    }

    /// What came of a TLS handshake.
    pub(super) fn of_handshake(origin: &Origin, error: &io::Error) -> Self {
        match find_tls(error) {
            Some(tls) => Self::of_tls(origin, tls),
            None if error.kind() == io::ErrorKind::UnexpectedEof => {
                let why = "the connection was closed instead of a TLS handshake; does that port want http:// instead?";
                Self::Tls { origin: origin.to_string(), why: why.into() }
            }
            None => Self::Tls { origin: origin.to_string(), why: innermost(error) },
        }
    }

    fn of_tls(origin: &Origin, error: &rustls::Error) -> Self {
        use rustls::CertificateError as Bad;
        let hint = match error {
            rustls::Error::InvalidMessage(_) => "; does that port want http:// instead?",
            rustls::Error::InvalidCertificate(Bad::UnknownIssuer | Bad::BadSignature) => {
                "; if its authority is to be trusted, name a PEM file with it in SSL_CERT_FILE, or add it to the endpoint"
            }
            rustls::Error::InvalidCertificate(Bad::NotValidForName | Bad::NotValidForNameContext { .. }) => {
                "; use the name that the certificate is for"
            }
            rustls::Error::InvalidCertificate(Bad::Expired | Bad::ExpiredContext { .. }) => {
                "; the server needs a new one, if the clock of this machine is right"
            }
            _ => "",
        };
        Self::Tls { origin: origin.to_string(), why: format!("{}{hint}", shown(&error.to_string())) }
    }
}

impl fmt::Display for FetchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Url(what) => write!(f, "the URL {what}"),
            Self::Header { name, what } => write!(f, "the header {} {what}", shown(name)),
            Self::Roots(why) => write!(f, "the certificates to be trusted cannot be read: {why}"),
            Self::ProxySetting { name, what } => write!(f, "the proxy in {name} {what}"),
            Self::Token(why) => write!(f, "no token for the request: {why}"),
            Self::Resolve { host, why } => {
                write!(f, "the name {} has no address: {why}; is it spelt right?", shown(host))
            }
            Self::Connect { origin, why } => {
                write!(f, "no connection to {}: {why}; is the server running there?", shown(origin))
            }
            Self::Tls { origin, why } => write!(f, "no TLS with {}: {why}", shown(origin)),
            Self::Proxy { proxy, why } => write!(f, "the proxy {} does not help: {why}", shown(proxy)),
            Self::Redirect { origin, why } => {
                write!(f, "the redirect of {} is not followed: {why}", shown(origin))
            }
            Self::TimedOut { origin, after } => {
                write!(f, "{} did not answer within {after:?}", shown(origin))
            }
            Self::Answer { origin, why } => {
                write!(f, "what {} answered cannot be read: {why}", shown(origin))
            }
            Self::TooLong { origin, limit } => {
                write!(f, "what {} answered is longer than {limit} bytes", shown(origin))
            }
            Self::Reset { origin, why } => write!(f, "the connection to {} ended: {why}", shown(origin)),
        }
    }
}

impl Error for FetchError {}

/// A name that has no address, as the resolver reports it through the layers of the pool.
#[derive(Debug)]
pub(super) struct ResolveError(pub(super) io::Error);

impl fmt::Display for ResolveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl Error for ResolveError {}

fn chain<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |&error| error.source())
}

fn find<'a, E: Error + 'static>(error: &'a (dyn Error + 'static)) -> Option<&'a E> {
    chain(error).find_map(<dyn Error>::downcast_ref::<E>)
}

/// An I/O error does not count what it wraps among its sources.
fn find_tls<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a rustls::Error> {
    let inside = |error: &'a (dyn Error + 'static)| error.downcast_ref::<io::Error>()?.get_ref()?.downcast_ref();
    chain(error).find_map(|error| inside(error).or_else(|| error.downcast_ref()))
}

/// What the lowest layer says: the ones above say only that there is one below.
fn innermost(error: &(dyn Error + 'static)) -> String {
    shown(&chain(error).last().map(ToString::to_string).unwrap_or_default())
}
