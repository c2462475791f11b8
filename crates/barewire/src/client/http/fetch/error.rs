//! Fetch errors: the step that failed, the host, and a hint.

use std::error::Error;
use std::fmt::{self, Write as _};
use std::io;
use std::time::Duration;

use barewire_proto::auth::NetworkRefusal;
use barewire_proto::transcript::EscapeWriter;
use hyper_util::client::legacy;

use super::redirect::RedirectError;
use super::url::Origin;
use crate::peer::shown;

/// The reason why an HTTP request has no response, or only a part of a response.
///
/// The variants follow the order of events: settings, which are checked before anything is sent; then the steps of
/// connecting; then the exchange with the server. Errors contain host names, but no paths, queries or credentials.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum FetchError {
    /// The URL cannot be used.
    Url(&'static str),
    /// A header cannot be sent.
    Header {
        /// The name of the header.
        name: String,
        /// A description of the error.
        what: &'static str,
    },
    /// The certificates to trust cannot be read.
    Roots(String),
    /// The proxy setting cannot be used.
    ProxySetting {
        /// The name of the environment variable, or `proxy` for
        /// [`Endpoint::proxy`](crate::client::http::Endpoint::proxy).
        name: String,
        /// A description of the error.
        what: &'static str,
    },
    /// The token provider or the challenge handler failed.
    Token(String),
    /// The sign-in failed.
    #[cfg(feature = "oauth")]
    SignIn(Box<crate::client::oauth::SignInError>),
    /// The host name could not be resolved.
    Resolve {
        /// The host.
        host: String,
        /// The resolver's error.
        why: String,
    },
    /// The host has an address that the client must not connect to on behalf of a server elsewhere.
    Address {
        /// The host.
        host: String,
        /// The reason.
        why: NetworkRefusal,
    },
    /// The connection failed.
    Connect {
        /// The origin of the server.
        origin: String,
        /// The reason.
        why: String,
    },
    /// TLS failed: the server's certificate is not trusted, or the server does not speak TLS.
    Tls {
        /// The origin of the server.
        origin: String,
        /// The reason and a hint.
        why: String,
    },
    /// The proxy failed.
    Proxy {
        /// The proxy, without user and password.
        proxy: String,
        /// The reason.
        why: String,
    },
    /// A redirect was not followed.
    Redirect {
        /// The origin of the server that sent the redirect.
        origin: String,
        /// The reason.
        why: RedirectError,
    },
    /// The headers of the response did not arrive in time.
    TimedOut {
        /// The origin of the server.
        origin: String,
        /// The time limit.
        after: Duration,
    },
    /// The response is not readable HTTP/1.1.
    Answer {
        /// The origin of the server.
        origin: String,
        /// A description of the error.
        why: String,
    },
    /// The body is longer than the limit.
    TooLong {
        /// The origin of the server.
        origin: String,
        /// The limit in bytes.
        limit: usize,
    },
    /// The connection ended before the response was complete.
    Reset {
        /// The origin of the server.
        origin: String,
        /// A description of the error.
        why: String,
    },
}

impl FetchError {
    /// Whether the server might have received the request. If `false`, it is safe to send the request again.
    pub fn may_have_been_sent(&self) -> bool {
        match self {
            Self::Url(_) | Self::Header { .. } | Self::Roots(_) | Self::ProxySetting { .. } | Self::Token(_) => false,
            // The server has refused the request, or it was not sent yet.
            #[cfg(feature = "oauth")]
            Self::SignIn(_) => false,
            Self::Resolve { .. } | Self::Address { .. } | Self::Connect { .. } => false,
            Self::Tls { .. } | Self::Proxy { .. } => false,
            Self::Redirect { .. } | Self::TimedOut { .. } | Self::Answer { .. } => true,
            Self::TooLong { .. } | Self::Reset { .. } => true,
        }
    }

    /// Converts an error of the connection pool.
    pub(super) fn of_request(origin: &Origin, error: &legacy::Error) -> Self {
        match find::<Self>(error) {
            Some(ours) => ours.clone(),
            None => Self::of_exchange(origin, error),
        }
    }

    /// Converts an error that hyper reports during an exchange.
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
                let hint = if origin.is_secure() { "" } else { "; does this port expect https://?" };
                Self::Answer { origin: name, why: format!("not HTTP/1.1: {why}{hint}") }
            }
            // hyper's own text speaks of a "message", which the user would take for an MCP message.
            Some(error) if error.is_incomplete_message() || error.is_closed() || error.is_canceled() => {
                Self::Reset { origin: name, why: "the connection was closed before the response was complete".into() }
            }
            _ => Self::Reset { origin: name, why },
        }
    }

    /// Converts an error of the TCP connector.
    pub(super) fn of_tcp(origin: &Origin, error: &(dyn Error + 'static)) -> Self {
        match find::<ResolveError>(error) {
            Some(ResolveError::Lookup(why)) => {
                Self::Resolve { host: origin.host().to_owned(), why: shown(&why.to_string()) }
            }
            Some(ResolveError::Refused(why)) => Self::Address { host: origin.host().to_owned(), why: *why },
            None => Self::Connect { origin: origin.to_string(), why: innermost(error) },
        }
    }

    /// Converts an error of the TLS handshake.
    pub(super) fn of_handshake(origin: &Origin, error: &io::Error) -> Self {
        match find_tls(error) {
            Some(tls) => Self::of_tls(origin, tls),
            None if error.kind() == io::ErrorKind::UnexpectedEof => {
                let why = "the connection was closed during the TLS handshake; does this port expect http://?";
                Self::Tls { origin: origin.to_string(), why: why.into() }
            }
            None => Self::Tls { origin: origin.to_string(), why: innermost(error) },
        }
    }

    fn of_tls(origin: &Origin, error: &rustls::Error) -> Self {
        use rustls::CertificateError as Bad;
        let hint = match error {
            rustls::Error::InvalidMessage(_) => "; does this port expect http://?",
            rustls::Error::InvalidCertificate(Bad::UnknownIssuer | Bad::BadSignature) => {
                "; to trust its authority, set SSL_CERT_FILE to a PEM file with it, or add it to the endpoint"
            }
            rustls::Error::InvalidCertificate(Bad::NotValidForName | Bad::NotValidForNameContext { .. }) => {
                "; use the name in the certificate"
            }
            rustls::Error::InvalidCertificate(Bad::Expired | Bad::ExpiredContext { .. }) => {
                "; the server needs a new certificate, unless this machine's clock is wrong"
            }
            _ => "",
        };
        Self::Tls { origin: origin.to_string(), why: format!("{}{hint}", shown(&error.to_string())) }
    }
}

impl fmt::Display for FetchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let f = &mut EscapeWriter::new(f);
        match self {
            Self::Url(what) => write!(f, "the URL {what}"),
            Self::Header { name, what } => write!(f, "the header {} {what}", shown(name)),
            Self::Roots(why) => write!(f, "the certificates to trust cannot be read: {why}"),
            Self::ProxySetting { name, what } => write!(f, "the proxy in {name} {what}"),
            Self::Token(why) => write!(f, "no token for the request: {why}"),
            #[cfg(feature = "oauth")]
            Self::SignIn(error) => write!(f, "{error}"),
            Self::Resolve { host, why } => {
                write!(f, "the host name {} cannot be resolved: {why}; is it spelled correctly?", shown(host))
            }
            Self::Address { host, why } => write!(f, "{} is not contacted: {why}", shown(host)),
            Self::Connect { origin, why } => {
                write!(f, "cannot connect to {}: {why}; is the server running?", shown(origin))
            }
            Self::Tls { origin, why } => write!(f, "TLS with {} failed: {why}", shown(origin)),
            Self::Proxy { proxy, why } => write!(f, "the proxy {} failed: {why}", shown(proxy)),
            Self::Redirect { origin, why } => {
                write!(f, "the redirect from {} was not followed: {why}", shown(origin))
            }
            Self::TimedOut { origin, after } => {
                write!(f, "{} did not respond within {after:?}", shown(origin))
            }
            Self::Answer { origin, why } => {
                write!(f, "the response of {} cannot be read: {why}", shown(origin))
            }
            Self::TooLong { origin, limit } => {
                write!(f, "the response of {} is longer than {limit} bytes", shown(origin))
            }
            Self::Reset { origin, why } => write!(f, "the connection to {} ended: {why}", shown(origin)),
        }
    }
}

impl Error for FetchError {}

/// An error of the resolver. It is a separate type so that it can be found among the sources of the connector's errors.
#[derive(Debug)]
pub(super) enum ResolveError {
    Lookup(io::Error),
    /// No address of the host may be connected to.
    Refused(NetworkRefusal),
}

impl fmt::Display for ResolveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lookup(error) => fmt::Display::fmt(error, f),
            Self::Refused(why) => fmt::Display::fmt(why, f),
        }
    }
}

impl Error for ResolveError {}

fn chain<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |&error| error.source())
}

fn find<'a, E: Error + 'static>(error: &'a (dyn Error + 'static)) -> Option<&'a E> {
    chain(error).find_map(<dyn Error>::downcast_ref::<E>)
}

/// Finds a TLS error. An I/O error does not list the error that it wraps among its sources, so the wrapped error is
/// looked up separately.
fn find_tls<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a rustls::Error> {
    let inside = |error: &'a (dyn Error + 'static)| error.downcast_ref::<io::Error>()?.get_ref()?.downcast_ref();
    chain(error).find_map(|error| inside(error).or_else(|| error.downcast_ref()))
}

/// Returns the text of the innermost error. The outer errors only say that something has failed.
fn innermost(error: &(dyn Error + 'static)) -> String {
    shown(&chain(error).last().map(ToString::to_string).unwrap_or_default())
}
